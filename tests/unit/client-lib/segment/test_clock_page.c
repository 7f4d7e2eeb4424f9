/* test_clock_page.c - the latch: no writer, stopped or hurried, takes the snapshot from a reader. */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "segment/clock_page.h"

static struct ec_clock_page *page; /* shared with children */

static void set_up(void)
{
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
}

static void tear_down(void)
{
    munmap(page, sizeof *page);
}

/* A snapshot of which every word says the same number. */
static struct ec_clock_snapshot snapshot_of(uint64_t number)
{
    struct ec_clock_snapshot snapshot;

    for (size_t i = 0; i < sizeof snapshot / sizeof number; i++)
        memcpy((unsigned char *)&snapshot + i * sizeof number, &number, sizeof number);
    return snapshot;
}

/* The number that all bytes of an object say, or UINT64_MAX when they disagree. */
static uint64_t number_in(const void *object, size_t bytes)
{
    uint64_t first, word;

    memcpy(&first, object, sizeof first);
    for (size_t i = 0; i < bytes; i += sizeof word) {
        memcpy(&word, (const unsigned char *)object + i, sizeof word);
        if (word != first)
            return UINT64_MAX;
    }
    return first;
}

/* Read step clock i; UINT64_MAX when what was read is in pieces. */
static int read_number(uint32_t i, uint64_t *number)
{
    struct ec_clock_view view;
    int rc = ec_clock_read_view(page, i, &view);

    *number = number_in(&view, sizeof view);
    return rc;
}

START_TEST(what_was_written_is_read)
{
    struct ec_clock_snapshot snapshot = snapshot_of(7);
    struct ec_game_snapshot game;
    uint64_t number;

    ec_clock_page_write(page, &snapshot);
    for (uint32_t i = 0; i < EC_STEP_CLOCKS_MAX; i++) {
        ck_assert_int_eq(read_number(i, &number), EC_OK);
        ck_assert_uint_eq(number, 7);
    }
    ck_assert_int_eq(ec_clock_read_game(page, 0, &game), EC_OK);
    ck_assert_uint_eq(number_in(&game, sizeof game), 7);
    ck_assert_uint_eq(atomic_load(&page->latch), 2);
}
END_TEST

/* Let the child make one instruction. false when it has ended. */
static bool child_step(pid_t child)
{
    int status;

    ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

/* A child that writes snapshot 2 over snapshot 1, stopped just before. */
static pid_t start_writer(void)
{
    struct ec_clock_snapshot snapshot = snapshot_of(2);
    int status;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(1);
        raise(SIGSTOP);
        ec_clock_page_write(page, &snapshot);
        raise(SIGSTOP);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSTOPPED(status), "ptrace: the child may not be traced");
    return child;
}

/* Stops the writer after every instruction, so after every store, too. Whatever it leaves behind,
 * a reader gets a whole snapshot at the first try, and never the old one after the new one. */
