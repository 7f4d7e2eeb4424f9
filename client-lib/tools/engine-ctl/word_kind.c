/* word_kind.c - see word_kind.h. */
#include "engine-ctl/word_kind.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "engine-ctl/metric.h"
#include "proto/tables.h"

#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"

static void print_methods(FILE *out);
static void print_keys(FILE *out);
static void print_metrics(FILE *out);
static void print_topics(FILE *out);
static void print_log_levels(FILE *out);
static void print_states(FILE *out);
static void print_kinds(FILE *out);

const struct word_kind word_kinds[] = {
    { .name = "METHOD", .print_words = print_methods },
    { .name = "KEY", .print_words = print_keys },
    { .name = "METRIC", .print_words = print_metrics },
    { .name = "TOPIC", .print_words = print_topics },
    { .name = "KIND", .print_words = print_kinds },
    { .name = "LEVEL", .words = "0 1 2 3" },
    { .name = "LOG_LEVEL", .print_words = print_log_levels },
    { .name = "STATE", .print_words = print_states },
    { .name = "CLIENT",
      .method = "client.list",
      .list = "items",
      .member = "client_id",
      .help = "name" },
    { .name = "CLOCK", .method = "clock.get", .list = "steps", .member = "name", .help = "rate" },
    { .name = "CHECKPOINT",
      .method = "clock.get",
      .list = "checkpoints",
      .member = "checkpoint_id",
      .help = "name" },
    { .name = "TIMER",
      .method = "timer.list",
      .list = "items",
      .member = "timer_id",
      .help = "clock" },
    { .name = "TYPE", .method = "event.list", .list = "items", .member = "name", .help = "policy" },
    { .name = "GROUP",
      .method = "resource.list",
      .list = "groups",
      .member = "group",
      .help = "state" },
    { .name = "RESOURCE",
      .method = "resource.list",
      .list = "items",
      .member = "name",
      .help = "group" },
    { .name = "ALIAS", .method = "resource.alias", .list = "aliases" },
    { .name = "TAG", .method = "memory.tags", .list = "items/tags", .member = "tag" },
    { .name = "MODULE", .method = "log.level", .list = "modules" },
    { .name = "POSTMORTEM",
      .method = "postmortem.list",
      .list = "items",
      .member = "id",
      .help = "name" },
    { .name = "FILE", .path = "files" },
    { .name = "PATH", .path = "files" },
    { .name = "MANIFEST", .path = "files" },
    { .name = "TRACE", .path = "files" },
    { .name = "INPUT", .path = "files" },
    { .name = "OUTPUT", .path = "files" },
    { .name = "DIR", .path = "directories" },
    { .name = "PROGRAM", .path = "programs" },
};
const size_t word_kind_count = sizeof word_kinds / sizeof word_kinds[0];

static const struct word_kind *kind_of(const char *text, size_t bytes)
{
    for (size_t i = 0; i < word_kind_count; i++)
        if (strlen(word_kinds[i].name) == bytes && memcmp(word_kinds[i].name, text, bytes) == 0)
            return &word_kinds[i];
    return NULL;
}

void word_kind_spell(const struct word_kind *kind, char spelling[WORD_KIND_BYTES])
{
    size_t i = 0;

    for (; kind->name[i] != '\0'; i++) {
        assert(i + 1 < WORD_KIND_BYTES);
        spelling[i] = kind->name[i] == '_' ? '-' : (char)tolower((unsigned char)kind->name[i]);
    }
    spelling[i] = '\0';
}

bool word_choice_next(const char **at, struct word_choice *choice)
{
    while (*at != NULL) {
        const char *text = *at;
        const size_t bytes = strcspn(text, "| ].");
        const size_t letters = strspn(text, NAME_LETTERS);
        const bool is_name = letters > 0;

        *at = text[bytes] == '|' ? text + bytes + 1 : NULL;
        *choice = (struct word_choice) { .text = text, .bytes = bytes };
        if (is_name)
            choice->kind = kind_of(text, letters);
        if (choice->kind != NULL || (!is_name && bytes > 0))
            return true;
    }
    return false;
}

const char *word_argument(const char *arguments, size_t n)
{
    const char *at = arguments;

    while (n-- > 0 && at != NULL) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    return at != NULL && *at != '\0' ? at + (*at == '[') : NULL;
}

static void print_methods(FILE *out)
{
    for (size_t i = 0; i < EC_COMMANDS; i++)
        fprintf(out, "%s%s", i == 0 ? "" : " ", ec_commands[i].method);
}

static void print_keys(FILE *out)
{
    for (size_t i = 0; i < EC_CONFIGS; i++)
        fprintf(out, "%s%s", i == 0 ? "" : " ", ec_configs[i].key);
}

static void print_metrics(FILE *out)
{
    char name[METRIC_NAME_BYTES];

    for (size_t i = 0; i < EC_METRICS; i++) {
        metric_name(&ec_metrics[i], name);
        fprintf(out, "%s%s", i == 0 ? "" : " ", name);
    }
}

static void print_topics(FILE *out)
{
    for (unsigned i = 0; i < EC_TOPICS; i++)
        fprintf(out, "%s%s", i == 0 ? "" : " ", ec_topic_name((enum ec_topic)i));
}

static void print_log_levels(FILE *out)
{
    const char *level;

    for (unsigned i = 0; (level = ec_log_level_name(i)) != NULL; i++)
        fprintf(out, "%s%s", i == 0 ? "" : " ", level);
}

static void print_states(FILE *out)
{
    const char *state;

    for (unsigned i = 0; (state = ec_resource_state_name(i)) != NULL; i++)
        fprintf(out, "%s%s", i == 0 ? "" : " ", state);
}

static void print_kinds(FILE *out)
{
    char spelling[WORD_KIND_BYTES];
    bool any = false;

    for (size_t i = 0; i < word_kind_count; i++) {
        if (word_kinds[i].path != NULL)
            continue;
        word_kind_spell(&word_kinds[i], spelling);
        fprintf(out, "%s%s", any ? " " : "", spelling);
        any = true;
    }
}
