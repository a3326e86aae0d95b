/* A time-of-day clock that jumps: each reading is an hour ahead of or behind the true time, in turn. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>
#include <sys/time.h>

static const long step = 3600;
static atomic_int turn;

static long by(void) { return atomic_fetch_add(&turn, 1) & 1 ? step : -step; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int done = next(clock, now);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)) now->tv_sec += by();
    return done;
}

int gettimeofday(struct timeval *now, void *zone) {
    int (*next)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int done = next(now, zone);
    if (done == 0) now->tv_sec += by();
    return done;
}

time_t time(time_t *at) {
    time_t (*next)(time_t *) = dlsym(RTLD_NEXT, "time");
    time_t now = next(NULL) + by();
    if (at) *at = now;
    return now;
}
