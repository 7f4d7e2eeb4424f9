/* How the main loop ends. */
#include "daemon/services.h"

#include <uv.h>

void services_stop(struct services *services)
{
    uv_stop(services->loop);
}
