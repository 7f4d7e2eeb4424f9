/* openrpc.h - the command table as an OpenRPC document.
 *
 * Thread: any. */
#ifndef ENGINE_CORED_CONTROL_OPENRPC_H
#define ENGINE_CORED_CONTROL_OPENRPC_H

#include "foundation/json/json_writer.h"

void openrpc_write(struct ec_json_writer *writer);

#endif