START_TEST(a_writer_that_stops_anywhere_leaves_a_whole_snapshot)
{
    struct ec_clock_snapshot old = snapshot_of(1);
    uint64_t number, before = 1;
    unsigned latches = 1, wrong = 0;
    uint32_t latch;
    pid_t child;

    ec_clock_page_write(page, &old);
    latch = atomic_load(&page->latch);
    child = start_writer();
    while (child_step(child)) {
        latches += atomic_load(&page->latch) != latch;
        latch = atomic_load(&page->latch);
        for (uint32_t i = 0; i < EC_STEP_CLOCKS_MAX; i += EC_STEP_CLOCKS_MAX - 1) {
            wrong += read_number(i, &number) != EC_OK;
            wrong += number < before || number > 2;
            before = number;
        }
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(before, 2);
    ck_assert_uint_eq(latches, 3); /* old, odd, even: the loop saw the writer at work */
}
END_TEST

START_TEST(a_writer_that_follows_a_killed_one_completes_the_page)
{
    struct ec_clock_snapshot snapshot = snapshot_of(1);
    uint64_t number;
    pid_t child;

    ec_clock_page_write(page, &snapshot);
    child = start_writer();
    while ((atomic_load(&page->latch) & 1) == 0)
        ck_assert(child_step(child));
    for (int i = 0; i < 20; i++) /* into the stores of the first copy */
        ck_assert(child_step(child));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ck_assert_int_eq(read_number(0, &number), EC_OK);
    ck_assert_uint_eq(number, 1);
    snapshot = snapshot_of(3);
    ec_clock_page_write(page, &snapshot);
    ck_assert_uint_eq(atomic_load(&page->latch) & 1, 0);
    for (uint32_t i = 0; i < EC_STEP_CLOCKS_MAX; i++) {
        ck_assert_int_eq(read_number(i, &number), EC_OK);
        ck_assert_uint_eq(number, 3);
    }
}
END_TEST

#define WRITES 20000

static _Atomic uint64_t reads;
static _Atomic bool writer_done;

/* At least WRITES, and until something was read between two of them. */
static void *write_many(void *context)
{
    uint64_t number = 2;

    for (; number < WRITES || atomic_load(&reads) == 0; number++) {
        struct ec_clock_snapshot snapshot = snapshot_of(number);

        ec_clock_page_write(page, &snapshot);
    }
    *(uint64_t *)context = number - 1;
    atomic_store(&writer_done, true);
    return NULL;
}

START_TEST(readers_see_no_piece_of_a_snapshot_and_never_an_older_one)
{
    struct ec_clock_snapshot snapshot = snapshot_of(1);
    uint64_t number = 1, before = 1, wrong = 0, last = 0;
    pthread_t writer;

    ec_clock_page_write(page, &snapshot);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_many, &last), 0);
    for (uint32_t i = 0; !atomic_load(&writer_done); i = (i + 1) % EC_STEP_CLOCKS_MAX) {
        if (read_number(i, &number) != EC_OK)
            continue; /* stale: the writer was too fast, which is an answer, too */
        wrong += number < before || number == UINT64_MAX;
        before = number;
        atomic_fetch_add(&reads, 1);
    }
    pthread_join(writer, NULL);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_int_eq(read_number(0, &number), EC_OK);
    ck_assert_uint_eq(number, last);
}
END_TEST

#define READERS 4
#define CHANGES 10000 /* a thousand a second, for ten seconds */

struct tally {
    _Atomic uint64_t reads, torn, older;
    _Atomic bool stop;
};

/* Read all the time until told to stop. as_pieces: without the latch, to prove that the test would see. */
static void read_all_the_time(struct tally *tally, bool as_pieces)
{
    uint64_t before = 0, number;

    while (!atomic_load(&tally->stop)) {
        if (as_pieces) {
            struct ec_clock_view view;

            ec_clock_game_load(&view.game, &page->game_copy[0]);
            ec_clock_game_load(&view.next, &page->game_next[0]);
            ec_clock_words_load(&view.step, &page->step_copy[0][15], sizeof view.step);
            number = number_in(&view, sizeof view);
        } else if (read_number(15, &number) != EC_OK) {
            continue;
        }
        atomic_fetch_add(&tally->reads, 1);
        atomic_fetch_add(&tally->torn, number == UINT64_MAX);
        atomic_fetch_add(&tally->older, number < before);
        before = number;
    }
    _exit(0);
}

static void change_a_thousand_times_a_second(struct tally *tally, bool until_torn)
{
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (uint64_t i = 2; i < CHANGES + 2; i++) {
        struct ec_clock_snapshot snapshot = snapshot_of(i);

        ec_clock_page_write(page, &snapshot);
        if (until_torn) {
            if (atomic_load(&tally->torn) > 0)
                return;
            i = i == CHANGES ? 2 : i; /* as long as it takes, and as fast as it can */
            continue;
        }
        next.tv_nsec += 1000000;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
            ;
    }
}

