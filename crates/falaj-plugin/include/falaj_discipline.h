/* A discipline for falaj, in a shared library. Version 1.
 *
 * The library exports one constant, `falaj_discipline`. Its functions decide which head-of-line packet goes on a link
 * next; falaj keeps the packets, queues, limits, time and the link. docs/how-to/plugin.md shows how to write, build and try one.
 *
 * An instance serves one direction of one link. One thread at a time calls it, though not always the same thread. Meanwhile other
 * threads may call other instances, so the functions must not write to static variables. `create` may allocate memory;
 * elsewhere allocating memory delays the packet. The functions read no clock: time is an argument, in nanoseconds since the link began.
 *
 * Flows are numbers from 0 on, in the order of the scenario.
 */
#ifndef FALAJ_DISCIPLINE_H
#define FALAJ_DISCIPLINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value of `abi`: a magic number, with the version in its last two bytes. */
#define FALAJ_ABI UINT32_C(0xfa1a0001)

/* `flags`: the link is never idle while any flow has a packet. */
#define FALAJ_WORK_CONSERVING UINT32_C(1)

/* The decisions that `next` returns. */
enum falaj_decision {
    FALAJ_IDLE = 0,   /* nothing is sent until a packet arrives */
    FALAJ_SERVE = 1,  /* the head of `flow` is sent: `take` follows */
    FALAJ_WAIT = 2,   /* nothing is sent before `time`, which is later than now */
    FALAJ_DROP = 3,   /* the head of `flow` is dropped: `changed` follows, and `next` again */
    FALAJ_FAILED = 4  /* the discipline has failed; `why` may give the reason */
};

/* The unit of a parameter's number. */
enum falaj_unit {
    FALAJ_TEXT = 0,   /* no unit: `number` is 0 */
    FALAJ_NUMBER = 1, /* a whole number, written without a unit */
    FALAJ_RATE = 2,   /* bits a second: "10mbit" */
    FALAJ_SPAN = 3,   /* nanoseconds: "30us" */
    FALAJ_BYTES = 4,  /* bytes: "1500B" */
    FALAJ_PACKETS = 5 /* packets: "20p" */
};

/* The rate of a link on which a packet takes no time. */
#define FALAJ_UNLIMITED UINT64_MAX
/* `max_packets` of a queue whose limit is in bytes. */
#define FALAJ_UNBOUNDED UINT32_MAX
/* `flow` of a refusal that concerns no flow. */
#define FALAJ_NO_FLOW UINT32_MAX

/* A parameter, from `with = { … }` of the scheduler or of a flow. */
struct falaj_param {
    const char *name;
    const char *text; /* as it was written */
    uint64_t number;  /* the same in base units, 500000000 for "500ms" */
    uint32_t unit;    /* of enum falaj_unit */
    uint32_t reserved;
};

struct falaj_flow {
    const struct falaj_param *params;
    uint64_t max_bytes;   /* limit of its queue; UINT64_MAX if the limit is in packets */
    uint32_t max_packets; /* limit of its queue; FALAJ_UNBOUNDED if the limit is in bytes */
    uint32_t param_count;
};

/* The setup of an instance. Its memory is freed when `create` returns: copy the parts that the instance needs. */
struct falaj_setup {
    const struct falaj_flow *flows;
    const struct falaj_param *params;
    uint64_t rate; /* bits a second, or FALAJ_UNLIMITED */
    uint32_t flow_count;
    uint32_t param_count;
    uint32_t largest; /* bytes of the largest packet, as the link accounts it */
    uint32_t reserved;
};

/* The reason for which `create` returns NULL. Texts end with a zero. */
struct falaj_refusal {
    uint32_t flow;    /* FALAJ_NO_FLOW unless a flow's parameter is wrong */
    char what[256];   /* the error: "a quantum of 10 B is too small" */
    char help[256];   /* the remedy: "at least 1514B" */
};

/* A queue as it is at the moment of a call. */
struct falaj_queue {
    uint64_t tag;     /* the value that `arrived` returned for the head */
    uint64_t bytes;   /* bytes queued, a packet on the wire included */
    uint32_t head;    /* bytes of the head; 0 if the queue is empty */
    uint32_t packets; /* packets queued, a packet on the wire included */
};

struct falaj_answer {
    uint64_t time;
    const char *why; /* a reason, or NULL; its text must stay valid until the next call */
    uint32_t flow;
    uint32_t reserved;
};

/* A transmission that begins. */
struct falaj_sent {
    uint64_t start; /* first bit out */
    uint64_t end;   /* last bit out */
    uint32_t bytes; /* as the link accounts them */
    uint32_t reserved;
};

/* The guarantee to a flow. falaj does not prove it: `falaj compare` and `falaj sim` test it. */
struct falaj_guarantee {
    uint64_t rate;    /* bits a second, while the flow has packets */
    uint64_t latency; /* longest time until that rate holds, in nanoseconds */
    uint64_t delay;   /* longest delay of a packet that is not dropped, from last bit in to last bit out, in nanoseconds */
};

/* The discipline. `self` is the instance that `create` returned; `queues` has one entry for each flow, and must not be written to. */
struct falaj_discipline {
    uint32_t abi;   /* FALAJ_ABI */
    uint32_t flags; /* FALAJ_WORK_CONSERVING, or 0 */
    const char *name;

    /* Returns a new instance; or NULL, with the reason in `refusal`. The queues are empty. */
    void *(*create)(const struct falaj_setup *setup, struct falaj_refusal *refusal);
    /* Frees an instance. */
    void (*destroy)(void *self);
    /* Flow `flow` had nothing to send and now has a head. */
    void (*ready)(void *self, const struct falaj_queue *queues, uint32_t flow, uint64_t now);
    /* The link is free: returns a falaj_decision. `next` must not charge the flow yet. The packet of the last `take` has left its queue: here,
     * and not in `take`, `queues` shows whether its flow has run empty. */
    uint32_t (*next)(void *self, const struct falaj_queue *queues, uint64_t now, struct falaj_answer *answer);
    /* The transmission of the head of `flow` begins: charge the flow now. The packet stays in its queue until its last bit has
     * left. */
    void (*take)(void *self, const struct falaj_queue *queues, uint32_t flow, const struct falaj_sent *sent);

    /* All functions below may be NULL. */

    /* A packet of `bytes` joins the queue of `flow`: returns the tag that it carries. `ready` follows if it is the head. */
    uint64_t (*arrived)(void *self, const struct falaj_queue *queues, uint32_t flow, uint32_t bytes, uint64_t now);
    /* `flow` has another head, or none, for a reason other than `take`. */
    void (*changed)(void *self, const struct falaj_queue *queues, uint32_t flow, uint64_t now);
    /* Takes over from an instance of this library that was made from another setup: queues, tags and a packet on the wire
     * are as `old` left them; flows that `old` did not have are new and empty. `old` is destroyed afterwards.
     * If this is NULL, the queued packets arrive again at the new instance. */
    void (*migrate_from)(void *self, void *old, const struct falaj_queue *queues, uint64_t now);
    /* Returns nonzero if this empty flow owes no service and is owed none, so that another flow may get its number.
     * If this is NULL, every empty flow is reusable. */
    int (*is_reusable)(const void *self, uint32_t flow, uint64_t now);
    /* Writes the guarantee of `flow` and returns nonzero; returns 0 if it has none. If this is NULL, no flow has one. */
    int (*guarantee)(const void *self, uint32_t flow, struct falaj_guarantee *guarantee);
};

/* The constant that the library exports. */
extern const struct falaj_discipline falaj_discipline;

#ifdef __cplusplus
}
#endif

#endif
