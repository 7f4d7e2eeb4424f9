/* describe.h - what a post-mortem record says, as members of an open JSON object. Thread: loop. */
#ifndef ENGINE_CORED_POSTMORTEM_DESCRIBE_H
#define ENGINE_CORED_POSTMORTEM_DESCRIBE_H

#include <stdbool.h>

#include "clients/clients.h"
#include "daemon/crash_record.h"
#include "foundation/json/json_writer.h"

struct services;

/* A client that has ended; its client segment is mapped, or not. brief: without the rows of allocators,
 * where all would be too much. */
void describe_client(struct services *services, const struct client *client, bool brief,
                     struct ec_json_writer *writer);

/* Cause and code of an exit status as of waitpid; known false: nobody could tell. */
void describe_status(bool known, int status, struct ec_json_writer *writer);

void describe_daemon(const struct crash_found *found, struct ec_json_writer *writer);

#endif
