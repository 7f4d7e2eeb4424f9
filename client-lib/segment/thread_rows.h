/* segment/thread_rows.h - take and leave a thread's rows in the own client segment.
 *
 * Writer's side: the process that the segment belongs to. Threads exclude each other by a
 * compare-and-swap on `used`, which nobody else writes.
 *
 * Thread: signal. */
#ifndef EC_SEGMENT_THREAD_ROWS_H
#define EC_SEGMENT_THREAD_ROWS_H

#include "proto/client_segment.h"

/* Belongs to all threads that found no free one: add to its counts atomically. */
#define EC_THREAD_SLOT_SHARED (EC_THREADS_MAX - 1)

/* A slot for the calling thread, named after it; the shared one when all are taken. */
uint32_t ec_thread_rows_claim(struct ec_client_segment *segment);
uint32_t ec_thread_rows_claim_shared(struct ec_client_segment *segment);

/* The next thread may have it, counts included. */
void ec_thread_rows_leave(struct ec_client_segment *segment, uint32_t slot);

#endif
