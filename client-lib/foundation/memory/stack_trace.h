/* foundation/memory/stack_trace.h - the return addresses of the calling thread.
 *
 * Two ways. Following frame pointers costs a few nanoseconds a frame and is right only where all code
 * was compiled with them. The unwinder of the C library reads the tables that every program has and
 * costs some ten times as much; it is made ready once, since its first use loads a library.
 *
 * Thread: signal, after ec_stack_trace_prepare. */
#ifndef EC_FOUNDATION_MEMORY_STACK_TRACE_H
#define EC_FOUNDATION_MEMORY_STACK_TRACE_H

#include <stddef.h>
#include <stdint.h>

/* Load what unwinding needs. Not from inside an allocator. */
void ec_stack_trace_prepare(void);

/* The addresses from `first` on, which is one of them, such as __builtin_return_address(0) of a caller;
 * when the unwinder does not come across it, that one alone. At most max, 1 or more. */
unsigned ec_stack_unwind(uint64_t *frames, unsigned max, const void *first);

/* first, and those that are found by following frame pointers from `frame`, which is the frame that
 * returns to first (__builtin_frame_address(0) there). Reads only between frame and the end of the
 * thread's stack. */
unsigned ec_stack_walk(uint64_t *frames, unsigned max, const void *first, const void *frame);

#endif
