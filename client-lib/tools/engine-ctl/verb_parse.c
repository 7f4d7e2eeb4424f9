/* From words to a verb. Options may stand before, between and after the words of the verb. */
#include "engine-ctl/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/tables.h"
#include "proto/tables/nearest.h"

#define WORDS_MAX 8
#define OPTIONS_MAX 40
#define TIMEOUT_S_MAX 86400
#define SHAPE_BYTES 48
#define HINT_BYTES 96

enum { SOCKET, JSON, TIMEOUT, DRY_RUN, HELP, VERSION, GLOBALS };

const struct verb_option verb_globals[] = {
    [SOCKET] = { "socket", "PATH", false,
                 "Control socket; default: $ENGINE_CORE_SOCKET, then the user's, then the system's." },
    [JSON] = { "json", NULL, false, "Print results as JSON, one a line." },
    [TIMEOUT] = { "timeout", "SECONDS", false, "Wait this long for an answer; default 30." },
    [DRY_RUN] = { "dry-run", NULL, false,
                  "Change nothing: say what would happen, or the error that would come." },
    [HELP] = { "help", NULL, false, "Print this, or the help of a verb; so does the word help." },
    [VERSION] = { "version", NULL, false, "Print the version." },
};

const size_t verb_global_count = GLOBALS;

/* Words and options, before it is known whose options they are. */
struct command_line {
    const char *words[WORDS_MAX];
    size_t word_count;
    const char *globals[GLOBALS];
    const char *options[OPTIONS_MAX][2]; /* "--name=value" and the argument behind it */
    size_t option_count;
    char *const *rest; /* the program's words, of a verb that runs one */
};

static int split(int argc, char **argv, struct command_line *line);
static bool runs_program(const struct command_line *line);
static int split_option(char **argv, int *at, int argc, struct command_line *line);
static const struct verb_option *option_of(const struct verb_option *options, size_t count,
                                           const char *text, const char **value);
static const struct verb_option *any_option(const char *text, const char **value);
static const struct verb *find_verb(const struct command_line *line, size_t *words);
static size_t words_of(const struct verb *verb, const struct command_line *line);
static int fill_input(const struct verb *verb, const struct command_line *line, size_t words,
                      struct verb_input *input);
static int apply_globals(struct ctl *ctl, const struct command_line *line);
static int no_verb(const struct command_line *line);
static int no_option(const char *text);
static const char *meant(const struct ec_nearest *nearest, const char *dashes,
                         char hint[HINT_BYTES]);
static int print_help(const struct command_line *line);
static bool belongs_to(const struct verb *verb, const struct command_line *line);
static bool begins_with(const struct verb *verb, const char *first);
static void take_word_help(struct command_line *line);
static void print_verb(const struct verb *verb);
static void print_options(const struct verb_option *options, size_t count);
static const char *shape_of(const struct verb_option *option, char shape[SHAPE_BYTES]);

int verb_parse(struct ctl *ctl, int argc, char **argv, const struct verb **verb,
               struct verb_input *input)
{
    struct command_line line = { .word_count = 0 };
    size_t words = 0;
    int rc;

    *verb = NULL;
    *input = (struct verb_input) { .list_count = 0 };
    rc = split(argc, argv, &line);
    if (rc != EXIT_DONE)
        return rc;
    take_word_help(&line);
    if (line.globals[HELP] != NULL)
        return print_help(&line);
    if (line.globals[VERSION] != NULL) {
        printf("engine-ctl %s\n", EC_VERSION);
        return ctl_flush();
    }
    if (line.word_count == 0)
        return ctl_fail(EXIT_USAGE, "what shall be done? Try engine-ctl --help");
    *verb = find_verb(&line, &words);
    if (*verb == NULL)
        return no_verb(&line);
    rc = apply_globals(ctl, &line);
    if (rc == EXIT_DONE && ctl->dry_run && (*verb)->acts_itself)
        rc = ctl_fail(EXIT_USAGE, "%s: there is no --dry-run of what is not done by the daemon",
                      (*verb)->name);
    return rc == EXIT_DONE ? fill_input(*verb, &line, words, input) : rc;
}

bool verb_number(const char *text, long long min, long long max, long long *number)
{
    char *end;

    errno = 0;
    *number = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *number >= min && *number <= max;
}

/* ---- words and options ---- */

/* What may stand behind a minus sign: no option begins so. */
static bool begins_number(const char *text)
{
    return (*text >= '0' && *text <= '9') || *text == '.';
}

