/* Acquire and release by the functions of the library and in line: each way counts in the right row, of
 * the right client, and answers the same. What daemons do meanwhile is tested with real ones. */
#include <engine-core/resource_inline.h>

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/live_clients.h"
#include "proto/handle.h"
#include "segment/references.h"

#define INDEX 7
#define GENERATION 5

static struct ec_client clients[2];
static struct ec_directory *directories[2];

static void *zeroed(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(base, MAP_FAILED);
    return base;
}

static struct ec_directory *directory(struct ec_client *client)
{
    return directories[client - clients];
}

static void life_is(struct ec_client *client, uint32_t generation, enum ec_resource_state state)
{
    atomic_store(&directory(client)->entries[INDEX].life, ec_life_make(generation, state));
}

static void open_client(struct ec_client *client, bool membarrier)
{
    struct ec_error why = { 0 };

    *client = (struct ec_client) { .doorbell = { -1, -1 } };
    client->own.fd = -1;
    client->own.base = zeroed(sizeof(struct ec_client_segment));
    directories[client - clients] = zeroed(sizeof(struct ec_directory));
    client->directory.base = directory(client);
    atomic_store(&directory(client)->membarrier, membarrier);
    life_is(client, GENERATION, EC_RESOURCE_READY);
    ck_assert_int_eq(ec_live_clients_add(client, &why), EC_OK);
}

static void close_client(struct ec_client *client)
{
    ec_live_clients_remove(client);
    munmap(client->own.base, sizeof(struct ec_client_segment));
    munmap(directory(client), sizeof(struct ec_directory));
}

static uint32_t sum(struct ec_client *client)
{
    return ec_reference_sum(ec_client_own(client), &ec_client_own(client)->hard, INDEX);
}

static int32_t count(struct ec_client *client, uint32_t slot)
{
    return atomic_load(&ec_client_own(client)->hard.count[slot][INDEX]);
}

static const ec_resource resource = { (uint64_t)GENERATION << 32 | INDEX };

static int acquire(struct ec_client *client, ec_resource of, bool in_line)
{
    return in_line ? ec_resource_acquire_inline(client, of) : ec_resource_acquire(client, of, NULL);
}

static void release(struct ec_client *client, ec_resource of, bool in_line)
{
    if (in_line)
        ec_resource_release_inline(client, of);
    else
        ec_resource_release(client, of);
}

/* Is the short way open to this thread? */
static bool is_plain(struct ec_client *client)
{
    return ec_resource_inline_may(client, &ec_resource_thread, INDEX);
}

/* Take all slots but the shared one, so that this thread gets that. */
static void take_slots(struct ec_client *client)
{
    for (uint32_t slot = 0; slot < EC_THREAD_SLOT_SHARED; slot++)
        atomic_store(&ec_client_own(client)->threads[slot].used, 1);
}

static const struct {
    uint32_t generation;
    enum ec_resource_state state;
    ec_resource wanted;
    int rc;
} cases[] = {
    { 5, EC_RESOURCE_READY, { 5ull << 32 | INDEX }, EC_OK },
    { 5, EC_RESOURCE_EVICTING, { 5ull << 32 | INDEX }, EC_AGAIN },
    { 6, EC_RESOURCE_EVICTED, { 5ull << 32 | INDEX }, EC_ERR_EVICTED },
    { 6, EC_RESOURCE_READY, { 5ull << 32 | INDEX }, EC_ERR_STALE },
    { 5, EC_RESOURCE_LOADING, { 5ull << 32 | INDEX }, EC_ERR_STALE },
    { UINT32_MAX, EC_RESOURCE_READY, { (uint64_t)UINT32_MAX << 32 | INDEX }, EC_OK },
    { 0, EC_RESOURCE_UNLOADED, { INDEX }, EC_ERR_STALE }, /* a zeroed entry */
    { 5, EC_RESOURCE_READY, { 0 }, EC_ERR_STALE },        /* a zeroed handle */
    { 5, EC_RESOURCE_READY, { 5ull << 32 | EC_RESOURCES_MAX }, EC_ERR_STALE },
    { 5, EC_RESOURCE_READY, { 5ull << 32 | UINT32_MAX }, EC_ERR_STALE },
};

