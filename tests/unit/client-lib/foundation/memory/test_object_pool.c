/* The object pool promises: a handle names one life, each life is begun and ended once, and by whom it may. */
#include "foundation/memory/object_pool.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/thread_life.h"
#include "support/memory_rows.h"
#include "support/often.h"

struct thing {
    uint64_t number;
    ec_object_handle next; /* put off when this one is destroyed, */
    bool at_once;          /* or destroyed with it */
};

static struct memory_rows *rows;
static _Atomic int constructed, destructed;
#define ORDERED 4096 /* the first so many ends are written down, each in a place of its own */
static uint64_t order[ORDERED];

static int thing_construct(void *object, const void *arguments, void *context)
{
    const uint64_t *number = arguments;

    (void)context;
    if (number != NULL && *number == 13)
        return EC_ERR_STATE;
    memset(object, 0xFF, sizeof(struct thing));
    *(struct thing *)object = (struct thing) { .number = number != NULL ? *number : 0 };
    constructed++;
    return EC_OK;
}

static struct ec_object_pool *things;

static void thing_destruct(void *object, void *context)
{
    const struct thing *thing = object;
    const int at = destructed++;

    ck_assert_ptr_eq(context, order);
    if (at < ORDERED)
        order[at] = thing->number;
    if (thing->at_once)
        ck_assert_int_eq(ec_object_destroy(things, thing->next), EC_ERR_STALE);
    else if (thing->next.generation != 0)
        ec_object_destroy_later(things, thing->next);
}

static const struct ec_object_type types[] = {
    { .name = "thing",
      .bytes = sizeof(struct thing),
      .construct = thing_construct,
      .destruct = thing_destruct,
      .context = order },
    { .name = "line", .bytes = 100, .align = 256 },
};

static void make(uint32_t objects_max)
{
    const struct ec_object_pool_desc desc = { .name = "world",
                                              .tag = EC_TAG_PHYSICS,
                                              .types = types,
                                              .type_count = 2,
                                              .objects_max = objects_max };
    struct ec_error why = { 0 };

    ck_assert_msg(ec_object_pool_create_in(&rows->sink, &desc, &things, &why) == EC_OK, "%s",
                  why.text);
}

static void setup(void)
{
    rows = memory_rows_create();
    constructed = destructed = 0;
    make(0);
}

static void teardown(void)
{
    ec_object_pool_destroy(things);
    ck_assert_int_eq(constructed, destructed);
    memory_rows_destroy(rows);
}

static ec_object_handle create(uint64_t number)
{
    ec_object_handle handle;

    ASSERT_OFTEN(ec_object_create(things, 0, &number, &handle) == EC_OK);
    return handle;
}

static struct ec_object_counts counts_of(void)
{
    struct ec_object_counts counts;

    ec_object_pool_counts(things, &counts);
    return counts;
}

START_TEST(a_bad_description_is_refused)
{
    static const struct ec_object_type nameless = { .bytes = 8 }, empty = { .name = "e" };
    struct ec_object_pool *pool;
    struct ec_error why = { 0 };
    const unsigned listed = memory_rows_listed(rows);

    ck_assert_int_eq(
        ec_object_pool_create_in(NULL, &(struct ec_object_pool_desc) { .name = "p" }, &pool, &why),
        EC_ERR_PARAM);
    ck_assert_str_eq(why.text, "object pool \"p\": 0 types, expected 1..64");
    ck_assert_int_eq(
        ec_object_pool_create_in(
            &rows->sink,
            &(struct ec_object_pool_desc) { .name = "p", .types = &nameless, .type_count = 1 },
            &pool, &why),
        EC_ERR_PARAM);
    ck_assert_str_eq(why.text, "object pool \"p\": type 0: name has 0 bytes, expected 1..31 bytes");
    ck_assert_int_eq(ec_object_pool_create_in(&rows->sink,
                                              &(struct ec_object_pool_desc) {
                                                  .name = "p", .types = &empty, .type_count = 1 },
                                              &pool, &why),
                     EC_ERR_SIZE);
    ck_assert_int_eq(
        ec_object_pool_create_in(
            NULL,
            &(struct ec_object_pool_desc) {
                .name = "p", .types = types, .type_count = 2, .objects_max = (1u << 24) + 1 },
            &pool, &why),
        EC_ERR_LIMIT);
    ck_assert_ptr_null(pool);
    ck_assert_uint_eq(memory_rows_listed(rows), listed);
}
END_TEST

