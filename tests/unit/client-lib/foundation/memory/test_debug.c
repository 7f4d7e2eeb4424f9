/* The debug allocator promises: every fault is found, told in words with all that is known, and ends the
 * program or does not, as it was asked for. */
#include "foundation/memory/debug.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "foundation/memory/arena.h"
#include "foundation/memory/debug_text.h"
#include "foundation/memory/frame_list.h"
#include "foundation/memory/heap.h"
#include "foundation/memory/pool.h"
#include "support/memory_rows.h"
#include "support/often.h"

static struct memory_rows *rows;
static struct ec_debug *debug;

static void make(struct ec_debug_desc desc)
{
    struct ec_error why = { 0 };

    desc.name = "checked";
    desc.tag = EC_TAG_AI;
    ck_assert_msg(ec_debug_create_in(&rows->sink, &desc, &debug, &why) == EC_OK, "%s", why.text);
}

static void setup(void)
{
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

/* ---- each fault, on purpose, in a child that has to end by SIGABRT ------------------------------ */

static char *block_of(size_t bytes)
{
    return ec_debug_alloc_at(debug, bytes, 0, "made.c", 10);
}

static void poke(char *at, char value)
{
    *(volatile char *)at = value;
}

static void double_free(void)
{
    char *block = block_of(48);

    ec_debug_free_at(debug, block, "freed.c", 20);
    ec_debug_free_at(debug, block, "again.c", 30);
}

static void foreign_pointer(void)
{
    ec_debug_free_at(debug, (void *)(uintptr_t)0x1230, "freed.c", 20);
}

static void pointer_into_a_block(void)
{
    ec_debug_free_at(debug, block_of(48) + 16, "freed.c", 20);
}

static void write_in_front(void)
{
    char *block = block_of(48);

    poke(block - 3, 1);
    ec_debug_free_at(debug, block, "freed.c", 20);
}

static void write_behind(void)
{
    char *block = block_of(48);

    poke(block + 48, 1);
    ec_debug_free_at(debug, block, "freed.c", 20);
}

static void write_behind_with_the_guards_own_byte(void)
{
    char *block = block_of(48);

    memset(block + 40, 0xFD, 24);
    ec_debug_free_at(debug, block, "freed.c", 20);
}

static void write_behind_found_by_patrol(void)
{
    char *block = block_of(48);

    poke(block + 48 + 5, 1);
    ec_frame_list_begin(&rows->sink);
}

static void write_after_free(void)
{
    char *block = block_of(48);

    ec_debug_free_at(debug, block, "freed.c", 20);
    poke(block + 7, 1);
    ec_frame_list_begin(&rows->sink);
}

static void write_after_free_found_at_the_end_of_quarantine(void)
{
    char *block = block_of(48);

    ec_debug_free_at(debug, block, "freed.c", 20);
    poke(block, 1);
    ec_debug_free_at(debug, block_of(2000), "other.c", 40);
}

static void wrong_size(void)
{
    ec_debug_free_sized_at(debug, block_of(48), 56, "freed.c", 20);
}

static void wrong_size_by_a_container(void)
{
    const struct ec_allocator from = ec_debug_allocator(debug);

    ec_allocator_free(&from, block_of(48), 40);
}

static void array_as_a_block(void)
{
    ec_debug_free_at(debug, ec_debug_alloc_array_at(debug, 6, 8, 0, "made.c", 10), "freed.c", 20);
}

static void block_as_an_array(void)
{
    ec_debug_free_array_at(debug, block_of(48), "freed.c", 20);
}

static void resize_of_a_freed_block(void)
{
    char *block = block_of(48);

    ec_debug_free_at(debug, block, "freed.c", 20);
    block = ec_debug_resize_at(debug, block, 100, "again.c", 30);
    ck_assert_ptr_null(block);
}

static void write_in_front_seen_at_the_end(void)
{
    poke(block_of(48) - 1, 0);
    ec_debug_destroy(debug);
}

#define MADE "\n  allocated by thread %d at made.c:10\n"
#define FREED "\n  freed by thread %d at freed.c:20\n"

static const struct {
    void (*run)(void);
    const char *first;     /* of the message; %d: the thread, %p: an address */
    bool allocated, freed; /* whether it tells these, with a call stack */
} faults[] = {
    { double_free,
      "double free of block %p (48 bytes, allocation 1), found by thread %d at again.c:30\n", true,
      true },
    { foreign_pointer, "foreign pointer 0x1230, found by thread %d at freed.c:20\n", false, false },
    { pointer_into_a_block, "foreign pointer %p, found by thread %d at freed.c:20\n", false,
      false },
    { write_in_front,
      "front guard overwritten 3 bytes in front of block %p (48 bytes, allocation 1), found by "
      "thread %d at freed.c:20\n",
      true, false },
    { write_behind,
      "back guard overwritten 0 bytes behind the end of block %p (48 bytes, allocation 1), found by "
      "thread %d at freed.c:20\n",
      true, false },
    { write_behind_with_the_guards_own_byte,
      "back guard overwritten 8 bytes behind the end of block %p (48 bytes, allocation 1), found by "
      "thread %d at freed.c:20\n",
      true, false },
    { write_behind_found_by_patrol,
      "back guard overwritten 5 bytes behind the end of block %p (48 bytes, allocation 1), found by "
      "thread %d\n",
      true, false },
    { write_after_free,
      "write after free at offset 7 of block %p (48 bytes, allocation 1), found by thread %d\n",
      true, true },
    { write_after_free_found_at_the_end_of_quarantine,
      "write after free at offset 0 of block %p (48 bytes, allocation 1), found by thread %d at "
      "other.c:40\n",
      true, true },
    { wrong_size,
      "size mismatch (freed as 56 bytes) of block %p (48 bytes, allocation 1), found by thread %d "
      "at freed.c:20\n",
      true, false },
    { wrong_size_by_a_container,
      "size mismatch (freed as 40 bytes) of block %p (48 bytes, allocation 1), found by thread %d\n",
      true, false },
    { array_as_a_block,
      "array mismatch (an array, freed as one block) of block %p (48 bytes, allocation 1), found by "
      "thread %d at freed.c:20\n",
      true, false },
    { block_as_an_array,
      "array mismatch (one block, freed as an array) of block %p (48 bytes, allocation 1), found by "
      "thread %d at freed.c:20\n",
      true, false },
    { resize_of_a_freed_block,
      "double free of block %p (48 bytes, allocation 1), found by thread %d at again.c:30\n", true,
      true },
    { write_in_front_seen_at_the_end,
      "front guard overwritten 1 bytes in front of block %p (48 bytes, allocation 1), found by "
      "thread %d\n",
      true, false },
};

#define FAULTS (sizeof faults / sizeof faults[0])

/* Whether the text begins like the pattern; %p is any address. Ends the test when it does not. */
static void assert_begins(const char *text, const char *pattern, int thread)
{
    const char *at = text;
    char number[20];

    snprintf(number, sizeof number, "%d", thread);
    for (; *pattern != '\0'; pattern++) {
        if (strncmp(pattern, "%d", 2) == 0 && strncmp(at, number, strlen(number)) == 0) {
            at += strlen(number);
            pattern++;
        } else if (strncmp(pattern, "%p", 2) == 0 && strncmp(at, "0x", 2) == 0) {
            at += strspn(at, "0123456789abcdefx");
            pattern++;
        } else if (*at++ != *pattern) {
            ck_abort_msg("expected \"%s\" in \"%s\"", pattern, text);
        }
    }
}

static void assert_tells(const char *text, const char *pattern, int thread)
{
    char line[100];
    const char *at;

    snprintf(line, sizeof line, pattern, thread);
    at = strstr(text, line);
    ck_assert_msg(at != NULL, "expected \"%s\" in \"%s\"", line, text);
    /* then come the frames, the first in this program */
    ck_assert_msg(
        strncmp(at + strlen(line), "    unit-client-lib-foundation-memory-debug+0x", 46) == 0,
        "no frames in \"%s\"", text);
}

START_TEST(a_fault_is_told_in_words_and_aborts)
{
    char text[16384];
    size_t length = 0;
    ssize_t count;
    int ends[2], status;
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        signal(SIGABRT, SIG_DFL);
        make((struct ec_debug_desc) {
            .quarantine_bytes = 1000, .patrol_permille = 1000, .abort_on_fault = true });
        faults[_i].run();
        _exit(3); /* it was not found */
    }
    close(ends[1]);
    while (length < sizeof text - 1 &&
           (count = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)count;
    text[length] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %d: %s", status,
                  text);
    assert_begins(text, "engine-core: memory \"checked\": ", child);
    assert_begins(strstr(text, "checked\": ") + 10, faults[_i].first, child);
    if (faults[_i].allocated)
        assert_tells(text, MADE, child);
    if (faults[_i].freed)
        assert_tells(text, FREED, child);
    else
        ck_assert_ptr_null(strstr(text, "\n  freed by"));
}
END_TEST

