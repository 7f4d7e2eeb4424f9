/* Lives of an entry: states, generations, retirement. Readers are played by ec_directory_find and
 * ec_reference_acquire. */
#include "resources/directory_writer.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/handle.h"
#include "segment/references.h"
#include "support/often.h"

static struct ec_directory *directory;
static const struct decoded image = {
    .bytes = 24, .kind = EC_KIND_IMAGE, .width = 4, .height = 2, .channels = 3, .stride = 12
};

static void set_up(void)
{
    directory =
        mmap(NULL, sizeof *directory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(directory, MAP_FAILED);
}

static void tear_down(void)
{
    munmap(directory, sizeof *directory);
}

static uint32_t add(const char *name)
{
    uint32_t index = EC_RESOURCE_NONE;

    ck_assert_int_eq(directory_add(directory, name, &index), EC_OK);
    return index;
}

static int acquire(uint64_t handle)
{
    _Atomic int32_t count = 0;

    return ec_reference_acquire(&count, false, EC_REFERENCE_FENCE,
                                &directory->entries[ec_handle_index(handle)].life,
                                ec_handle_generation(handle));
}

START_TEST(what_was_added_is_found_and_not_ready)
{
    uint32_t index = add("a"), other = add("b");

    ck_assert_uint_eq(ec_directory_find(directory, "a"), index);
    ck_assert_uint_eq(ec_directory_find(directory, "b"), other);
    ck_assert_int_eq(directory_state(directory, index), EC_RESOURCE_UNLOADED);
    ck_assert_uint_eq(directory_generation(directory, index), 1);
    ck_assert_int_eq(acquire(directory_handle(directory, index)), EC_ERR_STALE);
}
END_TEST

START_TEST(what_was_published_can_be_acquired_with_all_its_fields)
{
    uint32_t index = add("a");
    const struct ec_directory_entry *entry = &directory->entries[index];

    directory_set_state(directory, index, EC_RESOURCE_LOADING);
    ck_assert_int_eq(acquire(directory_handle(directory, index)), EC_ERR_STALE);
    directory_publish(directory, index, 8192, &image);
    ck_assert_int_eq(acquire(directory_handle(directory, index)), EC_OK);
    ck_assert_uint_eq(atomic_load(&entry->offset), 8192);
    ck_assert_uint_eq(atomic_load(&entry->bytes), 24);
    ck_assert_uint_eq(atomic_load(&entry->kind), EC_KIND_IMAGE);
    ck_assert_uint_eq(atomic_load(&entry->width), 4);
    ck_assert_uint_eq(atomic_load(&entry->height), 2);
    ck_assert_uint_eq(atomic_load(&entry->channels), 3);
    ck_assert_uint_eq(atomic_load(&entry->stride), 12);
}
END_TEST

START_TEST(an_old_handle_stays_stale_for_ever)
{
    uint32_t index = add("a");
    uint64_t old;

    directory_publish(directory, index, 4096, &image);
    old = directory_handle(directory, index);
    ck_assert_int_eq(directory_advance(directory, &index, EC_RESOURCE_EVICTED), EC_OK);
    ck_assert_int_eq(directory_state(directory, index), EC_RESOURCE_EVICTED);
    ck_assert_int_eq(acquire(old), EC_ERR_EVICTED);
    directory_set_state(directory, index, EC_RESOURCE_LOADING);
    directory_publish(directory, index, 4096, &image);
    ck_assert_int_eq(acquire(old), EC_ERR_STALE);
    ck_assert_int_eq(acquire(directory_handle(directory, index)), EC_OK);
}
END_TEST

START_TEST(an_entry_whose_generation_would_wrap_is_retired)
{
    uint32_t first = add("a"), index = first, other = add("b");
    uint64_t last;

    atomic_store(&directory->entries[first].life, ec_life_make(UINT32_MAX, EC_RESOURCE_LOADING));
    directory_publish(directory, first, 4096, &image);
    last = directory_handle(directory, first);
    ck_assert_int_eq(acquire(last), EC_OK);
    ck_assert_int_eq(directory_advance(directory, &index, EC_RESOURCE_EVICTED), EC_OK);
    ck_assert_uint_ne(index, first);
    ck_assert_uint_ne(index, other);
    ck_assert_uint_eq(ec_directory_find(directory, "a"), index);
    ck_assert_uint_eq(ec_directory_find(directory, "b"), other);
    ck_assert_uint_eq(directory_generation(directory, first), 0);
    ck_assert_int_eq(acquire(last), EC_ERR_EVICTED);
    ck_assert_int_eq(acquire(ec_handle_make(first, 0)), EC_ERR_STALE);
    directory_publish(directory, index, 4096, &image);
    ck_assert_int_eq(acquire(directory_handle(directory, index)), EC_OK);
}
END_TEST

START_TEST(a_full_directory_says_so)
{
    uint32_t index = 0;
    char name[32];

    for (unsigned i = 0; i < EC_RESOURCES_MAX; i++) {
        snprintf(name, sizeof name, "resource %u", i);
        add(name);
    }
    ck_assert_uint_eq(directory_room(directory), 0);
    ck_assert_int_eq(directory_add(directory, "one more", &index), EC_ERR_LIMIT);
    for (unsigned i = 0; i < EC_RESOURCES_MAX; i++) {
        snprintf(name, sizeof name, "resource %u", i);
        ck_assert_uint_eq(ec_directory_find(directory, name), i);
    }
    /* A retirement finds no other entry, and the name is not published again. */
    atomic_store(&directory->entries[5].life, ec_life_make(UINT32_MAX, EC_RESOURCE_READY));
    index = 5;
    ck_assert_int_eq(directory_advance(directory, &index, EC_RESOURCE_EVICTED), EC_ERR_LIMIT);
    ck_assert_uint_eq(index, 5);
    ck_assert_uint_eq(directory_generation(directory, 5), 0);
}
END_TEST

START_TEST(the_longest_name_fits)
{
    char name[EC_RESOURCE_NAME_BYTES];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert_uint_eq(ec_directory_find(directory, name), EC_RESOURCE_NONE);
    ck_assert_uint_eq(add(name), 0);
    ck_assert_uint_eq(ec_directory_find(directory, name), 0);
}
END_TEST

START_TEST(a_removed_name_is_gone_and_its_entry_serves_another_under_a_later_generation)
{
    uint32_t first = add("a"), second;
    uint64_t shown = directory_handle(directory, first);

    directory_remove(directory, first);
    ck_assert_uint_eq(ec_directory_find(directory, "a"), EC_RESOURCE_NONE);
    second = add("b");
    ck_assert_uint_eq(second, first);
    directory_publish(directory, second, 4096, &image);
    ck_assert_int_eq(acquire(shown), EC_ERR_STALE);
    ck_assert_int_eq(acquire(directory_handle(directory, second)), EC_OK);
    ck_assert_uint_eq(ec_directory_find(directory, "a"), EC_RESOURCE_NONE);
    ck_assert_uint_eq(ec_directory_find(directory, "b"), second);
}
END_TEST

START_TEST(names_can_come_and_go_for_ever)
{
    char name[32];
    uint32_t index = 0;

    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < EC_RESOURCES_MAX; i++) {
            snprintf(name, sizeof name, "%u.%u", round, i);
            ASSERT_OFTEN(directory_add(directory, name, &index) == EC_OK);
        }
        ck_assert_uint_eq(directory_room(directory), 0);
        for (unsigned i = 0; i < EC_RESOURCES_MAX; i++) {
            snprintf(name, sizeof name, "%u.%u", round, i);
            index = ec_directory_find(directory, name);
            ASSERT_OFTEN(index != EC_RESOURCE_NONE);
            directory_remove(directory, index);
        }
        ck_assert_uint_eq(directory_room(directory), EC_RESOURCES_MAX);
    }
    for (unsigned slot = 0; slot < EC_RESOURCE_INDEX_SLOTS; slot++) /* no search is slower now */
        ASSERT_OFTEN(atomic_load(&directory->index[slot]) == 0);
}
END_TEST

