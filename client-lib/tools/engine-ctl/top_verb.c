/* engine-ctl top: one screen that is drawn again and again, as large as the terminal is; or one JSON
 * object a tick.
 *
 * The alternate screen is used, so what stood there before comes back. Keys are read as they are typed:
 * q ends it, any other draws at once, as a new size does. Signals end it, too, and the terminal is put
 * right in any case. */
#include "engine-ctl/breaker_level.h"
#include "engine-ctl/duration.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/stop_signal.h"
#include "engine-ctl/verb.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

enum { INTERVAL, TICKS }; /* rows of its options */

enum { INFO, TELEMETRY, CLIENTS, CLOCK, EVENTS, RESOURCES, BREAKER, PARTS };

static const struct {
    const char *name, *method, *params;
} parts[PARTS] = {
    [INFO] = { "info", "core.info", NULL },
    [TELEMETRY] = { "telemetry", "telemetry.get", NULL },
    [CLIENTS] = { "clients", "client.list", NULL },
    [CLOCK] = { "clock", "clock.get", NULL },
    [EVENTS] = { "events", "event.stats", NULL },
    [RESOURCES] = { "resources", "resource.list", NULL },
    [BREAKER] = { "breaker", "breaker.get", NULL },
};

#define INTERVAL_NS_DEFAULT 1000000000
#define INTERVAL_NS_MIN 100000000
#define ROWS_DEFAULT 24
#define ROWS_MAX 256 /* of one table */
#define COLUMNS_DEFAULT 80
#define BAR_WIDTH 30

struct screen {
    struct termios before;
    bool is_raw, colours;
    int resized; /* a signalfd: the terminal has another size; -1: nobody tells */
    int news;    /* an epoll: it has, or a key was typed; -1: nobody tells */
    unsigned rows, columns;
};

static int run(struct ctl *ctl, long long interval_ns, long long ticks, int stop);
static bool is_quit(const struct screen *screen);
static int tick(struct ctl *ctl, struct screen *screen, struct ec_error *why);
static void open_screen(struct screen *screen);
static void close_screen(const struct screen *screen);
static void measure(struct screen *screen);
static void draw(const struct screen *screen, const char *page);
static void print_json(const struct json_answer answers[PARTS]);
static void print_page(FILE *out, const struct ctl *ctl, const struct json_answer answers[PARTS],
                       unsigned rows);
static void print_head(FILE *out, const struct ctl *ctl, const struct json_answer answers[PARTS]);
static void print_clocks(FILE *out, const struct ctl *ctl, const cJSON *clock);
static void print_clients(FILE *out, const struct ctl *ctl, const cJSON *clients, size_t most);
static void print_events(FILE *out, const struct ctl *ctl, const cJSON *events, size_t most);
static void print_groups(FILE *out, const struct ctl *ctl, const cJSON *resources, size_t most);
static size_t sorted(const cJSON *array, const char *member, const cJSON *rows[ROWS_MAX],
                     size_t most);

int verb_top(struct ctl *ctl, const struct verb_input *input)
{
    long long interval_ns = INTERVAL_NS_DEFAULT, ticks = 0;
    int stop, rc;

    if (input->options[INTERVAL] != NULL &&
        (!duration_parse(input->options[INTERVAL], &interval_ns) || interval_ns < INTERVAL_NS_MIN))
        return ctl_fail(EXIT_USAGE, "top: --interval is \"%s\", expected 100ms or more",
                        input->options[INTERVAL]);
    if (input->options[TICKS] != NULL && !verb_number(input->options[TICKS], 1, 1000000000, &ticks))
        return ctl_fail(EXIT_USAGE, "top: --ticks is \"%s\", expected 1 or more",
                        input->options[TICKS]);
    rc = ctl_connect(ctl); /* what is wrong is said before the screen is taken */
    if (rc != EXIT_DONE)
        return rc;
    stop = stop_signal_open();
    if (stop < 0)
        return ctl_fail(EXIT_ANSWERED_ERROR, "top: signals cannot be waited for");
    rc = run(ctl, interval_ns, ticks, stop);
    close(stop);
    return rc;
}

