/* Sources are plain files here: the host, chains of groups of both versions, and what is missing. */
#include "breaker/sources.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MS INT64_C(1000000)

static char root[64];
static struct sources sources;
static struct ec_error why;

/* Write a file below the root, and the directories that it needs. */
static void put(const char *path, const char *format, ...)
{
    char whole[512];
    va_list arguments;
    FILE *file;

    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = strchr(whole + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0755);
        *slash = '/';
    }
    file = fopen(whole, "w");
    ck_assert_msg(file != NULL, "%s", whole);
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fclose(file);
}

static void put_meminfo(unsigned total_kib, unsigned available_kib)
{
    put("proc/meminfo", "MemTotal: %u kB\nMemAvailable: %u kB\n", total_kib, available_kib);
}

static void put_v2(const char *group, const char *limit, unsigned usage)
{
    char path[256];

    snprintf(path, sizeof path, "v2%s/memory.max", group);
    put(path, "%s\n", limit);
    snprintf(path, sizeof path, "v2%s/memory.current", group);
    put(path, "%u\n", usage);
    snprintf(path, sizeof path, "v2%s/memory.stat", group);
    put(path, "anon 1\ninactive_file 0\nactive_file 0\n");
}

static void put_v1(const char *group, const char *limit, unsigned usage)
{
    char path[256];

    snprintf(path, sizeof path, "v1%s/memory.limit_in_bytes", group);
    put(path, "%s\n", limit);
    snprintf(path, sizeof path, "v1%s/memory.usage_in_bytes", group);
    put(path, "%u\n", usage);
    snprintf(path, sizeof path, "v1%s/memory.stat", group);
    put(path, "total_inactive_file 0\ntotal_active_file 0\n");
}