/* ---- without abort the program goes on ---------------------------------------------------------- */

static struct {
    int count;
    enum ec_fault_kind kind;
    ptrdiff_t offset;
    int freed_by, allocated_by;
} told;

static void on_fault(void *context, const struct ec_debug_fault *fault)
{
    ck_assert_ptr_eq(context, &told);
    told.count++;
    told.kind = fault->kind;
    told.offset = fault->offset;
    if (fault->block != NULL) {
        told.allocated_by = fault->block->allocated.thread;
        told.freed_by = fault->block->freed.thread;
    }
}

static void make_talking(size_t quarantine_bytes)
{
    told.count = 0;
    make((struct ec_debug_desc) {
        .on_fault = on_fault, .context = &told, .quarantine_bytes = quarantine_bytes });
}

START_TEST(every_fault_is_counted_once_and_the_program_goes_on)
{
    char *block;

    make_talking(0);
    block = ec_debug_alloc(debug, 100, 0);
    block[100] = 1;
    ck_assert_int_eq(ec_debug_check(debug, block), EC_ERR_STATE);
    ck_assert_int_eq(told.count, 1);
    ck_assert_int_eq(told.kind, EC_FAULT_BACK_GUARD);
    ck_assert_int_eq((int)told.offset, 100);
    ck_assert_uint_eq(ec_debug_check_all(debug), 0); /* it was told */
    ck_assert_int_eq(ec_debug_free(debug, block), EC_ERR_STATE);
    ck_assert_int_eq(told.count, 2);
    ck_assert_uint_eq(ec_debug_check_all(debug), 0);
    ck_assert_int_eq(ec_debug_free(debug, block), EC_ERR_STATE);
    ck_assert_int_eq(told.kind, EC_FAULT_DOUBLE_FREE);
    ck_assert_int_eq(ec_debug_check(debug, block), EC_ERR_STATE);
    ck_assert_int_eq(ec_debug_check(debug, &told), EC_ERR_STATE);
    ck_assert_uint_eq(ec_debug_faults(debug), 5);
    ck_assert_int_eq(ec_debug_free(debug, NULL), EC_OK);
    ec_debug_destroy(debug);
}
END_TEST

