/* stderr is a pipe here, so that a test sees the lines, and can refuse to take them. */
#include "daemon/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "foundation/error.h"

#define THREADS 4
#define LINES_EACH 2000

static int reading_end;

static void redirect(void)
{
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
    reading_end = ends[0];
    log_set_level(LOG_LEVEL_INFO);
}

/* Everything up to the end; nobody may have the writing end any more. Caller frees. */
static char *read_all(void)
{
    char *text = NULL;
    size_t used = 0;
    ssize_t bytes;

    do {
        text = realloc(text, used + 65537);
        ck_assert_ptr_nonnull(text);
        bytes = read(reading_end, text + used, 65536);
        ck_assert_int_ge(bytes, 0);
        used += (size_t)bytes;
    } while (bytes > 0);
    text[used] = '\0';
    return text;
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;

    while ((text = strstr(text, part)) != NULL) {
        count++;
        text += strlen(part);
    }
    return count;
}

START_TEST(a_line_has_time_module_level_and_text)
{
    char *text;
    int year, month, day, hour, minute, second, micro, bytes = 0;

    ck_assert_int_eq(log_start(), EC_OK);
    log_info("events", "type %s has %d fields", "game.shot", 3);
    log_stop();
    close(STDERR_FILENO);
    text = read_all();
    ck_assert_int_eq(sscanf(text, "%d-%d-%dT%d:%d:%d.%6dZ %n", &year, &month, &day, &hour, &minute,
                            &second, &micro, &bytes),
                     7);
    ck_assert_str_eq(text + bytes, "[events][info] type game.shot has 3 fields\n");
    free(text);
}
END_TEST

START_TEST(before_the_start_and_after_the_stop_lines_go_out_at_once)
{
    char *text;

    log_warning("main", "before");
    ck_assert_int_eq(log_start(), EC_OK);
    log_warning("main", "between");
    log_stop();
    log_warning("main", "after");
    close(STDERR_FILENO);
    text = read_all();
    ck_assert_ptr_nonnull(strstr(strstr(strstr(text, "before\n"), "between\n"), "after\n"));
    free(text);
}
END_TEST

START_TEST(lines_below_the_level_are_not_written)
{
    char *text;

    ck_assert_int_eq(log_start(), EC_OK);
    log_debug("main", "one");
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("main", "two");
    log_set_level(LOG_LEVEL_ERROR);
    log_warning("main", "three");
    log_error("main", "four");
    log_stop();
    close(STDERR_FILENO);
    text = read_all();
    ck_assert_ptr_null(strstr(text, "one"));
    ck_assert_ptr_nonnull(strstr(text, "[main][debug] two\n"));
    ck_assert_ptr_null(strstr(text, "three"));
    ck_assert_ptr_nonnull(strstr(text, "[main][error] four\n"));
    free(text);
}
END_TEST

START_TEST(levels_have_names)
{
    enum log_level level;

    ck_assert(log_level_parse("trace", &level) && level == LOG_LEVEL_TRACE);
    ck_assert(log_level_parse("warning", &level) && level == LOG_LEVEL_WARNING);
    ck_assert(!log_level_parse("loud", &level));
    ck_assert(!log_level_parse("", &level));
}
END_TEST

START_TEST(a_text_cannot_forge_a_line)
{
    char *text;

    ck_assert_int_eq(log_start(), EC_OK);
    log_info("clients", "name %s", "a\n2025 [main][error] b\x1b[2J\x7f\xc3\xa9");
    log_stop();
    close(STDERR_FILENO);
    text = read_all();
    ck_assert_uint_eq(count_of(text, "\n"), 1);
    ck_assert_ptr_nonnull(strstr(text, "a\\x0a2025 [main][error] b\\x1b[2J\\x7f\xc3\xa9\n"));
    free(text);
}
END_TEST

