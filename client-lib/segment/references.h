/* references.h - hard references: acquire in a game against evict in the daemon, both sides.
 *
 * A game holds a resource by raising a count in its own segment, in the row of its thread. Nobody
 * answers and nobody is asked: acquire and release are plain stores. The daemon frees a resource
 * only when it has marked the entry and then found no count of any client above zero.
 *
 *       game (ec_reference_acquire)          daemon (evict, unload)
 *       ---------------------------          ----------------------
 *   G1  count = count + 1                D1  life = generation, EVICTING   (ec_reference_mark)
 *   G2  barrier                          D2  barrier, once for a batch     (ec_reference_barrier)
 *   G3  life == generation, READY ?      D3  sum the counts                (ec_reference_sum)
 *       yes: held                        D4  0: life = generation + 1, then free the bytes
 *       no:  count = count - 1               else: life = generation, READY (ec_reference_unmark)
 *
 * Claim: when D3 sums to 0, no G3 of this generation that answered yes is still unreleased.
 *
 * Each side stores, then loads what the other stores. Without a barrier both loads may come before
 * both stores (a store waits in the store buffer), and both would say yes. With one between them on
 * each side, either G3 sees EVICTING or D3 sees the count:
 *
 *   membarrier   G2 is a compiler barrier only. D2 is membarrier(GLOBAL_EXPEDITED): the kernel makes
 *                every processor that runs a registered process pass a full fence between the
 *                beginning and the end of D2. If that fence falls before G3, then G3 sees D1; if it
 *                falls after G3, it is also after G1, and D3 sees the count. A process that does not
 *                run at that moment passed a full fence in the context switch.
 *   fence        G2 and D2 are both atomic_thread_fence(seq_cst): the C11 guarantee for store
 *                buffering. Taken by a game that could not register, and by all when the daemon says
 *                in the directory that it has no membarrier.
 *
 * The daemon always executes its own fence as well, so both kinds of game may run side by side.
 *
 * Many slots are summed, one after the other, while games go on. The sum is never below what is held
 * at its end: a successful G3 came before D2, so its +1 stands in every later load; releases that the
 * sum misses only make it higher; a -1 in another thread's row was caused by a +1 that is visible.
 * An acquire that fails leaves +1 for a moment: the daemon keeps the resource then, and asks again.
 *
 * Release (G4) is a release store: reads of the bytes come before it. Its partner is the acquire load
 * of D3: the bytes are freed after. D4's store of life needs no order with freeing: nobody gets in any
 * more. READY is stored with release after bytes and fields are complete; its partner is the acquire
 * load of G3.
 *
 * A client that dies takes its counts with it: the daemon does not sum segments of dead processes.
 * A thread that ends leaves its row to the next thread, counts included; moving them would let a sum
 * miss them. Models: tests/models/references.pml, and references_rows.pml for rows and ends of threads. */
#ifndef EC_SEGMENT_REFERENCES_H
#define EC_SEGMENT_REFERENCES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <engine-core/error.h>

#include "proto/client_segment.h"
#include "proto/directory.h"

/* How a game orders G1 before G3. */
enum ec_reference_order {
    EC_REFERENCE_UNDECIDED = 0,
    EC_REFERENCE_MEMBARRIER = 1, /* the daemon fences us */
    EC_REFERENCE_FENCE = 2,      /* we fence ourselves */
};

static inline uint64_t ec_life_make(uint32_t generation, enum ec_resource_state state)
{
    return (uint64_t)generation << 32 | (uint32_t)state;
}

static inline uint32_t ec_life_generation(uint64_t life)
{
    return (uint32_t)(life >> 32);
}

static inline uint32_t ec_life_state(uint64_t life)
{
    return (uint32_t)life;
}

/* The last row is shared by threads that found no free one; the others have one writer. */
static inline bool ec_reference_row_is_shared(uint32_t thread)
{
    return thread == EC_THREADS_MAX - 1;
}

