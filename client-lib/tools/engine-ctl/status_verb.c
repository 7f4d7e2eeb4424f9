/* engine-ctl status: everything on one page, once or again and again.
 *
 * On a terminal a new page takes the place of the last one: the cursor goes up by as many lines as
 * that had, and what stood above stays. Without a terminal each interval is one line, for people or, with
 * --json, for programs. */
#include "engine-ctl/breaker_level.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/memory_tag.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"
#include "engine-ctl/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { INFO, CLIENTS, CLOCK, EVENTS, MEMORY, RESOURCES, BREAKER, PARTS };

static const struct {
    const char *name;
    const char *method;
} parts[PARTS] = {
    [INFO] = { "info", "core.info" },         [CLIENTS] = { "clients", "client.list" },
    [CLOCK] = { "clock", "clock.get" },       [EVENTS] = { "events", "event.stats" },
    [MEMORY] = { "memory", "memory.report" }, [RESOURCES] = { "resources", "resource.list" },
    [BREAKER] = { "breaker", "breaker.get" },
};

#define TAGS_SHOWN 64
#define LINE_WIDTH 100

struct tag_sum {
    const char *name;
    double bytes, peak_bytes;
};

/* Where the last page stands. */
struct page_place {
    bool is_watched;
    unsigned lines;
};

static int show(struct ctl *ctl, void *context);
static int ask(struct ctl *ctl, struct json_answer answers[PARTS]);
static void finish(struct json_answer answers[PARTS]);
static void print_json(const struct json_answer answers[PARTS]);
static void print_page(FILE *out, const struct ctl *ctl, const struct json_answer answers[PARTS]);
static void print_daemon(FILE *out, const struct ctl *ctl, const cJSON *info, const cJSON *breaker);
static void print_clients(FILE *out, const struct ctl *ctl, const cJSON *clients);
static void print_clocks(FILE *out, const struct ctl *ctl, const cJSON *clock);
static void print_events(FILE *out, const struct ctl *ctl, const cJSON *events);
static void print_tags(FILE *out, const struct ctl *ctl, const cJSON *memory);
static size_t sum_tags(const cJSON *memory, struct tag_sum sums[TAGS_SHOWN]);
static void print_groups(FILE *out, const struct ctl *ctl, const cJSON *resources);
static void print_line(FILE *out, const struct json_answer answers[PARTS]);
static void print_fitting(FILE *out, const struct json_answer answers[PARTS]);
static void replace_page(const struct ctl *ctl, const struct json_answer answers[PARTS],
                         struct page_place *place);

int verb_status(struct ctl *ctl, const struct verb_input *input)
{
    struct page_place place = { .is_watched = input->options[0] != NULL };

    return watch_show(ctl, "status", input->options[0], show, &place);
}

static int show(struct ctl *ctl, void *context)
{
    struct page_place *place = context;
    struct json_answer answers[PARTS];
    int rc = ask(ctl, answers);

    if (rc == EXIT_DONE) {
        if (ctl->json)
            print_json(answers);
        else if (!place->is_watched)
            print_page(stdout, ctl, answers);
        else if (ctl->terminal)
            replace_page(ctl, answers, place);
        else
            print_fitting(stdout, answers);
        rc = ctl_flush();
    }
    finish(answers);
    return rc;
}

static int ask(struct ctl *ctl, struct json_answer answers[PARTS])
{
    int rc = EXIT_DONE;

    memset(answers, 0, PARTS * sizeof answers[0]);
    for (int part = 0; part < PARTS && rc == EXIT_DONE; part++)
        rc = ctl_call(ctl, parts[part].method, NULL, &answers[part]);
    return rc;
}

static void finish(struct json_answer answers[PARTS])
{
    for (int part = 0; part < PARTS; part++)
        json_answer_finish(&answers[part]);
}

static void print_json(const struct json_answer answers[PARTS])
{
    for (int part = 0; part < PARTS; part++)
        printf("%s\"%s\":%.*s", part == 0 ? "{" : ",", parts[part].name,
               (int)answers[part].result_bytes, answers[part].result);
    puts("}");
}

