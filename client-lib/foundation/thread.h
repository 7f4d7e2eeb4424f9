/* foundation/thread.h - start a thread that has a name and hears no signals; <engine-core/thread.h>
 * is made of it.
 *
 * Signals belong to the program that links the library, so its threads block all of them: a handler
 * of the program never runs on a thread that the program does not know.
 *
 * Thread: any. Cost: some system calls. */
#ifndef EC_FOUNDATION_THREAD_H
#define EC_FOUNDATION_THREAD_H

#include <pthread.h>

#include <engine-core/thread.h>

#include "foundation/error.h"

/* name is shown by ps and top, 1..15 bytes. The caller joins the thread.
 *
 * Returns EC_OK or EC_ERR_SYSTEM. */
int ec_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *context,
                    struct ec_error *why);

/* The same with a stack of so many bytes; 0: the system's default. */
int ec_thread_start_with_stack(pthread_t *thread, const char *name, size_t stack_bytes,
                               void *(*run)(void *), void *context, struct ec_error *why);

#endif