START_TEST(a_replaced_entry_keeps_its_index_and_its_name_moves)
{
    uint32_t first = add("a"), second;
    uint64_t old;

    directory_publish(directory, first, 4096, &image);
    old = directory_handle(directory, first);
    second = directory_replace(directory, first);
    ck_assert_uint_ne(second, first);
    ck_assert_uint_eq(ec_directory_find(directory, "a"), second);
    ck_assert_int_eq(acquire(old), EC_ERR_STALE);
    directory_publish(directory, second, 8192, &image);
    ck_assert_int_eq(acquire(directory_handle(directory, second)), EC_OK);
    ck_assert_uint_eq(atomic_load(&directory->entries[first].offset), 4096); /* for who holds it */
    directory_remove(directory, first);
    ck_assert_uint_eq(ec_directory_find(directory, "a"), second);
    ck_assert_int_eq(acquire(directory_handle(directory, second)), EC_OK);
    ck_assert_uint_eq(add("b"), first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("directory writer");
    TCase *tcase = tcase_create("directory writer");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_was_added_is_found_and_not_ready);
    tcase_add_test(tcase, what_was_published_can_be_acquired_with_all_its_fields);
    tcase_add_test(tcase, an_old_handle_stays_stale_for_ever);
    tcase_add_test(tcase, an_entry_whose_generation_would_wrap_is_retired);
    tcase_add_test(tcase, a_full_directory_says_so);
    tcase_add_test(tcase, the_longest_name_fits);
    tcase_add_test(tcase,
                   a_removed_name_is_gone_and_its_entry_serves_another_under_a_later_generation);
    tcase_add_test(tcase, names_can_come_and_go_for_ever);
    tcase_add_test(tcase, a_replaced_entry_keeps_its_index_and_its_name_moves);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
