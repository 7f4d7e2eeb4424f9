/* Acquire against evict, one side at a time and both at once. The orders are proven by the model
 * references.pml; here real threads and a real child process run them. */
#include "segment/references.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define INDEX 7

static struct ec_client_segment *client;
static _Atomic uint64_t *life;

static void *shared(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(base, MAP_FAILED);
    return base;
}

static void set_up(void)
{
    client = shared(sizeof *client);
    life = shared(4096);
    atomic_store(&client->threads_high, 4);
    atomic_store(life, ec_life_make(5, EC_RESOURCE_READY));
}

static void tear_down(void)
{
    munmap(client, sizeof *client);
    munmap((void *)life, 4096);
}

static _Atomic int32_t *count_of(uint32_t thread)
{
    return &client->hard.count[thread][INDEX];
}

static uint32_t sum(void)
{
    return ec_reference_sum(client, &client->hard, INDEX);
}

/* What acquire answers by state and generation, and that only a success leaves a count. */
static const struct {
    uint64_t life;
    uint32_t generation;
    int rc;
} acquire_cases[] = {
    { 5ull << 32 | EC_RESOURCE_READY, 5, EC_OK },
    { 5ull << 32 | EC_RESOURCE_EVICTING, 5, EC_AGAIN }, /* may be undone */
    { 6ull << 32 | EC_RESOURCE_READY, 5, EC_ERR_STALE },
    { 6ull << 32 | EC_RESOURCE_EVICTING, 5, EC_ERR_STALE },
    { 6ull << 32 | EC_RESOURCE_EVICTED, 5, EC_ERR_EVICTED }, /* can be asked for */
    { 7ull << 32 | EC_RESOURCE_EVICTED, 5, EC_ERR_STALE },   /* another life came in between */
    { 6ull << 32 | EC_RESOURCE_UNLOADED, 5, EC_ERR_STALE },
    { 5ull << 32 | EC_RESOURCE_LOADING, 5, EC_ERR_STALE },
    { 0ull << 32 | EC_RESOURCE_READY, 0, EC_ERR_STALE }, /* a zeroed handle is never valid */
    { 0ull << 32 | EC_RESOURCE_EVICTING, 0, EC_ERR_STALE },
};

START_TEST(acquire_asks_for_generation_and_state)
{
    for (int order = EC_REFERENCE_MEMBARRIER; order <= EC_REFERENCE_FENCE; order++)
        for (unsigned in_shared = 0; in_shared < 2; in_shared++) {
            int rc;

            atomic_store(life, acquire_cases[_i].life);
            rc = ec_reference_acquire(count_of(1), in_shared != 0, (enum ec_reference_order)order,
                                      life, acquire_cases[_i].generation);
            ck_assert_int_eq(rc, acquire_cases[_i].rc);
            ck_assert_uint_eq(sum(), rc == EC_OK ? 1 : 0);
            if (rc == EC_OK)
                ec_reference_release(count_of(1), in_shared != 0);
            ck_assert_uint_eq(sum(), 0);
        }
}
END_TEST

START_TEST(a_release_on_another_thread_counts_in_the_sum)
{
    ck_assert_int_eq(ec_reference_acquire(count_of(0), false, EC_REFERENCE_FENCE, life, 5), EC_OK);
    ck_assert_int_eq(ec_reference_acquire(count_of(0), false, EC_REFERENCE_FENCE, life, 5), EC_OK);
    ec_reference_release(count_of(3), false);
    ck_assert_int_eq(atomic_load(count_of(3)), -1);
    ck_assert_uint_eq(sum(), 1);
}
END_TEST

START_TEST(hostile_counts_are_bounded)
{
    atomic_store(&client->threads_high, UINT32_MAX);
    for (uint32_t thread = 0; thread < EC_THREADS_MAX; thread++)
        atomic_store(count_of(thread), INT32_MAX);
    ck_assert_uint_eq(sum(), INT32_MAX);
    for (uint32_t thread = 0; thread < EC_THREADS_MAX; thread++)
        atomic_store(count_of(thread), INT32_MIN);
    ck_assert_uint_eq(sum(), 0); /* and cannot hide what others hold */
    ck_assert_uint_eq(ec_reference_sum(client, &client->hard, EC_RESOURCES_MAX), 0);
    ck_assert_uint_eq(ec_reference_sum(client, &client->hard, UINT32_MAX), 0);
}
END_TEST

START_TEST(slots_that_were_never_used_are_not_read)
{
    atomic_store(count_of(5), 3);
    ck_assert_uint_eq(sum(), 0);
    atomic_store(&client->threads_high, 6);
    ck_assert_uint_eq(sum(), 3);
    ck_assert_uint_eq(ec_reference_total(client, &client->hard, INDEX), 0);
    ck_assert_uint_eq(ec_reference_total(client, &client->hard, INDEX + 1), 3);
}
END_TEST

