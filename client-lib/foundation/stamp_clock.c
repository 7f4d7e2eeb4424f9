/* stamp_clock.c - when the processor's counter may stand in for the kernel's clock; see stamp_clock.h. */
#include "foundation/stamp_clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define VALID_NS 1000000     /* a rate that is wrong by 200 ppm is 200 ns off then */
#define ESTIMATE_NS 10000000 /* the rate is taken over this much or more */
#define AGREE_SHIFT 12       /* two estimates agree when they differ by less than 1 / 4096 of it */
#define READING_COUNTS                                                                             \
    2000 /* a reading that took longer was interrupted: it says nothing of the rate */

#define SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* The kernel watches the counter against other clocks and takes it as its source only while it runs
 * steadily and alike on all processors. */
static bool is_counter_trusted(void)
{
    char name[8] = "";
    int fd = open(SOURCE, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    if (read(fd, name, sizeof name - 1) < 0)
        name[0] = '\0';
    close(fd);
    return strcmp(name, "tsc\n") == 0;
}

void ec_stamp_clock_init(struct ec_stamp_clock *clock)
{
    *clock = (struct ec_stamp_clock) { .trusted = is_counter_trusted() };
}

static bool do_agree(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) <= a >> AGREE_SHIFT;
}

/* A new rate once enough time has passed since from; two in a row that agree make it good. */
static void estimate_rate(struct ec_stamp_clock *clock, uint64_t count, int64_t now_ns)
{
    uint64_t counts = count - clock->from_count, ns = (uint64_t)(now_ns - clock->from_ns), rate = 0;

    if (clock->from_count != 0 && now_ns > clock->from_ns && count > clock->from_count) {
        if (ns < ESTIMATE_NS)
            return;
        for (; ns > UINT32_MAX; ns >>= 1) /* the product below has 64 bits */
            counts >>= 1;
        if (counts != 0)
            rate = (ns << 32) / counts;
    }
    if (rate != 0 && do_agree(rate, clock->estimate)) {
        clock->rate = rate;
        clock->valid_count = ((uint64_t)VALID_NS << 32) / rate;
    } else {
        clock->valid_count = 0;
    }
    clock->estimate = rate;
    clock->from_count = count;
    clock->from_ns = now_ns;
}

void ec_stamp_clock_note(struct ec_stamp_clock *clock, uint64_t count, int64_t now_ns)
{
    estimate_rate(clock, count, now_ns);
    clock->base_count = count;
    clock->base_ns = now_ns;
}

#if defined(__x86_64__)
/* Read both clocks at once. */
static int64_t read_both(struct ec_stamp_clock *clock)
{
    uint64_t before = __builtin_ia32_rdtsc(), after;
    int64_t now_ns = ec_real_ns();

    after = __builtin_ia32_rdtsc();
    if (after - before < READING_COUNTS)
        ec_stamp_clock_note(clock, before + (after - before) / 2, now_ns);
    return now_ns;
}
#endif

int64_t ec_stamp_clock_read(struct ec_stamp_clock *clock)
{
    int64_t now_ns = ec_real_ns();

#if defined(__x86_64__)
    /* While there is no rate yet, a look at the counter now and then is enough. */
    if (clock->trusted && (clock->valid_count != 0 || now_ns - clock->from_ns >= ESTIMATE_NS))
        now_ns = read_both(clock);
#endif
    return clock->last_ns = now_ns > clock->last_ns ? now_ns : clock->last_ns;
}
