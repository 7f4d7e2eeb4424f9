/* A file is read up to its last whole chunk, whatever was cut off or turned over. */
#include "engine-ctl/mcap_reader.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine-ctl/mcap_writer.h"

#define CHUNKS 4
#define CHUNK_MESSAGES 3

static unsigned char file[65536];
static size_t file_bytes;
static size_t ends[CHUNKS]; /* behind each Chunk record */
static struct ec_error why;
static struct mcap_reader *reader;

static void close_reader(void)
{
    mcap_reader_close(reader);
    reader = NULL;
}

static void put(struct mcap_chunk *chunk, uint64_t number)
{
    struct mcap_message_head head = { .channel = (uint16_t)(number % 2),
                                      .sequence = (uint32_t)number,
                                      .log_time = 100 + number,
                                      .publish_time = 200 + number };
    unsigned char *to = mcap_chunk_message(chunk, &head, 8);

    ck_assert_ptr_nonnull(to);
    mcap_store(to, ~number, 8);
    mcap_chunk_keep(chunk);
}

static void add_channel(struct mcap_catalog *catalog, struct mcap_chunk *chunk)
{
    struct mcap_pair pairs[] = { { "client", "game" }, { "port", "main" } };

    mcap_catalog_channel(
        catalog, chunk,
        &(struct mcap_channel_desc) {
            .topic = "/game/main", .encoding = "ros1", .metadata = pairs, .metadata_count = 2 });
}

/* A file of four chunks of three messages each, with a metadata record behind each chunk. */
static void make_file(void)
{
    char directory[] = "/tmp/ec-mcap-XXXXXX", path[64], count[16];
    struct mcap_catalog catalog = { .schema_count = 0 };
    struct mcap_chunk chunk = { .record_bytes = 0 };
    struct mcap_writer *writer;
    int fd;

    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/file", directory);
    ck_assert_int_eq(mcap_writer_open(path, "x-test", "test", &writer, &why), EC_OK);
    add_channel(&catalog, &chunk);
    add_channel(&catalog, &chunk);
    for (int c = 0; c < CHUNKS; c++) {
        size_t start = (size_t)mcap_writer_bytes(writer);

        for (int m = 0; m < CHUNK_MESSAGES; m++)
            put(&chunk, (uint64_t)c * CHUNK_MESSAGES + (uint64_t)m);
        snprintf(count, sizeof count, "%d", c);
        mcap_chunk_metadata(&chunk, "count", &(struct mcap_pair) { "chunk", count }, 1);
        ends[c] = start + MCAP_RECORD_HEAD_BYTES + 40 + chunk.records.count;
        ck_assert_int_eq(mcap_writer_chunk(writer, &chunk, &why), EC_OK);
        mcap_chunk_clear(&chunk);
    }
    ck_assert_int_eq(mcap_writer_finish(writer, &catalog, &why), EC_OK);
    mcap_chunk_finish(&chunk);
    mcap_catalog_finish(&catalog);
    fd = open(path, O_RDONLY);
    file_bytes = (size_t)read(fd, file, sizeof file);
    close(fd);
    unlink(path);
    rmdir(directory);
}

/* Open a file of these bytes. */
static int open_bytes(const unsigned char *bytes, size_t count)
{
    int fd = memfd_create("mcap", MFD_CLOEXEC);

    ck_assert_int_eq(write(fd, bytes, count), (ssize_t)count);
    return mcap_reader_open_fd(fd, &reader, &why);
}

/* Read all messages and check what they hold. Returns how many there were. */
static uint64_t read_all(void)
{
    struct mcap_message message;
    uint64_t count = 0;
    int rc;

    while ((rc = mcap_reader_next(reader, &message, &why)) == EC_OK) {
        ck_assert_uint_eq(message.bytes, 8);
        ck_assert_uint_eq(~mcap_load(message.data, 8), message.sequence);
        ck_assert_uint_eq(message.log_time, 100 + message.sequence);
        ck_assert_uint_eq(message.publish_time, 200 + message.sequence);
        ck_assert_str_eq(mcap_reader_channel(reader, message.channel)->topic, "/game/main");
        count++;
    }
    ck_assert_int_eq(rc, EC_AGAIN);
    return count;
}

