/* Address and offset agree where a huge page could lie; the file is the same as by mmap. */
#include "foundation/huge_map.h"

#include <check.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_BYTES (16u << 20)

static const struct {
    uint64_t offset;
    size_t bytes;
} cases[] = {
    { 0, EC_HUGE_BYTES },
    { 4096, EC_HUGE_BYTES },
    { EC_HUGE_BYTES, 3 * EC_HUGE_BYTES + 4096 },
    { 3 * EC_HUGE_BYTES - 4096, 2 * EC_HUGE_BYTES },
};

START_TEST(address_and_offset_agree)
{
    const int fd = memfd_create("huge map", MFD_CLOEXEC);
    unsigned char byte = (unsigned char)(_i + 1);
    unsigned char *base;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, FILE_BYTES), 0);
    ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)(cases[_i].offset + cases[_i].bytes - 1)), 1);
    base = ec_huge_map(fd, cases[_i].offset, cases[_i].bytes, PROT_READ, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    ck_assert_uint_eq((uintptr_t)base % EC_HUGE_BYTES, cases[_i].offset % EC_HUGE_BYTES);
    ck_assert_uint_eq(base[cases[_i].bytes - 1], byte);
    ck_assert_int_eq(munmap(base, cases[_i].bytes), 0);
    close(fd);
}
END_TEST

/* What was reserved too much is given back, and a mapping that fails leaves nothing. */
START_TEST(no_addresses_are_lost)
{
    void *first = ec_huge_map(-1, 0, EC_HUGE_BYTES, PROT_READ, 0);

    ck_assert_ptr_eq(first, MAP_FAILED);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_ptr_eq(ec_huge_reserve(0, SIZE_MAX - 4096), MAP_FAILED);
    ck_assert_int_eq(errno, ENOMEM);
    for (unsigned i = 0; i < 1000; i++) { /* 1,000 x 1 TiB would not fit */
        void *range = ec_huge_reserve(4096, (size_t)1 << 40);

        ck_assert_ptr_ne(range, MAP_FAILED);
        ck_assert_uint_eq((uintptr_t)range % EC_HUGE_BYTES, 4096);
        munmap(range, (size_t)1 << 40);
    }
}
END_TEST

START_TEST(a_buffer_is_zero_and_ones_own)
{
    for (size_t bytes = 4096; bytes <= 5 * EC_HUGE_BYTES; bytes *= 3) {
        unsigned char *buffer = ec_huge_alloc(bytes);

        ck_assert_ptr_nonnull(buffer);
        for (size_t i = 0; i < bytes; i += 1021)
            ck_assert_uint_eq(buffer[i]++, 0);
        ec_huge_free(buffer, bytes);
    }
    ck_assert_ptr_null(ec_huge_alloc(0));
    ck_assert_ptr_null(ec_huge_alloc(SIZE_MAX));
    ec_huge_free(NULL, 4096);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("huge map");
    TCase *tcase = tcase_create("huge map");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, address_and_offset_agree, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(tcase, no_addresses_are_lost);
    tcase_add_test(tcase, a_buffer_is_zero_and_ones_own);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
