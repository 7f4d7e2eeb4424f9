/* The daemon's segments: clients get descriptors that they can map, and never for writing. */
#include "daemon/segments.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "segment/segment.h"

#define HEAP_BYTES (1u << 20)

static struct segments *segments;
static struct ec_error why;

static void set_up(void)
{
    ck_assert_msg(
        segments_create(&(struct segments_desc) { .instance = 0x1234, .heap_bytes = HEAP_BYTES },
                        &segments, &why) == EC_OK,
        "%s", why.text);
}

static void tear_down(void)
{
    segments_destroy(segments);
}

START_TEST(a_client_can_map_each_segment_that_it_is_given)
{
    static const uint32_t kinds[] = { EC_SEGMENT_CLOCK, EC_SEGMENT_DIRECTORY, EC_SEGMENT_HEAP };
    static const char *const names[] = { "clock", "directory", "heap" };
    unsigned count;
    const struct segment_row *rows = segments_rows(segments, &count);

    ck_assert_uint_eq(count, 3);
    for (unsigned i = 0; i < count; i++) {
        struct ec_segment_map map;

        ck_assert_str_eq(rows[i].name, names[i]);
        ck_assert_uint_eq(rows[i].kind, kinds[i]);
        ck_assert_msg(ec_segment_map_init(&map, rows[i].fd, kinds[i], rows[i].bytes, rows[i].bytes,
                                          &why) == EC_OK,
                      "%s", why.text);
        ck_assert_uint_eq(map.header.instance, 0x1234);
        ck_assert_uint_eq(map.header.writer_client_id, 0);
        ec_segment_map_finish(&map);
    }
}
END_TEST

START_TEST(no_descriptor_that_a_client_gets_can_be_mapped_writable)
{
    unsigned count;
    const struct segment_row *rows = segments_rows(segments, &count);

    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_eq(fcntl(rows[i].fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        ck_assert(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, rows[i].fd, 0) ==
                  MAP_FAILED);
        ck_assert_int_eq(errno, EACCES);
    }
}
END_TEST

START_TEST(what_the_daemon_writes_is_seen_through_the_clients_descriptors)
{
    unsigned count;
    const struct segment_row *rows = segments_rows(segments, &count);
    const char *seen = mmap(NULL, HEAP_BYTES, PROT_READ, MAP_SHARED, rows[2].fd, 0);

    ck_assert(seen != MAP_FAILED);
    ck_assert_uint_eq(segments_heap_bytes(segments), HEAP_BYTES);
    memcpy(segments_heap(segments) + 8192, "asset", 5);
    ck_assert_mem_eq(seen + 8192, "asset", 5);
    ck_assert_int_eq(fallocate(segments_heap_fd(segments),
                               FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 4096),
                     0);
    ck_assert_mem_eq(seen + 8192, "\0\0\0\0\0", 5);
    munmap((void *)(uintptr_t)seen, HEAP_BYTES);
}
END_TEST

START_TEST(clock_page_and_directory_start_empty)
{
    ck_assert_uint_eq(atomic_load(&segments_clock(segments)->breaker_level), 0);
    ck_assert_uint_eq(atomic_load(&segments_directory(segments)->high), 0);
}
END_TEST

START_TEST(a_heap_that_is_too_small_is_refused_with_its_size)
{
    struct segments *none = segments;

    ck_assert_int_eq(
        segments_create(&(struct segments_desc) { .instance = 1, .heap_bytes = 100 }, &none, &why),
        EC_ERR_PARAM);
    ck_assert_msg(strstr(why.text, "create segment heap: 100 bytes") != NULL, "%s", why.text);
    ck_assert_ptr_null(none);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segments");
    TCase *tcase = tcase_create("segments");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_client_can_map_each_segment_that_it_is_given);
    tcase_add_test(tcase, no_descriptor_that_a_client_gets_can_be_mapped_writable);
    tcase_add_test(tcase, what_the_daemon_writes_is_seen_through_the_clients_descriptors);
    tcase_add_test(tcase, clock_page_and_directory_start_empty);
    tcase_add_test(tcase, a_heap_that_is_too_small_is_refused_with_its_size);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
