/* mailbox.h - orders to the scheduler's thread and its reports, without a lock.
 *
 * Two rings of one writer and one reader each. The main loop has at most MAILBOX_PLACES orders without
 * a report, so that neither ring is ever full: it asks mailbox_room before it posts.
 *
 *   main loop                            thread
 *   mailbox_post     -- orders  -->      mailbox_next, mailbox_done
 *   mailbox_collect  <-- reports --      mailbox_report
 *
 * Thread: as above. Cost: copies; no system call, no lock, no allocation. */
#ifndef ENGINE_CORED_SCHEDULER_MAILBOX_H
#define ENGINE_CORED_SCHEDULER_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/segment_header.h"
#include "scheduler/order.h"

#define MAILBOX_PLACES 256u /* a power of two */

struct mailbox {
    struct order order[MAILBOX_PLACES];
    struct report report[MAILBOX_PLACES];
    uint32_t outstanding;                             /* the main loop's own */
    alignas(EC_HOT_BYTES) _Atomic uint32_t posted;    /* by the main loop */
    alignas(EC_HOT_BYTES) _Atomic uint32_t taken;     /* by the thread */
    alignas(EC_HOT_BYTES) _Atomic uint32_t reported;  /* by the thread */
    alignas(EC_HOT_BYTES) _Atomic uint32_t collected; /* by the main loop */
};

/* Whether another order may be posted. */
static inline bool mailbox_room(const struct mailbox *mailbox)
{
    return mailbox->outstanding < MAILBOX_PLACES;
}

static inline void mailbox_post(struct mailbox *mailbox, const struct order *order)
{
    uint32_t at = atomic_load_explicit(&mailbox->posted, memory_order_relaxed);

    mailbox->order[at % MAILBOX_PLACES] = *order;
    mailbox->outstanding++;
    /* release: partner is mailbox_next. */
    atomic_store_explicit(&mailbox->posted, at + 1, memory_order_release);
}

/* The oldest order, which stays until mailbox_done; NULL: none. */
static inline const struct order *mailbox_next(struct mailbox *mailbox)
{
    uint32_t at = atomic_load_explicit(&mailbox->taken, memory_order_relaxed);

    /* acquire: partner is mailbox_post. */
    if (atomic_load_explicit(&mailbox->posted, memory_order_acquire) == at)
        return NULL;
    return &mailbox->order[at % MAILBOX_PLACES];
}

/* Its place may be used again. The main loop does so only once it has the report, whose release and
 * acquire order that behind this thread's reading. */
static inline void mailbox_done(struct mailbox *mailbox)
{
    uint32_t at = atomic_load_explicit(&mailbox->taken, memory_order_relaxed);

    atomic_store_explicit(&mailbox->taken, at + 1, memory_order_relaxed);
}

static inline void mailbox_report(struct mailbox *mailbox, const struct report *report)
{
    uint32_t at = atomic_load_explicit(&mailbox->reported, memory_order_relaxed);

    mailbox->report[at % MAILBOX_PLACES] = *report;
    /* release: partner is mailbox_collect. */
    atomic_store_explicit(&mailbox->reported, at + 1, memory_order_release);
}

/* The oldest report. false: there is none. */
static inline bool mailbox_collect(struct mailbox *mailbox, struct report *report)
{
    uint32_t at = atomic_load_explicit(&mailbox->collected, memory_order_relaxed);

    /* acquire: partner is mailbox_report. */
    if (atomic_load_explicit(&mailbox->reported, memory_order_acquire) == at)
        return false;
    *report = mailbox->report[at % MAILBOX_PLACES];
    atomic_store_explicit(&mailbox->collected, at + 1, memory_order_relaxed);
    mailbox->outstanding--;
    return true;
}

#endif
