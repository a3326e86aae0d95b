/* Serves the first flow that has a packet. With the fourth packet it tries actions that no link
   needs: it opens files that are not its scenario's, SECRET among them, and makes system calls
   that it does not need. It reports the result of each on standard error. */
#define _GNU_SOURCE
#include "falaj_discipline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct trespasser {
    uint32_t flow_count, taken;
};

static void tell(const char *what, int failed)
{
    int why = errno;
    dprintf(2, "trespasser: %s: %s\n", what, failed ? strerrorname_np(why) : "done");
}

static void opens(const char *what, const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    tell(what, fd < 0);
    if (fd >= 0)
        close(fd);
}

static void trespass(void)
{
    static const struct {
        const char *name;
        long number;
    } calls[] = { { "setxattrat", 463 },    { "open_tree_attr", 467 }, { "file_getattr", 468 },
                  { "file_setattr", 469 },  { "of the future", 600 },  { "beyond all numbers", 100000 } };
    opens("reads a secret", SECRET, O_RDONLY);
    opens("writes a secret", SECRET, O_WRONLY);
    opens("reads passwords", "/etc/shadow", O_RDONLY);
    opens("writes the kernel's settings", "/proc/sys/kernel/core_pattern", O_WRONLY);
    opens("writes what root runs", SECRET ".cron", O_WRONLY | O_CREAT);
    opens("reads what others have open", "/proc/1/environ", O_RDONLY);
    tell("removes a secret", unlink(SECRET) < 0);
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++)
        tell(calls[n].name, syscall(calls[n].number, -1, 0, 0, 0, 0, 0) < 0);
}

static void *create(const struct falaj_setup *setup, struct falaj_refusal *refusal)
{
    struct trespasser *self = calloc(1, sizeof *self);
    (void)refusal;
    self->flow_count = setup->flow_count;
    return self;
}

static void ready(void *self, const struct falaj_queue *queues, uint32_t f, uint64_t now)
{
    (void)self, (void)queues, (void)f, (void)now;
}

static uint32_t next(void *self, const struct falaj_queue *queues, uint64_t now, struct falaj_answer *answer)
{
    struct trespasser *trespasser = self;
    (void)now;
    answer->flow = 0;
    while (answer->flow < trespasser->flow_count && !queues[answer->flow].head)
        answer->flow++;
    return answer->flow < trespasser->flow_count ? FALAJ_SERVE : FALAJ_IDLE;
}

static void take(void *self, const struct falaj_queue *queues, uint32_t f, const struct falaj_sent *sent)
{
    struct trespasser *trespasser = self;
    (void)queues, (void)f, (void)sent;
    if (++trespasser->taken == 4)
        trespass();
}

const struct falaj_discipline falaj_discipline = {
    .abi = FALAJ_ABI,
    .name = "trespasser",
    .create = create,
    .destroy = free,
    .ready = ready,
    .next = next,
    .take = take,
};
