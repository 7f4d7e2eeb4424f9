/* The bytes of an MCAP file, as the specification has them. */
#include "engine-ctl/mcap_writer.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine-ctl/mcap_crc32.h"

static char directory[64], path[96];
static struct mcap_writer *writer;
static struct mcap_catalog catalog;
static struct mcap_chunk chunk;
static struct ec_error why;
static unsigned char file[65536];
static size_t file_bytes;

static void set_up(void)
{
    strcpy(directory, "/tmp/ec-mcap-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/test.mcap", directory);
    ck_assert_int_eq(mcap_writer_open(path, "profile", "library", &writer, &why), EC_OK);
}

static void tear_down(void)
{
    mcap_writer_close(writer);
    mcap_chunk_finish(&chunk);
    mcap_catalog_finish(&catalog);
    unlink(path);
    rmdir(directory);
}

static void put(uint16_t channel, uint64_t time, const char *text)
{
    struct mcap_message_head head = {
        .channel = channel, .sequence = 7, .log_time = time, .publish_time = time + 1
    };
    unsigned char *to = mcap_chunk_message(&chunk, &head, strlen(text));

    ck_assert_ptr_nonnull(to);
    memcpy(to, text, strlen(text));
    mcap_chunk_keep(&chunk);
}

static int add_channel(int schema)
{
    struct mcap_pair pair = { "key", "value" };

    return mcap_catalog_channel(&catalog, &chunk,
                                &(struct mcap_channel_desc) { .schema = (uint16_t)schema,
                                                              .topic = "/topic",
                                                              .encoding = "ros1",
                                                              .metadata = &pair,
                                                              .metadata_count = 1 });
}

static void write_chunk(void)
{
    ck_assert_int_eq(mcap_writer_chunk(writer, &chunk, &why), EC_OK);
    mcap_chunk_clear(&chunk);
}

static void finish(void)
{
    int fd;

    ck_assert_int_eq(mcap_writer_finish(writer, &catalog, &why), EC_OK);
    writer = NULL;
    fd = open(path, O_RDONLY);
    file_bytes = (size_t)read(fd, file, sizeof file);
    close(fd);
}

/* The n-th record of this opcode; *bytes: of its content. */
static const unsigned char *find(enum mcap_opcode opcode, int n, size_t *bytes)
{
    size_t at = MCAP_MAGIC_BYTES;

    while (at < file_bytes - MCAP_MAGIC_BYTES) {
        *bytes = (size_t)mcap_load(file + at + 1, 8);
        if (file[at] == opcode && n-- == 0)
            return file + at + MCAP_RECORD_HEAD_BYTES;
        at += MCAP_RECORD_HEAD_BYTES + *bytes;
    }
    ck_assert_uint_eq(at, file_bytes - MCAP_MAGIC_BYTES); /* no record goes beyond the end */
    return NULL;
}

START_TEST(the_crc_is_that_of_zip)
{
    ck_assert_uint_eq(mcap_crc32(0, "123456789", 9), 0xcbf43926u);
    ck_assert_uint_eq(mcap_crc32(mcap_crc32(0, "1234", 4), "56789", 5), 0xcbf43926u);
    ck_assert_uint_eq(mcap_crc32(0, "The quick brown fox jumps over the lazy dog", 43),
                      0x414fa339u);
    ck_assert_uint_eq(mcap_crc32(0, "", 0), 0);
}
END_TEST

START_TEST(an_empty_file_has_magic_header_data_end_statistics_and_footer)
{
    size_t bytes;

    finish();
    ck_assert_int_eq(memcmp(file, "\x89MCAP0\r\n", 8), 0);
    ck_assert_int_eq(memcmp(file + file_bytes - 8, "\x89MCAP0\r\n", 8), 0);
    ck_assert_int_eq(memcmp(find(MCAP_HEADER, 0, &bytes), "\7\0\0\0profile\7\0\0\0library", 22), 0);
    ck_assert_uint_eq(bytes, 22);
    ck_assert_ptr_nonnull(find(MCAP_DATA_END, 0, &bytes));
    ck_assert_uint_eq(bytes, 4);
    ck_assert_uint_eq(mcap_load(find(MCAP_STATISTICS, 0, &bytes), 8), 0);
    ck_assert_ptr_nonnull(find(MCAP_FOOTER, 0, &bytes));
    ck_assert_uint_eq(bytes, 20);
}
END_TEST

START_TEST(the_index_finds_every_message_of_a_chunk_by_channel)
{
    const unsigned char *index, *records;
    uint64_t offset;
    size_t bytes;
    int schema = mcap_catalog_schema(&catalog, &chunk, "schema", "ros1msg", "u", 1);

    ck_assert_int_eq(schema, 1);
    ck_assert_int_eq(add_channel(schema), 0);
    ck_assert_int_eq(add_channel(schema), 1);
    put(1, 30, "c");
    put(0, 10, "a");
    put(1, 20, "b");
    write_chunk();
    finish();

    records = find(MCAP_CHUNK, 0, &bytes) + 40;
    index = find(MCAP_MESSAGE_INDEX, 1, &bytes);
    ck_assert_uint_eq(bytes, 2 + 4 + 2 * 16);
    ck_assert_uint_eq(mcap_load(index, 2), 1);
    ck_assert_uint_eq(mcap_load(index + 6, 8), 30);
    offset = mcap_load(index + 14, 8);
    ck_assert_int_eq(records[offset], MCAP_MESSAGE);
    ck_assert_int_eq(records[offset + 9 + 22], 'c');
    ck_assert_uint_eq(mcap_load(index + 22, 8), 20);
    ck_assert_int_eq(records[mcap_load(index + 30, 8) + 9 + 22], 'b');
    ck_assert_uint_eq(mcap_load(find(MCAP_MESSAGE_INDEX, 0, &bytes), 2), 0);
    ck_assert_ptr_null(find(MCAP_MESSAGE_INDEX, 2, &bytes));
}
END_TEST