START_TEST(a_handle_is_stale_after_its_life_also_when_the_place_is_used_again)
{
    const ec_object_handle first = create(1);
    ec_object_handle second;

    ck_assert_uint_eq(((struct thing *)ec_object_get(things, first))->number, 1);
    ck_assert_int_eq(ec_object_type_of(things, first), 0);
    ck_assert_int_eq(ec_object_destroy(things, first), EC_OK);
    ck_assert_ptr_null(ec_object_get(things, first));
    second = create(2);
    ck_assert_uint_eq(second.index, first.index);
    ck_assert_uint_ne(second.generation, first.generation);
    ck_assert_ptr_null(ec_object_get(things, first));
    ck_assert_int_eq(ec_object_destroy(things, first), EC_ERR_STALE);
    ck_assert_int_eq(ec_object_destroy_later(things, first), EC_ERR_STALE);
    ck_assert_int_eq(ec_object_hand_off(things, first), EC_ERR_STALE);
    ck_assert_int_eq(ec_object_take(things, first), EC_ERR_STALE);
    ck_assert_int_eq(ec_object_type_of(things, first), EC_ERR_STALE);
    ck_assert_ptr_nonnull(ec_object_get(things, second));
    ck_assert_ptr_null(ec_object_get(things, (ec_object_handle) { 0 }));
    ck_assert_ptr_null(ec_object_get(things, (ec_object_handle) { 5000000, 1 }));
}
END_TEST

START_TEST(no_object_is_made_when_its_constructor_refuses)
{
    const uint64_t unlucky = 13;
    ec_object_handle handle = { 1, 1 };

    ck_assert_int_eq(ec_object_create(things, 0, &unlucky, &handle), EC_ERR_STATE);
    ck_assert_uint_eq(handle.generation, 0);
    ck_assert_int_eq(ec_object_create(things, 2, NULL, &handle), EC_ERR_PARAM);
    ck_assert_uint_eq(counts_of().live, 0);
    ck_assert_uint_eq(memory_rows_allocator(rows, "world/thing").count, 0);
    ck_assert_int_eq(ec_object_create(things, 1, NULL, &handle), EC_OK);
    ck_assert_uint_eq((uintptr_t)ec_object_get(things, handle) % 256, 0);
    ck_assert_int_eq(*(char *)ec_object_get(things, handle), 0);
    ck_assert_uint_eq(memory_rows_allocator(rows, "world/line").count, 1);
}
END_TEST

START_TEST(what_is_put_off_goes_at_the_end_of_the_frame_in_order)
{
    ec_object_handle handles[3] = { create(1), create(2), create(3) };
    const ec_object_handle last = create(4);

    ((struct thing *)ec_object_get(things, handles[0]))->next = last;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ec_object_destroy_later(things, handles[i]), EC_OK);
    ck_assert_int_eq(ec_object_destroy_later(things, handles[1]), EC_OK); /* again */
    ck_assert_int_eq(ec_object_destroy(things, handles[1]), EC_ERR_STATE);
    ck_assert_ptr_nonnull(ec_object_get(things, handles[1]));
    ck_assert_uint_eq(counts_of().put_off, 3);
    ck_assert_int_eq(destructed, 0);
    ec_frame_list_begin(&rows->sink);
    ck_assert_int_eq(destructed, 0);
    ec_frame_list_end(&rows->sink);
    ck_assert_int_eq(destructed, 4); /* with the one that a destructor put off */
    for (uint64_t i = 0; i < 4; i++)
        ck_assert_uint_eq(order[i], i + 1);
    ck_assert_uint_eq(counts_of().put_off, 0);
    ck_assert_uint_eq(counts_of().live, 0);
    ck_assert_ptr_null(ec_object_get(things, last));
    ck_assert_uint_eq(ec_object_pool_flush(things), 0);
}
END_TEST

/* A chain of destructors that never ends is cut, and goes on with the next frame. */
START_TEST(a_flush_ends_although_each_destructor_puts_another_object_off)
{
    ec_object_handle next = { 0 };

    for (uint64_t i = 0; i < 40; i++) {
        const ec_object_handle handle = create(100 + i);

        ((struct thing *)ec_object_get(things, handle))->next = next;
        next = handle;
    }
    ck_assert_int_eq(ec_object_destroy_later(things, next), EC_OK);
    ck_assert_uint_eq(ec_object_pool_flush(things), 16);
    ck_assert_uint_eq(counts_of().put_off, 1);
    ck_assert_uint_eq(ec_object_pool_flush(things), 16);
    ck_assert_uint_eq(ec_object_pool_flush(things), 8);
    ck_assert_uint_eq(counts_of().live, 0);
}
END_TEST