static void *free_it(void *block)
{
    told.freed_by = gettid();
    ck_assert_int_eq(ec_debug_free(debug, block), EC_OK);
    return NULL;
}

START_TEST(a_fault_names_both_threads)
{
    char *block;
    pthread_t thread;
    int other;

    make_talking(0);
    block = ec_debug_alloc(debug, 10, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, free_it, block), 0);
    pthread_join(thread, NULL);
    other = told.freed_by;
    ck_assert_int_eq(ec_debug_free(debug, block), EC_ERR_STATE);
    ck_assert_int_eq(told.allocated_by, gettid());
    ck_assert_int_eq(told.freed_by, other);
    ck_assert_int_ne(other, gettid());
    ec_debug_destroy(debug);
}
END_TEST

START_TEST(new_and_freed_blocks_are_filled)
{
    unsigned char *block;

    make_talking(0);
    block = ec_debug_alloc(debug, 64, 0);
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(block[i], 0xCD);
    ck_assert_int_eq(ec_debug_free(debug, block), EC_OK);
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(block[i], 0xDD);
    ec_debug_destroy(debug);
}
END_TEST

START_TEST(bad_requests_and_descriptions_are_refused)
{
    volatile size_t huge = SIZE_MAX;
    struct ec_error why = { 0 };
    struct ec_memory_stats stats;
    struct ec_debug *none;

    ck_assert_int_eq(ec_debug_create_in(NULL,
                                        &(struct ec_debug_desc) { .name = "d", .stack_depth = 33 },
                                        &none, &why),
                     EC_ERR_PARAM);
    ck_assert_str_eq(why.text, "debug \"d\": stack_depth is 33, expected 1..32");
    ck_assert_int_eq(
        ec_debug_create_in(NULL, &(struct ec_debug_desc) { .name = "d", .patrol_permille = 1001 },
                           &none, &why),
        EC_ERR_PARAM);
    ck_assert_ptr_null(none);
    make_talking(0);
    ck_assert_ptr_null(ec_debug_alloc(debug, huge + 1, 0));
    ck_assert_ptr_null(ec_debug_alloc(debug, huge, 0));
    ck_assert_ptr_null(ec_debug_alloc(debug, 16, 24));
    ck_assert_ptr_null(ec_debug_alloc(debug, 16, 8192));
    ck_assert_ptr_null(ec_debug_alloc_array(debug, huge / 4, 8, 0));
    ec_debug_stats(debug, &stats);
    ck_assert_uint_eq(stats.failed, 5);
    ck_assert_int_eq(told.count, 0);
    ec_debug_destroy(debug);
}
END_TEST

