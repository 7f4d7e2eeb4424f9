/* A file without a name in a tmpfs, with huge pages where they were asked for. */
#include "daemon/heap_file.h"

#include <check.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ec_error why;

START_TEST(a_directory_of_a_tmpfs_gives_a_file_without_a_name)
{
    const struct heap_file_desc desc = { .path = "/dev/shm", .huge = "never", .bytes = 1 << 20 };
    struct stat st;
    int fd;

    ck_assert_msg(heap_file_open(&desc, &fd, &why) == EC_OK, "%s", why.text);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_uint_eq(st.st_nlink, 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0400);
    ck_assert_int_eq(ftruncate(fd, 4 << 20), 0);
    ck_assert_uint_eq(heap_file_huge_bytes(fd, 4 << 20), 0);
    close(fd);
}
END_TEST

/* What may be missing is the right to make it, nothing else. */
START_TEST(an_own_tmpfs_has_huge_pages)
{
    const struct heap_file_desc desc = { .path = "", .huge = "always", .bytes = 64 << 20 };
    int fd;

    if (heap_file_open(&desc, &fd, &why) != EC_OK) {
        ck_assert_int_eq(why.code, EC_ERR_SYSTEM);
        return;
    }
    ck_assert_int_eq(ftruncate(fd, 64 << 20), 0);
    ck_assert_uint_eq(heap_file_huge_bytes(fd, 64 << 20), 0);
    ck_assert_int_eq(fallocate(fd, 0, 2 << 20, 8 << 20), 0);
    ck_assert_uint_eq(heap_file_huge_bytes(fd, 64 << 20) % (2 << 20), 0);
    ck_assert_uint_le(heap_file_huge_bytes(fd, 64 << 20), 8 << 20);
    /* Its size is a limit of its own. */
    ck_assert_int_eq(ftruncate(fd, 256 << 20), 0);
    ck_assert_int_lt(fallocate(fd, 0, 0, 128 << 20), 0);
    close(fd);
}
END_TEST

static const struct {
    struct heap_file_desc desc;
    int rc;
} bad[] = {
    { { "/etc", "never", 4096 }, EC_ERR_PATH },
    { { "/nowhere", "never", 4096 }, EC_ERR_NOT_FOUND },
    { { "/etc/passwd", "never", 4096 }, EC_ERR_PATH },
    { { "", "large", 4096 }, EC_ERR_PARAM },
};

START_TEST(a_wrong_place_is_refused)
{
    int fd;

    ck_assert_int_eq(heap_file_open(&bad[_i].desc, &fd, &why), bad[_i].rc);
    ck_assert_int_eq(fd, -1);
    ck_assert_int_ne(why.text[0], '\0');
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heap file");
    TCase *tcase = tcase_create("heap file");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, a_directory_of_a_tmpfs_gives_a_file_without_a_name);
    tcase_add_test(tcase, an_own_tmpfs_has_huge_pages);
    tcase_add_loop_test(tcase, a_wrong_place_is_refused, 0, sizeof bad / sizeof bad[0]);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