START_TEST(each_way_answers_the_same_and_only_a_success_leaves_a_count)
{
    for (unsigned way = 0; way < 8; way++) {
        bool membarrier = way & 1, shared = way & 2, in_line = way & 4;

        open_client(&clients[0], membarrier);
        if (shared)
            take_slots(&clients[0]);
        for (unsigned round = 0; round < 3; round++) { /* the first is never plain */
            int rc;

            life_is(&clients[0], cases[_i].generation, cases[_i].state);
            rc = acquire(&clients[0], cases[_i].wanted, in_line);
            ck_assert_msg(rc == cases[_i].rc, "way %u, round %u: %d", way, round, rc);
            ck_assert_uint_eq(sum(&clients[0]), rc == EC_OK ? 1 : 0);
            if (rc == EC_OK)
                release(&clients[0], cases[_i].wanted, in_line);
            ck_assert_uint_eq(sum(&clients[0]), 0);
        }
        if ((uint32_t)cases[_i].wanted.value < EC_RESOURCES_MAX)
            ck_assert_int_eq(is_plain(&clients[0]),
                             membarrier && !shared && ec_reference_membarrier_works());
        close_client(&clients[0]);
    }
}
END_TEST

/* While the daemon looks whether anybody holds it, and after it was replaced. */
START_TEST(what_is_held_can_be_looked_at_whatever_the_daemon_does)
{
    static const struct {
        uint32_t generation;
        enum ec_resource_state state;
        int held, not_held;
    } lives[] = {
        { GENERATION, EC_RESOURCE_READY, EC_OK, EC_OK },
        { GENERATION, EC_RESOURCE_EVICTING, EC_OK, EC_AGAIN },
        { GENERATION + 1, EC_RESOURCE_UNLOADED, EC_OK, EC_ERR_STALE },
        { GENERATION + 1, EC_RESOURCE_EVICTED, EC_ERR_EVICTED, EC_ERR_EVICTED },
        { GENERATION + 1, EC_RESOURCE_READY, EC_ERR_STALE, EC_ERR_STALE },
    };

    open_client(&clients[0], true);
    for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++) {
        struct ec_resource_view view;

        life_is(&clients[0], GENERATION, EC_RESOURCE_READY);
        ck_assert_int_eq(ec_resource_acquire(&clients[0], resource, NULL), EC_OK);
        life_is(&clients[0], lives[i].generation, lives[i].state);
        ck_assert_int_eq(ec_resource_access(&clients[0], resource, &view), lives[i].held);
        ec_resource_release(&clients[0], resource);
        ck_assert_int_eq(ec_resource_access(&clients[0], resource, &view), lives[i].not_held);
    }
    close_client(&clients[0]);
}
END_TEST

/* What a thread remembers of one client is not taken for another's, whichever came first. */
START_TEST(two_clients_of_one_thread_count_apart)
{
    for (unsigned i = 0; i < 2; i++)
        open_client(&clients[i], true);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < 2; i++)
            for (unsigned in_line = 0; in_line < 2; in_line++) {
                ck_assert_int_eq(acquire(&clients[i], resource, in_line == 1), EC_OK);
                ck_assert_uint_eq(sum(&clients[i]), 1);
                ck_assert_uint_eq(sum(&clients[1 - i]), 0);
                release(&clients[i], resource, in_line == 0);
                ck_assert_uint_eq(sum(&clients[i]), 0);
            }
    for (unsigned i = 0; i < 2; i++)
        close_client(&clients[i]);
}
END_TEST

START_TEST(a_new_client_at_the_same_address_is_another_one)
{
    for (unsigned round = 0; round < 3; round++) {
        open_client(&clients[0], true);
        ck_assert(!is_plain(&clients[0]));
        ck_assert_int_eq(ec_resource_acquire_inline(&clients[0], resource), EC_OK);
        ck_assert_int_eq(is_plain(&clients[0]), ec_reference_membarrier_works());
        ck_assert_int_eq(ec_resource_acquire_inline(&clients[0], resource), EC_OK);
        ck_assert_uint_eq(sum(&clients[0]), 2);
        close_client(&clients[0]);
    }
}
END_TEST

/* As attach.c does it when another daemon has come. */
START_TEST(after_another_daemon_came_it_is_decided_anew)
{
    open_client(&clients[0], true);
    ck_assert_int_eq(ec_resource_acquire_inline(&clients[0], resource), EC_OK);
    atomic_store(&directory(&clients[0])->membarrier, false);
    atomic_store(&clients[0].reference_order, EC_REFERENCE_UNDECIDED);
    atomic_store(&clients[0].fenced_serial, EC_CLIENT_NO_SERIAL);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(ec_resource_acquire_inline(&clients[0], resource), EC_OK);
        ck_assert(!is_plain(&clients[0]));
        ck_assert_uint_eq(atomic_load(&clients[0].reference_order), EC_REFERENCE_FENCE);
    }
    ck_assert_uint_eq(sum(&clients[0]), 3);
    for (unsigned i = 0; i < 3; i++)
        ec_resource_release_inline(&clients[0], resource);
    ck_assert_uint_eq(sum(&clients[0]), 0);
    close_client(&clients[0]);
}
END_TEST

