/* engine-ctl on a terminal: what top and status --watch draw, how they follow its size, and how they leave it.
 *
 * The test has the other end of the terminal and is the emulator: it keeps what would be seen, and fails
 * when something would be drawn outside, or is not understood. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "support/daemon.h"

#define ROWS_MAX 64
#define COLUMNS_MAX 256
#define CONTROL_C "\003"

static struct daemon_process engine;

static struct terminal {
    int master, slave; /* our slave end keeps the settings that are compared at last */
    pid_t pid;
    int pidfd;
    struct termios before;
    unsigned rows, columns;
    unsigned row, column;             /* of the cursor */
    unsigned row_saved, column_saved; /* while the other screen is shown */
    char seen[ROWS_MAX][COLUMNS_MAX + 1];
    bool is_other_screen, has_cursor, has_colours;
    unsigned draws;    /* how often the cursor went up to draw again */
    bool is_whole;     /* the last row has been drawn since, and none was too wide */
    bool has_wrapped;  /* one was */
    char sequence[32]; /* what has come of one that is not complete */
    size_t sequence_bytes;
} terminal;

/* ---- the emulator ---------------------------------------------------------------------------- */

static void erase_from(unsigned row, unsigned column)
{
    for (unsigned i = column; i < terminal.columns; i++)
        terminal.seen[row][i] = ' ';
}

static void erase_all(void)
{
    for (unsigned row = 0; row < ROWS_MAX; row++) {
        memset(terminal.seen[row], ' ', COLUMNS_MAX);
        terminal.seen[row][COLUMNS_MAX] = '\0';
    }
}

static void begin_draw(void)
{
    terminal.draws++;
    terminal.is_whole = terminal.has_wrapped = false;
}

static void carry_out(const char *sequence)
{
    const char last = sequence[strlen(sequence) - 1];

    if (strcmp(sequence, "[?1049h") == 0 || strcmp(sequence, "[?1049l") == 0) {
        terminal.is_other_screen = last == 'h';
        if (terminal.is_other_screen) {
            terminal.row_saved = terminal.row;
            terminal.column_saved = terminal.column;
        } else {
            terminal.row = terminal.row_saved;
            terminal.column = terminal.column_saved;
            erase_all();
        }
    } else if (strcmp(sequence, "[?25h") == 0 || strcmp(sequence, "[?25l") == 0) {
        terminal.has_cursor = last == 'h';
    } else if (strcmp(sequence, "[H") == 0) {
        terminal.row = terminal.column = 0;
        begin_draw();
    } else if (strcmp(sequence, "[K") == 0) {
        erase_from(terminal.row, terminal.column);
        terminal.is_whole = terminal.row + 1 == terminal.rows && !terminal.has_wrapped;
    } else if (strcmp(sequence, "[J") == 0) {
        erase_from(terminal.row, terminal.column);
        for (unsigned row = terminal.row + 1; row < terminal.rows; row++)
            erase_from(row, 0);
    } else if (last == 'A') {
        const unsigned up = (unsigned)strtoul(sequence + 1, NULL, 10);

        ck_assert_msg(up <= terminal.row, "up %u from row %u", up, terminal.row);
        terminal.row -= up;
        begin_draw();
    } else if (last == 'm') {
        terminal.has_colours = true;
    } else {
        ck_abort_msg("what is %s?", sequence);
    }
}

/* At the bottom the screen rolls: what was drawn is not whole then. */
static void new_line(void)
{
    if (terminal.row + 1 < terminal.rows) {
        terminal.row++;
        return;
    }
    terminal.has_wrapped = true;
    memmove(terminal.seen[0], terminal.seen[1], sizeof terminal.seen[0] * (ROWS_MAX - 1));
    erase_from(terminal.row, 0);
}

static void take_byte(char byte)
{
    if (terminal.sequence_bytes > 0) {
        ck_assert_uint_lt(terminal.sequence_bytes, sizeof terminal.sequence);
        terminal.sequence[terminal.sequence_bytes++] = byte;
        if (terminal.sequence_bytes > 2 && byte >= '@' && byte <= '~') {
            terminal.sequence[terminal.sequence_bytes] = '\0';
            carry_out(terminal.sequence + 1);
            terminal.sequence_bytes = 0;
        }
    } else if (byte == '\033') {
        terminal.sequence[terminal.sequence_bytes++] = byte;
    } else if (byte == '\r') {
        terminal.column = 0;
    } else if (byte == '\n') {
        new_line();
    } else {
        ck_assert_msg((unsigned char)byte >= 0x20, "byte 0x%02x on the screen", (unsigned)byte);
        if (((unsigned char)byte & 0xc0) == 0x80)
            return; /* a character has one column */
        if (terminal.column == terminal.columns) {
            terminal.has_wrapped = true;
            terminal.column = 0;
            new_line();
        }
        terminal.seen[terminal.row][terminal.column++] = byte;
    }
}

