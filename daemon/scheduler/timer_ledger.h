/* timer_ledger.h - the timers in a file, so that they go on in the next run of the daemon.
 *
 *     +--------+-----+-----+-----+--- … ---+----------+----------+--- …
 *     | header | row | row | row |         | payload  | payload  |   the large ones
 *     +--------+-----+-----+-----+--- … ---+----------+----------+--- …
 *
 * A row for each slot (scheduler/timers.h), in pages that are mapped for as long as the daemon runs: what
 * is stored there survives SIGKILL, because the pages belong to the file. Its blocks are taken some rows
 * at a time, before the first of them is written, so that a disk that is full cannot turn a store into
 * SIGBUS. A payload that does not fit its row is written behind the rows, where the file has a hole until
 * then.
 *
 * A row is written so that a kill at any instruction leaves it either out or whole. Of a firing the row is
 * written once it is published: the next run may publish it a second time, with the same count, but never
 * leaves it out.
 *
 * Thread: loop. Cost: some stores for each timer that is armed, fires or goes; a system call for each
 * large payload. */
#ifndef ENGINE_CORED_SCHEDULER_TIMER_LEDGER_H
#define ENGINE_CORED_SCHEDULER_TIMER_LEDGER_H

#include "foundation/error.h"
#include "scheduler/timers.h"

#define TIMER_LEDGER_PAYLOAD_MAX 65536u /* timers with a larger one end with the daemon */

struct timer_ledger;

/* What a file says; rows[i] is slot i. Every number is in its range: clock < clock_count, every >= 0, an
 * owner, a generation; rows that are not become free ones. Of payloads only the size is checked: what they
 * mean is up to their type. Finish it in any case.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND (no file, or of another boot), EC_ERR_PERMISSION (somebody else's),
 * EC_ERR_LAYOUT, EC_ERR_SYSTEM or EC_ERR_MEMORY. */
struct timer_ledger_rows {
    struct timer_kept *rows;
    uint32_t count;
    unsigned char *payloads; /* owned: what rows point to */
};
int timer_ledger_read(const char *path, unsigned clock_count, struct timer_ledger_rows *found,
                      struct ec_error *why);
int timer_ledger_read_file(int fd, unsigned clock_count, struct timer_ledger_rows *found,
                           struct ec_error *why);
void timer_ledger_rows_finish(struct timer_ledger_rows *found);

/* Begin a file that takes the place of the old one; maximum: slots at most. First note what is there
 * already, then commit: until then the old one is under the name.
 *
 * Returns EC_OK, EC_ERR_SYSTEM or EC_ERR_MEMORY. */
int timer_ledger_create(const char *path, uint32_t maximum, struct timer_ledger **ledger,
                        struct ec_error *why);
int timer_ledger_commit(struct timer_ledger *ledger, struct ec_error *why);
/* stays: for the next run. Accepts NULL. */
void timer_ledger_destroy(struct timer_ledger *ledger, bool stays);

/* A timers_note_fn. What has no room (disk full, a payload that is too large) is not kept, which the log
 * says once. */
void timer_ledger_note(void *ledger, const struct timer_kept *kept);

#endif
