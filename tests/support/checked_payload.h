/* support/checked_payload.h - payloads that tell whether they are whole.
 *
 *     checked_fill(payload, bytes, publisher, number);
 *     ck_assert(checked_is_whole(payload, bytes, publisher, number));
 *
 * Each word depends on the publisher, the number and its place, so a payload that is mixed of two
 * events, or is of another one, is not whole.
 *
 * Thread: any. */
#ifndef EC_SUPPORT_CHECKED_PAYLOAD_H
#define EC_SUPPORT_CHECKED_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECKED_BYTES_MIN 24u

/* bytes is a multiple of 8, CHECKED_BYTES_MIN or more. */
void checked_fill(void *payload, size_t bytes, uint64_t publisher, uint64_t number);

/* Reads publisher and number out of the payload, when it is whole. */
bool checked_read(const void *payload, size_t bytes, uint64_t *publisher, uint64_t *number);
bool checked_is_whole(const void *payload, size_t bytes, uint64_t publisher, uint64_t number);

/* A size for the event of this number: from CHECKED_BYTES_MIN to max, a multiple of 8. */
size_t checked_bytes(uint64_t number, size_t max);

#endif
