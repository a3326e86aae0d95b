/* Deficit round robin, like falaj's own `drr`: each visit adds the flow's quantum to its deficit. The flow sends while the deficit
 * covers its head-of-line packet. It keeps the rest of the deficit for the next visit, and loses it when its queue is empty.
 *
 *   cc -O2 -shared -fPIC -I ../../../crates/falaj-plugin/include -o libdrr.so drr.c
 */
#include "falaj_discipline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX             /* no flow */
#define OUTSIDE (UINT32_MAX - 1)    /* the flow is not in the active list */

struct flow {
    uint32_t quantum;
    uint32_t deficit;
    uint32_t next; /* the next flow in the active list, if there is one; OUTSIDE: this flow is not in the list */
};

struct drr {
    uint32_t first, last; /* first and last flow of the active list */
    uint32_t flow_count;
    int visiting; /* nonzero if the first flow has got its quantum for this visit */
    struct flow flows[];
};

static void *refused(struct falaj_refusal *refusal, uint32_t flow, const char *what, uint32_t largest)
{
    refusal->flow = flow;
    snprintf(refusal->what, sizeof refusal->what, "%s", what);
    snprintf(refusal->help, sizeof refusal->help,
             "`quantum` is a size: at least `%uB`, the largest packet as the link accounts it; at most 1 GiB", (unsigned)largest);
    return NULL;
}

static void *create(const struct falaj_setup *setup, struct falaj_refusal *refusal)
{
    struct drr *drr = calloc(1, sizeof *drr + setup->flow_count * sizeof drr->flows[0]);
    if (!drr) {
        refusal->flow = FALAJ_NO_FLOW;
        snprintf(refusal->what, sizeof refusal->what, "not enough memory");
        snprintf(refusal->help, sizeof refusal->help, "fewer flows take less memory");
        return NULL;
    }
    drr->first = drr->last = NONE;
    drr->flow_count = setup->flow_count;
    for (uint32_t f = 0; f < setup->flow_count; f++) {
        uint64_t quantum = setup->largest;
        for (uint32_t p = 0; p < setup->flows[f].param_count; p++) {
            const struct falaj_param *param = &setup->flows[f].params[p];
            if (strcmp(param->name, "quantum") || param->unit != FALAJ_BYTES) {
                free(drr);
                return refused(refusal, f, "the only parameter is `quantum`, a size", setup->largest);
            }
            quantum = param->number;
        }
        if (quantum < setup->largest || quantum > 1u << 30) {
            free(drr);
            return refused(refusal, f, "the `quantum` is out of range", setup->largest);
        }
        drr->flows[f] = (struct flow){ .quantum = (uint32_t)quantum, .next = OUTSIDE };
    }
    return drr;
}

static void ready(void *self, const struct falaj_queue *queues, uint32_t f, uint64_t now)
{
    struct drr *drr = self;
    (void)queues, (void)now;
    if (drr->flows[f].next != OUTSIDE)
        return; /* still in the list: the packet arrived while the flow's last one was sent, so the flow keeps its turn */
    drr->flows[f].next = NONE;
    if (drr->last == NONE)
        drr->first = f;
    else
        drr->flows[drr->last].next = f;
    drr->last = f;
}

/* Removes the first flow from the active list, which ends its visit, and returns it. */
static uint32_t leave(struct drr *drr)
{
    uint32_t f = drr->first;
    drr->first = drr->flows[f].next;
    drr->flows[f].next = OUTSIDE;
    if (drr->first == NONE)
        drr->last = NONE;
    drr->visiting = 0;
    return f;
}

static uint32_t next(void *self, const struct falaj_queue *queues, uint64_t now, struct falaj_answer *answer)
{
    struct drr *drr = self;
    while (drr->first != NONE) {
        uint32_t f = drr->first;
        struct flow *flow = &drr->flows[f];
        if (queues[f].head == 0) {
            leave(drr);
            flow->deficit = 0;
            continue;
        }
        if (!drr->visiting) {
            flow->deficit += flow->quantum;
            drr->visiting = 1;
        }
        if (queues[f].head <= flow->deficit) {
            answer->flow = f;
            return FALAJ_SERVE;
        }
        ready(drr, queues, leave(drr), now); /* moves to the end of the list */
    }
    return FALAJ_IDLE;
}

static void take(void *self, const struct falaj_queue *queues, uint32_t f, const struct falaj_sent *sent)
{
    struct drr *drr = self;
    (void)queues;
    drr->flows[f].deficit -= sent->bytes;
}

/* Takes over the active list and the deficits. A deficit above the flow's new quantum is reduced to it. */
static void migrate_from(void *self, void *old_self, const struct falaj_queue *queues, uint64_t now)
{
    struct drr *drr = self;
    const struct drr *old = old_self;
    (void)queues, (void)now;
    drr->first = old->first;
    drr->last = old->last;
    drr->visiting = old->visiting;
    for (uint32_t f = 0; f < old->flow_count && f < drr->flow_count; f++) {
        struct flow *flow = &drr->flows[f];
        flow->next = old->flows[f].next;
        flow->deficit = old->flows[f].deficit < flow->quantum ? old->flows[f].deficit : flow->quantum;
    }
}

const struct falaj_discipline falaj_discipline = {
    .abi = FALAJ_ABI,
    .flags = FALAJ_WORK_CONSERVING,
    .name = "deficit round robin, in C",
    .create = create,
    .destroy = free,
    .ready = ready,
    .next = next,
    .take = take,
    .migrate_from = migrate_from,
};
