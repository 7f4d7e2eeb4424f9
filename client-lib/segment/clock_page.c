/* clock_page.c - the writer's side of the latch, and the longer reads. */
#include "segment/clock_page.h"

_Static_assert(sizeof(struct ec_game_snapshot) % sizeof(ec_clock_word) == 0, "copied by words");
_Static_assert(sizeof(struct ec_step_snapshot) % sizeof(ec_clock_word) == 0, "copied by words");
_Static_assert(offsetof(struct ec_clock_page, game_copy[1]) -
                       offsetof(struct ec_clock_page, latch) <=
                   64,
               "latch and game_copy[0] are one cache line");

/* Point readers to the other copies, which are whole.
 *
 * Order: release keeps the stores into those copies before it (partner: the acquire load in
 * ec_clock_latch_begin). The release fence keeps it before the stores into the copies that it
 * leaves, which a release store would not do (partner: the acquire fence in ec_clock_latch_held). */
static void turn_latch(struct ec_clock_page *page)
{
    uint32_t latch = atomic_load_explicit(&page->latch, memory_order_relaxed);

    atomic_store_explicit(&page->latch, latch + 1, memory_order_release);
    atomic_thread_fence(memory_order_release);
}

static void store_copies(struct ec_clock_page *page, unsigned copy,
                         const struct ec_clock_snapshot *snapshot)
{
    ec_clock_words_store(&page->game_copy[copy], &snapshot->game, sizeof snapshot->game);
    ec_clock_words_store(&page->step_copy[copy], &snapshot->step, sizeof snapshot->step);
}

void ec_clock_page_write(struct ec_clock_page *page, const struct ec_clock_snapshot *snapshot)
{
    /* It is odd already when an earlier writer was killed on its way: copy 0 is in pieces then, and
     * readers are on copy 1. */
    if ((atomic_load_explicit(&page->latch, memory_order_relaxed) & 1) == 0)
        turn_latch(page); /* odd: readers use copy 1, still the old snapshot */
    store_copies(page, 0, snapshot);
    turn_latch(page); /* even: readers use copy 0, the new one */
    store_copies(page, 1, snapshot);
}

int ec_clock_read_step(const struct ec_clock_page *page, uint32_t clock,
                       struct ec_game_snapshot *game, struct ec_step_snapshot *step)
{
    for (unsigned i = 0; i < EC_CLOCK_READS_MAX; i++) {
        uint32_t latch = ec_clock_latch_begin(page);

        ec_clock_game_load(game, &page->game_copy[latch & 1]);
        ec_clock_words_load(step, &page->step_copy[latch & 1][clock], sizeof *step);
        if (ec_clock_latch_held(page, latch))
            return EC_OK;
    }
    return EC_AGAIN;
}