START_TEST(a_whole_file_gives_all_that_was_written)
{
    struct mcap_totals totals;

    ck_assert_int_eq(open_bytes(file, file_bytes), EC_OK);
    ck_assert_str_eq(mcap_reader_profile(reader), "x-test");
    ck_assert_uint_eq(read_all(), CHUNKS * CHUNK_MESSAGES);
    mcap_reader_totals(reader, &totals);
    ck_assert(totals.whole);
    ck_assert_uint_eq(totals.chunks, CHUNKS);
    ck_assert_uint_eq(totals.channels, 2);
    ck_assert_uint_eq(totals.time_min, 100);
    ck_assert_uint_eq(totals.time_max, 111);
    ck_assert_uint_eq(totals.damaged, 0);
    ck_assert_str_eq(mcap_map_find(&mcap_reader_channel(reader, 1)->metadata, "port"), "main");
    ck_assert_ptr_null(mcap_map_find(&mcap_reader_channel(reader, 1)->metadata, "none"));
    ck_assert_str_eq(mcap_map_find(mcap_reader_metadata(reader, "count"), "chunk"), "3");
}
END_TEST

START_TEST(the_summary_says_the_same_as_reading_all_of_it)
{
    struct mcap_totals totals;

    ck_assert_int_eq(open_bytes(file, file_bytes), EC_OK);
    ck_assert_int_eq(mcap_reader_summary(reader, &why), EC_OK);
    mcap_reader_totals(reader, &totals);
    ck_assert(totals.whole);
    ck_assert_uint_eq(totals.messages, CHUNKS * CHUNK_MESSAGES);
    ck_assert_uint_eq(totals.chunks, CHUNKS);
    ck_assert_uint_eq(totals.time_min, 100);
    ck_assert_uint_eq(totals.time_max, 111);
    ck_assert_uint_eq(mcap_reader_channel(reader, 0)->messages, 6);
    ck_assert_str_eq(mcap_map_find(mcap_reader_metadata(reader, "count"), "chunk"), "3");
}
END_TEST

START_TEST(a_file_that_is_cut_at_any_byte_is_read_up_to_its_last_whole_chunk)
{
    for (size_t cut = 0; cut < file_bytes; cut++) {
        struct mcap_totals totals;
        uint64_t chunks = 0;

        while (chunks < CHUNKS && ends[chunks] <= cut)
            chunks++;
        if (open_bytes(file, cut) != EC_OK) {
            ck_assert_uint_lt(cut, 40); /* in front of the first chunk */
            continue;
        }
        ck_assert_uint_eq(read_all(), chunks * CHUNK_MESSAGES);
        mcap_reader_totals(reader, &totals);
        ck_assert_uint_eq(totals.damaged, 0);
        ck_assert_uint_le(totals.end, cut);
        close_reader();
        ck_assert_int_eq(open_bytes(file, cut), EC_OK);
        ck_assert_int_eq(mcap_reader_summary(reader, &why), EC_ERR_NOT_FOUND);
        close_reader();
    }
}
END_TEST

START_TEST(a_chunk_with_a_wrong_byte_is_left_out_and_counted)
{
    struct mcap_totals totals;

    file[ends[1] - 3] ^= 0x10;
    ck_assert_int_eq(open_bytes(file, file_bytes), EC_OK);
    ck_assert_uint_eq(read_all(), (CHUNKS - 1) * CHUNK_MESSAGES);
    mcap_reader_totals(reader, &totals);
    ck_assert_uint_eq(totals.damaged, 1);
    ck_assert(totals.whole);
}
END_TEST

START_TEST(a_summary_with_a_wrong_byte_is_not_believed)
{
    file[file_bytes - 60] ^= 1;
    ck_assert_int_eq(open_bytes(file, file_bytes), EC_OK);
    ck_assert_int_eq(mcap_reader_summary(reader, &why), EC_ERR_NOT_FOUND);
}
END_TEST

