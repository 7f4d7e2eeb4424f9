/* segment/clock_page.h - both sides of the clock page: the latch and the step words.
 *
 * The latch guards the snapshots, of which there are two copies:
 *
 *     latch even   readers use copy 0; the writer may change copy 1
 *     latch odd    readers use copy 1; the writer may change copy 0
 *
 * Invariant: the copies that the latch points to are whole. So a writer that is killed or stopped
 * between any two stores leaves something to read. A reader that was overtaken by the writer sees
 * that the latch has moved and tries again, EC_CLOCK_READS_MAX times, then answers EC_AGAIN: stale.
 * tests/models/clock_latch.pml is the model.
 *
 * Each step clock has a word to sleep on. Its 64-bit step stands outside the latch, so that reading
 * it is one load.
 *
 * Thread:    one writer (the scheduler's thread); any number of readers in any process.
 * Cost:      reading makes no system call; publishing a step is a few stores. */
#ifndef EC_SEGMENT_CLOCK_PAGE_H
#define EC_SEGMENT_CLOCK_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <engine-core/error.h>

#include "proto/clock_page.h"

#define EC_CLOCK_READS_MAX 16 /* changes come at most some thousand times a second */

/* The writer's side: publish all snapshots. */
void ec_clock_page_write(struct ec_clock_page *page, const struct ec_clock_snapshot *snapshot);

/* Snapshots are copied as relaxed atomic words: they may change while a reader copies them, and are
 * thrown away then. */
typedef uint64_t __attribute__((may_alias)) ec_clock_word;

static inline void ec_clock_words_load(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(ec_clock_word); i++)
        ((ec_clock_word *)to)[i] =
            __atomic_load_n((const ec_clock_word *)from + i, __ATOMIC_RELAXED);
}

static inline void ec_clock_words_store(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(ec_clock_word); i++)
        __atomic_store_n((ec_clock_word *)to + i, ((const ec_clock_word *)from)[i],
                         __ATOMIC_RELAXED);
}

/* Begin to read: which copies. The acquire pairs with the writer's release stores of the latch: who
 * sees the latch point to a copy sees all that was stored into it before. */
static inline uint32_t ec_clock_latch_begin(const struct ec_clock_page *page)
{
    return atomic_load_explicit(&page->latch, memory_order_acquire);
}

/* Whether what was read since ec_clock_latch_begin is whole. The acquire fence pairs with the
 * writer's release fences behind its stores of the latch: who read any word of a new copy also sees
 * that the latch has moved. */
static inline bool ec_clock_latch_held(const struct ec_clock_page *page, uint32_t latch)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&page->latch, memory_order_relaxed) == latch;
}

/* Copy how game time runs; field by field, so that it stays in registers where it is inlined. */
static inline void ec_clock_game_load(struct ec_game_snapshot *game,
                                      const struct ec_game_snapshot *copy)
{
    game->real0_ns = __atomic_load_n(&copy->real0_ns, __ATOMIC_RELAXED);
    game->game0_ns = __atomic_load_n(&copy->game0_ns, __ATOMIC_RELAXED);
    game->remainder = __atomic_load_n(&copy->remainder, __ATOMIC_RELAXED);
    game->scale_num = __atomic_load_n(&copy->scale_num, __ATOMIC_RELAXED);
    game->scale_den = __atomic_load_n(&copy->scale_den, __ATOMIC_RELAXED);
    game->epoch = __atomic_load_n(&copy->epoch, __ATOMIC_RELAXED);
    game->until_ns = __atomic_load_n(&copy->until_ns, __ATOMIC_RELAXED);
}

/* Read how game time runs at a real time that was read before: an announced change that has taken
 * effect by then is taken into account. EC_OK or EC_AGAIN. */
