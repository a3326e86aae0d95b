/* Serves the first flow that has a packet, and after the fourth packet breaks the contract in the
   way that FAULT names (with NULLS and NULLS_WITH_REASON, when the instance is created). */
#include "falaj_discipline.h"

#include <stddef.h>
#include <stdlib.h>

enum { NONE, UNKNOWN_FLOW, EMPTY_FLOW, TWICE, PAST, NOW, NEVER, IDLE, WAITS, ENDLESS, NO_ANSWER, FAILS, FAILS_SILENTLY, DROPS_EMPTY,
       NULLS, NULLS_WITH_REASON };

struct naughty {
    uint32_t flow_count, taken, last, drops;
};

static void *create(const struct falaj_setup *setup, struct falaj_refusal *refusal)
{
    struct naughty *naughty = calloc(1, sizeof *naughty);
    (void)refusal;
    naughty->flow_count = setup->flow_count;
    if (FAULT == NULLS || FAULT == NULLS_WITH_REASON) {
        free(naughty);
        if (FAULT == NULLS_WITH_REASON) {
            refusal->flow = 1;
            for (size_t n = 0; n < sizeof refusal->what; n++)
                refusal->what[n] = 'x'; /* without an end */
        }
        return NULL;
    }
    return naughty;
}

static void ready(void *self, const struct falaj_queue *queues, uint32_t f, uint64_t now)
{
    (void)self, (void)queues, (void)f, (void)now;
}

static uint32_t next(void *self, const struct falaj_queue *queues, uint64_t now, struct falaj_answer *answer)
{
    struct naughty *naughty = self;
    uint32_t first = 0, empty = 0;
    while (first < naughty->flow_count && !queues[first].head)
        first++;
    while (empty < naughty->flow_count && queues[empty].head)
        empty++;
    answer->flow = first;
    if (naughty->taken < 4 || first == naughty->flow_count)
        return first < naughty->flow_count ? FALAJ_SERVE : FALAJ_IDLE;
    switch (FAULT) {
    case UNKNOWN_FLOW: answer->flow = naughty->flow_count; return FALAJ_SERVE;
    case EMPTY_FLOW: answer->flow = empty; return FALAJ_SERVE;
    case TWICE: answer->flow = naughty->last; return FALAJ_SERVE;
    case PAST: answer->time = now - 1; return FALAJ_WAIT;
    case NOW: answer->time = now; return FALAJ_WAIT;
    case NEVER: answer->time = UINT64_MAX; return FALAJ_WAIT;
    case IDLE: return FALAJ_IDLE;
    case WAITS: answer->time = now + 1000; return FALAJ_WAIT;
    case ENDLESS: answer->time = now + 1; return FALAJ_WAIT;
    case NO_ANSWER: return 77;
    case FAILS: answer->why = "it is Sunday"; return FALAJ_FAILED;
    case FAILS_SILENTLY: return FALAJ_FAILED;
    case DROPS_EMPTY: answer->flow = empty; return FALAJ_DROP;
    default: return FALAJ_SERVE;
    }
}

static void take(void *self, const struct falaj_queue *queues, uint32_t f, const struct falaj_sent *sent)
{
    struct naughty *naughty = self;
    (void)queues, (void)sent;
    naughty->last = f;
    naughty->taken++;
}

const struct falaj_discipline falaj_discipline = {
#ifdef ABI
    .abi = ABI,
#else
    .abi = FALAJ_ABI,
#endif
    .flags = FAULT == WAITS ? FALAJ_WORK_CONSERVING : 0,
    .name = "naughty",
    .create = create,
    .destroy = free,
    .ready = ready,
#ifndef WITHOUT_NEXT
    .next = next,
#endif
    .take = take,
};
#ifdef WITHOUT_NEXT
uint32_t (*unused)(void *, const struct falaj_queue *, uint64_t, struct falaj_answer *) = next;
#endif
