/* Memory of the heap: reserved before it is written, back at once when it is freed. */
#include "resources/asset_heap.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
    ck_assert_int_eq(asset_heap_init(&heap, fd, HEAP_BYTES, &why), EC_OK);
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

int main(void)
{
    Suite *suite = suite_create("asset heap");
    TCase *tcase = tcase_create("asset heap");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, reserved_memory_is_there_and_freed_memory_is_gone);
    tcase_add_test(tcase, a_heap_without_room_says_so_and_keeps_nothing);
    tcase_add_test(tcase, a_refused_reservation_gives_everything_back);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