static int split(int argc, char **argv, struct command_line *line)
{
    bool options_end = false;

    for (int at = 1; at < argc; at++) {
        const bool is_end = !options_end && strcmp(argv[at], "--") == 0;

        if (runs_program(line) && (is_end || argv[at][0] != '-')) {
            line->rest = &argv[at + is_end];
            break;
        }
        if (is_end) {
            options_end = true;
        } else if (!options_end && strcmp(argv[at], "-h") == 0) {
            line->globals[HELP] = "";
        } else if (!options_end && argv[at][0] == '-' && argv[at][1] != '\0' &&
                   !begins_number(argv[at] + 1)) {
            int rc = split_option(argv, &at, argc, line);

            if (rc != EXIT_DONE)
                return rc;
        } else if (line->word_count == WORDS_MAX) {
            return ctl_fail(EXIT_USAGE, "too many words, from \"%s\" on", argv[at]);
        } else {
            line->words[line->word_count++] = argv[at];
        }
    }
    return EXIT_DONE;
}

/* "help breaker" is "breaker --help". */
static void take_word_help(struct command_line *line)
{
    if (line->word_count == 0 || strcmp(line->words[0], "help") != 0)
        return;
    line->globals[HELP] = "";
    line->word_count--;
    memmove(line->words, line->words + 1, line->word_count * sizeof *line->words);
}

/* The words so far name a verb that runs a program. */
static bool runs_program(const struct command_line *line)
{
    size_t words;
    const struct verb *verb = find_verb(line, &words);

    return verb != NULL && verb->runs_program && line->word_count == words;
}

static int split_option(char **argv, int *at, int argc, struct command_line *line)
{
    const char *text = argv[*at], *value = NULL;
    const struct verb_option *option = option_of(verb_globals, GLOBALS, text, &value);
    const bool global = option != NULL;

    if (option == NULL)
        option = any_option(text, &value);
    if (option == NULL)
        return no_option(text);
    if (option->value == NULL && value != NULL)
        return ctl_fail(EXIT_USAGE, "--%s takes no value", option->name);
    if (option->value != NULL && value == NULL && !option->value_optional) {
        if (*at + 1 == argc)
            return ctl_fail(EXIT_USAGE, "--%s needs %s", option->name, option->value);
        value = argv[++*at];
    }
    value = value == NULL ? "" : value;
    if (global) {
        line->globals[option - verb_globals] = value;
    } else if (line->option_count == OPTIONS_MAX) {
        return ctl_fail(EXIT_USAGE, "too many options, from %s on", text);
    } else {
        line->options[line->option_count][0] = option->name;
        line->options[line->option_count++][1] = value;
    }
    return EXIT_DONE;
}

/* The row that "--name" or "--name=value" means. *value points behind the equal sign, or is NULL. */
static const struct verb_option *option_of(const struct verb_option *options, size_t count,
                                           const char *text, const char **value)
{
    const size_t bytes = strcspn(text, "=");

    if (bytes < 3 || text[0] != '-' || text[1] != '-')
        return NULL;
    for (size_t i = 0; i < count && options[i].name != NULL; i++) {
        if (strlen(options[i].name) != bytes - 2 ||
            memcmp(options[i].name, text + 2, bytes - 2) != 0)
            continue;
        *value = text[bytes] == '=' ? text + bytes + 1 : NULL;
        return &options[i];
    }
    return NULL;
}

/* An option's name means the same with each verb that has it, so its shape is known before the verb. */
static const struct verb_option *any_option(const char *text, const char **value)
{
    for (size_t i = 0; i < verb_count; i++) {
        const struct verb_option *option =
            option_of(verbs[i].options, VERB_OPTIONS_MAX, text, value);

        if (option != NULL)
            return option;
    }
    return NULL;
}

/* ---- the verb ---- */

static const struct verb *find_verb(const struct command_line *line, size_t *words)
{
    for (size_t i = 0; i < verb_count; i++) {
        *words = words_of(&verbs[i], line);
        if (*words > 0)
            return &verbs[i];
    }
    return NULL;
}