START_TEST(a_long_text_is_cut)
{
    char *text, message[2000];

    memset(message, 'm', sizeof message);
    message[sizeof message - 1] = '\0';
    ck_assert_int_eq(log_start(), EC_OK);
    log_info("main", "%s", message);
    log_info("main", "next");
    log_stop();
    close(STDERR_FILENO);
    text = read_all();
    ck_assert_uint_lt(strlen(text), 700);
    ck_assert_ptr_nonnull(strstr(text, "m\n"));
    ck_assert_ptr_nonnull(strstr(text, "next\n"));
    free(text);
}
END_TEST

START_TEST(a_cut_never_falls_into_a_character)
{
    char *text, message[2000] = "";

    memset(message, 'm', (size_t)_i);
    for (size_t i = (size_t)_i; i + 4 < sizeof message; i += 3)
        memcpy(message + i, "\xe2\x82\xac", 4);
    log_info("main", "%s", message);
    close(STDERR_FILENO);
    text = read_all();
    ck_assert_msg(strcmp(text + strlen(text) - 4, "\xe2\x82\xac\n") == 0, "%s", text);
    free(text);
}
END_TEST

START_TEST(errno_is_left_alone)
{
    ck_assert_int_eq(log_start(), EC_OK);
    errno = ENOSPC;
    log_info("main", "x");
    ck_assert_int_eq(errno, ENOSPC);
    log_stop();
    log_info("main", "y");
    ck_assert_int_eq(errno, ENOSPC);
}
END_TEST

static void *write_lines(void *context)
{
    const int thread = (int)(intptr_t)context;

    for (int i = 0; i < LINES_EACH; i++)
        log_info("test", "thread %d line %d.", thread, i);
    return NULL;
}

static void *take_all(void *context)
{
    *(char **)context = read_all();
    return NULL;
}

START_TEST(lines_of_many_threads_are_written_whole_in_order_or_counted_as_lost)
{
    pthread_t writers[THREADS], reader;
    const uint64_t lost_before = log_lost();
    char *text = NULL, *line, *rest;
    int next[THREADS] = { 0 };
    uint64_t seen = 0, lost = 0;

    pthread_create(&reader, NULL, take_all, &text);
    ck_assert_int_eq(log_start(), EC_OK);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&writers[i], NULL, write_lines, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(writers[i], NULL);
    log_stop();
    close(STDERR_FILENO);
    pthread_join(reader, NULL);
    for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        const char *message = strchr(line, ' ') + 1;
        int thread, number, bytes = 0;
        unsigned long long some;

        if (sscanf(message, "[log][warning] %llu lines lost", &some) == 1) {
            lost += some;
            continue;
        }
        ck_assert_msg(
            sscanf(message, "[test][info] thread %d line %d.%n", &thread, &number, &bytes) == 2 &&
                message[bytes] == '\0',
            "%s", line);
        ck_assert_int_ge(number, next[thread]);
        next[thread] = number + 1;
        seen++;
    }
    ck_assert_uint_eq(lost, log_lost() - lost_before);
    ck_assert_uint_eq(seen + lost, THREADS * LINES_EACH);
    free(text);
}
END_TEST

START_TEST(a_reader_that_stands_still_loses_lines_and_blocks_nobody)
{
    const uint64_t lost_before = log_lost();

    /* Nobody reads: the pipe and the ring fill up. That this returns is the test. */
    ck_assert_int_gt(fcntl(STDERR_FILENO, F_SETPIPE_SZ, 4096), 0);
    ck_assert_int_eq(log_start(), EC_OK);
    for (unsigned i = 0; i < 10000; i++)
        log_info("test", "line %u with some text, so that the pipe is full soon", i);
    ck_assert_uint_gt(log_lost(), lost_before);
    log_stop();
}
END_TEST

