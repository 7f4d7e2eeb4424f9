/* arguments.c - see arguments.h.
 *
 * The completions are texts with {{holes}} in them, which functions fill from the table of options. */
#include "daemon/arguments.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/reference.h"
#include "proto/tables.h"
#include "proto/tables/template.h"

#define HELP_COLUMN 19

enum option_id {
    OPTION_SOCKET = 1,
    OPTION_CONFIG,
    OPTION_SET,
    OPTION_CHECK,
    OPTION_PRINT,
    OPTION_VERSION,
    OPTION_HELP
};

static const struct option_row {
    enum option_id id;
    const char *name;
    const char *value; /* NULL: takes none */
    const char *help;  /* lines as they are printed */
} options[] = {
    { OPTION_SOCKET, "socket", "PATH",
      "listen on this socket. Otherwise $ENGINE_CORE_SOCKET; as a user\n"
      "$XDG_RUNTIME_DIR/engine-core.sock; else /run/engine-core/engine-core.sock" },
    { OPTION_CONFIG, "config", "FILE",
      "read this configuration file, and not the standard ones, which are\n"
      "/etc/engine-core/engine-core.json and, over it, as a user\n"
      "$XDG_CONFIG_HOME/engine-core/engine-core.json (~/.config)" },
    { OPTION_SET, "set", "KEY=VALUE", "set one key; wins over the files, may be repeated" },
    { OPTION_CHECK, "check", "FILE",
      "say what is wrong with a configuration file and end: 0 nothing, 1 something" },
    { OPTION_PRINT, "print", "TABLE",
      "print a reference page and end: commands, config, counters, metrics, errors,\n"
      "events; default-config, the configuration file with all defaults; or\n"
      "completion-bash, completion-zsh, completion-fish, for the shells" },
    { OPTION_VERSION, "version", NULL, "print the version and end" },
    { OPTION_HELP, "help", NULL, "print this text and end" },
};
#define OPTIONS (sizeof options / sizeof options[0])

static void print_help(FILE *out);
static int take_set(struct arguments *arguments, const char *text);

int arguments_parse(int argc, char **argv, struct arguments *arguments)
{
    struct option known[OPTIONS + 1] = { 0 };
    int option;

    for (size_t i = 0; i < OPTIONS; i++)
        known[i] = (struct option) { options[i].name,
                                     options[i].value != NULL ? required_argument : no_argument,
                                     NULL, (int)options[i].id };
    arguments->source.sets = arguments->sets;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case OPTION_SOCKET:
            arguments->socket_path = optarg;
            break;
        case OPTION_CONFIG:
            arguments->source.file = optarg;
            break;
        case OPTION_CHECK:
            arguments->check = optarg;
            break;
        case OPTION_PRINT:
            arguments->print = optarg;
            break;
        case OPTION_SET:
            if (take_set(arguments, optarg) < 0)
                return EXIT_USAGE;
            break;
        case OPTION_VERSION:
            puts("engine-cored " EC_VERSION);
            return EXIT_SUCCESS;
        case OPTION_HELP:
            print_help(stdout);
            return EXIT_SUCCESS;
        default: /* getopt_long has said what is wrong */
            fputs("Try engine-cored --help.\n", stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "engine-cored: unexpected argument %s\n", argv[optind]);
        return EXIT_USAGE;
    }
    return -1;
}

static int take_set(struct arguments *arguments, const char *text)
{
    if (arguments->source.set_count == ARGUMENTS_SETS_MAX) {
        fprintf(stderr, "engine-cored: more than %d --set\n", ARGUMENTS_SETS_MAX);
        return -1;
    }
    arguments->sets[arguments->source.set_count++] = text;
    return 0;
}

static void print_help(FILE *out)
{
    fputs("Usage: engine-cored [OPTION]...\n"
          "Run the engine-core daemon in the foreground.\n"
          "\n",
          out);
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *line = options[i].help;
        int used = fprintf(out, "  --%s%s%s", options[i].name, options[i].value != NULL ? " " : "",
                           options[i].value != NULL ? options[i].value : "");

        for (;;) {
            const int bytes = (int)strcspn(line, "\n");

            fprintf(out, "%*s%.*s\n", used < HELP_COLUMN ? HELP_COLUMN - used : 1, "", bytes, line);
            used = 0;
            if (line[bytes] == '\0')
                break;
            line += bytes + 1;
        }
    }
    fputs(
        "\n"
        "Signals: TERM and INT end it in good order, HUP reads the configuration again; a change of its\n"
        "file does so, too.\n"
        "Exit codes: 0 it ended in good order, 1 it could not start (the reason is on stderr), 2 wrong\n"
        "usage.\n",
        out);
}

/* ---- completion -------------------------------------------------------------------------------- */