START_TEST(any_byte_turned_over_anywhere_harms_nobody)
{
    for (size_t at = 0; at < file_bytes; at++) {
        struct mcap_message message;

        file[at] ^= 0xff;
        if (open_bytes(file, file_bytes) == EC_OK) {
            uint64_t count = 0;

            while (mcap_reader_next(reader, &message, &why) == EC_OK)
                count++;
            ck_assert_uint_le(count, CHUNKS * CHUNK_MESSAGES);
            close_reader();
            ck_assert_int_eq(open_bytes(file, file_bytes), EC_OK);
            mcap_reader_summary(reader, &why);
            close_reader();
        }
        file[at] ^= 0xff;
    }
}
END_TEST

START_TEST(a_compressed_chunk_is_refused_by_name)
{
    struct mcap_bytes bytes = { 0 };
    struct mcap_message message;
    size_t record;

    mcap_put(&bytes, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    record = mcap_put_record(&bytes, MCAP_HEADER);
    mcap_put_text(&bytes, "");
    mcap_put_text(&bytes, "");
    mcap_end_record(&bytes, record);
    record = mcap_put_record(&bytes, MCAP_CHUNK);
    mcap_put(&bytes, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 28);
    mcap_put_text(&bytes, "zstd");
    mcap_put_u64(&bytes, 0);
    mcap_end_record(&bytes, record);
    ck_assert_int_eq(open_bytes(bytes.at, bytes.count), EC_OK);
    ck_assert_int_eq(mcap_reader_next(reader, &message, &why), EC_ERR_VERSION);
    ck_assert_ptr_nonnull(strstr(why.text, "zstd"));
    mcap_bytes_finish(&bytes);
}
END_TEST

START_TEST(messages_outside_of_chunks_and_unknown_records_are_read_too)
{
    struct mcap_bytes bytes = { 0 };
    struct mcap_message message;
    size_t record, map;

    mcap_put(&bytes, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    record = mcap_put_record(&bytes, MCAP_HEADER);
    mcap_put_text(&bytes, "");
    mcap_put_text(&bytes, "");
    mcap_end_record(&bytes, record);
    record = mcap_put_record(&bytes, (enum mcap_opcode)0x80);
    mcap_put_text(&bytes, "not ours");
    mcap_end_record(&bytes, record);
    record = mcap_put_record(&bytes, MCAP_CHANNEL);
    mcap_put_u16(&bytes, 300);
    mcap_put_u16(&bytes, 0);
    mcap_put_text(&bytes, "/topic");
    mcap_put_text(&bytes, "json");
    map = mcap_put_list(&bytes);
    mcap_end_list(&bytes, map);
    mcap_put_text(&bytes, "a field of a later version");
    mcap_end_record(&bytes, record);
    for (uint32_t i = 0; i < 2; i++) {
        record = mcap_put_record(&bytes, MCAP_MESSAGE);
        mcap_put_u16(&bytes, i == 0 ? 299 : 300); /* the first is of no channel */
        mcap_put_u32(&bytes, i);
        mcap_put_u64(&bytes, 5);
        mcap_put_u64(&bytes, 6);
        mcap_put(&bytes, "{}", 2);
        mcap_end_record(&bytes, record);
    }
    ck_assert_int_eq(open_bytes(bytes.at, bytes.count), EC_OK);
    ck_assert_int_eq(mcap_reader_next(reader, &message, &why), EC_OK);
    ck_assert_uint_eq(message.sequence, 1);
    ck_assert_uint_eq(message.bytes, 2);
    ck_assert_int_eq(mcap_reader_next(reader, &message, &why), EC_AGAIN);
    mcap_bytes_finish(&bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mcap_reader");
    TCase *tcase = tcase_create("mcap_reader");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, make_file, close_reader);
    tcase_add_test(tcase, a_whole_file_gives_all_that_was_written);
    tcase_add_test(tcase, the_summary_says_the_same_as_reading_all_of_it);
    tcase_add_test(tcase, a_file_that_is_cut_at_any_byte_is_read_up_to_its_last_whole_chunk);
    tcase_add_test(tcase, a_chunk_with_a_wrong_byte_is_left_out_and_counted);
    tcase_add_test(tcase, a_summary_with_a_wrong_byte_is_not_believed);
    tcase_add_test(tcase, any_byte_turned_over_anywhere_harms_nobody);
    tcase_add_test(tcase, a_compressed_chunk_is_refused_by_name);
    tcase_add_test(tcase, messages_outside_of_chunks_and_unknown_records_are_read_too);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