static int no_verb(const struct command_line *line)
{
    const char *first = line->words[0];
    char name[128], hint[HINT_BYTES];
    struct ec_nearest nearest;
    bool is_family = false; /* other verbs begin with the first word */

    for (size_t i = 0; i < verb_count; i++)
        is_family = is_family || begins_with(&verbs[i], first);
    if (is_family && line->word_count == 1)
        return ctl_fail(EXIT_USAGE, "%s what? Try engine-ctl %s --help", first, first);
    for (size_t i = 0; i < EC_COMMANDS; i++)
        if (strcmp(ec_commands[i].method, first) == 0)
            return ctl_fail(EXIT_USAGE, "%s is a method; try engine-ctl call %s", first, first);
    snprintf(name, sizeof name, "%s%s%s", first, line->word_count > 1 ? " " : "",
             line->word_count > 1 ? line->words[1] : "");
    ec_nearest_init(&nearest, name, strlen(name));
    for (size_t i = 0; i < verb_count; i++)
        ec_nearest_offer(&nearest, verbs[i].name);
    if (nearest.best == NULL && line->word_count > 1) { /* the second may be an argument */
        ec_nearest_init(&nearest, first, strlen(first));
        for (size_t i = 0; i < verb_count; i++)
            ec_nearest_offer(&nearest, verbs[i].name);
    }
    return ctl_fail(EXIT_USAGE, "there is no verb \"%s\"%s engine-ctl %s%s--help", name,
                    meant(&nearest, "", hint), is_family ? first : "", is_family ? " " : "");
}

static int no_option(const char *text)
{
    const size_t bytes = strcspn(text, "=");
    struct ec_nearest nearest;
    char hint[HINT_BYTES];

    ec_nearest_init(&nearest, text + 2, bytes > 2 ? bytes - 2 : 0);
    for (size_t i = 0; i < GLOBALS; i++)
        ec_nearest_offer(&nearest, verb_globals[i].name);
    for (size_t v = 0; v < verb_count; v++)
        for (size_t i = 0; i < VERB_OPTIONS_MAX && verbs[v].options[i].name != NULL; i++)
            ec_nearest_offer(&nearest, verbs[v].options[i].name);
    if (bytes < 3 || text[1] != '-')
        nearest.best = NULL;
    return ctl_fail(EXIT_USAGE, "there is no option %s%s engine-ctl --help", text,
                    meant(&nearest, "--", hint));
}

/* ", did you mean NAME? Try" or "; try": a command follows. */
static const char *meant(const struct ec_nearest *nearest, const char *dashes,
                         char hint[HINT_BYTES])
{
    if (nearest->best != NULL)
        snprintf(hint, HINT_BYTES, ", did you mean %s%s? Try", dashes, nearest->best);
    else
        snprintf(hint, HINT_BYTES, "; try");
    return hint;
}

/* How many words of the line name this verb; 0: it is another one. */
static size_t words_of(const struct verb *verb, const struct command_line *line)
{
    const char *second = strchr(verb->name, ' ');
    const size_t first_bytes = second == NULL ? strlen(verb->name) : (size_t)(second - verb->name);

    if (line->word_count == 0 || strlen(line->words[0]) != first_bytes ||
        memcmp(line->words[0], verb->name, first_bytes) != 0)
        return 0;
    if (second == NULL)
        return 1;
    return line->word_count > 1 && strcmp(line->words[1], second + 1) == 0 ? 2 : 0;
}

static bool is_repeatable(const struct verb_option *option)
{
    const size_t bytes = option->value != NULL ? strlen(option->value) : 0;

    return bytes > 3 && strcmp(option->value + bytes - 3, "...") == 0;
}

/* The option is that of another verb. */
static int no_option_here(const struct verb *verb, const char *name)
{
    struct ec_nearest nearest;
    char hint[HINT_BYTES];

    ec_nearest_init(&nearest, name, strlen(name));
    for (size_t i = 0; i < VERB_OPTIONS_MAX && verb->options[i].name != NULL; i++)
        ec_nearest_offer(&nearest, verb->options[i].name);
    return ctl_fail(EXIT_USAGE, "%s: there is no option --%s here%s engine-ctl %s --help",
                    verb->name, name, meant(&nearest, "--", hint), verb->name);
}

static int fill_input(const struct verb *verb, const struct command_line *line, size_t words,
                      struct verb_input *input)
{
    const size_t arguments = line->word_count - words;