/* ---- threads ---- */

static void *hold_one(void *context)
{
    ck_assert_int_eq(acquire(&clients[0], resource, true), EC_OK);
    ck_assert_int_eq(acquire(&clients[0], resource, true), EC_OK);
    release(&clients[0], resource, true);
    return context;
}

static void *release_one(void *context)
{
    release(&clients[0], resource, true);
    return context;
}

static void run(void *(*main)(void *))
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, main, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

START_TEST(a_thread_that_ends_leaves_what_it_holds_to_the_next)
{
    open_client(&clients[0], true);
    for (unsigned i = 1; i <= 5; i++) {
        run(hold_one);
        ck_assert_int_eq(count(&clients[0], 0), (int32_t)i);
    }
    ck_assert_int_eq(ec_resource_acquire_inline(&clients[0], resource), EC_OK);
    ck_assert_int_eq(count(&clients[0], 0), 6);
    run(release_one); /* beside this thread, so in another slot */
    ck_assert_int_eq(count(&clients[0], 1), -1);
    ck_assert_uint_eq(sum(&clients[0]), 5);
    close_client(&clients[0]);
}
END_TEST

/* Runs behind the library's own destructor, as those of other libraries may. */
static pthread_key_t late_key;

static void late(void *context)
{
    static _Thread_local unsigned round;

    if (round++ < 2) {
        pthread_setspecific(late_key, context);
        return;
    }
    ck_assert_int_eq(ec_resource_acquire_inline(&clients[0], resource), EC_OK);
}

static void *hold_late(void *context)
{
    hold_one(NULL);
    pthread_setspecific(late_key, &clients[0]);
    return context;
}

START_TEST(a_destructor_may_acquire_when_the_slot_was_left)
{
    open_client(&clients[0], true);
    ck_assert_int_eq(pthread_key_create(&late_key, late), 0);
    run(hold_late);
    ck_assert_uint_eq(sum(&clients[0]), 2);
    ck_assert_uint_eq(atomic_load(&ec_client_own(&clients[0])->threads[0].used), 0);
    pthread_key_delete(late_key);
    close_client(&clients[0]);
}
END_TEST

/* ---- uses ---- */

START_TEST(a_use_is_noted_once_until_the_daemon_reads_or_another_comes_between)
{
    const ec_resource other = { (uint64_t)GENERATION << 32 | (INDEX + 1) };

    for (unsigned in_line = 0; in_line < 2; in_line++) {
        const struct ec_use_ring *ring;

        open_client(&clients[0], true);
        ring = &ec_client_own(&clients[0])->uses[0];
        atomic_store(&directory(&clients[0])->entries[INDEX + 1].life,
                     ec_life_make(GENERATION, EC_RESOURCE_READY));
        atomic_store(&directory(&clients[0])->use_epoch, 1);
        for (unsigned i = 0; i < 5; i++)
            ck_assert_int_eq(acquire(&clients[0], resource, in_line == 1), EC_OK);
        ck_assert_uint_eq(atomic_load(&ring->head), 1);
        ck_assert_int_eq(acquire(&clients[0], other, in_line == 1), EC_OK);
        ck_assert_int_eq(acquire(&clients[0], resource, in_line == 1), EC_OK);
        ck_assert_uint_eq(atomic_load(&ring->head), 3);
        atomic_store(&directory(&clients[0])->use_epoch, 2);
        ck_assert_int_eq(acquire(&clients[0], resource, in_line == 1), EC_OK);
        ck_assert_uint_eq(atomic_load(&ring->head), 4);
        ck_assert_uint_eq(atomic_load(&ring->index[3]), INDEX);
        ck_assert_uint_eq(atomic_load(&ring->index[1]), INDEX + 1);
        close_client(&clients[0]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resource");
    TCase *tcase = tcase_create("resource");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, each_way_answers_the_same_and_only_a_success_leaves_a_count, 0,
                        sizeof cases / sizeof cases[0]);
    tcase_add_test(tcase, what_is_held_can_be_looked_at_whatever_the_daemon_does);
    tcase_add_test(tcase, two_clients_of_one_thread_count_apart);
    tcase_add_test(tcase, a_new_client_at_the_same_address_is_another_one);
    tcase_add_test(tcase, after_another_daemon_came_it_is_decided_anew);
    tcase_add_test(tcase, a_thread_that_ends_leaves_what_it_holds_to_the_next);
    tcase_add_test(tcase, a_destructor_may_acquire_when_the_slot_was_left);
    tcase_add_test(tcase, a_use_is_noted_once_until_the_daemon_reads_or_another_comes_between);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