static bool takes_file(const struct option_row *option)
{
    return option->value != NULL &&
           (strcmp(option->value, "FILE") == 0 || strcmp(option->value, "PATH") == 0);
}

static void print_keys(FILE *out)
{
    for (size_t i = 0; i < EC_CONFIGS; i++)
        fprintf(out, "%s%s=", i == 0 ? "" : " ", ec_configs[i].key);
}

static void print_tables(FILE *out)
{
    const char *name;

    for (size_t i = 0; (name = reference_table(i)) != NULL; i++)
        fprintf(out, "%s%s", i == 0 ? "" : " ", name);
}

static void print_options(FILE *out)
{
    for (size_t i = 0; i < OPTIONS; i++)
        fprintf(out, "%s--%s", i == 0 ? "" : " ", options[i].name);
}

static void print_file_options(FILE *out)
{
    bool any = false;

    for (size_t i = 0; i < OPTIONS; i++)
        if (takes_file(&options[i])) {
            fprintf(out, "%s--%s", any ? "|" : "", options[i].name);
            any = true;
        }
}

/* The first line of it, within single quotes. */
static void print_short_help(FILE *out, const char *help, const char *escaped)
{
    for (; *help != '\0' && *help != '\n' && *help != ';'; help++) {
        if (*help == '\'')
            fputs("'\\''", out);
        else if (strchr(escaped, *help) != NULL)
            fprintf(out, "\\%c", *help);
        else
            fputc(*help, out);
    }
}

/* The words that the value of an option may be. */
static void print_values(FILE *out, const struct option_row *option)
{
    if (option->id == OPTION_SET)
        print_keys(out);
    else if (option->id == OPTION_PRINT)
        print_tables(out);
}

static void print_zsh_options(FILE *out)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        fprintf(out, " \\\n  '%s--%s%s[", options[i].id == OPTION_SET ? "*" : "", options[i].name,
                options[i].value != NULL ? "=" : "");
        print_short_help(out, options[i].help, ":[]");
        fputc(']', out);
        if (takes_file(&options[i])) {
            fprintf(out, ":%s:_files", options[i].value);
        } else if (options[i].value != NULL) {
            /* What follows KEY= is the user's: no space. */
            fprintf(out, ":%s:{compadd %s-- ", options[i].value,
                    options[i].id == OPTION_SET ? "-S \"\" " : "");
            print_values(out, &options[i]);
            fputc('}', out);
        }
        fputc('\'', out);
    }
}

static void print_fish_options(FILE *out)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        fprintf(out, "complete -c engine-cored -l %s", options[i].name);
        if (takes_file(&options[i])) {
            fputs(" -r -F", out);
        } else if (options[i].value != NULL) {
            fputs(" -x -a '", out);
            print_values(out, &options[i]);
            fputc('\'', out);
        }
        fputs(" -d '", out);
        print_short_help(out, options[i].help, "\\");
        fputs("'\n", out);
    }
}

static const struct ec_template_hole holes[] = {
    { "options", print_options },
    { "file_options", print_file_options },
    { "keys", print_keys },
    { "tables", print_tables },
    { "zsh_options", print_zsh_options },
    { "fish_options", print_fish_options },
    { NULL, NULL },
};

void completion_print_bash(FILE *out)
{
    ec_template_print(
        out,
        "# bash completion of engine-cored; made by `engine-cored --print completion-bash`.\n"
        "_engine_cored()\n"
        "{\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "    local offer=\"{{options}}\"\n"
        "\n"
        "    COMPREPLY=()\n"
        "    # --name=value is three words here.\n"
        "    if [[ $cur == = ]]; then\n"
        "        cur=\n"
        "    elif [[ $prev == = ]]; then\n"
        "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
        "    fi\n"
        "    case $prev in\n"
        "    {{file_options}})\n"
        "        compopt -o filenames 2>/dev/null\n"
        "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
        "        return ;;\n"
        "    --set)\n"
        "        compopt -o nospace 2>/dev/null\n"
        "        offer=\"{{keys}}\" ;;\n"
        "    --print) offer=\"{{tables}}\" ;;\n"
        "    esac\n"
        "    mapfile -t COMPREPLY < <(compgen -W \"$offer\" -- \"$cur\")\n"
        "}\n"
        "complete -F _engine_cored engine-cored\n",
        holes);
}

void completion_print_zsh(FILE *out)
{
    ec_template_print(
        out,
        "#compdef engine-cored\n"
        "# zsh completion of engine-cored; made by `engine-cored --print completion-zsh`.\n"
        "_arguments{{zsh_options}}\n",
        holes);
}

void completion_print_fish(FILE *out)
{
    ec_template_print(
        out,
        "# fish completion of engine-cored; made by `engine-cored --print completion-fish`.\n"
        "complete -c engine-cored -f\n"
        "{{fish_options}}",
        holes);
}
