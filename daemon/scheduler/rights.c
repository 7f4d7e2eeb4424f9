/* rights.c - SCHED_FIFO, timer slack and locked memory for the calling thread. */
#include "scheduler/rights.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* The limit that decides for those who have no capability. */
static unsigned long long soft_limit(__rlimit_resource_t resource)
{
    struct rlimit limit = { 0 };

    getrlimit(resource, &limit);
    return limit.rlim_cur;
}

/* A low real-time priority: enough to run before all games, below those who feed sound cards. */
static void acquire_priority(struct rights *rights, int priority)
{
    struct sched_param param = { .sched_priority = priority };

    if (priority == 0)
        return;
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0)
        rights->priority = priority;
    else
        snprintf(rights->refused_priority, sizeof rights->refused_priority,
                 "SCHED_FIFO %d: %s (RLIMIT_RTPRIO is %llu)", priority, strerror(errno),
                 soft_limit(RLIMIT_RTPRIO));
}

static void acquire_timers(struct rights *rights)
{
    rights->exact_timers = prctl(PR_SET_TIMERSLACK, 1) == 0;
    if (!rights->exact_timers)
        snprintf(rights->refused_timers, sizeof rights->refused_timers, "PR_SET_TIMERSLACK 1: %s",
                 strerror(errno));
}

static void lock_range(struct rights *rights, const void *base, size_t bytes)
{
    if (!rights->memory_locked || mlock(base, bytes) == 0)
        return;
    rights->memory_locked = false;
    snprintf(rights->refused_memory, sizeof rights->refused_memory,
             "mlock %zu bytes: %s (RLIMIT_MEMLOCK is %llu)", bytes, strerror(errno),
             soft_limit(RLIMIT_MEMLOCK));
}

/* The frame of this function lies where the deepest calls of the thread will, and locking its pages
 * also makes them resident. */
static __attribute__((noinline)) void lock_stack(struct rights *rights)
{
    unsigned char below[RIGHTS_STACK_BYTES];

    __asm__ volatile("" : : "r"(below) : "memory"); /* keep it, though nobody reads it */
    lock_range(rights, below, sizeof below);
}

void rights_acquire(struct rights *rights, int priority, const struct rights_range *ranges,
                    unsigned range_count)
{
    *rights = (struct rights) { .memory_locked = true };
    acquire_timers(rights);
    for (unsigned i = 0; i < range_count; i++)
        lock_range(rights, ranges[i].base, ranges[i].bytes);
    lock_stack(rights);
    acquire_priority(rights, priority);
}

void rights_describe(const struct rights *rights, struct ec_json_writer *writer)
{
    const char *refused[] = { rights->refused_priority, rights->refused_memory,
                              rights->refused_timers };
    bool open = false;

    ec_json_object_begin(writer);
    ec_json_member_string(writer, "class", rights->priority > 0 ? "fifo" : "other");
    ec_json_member_i64(writer, "priority", rights->priority);
    ec_json_member_boolean(writer, "memory_locked", rights->memory_locked);
    ec_json_member_boolean(writer, "exact_timers", rights->exact_timers);
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (refused[i][0] == '\0')
            continue;
        if (!open)
            ec_json_member_array(writer, "refused");
        open = true;
        ec_json_string(writer, refused[i]);
    }
    if (open)
        ec_json_array_end(writer);
    ec_json_object_end(writer);
}
