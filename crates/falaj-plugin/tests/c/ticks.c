/* Begins transmissions only at whole multiples of `tick`, and serves the first flow first. */
#include "falaj_discipline.h"

#include <stdlib.h>
#include <string.h>

struct ticks {
    uint64_t tick;
    uint32_t flow_count;
};

static void *create(const struct falaj_setup *setup, struct falaj_refusal *refusal)
{
    struct ticks *ticks = calloc(1, sizeof *ticks);
    (void)refusal;
    ticks->flow_count = setup->flow_count;
    for (uint32_t p = 0; p < setup->param_count; p++)
        if (!strcmp(setup->params[p].name, "tick") && setup->params[p].unit == FALAJ_SPAN)
            ticks->tick = setup->params[p].number;
    return ticks;
}

static void ready(void *self, const struct falaj_queue *queues, uint32_t f, uint64_t now)
{
    (void)self, (void)queues, (void)f, (void)now;
}

static uint32_t next(void *self, const struct falaj_queue *queues, uint64_t now, struct falaj_answer *answer)
{
    struct ticks *ticks = self;
    for (uint32_t f = 0; f < ticks->flow_count; f++)
        if (queues[f].head) {
            answer->flow = f;
            answer->time = (now / ticks->tick + 1) * ticks->tick;
            return now % ticks->tick ? FALAJ_WAIT : FALAJ_SERVE;
        }
    return FALAJ_IDLE;
}

static void take(void *self, const struct falaj_queue *queues, uint32_t f, const struct falaj_sent *sent)
{
    (void)self, (void)queues, (void)f, (void)sent;
}

const struct falaj_discipline falaj_discipline = {
    .abi = FALAJ_ABI,
    .name = "at ticks",
    .create = create,
    .destroy = free,
    .ready = ready,
    .next = next,
    .take = take,
};