/* One percent at each frame: after a hundred frames each block was seen. */
START_TEST(the_patrol_comes_by_each_block)
{
    enum { BLOCKS = 1000 };
    static char *blocks[BLOCKS];
    int frames = 0;

    make_talking(0);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = ec_debug_alloc(debug, 32, 0);
    ck_assert_uint_eq(ec_debug_patrol(debug), 10);
    blocks[5][32] = 1; /* it just came by */
    while (told.count == 0 && frames < 200) {
        ec_frame_list_begin(&rows->sink);
        frames++;
    }
    ck_assert_int_eq(told.count, 1);
    ck_assert_int_eq(frames, 100);
    for (int i = 0; i < BLOCKS; i += 2) /* also the one that it would look at next */
        ec_debug_free(debug, blocks[i]);
    for (int i = 0; i < 100; i++)
        ec_frame_list_begin(&rows->sink);
    ck_assert_int_eq(told.count, 1);
    ec_debug_destroy(debug);
}
END_TEST

static int add_serial(void *context, const struct ec_debug_block *block)
{
    *(uint64_t *)context = *(uint64_t *)context * 10 + block->serial;
    return 0;
}

START_TEST(the_live_list_is_in_order_and_can_be_filtered)
{
    const int fd = memfd_create("live", MFD_CLOEXEC);
    char text[4096];
    uint64_t serials = 0;
    ssize_t count;
    void *second;

    ck_assert_int_ge(fd, 0);
    make((struct ec_debug_desc) { .stack_depth = 2 });
    ck_assert_ptr_nonnull(ec_debug_alloc_at(debug, 10, 0, "src/ai/path.c", 7));
    second = ec_debug_alloc_at(debug, 20, 0, "src/ai/path.c", 8);
    ck_assert_ptr_nonnull(ec_debug_alloc_at(debug, 30, 0, "src/ui/label.c", 9));
    ck_assert_int_eq(ec_debug_free(debug, second), EC_OK);
    ck_assert_int_eq(ec_debug_visit(debug, add_serial, &serials), 0);
    ck_assert_uint_eq(serials, 13);
    ck_assert_uint_eq(ec_debug_write_live(debug, fd, 10, "/ui/"), 1);
    ck_assert_uint_eq(ec_debug_write_live(debug, fd, 0, "memory-debug"), 2); /* this program */
    ck_assert_uint_eq(ec_debug_write_live(debug, fd, 0, "no such module"), 0);
    count = pread(fd, text, sizeof text - 1, 0);
    ck_assert_int_gt(count, 0);
    text[count] = '\0';
    ck_assert_ptr_nonnull(strstr(text, ": 30 bytes, allocation 3, by thread "));
    ck_assert_ptr_nonnull(strstr(text, " at src/ui/label.c:9\n"));
    ck_assert_ptr_nonnull(strstr(text, "checked: 1 blocks, 30 bytes are live\n"));
    ck_assert_ptr_nonnull(strstr(text, "checked: 2 blocks, 40 bytes are live\n"));
    ck_assert_ptr_null(strstr(text, "path.c"));
    close(fd);
    ec_debug_destroy(debug);
}
END_TEST

