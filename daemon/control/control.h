/* control.h - the control socket: listens, speaks JSON-RPC 2.0, and calls the command handlers.
 *
 *   listener --> connection --> dispatcher --> cmd_<id>() in the modules
 *   (accepts)    (lines, fds,   (JSON-RPC,
 *                 output queue)  parameters, replies)
 *
 * The socket is bound before all else, so that a second daemon on the same path is refused before it reads,
 * or ends, what the first one keeps in files beside it; connections are accepted from post_init on.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CONTROL_H
#define ENGINE_CORED_CONTROL_H

#include "foundation/error.h"

struct services;

int control_pre_init(struct services *services, struct ec_error *why);  /* module phases: binds, */
int control_init(struct services *services, struct ec_error *why);      /* builds, */
int control_post_init(struct services *services, struct ec_error *why); /* accepts */
void control_shutdown(struct services *services);

#endif
