/* Segments promise: one writable mapping, a size that never changes, and a reader that takes nothing
 * on trust. */
#include "segment/segment.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (3 * 4096u)

static struct ec_error why;

static struct ec_segment_desc clock_desc(void)
{
    return (struct ec_segment_desc) {
        .name = "test", .kind = EC_SEGMENT_CLOCK, .bytes = BYTES, .client_id = 7, .instance = 99
    };
}

static struct ec_segment made(const struct ec_segment_desc *desc)
{
    struct ec_segment segment;

    ck_assert_msg(ec_segment_init(&segment, desc, &why) == EC_OK, "%s", why.text);
    return segment;
}

static int map_clock(struct ec_segment_map *map, int fd)
{
    return ec_segment_map_init(map, fd, EC_SEGMENT_CLOCK, 4096, 1 << 20, &why);
}

/* A descriptor of the same file, as another process would open it. */
static int reopened(int fd, int flags)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

/* A memfd made by hand, as no honest client would. */
static int forged(const void *header, size_t header_bytes, off_t bytes, int seals)
{
    int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, bytes), 0);
    ck_assert_int_eq(pwrite(fd, header, header_bytes, 0), (ssize_t)header_bytes);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static struct ec_segment_header good_header_of(uint32_t kind)
{
    return (struct ec_segment_header) { .magic = EC_SEGMENT_MAGIC,
                                        .kind = kind,
                                        .layout_major = ec_layout_of(kind)->major,
                                        .layout_minor = ec_layout_of(kind)->minor,
                                        .total_bytes = BYTES,
                                        .layout_hash = ec_layout_hash(kind) };
}

static struct ec_segment_header good_header(void)
{
    return good_header_of(EC_SEGMENT_CLOCK);
}

#define GOOD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)

START_TEST(a_reader_sees_what_the_writer_writes_and_the_checked_header)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment = made(&desc);
    struct ec_segment_map map;

    ck_assert_msg(map_clock(&map, segment.fd) == EC_OK, "%s", why.text);
    ck_assert_uint_eq(map.bytes, BYTES);
    ck_assert_uint_eq(map.header.writer_client_id, 7);
    ck_assert_uint_eq(map.header.instance, 99);
    ((char *)segment.base)[5000] = 'x';
    ck_assert_int_eq(((const char *)map.base)[5000], 'x');
    ec_segment_map_finish(&map);
    ck_assert_ptr_null(map.base);
    ec_segment_finish(&segment);
}
END_TEST

START_TEST(the_size_is_rounded_up_to_whole_pages)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment;

    desc.bytes = 5000;
    segment = made(&desc);
    ck_assert_uint_eq(segment.bytes, 2u * 4096);
    ec_segment_finish(&segment);
}
END_TEST

