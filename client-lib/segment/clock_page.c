/* clock_page.c - the writer's side of the latch, and the longer reads. */
#include "segment/clock_page.h"

#include "segment/clock_arithmetic.h"

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
    ec_clock_words_store(&page->game_next[copy], &snapshot->game_next, sizeof snapshot->game_next);
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

int ec_clock_read_view(const struct ec_clock_page *page, uint32_t clock, struct ec_clock_view *view)
{
    for (unsigned i = 0; i < EC_CLOCK_READS_MAX; i++) {
        uint32_t latch = ec_clock_latch_begin(page);

        ec_clock_game_load(&view->game, &page->game_copy[latch & 1]);
        ec_clock_game_load(&view->next, &page->game_next[latch & 1]);
        ec_clock_words_load(&view->step, &page->step_copy[latch & 1][clock], sizeof view->step);
        if (ec_clock_latch_held(page, latch))
            return EC_OK;
    }
    return EC_AGAIN;
}

bool ec_clock_view_valid(const struct ec_clock_view *view)
{
    return ec_game_valid(&view->game) && ec_step_valid(&view->step) &&
           (view->game.until_ns == EC_CLOCK_NEVER || ec_game_valid(&view->next));
}

int64_t ec_clock_view_source_ns(const struct ec_clock_view *view, int64_t real_ns)
{
    return view->step.source == EC_STEP_GAME
               ? ec_game_at(ec_clock_view_game(view, real_ns), real_ns)
               : real_ns;
}

int64_t ec_clock_view_due_ns(const struct ec_clock_view *view, uint64_t step)
{
    int64_t due_ns = ec_step_due_ns(&view->step, step);
    int64_t real_ns;

    if (view->step.source != EC_STEP_GAME)
        return due_ns;
    real_ns = ec_game_real_ns(&view->game, due_ns);
    return real_ns < view->game.until_ns || view->game.until_ns == EC_CLOCK_NEVER
               ? real_ns
               : ec_game_real_ns(&view->next, due_ns);
}
