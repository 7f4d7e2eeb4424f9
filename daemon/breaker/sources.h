/* sources.h - where memory may run short: the host, and every limited control group.
 *
 * Two kinds of groups are looked at: the daemon's own (from its group up to the root of what is
 * mounted, v2 and v1, or the directories that the configuration names instead), which count for the
 * level of all, and those of the clients, which count for theirs. A group that several are in is
 * looked at once. Every source has its own level, so that one that is short cannot hide another.
 *
 * Descriptors are kept open and read with pread into buffers that are there from the start: a look
 * allocates nothing. The files may be plain ones.
 *
 * What is exact is dear: meminfo takes 6 us, the statistics of a group 7. So a source is read in full each
 * SOURCE_EXACT_NS only, while a cheap number (free memory of the host, usage of the group) shows that
 * since then no more than SOURCE_QUIET_PERMILLE can have gone, that enough is free for the kernel not
 * to trade file pages for others unseen, and that the marks are far away.
 *
 * Thread: loop. Cost: a quiet look is one system call of half a microsecond for each source. */
#ifndef ENGINE_CORED_BREAKER_SOURCES_H
#define ENGINE_CORED_BREAKER_SOURCES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "breaker/levels.h"
#include "foundation/error.h"

#define SOURCES_MAX 96
#define SOURCES_HOST 0u /* index of the host */
#define SOURCE_NAME_BYTES 256
#define SOURCE_CHAIN_MAX 12
#define SOURCE_EXACT_NS INT64_C(100000000)
#define SOURCE_QUIET_PERMILLE 20

enum source_kind { SOURCE_FREE, SOURCE_HOST, SOURCE_GROUP_V1, SOURCE_GROUP_V2 };

struct source {
    enum source_kind kind;
    char name[SOURCE_NAME_BYTES]; /* "host", or the directory of the group */
    bool own;                     /* counts for all */
    uint32_t users;               /* clients whose chain it is in */
    int usage_fd, stat_fd, limit_fd, high_fd, pressure_fd; /* -1: not there */
    bool plain; /* these are not the kernel's own, and may be replaced */

    bool readable;        /* the last look could read it */
    uint64_t limit_bytes; /* the lesser of the hard limit and that at which the kernel slows down */
    int64_t limit_read_ns;
    uint64_t kernel_bytes;        /* of the host: what the kernel calls available */
    struct level_reading reading; /* of the last exact look */
    struct {
        int64_t at_ns;       /* when that was; 0: look exactly */
        uint64_t used_bytes; /* by the cheap number, then */
    } exact;
    bool has_quick;         /* the cheap number is about the same memory */
    uint32_t near_permille; /* with less left than this every look is exact */
    struct {
        uint64_t some_us, full_us;
        int64_t at_ns;     /* when they last changed; 0: never seen */
        int64_t looked_ns; /* when they were read */
    } stalled;
    struct growth growth;
    struct level_machine machine;
    uint64_t reserved_bytes; /* deducted from what is available */
    uint64_t lowest_bytes;   /* ever available */
    int64_t ordered_ns;      /* of the last round of orders; 0: none at this level */
    uint32_t ordered_level;  /* the level that it was for */
    int64_t exit_ns;         /* when somebody was asked to leave for it; 0: nobody at this level */
    uint64_t history;        /* number of its last transition in the history */
};

/* What a host or container does not have, once for each reason. */
#define SOURCES_ABSENT_MAX 16
struct source_absent {
    char name[64];
    char reason[160];
};

struct sources {
    char proc[256]; /* "/proc" */
    struct source source[SOURCES_MAX];
    uint32_t high; /* [0, high) may be in use */
    struct source_absent absent[SOURCES_ABSENT_MAX];
    unsigned absent_count;
    uint32_t near_permille; /* for new sources */
    bool is_named;          /* the daemon's own groups are those of the configuration */
};

struct source_chain {
    uint32_t count;
    uint32_t source[SOURCE_CHAIN_MAX];
};

/* proc is where meminfo, pressure/memory, self/cgroup, self/mountinfo and PID/cgroup are. groups are
 * directories with colons between that stand for the daemon's own chain; "" finds it by proc.
 * Returns EC_OK or EC_ERR_SYSTEM (no meminfo, or a named group cannot be read). */
int sources_init(struct sources *sources, const char *proc, const char *groups,
                 struct ec_error *why);
void sources_finish(struct sources *sources);

/* Note once that something is not there. */
void sources_note_absent(struct sources *sources, const char *name, const char *reason);

/* Every look is exact while less than this is left; 1000: always. */
void sources_set_near(struct sources *sources, uint32_t permille);

/* The daemon may have been moved, and its groups may have got limits, or lost them. */
void sources_refresh_own(struct sources *sources);

/* The limited groups of a process. Each counts one user more until the chain is released. */
void sources_chain(struct sources *sources, pid_t pid, struct source_chain *chain);
void sources_release(struct sources *sources, struct source_chain *chain);

/* The account of a process's memory, for member_memory(); -1: there is none. */
int sources_open_statm(const struct sources *sources, pid_t pid);

/* Look at one source: its reading is so now, or as good as. false: it cannot be read (its group is
 * gone). */
bool source_look(struct source *source, int64_t now_ns);
/* The same, to the byte. */
bool source_look_exactly(struct source *source, int64_t now_ns);

/* Whether a look at any of them would find nothing new. */
bool sources_are_quiet(const struct sources *sources, int64_t now_ns);

#endif