START_TEST(the_kernel_refuses_a_second_writable_mapping)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment = made(&desc);
    int again = reopened(segment.fd, O_RDWR);
    struct ec_segment_map map;

    ck_assert(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd, 0) == MAP_FAILED);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_ge(again, 0); /* the own uid may open it, but not map it */
    ck_assert(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(pwrite(again, "x", 1, 0), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(map_clock(&map, again), EC_OK);
    ck_assert_int_eq(mprotect((void *)(uintptr_t)map.base, BYTES, PROT_READ | PROT_WRITE), -1);
    ec_segment_map_finish(&map);
    close(again);
    ec_segment_finish(&segment);
}
END_TEST

START_TEST(nobody_can_change_size_or_seals_of_a_segment)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment = made(&desc);

    ck_assert_int_eq(ftruncate(segment.fd, 4096), -1);
    ck_assert_int_eq(ftruncate(segment.fd, 2 * BYTES), -1);
    ck_assert_int_eq(fcntl(segment.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    ec_segment_finish(&segment);
}
END_TEST

START_TEST(only_the_owner_may_open_the_file)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment = made(&desc);
    struct stat st;

    ck_assert_int_eq(fstat(segment.fd, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    ck_assert_int_eq(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    ec_segment_finish(&segment);
}
END_TEST

START_TEST(holes_can_be_punched_into_a_heap_and_a_read_only_descriptor_cannot_write_it)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment heap;
    struct ec_segment_map map;
    struct stat st;
    int reader;

    desc.kind = EC_SEGMENT_HEAP;
    desc.punchable = true;
    heap = made(&desc);
    ((char *)heap.base)[2 * 4096] = 'x';
    reader = reopened(heap.fd, O_RDONLY);
    ck_assert_int_ge(reader, 0);
    ck_assert_int_eq(fstat(reader, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0400);
    ck_assert(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0) == MAP_FAILED);
    ck_assert_int_eq(errno, EACCES);
    ck_assert_msg(ec_segment_map_init(&map, reader, EC_SEGMENT_HEAP, 4096, 1 << 20, &why) == EC_OK,
                  "%s", why.text);
    ck_assert_int_eq(((const char *)map.base)[2 * 4096], 'x');
    ck_assert_int_eq(fallocate(heap.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * 4096, 4096),
                     0);
    ck_assert_int_eq(((const char *)map.base)[2 * 4096], 0);
    ec_segment_map_finish(&map);
    close(reader);
    ec_segment_finish(&heap);
}
END_TEST

START_TEST(a_populated_segment_has_all_its_pages)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment;
    struct stat st;

    desc.populate = true;
    segment = made(&desc);
    ck_assert_int_eq(fstat(segment.fd, &st), 0);
    ck_assert_int_eq(st.st_blocks * 512, BYTES);
    ec_segment_finish(&segment);
}
END_TEST

START_TEST(a_mirrored_segment_repeats_its_end_behind_itself)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment;
    struct ec_segment_map map;
    unsigned char *base;
    const unsigned char *seen;

    desc.mirror_offset = 2 * 4096;
    desc.populate = true;
    segment = made(&desc);
    ck_assert_uint_eq(segment.mapped_bytes, BYTES + 4096);
    base = segment.base;
    memcpy(base + BYTES - 2, "abcd", 4); /* across the end */
    ck_assert_mem_eq(base + 2 * 4096, "cd", 2);

    ck_assert_int_eq(map_clock(&map, segment.fd), EC_OK);
    ck_assert_msg(ec_segment_map_mirror(&map, segment.fd, 2 * 4096, &why) == EC_OK, "%s", why.text);
    ck_assert_uint_eq(map.mapped_bytes, BYTES + 4096);
    seen = map.base;
    ck_assert_mem_eq(seen + BYTES - 2, "abcd", 4);
    ec_segment_map_finish(&map);
    ec_segment_finish(&segment);
}
END_TEST

/* Is the page at this address entered in the page table? */
static bool is_entered(const void *address)
{
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t entry = 0;

    ck_assert_int_ge(pagemap, 0);
    ck_assert_int_eq(pread(pagemap, &entry, sizeof entry, (off_t)((uintptr_t)address / 4096 * 8)),
                     sizeof entry);
    close(pagemap);
    return entry >> 63 != 0;
}

START_TEST(of_a_mirror_only_the_part_that_is_used_is_populated)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment;
    const unsigned char *base;

    desc.mirror_offset = 4096;
    desc.mirror_used = 100;
    desc.populate = true;
    segment = made(&desc);
    base = segment.base;
    ck_assert_uint_eq(segment.mapped_bytes, 2 * BYTES - 4096);
    ck_assert(is_entered(base + BYTES - 4096));
    ck_assert(is_entered(base + BYTES));
    ck_assert(!is_entered(base + BYTES + 4096));
    ec_segment_finish(&segment);
}
END_TEST

START_TEST(more_of_a_mirror_than_there_is_cannot_be_used)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment;

    desc.mirror_used = 1; /* without a mirror */
    ck_assert_int_eq(ec_segment_init(&segment, &desc, &why), EC_ERR_PARAM);
    desc.mirror_offset = 2 * 4096;
    desc.mirror_used = BYTES - 2 * 4096 + 1;
    ck_assert_int_eq(ec_segment_init(&segment, &desc, &why), EC_ERR_PARAM);
    ck_assert_msg(strstr(why.text, "of the mirror are used, of which there are") != NULL, "%s",
                  why.text);
}
END_TEST

