/* DRR++, after Zhang's thesis (chapter 3), like falaj's own `drr++`. Flows with `latency = "low"` form one round of deficit
 * round robin, and all other flows form another; the visits of the two rounds alternate. A flow of low latency waits for one
 * or two visits of other flows, not for a whole round. While one of the rounds is empty, only the other is visited.
 *
 * The table `with` of a flow may have `quantum`, a size, and `latency`, "low" or "normal". That of the scheduler may have
 * `form`: "modified", or "gated" as in the listing of the thesis (Tables 3.1 and 3.2). In the form "gated" a visit sends only
 * packets that were queued when it began.
 *
 *   cc -O2 -shared -fPIC -I ../../../crates/falaj-plugin/include -o libdrrpp.so drr_plus_plus.c
 */
#include "falaj_discipline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX             /* no flow */
#define OUTSIDE (UINT32_MAX - 1)    /* the flow is in no round */
#define QUANTUM_MAX (UINT32_C(1) << 30)

enum sort { NORMAL, LOW };

struct flow {
    enum sort sort;
    uint32_t quantum;
    uint32_t deficit;
    uint32_t next; /* the next flow in its round; NONE: the last one; OUTSIDE: not in the round */
};

struct round {
    uint32_t first, last;
    int visiting; /* nonzero if the first flow has got its quantum for this visit */
};

struct drrpp {
    struct round rounds[2]; /* the rounds, indexed by sort */
    enum sort turn;         /* the sort of the current visit, or of the last one */
    int gated;
    uint32_t inside;        /* if gated: packets that were queued when the visit began and are not sent yet */
    uint32_t flow_count;
    struct flow flows[];
};

static void *refused(struct drrpp *drrpp, struct falaj_refusal *refusal, uint32_t flow, const char *what, uint32_t largest)
{
    free(drrpp);
    refusal->flow = flow;
    snprintf(refusal->what, sizeof refusal->what, "%s", what);
    snprintf(refusal->help, sizeof refusal->help,
             "`quantum` is at least `%uB`, the largest packet, and at most 1 GiB; `latency` is `low` or `normal`; `form` is `modified` or `gated`",
             (unsigned)largest);
    return NULL;
}

/* Returns nonzero if the parameter has this name and this text. */
static int is_text(const struct falaj_param *param, const char *name, const char *text)
{
    return !strcmp(param->name, name) && !strcmp(param->text, text);
}

static void *create(const struct falaj_setup *setup, struct falaj_refusal *refusal)
{
    struct drrpp *drrpp = calloc(1, sizeof *drrpp + setup->flow_count * sizeof drrpp->flows[0]);
    if (!drrpp) {
        refusal->flow = FALAJ_NO_FLOW;
        snprintf(refusal->what, sizeof refusal->what, "not enough memory");
        snprintf(refusal->help, sizeof refusal->help, "fewer flows take less memory");
        return NULL;
    }
    drrpp->rounds[NORMAL] = drrpp->rounds[LOW] = (struct round){ .first = NONE, .last = NONE };
    drrpp->flow_count = setup->flow_count;
    for (uint32_t p = 0; p < setup->param_count; p++) {
        drrpp->gated = is_text(&setup->params[p], "form", "gated");
        if (!drrpp->gated && !is_text(&setup->params[p], "form", "modified"))
            return refused(drrpp, refusal, FALAJ_NO_FLOW, "the only parameter of the scheduler is `form`", setup->largest);
    }
    for (uint32_t f = 0; f < setup->flow_count; f++) {
        uint64_t quantum = setup->largest;
        enum sort sort = NORMAL;
        for (uint32_t p = 0; p < setup->flows[f].param_count; p++) {
            const struct falaj_param *param = &setup->flows[f].params[p];
            if (!strcmp(param->name, "quantum") && param->unit == FALAJ_BYTES)
                quantum = param->number;
            else if (is_text(param, "latency", "low"))
                sort = LOW;
            else if (!is_text(param, "latency", "normal"))
                return refused(drrpp, refusal, f, "the only parameters of a flow are `quantum` and `latency`", setup->largest);
        }
        if (quantum < setup->largest || quantum > QUANTUM_MAX)
            return refused(drrpp, refusal, f, "the `quantum` is out of range", setup->largest);
        drrpp->flows[f] = (struct flow){ .sort = sort, .quantum = (uint32_t)quantum, .next = OUTSIDE };
    }
    return drrpp;
}

