/* preload_other - another library in the place of malloc: counts the calls and passes them on. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void *malloc_fn(size_t bytes);

unsigned long other_malloc_count(void);
void *malloc(size_t bytes);

static _Atomic unsigned long calls;
static _Atomic(malloc_fn *) next;

EXPORT unsigned long other_malloc_count(void)
{
    return atomic_load(&calls);
}

EXPORT void *malloc(size_t bytes)
{
    malloc_fn *function = atomic_load(&next);

    if (function == NULL) {
        void *found = dlsym(RTLD_NEXT, "malloc");

        memcpy(&function, &found, sizeof found);
        atomic_store(&next, function);
    }
    atomic_fetch_add(&calls, 1);
    return function(bytes);
}