/* ticks is 0: until it is ended. What goes wrong is said when the screen is that of the shell again. */
static int run(struct ctl *ctl, long long interval_ns, long long ticks, int stop)
{
    struct screen screen = { .rows = ROWS_DEFAULT,
                             .columns = COLUMNS_DEFAULT,
                             .resized = -1,
                             .news = -1,
                             .colours = ctl->colours };
    const bool is_screen = ctl->terminal && !ctl->json;
    struct ec_error why = { 0 };
    int rc;

    ctl->socket.stop_plus_one = stop + 1;
    if (is_screen)
        open_screen(&screen);
    do {
        rc = tick(ctl, is_screen ? &screen : NULL, &why);
        if (rc != EXIT_DONE || (ticks > 0 && --ticks == 0))
            break;
    } while (!stop_signal_wait(stop, screen.news, interval_ns) && !is_quit(&screen));
    if (is_screen)
        close_screen(&screen);
    if (rc != EXIT_DONE && stop_signal_wait(stop, -1, 0))
        return EXIT_DONE; /* it was waiting for an answer */
    return why.text[0] != '\0' ? ctl_fail(rc, "top: %s", why.text) : rc;
}

/* Take the keys that were typed, and news of the size; both have ended the wait. */
static bool is_quit(const struct screen *screen)
{
    struct signalfd_siginfo info;
    char keys[64];
    ssize_t count = 0;

    if (screen->resized >= 0)
        while (read(screen->resized, &info, sizeof info) > 0)
            continue;
    if (screen->is_raw)
        count = read(STDIN_FILENO, keys, sizeof keys);
    for (ssize_t i = 0; i < count; i++)
        if (keys[i] == 'q' || keys[i] == 'Q')
            return true;
    return false;
}

static int tick(struct ctl *ctl, struct screen *screen, struct ec_error *why)
{
    struct json_answer answers[PARTS];
    int rc = EC_OK;

    memset(answers, 0, sizeof answers);
    for (int part = 0; part < PARTS && rc == EC_OK; part++)
        rc = json_socket_call(&ctl->socket, parts[part].method, parts[part].params, &answers[part],
                              why);
    if (rc == EC_OK && screen == NULL) {
        print_json(answers);
    } else if (rc == EC_OK) {
        char *page = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&page, &bytes);

        measure(screen);
        print_page(out, ctl, answers, screen->rows);
        fclose(out);
        draw(screen, page);
        free(page);
    }
    for (int part = 0; part < PARTS; part++)
        json_answer_finish(&answers[part]);
    return rc == EC_OK ? ctl_flush() : ctl_exit_code(rc);
}

/* ---- the terminal ------------------------------------------------------------------------------ */

static void open_screen(struct screen *screen)
{
    struct termios raw;
    struct epoll_event readable = { .events = EPOLLIN };
    sigset_t resize;

    if (tcgetattr(STDIN_FILENO, &screen->before) == 0) {
        raw = screen->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* the shell would get this screen */
        screen->is_raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    sigemptyset(&resize);
    sigaddset(&resize, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &resize, NULL) == 0)
        screen->resized = signalfd(-1, &resize, SFD_CLOEXEC | SFD_NONBLOCK);
    screen->news = epoll_create1(EPOLL_CLOEXEC);
    if (screen->news >= 0 && screen->is_raw)
        epoll_ctl(screen->news, EPOLL_CTL_ADD, STDIN_FILENO, &readable);
    if (screen->news >= 0 && screen->resized >= 0)
        epoll_ctl(screen->news, EPOLL_CTL_ADD, screen->resized, &readable);
    fputs("\033[?1049h\033[?25l", stdout); /* the other screen, no cursor */
}

static void close_screen(const struct screen *screen)
{
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (screen->is_raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
    if (screen->resized >= 0)
        close(screen->resized);
    if (screen->news >= 0)
        close(screen->news);
}

static void measure(struct screen *screen)
{
    struct winsize window;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 && window.ws_col > 0) {
        screen->rows = window.ws_row;
        screen->columns = window.ws_col;
    }
}

static void draw(const struct screen *screen, const char *page)
{
    fputs("\033[H", stdout);
    for (unsigned row = 0; row < screen->rows; row++) {
        const size_t bytes = strcspn(page, "\n");

        printf("%.*s%s\033[K%s", (int)fitting_bytes(page, bytes, screen->columns), page,
               style_off(screen->colours), row + 1 < screen->rows ? "\r\n" : "");
        page += bytes + (page[bytes] == '\n');
    }
}

/* ---- what is shown ----------------------------------------------------------------------------- */

