/* Memory of the heap: reserved before it is written, back at once when it is freed. */
#include "resources/asset_heap.h"

#include <check.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/heap_file.h"
#include "foundation/huge_map.h"

#define HEAP_BYTES (16u << 20)

static struct asset_heap heap;
static unsigned char *base;
static int fd;

static void set_up(void)
{
    struct ec_error why = { 0 };

    fd = memfd_create("heap", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, HEAP_BYTES), 0);
    base = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    ck_assert_int_eq(asset_heap_init(&heap, fd, HEAP_BYTES, true, &why), EC_OK);
}

/* With small pages only. */
static void set_up_small(void)
{
    set_up();
    atomic_store(&heap.huge, false);
}

static void tear_down(void)
{
    asset_heap_finish(&heap);
    munmap(base, HEAP_BYTES);
    close(fd);
}

static uint64_t memory(void)
{
    struct stat st;

    ck_assert_int_eq(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

START_TEST(reserved_memory_is_there_and_freed_memory_is_gone)
{
    struct ec_error why = { 0 };
    uint64_t offset, large;

    ck_assert_int_eq(asset_heap_reserve(&heap, 10000, &offset, &why), EC_OK);
    ck_assert_uint_ge(offset, 4096); /* behind the header page */
    ck_assert_uint_eq(asset_heap_used(&heap), 12288);
    ck_assert_uint_eq(memory(), 12288);
    base[offset] = base[offset + 9999] = 1;
    ck_assert_int_eq(asset_heap_reserve(&heap, 5u << 20, &large, &why), EC_OK);
    ck_assert_uint_eq(memory(), 12288 + (5u << 20));
    asset_heap_free(&heap, offset, 10000);
    ck_assert_uint_eq(base[offset], 0); /* who still looks finds a hole, and no signal */
    asset_heap_free(&heap, large, 5u << 20);
    ck_assert_uint_eq(asset_heap_used(&heap), 0);
    ck_assert_uint_le(memory(), 4096); /* the page that was just looked at */
}
END_TEST

START_TEST(a_heap_without_room_says_so_and_keeps_nothing)
{
    struct ec_error why = { 0 };
    uint64_t offset;

    ck_assert_int_eq(asset_heap_reserve(&heap, HEAP_BYTES, &offset, &why), EC_ERR_MEMORY);
    ck_assert_int_ne(why.text[0], '\0');
    ck_assert_uint_eq(asset_heap_used(&heap), 0);
    ck_assert_int_eq(asset_heap_reserve(&heap, UINT64_MAX, &offset, &why), EC_ERR_MEMORY);
    ck_assert_uint_eq(asset_heap_used(&heap), 0);
    ck_assert_uint_eq(memory(), 0);
}
END_TEST

/* Memory that the kernel does not give: a descriptor for reading only stands for it. */
START_TEST(a_refused_reservation_gives_everything_back)
{
    struct ec_error why = { 0 };
    uint64_t offset;
    int read_only;
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_only = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(read_only, 0);
    heap.fd = read_only;
    ck_assert_int_eq(asset_heap_reserve(&heap, 5u << 20, &offset, &why), EC_ERR_SYSTEM);
    ck_assert_uint_eq(asset_heap_used(&heap), 0);
    heap.fd = fd;
    close(read_only);
    ck_assert_int_eq(asset_heap_reserve(&heap, 12u << 20, &offset, &why), EC_OK);
}
END_TEST

/* A load that finds no room waits for what is on its way back, and only then. */
START_TEST(room_that_is_being_freed_is_waited_for)
{
    struct ec_error why = { 0 };
    struct asset_heap_stats stats;
    uint64_t offsets[7], again;

    for (unsigned i = 0; i < 7; i++)
        ck_assert_int_eq(asset_heap_reserve(&heap, 2u << 20, &offsets[i], &why), EC_OK);
    for (unsigned round = 0; round < 50; round++) {
        asset_heap_free_soon(&heap, offsets[round % 7], 2u << 20);
        ck_assert_uint_eq(asset_heap_used(&heap), 12u << 20); /* counted as free at once */
        ck_assert_msg(asset_heap_reserve(&heap, 2u << 20, &offsets[round % 7], &why) == EC_OK, "%s",
                      why.text);
    }
    ck_assert_uint_eq(asset_heap_ordered(&heap), 50);
    ck_assert_uint_eq(asset_heap_done(&heap), 50);
    ck_assert_int_eq(asset_heap_reserve(&heap, 4u << 20, &again, &why), EC_ERR_MEMORY);
    asset_heap_stats(&heap, &stats);
    ck_assert_uint_eq(stats.virtual_bytes, HEAP_BYTES);
    ck_assert_uint_eq(stats.used_bytes, 14u << 20);
    ck_assert_uint_eq(stats.freeing_bytes, 0);
    ck_assert_uint_eq(stats.resident_bytes, 14u << 20);
    ck_assert_uint_eq(stats.used_bytes + stats.free_bytes, HEAP_BYTES - 4096);
    ck_assert_uint_le(stats.largest_free_bytes, stats.free_bytes);
}
END_TEST

static void count_call(void *context)
{
    atomic_fetch_add((atomic_uint *)context, 1);
}

START_TEST(the_end_of_all_frees_is_told)
{
    struct ec_error why = { 0 };
    atomic_uint calls = 0;
    uint64_t offset;

    asset_heap_on_reclaimed(&heap, count_call, &calls);
    ck_assert_int_eq(asset_heap_reserve(&heap, 4096, &offset, &why), EC_OK);
    asset_heap_free_soon(&heap, offset, 4096);
    while (atomic_load(&calls) == 0)
        sched_yield();
    ck_assert_uint_eq(asset_heap_done(&heap), asset_heap_ordered(&heap));
    asset_heap_on_reclaimed(&heap, NULL, NULL);
    ck_assert_uint_eq(memory(), 0);
}
END_TEST

/* The last page as well as those that may be parts of huge ones. */
START_TEST(large_ranges_are_reserved_whole_in_pages_of_any_size)
{
    struct ec_error why = { 0 };
    uint64_t offset;
    void *again;

    for (unsigned round = 0; round < 3; round++) {
        ck_assert_int_eq(asset_heap_reserve(&heap, (5u << 20) + 1, &offset, &why), EC_OK);
        ck_assert_uint_eq(offset % EC_HUGE_BYTES, 0);
        ck_assert_uint_eq(memory(), (5u << 20) + 4096);
        again = ec_huge_map(fd, offset, (5u << 20) + 4096, PROT_READ, MAP_POPULATE);
        ck_assert_ptr_ne(again, MAP_FAILED);
        ck_assert_uint_eq((uintptr_t)again % EC_HUGE_BYTES, 0);
        for (unsigned i = 0; i < 5u << 20; i += 1000)
            ck_assert_uint_eq(base[offset + i], 0);
        memset(base + offset, 9, 5u << 20);
        ck_assert_mem_eq(again, base + offset, 5u << 20);
        munmap(again, (5u << 20) + 4096);
        asset_heap_free(&heap, offset, (5u << 20) + 1);
        ck_assert_uint_eq(memory(), 0);
    }
}
END_TEST

/* Its huge pages come for the first byte. */
START_TEST(an_own_tmpfs_keeps_nothing_of_what_was_freed)
{
    const struct heap_file_desc desc = { .path = "", .huge = "always", .bytes = HEAP_BYTES };
    const uint64_t sizes[] = { 5000, 3u << 20, 12000, (2u << 20) + 1, 4096 };
    uint64_t offsets[sizeof sizes / sizeof sizes[0]], least = UINT64_MAX;
    struct ec_error why = { 0 };

    if (heap_file_open(&desc, &fd, &why) != EC_OK) {
        ck_assert_int_eq(why.code, EC_ERR_SYSTEM); /* the right to make it may be missing */
        return;
    }
    ck_assert_int_eq(ftruncate(fd, HEAP_BYTES), 0);
    ck_assert_int_eq(asset_heap_init(&heap, fd, HEAP_BYTES, true, &why), EC_OK);
    base = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    for (unsigned first = 0; first < 5; first++) { /* in another order each time */
        for (unsigned i = 0; i < 5; i++) {
            ck_assert_int_eq(asset_heap_reserve(&heap, sizes[i], &offsets[i], &why), EC_OK);
            memset(base + offsets[i], (int)i + 1, sizes[i]);
        }
        for (unsigned n = 0; n < 5; n++) {
            const unsigned gone = (first + n * 2) % 5;

            asset_heap_free(&heap, offsets[gone], sizes[gone]);
            offsets[gone] = 0;
            for (unsigned i = 0; i < 5; i++)
                for (uint64_t at = 0; offsets[i] != 0 && at < sizes[i]; at += 1000)
                    ck_assert_uint_eq(base[offsets[i] + at], i + 1);
        }
        if (memory() < least)
            least = memory();
    }
    /* Page 0 is nobody's. A huge page that the kernel is just looking at may stay for a round. */
    ck_assert_uint_le(least, 4096);
    tear_down();
}
END_TEST

/* So what a daemon left is not gone before all of it was looked at. */
START_TEST(what_may_still_be_taken_as_it_is_stays)
{
    const struct heap_file_desc desc = { .path = "", .huge = "always", .bytes = HEAP_BYTES };
    struct ec_error why = { 0 };

    if (heap_file_open(&desc, &fd, &why) != EC_OK) {
        ck_assert_int_eq(why.code, EC_ERR_SYSTEM);
        return;
    }
    ck_assert_int_eq(ftruncate(fd, HEAP_BYTES), 0);
    ck_assert_int_eq(asset_heap_init(&heap, fd, HEAP_BYTES, true, &why), EC_OK);
    base = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    memset(base + 8192, 7, 4096);
    ck_assert(asset_heap_take_at(&heap, 4096, 4096));
    asset_heap_free(&heap, 4096, 4096);
    ck_assert_uint_eq(base[8192], 7);
    ck_assert(asset_heap_take_at(&heap, 8192, 4096));
    asset_heap_clear_free(&heap);
    ck_assert_uint_eq(base[8192], 7);
    asset_heap_free(&heap, 8192, 4096);
    ck_assert_uint_eq(base[8192], 0);
    tear_down();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("asset heap");
    TCase *tcase = tcase_create("asset heap"), *small = tcase_create("small pages");
    TCase *own = tcase_create("own tmpfs");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, reserved_memory_is_there_and_freed_memory_is_gone);
    tcase_add_test(tcase, a_heap_without_room_says_so_and_keeps_nothing);
    tcase_add_test(tcase, a_refused_reservation_gives_everything_back);
    tcase_add_test(tcase, room_that_is_being_freed_is_waited_for);
    tcase_add_test(tcase, the_end_of_all_frees_is_told);
    tcase_add_test(tcase, large_ranges_are_reserved_whole_in_pages_of_any_size);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(small, set_up_small, tear_down);
    tcase_add_test(small, reserved_memory_is_there_and_freed_memory_is_gone);
    tcase_add_test(small, a_refused_reservation_gives_everything_back);
    tcase_add_test(small, large_ranges_are_reserved_whole_in_pages_of_any_size);
    suite_add_tcase(suite, small);
    tcase_add_test(own, an_own_tmpfs_keeps_nothing_of_what_was_freed);
    tcase_add_test(own, what_may_still_be_taken_as_it_is_stays);
    suite_add_tcase(suite, own);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