    if (arguments < verb->argument_min || arguments > verb->argument_max)
        return ctl_fail(EXIT_USAGE, "%s: %s; try engine-ctl %s --help", verb->name,
                        arguments < verb->argument_min ? "an argument is missing"
                                                       : "too many arguments",
                        verb->name);
    input->rest = line->rest;
    for (size_t i = 0; i < arguments; i++)
        input->arguments[i] = line->words[words + i];
    for (size_t i = 0; i < line->option_count; i++) {
        size_t row = 0;

        while (row < VERB_OPTIONS_MAX && verb->options[row].name != NULL &&
               strcmp(verb->options[row].name, line->options[i][0]) != 0)
            row++;
        if (row == VERB_OPTIONS_MAX || verb->options[row].name == NULL)
            return no_option_here(verb, line->options[i][0]);
        if (!is_repeatable(&verb->options[row]))
            input->options[row] = line->options[i][1];
        else if (input->list_count < VERB_LIST_MAX) {
            input->list_option[input->list_count] = row;
            input->list[input->list_count++] = line->options[i][1];
        } else
            return ctl_fail(EXIT_USAGE, "%s: --%s more than %d times", verb->name,
                            verb->options[row].name, VERB_LIST_MAX);
    }
    return EXIT_DONE;
}

static int apply_globals(struct ctl *ctl, const struct command_line *line)
{
    long long timeout_s;

    ctl->socket_path = line->globals[SOCKET];
    ctl->json = line->globals[JSON] != NULL;
    ctl->dry_run = line->globals[DRY_RUN] != NULL;
    if (line->globals[TIMEOUT] != NULL) {
        if (!verb_number(line->globals[TIMEOUT], 1, TIMEOUT_S_MAX, &timeout_s))
            return ctl_fail(EXIT_USAGE, "--timeout is \"%s\", expected 1..%d",
                            line->globals[TIMEOUT], TIMEOUT_S_MAX);
        ctl->timeout_ms = (int)timeout_s * 1000;
    }
    return EXIT_DONE;
}

/* ---- help ---- */

static int print_help(const struct command_line *line)
{
    bool any = line->word_count == 0;

    if (any)
        puts("engine-ctl - look into engine-cored and tell it what to do\n\n"
             "Usage: engine-ctl [OPTION...] VERB [ARGUMENT...]\n\nVerbs:");
    for (size_t i = 0; i < verb_count; i++) {
        if (line->word_count == 0)
            printf("  %-18s %-16s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].help);
        else if (belongs_to(&verbs[i], line)) {
            print_verb(&verbs[i]);
            any = true;
        }
    }
    if (!any)
        return no_verb(line);
    puts(line->word_count == 0 ? "\nOptions:" : "Options of all verbs:");
    print_options(verb_globals, GLOBALS);
    if (line->word_count == 0) {
        puts("\nExit status: 0 done, 1 the daemon answered an error, 2 usage, 3 no daemon,\n"
             "4 no answer in time, 5 not permitted, 6 incompatible versions.\n\nMethods of call:");
        for (size_t i = 0; i < EC_COMMANDS; i++)
            printf("  %-20s %s\n", ec_commands[i].method, ec_commands[i].help);
    }
    return ctl_flush();
}

/* "breaker --help" is about all verbs that begin so. */
static bool belongs_to(const struct verb *verb, const struct command_line *line)
{
    return words_of(verb, line) > 0 || (line->word_count == 1 && begins_with(verb, line->words[0]));
}

/* The verb has two words, and this is the first. */
static bool begins_with(const struct verb *verb, const char *first)
{
    const size_t bytes = strlen(first);

    return strncmp(verb->name, first, bytes) == 0 && verb->name[bytes] == ' ';
}

static void print_verb(const struct verb *verb)
{
    char shape[SHAPE_BYTES];

    printf("engine-ctl %s%s%s", verb->name, verb->arguments[0] != '\0' ? " " : "", verb->arguments);
    for (size_t i = 0; i < VERB_OPTIONS_MAX && verb->options[i].name != NULL; i++)
        printf(" [%s]", shape_of(&verb->options[i], shape));
    printf("\n    %s\n", verb->help);
    print_options(verb->options, VERB_OPTIONS_MAX);
    putchar('\n');
}

static void print_options(const struct verb_option *options, size_t count)
{
    char shape[SHAPE_BYTES];

    for (size_t i = 0; i < count && options[i].name != NULL; i++)
        printf("    %-22s %s\n", shape_of(&options[i], shape), options[i].help);
}

static const char *shape_of(const struct verb_option *option, char shape[SHAPE_BYTES])
{
    if (option->value == NULL)
        snprintf(shape, SHAPE_BYTES, "--%s", option->name);
    else
        snprintf(shape, SHAPE_BYTES, option->value_optional ? "--%s[=%s]" : "--%s %s", option->name,
                 option->value);
    return shape;
}