START_TEST(a_mirror_offset_outside_the_file_is_refused_and_the_map_stays)
{
    static const uint64_t offsets[] = { 0, 100, BYTES, 1ull << 40 };
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment = made(&desc);
    struct ec_segment_map map;

    ck_assert_int_eq(map_clock(&map, segment.fd), EC_OK);
    ck_assert_int_eq(ec_segment_map_mirror(&map, segment.fd, offsets[_i], &why), EC_ERR_LAYOUT);
    ck_assert_uint_eq(map.mapped_bytes, BYTES);
    ck_assert_uint_eq(((const struct ec_segment_header *)map.base)->magic, EC_SEGMENT_MAGIC);
    ec_segment_map_finish(&map);
    ec_segment_finish(&segment);
}
END_TEST

START_TEST(a_forked_child_does_not_inherit_the_writable_mapping)
{
    struct ec_segment_desc desc = clock_desc();
    struct ec_segment segment = made(&desc);
    unsigned char present;
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(mincore(segment.base, 4096, &present) < 0 && errno == ENOMEM ? 0 : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ec_segment_finish(&segment);
}
END_TEST

static const struct {
    struct ec_segment_desc desc;
    const char *text;
} desc_cases[] = {
    { { .name = "k", .kind = 0, .bytes = BYTES }, "kind 0 does not exist" },
    { { .name = "k", .kind = EC_SEGMENT_KINDS, .bytes = BYTES }, "does not exist" },
    { { .name = "small", .kind = EC_SEGMENT_CLOCK, .bytes = 4095 }, "4095 bytes, expected 4096" },
    { { .name = "big", .kind = EC_SEGMENT_CLOCK, .bytes = EC_SEGMENT_BYTES_MAX + 1 }, "expected" },
    { { .name = "odd", .kind = EC_SEGMENT_CLOCK, .bytes = BYTES, .mirror_offset = 5 },
      "offset is 5" },
    { { .name = "end", .kind = EC_SEGMENT_CLOCK, .bytes = BYTES, .mirror_offset = BYTES },
      "offset is 12288" },
};

START_TEST(a_wrong_description_creates_nothing_and_names_the_value)
{
    struct ec_segment segment;

    ck_assert_int_eq(ec_segment_init(&segment, &desc_cases[_i].desc, &why), EC_ERR_PARAM);
    ck_assert_msg(strstr(why.text, desc_cases[_i].text) != NULL, "%s", why.text);
    ck_assert_int_eq(segment.fd, -1);
    ck_assert_ptr_null(segment.base);
    ec_segment_finish(&segment);
}
END_TEST

/* One field of the header is changed at a time. */
static const struct {
    size_t offset;
    size_t bytes;
    uint64_t value;
    const char *field;
    const char *got;
} header_cases[] = {
    { offsetof(struct ec_segment_header, magic), 8, 0x1234, "magic", "0x1234" },
    { offsetof(struct ec_segment_header, kind), 4, EC_SEGMENT_PORT, "kind", "is 6, expected 1" },
    { offsetof(struct ec_segment_header, layout_major), 2, 2, "layout_major", "is 2, expected 1" },
    { offsetof(struct ec_segment_header, layout_hash), 8, 0xabcdef, "layout_hash", "0xabcdef" },
    { offsetof(struct ec_segment_header, total_bytes), 8, 4096, "total_bytes",
      "is 4096, expected 12288" },
    { offsetof(struct ec_segment_header, total_bytes), 8, UINT64_MAX, "total_bytes",
      "18446744073709551615" },
};

START_TEST(a_wrong_header_is_refused_with_field_and_both_values)
{
    struct ec_segment_header header = good_header();
    struct ec_segment_mismatch mismatch;
    struct ec_segment_map map;
    int fd;

    memcpy((char *)&header + header_cases[_i].offset, &header_cases[_i].value,
           header_cases[_i].bytes);
    fd = forged(&header, sizeof header, BYTES, GOOD_SEALS);
    ck_assert_int_eq(map_clock(&map, fd), EC_ERR_LAYOUT);
    ck_assert_msg(strstr(why.text, header_cases[_i].field) != NULL, "%s", why.text);
    ck_assert_msg(strstr(why.text, header_cases[_i].got) != NULL, "%s", why.text);
    ck_assert_msg(strstr(why.text, "expected") != NULL, "%s", why.text);
    ck_assert_ptr_null(map.base);
    ck_assert(ec_segment_mismatch(&map.header, EC_SEGMENT_CLOCK, map.bytes, &mismatch));
    ck_assert_str_eq(mismatch.field, header_cases[_i].field);
    ck_assert_uint_eq(mismatch.got, header_cases[_i].value);
    close(fd);
}
END_TEST

START_TEST(a_higher_minor_version_is_accepted)
{
    struct ec_segment_header header = good_header();
    struct ec_segment_map map;
    int fd;

    header.layout_minor = (uint16_t)(header.layout_minor + 5);
    fd = forged(&header, sizeof header, BYTES, GOOD_SEALS);
    ck_assert_msg(map_clock(&map, fd) == EC_OK, "%s", why.text);
    ck_assert_uint_eq(map.header.layout_minor, header.layout_minor);
    ec_segment_map_finish(&map);
    close(fd);
}
END_TEST

/* The daemon writes the clock, and may have to map it writable again after a restart. */
static const struct {
    uint32_t kind;
    int seals;
    bool accepted;
    const char *text;
} seal_cases[] = {
    { EC_SEGMENT_CURSOR, 0, false, "seals are 0x0" },
    { EC_SEGMENT_CURSOR, F_SEAL_GROW | F_SEAL_FUTURE_WRITE, false, "SHRINK" },
    { EC_SEGMENT_CURSOR, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE, false, "GROW" },
    { EC_SEGMENT_CURSOR, F_SEAL_SHRINK | F_SEAL_GROW, false, "FUTURE_WRITE" },
    { EC_SEGMENT_CURSOR, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE, true, "" },
    { EC_SEGMENT_CURSOR, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, true, "" },
    { EC_SEGMENT_CLOCK, F_SEAL_GROW, false, "SHRINK" },
    { EC_SEGMENT_CLOCK, F_SEAL_SHRINK, false, "GROW" },
    { EC_SEGMENT_CLOCK, F_SEAL_SHRINK | F_SEAL_GROW, true, "" },
};

START_TEST(a_file_without_the_seals_is_refused)
{
    struct ec_segment_header header = good_header_of(seal_cases[_i].kind);
    struct ec_segment_map map;
    int fd = forged(&header, sizeof header, BYTES, seal_cases[_i].seals);
    int rc = ec_segment_map_init(&map, fd, seal_cases[_i].kind, 4096, 1 << 20, &why);

    ck_assert_int_eq(rc, seal_cases[_i].accepted ? EC_OK : EC_ERR_LAYOUT);
    if (!seal_cases[_i].accepted)
        ck_assert_msg(strstr(why.text, seal_cases[_i].text) != NULL, "%s", why.text);
    ec_segment_map_finish(&map);
    close(fd);
}
END_TEST

START_TEST(a_file_of_another_size_than_expected_is_refused_before_it_is_read)
{
    struct ec_segment_header header = good_header();
    struct ec_segment_map map;
    int fd = forged(&header, sizeof header, 100, GOOD_SEALS);

    ck_assert_int_eq(map_clock(&map, fd), EC_ERR_SIZE);
    ck_assert_msg(strstr(why.text, "size is 100") != NULL, "%s", why.text);
    close(fd);
    fd = forged(&header, sizeof header, BYTES, GOOD_SEALS);
    ck_assert_int_eq(ec_segment_map_init(&map, fd, EC_SEGMENT_CLOCK, BYTES + 4096, 1 << 20, &why),
                     EC_ERR_SIZE);
    ck_assert_int_eq(ec_segment_map_init(&map, fd, EC_SEGMENT_CLOCK, 4096, BYTES - 4096, &why),
                     EC_ERR_SIZE);
    ck_assert_ptr_null(map.base);
    close(fd);
}
END_TEST

START_TEST(a_file_that_was_cut_after_its_header_was_written_is_refused)
{
    struct ec_segment_header header = good_header();
    struct ec_segment_map map;
    int fd = forged(&header, sizeof header, 2 * 4096, GOOD_SEALS);

    ck_assert_int_eq(map_clock(&map, fd), EC_ERR_LAYOUT);
    ck_assert_msg(strstr(why.text, "total_bytes is 12288, expected 8192") != NULL, "%s", why.text);
    close(fd);
}
END_TEST

START_TEST(what_is_no_memfd_is_refused)
{
    char path[] = "/tmp/segment-XXXXXX";
    struct ec_segment_map map;
    int pipe_fds[2], file = mkstemp(path);

    unlink(path);
    ck_assert_int_eq(pipe(pipe_fds), 0);
    ck_assert_int_eq(ftruncate(file, BYTES), 0);
    ck_assert_int_eq(map_clock(&map, pipe_fds[0]), EC_ERR_LAYOUT);
    ck_assert_int_eq(map_clock(&map, file), EC_ERR_LAYOUT);
    ck_assert_int_eq(map_clock(&map, -1), EC_ERR_SYSTEM);
    close(file);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}
END_TEST

START_TEST(finish_accepts_what_was_never_made)
{
    struct ec_segment segment = { 0 };
    struct ec_segment_map map = { 0 };

    ec_segment_finish(&segment);
    ec_segment_map_finish(&map);
    ck_assert_int_ne(fcntl(0, F_GETFD), -1); /* descriptor 0 is still open */
}
END_TEST

#define CASES(array) (int)(sizeof(array) / sizeof(array)[0])

int main(void)
{
    Suite *suite = suite_create("segment");
    TCase *writer = tcase_create("writer"), *reader = tcase_create("reader");
    SRunner *runner;
    int failed;

    tcase_add_test(writer, a_reader_sees_what_the_writer_writes_and_the_checked_header);
    tcase_add_test(writer, the_size_is_rounded_up_to_whole_pages);
    tcase_add_test(writer, the_kernel_refuses_a_second_writable_mapping);
    tcase_add_test(writer, nobody_can_change_size_or_seals_of_a_segment);
    tcase_add_test(writer, only_the_owner_may_open_the_file);
    tcase_add_test(writer,
                   holes_can_be_punched_into_a_heap_and_a_read_only_descriptor_cannot_write_it);
    tcase_add_test(writer, a_populated_segment_has_all_its_pages);
    tcase_add_test(writer, of_a_mirror_only_the_part_that_is_used_is_populated);
    tcase_add_test(writer, more_of_a_mirror_than_there_is_cannot_be_used);
    tcase_add_test(writer, a_mirrored_segment_repeats_its_end_behind_itself);
    tcase_add_loop_test(writer, a_mirror_offset_outside_the_file_is_refused_and_the_map_stays, 0,
                        4);
    tcase_add_test(writer, a_forked_child_does_not_inherit_the_writable_mapping);
    tcase_add_loop_test(writer, a_wrong_description_creates_nothing_and_names_the_value, 0,
                        CASES(desc_cases));
    tcase_add_loop_test(reader, a_wrong_header_is_refused_with_field_and_both_values, 0,
                        CASES(header_cases));
    tcase_add_test(reader, a_higher_minor_version_is_accepted);
    tcase_add_loop_test(reader, a_file_without_the_seals_is_refused, 0, CASES(seal_cases));
    tcase_add_test(reader, a_file_of_another_size_than_expected_is_refused_before_it_is_read);
    tcase_add_test(reader, a_file_that_was_cut_after_its_header_was_written_is_refused);
    tcase_add_test(reader, what_is_no_memfd_is_refused);
    tcase_add_test(reader, finish_accepts_what_was_never_made);
    suite_add_tcase(suite, writer);
    suite_add_tcase(suite, reader);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
