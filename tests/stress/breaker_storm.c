/* breaker_storm [short] - the same storm of servers alone, with earlyoom, and with engine-core.
 *
 *   breaker_storm         8 servers, 512 MiB, 15 s, seeds 1 to 3, all three
 *   breaker_storm short   4 servers, 256 MiB, 10 s, one seed, alone and with engine-core; they grow so
 *                         slowly that a machine that stands still for half a second loses nothing
 *
 * A table goes to stdout. Exit 0: with engine-core nobody was killed and no save was lost, and alone
 * somebody was (else the load proves nothing). 1: not so. 77: it cannot be run here, with the reason. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stress/server_storm.h"

#define SKIPPED 77

static const struct guard_row {
    enum storm_guard guard;
    const char *name;
    bool in_short;
} guards[] = {
    { STORM_ALONE, "alone", true },
    { STORM_EARLYOOM, "earlyoom", false },
    { STORM_BREAKER, "engine-core", true },
};

int main(int argc, char **argv)
{
    const bool is_short = argc > 1 && strcmp(argv[1], "short") == 0;
    const unsigned seeds = is_short ? 1 : 3;
    unsigned alone = 0, killed = 0, lost = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    storm_print_title(stdout);
    for (unsigned seed = 1; seed <= seeds; seed++)
        for (size_t g = 0; g < sizeof guards / sizeof guards[0]; g++) {
            const struct storm_desc desc = {
                .guard = guards[g].guard,
                .servers = is_short ? 4 : 8,
                .limit_bytes = (is_short ? 256u : 512u) * UINT64_C(1048576),
                .seconds = is_short ? 10 : 15,
                .seed = seed,
                .world_mib = 30,
                .cache_mib = 50,
                .fill_mib_s = is_short ? 8 : 0,
            };
            struct storm_result result;
            char why[256] = "";
            bool missing;

            if (is_short && !guards[g].in_short)
                continue;
            if (!storm_run(&desc, &result, &missing, why, sizeof why)) {
                printf("%-12s %s: %s\n", guards[g].name, missing ? "skipped" : "failed", why);
                if (!missing)
                    return 1;
                if (guards[g].guard != STORM_EARLYOOM) /* a peer that is not there is no failure */
                    return SKIPPED;
                continue;
            }
            storm_print_row(stdout, guards[g].name, seed, &result);
            if (guards[g].guard == STORM_ALONE)
                alone += result.killed;
            if (guards[g].guard == STORM_BREAKER) {
                killed += result.killed + result.kernel_kills;
                lost += result.saves_lost;
            }
        }
    printf("with engine-core: %u killed, %u saves lost; alone: %u killed\n", killed, lost, alone);
    return killed == 0 && lost == 0 && alone > 0 ? 0 : 1;
}