/* Take what the program writes until this holds; NULL: until it ends. false: it has ended before. */
static bool await(bool (*holds)(void))
{
    while (holds == NULL || !holds()) {
        struct pollfd readable[] = { { .fd = terminal.master, .events = POLLIN },
                                     { .fd = terminal.pidfd, .events = POLLIN } };
        char bytes[4096];
        ssize_t count;

        ck_assert_msg(poll(readable, 2, DAEMON_WAIT_MS) > 0, "nothing is drawn any more");
        if ((readable[0].revents & POLLIN) == 0)
            return false;
        count = read(terminal.master, bytes, sizeof bytes);
        ck_assert_int_gt(count, 0);
        for (ssize_t i = 0; i < count; i++)
            take_byte(bytes[i]);
    }
    return true;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void resize(unsigned rows, unsigned columns)
{
    const struct winsize size = { .ws_row = (unsigned short)rows,
                                  .ws_col = (unsigned short)columns };

    terminal.rows = rows;
    terminal.columns = columns;
    ck_assert_int_eq(ioctl(terminal.master, TIOCSWINSZ, &size), 0);
}

static void start(unsigned rows, unsigned columns, bool with_colours, const char *const *words)
{
    const char *argv[12] = { "engine-ctl", "--socket", engine.socket_path };
    char path[4096];

    snprintf(path, sizeof path, "%s/engine-ctl", getenv("EC_BIN_DIR"));
    for (int i = 0; words[i] != NULL; i++)
        argv[3 + i] = words[i];
    terminal = (struct terminal) { .has_cursor = true };
    erase_all();
    terminal.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(terminal.master, 0);
    ck_assert_int_eq(grantpt(terminal.master), 0);
    ck_assert_int_eq(unlockpt(terminal.master), 0);
    terminal.slave = open(ptsname(terminal.master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(terminal.slave, 0);
    ck_assert_int_eq(tcgetattr(terminal.slave, &terminal.before), 0);
    resize(rows, columns);
    terminal.pid = fork();
    if (terminal.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        ioctl(terminal.slave, TIOCSCTTY, 0);
        dup2(terminal.slave, STDIN_FILENO);
        dup2(terminal.slave, STDOUT_FILENO);
        dup2(terminal.slave, STDERR_FILENO);
        unsetenv("NO_COLOR");
        if (!with_colours)
            setenv("NO_COLOR", "1", 1);
        execv(path, (char *const *)(void *)argv);
        _exit(127);
    }
    terminal.pidfd = (int)syscall(SYS_pidfd_open, terminal.pid, 0);
    ck_assert_int_ge(terminal.pidfd, 0);
}

#define START(rows, columns, ...)                                                                  \
    start(rows, columns, true, (const char *const[]) { __VA_ARGS__, NULL })

static void type(const char *keys)
{
    ck_assert_int_eq(write(terminal.master, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* Wait for the end, and see that the terminal is as it was. Returns the exit code, or -signal. */
static int finish(void)
{
    struct termios after;
    int status;

    await(NULL);
    ck_assert_int_eq(waitpid(terminal.pid, &status, 0), terminal.pid);
    ck_assert_int_eq(tcgetattr(terminal.slave, &after), 0);
    ck_assert_uint_eq(after.c_lflag, terminal.before.c_lflag);
    ck_assert_uint_eq(after.c_iflag, terminal.before.c_iflag);
    ck_assert_uint_eq(after.c_oflag, terminal.before.c_oflag);
    ck_assert_mem_eq(after.c_cc, terminal.before.c_cc, sizeof after.c_cc);
    ck_assert(terminal.has_cursor);
    ck_assert(!terminal.is_other_screen);
    close(terminal.slave);
    close(terminal.master);
    close(terminal.pidfd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool shows(const char *text)
{
    for (unsigned row = 0; row < terminal.rows; row++)
        if (strstr(terminal.seen[row], text) != NULL)
            return true;
    return false;
}

static bool is_whole(void)
{
    return terminal.is_whole;
}

/* The end of a page that is not as long as the screen is seen when the next one begins. */
static bool is_replaced(void)
{
    return terminal.draws >= 2;
}

static void set_up(void)
{
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
}

static void tear_down(void)
{
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* ---- top ------------------------------------------------------------------------------------- */

START_TEST(top_draws_a_screen_and_q_ends_it)
{
    START(40, 120, "top", "--interval", "100ms");
    ck_assert(await(is_whole));
    ck_assert(terminal.is_other_screen);
    ck_assert(!terminal.has_cursor);
    ck_assert(terminal.has_colours);
    ck_assert(strncmp(terminal.seen[0], "engine-cored ", 13) == 0);
    ck_assert(shows("memory  ["));
    ck_assert(shows("breaker level 0 normal"));
    ck_assert(shows("physics"));
    ck_assert(shows("engine-ctl")); /* itself, as a client */
    ck_assert(shows("LATENCY P50"));
    type("q");
    ck_assert_int_eq(finish(), 0);
}
END_TEST

START_TEST(top_without_colours_has_none)
{
    start(40, 120, false, (const char *const[]) { "top", "--interval", "100ms", NULL });
    ck_assert(await(is_whole));
    ck_assert(shows("physics"));
    ck_assert(!terminal.has_colours);
    type("Q");
    ck_assert_int_eq(finish(), 0);
}
END_TEST

/* At once: the interval is longer than the test may take. */
START_TEST(top_follows_the_size_of_the_terminal)
{
    static const struct {
        unsigned rows, columns;
    } sizes[] = { { 12, 40 }, { 50, 200 }, { 3, 20 }, { 1, 1 }, { 24, 80 } };

    START(30, 100, "top", "--interval", "1h");
    ck_assert(await(is_whole));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        terminal.is_whole = false;
        resize(sizes[i].rows, sizes[i].columns);
        ck_assert(await(is_whole)); /* of the new size: no earlier page ends there and fits */
    }
    ck_assert(shows("physics"));
    type("q");
    ck_assert_int_eq(finish(), 0);
}
END_TEST

START_TEST(top_draws_again_when_a_key_is_typed)
{
    START(24, 80, "top", "--interval", "1h");
    ck_assert(await(is_whole));
    terminal.is_whole = false;
    type(" ");
    ck_assert(await(is_whole));
    type("q");
    ck_assert_int_eq(finish(), 0);
}
END_TEST

static const struct {
    const char *keys;
    int signal;
} ends[] = { { CONTROL_C, 0 }, { NULL, SIGTERM }, { NULL, SIGINT }, { "xyq", 0 } };

START_TEST(top_leaves_the_terminal_as_it_was_however_it_ends)
{
    START(24, 80, "top");
    ck_assert(await(is_whole));
    if (ends[_i].keys != NULL)
        type(ends[_i].keys);
    else
        kill(terminal.pid, ends[_i].signal);
    ck_assert_int_eq(finish(), 0);
}
END_TEST

START_TEST(top_gives_the_terminal_back_when_the_daemon_goes)
{
    START(24, 80, "top", "--interval", "100ms");
    ck_assert(await(is_whole));
    ck_assert_int_eq(daemon_stop(&engine), 0);
    ck_assert_int_eq(finish(), 3);
    ck_assert(shows("engine-ctl: "));
    engine = (struct daemon_process) { 0 };
    set_up(); /* for the tear-down */
}
END_TEST

START_TEST(top_ends_also_while_the_daemon_does_not_answer)
{
    START(24, 80, "top", "--interval", "100ms");
    ck_assert(await(is_whole));
    ck_assert_int_eq(kill(engine.pid, SIGSTOP), 0);
    type(CONTROL_C);
    ck_assert_int_eq(finish(), 0);
    ck_assert_int_eq(kill(engine.pid, SIGCONT), 0);
}
END_TEST

START_TEST(top_does_not_take_the_screen_when_there_is_no_daemon)
{
    START(24, 80, "--socket", "/nowhere/socket", "top");
    ck_assert_int_eq(finish(), 3);
    ck_assert_uint_eq(terminal.draws, 0);
    ck_assert(shows("/nowhere/socket"));
}
END_TEST

/* ---- status and mem-report ------------------------------------------------------------------- */

START_TEST(status_replaces_its_page)
{
    START(40, 120, "status", "--watch");
    ck_assert(await(is_replaced));
    ck_assert(!terminal.is_other_screen);
    ck_assert(!terminal.has_wrapped);
    ck_assert(shows("engine-cored "));
    ck_assert(shows("physics"));
    type(CONTROL_C);
    ck_assert_int_eq(finish(), -SIGINT);
}
END_TEST

START_TEST(mem_report_replaces_its_page)
{
    START(60, 200, "mem-report", "--client", "0", "--watch");
    ck_assert(await(is_replaced));
    ck_assert(shows("engine-cored"));
    type(CONTROL_C);
    ck_assert_int_eq(finish(), -SIGINT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("screen");
    TCase *tcase = tcase_create("screen");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, top_draws_a_screen_and_q_ends_it);
    tcase_add_test(tcase, top_without_colours_has_none);
    tcase_add_test(tcase, top_follows_the_size_of_the_terminal);
    tcase_add_test(tcase, top_draws_again_when_a_key_is_typed);
    tcase_add_loop_test(tcase, top_leaves_the_terminal_as_it_was_however_it_ends, 0,
                        (int)(sizeof ends / sizeof ends[0]));
    tcase_add_test(tcase, top_gives_the_terminal_back_when_the_daemon_goes);
    tcase_add_test(tcase, top_ends_also_while_the_daemon_does_not_answer);
    tcase_add_test(tcase, top_does_not_take_the_screen_when_there_is_no_daemon);
    tcase_add_test(tcase, status_replaces_its_page);
    tcase_add_test(tcase, mem_report_replaces_its_page);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
