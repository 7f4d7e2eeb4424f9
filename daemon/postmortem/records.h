/* records.h - post-mortem records on disk: few, small, the newest.
 *
 * Each is a JSON object in a file of its own, DIRECTORY/00000007.json, written whole or not at all. When
 * there are more than count, or more bytes than bytes, the oldest go. A record that cannot be written
 * (disk full, no directory) is kept in memory, as the last RECORDS_UNWRITTEN of them, and tried again
 * with the next one.
 *
 * A thread writes, so that a disk that is slow to take them holds up nobody; a record can be read from the
 * moment that it is there.
 *
 * Thread: loop. Cost: a copy; deaths are rare. */
#ifndef ENGINE_CORED_POSTMORTEM_RECORDS_H
#define ENGINE_CORED_POSTMORTEM_RECORDS_H

#include <stdint.h>

#include "foundation/error.h"

#define RECORD_BYTES_MAX (256u * 1024)
#define RECORDS_UNWRITTEN 8

struct records;
struct uv_loop_s;

struct record_row {
    uint32_t id;
    uint32_t bytes;
    char *unwritten; /* its text; NULL: it is on disk */
};

/* The directory is made when the first record is. Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int records_create(struct uv_loop_s *loop, const char *directory, struct records **records,
                   struct ec_error *why);
/* Waits until what there is to write was tried; the files stay. Its memory goes with the next turn of the
 * loop. Accepts NULL. */
void records_destroy(struct records *records);

void records_set_limits(struct records *records, uint32_t count, uint64_t bytes);

/* The id that the next record gets. */
uint32_t records_next_id(const struct records *records);
/* Keep a text of at most RECORD_BYTES_MAX bytes under that id. That it cannot be written shows in the log.
 * Returns the id; 0: there is no memory, and it was lost. */
uint32_t records_add(struct records *records, const char *text, uint32_t bytes);

/* Oldest first: index 0.. until NULL. */
const struct record_row *records_at(const struct records *records, uint32_t index);
/* Its text, NUL-terminated; caller frees. Returns EC_OK, EC_ERR_NOT_FOUND or EC_ERR_MEMORY. */
int records_read(const struct records *records, uint32_t id, char **text, struct ec_error *why);

#endif