static inline void ec_reference_add(_Atomic int32_t *count, uint32_t delta, bool shared,
                                    memory_order order)
{
    if (shared) {
        atomic_fetch_add_explicit(count, (int32_t)delta, order);
    } else {
        uint32_t old = (uint32_t)atomic_load_explicit(count, memory_order_relaxed);

        atomic_store_explicit(count, (int32_t)(old + delta), order);
    }
}

/* Why an acquire failed. */
static inline int ec_reference_refused(uint64_t now, uint32_t generation)
{
    if (now == ec_life_make(generation, EC_RESOURCE_EVICTING) && generation != 0)
        return EC_AGAIN;
    if (now == ec_life_make(generation + 1, EC_RESOURCE_EVICTED) && generation != 0)
        return EC_ERR_EVICTED;
    return EC_ERR_STALE;
}

/* The game's side. count is rows->count[thread][index] of its own segment, life is that of the
 * directory entry.
 *
 * Returns EC_OK (held; release it once), EC_AGAIN (being evicted, which may be undone), EC_ERR_EVICTED (this
 * life ended so, and no other has begun) or EC_ERR_STALE (another generation, or not ready). */
static inline int ec_reference_acquire(_Atomic int32_t *count, bool shared,
                                       enum ec_reference_order order, const _Atomic uint64_t *life,
                                       uint32_t generation)
{
    uint64_t now;

    ec_reference_add(count, 1, shared, memory_order_relaxed); /* G1 */
    if (order == EC_REFERENCE_MEMBARRIER)
        atomic_signal_fence(memory_order_seq_cst); /* G2: the processor's part is D2 */
    else
        atomic_thread_fence(memory_order_seq_cst);          /* G2: pairs with the fence in D2 */
    now = atomic_load_explicit(life, memory_order_acquire); /* G3: pairs with the store of READY */
    if (now == ec_life_make(generation, EC_RESOURCE_READY) && generation != 0)
        return EC_OK;
    ec_reference_add(count, (uint32_t)-1, shared, memory_order_relaxed); /* nothing was read */
    return ec_reference_refused(now, generation);
}

static inline void ec_reference_release(_Atomic int32_t *count, bool shared)
{
    ec_reference_add(count, (uint32_t)-1, shared, memory_order_release); /* G4: pairs with D3 */
}

/* Let the daemon fence this process. Returns the order to use: membarrier when the daemon uses it
 * (daemon_fences) and the kernel took the registration. Idempotent; a forked child must call it
 * again. */
enum ec_reference_order ec_reference_register(bool daemon_fences);

/* The daemon's side. D1: from here on nobody gets in. */
static inline void ec_reference_mark(_Atomic uint64_t *life, uint32_t generation)
{
    atomic_store_explicit(life, ec_life_make(generation, EC_RESOURCE_EVICTING),
                          memory_order_relaxed); /* D2 orders it */
}

/* Undo D1. The bytes have not changed since READY was stored with release, and release again costs
 * nothing here. */
static inline void ec_reference_unmark(_Atomic uint64_t *life, uint32_t generation)
{
    atomic_store_explicit(life, ec_life_make(generation, EC_RESOURCE_READY), memory_order_release);
}

/* Does the kernel have the command? What the daemon writes into the directory before anybody attaches. */
bool ec_reference_membarrier_works(void);

/* D2. membarrier is what ec_reference_membarrier_works() said at the start.
 *
 * Returns EC_OK or EC_ERR_SYSTEM (the kernel refused; then nothing may be freed). */
int ec_reference_barrier(bool membarrier);

/* D3 for one client: references of all its threads on one resource, 0..INT32_MAX. The segment is
 * hostile: threads_high is bounded, and a sum below zero counts as zero, so that it cannot cancel
 * another client's references. Cost: a load per thread slot that was ever used. */
uint32_t ec_reference_sum(const struct ec_client_segment *segment,
                          const struct ec_reference_rows *rows, uint32_t index);

/* The sum over resources [0, high), for lists. */
uint64_t ec_reference_total(const struct ec_client_segment *segment,
                            const struct ec_reference_rows *rows, uint32_t high);

#endif
