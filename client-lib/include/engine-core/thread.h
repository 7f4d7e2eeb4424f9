/* engine-core/thread.h - threads with a name, a priority and a state.
 *
 *     static int stream(struct ec_thread *self, void *context)
 *     {
 *         while (ec_thread_rest(self, 10000000) == EC_ERR_TIMEOUT) // 10 ms, or until asked to stop
 *             load_some(context);
 *         return 0;
 *     }
 *
 *     ec_thread_create(&(struct ec_thread_desc){ .name = "streaming", .run = stream,
 *                                                .priority = EC_THREAD_LOW }, &thread, &why);
 *     …
 *     ec_thread_ask_stop(thread);
 *     ec_thread_join(thread, -1, &result);
 *
 *                resume                          run returns
 *     SUSPENDED ---------> RUNNING ---------------------------------> STOPPED
 *         |                   | ask_stop                                 ^
 *         |                   +----------> STOP_ASKED -- run returns ----+
 *         | ask_stop                           |                         |
 *         +----------------------------------->+-- it had never run -----+
 *
 * A thread is asked to stop; nothing ends it by force. It hears no signals: a handler of the program
 * never runs on it.
 *
 * Thread:    any, join once.
 * Ownership: join frees the thread; a thread that is never joined is a leak.
 * Cost:      create and join some system calls; ec_thread_stop_asked one load. */
#ifndef ENGINE_CORE_THREAD_H
#define ENGINE_CORE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <engine-core/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_thread; /* opaque */

/* Of the kernel's ordinary class; a share of the processor, no promise. */
enum ec_thread_priority {
    EC_THREAD_NORMAL, /* that of the creator */
    EC_THREAD_LOW,    /* nice + 10 and SCHED_BATCH: what may wait for everything else */
    EC_THREAD_HIGH,   /* nice - 10: needs CAP_SYS_NICE or RLIMIT_NICE; without them it is normal */
};

enum ec_thread_state {
    EC_THREAD_SUSPENDED,
    EC_THREAD_RUNNING,
    EC_THREAD_STOP_ASKED,
    EC_THREAD_STOPPED,
};

typedef int ec_thread_fn(struct ec_thread *self, void *context);

#define EC_THREAD_NAME_BYTES 16 /* with the NUL; the kernel's limit */

/* Zero means the default; name and run are required. */
struct ec_thread_desc {
    const char *name; /* shown by ps and top, 1..15 bytes */
    ec_thread_fn *run;
    void *context;
    enum ec_thread_priority priority;
    size_t stack_bytes; /* 0: the system's default; otherwise 16 KiB to 1 GiB */
    bool suspended;     /* run is called after ec_thread_resume */
};

/* Returns EC_OK, EC_ERR_PARAM (name, run, priority, stack_bytes), EC_ERR_MEMORY, EC_ERR_SYSTEM. */
EC_API int ec_thread_create(const struct ec_thread_desc *desc, struct ec_thread **thread,
                            struct ec_error *why);

/* Returns EC_OK, or EC_ERR_STATE: it is not suspended. */
EC_API int ec_thread_resume(struct ec_thread *thread);

/* Wakes it from ec_thread_rest. A suspended thread stops without having run. Accepts one that has been
 * asked already, or has stopped. */
EC_API void ec_thread_ask_stop(struct ec_thread *thread);
EC_API bool ec_thread_stop_asked(const struct ec_thread *thread);

/* Sleep until the thread is asked to stop, at most so long; below 0: for ever. For the thread itself.
 *
 * Returns EC_OK (asked to stop) or EC_ERR_TIMEOUT. */
EC_API int ec_thread_rest(struct ec_thread *self, int64_t timeout_ns);

/* Wait for the end, at most so long; below 0: for ever. Then *result, which may be NULL, is what run
 * returned, 0 when it never ran, and the thread is freed.
 *
 * Returns EC_OK, EC_ERR_TIMEOUT (nothing was freed), EC_ERR_STATE (a thread cannot wait for itself). */
EC_API int ec_thread_join(struct ec_thread *thread, int64_t timeout_ns, int *result);

EC_API enum ec_thread_state ec_thread_state(const struct ec_thread *thread);
EC_API const char *ec_thread_name(const struct ec_thread *thread);
/* The priority in force, which may be less than was asked for. */
EC_API enum ec_thread_priority ec_thread_priority(const struct ec_thread *thread);

#ifdef __cplusplus
}
#endif
#endif