static inline int ec_clock_read_game(const struct ec_clock_page *page, int64_t real_ns,
                                     struct ec_game_snapshot *game)
{
    for (unsigned i = 0; i < EC_CLOCK_READS_MAX; i++) {
        uint32_t latch = ec_clock_latch_begin(page);

        ec_clock_game_load(game, &page->game_copy[latch & 1]);
        if (__builtin_expect(real_ns >= game->until_ns, false))
            ec_clock_game_load(game, &page->game_next[latch & 1]);
        if (ec_clock_latch_held(page, latch))
            return EC_OK;
    }
    return EC_AGAIN;
}

/* A step clock and the time that it follows: now, and what is announced. */
struct ec_clock_view {
    struct ec_game_snapshot game;
    struct ec_game_snapshot next; /* holds from game.until_ns on */
    struct ec_step_snapshot step;
};

/* Read one step clock with all that its steps depend on. EC_OK or EC_AGAIN. */
int ec_clock_read_view(const struct ec_clock_page *page, uint32_t clock,
                       struct ec_clock_view *view);

/* Whether the arithmetic can be trusted with it: false for a page that holds no time yet. */
bool ec_clock_view_valid(const struct ec_clock_view *view);

/* How game time runs at a real time. */
static inline const struct ec_game_snapshot *ec_clock_view_game(const struct ec_clock_view *view,
                                                                int64_t real_ns)
{
    return real_ns >= view->game.until_ns ? &view->next : &view->game;
}

/* The time of the clock's source at a real time, and the real time at which a step is due:
 * EC_CLOCK_NEVER while its source stands. */
int64_t ec_clock_view_source_ns(const struct ec_clock_view *view, int64_t real_ns);
int64_t ec_clock_view_due_ns(const struct ec_clock_view *view, uint64_t step);

/* What is published of a step. */
struct ec_step_news {
    uint64_t step;
    uint64_t epoch;
    uint64_t skipped;
    int64_t due_ns;
    int64_t next_due_ns;
};

/* Publish that a step was reached. Who sees the new change (acquire, ec_step_word_change) sees the
 * step, too. Wake the sleepers afterwards. */
static inline void ec_step_word_publish(struct ec_step_word *word, const struct ec_step_news *news)
{
    uint32_t change = atomic_load_explicit(&word->change, memory_order_relaxed);

    atomic_store_explicit(&word->epoch_before, news->epoch, memory_order_relaxed);
    /* Keeps epoch_before in front of the step; partner is the acquire fence in ec_step_word_read. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&word->step, news->step, memory_order_relaxed);
    atomic_store_explicit(&word->skipped, news->skipped, memory_order_relaxed);
    atomic_store_explicit(&word->due_ns, news->due_ns, memory_order_relaxed);
    atomic_store_explicit(&word->next_due_ns, news->next_due_ns, memory_order_relaxed);
    /* release: partner is the acquire load in ec_step_word_read. */
    atomic_store_explicit(&word->epoch_after, news->epoch, memory_order_release);
    atomic_store_explicit(&word->change, change + 1, memory_order_release);
}

/* Read the newest step and its epoch together: a roll-back changes both. EC_OK, or EC_AGAIN while they
 * are being changed; change follows. */
static inline int ec_step_word_read(const struct ec_step_word *word, struct ec_step_news *news)
{
    news->epoch = atomic_load_explicit(&word->epoch_after, memory_order_acquire);
    news->step = atomic_load_explicit(&word->step, memory_order_relaxed);
    news->skipped = atomic_load_explicit(&word->skipped, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&word->epoch_before, memory_order_relaxed) == news->epoch
               ? EC_OK
               : EC_AGAIN;
}

/* Make sleepers look at the page again: the snapshots or the breaker changed, which were stored
 * before. Pairs as above. */
static inline void ec_step_word_touch(struct ec_step_word *word)
{
    uint32_t change = atomic_load_explicit(&word->change, memory_order_relaxed);

    atomic_store_explicit(&word->change, change + 1, memory_order_release);
}

/* What to sleep on. Load it first, look whether there is something to do, then sleep while it is
 * still the same: a step that comes between is not missed. Pairs with the two above. */
static inline uint32_t ec_step_word_change(const struct ec_step_word *word)
{
    return atomic_load_explicit(&word->change, memory_order_acquire);
}

#endif
