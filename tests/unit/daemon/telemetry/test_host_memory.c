/* The host says one thing, the control groups of a container another: the least that is left counts. */
#include "telemetry/host_memory.h"

#include <check.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static char root[64], proc[96];
static struct host_memory memory;
static struct ec_error why;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

/* Write a file below root; its directories are made. */
__attribute__((format(printf, 2, 3))) static void put(const char *name, const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fclose(file);
}

static void set_up(void)
{
    strcpy(root, "/tmp/host-memory-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(proc, sizeof proc, "%s/proc", root);
    put("proc/meminfo",
        "MemTotal:        1048576 kB\nMemFree: 1 kB\nMemAvailable:     524288 kB\n");
}

static void tear_down(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void read_memory(void)
{
    ck_assert_msg(host_memory_read(proc, &memory, &why) == EC_OK, "%s", why.text);
}

START_TEST(without_groups_the_host_counts)
{
    read_memory();
    ck_assert_uint_eq(memory.total_bytes, 1024 * MIB);
    ck_assert_uint_eq(memory.available_bytes, 512 * MIB);
    ck_assert_uint_eq(memory.cgroup_limit_bytes, 0);
    ck_assert_str_eq(memory.source, "meminfo");
}
END_TEST

START_TEST(a_group_with_less_left_counts_and_clean_file_pages_are_left)
{
    put("proc/self/mountinfo", "30 25 0:26 / %s/cg rw - cgroup2 cgroup2 rw\n", root);
    put("proc/self/cgroup", "0::/game/server\n");
    put("cg/game/server/memory.max", "%llu\n", 256ull * MIB);
    put("cg/game/server/memory.current", "%llu\n", 200ull * MIB);
    put("cg/game/server/memory.stat", "anon 1\ninactive_file %llu\nactive_file %llu\n", 40ull * MIB,
        20ull * MIB);
    read_memory();
    ck_assert_uint_eq(memory.total_bytes, 256 * MIB);
    ck_assert_uint_eq(memory.available_bytes, (256 - (200 - 40 - 10)) * MIB);
    ck_assert_uint_eq(memory.cgroup_limit_bytes, 256 * MIB);
    ck_assert_ptr_nonnull(strstr(memory.source, "/cg/game/server"));
}
END_TEST

START_TEST(the_limit_of_a_parent_counts_for_its_children)
{
    put("proc/self/mountinfo", "30 25 0:26 / %s/cg rw - cgroup2 cgroup2 rw\n", root);
    put("proc/self/cgroup", "0::/game/server\n");
    put("cg/game/server/memory.max", "max\n");
    put("cg/game/server/memory.current", "1\n");
    put("cg/game/memory.max", "%llu\n", 100ull * MIB);
    put("cg/game/memory.current", "%llu\n", 99ull * MIB);
    read_memory();
    ck_assert_uint_eq(memory.available_bytes, 1 * MIB);
    ck_assert_uint_eq(memory.cgroup_limit_bytes, 100 * MIB);
}
END_TEST

START_TEST(a_group_with_more_left_than_the_host_does_not_hide_the_host)
{
    put("proc/self/mountinfo", "30 25 0:26 / %s/cg rw - cgroup2 cgroup2 rw\n", root);
    put("proc/self/cgroup", "0::/\n");
    put("cg/memory.max", "%llu\n", 900ull * MIB);
    put("cg/memory.current", "%llu\n", 100ull * MIB);
    read_memory();
    ck_assert_uint_eq(memory.available_bytes, 512 * MIB);
    ck_assert_str_eq(memory.source, "meminfo");
    ck_assert_uint_eq(memory.cgroup_limit_bytes, 900 * MIB);
}
END_TEST

START_TEST(groups_of_version_1_are_read_too_also_when_only_a_part_is_mounted)
{
    put("proc/self/mountinfo",
        "31 25 0:27 /box %s/cpu rw - cgroup cgroup rw,cpu\n"
        "32 25 0:28 /box %s/mem rw - cgroup cgroup rw,memory\n",
        root, root);
    put("proc/self/cgroup", "5:cpu:/box/x\n4:memory:/box/x\n");
    put("mem/x/memory.limit_in_bytes", "%llu\n", 64ull * MIB);
    put("mem/x/memory.usage_in_bytes", "%llu\n", 60ull * MIB);
    put("mem/x/memory.stat", "inactive_file 1\ntotal_inactive_file %llu\n", 10ull * MIB);
    put("mem/memory.limit_in_bytes", "9223372036854771712\n"); /* no limit */
    put("mem/memory.usage_in_bytes", "1\n");
    read_memory();
    ck_assert_uint_eq(memory.available_bytes, 14 * MIB);
    ck_assert_uint_eq(memory.total_bytes, 64 * MIB);
}
END_TEST

START_TEST(without_meminfo_it_fails_and_names_the_file)
{
    ck_assert_int_eq(host_memory_read("/nowhere", &memory, &why), EC_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/meminfo"));
}
END_TEST

START_TEST(resident_memory_is_that_of_the_process)
{
    uint64_t peak_bytes;

    put("proc/17/status", "Name:\tx\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\n");
    ck_assert_uint_eq(host_memory_rss(proc, 17, &peak_bytes), 200 * 1024);
    ck_assert_uint_eq(peak_bytes, 300 * 1024);
    ck_assert_uint_eq(host_memory_rss(proc, 18, NULL), 0);
    ck_assert_uint_gt(host_memory_rss("/proc", getpid(), NULL), 0);
}
END_TEST

START_TEST(what_a_process_has_is_read_in_one_pass)
{
    struct process_memory process;

    put("proc/7/status", "Name:\tgame\nVmSize:\t 9000 kB\nVmRSS:\t  700 kB\nRssAnon:\t  400 kB\n"
                         "RssFile:\t  200 kB\nRssShmem:\t  100 kB\nVmSwap:\t   50 kB\n");
    ck_assert(host_memory_process(proc, 7, &process));
    ck_assert_uint_eq(process.rss_bytes, 700 * 1024);
    ck_assert_uint_eq(process.anonymous_bytes, 400 * 1024);
    ck_assert_uint_eq(process.file_bytes, 200 * 1024);
    ck_assert_uint_eq(process.shared_bytes, 100 * 1024);
    ck_assert_uint_eq(process.swap_bytes, 50 * 1024);
    ck_assert_uint_eq(process.mapped_bytes, 9000 * 1024);
    put("proc/8/status", "Name:\tgone\nState:\tZ (zombie)\n");
    ck_assert(!host_memory_process(proc, 8, &process));
    ck_assert(!host_memory_process(proc, 9, &process));
    ck_assert_uint_eq(process.rss_bytes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host_memory");
    TCase *tcase = tcase_create("host_memory");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_a_process_has_is_read_in_one_pass);
    tcase_add_test(tcase, without_groups_the_host_counts);
    tcase_add_test(tcase, a_group_with_less_left_counts_and_clean_file_pages_are_left);
    tcase_add_test(tcase, the_limit_of_a_parent_counts_for_its_children);
    tcase_add_test(tcase, a_group_with_more_left_than_the_host_does_not_hide_the_host);
    tcase_add_test(tcase, groups_of_version_1_are_read_too_also_when_only_a_part_is_mounted);
    tcase_add_test(tcase, without_meminfo_it_fails_and_names_the_file);
    tcase_add_test(tcase, resident_memory_is_that_of_the_process);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