/* ---- the page ---- */

static void print_page(FILE *out, const struct ctl *ctl, const struct json_answer answers[PARTS])
{
    print_daemon(out, ctl, answers[INFO].tree, answers[BREAKER].tree);
    print_clocks(out, ctl, answers[CLOCK].tree);
    print_clients(out, ctl, answers[CLIENTS].tree);
    print_events(out, ctl, answers[EVENTS].tree);
    print_tags(out, ctl, answers[MEMORY].tree);
    print_groups(out, ctl, answers[RESOURCES].tree);
}

static void print_daemon(FILE *out, const struct ctl *ctl, const cJSON *info, const cJSON *breaker)
{
    const double level = json_number(breaker, "level");
    char uptime[TEXT_BYTES], rss[TEXT_BYTES];

    fprintf(out, "%sengine-cored %s%s  pid %.0f, up %s, %s resident, %s\n",
            style_on(STYLE_BOLD, ctl->colours), json_text(info, "version"), style_off(ctl->colours),
            json_number(info, "pid"), duration_text(uptime, json_number(info, "uptime_ns")),
            bytes_text(rss, json_number(info, "rss_bytes")), json_text(info, "socket"));
    fprintf(out, "breaker level %s%.0f %s%s", style_on(breaker_level_style(level), ctl->colours),
            level, breaker_level_name(level), style_off(ctl->colours));
    if (level > 0) {
        char *reason = tame_copy(json_text(breaker, "reason"));

        fprintf(out, " (%s: %s)", json_text(breaker, "cause"), reason);
        free(reason);
    }
    fputs("\n\n", out);
}

static void print_clocks(FILE *out, const struct ctl *ctl, const cJSON *clock)
{
    static const struct column columns[] = {
        { "CLOCK", false }, { "HZ", true },         { "STEP", true },
        { "MISSED", true }, { "JITTER P50", true }, { "P99", true },
    };
    struct table table = { .columns = columns, .column_count = 6 };
    char text[TEXT_BYTES];
    const cJSON *step;

    cJSON_ArrayForEach(step, json_member(clock, "steps"))
    {
        const cJSON *jitter = json_member(step, "jitter_ns");

        table_cell(&table, "%s", json_text(step, "name"));
        table_cell(&table, "%g", json_number(step, "hz"));
        table_cell(&table, "%.0f", json_number(step, "step"));
        table_cell(&table, "%.0f", json_number(step, "missed"));
        table_cell(&table, "%s", duration_text(text, json_number(jitter, "p50")));
        table_cell(&table, "%s", duration_text(text, json_number(jitter, "p99")));
    }
    table_print(&table, out, ctl->colours);
    fputc('\n', out);
}

static void print_clients(FILE *out, const struct ctl *ctl, const cJSON *clients)
{
    static const struct column columns[] = {
        { "CLIENT", true }, { "NAME", false },  { "PID", true },
        { "REFS", true },   { "MEMORY", true },
    };
    struct table table = { .columns = columns, .column_count = 5 };
    char text[TEXT_BYTES];
    const cJSON *client;

    cJSON_ArrayForEach(client, json_member(clients, "items"))
    {
        if (!json_is_true(client, "attached"))
            continue;
        table_cell(&table, "%.0f", json_number(client, "client_id"));
        table_cell(&table, "%s", json_text(client, "name"));
        table_cell(&table, "%.0f", json_number(client, "pid"));
        table_cell(&table, "%.0f", json_number(client, "hard_refs"));
        table_cell(&table, "%s", bytes_text(text, json_number(client, "memory_bytes")));
    }
    if (table.cell_count == 0)
        return;
    table_print(&table, out, ctl->colours);
    fputc('\n', out);
}

