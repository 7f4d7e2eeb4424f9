/* phases.c - see phases.h. */
#include "scheduler/phases.h"

#include <stdlib.h>

static int by_time(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

int64_t phase_for_newcomer(int64_t *taken, unsigned count, int64_t period_ns)
{
    int64_t largest_ns = 0, phase_ns = 0;

    if (count == 0)
        return 0;
    qsort(taken, count, sizeof *taken, by_time);
    for (unsigned i = 0; i < count; i++) {
        int64_t end_ns = i + 1 < count ? taken[i + 1] : taken[0] + period_ns;
        int64_t gap_ns = end_ns - taken[i];

        if (gap_ns <= largest_ns)
            continue;
        largest_ns = gap_ns;
        phase_ns = (taken[i] + gap_ns / 2) % period_ns;
    }
    return phase_ns;
}