START_TEST(chunk_index_statistics_and_footer_point_where_things_are)
{
    const unsigned char *at, *footer;
    size_t bytes;
    uint64_t summary;

    add_channel(mcap_catalog_schema(&catalog, &chunk, "schema", "ros1msg", "u", 1));
    put(0, 10, "a");
    write_chunk();
    put(0, 5, "b");
    put(0, 25, "c");
    mcap_chunk_metadata(&chunk, "about", &(struct mcap_pair) { "k", "v" }, 1);
    write_chunk();
    finish();

    at = find(MCAP_CHUNK_INDEX, 1, &bytes);
    ck_assert_uint_eq(mcap_load(at, 8), 5);
    ck_assert_uint_eq(mcap_load(at + 8, 8), 25);
    ck_assert_int_eq(file[mcap_load(at + 16, 8)], MCAP_CHUNK);
    ck_assert_ptr_eq(file + mcap_load(at + 16, 8) + 9, find(MCAP_CHUNK, 1, &bytes));
    ck_assert_uint_eq(mcap_load(at + 24, 8), bytes + 9);
    ck_assert_ptr_eq(file + mcap_load(at + 38, 8) + 9, find(MCAP_MESSAGE_INDEX, 1, &bytes));
    at = find(MCAP_METADATA_INDEX, 0, &bytes);
    ck_assert_ptr_eq(file + mcap_load(at, 8) + 9, find(MCAP_METADATA, 0, &bytes));
    at = find(MCAP_STATISTICS, 0, &bytes);
    ck_assert_uint_eq(mcap_load(at, 8), 3);
    ck_assert_uint_eq(mcap_load(at + 22, 4), 2); /* chunks */
    ck_assert_uint_eq(mcap_load(at + 26, 8), 5);
    ck_assert_uint_eq(mcap_load(at + 34, 8), 25);
    ck_assert_uint_eq(mcap_load(at + 48, 8), 3); /* of channel 0 */
    footer = find(MCAP_FOOTER, 0, &bytes);
    summary = mcap_load(footer, 8);
    ck_assert_int_eq(file[summary], MCAP_SCHEMA);
    ck_assert_int_eq(file[mcap_load(footer + 8, 8)], MCAP_SUMMARY_OFFSET);
    ck_assert_uint_eq(mcap_load(footer + 16, 4),
                      mcap_crc32(0, file + summary, (size_t)(footer + 16 - file) - summary));
}
END_TEST

START_TEST(a_message_that_was_dropped_or_never_kept_is_not_in_the_file)
{
    struct mcap_message_head head = { .channel = 0 };
    size_t bytes;

    add_channel(0);
    put(0, 1, "whole");
    memcpy(mcap_chunk_message(&chunk, &head, 4), "torn", 4);
    mcap_chunk_drop(&chunk);
    mcap_chunk_keep(&chunk);
    memcpy(mcap_chunk_message(&chunk, &head, 4), "lost", 4);
    write_chunk();
    finish();
    ck_assert_uint_eq(mcap_load(find(MCAP_STATISTICS, 0, &bytes), 8), 1);
    ck_assert_ptr_nonnull(memmem(file, file_bytes, "whole", 5));
    ck_assert_ptr_null(memmem(file, file_bytes, "torn", 4));
    ck_assert_ptr_null(memmem(file, file_bytes, "lost", 4));
}
END_TEST

START_TEST(a_file_that_exists_is_not_touched)
{
    struct mcap_writer *other;

    ck_assert_int_eq(mcap_writer_open(path, "", "", &other, &why), EC_ERR_STATE);
    ck_assert_ptr_null(other);
    ck_assert_ptr_nonnull(strstr(why.text, "exists already")); /* the caller names it */
}
END_TEST

START_TEST(a_full_disk_is_an_error_with_its_reason)
{
    struct mcap_writer *full;
    int rc;

    /* A link to /dev/full: O_EXCL forbids to open it through the writer, so its descriptor is put in
     * place of an ordinary file's. */
    char other[128];
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC), before = open("/dev/null", O_RDONLY);

    snprintf(other, sizeof other, "%s/full", directory);
    close(before); /* the lowest free descriptor is the writer's next */
    ck_assert_int_eq(mcap_writer_open(other, "", "", &full, &why), EC_OK);
    ck_assert_int_eq(dup2(fd, before), before);
    close(fd);
    add_channel(0);
    put(0, 1, "a");
    rc = mcap_writer_chunk(full, &chunk, &why);
    ck_assert_int_eq(rc, EC_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(why.text, "No space left"));
    mcap_writer_close(full);
    unlink(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mcap_writer");
    TCase *tcase = tcase_create("mcap_writer");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_crc_is_that_of_zip);
    tcase_add_test(tcase, an_empty_file_has_magic_header_data_end_statistics_and_footer);
    tcase_add_test(tcase, the_index_finds_every_message_of_a_chunk_by_channel);
    tcase_add_test(tcase, chunk_index_statistics_and_footer_point_where_things_are);
    tcase_add_test(tcase, a_message_that_was_dropped_or_never_kept_is_not_in_the_file);
    tcase_add_test(tcase, a_file_that_exists_is_not_touched);
    tcase_add_test(tcase, a_full_disk_is_an_error_with_its_reason);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