START_TEST(a_place_whose_generations_are_used_up_is_never_used_again)
{
    const ec_object_handle first = create(1);
    struct ec_object_place *place = ec_object_pool_place(things, first.index);
    ec_object_handle last;

    ck_assert_int_eq(ec_object_destroy(things, first), EC_OK);
    place->state = (uint64_t)(UINT32_MAX - 1) << EC_OBJECT_FLAG_BITS;
    last = create(2);
    ck_assert_uint_eq(last.index, first.index);
    ck_assert_uint_eq(last.generation, UINT32_MAX);
    ck_assert_ptr_nonnull(ec_object_get(things, last));
    ck_assert_int_eq(ec_object_destroy(things, last), EC_OK);
    ck_assert_uint_eq(counts_of().retired, 1);
    for (uint64_t i = 0; i < 100; i++)
        ck_assert_uint_ne(create(i + 20).index, first.index);
    ck_assert_ptr_null(ec_object_get(things, last));
}
END_TEST

START_TEST(a_full_pool_says_so_and_is_good_again_after_a_destruction)
{
    const uint64_t number = 5;
    ec_object_handle handle, one = { 0 };

    ec_object_pool_destroy(things);
    make(1500); /* within the second chunk */
    for (int i = 0; i < 1500; i++)
        one = create(7);
    ck_assert_int_eq(ec_object_create(things, 0, &number, &handle), EC_ERR_LIMIT);
    ck_assert_uint_eq(memory_rows_allocator(rows, "world/thing").failed, 1);
    ck_assert_int_eq(ec_object_destroy(things, one), EC_OK);
    ck_assert_int_eq(ec_object_create(things, 0, &number, &handle), EC_OK);
    ck_assert_uint_eq(counts_of().places, 1500);
}
END_TEST

static void *try_to_destroy(void *context)
{
    const ec_object_handle *handle = context;

    ck_assert_int_eq(ec_object_destroy(things, *handle), EC_ERR_PERMISSION);
    ck_assert_int_eq(ec_object_hand_off(things, *handle), EC_ERR_PERMISSION);
    ck_assert_int_eq(ec_object_take(things, *handle), EC_ERR_PERMISSION);
    return NULL;
}

static void *take_and_destroy(void *context)
{
    const ec_object_handle *handle = context;

    ck_assert_int_eq(ec_object_take(things, *handle), EC_OK);
    ck_assert_int_eq(ec_object_take(things, *handle), EC_OK); /* mine already */
    ck_assert_int_eq(ec_object_destroy(things, *handle), EC_OK);
    return NULL;
}

static void *make_one(void *context)
{
    *(ec_object_handle *)context = create(9);
    return NULL;
}

static void on_thread(void *(*run)(void *), ec_object_handle *handle)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, run, handle), 0);
    pthread_join(thread, NULL);
}

START_TEST(an_object_is_its_owners_until_it_is_handed_off)
{
    ec_object_handle handle = create(1);

    on_thread(try_to_destroy, &handle);
    ck_assert_int_eq(ec_object_hand_off(things, handle), EC_OK);
    ck_assert_int_eq(ec_object_destroy(things, handle), EC_ERR_PERMISSION);
    on_thread(take_and_destroy, &handle);
    ck_assert_ptr_null(ec_object_get(things, handle));

    on_thread(make_one, &handle); /* its owner is gone */
    ck_assert_int_eq(ec_object_destroy(things, handle), EC_ERR_PERMISSION);
    ck_assert_int_eq(ec_object_take(things, handle), EC_OK);
    ck_assert_int_eq(ec_object_destroy(things, handle), EC_OK);
}
END_TEST

/* Its life is over for the pool, although it still runs. */
static void take_at_the_end(void *context)
{
    const ec_object_handle *handle = context;

    ck_assert_int_eq(ec_object_take(things, *handle), EC_ERR_PERMISSION);
}

static pthread_key_t at_end;

static void *take_too_late(void *context)
{
    ck_assert_uint_ne(ec_thread_life(), EC_THREAD_LIFE_NONE);
    ck_assert_int_eq(pthread_setspecific(at_end, context), 0);
    return NULL;
}