static void print_json(const struct json_answer answers[PARTS])
{
    for (int part = 0; part < PARTS; part++)
        printf("%s\"%s\":%.*s", part == 0 ? "{" : ",", parts[part].name,
               (int)answers[part].result_bytes, answers[part].result);
    puts("}");
}

static void print_page(FILE *out, const struct ctl *ctl, const struct json_answer answers[PARTS],
                       unsigned rows)
{
    const cJSON *steps = json_member(answers[CLOCK].tree, "steps");
    const size_t taken = 5 + (size_t)cJSON_GetArraySize(steps) + 2;
    /* Titles and empty lines of the three tables take six rows. */
    const size_t left = rows > taken + 6 ? rows - taken - 6 : 0;
    const size_t groups =
        (size_t)cJSON_GetArraySize(json_member(answers[RESOURCES].tree, "groups"));
    const size_t for_groups = groups < left / 4 ? groups : left / 4;

    print_head(out, ctl, answers);
    print_clocks(out, ctl, answers[CLOCK].tree);
    print_clients(out, ctl, answers[CLIENTS].tree, (left - for_groups) / 2);
    print_events(out, ctl, answers[EVENTS].tree, (left - for_groups) - (left - for_groups) / 2);
    print_groups(out, ctl, answers[RESOURCES].tree, for_groups);
}

static void print_bar(FILE *out, const struct ctl *ctl, double share, enum style style)
{
    const int full = share < 0 ? 0 : share > 1 ? BAR_WIDTH : (int)(share * BAR_WIDTH + 0.5);

    fprintf(out, "[%s%.*s%s%*s]", style_on(style, ctl->colours), full,
            "||||||||||||||||||||||||||||||", style_off(ctl->colours), BAR_WIDTH - full, "");
}

static void print_head(FILE *out, const struct ctl *ctl, const struct json_answer answers[PARTS])
{
    const cJSON *info = answers[INFO].tree, *breaker = answers[BREAKER].tree;
    const cJSON *memory = json_member(answers[TELEMETRY].tree, "memory");
    const cJSON *control = json_member(answers[TELEMETRY].tree, "control");
    const cJSON *clock = answers[CLOCK].tree;
    const double total = json_number(memory, "total_bytes");
    const double available = json_number(memory, "available_bytes");
    const double level = json_number(breaker, "level");
    char text[TEXT_BYTES], more[TEXT_BYTES], last[TEXT_BYTES];

    fprintf(out, "%sengine-cored %s%s  pid %.0f  up %s  %s resident  %.0f clients\n",
            style_on(STYLE_BOLD, ctl->colours), json_text(info, "version"), style_off(ctl->colours),
            json_number(info, "pid"), duration_text(text, json_number(info, "uptime_ns")),
            bytes_text(more, json_number(info, "rss_bytes")), json_number(control, "clients"));
    fputs("memory  ", out);
    print_bar(out, ctl, total > 0 ? 1 - available / total : 0, breaker_level_style(level));
    fprintf(out, " %s of %s free, assets %s\n", bytes_text(text, available),
            bytes_text(more, total), bytes_text(last, json_number(memory, "assets_bytes")));
    fprintf(out, "breaker level %s%.0f %s%s   game time %.3f s%s, scale %g\n\n",
            style_on(breaker_level_style(level), ctl->colours), level, breaker_level_name(level),
            style_off(ctl->colours), json_number(clock, "game_ns") / 1e9,
            json_is_true(clock, "paused") ? " (paused)" : "", json_number(clock, "scale"));
}

static void print_clocks(FILE *out, const struct ctl *ctl, const cJSON *clock)
{
    static const struct column columns[] = {
        { "CLOCK", false }, { "HZ", true },      { "STEP", true },
        { "MISSED", true }, { "MEMBERS", true }, { "LATE P99, LAST MINUTE", true },
    };
    struct table table = { .columns = columns, .column_count = 6 };
    char text[TEXT_BYTES];
    const cJSON *step;

    cJSON_ArrayForEach(step, json_member(clock, "steps"))
    {
        table_cell(&table, "%s", json_text(step, "name"));
        table_cell(&table, "%g", json_number(step, "hz"));
        table_cell(&table, "%.0f", json_number(step, "step"));
        table_cell(&table, "%.0f", json_number(step, "missed"));
        table_cell(&table, "%.0f", json_number(step, "members"));
        table_cell(
            &table, "%s",
            latency_text(text, json_number(json_member(step, "jitter_last_minute_ns"), "p99")));
    }
    table_print(&table, out, ctl->colours);
    fputc('\n', out);
}

