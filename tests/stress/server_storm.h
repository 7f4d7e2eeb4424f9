/* stress/server_storm.h - many game servers in too little memory, and what becomes of them.
 *
 * Servers (the example server_sim) grow to more than the limit of a memory control group. Whoever dies
 * is started again half a second later, as a supervisor would, and loads its last save.
 *
 *   STORM_ALONE     nobody helps: the kernel kills
 *   STORM_EARLYOOM  earlyoom watches; as it knows the host only, it sees the group as its host
 *   STORM_BREAKER   the servers are clients of engine-cored, which runs outside the group
 *
 * Thread: one. */
#ifndef EC_STRESS_SERVER_STORM_H
#define EC_STRESS_SERVER_STORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum storm_guard { STORM_ALONE, STORM_EARLYOOM, STORM_BREAKER };

struct storm_desc {
    enum storm_guard guard;
    unsigned servers;
    uint64_t limit_bytes;
    unsigned seconds;
    unsigned seed;
    unsigned world_mib, cache_mib; /* of each server */
    unsigned fill_mib_s;           /* at which the cache is filled; 0: as the example does */
    unsigned observe_from_s; /* from this second on look at their caches; breaker only; 0: never */
};

#define STORM_REACTIONS_MAX 64

struct storm_result {
    unsigned kernel_kills; /* by the kernel's own count */
    unsigned killed;       /* servers that ended by a signal that they cannot answer */
    unsigned ended;        /* servers that ended before the end because they were told to */
    unsigned saves_lost;   /* endings that left progress unsaved */
    double play_lost_s;    /* that progress */
    double down_s;         /* time in which a server was not there */
    uint64_t lowest_bytes; /* available in the group */
    double lowest_ms;      /* time below 1 % of the limit */
    double reaction_ms
        [STORM_REACTIONS_MAX]; /* crossing of the 10 % mark -> first server's call-back */
    unsigned reactions;
    unsigned in_force;      /* crossings at which a server had been told level 2 already */
    unsigned unheard;       /* crossings after which no server was told level 2 at all */
    unsigned crossings;     /* of the 10 % mark, downwards */
    unsigned level_changes; /* of the group; breaker only */
    double cache_bytes;     /* of a server, on average */
    unsigned observations;  /* of it */
};

/* A table: the titles, and a row for one storm. */
void storm_print_title(FILE *out);
void storm_print_row(FILE *out, const char *guard, unsigned seed,
                     const struct storm_result *result);

/* false: it could not be run; why says the reason, and missing whether something is not installed or
 * not allowed here. */
bool storm_run(const struct storm_desc *desc, struct storm_result *result, bool *missing, char *why,
               size_t bytes);

#endif