/* Adds a flow to the end of its round. A flow that is already in the round keeps its place: its new packet arrived while its
 * last one was sent. */
static void join(struct drrpp *drrpp, uint32_t f)
{
    struct round *round = &drrpp->rounds[drrpp->flows[f].sort];
    if (drrpp->flows[f].next != OUTSIDE)
        return;
    drrpp->flows[f].next = NONE;
    if (round->last == NONE)
        round->first = f;
    else
        drrpp->flows[round->last].next = f;
    round->last = f;
}

/* Removes the first flow from the round, which ends its visit, and returns it. */
static uint32_t leave(struct drrpp *drrpp, struct round *round)
{
    uint32_t f = round->first;
    round->first = drrpp->flows[f].next;
    if (round->first == NONE)
        round->last = NONE;
    round->visiting = 0;
    drrpp->flows[f].next = OUTSIDE;
    return f;
}

static void ready(void *self, const struct falaj_queue *queues, uint32_t f, uint64_t now)
{
    (void)queues, (void)now;
    join(self, f);
}

static uint32_t next(void *self, const struct falaj_queue *queues, uint64_t now, struct falaj_answer *answer)
{
    struct drrpp *drrpp = self;
    (void)now;
    while (drrpp->rounds[NORMAL].first != NONE || drrpp->rounds[LOW].first != NONE) {
        if (drrpp->rounds[drrpp->turn].first == NONE)
            drrpp->turn = !drrpp->turn;
        struct round *round = &drrpp->rounds[drrpp->turn];
        uint32_t f = round->first;
        struct flow *flow = &drrpp->flows[f];
        int closed = drrpp->gated && round->visiting && drrpp->inside == 0;
        if (queues[f].head == 0 || closed) {
            flow->deficit = 0; /* the queue is empty, or the gate is closed: the flow loses the rest of its deficit */
        } else {
            if (!round->visiting) {
                round->visiting = 1;
                flow->deficit += flow->quantum;
                drrpp->inside = queues[f].packets;
            }
            if (queues[f].head <= flow->deficit) {
                answer->flow = f;
                return FALAJ_SERVE;
            }
        }
        leave(drrpp, round);
        if (queues[f].head)
            join(drrpp, f);
        drrpp->turn = !drrpp->turn;
    }
    return FALAJ_IDLE;
}

static void take(void *self, const struct falaj_queue *queues, uint32_t f, const struct falaj_sent *sent)
{
    struct drrpp *drrpp = self;
    (void)queues;
    drrpp->flows[f].deficit -= sent->bytes;
    if (drrpp->inside)
        drrpp->inside--;
}

/* Takes over the order of both rounds, the deficits and the current visit. In the new setup a flow may have another sort, and
 * another quantum, which limits its deficit. */
static void migrate_from(void *self, void *old_self, const struct falaj_queue *queues, uint64_t now)
{
    struct drrpp *drrpp = self;
    const struct drrpp *old = old_self;
    const struct round *current = &old->rounds[old->turn], *other = &old->rounds[!old->turn];
    (void)queues, (void)now;
    for (uint32_t f = 0; f < old->flow_count && f < drrpp->flow_count; f++) {
        uint32_t quantum = drrpp->flows[f].quantum;
        drrpp->flows[f].deficit = old->flows[f].deficit < quantum ? old->flows[f].deficit : quantum;
    }
    for (uint32_t f = current->first; f != NONE; f = old->flows[f].next)
        join(drrpp, f);
    for (uint32_t f = other->first; f != NONE; f = old->flows[f].next)
        join(drrpp, f);
    drrpp->turn = old->turn;
    drrpp->inside = old->inside;
    if (current->visiting) {
        drrpp->turn = drrpp->flows[current->first].sort;
        drrpp->rounds[drrpp->turn].visiting = 1; /* the visited flow joined first, so it is the first of its round */
    }
}

const struct falaj_discipline falaj_discipline = {
    .abi = FALAJ_ABI,
    .flags = FALAJ_WORK_CONSERVING,
    .name = "DRR++, in C",
    .create = create,
    .destroy = free,
    .ready = ready,
    .next = next,
    .take = take,
    .migrate_from = migrate_from,
};