static void print_events(FILE *out, const struct ctl *ctl, const cJSON *events)
{
    static const struct column columns[] = {
        { "EVENT", false }, { "RATE", true },        { "PUBLISHED", true },
        { "LOST", true },   { "LATENCY P50", true }, { "P99", true },
    };
    struct table table = { .columns = columns, .column_count = 6 };
    char text[TEXT_BYTES];
    const cJSON *type;

    cJSON_ArrayForEach(type, json_member(events, "items"))
    {
        const cJSON *latency = json_member(type, "latency_ns");

        if (json_number(type, "published") == 0)
            continue;
        table_cell(&table, "%s", json_text(type, "name"));
        table_cell(&table, "%s/s", number_text(text, json_number(type, "rate_hz")));
        table_cell(&table, "%s", number_text(text, json_number(type, "published")));
        table_cell(&table, "%s", number_text(text, json_number(type, "lost")));
        table_cell(&table, "%s", latency_text(text, json_number(latency, "p50")));
        table_cell(&table, "%s", latency_text(text, json_number(latency, "p99")));
    }
    if (table.cell_count == 0)
        return;
    table_print(&table, out, ctl->colours);
    fputc('\n', out);
}

static void print_tags(FILE *out, const struct ctl *ctl, const cJSON *memory)
{
    static const struct column columns[] = { { "MEMORY", false },
                                             { "BYTES", true },
                                             { "PEAK", true } };
    struct table table = { .columns = columns, .column_count = 3 };
    struct tag_sum sums[TAGS_SHOWN];
    const size_t count = sum_tags(memory, sums);
    char text[TEXT_BYTES];

    for (size_t i = 0; i < count; i++) {
        table_cell(&table, "%s", sums[i].name);
        table_cell(&table, "%s", bytes_text(text, sums[i].bytes));
        table_cell(&table, "%s", bytes_text(text, sums[i].peak_bytes));
    }
    if (count == 0)
        return;
    table_print(&table, out, ctl->colours);
    fputc('\n', out);
}

/* Over all living processes. Peaks of several processes need not have been at one time: their sum is an
 * upper bound. */
static size_t sum_tags(const cJSON *memory, struct tag_sum sums[TAGS_SHOWN])
{
    const cJSON *process, *tag;
    size_t count = 0;

    cJSON_ArrayForEach(process, json_member(memory, "items"))
    {
        if (!json_is_true(process, "alive"))
            continue;
        cJSON_ArrayForEach(tag, json_member(process, "tags"))
        {
            size_t i = 0;

            if (!memory_tag_is_used(tag))
                continue;
            while (i < count && strcmp(sums[i].name, json_text(tag, "tag")) != 0)
                i++;
            if (i == TAGS_SHOWN)
                continue;
            if (i == count)
                sums[count++] = (struct tag_sum) { .name = json_text(tag, "tag") };
            sums[i].bytes += json_number(tag, "bytes");
            sums[i].peak_bytes += json_number(tag, "peak_bytes");
        }
    }
    return count;
}

static void print_groups(FILE *out, const struct ctl *ctl, const cJSON *resources)
{
    static const struct column columns[] = {
        { "GROUP", false }, { "STATE", false }, { "RESOURCES", true },
        { "BYTES", true },  { "REFS", true },
    };
    struct table table = { .columns = columns, .column_count = 5 };
    char text[TEXT_BYTES];
    const cJSON *group;

    cJSON_ArrayForEach(group, json_member(resources, "groups"))
    {
        table_cell(&table, "%s", json_text(group, "group"));
        table_cell(&table, "%s", json_text(group, "state"));
        table_cell(&table, "%.0f", json_number(group, "resources"));
        table_cell(&table, "%s", bytes_text(text, json_number(group, "bytes")));
        table_cell(&table, "%.0f", json_number(group, "hard_refs"));
    }
    if (table.cell_count > 0)
        table_print(&table, out, ctl->colours);
}

/* ---- the line ---- */

