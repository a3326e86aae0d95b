/* Serves first in, first out across all queues, by the tags of packets; declares a guarantee. */
#include "falaj_discipline.h"

#include <stdlib.h>

struct stamps {
    uint64_t rate, number;
    uint32_t flow_count, largest;
};

static void *create(const struct falaj_setup *setup, struct falaj_refusal *refusal)
{
    struct stamps *stamps = calloc(1, sizeof *stamps);
    (void)refusal;
    stamps->rate = setup->rate;
    stamps->flow_count = setup->flow_count;
    stamps->largest = setup->largest;
    return stamps;
}

static uint64_t arrived(void *self, const struct falaj_queue *queues, uint32_t f, uint32_t bytes, uint64_t now)
{
    struct stamps *stamps = self;
    (void)queues, (void)f, (void)bytes, (void)now;
    return ++stamps->number;
}

static void ready(void *self, const struct falaj_queue *queues, uint32_t f, uint64_t now)
{
    (void)self, (void)queues, (void)f, (void)now;
}

static uint32_t next(void *self, const struct falaj_queue *queues, uint64_t now, struct falaj_answer *answer)
{
    struct stamps *stamps = self;
    uint64_t least = UINT64_MAX;
    (void)now;
    for (uint32_t f = 0; f < stamps->flow_count; f++)
        if (queues[f].head && queues[f].tag < least) {
            least = queues[f].tag;
            answer->flow = f;
        }
    return least < UINT64_MAX ? FALAJ_SERVE : FALAJ_IDLE;
}

static void take(void *self, const struct falaj_queue *queues, uint32_t f, const struct falaj_sent *sent)
{
    (void)self, (void)queues, (void)f, (void)sent;
}

static int guarantee(const void *self, uint32_t f, struct falaj_guarantee *guarantee)
{
    const struct stamps *stamps = self;
    if (f > 0)
        return 0;
    guarantee->rate = stamps->rate / 2;
    guarantee->latency = stamps->largest;
    guarantee->delay = 7;
    return 1;
}

const struct falaj_discipline falaj_discipline = {
    .abi = FALAJ_ABI,
    .flags = FALAJ_WORK_CONSERVING,
    .name = "first in, first out",
    .create = create,
    .destroy = free,
    .ready = ready,
    .next = next,
    .take = take,
    .arrived = arrived,
    .guarantee = guarantee,
};
