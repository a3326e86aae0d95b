/* Always serves the longest queue, in bytes. */
#include "falaj_discipline.h"
#include <stdlib.h>

struct longest { uint32_t flow_count; };

static void *create(const struct falaj_setup *setup, struct falaj_refusal *refusal)
{
    struct longest *longest = calloc(1, sizeof *longest);
    (void)refusal;
    if (longest)
        longest->flow_count = setup->flow_count;
    return longest;
}

static void ready(void *self, const struct falaj_queue *queues, uint32_t flow, uint64_t now)
{
    (void)self, (void)queues, (void)flow, (void)now;
}

static uint32_t next(void *self, const struct falaj_queue *queues, uint64_t now, struct falaj_answer *answer)
{
    struct longest *longest = self;
    uint64_t most = 0;
    (void)now;
    for (uint32_t flow = 0; flow < longest->flow_count; flow++)
        if (queues[flow].head && queues[flow].bytes > most) {
            most = queues[flow].bytes;
            answer->flow = flow;
        }
    return most ? FALAJ_SERVE : FALAJ_IDLE;
}

static void take(void *self, const struct falaj_queue *queues, uint32_t flow, const struct falaj_sent *sent)
{
    (void)self, (void)queues, (void)flow, (void)sent;
}

const struct falaj_discipline falaj_discipline = {
    .abi = FALAJ_ABI, .flags = FALAJ_WORK_CONSERVING, .name = "the longest queue first",
    .create = create, .destroy = free, .ready = ready, .next = next, .take = take,
};
