/* foundation/mailbox.h - what many threads leave for one, without a lock.
 *
 *     struct change { struct ec_mail mail; … };           // the mail stands first
 *
 *     ec_mailbox_post(&box, &change->mail);               // any thread
 *     for (struct ec_mail *mail = ec_mailbox_take(&box); mail != NULL; mail = next) {
 *         next = mail->next;                              // the one that takes
 *         …
 *     }
 *
 * It is Treiber's stack (1986), emptied by one exchange, so that no mail is ever taken out of its
 * middle and used again (no ABA). What was posted before is taken before.
 *
 * Ownership: the mail belongs to the box from post to take. A zeroed box is an empty one.
 * Cost: one read-modify-write each; no system call, no allocation. A look at an empty box is one load. */
#ifndef EC_FOUNDATION_MAILBOX_H
#define EC_FOUNDATION_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct ec_mail {
    struct ec_mail *next;
};

struct ec_mailbox {
    _Atomic(struct ec_mail *) newest;
};

/* Thread: any. */
static inline void ec_mailbox_post(struct ec_mailbox *box, struct ec_mail *mail)
{
    struct ec_mail *newest = atomic_load_explicit(&box->newest, memory_order_relaxed);

    do
        mail->next = newest;
    while (!atomic_compare_exchange_weak_explicit(&box->newest, &newest, mail,
                                                  memory_order_release, /* with take: acquire */
                                                  memory_order_relaxed));
}

/* Is something there? false may be out of date already. */
static inline bool ec_mailbox_has_mail(const struct ec_mailbox *box)
{
    return atomic_load_explicit(&box->newest, memory_order_relaxed) != NULL;
}

/* All of it, the oldest first; NULL: none. */
static inline struct ec_mail *ec_mailbox_take(struct ec_mailbox *box)
{
    struct ec_mail *mail = atomic_exchange_explicit(&box->newest, NULL, memory_order_acquire);
    struct ec_mail *oldest = NULL;

    while (mail != NULL) { /* turn the stack round */
        struct ec_mail *next = mail->next;

        mail->next = oldest;
        oldest = mail;
        mail = next;
    }
    return oldest;
}

#endif
