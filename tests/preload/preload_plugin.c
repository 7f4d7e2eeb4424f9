/* preload_plugin - a library that preload_program loads and unloads while it runs: what it allocated stays. */
#include <stdlib.h>

void plugin_allocate(unsigned count);

__attribute__((visibility("default"), noinline)) void plugin_allocate(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        *(volatile char *)malloc(512) = 1;
}