static void print_clients(FILE *out, const struct ctl *ctl, const cJSON *clients, size_t most)
{
    static const struct column columns[] = {
        { "CLIENT", true }, { "NAME", false }, { "PID", true },  { "MEMORY", true },
        { "FRAME", true },  { "PORTS", true }, { "REFS", true }, { "", false },
    };
    struct table table = { .columns = columns, .column_count = 8 };
    const cJSON *rows[ROWS_MAX];
    const size_t count = sorted(json_member(clients, "items"), "memory_bytes", rows, most);
    char text[TEXT_BYTES];

    for (size_t i = 0; i < count; i++) {
        table_cell(&table, "%.0f", json_number(rows[i], "client_id"));
        table_cell(&table, "%s", json_text(rows[i], "name"));
        table_cell(&table, "%.0f", json_number(rows[i], "pid"));
        table_cell(&table, "%s", bytes_text(text, json_number(rows[i], "memory_bytes")));
        table_cell(&table, "%.0f", json_number(rows[i], "last_frame"));
        table_cell(&table, "%.0f", json_number(rows[i], "ports"));
        table_cell(&table, "%.0f", json_number(rows[i], "hard_refs"));
        table_cell(&table, "%s", json_is_true(rows[i], "stalled") ? "stalled" : "");
    }
    table_print(&table, out, ctl->colours);
    fputc('\n', out);
}

static void print_events(FILE *out, const struct ctl *ctl, const cJSON *events, size_t most)
{
    static const struct column columns[] = {
        { "EVENT", false }, { "RATE", true },        { "PUBLISHED", true },
        { "LOST", true },   { "LATENCY P50", true }, { "P99", true },
    };
    struct table table = { .columns = columns, .column_count = 6 };
    const cJSON *rows[ROWS_MAX];
    const size_t count = sorted(json_member(events, "items"), "rate_hz", rows, most);
    char text[TEXT_BYTES];

    for (size_t i = 0; i < count; i++) {
        const cJSON *latency = json_member(rows[i], "latency_ns");

        table_cell(&table, "%s", json_text(rows[i], "name"));
        table_cell(&table, "%s/s", number_text(text, json_number(rows[i], "rate_hz")));
        table_cell(&table, "%s", number_text(text, json_number(rows[i], "published")));
        table_cell(&table, "%s", number_text(text, json_number(rows[i], "lost")));
        table_cell(&table, "%s", latency_text(text, json_number(latency, "p50")));
        table_cell(&table, "%s", latency_text(text, json_number(latency, "p99")));
    }
    table_print(&table, out, ctl->colours);
    fputc('\n', out);
}

static void print_groups(FILE *out, const struct ctl *ctl, const cJSON *resources, size_t most)
{
    static const struct column columns[] = {
        { "GROUP", false }, { "STATE", false }, { "RESOURCES", true },
        { "BYTES", true },  { "REFS", true },
    };
    struct table table = { .columns = columns, .column_count = 5 };
    const cJSON *rows[ROWS_MAX];
    const size_t count = sorted(json_member(resources, "groups"), "bytes", rows, most);
    char text[TEXT_BYTES];

    for (size_t i = 0; i < count; i++) {
        table_cell(&table, "%s", json_text(rows[i], "group"));
        table_cell(&table, "%s", json_text(rows[i], "state"));
        table_cell(&table, "%.0f", json_number(rows[i], "resources"));
        table_cell(&table, "%s", bytes_text(text, json_number(rows[i], "bytes")));
        table_cell(&table, "%.0f", json_number(rows[i], "hard_refs"));
    }
    if (count > 0)
        table_print(&table, out, ctl->colours);
}

/* The rows with the largest values of a member, the largest first; of equal ones in their order. */
static size_t sorted(const cJSON *array, const char *member, const cJSON *rows[ROWS_MAX],
                     size_t most)
{
    const cJSON *row;
    size_t count = 0;

    most = most < ROWS_MAX ? most : ROWS_MAX;
    cJSON_ArrayForEach(row, array)
    {
        const double value = json_number(row, member);
        size_t at = count < most ? count : most;

        while (at > 0 && json_number(rows[at - 1], member) < value)
            at--;
        if (at == most)
            continue;
        if (count < most)
            count++;
        memmove(&rows[at + 1], &rows[at], (count - at - 1) * sizeof rows[0]);
        rows[at] = row;
    }
    return count;
}
