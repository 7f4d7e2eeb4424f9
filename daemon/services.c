/* services.c - see services.h. */
#include "daemon/services.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <uv.h>

struct services *services_create(void)
{
    void *pages = mmap(NULL, sizeof(struct services), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return pages == MAP_FAILED ? NULL : pages;
}

void services_destroy(struct services *services)
{
    if (services != NULL)
        munmap(services, sizeof *services);
}

static void protect(struct services *services, int protection)
{
    if (mprotect(services, sizeof *services, protection) != 0)
        abort(); /* the pages are ours, and whole */
}

void services_lock(struct services *services)
{
    protect(services, PROT_READ);
}

void services_unlock(struct services *services)
{
    protect(services, PROT_READ | PROT_WRITE);
}

void services_stop(struct services *services)
{
    uv_stop(services->loop);
}