static void print_line(FILE *out, const struct json_answer answers[PARTS])
{
    struct tag_sum sums[TAGS_SHOWN];
    const size_t tag_count = sum_tags(answers[MEMORY].tree, sums);
    const cJSON *row, *step = cJSON_GetArrayItem(json_member(answers[CLOCK].tree, "steps"), 0);
    const cJSON *jitter = json_member(step, "jitter_ns");
    char p50[TEXT_BYTES], p99[TEXT_BYTES], text[TEXT_BYTES];
    double rate_hz = 0, lost = 0, latency_p50 = 0, latency_p99 = 0;

    fprintf(out, "%s %.0f missed %.0f jitter %s p99 %s", json_text(step, "name"),
            json_number(step, "step"), json_number(step, "missed"),
            duration_text(p50, json_number(jitter, "p50")),
            duration_text(p99, json_number(jitter, "p99")));

    /* What matters most comes first: the end of a long line is cut. */
    fprintf(out, " | breaker %.0f %s", json_number(answers[BREAKER].tree, "level"),
            breaker_level_name(json_number(answers[BREAKER].tree, "level")));
    cJSON_ArrayForEach(row, json_member(answers[EVENTS].tree, "items"))
    {
        const cJSON *latency = json_member(row, "latency_ns");

        rate_hz += json_number(row, "rate_hz");
        lost += json_number(row, "lost");
        if (json_number(latency, "p99") > latency_p99) { /* the slowest type stands for all */
            latency_p50 = json_number(latency, "p50");
            latency_p99 = json_number(latency, "p99");
        }
    }
    fprintf(out, " | events %.0f/s lost %.0f latency %s p99 %s", rate_hz, lost,
            latency_text(p50, latency_p50), latency_text(p99, latency_p99));

    fprintf(out, " | memory");
    for (size_t i = 0; i < tag_count; i++) {
        char *name = tame_copy(sums[i].name);

        fprintf(out, " %s %s", name, bytes_text(text, sums[i].bytes));
        free(name);
    }
    cJSON_ArrayForEach(row, json_member(answers[RESOURCES].tree, "groups"))
    {
        char *name = tame_copy(json_text(row, "group"));

        fprintf(out, " | %s %s %s refs %.0f", name, json_text(row, "state"),
                bytes_text(text, json_number(row, "bytes")), json_number(row, "hard_refs"));
        free(name);
    }
    fputc('\n', out);
}

/* The line, cut where the terminal ends, or at LINE_WIDTH where there is none: $COLUMNS may say more. */
static void print_fitting(FILE *out, const struct json_answer answers[PARTS])
{
    const char *columns = getenv("COLUMNS");
    long long width = LINE_WIDTH;
    char *line = NULL;
    size_t bytes = 0, end = 0;
    FILE *whole = open_memstream(&line, &bytes);

    print_line(whole, answers);
    fclose(whole);
    if (columns != NULL)
        verb_number(columns, 40, 10000, &width);
    while (end + 1 < bytes && end < (size_t)width)
        end++;
    if (end + 1 < bytes) /* what is cut ends between two words */
        while (end > 0 && line[end] != ' ')
            end--;
    fprintf(out, "%.*s\n", (int)end, line);
    free(line);
}

/* Lines are cut and the page ends where the window does, so that going up by the number of lines finds its
 * top again. */
static void replace_page(const struct ctl *ctl, const struct json_answer answers[PARTS],
                         struct page_place *place)
{
    struct winsize window;
    unsigned printed = 0;
    char *whole = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&whole, &bytes);

    print_page(out, ctl, answers);
    fclose(out);
    /* A terminal may not know its size, such as a serial line. */
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) < 0 || window.ws_row == 0 || window.ws_col == 0)
        window = (struct winsize) { .ws_row = 24, .ws_col = 80 };
    if (place->lines > 0)
        printf("\033[%uA", place->lines);
    putchar('\r');
    for (const char *page = whole; *page != '\0' && printed + 1 < window.ws_row; printed++) {
        const size_t line_bytes = strcspn(page, "\n");

        printf("\033[K%.*s%s\n", (int)fitting_bytes(page, line_bytes, window.ws_col), page,
               style_off(ctl->colours));
        page += line_bytes + (page[line_bytes] == '\n');
    }
    fputs("\033[J", stdout);
    place->lines = printed;
    free(whole);
}