START_TEST(a_module_may_have_its_own_level)
{
    ck_assert_int_eq(log_set_module_level("loud", LOG_LEVEL_DEBUG), EC_OK);
    ck_assert_int_eq(log_set_module_level("quiet", LOG_LEVEL_ERROR), EC_OK);
    ck_assert_int_eq(log_level_of("loud"), LOG_LEVEL_DEBUG);
    ck_assert_int_eq(log_level_of("other"), LOG_LEVEL_INFO);
    log_debug("loud", "first");
    log_debug("other", "second");
    log_warning("quiet", "third");
    log_error("quiet", "fourth");
    log_clear_module_levels();
    log_debug("loud", "fifth");
    log_warning("quiet", "sixth");
    close(STDERR_FILENO);
    char *text = read_all();

    ck_assert_msg(count_of(text, "first") == 1 && count_of(text, "second") == 0 &&
                      count_of(text, "third") == 0 && count_of(text, "fourth") == 1 &&
                      count_of(text, "fifth") == 0 && count_of(text, "sixth") == 1,
                  "%s", text);
    free(text);
}
END_TEST

START_TEST(more_modules_than_there_is_room_for_are_refused)
{
    char name[24];
    int rc = EC_OK;

    for (int i = 0; i < 100 && rc == EC_OK; i++) {
        snprintf(name, sizeof name, "module%d", i);
        rc = log_set_module_level(name, LOG_LEVEL_ERROR);
    }
    ck_assert_int_eq(rc, EC_ERR_LIMIT);
    ck_assert_str_eq(log_module_at(0), "module0");
    ck_assert_int_eq(log_level_of("module0"), LOG_LEVEL_ERROR);
}
END_TEST

static void count_tap(void *context)
{
    ++*(unsigned *)context;
}

START_TEST(the_last_lines_can_be_read_later)
{
    struct log_line lines[8];
    unsigned taps = 0;
    uint64_t sequence = 0;

    log_set_tap(count_tap, &taps);
    for (int i = 0; i < 300; i++)
        log_info("main", "line %d", i);
    log_set_tap(NULL, NULL);
    ck_assert_uint_eq(taps, 300);
    ck_assert_uint_eq(log_read(&sequence, lines, 8), 8); /* of 256 that are kept */
    ck_assert_uint_eq(lines[0].sequence, 45);
    ck_assert_str_eq(lines[0].text, "line 44");
    ck_assert_str_eq(lines[0].module, "main");
    ck_assert_uint_eq(sequence, 52);
    sequence = 299;
    ck_assert_uint_eq(log_read(&sequence, lines, 8), 1);
    ck_assert_str_eq(lines[0].text, "line 299");
    ck_assert_uint_eq(log_read(&sequence, lines, 8), 0);
    ck_assert_uint_eq(sequence, 300);
}
END_TEST

START_TEST(the_raw_log_needs_nothing)
{
    log_raw("raw\n");
    close(STDERR_FILENO);
    char *text = read_all();

    ck_assert_str_eq(text, "raw\n");
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tcase = tcase_create("log");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, redirect, NULL);
    tcase_add_test(tcase, a_line_has_time_module_level_and_text);
    tcase_add_test(tcase, before_the_start_and_after_the_stop_lines_go_out_at_once);
    tcase_add_test(tcase, lines_below_the_level_are_not_written);
    tcase_add_test(tcase, levels_have_names);
    tcase_add_test(tcase, a_text_cannot_forge_a_line);
    tcase_add_test(tcase, a_long_text_is_cut);
    tcase_add_loop_test(tcase, a_cut_never_falls_into_a_character, 0, 3);
    tcase_add_test(tcase, errno_is_left_alone);
    tcase_add_test(tcase, lines_of_many_threads_are_written_whole_in_order_or_counted_as_lost);
    tcase_add_test(tcase, a_reader_that_stands_still_loses_lines_and_blocks_nobody);
    tcase_add_test(tcase, a_module_may_have_its_own_level);
    tcase_add_test(tcase, more_modules_than_there_is_room_for_are_refused);
    tcase_add_test(tcase, the_last_lines_can_be_read_later);
    tcase_add_test(tcase, the_raw_log_needs_nothing);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
