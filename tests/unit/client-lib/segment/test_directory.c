/* Names are found as the writer has put them; a broken index leads nowhere. */
#include "segment/directory.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static struct ec_directory *directory;

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

static void put(uint32_t slot, uint32_t entry, const char *name)
{
    snprintf((char *)directory->entries[entry].name, EC_RESOURCE_NAME_BYTES, "%s", name);
    atomic_store(&directory->entries[entry].name_hash, ec_directory_hash(name));
    atomic_store(&directory->index[slot % EC_RESOURCE_INDEX_SLOTS], entry + 1);
}

START_TEST(an_empty_directory_has_nothing)
{
    ck_assert_uint_eq(ec_directory_find(directory, "a"), EC_RESOURCE_NONE);
    ck_assert_uint_eq(ec_directory_find(directory, ""), EC_RESOURCE_NONE);
}
END_TEST

START_TEST(the_search_goes_on_behind_other_names)
{
    uint32_t slot = ec_directory_slot(ec_directory_hash("wanted"));

    put(slot, 3, "first");
    put(slot + 1, 4, "second");
    put(slot + 2, 5, "wanted");
    ck_assert_uint_eq(ec_directory_find(directory, "wanted"), 5);
}
END_TEST

START_TEST(the_search_wraps_at_the_end_of_the_index)
{
    char name[32];
    unsigned i = 0;

    do
        snprintf(name, sizeof name, "%u", i++);
    while (ec_directory_slot(ec_directory_hash(name)) != EC_RESOURCE_INDEX_SLOTS - 1);
    put(EC_RESOURCE_INDEX_SLOTS - 1, 1, "in the way");
    put(0, 2, name);
    ck_assert_uint_eq(ec_directory_find(directory, name), 2);
}
END_TEST

START_TEST(an_equal_hash_is_not_an_equal_name)
{
    uint32_t slot = ec_directory_slot(ec_directory_hash("wanted"));

    put(slot, 3, "other");
    atomic_store(&directory->entries[3].name_hash, ec_directory_hash("wanted"));
    ck_assert_uint_eq(ec_directory_find(directory, "wanted"), EC_RESOURCE_NONE);
    put(slot + 1, 4, "wanted");
    ck_assert_uint_eq(ec_directory_find(directory, "wanted"), 4);
}
END_TEST

START_TEST(the_search_goes_on_behind_a_name_that_is_gone)
{
    uint32_t slot = ec_directory_slot(ec_directory_hash("wanted"));
    uint64_t life = 0;

    atomic_store(&directory->index[slot], EC_RESOURCE_INDEX_GONE);
    put(slot + 1, 5, "wanted");
    atomic_store(&directory->entries[5].life, 77);
    ck_assert_uint_eq(ec_directory_find_life(directory, "wanted", &life), 5);
    ck_assert_uint_eq(life, 77);
}
END_TEST

START_TEST(names_are_compared_to_their_end)
{
    char name[EC_RESOURCE_NAME_BYTES];

    for (unsigned bytes = 1; bytes <= 17; bytes++) {
        uint32_t slot;

        memset(name, 'n', bytes);
        name[bytes] = '\0';
        slot = ec_directory_slot(ec_directory_hash(name));
        put(slot, 9, name);
        ck_assert_uint_eq(ec_directory_find(directory, name), 9);
        ((char *)directory->entries[9].name)[bytes] = 'n'; /* one longer, with the same hash */
        ck_assert_uint_eq(ec_directory_find(directory, name), EC_RESOURCE_NONE);
        memset((void *)directory->entries[9].name, 0, EC_RESOURCE_NAME_BYTES);
        atomic_store(&directory->index[slot % EC_RESOURCE_INDEX_SLOTS], 0);
    }
}
END_TEST

START_TEST(an_index_beyond_the_entries_ends_the_search)
{
    uint32_t slot = ec_directory_slot(ec_directory_hash("wanted"));

    atomic_store(&directory->index[slot], EC_RESOURCES_MAX + 1);
    ck_assert_uint_eq(ec_directory_find(directory, "wanted"), EC_RESOURCE_NONE);
    atomic_store(&directory->index[slot], UINT32_MAX);
    ck_assert_uint_eq(ec_directory_find(directory, "wanted"), EC_RESOURCE_NONE);
}
END_TEST

START_TEST(an_index_without_an_end_is_searched_once)
{
    put(0, 0, "everywhere");
    for (uint32_t slot = 0; slot < EC_RESOURCE_INDEX_SLOTS; slot++)
        atomic_store(&directory->index[slot], 1);
    ck_assert_uint_eq(ec_directory_find(directory, "wanted"), EC_RESOURCE_NONE);
}
END_TEST

START_TEST(a_name_without_its_end_is_not_read_beyond_the_entry)
{
    char longer[EC_RESOURCE_NAME_BYTES + 8];
    uint32_t slot;

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    slot = ec_directory_slot(ec_directory_hash(longer));
    put(slot, 6, "");
    memset((void *)directory->entries[6].name, 'x', EC_RESOURCE_NAME_BYTES);
    memset(&directory->entries[7], 'x', sizeof directory->entries[7]);
    atomic_store(&directory->entries[6].name_hash, ec_directory_hash(longer));
    ck_assert_uint_eq(ec_directory_find(directory, longer),
                      EC_RESOURCE_NONE); /* too long to be one */
    ck_assert_uint_eq(ec_directory_find(directory, "x"), EC_RESOURCE_NONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("directory");
    TCase *tcase = tcase_create("directory");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, an_empty_directory_has_nothing);
    tcase_add_test(tcase, the_search_goes_on_behind_other_names);
    tcase_add_test(tcase, the_search_wraps_at_the_end_of_the_index);
    tcase_add_test(tcase, an_equal_hash_is_not_an_equal_name);
    tcase_add_test(tcase, the_search_goes_on_behind_a_name_that_is_gone);
    tcase_add_test(tcase, names_are_compared_to_their_end);
    tcase_add_test(tcase, an_index_beyond_the_entries_ends_the_search);
    tcase_add_test(tcase, an_index_without_an_end_is_searched_once);
    tcase_add_test(tcase, a_name_without_its_end_is_not_read_beyond_the_entry);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
