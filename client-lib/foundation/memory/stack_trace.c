#include "foundation/memory/stack_trace.h"

#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>

#define OWN_FRAMES 8      /* of the allocator that asks, above `first` */
#define FRAMES_MAX 64     /* that are asked for at once */
#define CODE_LOWEST 4096u /* no code lies below */
/* A frame further from the stack's end than this lies on a stack that the thread library does not
 * know, such as a coroutine's: where that ends is not known. */
#define STACK_BYTES_MAX (8u << 20)

extern void *__libc_stack_end; /* of the main thread; set by the loader */

void ec_stack_trace_prepare(void)
{
    void *frames[2];

    (void)backtrace(frames, 2);
}

unsigned ec_stack_unwind(uint64_t *frames, unsigned max, const void *first)
{
    void *found[FRAMES_MAX];
    const unsigned wanted = max + OWN_FRAMES < FRAMES_MAX ? max + OWN_FRAMES : (unsigned)FRAMES_MAX;
    const int count = backtrace(found, (int)wanted);
    int from = 0;
    unsigned depth = 0;

    while (from < count && found[from] != first)
        from++;
    if (from >= count) {
        frames[0] = (uint64_t)(uintptr_t)first;
        return 1;
    }
    for (int i = from; i < count && depth < max && found[i] != NULL; i++)
        frames[depth++] = (uint64_t)(uintptr_t)found[i];
    return depth;
}

/* The control block of a thread lies at the upper end of its stack. */
static uintptr_t stack_end(uintptr_t at)
{
    const uintptr_t own = (uintptr_t)pthread_self();
    const uintptr_t main_end = (uintptr_t)__libc_stack_end;

    if (at < own && own - at < STACK_BYTES_MAX)
        return own;
    if (at < main_end && main_end - at < STACK_BYTES_MAX)
        return main_end;
    return 0;
}

/* No instrumentation: what lies between the frames is read as what it is. */
__attribute__((no_sanitize("address", "thread"))) unsigned
ec_stack_walk(uint64_t *frames, unsigned max, const void *first, const void *frame)
{
    uintptr_t at = (uintptr_t)frame;
    const uintptr_t end = stack_end(at);
    unsigned depth = 1;

    frames[0] = (uint64_t)(uintptr_t)first;
    if (end == 0)
        return depth;
    at = *(const uintptr_t *)at; /* the caller's frame */
    while (depth < max && at > (uintptr_t)frame && at % sizeof at == 0 &&
           at <= end - 2 * sizeof at) {
        const uintptr_t *pair = (const uintptr_t *)at; /* the next frame; the return address */

        if (pair[1] < CODE_LOWEST)
            break;
        frames[depth++] = pair[1];
        if (pair[0] <= at)
            break;
        at = pair[0];
    }
    return depth;
}