static void set_up(void)
{
    snprintf(root, sizeof root, "/tmp/ec-sources-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    put_meminfo(1000, 900);
    put("proc/self/mountinfo",
        "41 31 0:38 / %s/v2 rw - cgroup2 cgroup2 rw\n"
        "35 31 0:32 / %s/v1 rw - cgroup cgroup rw,memory\n",
        root, root);
    put("proc/self/cgroup", "0::/\n");
    put_v2("", "max", 0);
    put_v1("", "9223372036854771712", 0);
}

static void tear_down(void)
{
    char command[96];

    sources_finish(&sources);
    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

static int start(const char *groups)
{
    char proc[96];

    snprintf(proc, sizeof proc, "%s/proc", root);
    return sources_init(&sources, proc, groups, &why);
}

static const struct source *named(const char *end)
{
    for (uint32_t i = 0; i < sources.high; i++) {
        const char *name = sources.source[i].name;

        if (sources.source[i].kind != SOURCE_FREE && strlen(name) >= strlen(end) &&
            strcmp(name + strlen(name) - strlen(end), end) == 0)
            return &sources.source[i];
    }
    return NULL;
}

START_TEST(without_limited_groups_the_host_is_the_only_source)
{
    ck_assert_msg(start("") == EC_OK, "%s", why.text);
    ck_assert_uint_eq(sources.high, 1);
    ck_assert(source_look(&sources.source[SOURCES_HOST], MS));
    ck_assert_uint_eq(sources.source[SOURCES_HOST].reading.total_bytes, 1000 * 1024);
    ck_assert_uint_eq(sources.source[SOURCES_HOST].reading.available_bytes, 900 * 1024);
    put_meminfo(1000, 100);
    ck_assert(source_look(&sources.source[SOURCES_HOST], 2 * MS));
    ck_assert_uint_eq(sources.source[SOURCES_HOST].reading.available_bytes, 100 * 1024);
    ck_assert_uint_eq(sources.source[SOURCES_HOST].lowest_bytes, 100 * 1024);
}
END_TEST

START_TEST(a_plain_file_may_be_replaced_by_another_one)
{
    struct source *host = &sources.source[SOURCES_HOST];
    char from[96], to[96];

    snprintf(from, sizeof from, "%s/proc/new", root);
    snprintf(to, sizeof to, "%s/proc/meminfo", root);
    ck_assert_msg(start("") == EC_OK, "%s", why.text);
    put("proc/new", "MemTotal: 1000 kB\nMemAvailable: 70 kB\n");
    ck_assert_int_eq(rename(from, to), 0);
    ck_assert(source_look(host, MS));
    ck_assert_uint_eq(host->reading.available_bytes, 70 * 1024);
    ck_assert_int_eq(remove(to), 0);
    ck_assert(!source_look(host, 2 * MS));
    put_meminfo(1000, 2000); /* nonsense: more than there is */
    ck_assert(source_look(host, 3 * MS));
    ck_assert_uint_eq(host->reading.available_bytes, 1000 * 1024);
}
END_TEST

START_TEST(what_is_missing_is_noted_once_with_its_reason)
{
    ck_assert_int_eq(start(""), EC_OK);
    ck_assert_uint_eq(sources.absent_count, 2);
    ck_assert_str_eq(sources.absent[0].name, "pressure");
    ck_assert_str_eq(sources.absent[0].reason, "No such file or directory");
    ck_assert_str_eq(sources.absent[1].name, "own groups");
    sources_note_absent(&sources, "pressure", "again");
    ck_assert_uint_eq(sources.absent_count, 2);
}
END_TEST

START_TEST(every_group_up_to_the_root_is_looked_at_in_both_versions)
{
    put("proc/self/cgroup", "4:memory:/a/b\n0::/x/y/z\n");
    put_v2("/x/y/z", "max", 10);
    put_v2("/x/y", "5000", 1000);
    put_v2("/x", "9000", 8000); /* not the least limit, but the least is left here */
    put_v1("/a/b", "7000", 500);
    put_v1("/a", "9223372036854771712", 500);
    ck_assert_msg(start("") == EC_OK, "%s", why.text);
    ck_assert_uint_eq(sources.high, 4);
    for (uint32_t i = 0; i < sources.high; i++) {
        ck_assert(sources.source[i].own);
        ck_assert(source_look(&sources.source[i], MS));
    }
    ck_assert_uint_eq(named("v2/x/y")->reading.available_bytes, 4000);
    ck_assert_uint_eq(named("v2/x")->reading.available_bytes, 1000);
    ck_assert_uint_eq(named("v1/a/b")->reading.available_bytes, 6500);
    ck_assert_ptr_null(named("z"));
}
END_TEST

START_TEST(groups_can_be_named_instead)
{
    char groups[256];

    put_v1("/games", "7000", 6500);
    snprintf(groups, sizeof groups, "%s/v1/games:", root);
    ck_assert_msg(start(groups) == EC_OK, "%s", why.text);
    ck_assert(source_look(&sources.source[1], MS));
    ck_assert_uint_eq(sources.source[1].reading.available_bytes, 500);
    sources_finish(&sources);
    snprintf(groups, sizeof groups, "%s/nowhere", root);
    ck_assert_int_eq(start(groups), EC_ERR_SYSTEM);
    ck_assert_msg(strstr(why.text, "nowhere is no memory group") != NULL, "%s", why.text);
}
END_TEST

START_TEST(no_meminfo_is_an_error)
{
    put("proc/meminfo", "nothing\n");
    ck_assert_int_eq(start(""), EC_ERR_SYSTEM);
    ck_assert_msg(strstr(why.text, "MemTotal") != NULL, "%s", why.text);
}
END_TEST

START_TEST(clients_in_one_group_share_its_source)
{
    struct source_chain first, second, other;

    put_v2("/x", "9000", 100);
    put_v2("/x/y", "5000", 100);
    put("proc/10/cgroup", "0::/x/y\n");
    put("proc/11/cgroup", "0::/x\n");
    put("proc/12/cgroup", "0::/\n");
    ck_assert_int_eq(start(""), EC_OK);
    sources_chain(&sources, 10, &first);
    sources_chain(&sources, 11, &second);
    sources_chain(&sources, 12, &other);
    ck_assert_uint_eq(first.count, 2);
    ck_assert_uint_eq(second.count, 1);
    ck_assert_uint_eq(other.count, 0);
    ck_assert_uint_eq(second.source[0], first.source[1]);
    ck_assert(!sources.source[second.source[0]].own);
    sources_release(&sources, &second);
    ck_assert_ptr_nonnull(named("v2/x")); /* the other one is in it still */
    sources_release(&sources, &first);
    ck_assert_ptr_null(named("v2/x"));
    ck_assert_ptr_null(named("v2/x/y"));
}
END_TEST

START_TEST(a_process_that_is_gone_has_no_groups)
{
    struct source_chain chain;

    ck_assert_int_eq(start(""), EC_OK);
    sources_chain(&sources, 4711, &chain);
    ck_assert_uint_eq(chain.count, 0);
    ck_assert_int_eq(sources_open_statm(&sources, 4711), -1);
}
END_TEST

START_TEST(a_limit_that_changes_is_seen_after_a_second)
{
    put("proc/self/cgroup", "0::/x\n");
    put_v2("/x", "5000", 1000);
    ck_assert_int_eq(start(""), EC_OK);
    ck_assert(source_look(&sources.source[1], MS));
    put_v2("/x", "2000", 1500);
    ck_assert(source_look(&sources.source[1], 900 * MS));
    ck_assert_uint_eq(sources.source[1].reading.total_bytes, 5000);
    ck_assert(source_look(&sources.source[1], 1002 * MS));
    ck_assert_uint_eq(sources.source[1].reading.total_bytes, 2000);
    ck_assert_uint_eq(sources.source[1].reading.available_bytes, 500);
}
END_TEST

START_TEST(a_limit_that_was_raised_is_seen_before_it_would_matter)
{
    put("proc/self/cgroup", "0::/x\n");
    put_v2("/x", "5000", 1000);
    ck_assert_int_eq(start(""), EC_OK);
    ck_assert(source_look(&sources.source[1], MS));
    put_v2("/x", "20000", 4900);
    ck_assert(source_look(&sources.source[1], 10 * MS));
    ck_assert_uint_eq(sources.source[1].reading.total_bytes, 20000);
    ck_assert_uint_eq(sources.source[1].reading.available_bytes, 15100);
}
END_TEST

START_TEST(clean_cache_is_not_used_and_what_is_reserved_is)
{
    put("proc/self/cgroup", "0::/x\n");
    put_v2("/x", "10000", 9000);
    put("v2/x/memory.stat", "inactive_file 2000\nactive_file 1000\nshmem 3000\n");
    ck_assert_int_eq(start(""), EC_OK);
    ck_assert(source_look(&sources.source[1], MS));
    ck_assert_uint_eq(sources.source[1].reading.available_bytes, 3500);
    sources.source[1].reserved_bytes = 1500;
    ck_assert(source_look(&sources.source[1], 2 * MS));
    ck_assert_uint_eq(sources.source[1].reading.available_bytes, 2000);
    sources.source[1].reserved_bytes = 1u << 30;
    ck_assert(source_look(&sources.source[1], 3 * MS));
    ck_assert_uint_eq(sources.source[1].reading.available_bytes, 0);
}
END_TEST

static void put_pressure(unsigned some_us, unsigned full_us)
{
    put("proc/pressure/memory", "some avg10=0 total=%u\nfull avg10=0 total=%u\n", some_us, full_us);
}

START_TEST(waiting_is_a_share_of_the_time_since_the_kernel_added_up)
{
    struct source *host = &sources.source[SOURCES_HOST];

    put_pressure(1000, 0);
    ck_assert_int_eq(start(""), EC_OK);
    source_look(host, MS);
    put_pressure(401000, 200000);
    source_look(host, 2001 * MS); /* 400 of 2,000 ms */
    ck_assert_uint_ge(host->reading.some_permille, 199);
    ck_assert_uint_le(host->reading.some_permille, 200);
    ck_assert_uint_ge(host->reading.full_permille, 99);
    source_look(host, 3000 * MS);
    ck_assert_uint_ge(host->reading.some_permille, 199); /* not added up anew yet */
    source_look(host, 4502 * MS);
    ck_assert_uint_eq(host->reading.some_permille, 0); /* nobody waited */
    put_pressure(1401000, 200000);
    source_look(host, 60000 * MS); /* after a long quiet it is not thinned out */
    ck_assert_uint_ge(host->reading.some_permille, 390);
}
END_TEST

START_TEST(pressure_that_the_kernel_does_not_keep_is_absent)
{
    put("proc/pressure/memory", "%s", "");
    ck_assert_int_eq(start(""), EC_OK);
    ck_assert_str_eq(sources.absent[0].reason, "the kernel keeps no account of it");
}
END_TEST

START_TEST(a_group_that_is_removed_cannot_be_read)
{
    put("proc/self/cgroup", "0::/x\n");
    put_v2("/x", "5000", 1000);
    ck_assert_int_eq(start(""), EC_OK);
    put("v2/x/memory.current", "%s", "");
    ck_assert(!source_look(&sources.source[1], MS));
    ck_assert(!sources.source[1].readable);
}
END_TEST

/* All that version 2 has, at each level of the way up. */
START_TEST(a_chain_of_version_2_is_read_whole)
{
    static const struct {
        const char *group, *max, *high;
        unsigned usage, inactive, active, waited_us;
        unsigned total, left;
    } rows[] = {
        { "/a/b/c", "100000", "max", 90000, 20000, 10000, 100000, 100000, 35000 },
        { "/a/b", "max", "80000", 70000, 0, 4000, 200000, 80000, 12000 }, /* slowed down there */
        { "/a", "500000", "400000", 399000, 0, 0, 300000, 400000, 1000 },
    };
    const size_t count = sizeof rows / sizeof rows[0];
    char path[256];

    put("proc/self/cgroup", "0::/a/b/c\n");
    put_v2("", "max", 500000);
    for (size_t i = 0; i < count; i++) {
        put_v2(rows[i].group, rows[i].max, rows[i].usage);
        snprintf(path, sizeof path, "v2%s/memory.high", rows[i].group);
        put(path, "%s\n", rows[i].high);
        snprintf(path, sizeof path, "v2%s/memory.stat", rows[i].group);
        put(path,
            "anon 5\nfile 6\nshmem 7\ninactive_anon 1\nactive_anon 4\ninactive_file %u\n"
            "active_file %u\nslab_reclaimable 9\n",
            rows[i].inactive, rows[i].active);
        snprintf(path, sizeof path, "v2%s/memory.pressure", rows[i].group);
        put(path, "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
                  "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    }
    ck_assert_msg(start("") == EC_OK, "%s", why.text);
    ck_assert_uint_eq(sources.high, 1 + count); /* the root of the tree has no limit */
    for (uint32_t i = 0; i < sources.high; i++)
        ck_assert(source_look(&sources.source[i], MS));
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "v2%s/memory.pressure", rows[i].group);
        put(path, "some avg10=0 total=%u\nfull avg10=0 total=%u\n", rows[i].waited_us,
            rows[i].waited_us / 2);
    }
    for (uint32_t i = 0; i < sources.high; i++)
        ck_assert(source_look(&sources.source[i], 2001 * MS));
    for (size_t i = 0; i < count; i++) {
        const struct source *source;

        snprintf(path, sizeof path, "v2%s", rows[i].group);
        source = named(path);
        ck_assert_ptr_nonnull(source);
        ck_assert(source->own && source->kind == SOURCE_GROUP_V2);
        ck_assert_uint_eq(source->reading.total_bytes, rows[i].total);
        ck_assert_uint_eq(source->reading.available_bytes, rows[i].left);
        ck_assert_uint_ge(source->reading.some_permille, rows[i].waited_us / 2000 - 1);
        ck_assert_uint_le(source->reading.some_permille, rows[i].waited_us / 2000);
        ck_assert_uint_ge(source->reading.full_permille, rows[i].waited_us / 4000 - 1);
    }
}
END_TEST

START_TEST(a_limit_that_slows_down_can_come_and_go)
{
    put("proc/self/cgroup", "0::/x\n");
    put_v2("/x", "5000", 1000);
    put("v2/x/memory.high", "max\n");
    ck_assert_int_eq(start(""), EC_OK);
    ck_assert(source_look(&sources.source[1], MS));
    ck_assert_uint_eq(sources.source[1].reading.total_bytes, 5000);
    put("v2/x/memory.high", "2000\n");
    ck_assert(source_look(&sources.source[1], 1002 * MS));
    ck_assert_uint_eq(sources.source[1].reading.total_bytes, 2000);
    ck_assert_uint_eq(growth_bytes_per_s(&sources.source[1].growth), 0); /* nothing grew */
    put("v2/x/memory.high", "max\n");
    ck_assert(source_look(&sources.source[1], 2003 * MS));
    ck_assert_uint_eq(sources.source[1].reading.total_bytes, 5000);
}
END_TEST

/* The statistics change, which only an exact look reads, and then usage does. */
START_TEST(a_quiet_source_is_read_in_full_each_tenth_of_a_second_only)
{
    struct source *group = &sources.source[1];

    put("proc/self/cgroup", "0::/x\n");
    put_v2("/x", "100000", 60000);
    ck_assert_int_eq(start(""), EC_OK);
    sources_set_near(&sources, 210);
    ck_assert(source_look(group, MS));
    put("v2/x/memory.stat", "inactive_file 10000\n");
    ck_assert(source_look(group, 99 * MS));
    ck_assert_uint_eq(group->reading.available_bytes, 40000);
    ck_assert(source_look(group, 101 * MS));
    ck_assert_uint_eq(group->reading.available_bytes, 50000);
    put("v2/x/memory.current", "61000\n"); /* by no more than a little */
    ck_assert(source_look(group, 111 * MS));
    ck_assert_uint_eq(group->reading.available_bytes, 50000);
    put("v2/x/memory.current", "62001\n");
    ck_assert(source_look(group, 112 * MS));
    ck_assert_uint_eq(group->reading.available_bytes, 47999);
    put("v2/x/memory.current", "62500\n");
    ck_assert(source_look_exactly(group, 113 * MS));
    ck_assert_uint_eq(group->reading.available_bytes, 47500);
}
END_TEST

/* Near the marks, and where the kernel takes file pages away unseen. */
static const struct {
    unsigned usage, inactive;
} restless[] = { { 79500, 0 }, { 97500, 50000 } };

START_TEST(a_source_that_is_not_quiet_is_read_in_full_each_time)
{
    struct source *group = &sources.source[1];
    uint64_t before;

    put("proc/self/cgroup", "0::/x\n");
    put_v2("/x", "100000", restless[_i].usage);
    put("v2/x/memory.stat", "inactive_file %u\n", restless[_i].inactive);
    ck_assert_int_eq(start(""), EC_OK);
    sources_set_near(&sources, 210);
    ck_assert(source_look(group, MS));
    before = group->reading.available_bytes;
    put("v2/x/memory.stat", "inactive_file %u\n", restless[_i].inactive + 100);
    ck_assert(source_look(group, 2 * MS));
    ck_assert_uint_eq(group->reading.available_bytes, before + 100);
}
END_TEST

START_TEST(the_daemon_may_be_moved_and_its_groups_get_limits)
{
    struct source_chain client;

    put("proc/self/cgroup", "0::/x/y\n");
    put("proc/10/cgroup", "0::/x\n");
    put_v2("/x", "9000", 100);
    put_v2("/x/y", "max", 100);
    put_v2("/z", "7000", 100);
    ck_assert_int_eq(start(""), EC_OK);
    sources_chain(&sources, 10, &client);
    ck_assert_ptr_null(named("v2/x/y"));
    put_v2("/x/y", "5000", 100);
    sources_refresh_own(&sources);
    ck_assert(named("v2/x/y")->own);
    put("proc/self/cgroup", "0::/z\n");
    sources_refresh_own(&sources);
    ck_assert(named("v2/z")->own);
    ck_assert_ptr_null(named("v2/x/y"));
    ck_assert(!named("v2/x")->own); /* of the client only now */
    put("proc/self/cgroup", "0::/\n");
    sources_release(&sources, &client);
    sources_refresh_own(&sources);
    ck_assert_ptr_null(named("v2/z"));
    ck_assert(sources.source[SOURCES_HOST].own);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sources");
    TCase *tcase = tcase_create("sources");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, without_limited_groups_the_host_is_the_only_source);
    tcase_add_test(tcase, a_plain_file_may_be_replaced_by_another_one);
    tcase_add_test(tcase, what_is_missing_is_noted_once_with_its_reason);
    tcase_add_test(tcase, every_group_up_to_the_root_is_looked_at_in_both_versions);
    tcase_add_test(tcase, groups_can_be_named_instead);
    tcase_add_test(tcase, no_meminfo_is_an_error);
    tcase_add_test(tcase, clients_in_one_group_share_its_source);
    tcase_add_test(tcase, a_process_that_is_gone_has_no_groups);
    tcase_add_test(tcase, a_limit_that_changes_is_seen_after_a_second);
    tcase_add_test(tcase, a_limit_that_was_raised_is_seen_before_it_would_matter);
    tcase_add_test(tcase, clean_cache_is_not_used_and_what_is_reserved_is);
    tcase_add_test(tcase, waiting_is_a_share_of_the_time_since_the_kernel_added_up);
    tcase_add_test(tcase, pressure_that_the_kernel_does_not_keep_is_absent);
    tcase_add_test(tcase, a_group_that_is_removed_cannot_be_read);
    tcase_add_test(tcase, a_chain_of_version_2_is_read_whole);
    tcase_add_test(tcase, a_limit_that_slows_down_can_come_and_go);
    tcase_add_test(tcase, a_quiet_source_is_read_in_full_each_tenth_of_a_second_only);
    tcase_add_loop_test(tcase, a_source_that_is_not_quiet_is_read_in_full_each_time, 0, 2);
    tcase_add_test(tcase, the_daemon_may_be_moved_and_its_groups_get_limits);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