/* Over several allocators, against a list; everything goes back to the one underneath. */
START_TEST(it_agrees_with_a_list_whatever_is_underneath)
{
    enum { LIVE = 100 };
    struct {
        unsigned char *block;
        size_t bytes, align;
        bool array;
    } list[LIVE] = { 0 };
    struct ec_memory_stats stats;
    struct ec_heap *heap;
    struct ec_pool *pool;
    struct ec_allocator under;
    uint64_t live = 0;

    ck_assert_int_eq(ec_heap_create_in(NULL, &(struct ec_heap_desc) { .name = "h" }, &heap, NULL),
                     EC_OK);
    ck_assert_int_eq(ec_pool_create_in(
                         NULL,
                         &(struct ec_pool_desc) { .name = "p", .block_bytes = 8192, .align = 4096 },
                         &pool, NULL),
                     EC_OK);
    under = _i == 0 ? ec_heap_allocator(heap, 1) : ec_pool_allocator(pool);
    srand(3);
    make((struct ec_debug_desc) {
        .under = under, .on_fault = on_fault, .context = &told, .quarantine_bytes = 5000 });
    for (int round = 0; round < 5000; round++) {
        const int i = rand() % LIVE;
        const size_t bytes = (size_t)(rand() % 1500) + 1;

        if (list[i].block == NULL) {
            list[i].align = (size_t)1 << rand() % 13;
            list[i].array = rand() % 2 == 0;
            list[i].block = list[i].array ? ec_debug_alloc_array(debug, bytes, 1, list[i].align)
                                          : ec_debug_alloc(debug, bytes, list[i].align);
            live++;
        } else if (rand() % 3 == 0) {
            list[i].block = ec_debug_resize(debug, list[i].block, bytes);
        } else {
            for (size_t b = 0; b < list[i].bytes; b++)
                ASSERT_OFTEN(list[i].block[b] == (unsigned char)i);
            ASSERT_OFTEN((list[i].array ? ec_debug_free_array(debug, list[i].block)
                                        : ec_debug_free(debug, list[i].block)) == EC_OK);
            list[i].block = NULL;
            live--;
            continue;
        }
        ASSERT_OFTEN(list[i].block != NULL && (uintptr_t)list[i].block % list[i].align == 0);
        memset(list[i].block, i, bytes);
        list[i].bytes = bytes;
        if (round % 50 == 0)
            ASSERT_OFTEN(ec_debug_check_all(debug) == 0);
    }
    ec_debug_stats(debug, &stats);
    ck_assert_uint_eq(stats.count, live);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).count, live);
    ck_assert_uint_eq(ec_debug_faults(debug), 0);
    ec_debug_destroy(debug);
    ec_heap_stats(heap, &stats);
    ck_assert_uint_eq(stats.count, 0);
    ec_pool_stats(pool, &stats);
    ck_assert_uint_eq(stats.count, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).bytes, 0);
    ec_heap_destroy(heap);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(a_container_can_be_checked)
{
    const struct ec_allocator from = (make_talking(0), ec_debug_allocator(debug));
    char *block = ec_allocator_alloc(&from, 100, 64);

    ck_assert_uint_eq((uintptr_t)block % 64, 0);
    memset(block, 7, 100);
    block = ec_allocator_resize(&from, block, 100, 200, 64);
    ck_assert_int_eq(block[99], 7);
    ck_assert_int_eq(ec_allocator_free(&from, block, 200), EC_OK);
    ck_assert_uint_eq(ec_debug_faults(debug), 0);
    ec_debug_destroy(debug);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("debug");
    TCase *tcase = tcase_create("debug");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_fault_is_told_in_words_and_aborts, 0, FAULTS);
    tcase_add_test(tcase, every_fault_is_counted_once_and_the_program_goes_on);
    tcase_add_test(tcase, a_fault_names_both_threads);
    tcase_add_test(tcase, new_and_freed_blocks_are_filled);
    tcase_add_test(tcase, bad_requests_and_descriptions_are_refused);
    tcase_add_test(tcase, the_patrol_comes_by_each_block);
    tcase_add_test(tcase, the_live_list_is_in_order_and_can_be_filtered);
    tcase_add_loop_test(tcase, it_agrees_with_a_list_whatever_is_underneath, 0, 2);
    tcase_add_test(tcase, a_container_can_be_checked);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