START_TEST(a_thread_that_can_own_nothing_takes_nothing)
{
    ec_object_handle handle = create(1); /* so that the pool hears first of a thread's end */

    ck_assert_int_eq(pthread_key_create(&at_end, take_at_the_end), 0);
    ck_assert_int_eq(ec_object_hand_off(things, handle), EC_OK);
    on_thread(take_too_late, &handle);
    ck_assert_int_eq(ec_object_take(things, handle), EC_OK);
    pthread_key_delete(at_end);
}
END_TEST

START_TEST(the_end_of_the_pool_ends_each_object_once_whatever_destructors_do)
{
    const ec_object_handle first = create(1), second = create(2);
    struct thing *thing = ec_object_get(things, second);

    thing->next = first;
    thing->at_once = true; /* teardown counts the ends */
    ck_assert_uint_lt(first.index, second.index);
}
END_TEST

static int count_visits(void *context, ec_object_handle handle, void *object)
{
    ck_assert_ptr_eq(ec_object_get(things, handle), object);
    return ++*(int *)context == 7 ? 42 : 0;
}

START_TEST(a_visit_sees_each_object_of_a_type)
{
    ec_object_handle handle;
    int visits = 0;

    for (uint64_t i = 0; i < 5; i++)
        create(i);
    ck_assert_int_eq(ec_object_create(things, 1, NULL, &handle), EC_OK);
    ck_assert_int_eq(ec_object_pool_visit(things, 0, count_visits, &visits), 0);
    ck_assert_int_eq(visits, 5);
    ck_assert_int_eq(ec_object_pool_visit(things, UINT32_MAX, count_visits, &visits), 42);
}
END_TEST

/* Four threads make, get, put off and destroy; handles of others are in reach of all. */
#define SHARED 256

static _Atomic uint64_t shared[SHARED];

static void *churn(void *context)
{
    unsigned seed = *(unsigned *)context;

    for (int round = 0; round < 20000; round++) {
        const ec_object_handle mine = create(1000);
        const uint64_t packed = (uint64_t)mine.generation << 32 | mine.index;
        const uint64_t other = atomic_exchange(&shared[rand_r(&seed) % SHARED], packed);
        const ec_object_handle handle = { (uint32_t)other, (uint32_t)(other >> 32) };
        int rc;

        if (rand_r(&seed) % 2 == 0) {
            rc = ec_object_destroy_later(things, handle);
            ASSERT_OFTEN(rc == EC_OK || (rc == EC_ERR_STALE && handle.generation == 0));
            continue;
        }
        rc = ec_object_destroy(things, handle);
        ASSERT_OFTEN(rc == EC_OK || rc == EC_ERR_PERMISSION || handle.generation == 0);
        if (rc == EC_ERR_PERMISSION)
            ASSERT_OFTEN(ec_object_destroy_later(things, handle) == EC_OK);
    }
    return NULL;
}

START_TEST(threads_that_destroy_each_others_objects_end_each_life_once)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
    }
    for (int i = 0; i < 200; i++)
        ec_object_pool_flush(things);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ec_object_pool_flush(things);
    ck_assert_int_eq(constructed, 20000 * THREADS);
    ck_assert_uint_eq(counts_of().live, (uint64_t)(constructed - destructed));
    ck_assert_uint_le(counts_of().live, SHARED);
    ck_assert_uint_eq(counts_of().put_off, 0);
    ck_assert_uint_eq(memory_rows_allocator(rows, "world/thing").count, counts_of().live);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("object_pool");
    TCase *tcase = tcase_create("object_pool");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_bad_description_is_refused);
    tcase_add_test(tcase, a_handle_is_stale_after_its_life_also_when_the_place_is_used_again);
    tcase_add_test(tcase, no_object_is_made_when_its_constructor_refuses);
    tcase_add_test(tcase, what_is_put_off_goes_at_the_end_of_the_frame_in_order);
    tcase_add_test(tcase, a_flush_ends_although_each_destructor_puts_another_object_off);
    tcase_add_test(tcase, a_place_whose_generations_are_used_up_is_never_used_again);
    tcase_add_test(tcase, a_full_pool_says_so_and_is_good_again_after_a_destruction);
    tcase_add_test(tcase, an_object_is_its_owners_until_it_is_handed_off);
    tcase_add_test(tcase, a_thread_that_can_own_nothing_takes_nothing);
    tcase_add_test(tcase, the_end_of_the_pool_ends_each_object_once_whatever_destructors_do);
    tcase_add_test(tcase, a_visit_sees_each_object_of_a_type);
    tcase_add_test(tcase, threads_that_destroy_each_others_objects_end_each_life_once);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
