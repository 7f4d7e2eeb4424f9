/* directory_writer.h - write the directory that every game reads.
 *
 * An entry's life is {generation, state} in one word. It leaves READY before any other field changes
 * and enters READY after all of them are complete; generation advances with each end of a life, so a
 * handle of an earlier one is always stale. An entry whose generation would wrap is never used again:
 * its name moves to another entry. The name also moves when a resource is reloaded while games hold
 * it: counts of references are by index, so each index has one life that is held at a time.
 *
 * Thread: loop. */
#ifndef RESOURCES_DIRECTORY_WRITER_H
#define RESOURCES_DIRECTORY_WRITER_H

#include <stdint.h>

#include "decoders/decoder.h"
#include "foundation/error.h"
#include "proto/directory.h"
#include "segment/directory.h"

/* Add a name that is not there yet, UNLOADED. name has 1..EC_RESOURCE_NAME_BYTES - 1 bytes.
 *
 * Returns EC_OK or EC_ERR_LIMIT (EC_RESOURCES_MAX entries are in use or retired). */
int directory_add(struct ec_directory *directory, const char *name, uint32_t *index);
uint32_t directory_room(const struct ec_directory *directory); /* how many can be added */

/* Take the name from an entry that is not READY and that nobody refers to; the next name may get it. */
void directory_remove(struct ec_directory *directory, uint32_t index);

/* Let the name of an entry that is referred to move to another one, LOADING, which is returned. Handles of
 * the old entry are stale from now on; its references still count under the old index, which is to be
 * removed when there are none. There must be room, and a generation. */
uint32_t directory_replace(struct ec_directory *directory, uint32_t index);

/* The handle of the entry's present life. */
uint64_t directory_handle(const struct ec_directory *directory, uint32_t index);
uint32_t directory_generation(const struct ec_directory *directory, uint32_t index);
enum ec_resource_state directory_state(const struct ec_directory *directory, uint32_t index);

/* Change the state within a life; not to or from READY. */
void directory_set_state(struct ec_directory *directory, uint32_t index,
                         enum ec_resource_state state);

/* Fill in what was decoded and enter READY. */
void directory_publish(struct ec_directory *directory, uint32_t index, uint64_t offset,
                       const struct decoded *decoded);

/* End this life. *index changes when the entry had to be retired.
 *
 * Returns EC_OK or EC_ERR_LIMIT: retired, and there is no other entry for the name; the entry has
 * generation 0 now and must not be published. */
int directory_advance(struct ec_directory *directory, uint32_t *index,
                      enum ec_resource_state state);

#endif