START_TEST(without_membarrier_in_the_daemon_a_game_fences_itself)
{
    ck_assert_int_eq(ec_reference_register(false), EC_REFERENCE_FENCE);
    ck_assert_int_eq(ec_reference_barrier(false), EC_OK);
    if (ec_reference_membarrier_works()) {
        ck_assert_int_eq(ec_reference_register(true), EC_REFERENCE_MEMBARRIER);
        ck_assert_int_eq(ec_reference_barrier(true), EC_OK);
    }
}
END_TEST

/* A game in a process of its own acquires, checks that the bytes are of its generation and releases,
 * without end; this process evicts and refills. A reader that sees another generation's bytes counts. */
struct arena {
    _Atomic uint64_t content; /* the generation whose bytes are there; 0 while they are freed */
    _Atomic uint64_t acquired, wrong;
};

static void game(struct arena *arena, bool membarrier)
{
    enum ec_reference_order order = ec_reference_register(membarrier);

    for (;;) {
        uint32_t generation = ec_life_generation(atomic_load_explicit(life, memory_order_relaxed));

        if (ec_reference_acquire(count_of(0), false, order, life, generation) != EC_OK)
            continue;
        for (int i = 0; i < 3; i++)
            if (atomic_load_explicit(&arena->content, memory_order_relaxed) != generation)
                atomic_fetch_add(&arena->wrong, 1);
        atomic_fetch_add_explicit(&arena->acquired, 1, memory_order_relaxed);
        ec_reference_release(count_of(0), false);
    }
}

static void evict_rounds(struct arena *arena, bool membarrier, unsigned evictions)
{
    uint32_t generation = 5;

    while (evictions > 0) {
        ec_reference_mark(life, generation);
        ck_assert_int_eq(ec_reference_barrier(membarrier), EC_OK);
        if (sum() > 0) {
            ec_reference_unmark(life, generation);
            continue;
        }
        generation++;
        atomic_store_explicit(life, ec_life_make(generation, EC_RESOURCE_EVICTED),
                              memory_order_relaxed);
        atomic_store_explicit(&arena->content, 0, memory_order_relaxed);
        atomic_store_explicit(&arena->content, generation, memory_order_relaxed);
        atomic_store_explicit(life, ec_life_make(generation, EC_RESOURCE_READY),
                              memory_order_release);
        evictions--;
    }
}

START_TEST(what_another_process_holds_is_never_evicted)
{
    bool membarrier = _i == 1;
    struct arena *arena = shared(sizeof *arena);
    pid_t pid;

    if (membarrier && !ec_reference_membarrier_works())
        return; /* the kernel lacks it; the daemon takes the other way, too */
    atomic_store(&arena->content, 5);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        game(arena, membarrier);
    while (atomic_load(&arena->acquired) == 0)
        sched_yield(); /* it runs */
    evict_rounds(arena, membarrier, 20000);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_uint_eq(atomic_load(&arena->wrong), 0);
    ck_assert_uint_gt(atomic_load(&arena->acquired), 0);
    munmap(arena, sizeof *arena);
}
END_TEST

/* Many threads on the shared row lose no count. */
static void *use_shared_row(void *argument)
{
    (void)argument;
    for (int i = 0; i < 20000; i++)
        if (ec_reference_acquire(count_of(EC_THREADS_MAX - 1), true, EC_REFERENCE_FENCE, life, 5) ==
            EC_OK)
            ec_reference_release(count_of(EC_THREADS_MAX - 1), true);
    ck_assert_int_eq(
        ec_reference_acquire(count_of(EC_THREADS_MAX - 1), true, EC_REFERENCE_FENCE, life, 5),
        EC_OK);
    return NULL;
}

START_TEST(threads_may_share_the_last_row)
{
    pthread_t threads[4];

    atomic_store(&client->threads_high, EC_THREADS_MAX);
    ck_assert(ec_reference_row_is_shared(EC_THREADS_MAX - 1));
    ck_assert(!ec_reference_row_is_shared(0));
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_shared_row, NULL), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(sum(), 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("references");
    TCase *tcase = tcase_create("references");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, acquire_asks_for_generation_and_state, 0,
                        sizeof acquire_cases / sizeof acquire_cases[0]);
    tcase_add_test(tcase, a_release_on_another_thread_counts_in_the_sum);
    tcase_add_test(tcase, hostile_counts_are_bounded);
    tcase_add_test(tcase, slots_that_were_never_used_are_not_read);
    tcase_add_test(tcase, without_membarrier_in_the_daemon_a_game_fences_itself);
    tcase_add_loop_test(tcase, what_another_process_holds_is_never_evicted, 0, 2);
    tcase_add_test(tcase, threads_may_share_the_last_row);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
