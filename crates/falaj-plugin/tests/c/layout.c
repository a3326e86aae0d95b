/* Prints the sizes and offsets of all that the header declares. */
#include "falaj_discipline.h"

#include <stddef.h>
#include <stdio.h>

#define SIZE(t) printf(#t " %zu\n", sizeof(struct t))
#define AT(t, m) printf(#t "." #m " %zu\n", offsetof(struct t, m))

int main(void)
{
    printf("abi %u\n", (unsigned)FALAJ_ABI);
    printf("flags %u\n", (unsigned)FALAJ_WORK_CONSERVING);
    printf("decisions %d %d %d %d %d\n", FALAJ_IDLE, FALAJ_SERVE, FALAJ_WAIT, FALAJ_DROP, FALAJ_FAILED);
    printf("units %d %d %d %d %d %d\n", FALAJ_TEXT, FALAJ_NUMBER, FALAJ_RATE, FALAJ_SPAN, FALAJ_BYTES, FALAJ_PACKETS);
    printf("none %u %u\n", (unsigned)FALAJ_UNBOUNDED, (unsigned)FALAJ_NO_FLOW);
    SIZE(falaj_param);
    AT(falaj_param, name), AT(falaj_param, text), AT(falaj_param, number), AT(falaj_param, unit);
    SIZE(falaj_flow);
    AT(falaj_flow, params), AT(falaj_flow, max_bytes), AT(falaj_flow, max_packets), AT(falaj_flow, param_count);
    SIZE(falaj_setup);
    AT(falaj_setup, flows), AT(falaj_setup, params), AT(falaj_setup, rate), AT(falaj_setup, flow_count);
    AT(falaj_setup, param_count), AT(falaj_setup, largest);
    SIZE(falaj_refusal);
    AT(falaj_refusal, flow), AT(falaj_refusal, what), AT(falaj_refusal, help);
    SIZE(falaj_queue);
    AT(falaj_queue, tag), AT(falaj_queue, bytes), AT(falaj_queue, head), AT(falaj_queue, packets);
    SIZE(falaj_answer);
    AT(falaj_answer, time), AT(falaj_answer, why), AT(falaj_answer, flow);
    SIZE(falaj_sent);
    AT(falaj_sent, start), AT(falaj_sent, end), AT(falaj_sent, bytes);
    SIZE(falaj_guarantee);
    AT(falaj_guarantee, rate), AT(falaj_guarantee, latency), AT(falaj_guarantee, delay);
    SIZE(falaj_discipline);
    AT(falaj_discipline, abi), AT(falaj_discipline, flags), AT(falaj_discipline, name), AT(falaj_discipline, create);
    AT(falaj_discipline, destroy), AT(falaj_discipline, ready), AT(falaj_discipline, next), AT(falaj_discipline, take);
    AT(falaj_discipline, arrived), AT(falaj_discipline, changed), AT(falaj_discipline, migrate_from);
    AT(falaj_discipline, is_reusable), AT(falaj_discipline, guarantee);
    return 0;
}