/* Four processes read while a thousand changes a second are written: loop 0. Loop 1 proves that a torn
 * read would be seen: its readers leave the latch out. */
START_TEST(four_processes_read_no_pieces_while_the_scale_changes_a_thousand_times_a_second)
{
    struct ec_clock_snapshot snapshot = snapshot_of(1);
    struct tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t readers[READERS];

    ck_assert_ptr_ne(tally, MAP_FAILED);
    ec_clock_page_write(page, &snapshot);
    for (int i = 0; i < READERS; i++) {
        readers[i] = fork();
        ck_assert_int_ge(readers[i], 0);
        if (readers[i] == 0)
            read_all_the_time(tally, _i == 1);
    }
    change_a_thousand_times_a_second(tally, _i == 1);
    atomic_store(&tally->stop, true);
    for (int i = 0; i < READERS; i++)
        waitpid(readers[i], NULL, 0);
    ck_assert_uint_gt(atomic_load(&tally->reads), 0);
    if (_i == 1) {
        ck_assert_uint_gt(atomic_load(&tally->torn), 0);
    } else {
        ck_assert_uint_eq(atomic_load(&tally->torn), 0);
        ck_assert_uint_eq(atomic_load(&tally->older), 0);
    }
    munmap(tally, sizeof *tally);
}
END_TEST

/* The check that the test above relies on would see a torn snapshot. */
START_TEST(a_torn_snapshot_would_be_noticed)
{
    struct ec_clock_snapshot snapshot = snapshot_of(1);

    snapshot.game.epoch = 2;
    ck_assert_uint_eq(number_in(&snapshot.game, sizeof snapshot.game), UINT64_MAX);
}
END_TEST

/* A reader gives up: it is bounded even when the latch never holds still. The latch turns after each
 * instruction of the reader. */
START_TEST(a_reader_gives_up_when_the_latch_never_holds)
{
    struct ec_game_snapshot game;
    int status;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(1);
        raise(SIGSTOP);
        _exit(ec_clock_read_game(page, 0, &game) == EC_AGAIN ? 42 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSTOPPED(status), "ptrace: the child may not be traced");
    do {
        atomic_fetch_add(&page->latch, 1);
        ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
    } while (WIFSTOPPED(status));
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 42);
}
END_TEST

START_TEST(a_published_step_changes_the_word_that_sleepers_look_at)
{
    struct ec_step_word *word = &page->step[3];
    uint32_t change = ec_step_word_change(word);

    ec_step_word_publish(word,
                         &(struct ec_step_news) { .step = 5, .due_ns = 50, .next_due_ns = 60 });
    ck_assert_uint_eq(ec_step_word_change(word), change + 1);
    ck_assert_uint_eq(atomic_load(&word->step), 5);
    ck_assert_int_eq(atomic_load(&word->due_ns), 50);
    ck_assert_int_eq(atomic_load(&word->next_due_ns), 60);
    ec_step_word_touch(word);
    ck_assert_uint_eq(ec_step_word_change(word), change + 2);
    ck_assert_uint_eq(atomic_load(&word->step), 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock_page");
    TCase *tests = tcase_create("latch");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_was_written_is_read);
    tcase_add_test(tests, a_writer_that_stops_anywhere_leaves_a_whole_snapshot);
    tcase_add_test(tests, a_writer_that_follows_a_killed_one_completes_the_page);
    tcase_add_test(tests, readers_see_no_piece_of_a_snapshot_and_never_an_older_one);
    tcase_add_loop_test(
        tests, four_processes_read_no_pieces_while_the_scale_changes_a_thousand_times_a_second, 0,
        2);
    tcase_add_test(tests, a_torn_snapshot_would_be_noticed);
    tcase_add_test(tests, a_reader_gives_up_when_the_latch_never_holds);
    tcase_add_test(tests, a_published_step_changes_the_word_that_sleepers_look_at);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
