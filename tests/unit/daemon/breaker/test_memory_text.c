/* Texts of the kernel are read as they are written, and anything else is refused. */
#include "breaker/memory_text.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    bool good;
    uint64_t value;
} numbers[] = {
    { "1234\n", true, 1234 },
    { "0", true, 0 },
    { "max\n", true, MEMORY_UNLIMITED },
    { "9223372036854771712\n", true, MEMORY_UNLIMITED }, /* v1's word for it */
    { "99999999999999999999", false, 0 },
    { "12x", false, 0 },
    { "-5", false, 0 },
    { "", false, 0 },
    { "\n", false, 0 },
};

START_TEST(a_number_is_read_or_refused)
{
    uint64_t value = 0;

    ck_assert_int_eq(memory_text_number(numbers[_i].text, &value), numbers[_i].good);
    if (numbers[_i].good)
        ck_assert_uint_eq(value, numbers[_i].value);
}
END_TEST

START_TEST(a_row_is_found_by_its_whole_name)
{
    static const char text[] = "total_inactive_file 1\ninactive_file 22\nfile 3 kB\nlast 4";
    uint64_t value = 0;

    ck_assert(memory_text_row(text, "inactive_file", &value));
    ck_assert_uint_eq(value, 22);
    ck_assert(memory_text_row(text, "last", &value));
    ck_assert_uint_eq(value, 4);
    ck_assert(!memory_text_row(text, "inactive", &value));
    ck_assert(!memory_text_row("", "last", &value));
}
END_TEST

START_TEST(waiting_times_are_read_by_their_row)
{
    static const char text[] = "some avg10=0.00 avg60=1.00 avg300=4.53 total=170959851\n"
                               "full avg10=0.00 avg60=0.00 avg300=4.10 total=154131231\n";
    uint64_t us = 0;

    ck_assert(memory_text_stalled_us(text, "some", &us));
    ck_assert_uint_eq(us, 170959851);
    ck_assert(memory_text_stalled_us(text, "full", &us));
    ck_assert_uint_eq(us, 154131231);
    ck_assert(!memory_text_stalled_us("some avg10=0.00\nfull total=5\n", "some", &us));
}
END_TEST

START_TEST(available_of_the_host_is_at_most_what_can_really_be_had)
{
    static const char high[] = "MemTotal:       1000 kB\nMemFree:         100 kB\n"
                               "MemAvailable:    900 kB\nActive(file):     40 kB\n"
                               "Inactive(file):   30 kB\nSReclaimable:     20 kB\n";
    struct memory_host host;

    ck_assert(memory_text_host(high, &host));
    ck_assert_uint_eq(host.total_bytes, 1000 * 1024);
    ck_assert_uint_eq(host.kernel_bytes, 900 * 1024);
    ck_assert_uint_eq(host.available_bytes, (100 + 30 + 20 + 10) * 1024);
    ck_assert(memory_text_host("MemTotal: 10 kB\nMemAvailable: 4 kB\n", &host));
    ck_assert_uint_eq(host.available_bytes, 4096);
    ck_assert(!memory_text_host("MemTotal: 10 kB\n", &host));
}
END_TEST

START_TEST(a_group_has_its_limit_less_what_is_used_but_not_clean_cache)
{
    static const char stat[] = "inactive_file 100\nactive_file 40\ntotal_inactive_file 300\n"
                               "total_active_file 80\n";

    ck_assert_uint_eq(memory_text_group_left(&memory_group_v2, 1000, 600, stat), 520);
    ck_assert_uint_eq(memory_text_group_left(&memory_group_v1, 1000, 600, stat), 740);
    ck_assert_uint_eq(memory_text_group_left(&memory_group_v2, 1000, 600, ""), 400);
    ck_assert_uint_eq(memory_text_group_left(&memory_group_v2, 1000, 1500, ""), 0);
    ck_assert_uint_eq(memory_text_group_left(&memory_group_v2, 1000, 50, stat), 1000);
}
END_TEST

START_TEST(the_path_of_a_group_is_that_of_its_version)
{
    static const char text[] = "9:name=systemd:/x\n4:cpu,memory:/games/a\n0::/slice/b\n";
    char path[64];

    ck_assert(memory_text_group_path(text, &memory_group_v1, path, sizeof path));
    ck_assert_str_eq(path, "/games/a");
    ck_assert(memory_text_group_path(text, &memory_group_v2, path, sizeof path));
    ck_assert_str_eq(path, "/slice/b");
    ck_assert(memory_text_group_path("0::/\n", &memory_group_v2, path, sizeof path));
    ck_assert_str_eq(path, "");
    ck_assert(!memory_text_group_path("3:memory_more:/x\n", &memory_group_v1, path, sizeof path));
    ck_assert(!memory_text_group_path("0::/too/long", &memory_group_v2, path, 4));
    ck_assert(!memory_text_group_path("garbage", &memory_group_v2, path, sizeof path));
}
END_TEST

START_TEST(the_mount_of_a_tree_is_found)
{
    static const char text[] =
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "35 31 0:32 /docker/1 /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    char root[64], mount[64];

    ck_assert(memory_text_group_mount(text, &memory_group_v1, root, mount, sizeof root));
    ck_assert_str_eq(root, "/docker/1");
    ck_assert_str_eq(mount, "/sys/fs/cgroup/memory");
    ck_assert(memory_text_group_mount(text, &memory_group_v2, root, mount, sizeof root));
    ck_assert_str_eq(mount, "/sys/fs/cgroup/unified");
    ck_assert(!memory_text_group_mount("", &memory_group_v2, root, mount, sizeof root));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_text");
    TCase *tcase = tcase_create("memory_text");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_number_is_read_or_refused, 0,
                        (int)(sizeof numbers / sizeof numbers[0]));
    tcase_add_test(tcase, a_row_is_found_by_its_whole_name);
    tcase_add_test(tcase, waiting_times_are_read_by_their_row);
    tcase_add_test(tcase, available_of_the_host_is_at_most_what_can_really_be_had);
    tcase_add_test(tcase, a_group_has_its_limit_less_what_is_used_but_not_clean_cache);
    tcase_add_test(tcase, the_path_of_a_group_is_that_of_its_version);
    tcase_add_test(tcase, the_mount_of_a_tree_is_found);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
