/* engine-ctl completion bash|zsh|fish - from the tables of verbs, commands, keys and metrics.
 *
 * All three scripts work alike: they find the verb among the words before the cursor, and offer its next
 * word, its options, or what its arguments and the values of its options can be. The names of arguments
 * and values in the table say what kind they are: FILE, METHOD, KEY, … A script is a text with {{holes}}
 * in it, which functions fill from the tables. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine-ctl/metric.h"
#include "engine-ctl/verb.h"
#include "proto/tables.h"

#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"

/* What an argument or the value of an option can be, by its name in the tables of verbs. */
struct kind {
    const char *name;
    const char *words; /* NULL: files, or the list below */
    void (*print)(FILE *out);
};

static void print_methods(FILE *out);
static void print_keys(FILE *out);
static void print_conditions(FILE *out);
static void print_topics(FILE *out);

static const struct kind kinds[] = {
    { "METHOD", NULL, print_methods },
    { "KEY", NULL, print_keys },
    { "METRIC", NULL, print_conditions },
    { "SHELL", "bash zsh fish", NULL },
    { "LEVEL", "0 1 2 3", NULL },
    { "LOG_LEVEL", "trace debug info warning error", NULL },
    { "TOPIC", NULL, print_topics },
    { "CLOCK", "real game physics network ai", NULL },
    { "POLICY", "skip slow", NULL },
    { "FILE", NULL, NULL },
    { "PATH", NULL, NULL },
};

/* How a shell writes what is offered. */
struct syntax {
    const char *files;
    const char *open, *close; /* around words */
};

struct hole {
    const char *name;
    void (*fill)(FILE *out);
};

static void print_bash(FILE *out);
static void print_zsh(FILE *out);
static void print_fish(FILE *out);

int verb_completion(struct ctl *ctl, const struct verb_input *input)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };

    (void)ctl;
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (strcmp(shells[i].name, input->arguments[0]) == 0) {
            shells[i].print(stdout);
            return ctl_flush();
        }
    return ctl_fail(EXIT_USAGE, "completion: there is none for %s, but for bash, zsh and fish",
                    input->arguments[0]);
}

/* ---- what the tables say ----------------------------------------------------------------------- */

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

static void print_conditions(FILE *out)
{
    char name[METRIC_NAME_BYTES];

    fputs("ready", out);
    for (size_t i = 0; i < EC_METRICS; i++) {
        metric_name(&ec_metrics[i], name);
        fprintf(out, " %s", name);
    }
}

static void print_topics(FILE *out)
{
    for (unsigned i = 0; i < EC_TOPICS; i++)
        fprintf(out, "%s%s", i == 0 ? "" : " ", ec_topic_name((enum ec_topic)i));
}

/* The kind whose name stands at text as a whole word; NULL: nothing is known of it. */
static const struct kind *kind_of(const char *text)
{
    const size_t bytes = text != NULL ? strspn(text, NAME_LETTERS) : 0;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].name) == bytes && memcmp(kinds[i].name, text, bytes) == 0)
            return &kinds[i];
    return NULL;
}

static bool is_file(const struct kind *kind)
{
    return kind != NULL && kind->words == NULL && kind->print == NULL;
}

/* Nothing, when nothing is known. */
static void print_offer(FILE *out, const struct kind *kind, const struct syntax *syntax)
{
    if (kind == NULL)
        return;
    if (is_file(kind)) {
        fputs(syntax->files, out);
        return;
    }
    fputs(syntax->open, out);
    if (kind->print != NULL)
        kind->print(out);
    else
        fputs(kind->words, out);
    fputs(syntax->close, out);
}

/* The name of the n-th argument, as in "METHOD [PARAMS]"; NULL: there are fewer. */
static const char *argument_at(const struct verb *verb, size_t n)
{
    const char *at = verb->arguments;

    while (n-- > 0 && at != NULL) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    return at != NULL && *at != '\0' ? at + (*at == '[') : NULL;
}

static const char *second_word(const struct verb *verb)
{
    const char *space = strchr(verb->name, ' ');

    return space != NULL ? space + 1 : NULL;
}

static size_t first_bytes(const struct verb *verb)
{
    return strcspn(verb->name, " ");
}

static bool begin_alike(const struct verb *a, const struct verb *b)
{
    return first_bytes(a) == first_bytes(b) && memcmp(a->name, b->name, first_bytes(a)) == 0;
}

/* Is it the first of the verbs that begin with its first word? */
static bool is_first_of_word(size_t v)
{
    for (size_t i = 0; i < v; i++)
        if (begin_alike(&verbs[i], &verbs[v]))
            return false;
    return true;
}

static size_t option_count(const struct verb *verb)
{
    size_t count = 0;

    while (count < VERB_OPTIONS_MAX && verb->options[count].name != NULL)
        count++;
    return count;
}

/* Has an earlier verb, or all of them, an option of this name? */
static bool was_seen(size_t v, const char *name)
{
    for (size_t i = 0; i < verb_global_count; i++)
        if (strcmp(verb_globals[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < v; i++)
        for (size_t o = 0; o < option_count(&verbs[i]); o++)
            if (strcmp(verbs[i].options[o].name, name) == 0)
                return true;
    return false;
}

/* Call take with each option that has a value behind it, each name once. */
static void each_valued(FILE *out, void (*take)(FILE *out, const struct verb_option *option))
{
    for (size_t i = 0; i < verb_global_count; i++)
        if (verb_globals[i].value != NULL && !verb_globals[i].value_optional)
            take(out, &verb_globals[i]);
    for (size_t v = 0; v < verb_count; v++)
        for (size_t o = 0; o < option_count(&verbs[v]); o++) {
            const struct verb_option *option = &verbs[v].options[o];

            if (option->value != NULL && !option->value_optional && !was_seen(v, option->name))
                take(out, option);
        }
}

static void print_first_words(FILE *out)
{
    bool any = false;

    for (size_t v = 0; v < verb_count; v++) {
        if (!is_first_of_word(v))
            continue;
        fprintf(out, "%s%.*s", any ? " " : "", (int)first_bytes(&verbs[v]), verbs[v].name);
        any = true;
    }
}

/* The second words of the verbs that begin like this one. */
static void print_second_words(FILE *out, size_t v)
{
    bool any = false;

    for (size_t i = v; i < verb_count; i++) {
        if (!begin_alike(&verbs[i], &verbs[v]))
            continue;
        fprintf(out, "%s%s", any ? " " : "", second_word(&verbs[i]));
        any = true;
    }
}

static void print_global_options(FILE *out)
{
    for (size_t i = 0; i < verb_global_count; i++)
        fprintf(out, "%s--%s", i == 0 ? "" : " ", verb_globals[i].name);
}

/* The text with its holes filled. The last hole has no name. */
static void print_template(FILE *out, const char *text, const struct hole *holes)
{
    const char *open;

    while ((open = strstr(text, "{{")) != NULL) {
        const char *name = open + 2;
        const size_t bytes = strcspn(name, "}");
        const struct hole *hole = holes;

        fwrite(text, 1, (size_t)(open - text), out);
        while (strlen(hole->name) != bytes || memcmp(hole->name, name, bytes) != 0) {
            hole++;
            assert(hole->name != NULL);
        }
        hole->fill(out);
        text = name + bytes + 2;
    }
    fputs(text, out);
}

/* ---- bash and zsh ------------------------------------------------------------------------------ */

static void alternative(FILE *out, const struct verb_option *option)
{
    fprintf(out, "--%s|", option->name);
}

/* The first part of a pattern of `case`. */
static void print_valued(FILE *out)
{
    each_valued(out, alternative);
}

/* ---- bash -------------------------------------------------------------------------------------- */

static const struct syntax bash_syntax = { "files=1", "offer=\"", "\"" };

static void bash_verbs(FILE *out)
{
    for (size_t v = 0; v < verb_count; v++) {
        if (!is_first_of_word(v))
            continue;
        fprintf(out, "    %.*s) ", (int)first_bytes(&verbs[v]), verbs[v].name);
        if (second_word(&verbs[v]) == NULL) {
            fputs("verb=${words[0]} ;;\n", out);
            continue;
        }
        fputs("if ((${#words[@]} > 1)); then verb=\"${words[0]} ${words[1]}\"; else offer=\"", out);
        print_second_words(out, v);
        fputs("\"; fi ;;\n", out);
    }
}

static void bash_arguments(FILE *out)
{
    for (size_t v = 0; v < verb_count; v++)
        for (size_t n = 0; n < verbs[v].argument_max; n++) {
            const struct kind *kind = kind_of(argument_at(&verbs[v], n));

            if (kind == NULL)
                continue;
            fprintf(out, "    \"%s/%zu\") ", verbs[v].name, n);
            print_offer(out, kind, &bash_syntax);
            fputs(" ;;\n", out);
        }
}

static void bash_options(FILE *out)
{
    for (size_t v = 0; v < verb_count; v++) {
        if (option_count(&verbs[v]) == 0)
            continue;
        fprintf(out, "    \"%s\") options=\"", verbs[v].name);
        for (size_t o = 0; o < option_count(&verbs[v]); o++)
            fprintf(out, "%s--%s", o == 0 ? "" : " ", verbs[v].options[o].name);
        fputs("\" ;;\n", out);
    }
}

static void bash_value(FILE *out, const struct verb_option *option)
{
    const struct kind *kind = kind_of(option->value);

    fprintf(out, "    --%s) ", option->name);
    if (kind == NULL)
        fputs(":", out);
    print_offer(out, kind, &bash_syntax);
    fputs(" ;;\n", out);
}

static void bash_values(FILE *out)
{
    each_valued(out, bash_value);
}

static void print_bash(FILE *out)
{
    static const char script[] =
        "# bash completion of engine-ctl; made by `engine-ctl completion bash`.\n"
        "_engine_ctl()\n"
        "{\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "    local offer= options= files= verb= i word\n"
        "    local -a words=()\n"
        "\n"
        "    COMPREPLY=()\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        word=${COMP_WORDS[i]}\n"
        "        case $word in\n"
        "        {{valued}}--) ((i++)) ;;\n"
        "        -*) ;;\n"
        "        *) words+=(\"$word\") ;;\n"
        "        esac\n"
        "    done\n"
        "    case ${words[0]-} in\n"
        "    '') offer=\"{{first_words}}\" ;;\n"
        "{{verbs}}"
        "    esac\n"
        "    if [[ -n $verb ]]; then\n"
        "        word=($verb)\n"
        "        i=$((${#words[@]} - ${#word[@]}))\n"
        "        case $verb/$i in\n"
        "{{arguments}}"
        "        esac\n"
        "        case $verb in\n"
        "{{options}}"
        "        esac\n"
        "    fi\n"
        "    if [[ $cur == -* ]]; then\n"
        "        offer=\"$options {{global_options}}\"\n"
        "        files=\n"
        "    fi\n"
        "    case $prev in\n"
        "{{values}}"
        "    esac\n"
        "    if [[ -n $files ]]; then\n"
        "        compopt -o filenames 2>/dev/null\n"
        "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
        "    else\n"
        "        mapfile -t COMPREPLY < <(compgen -W \"$offer\" -- \"$cur\")\n"
        "    fi\n"
        "}\n"
        "complete -F _engine_ctl engine-ctl\n";
    static const struct hole holes[] = {
        { "valued", print_valued },  { "first_words", print_first_words },
        { "verbs", bash_verbs },     { "arguments", bash_arguments },
        { "options", bash_options }, { "global_options", print_global_options },
        { "values", bash_values },   { NULL, NULL },
    };

    print_template(out, script, holes);
}

/* ---- zsh --------------------------------------------------------------------------------------- */

static const struct syntax zsh_syntax = { "_files", "(", ")" };

/* Within single quotes, and where a colon would end the name. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else if (*text == ':' || *text == '[' || *text == ']')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

/* A word of a list, and what it does. */
static void zsh_item(FILE *out, const char *word, size_t bytes, const char *help)
{
    fprintf(out, "\n    '%.*s:", (int)bytes, word);
    zsh_text(out, help);
    fputs("'", out);
}

static void zsh_option(FILE *out, const struct verb_option *option)
{
    const bool again = option->value != NULL && strstr(option->value, "...") != NULL;

    fprintf(out, " '%s--%s%s[", again ? "*" : "", option->name,
            option->value == NULL    ? ""
            : option->value_optional ? "=-"
                                     : "=");
    zsh_text(out, option->help);
    fputs("]", out);
    if (option->value != NULL) {
        fprintf(out, "%s%.*s:", option->value_optional ? "::" : ":",
                (int)strcspn(option->value, "."), option->value);
        print_offer(out, kind_of(option->value), &zsh_syntax);
    }
    fputs("'", out);
}

static void zsh_globals(FILE *out)
{
    for (size_t i = 0; i < verb_global_count; i++)
        zsh_option(out, &verb_globals[i]);
}

static void zsh_first_words(FILE *out)
{
    for (size_t v = 0; v < verb_count; v++)
        if (is_first_of_word(v))
            zsh_item(out, verbs[v].name, first_bytes(&verbs[v]), verbs[v].help);
}

static void zsh_verbs(FILE *out)
{
    for (size_t v = 0; v < verb_count; v++) {
        if (!is_first_of_word(v))
            continue;
        fprintf(out, "  %.*s) ", (int)first_bytes(&verbs[v]), verbs[v].name);
        if (second_word(&verbs[v]) == NULL) {
            fputs("verb=$found[1] ;;\n", out);
            continue;
        }
        fputs("if ((${#found} > 1)); then verb=\"$found[1] $found[2]\"; else offer=(", out);
        for (size_t i = v; i < verb_count; i++)
            if (begin_alike(&verbs[i], &verbs[v]))
                zsh_item(out, second_word(&verbs[i]), strlen(second_word(&verbs[i])),
                         verbs[i].help);
        fputs("); fi ;;\n", out);
    }
}

static void zsh_argument(FILE *out, const struct verb *verb, size_t n)
{
    const char *name = argument_at(verb, n);

    fprintf(out, " '%zu:%.*s:", n + 1, name != NULL ? (int)strspn(name, NAME_LETTERS) : 0,
            name != NULL ? name : "");
    print_offer(out, kind_of(name), &zsh_syntax);
    fputs("'", out);
}

/* The options and arguments of each. */
static void zsh_cases(FILE *out)
{
    for (size_t v = 0; v < verb_count; v++) {
        fprintf(out, "    '%s') _arguments", verbs[v].name);
        zsh_globals(out);
        for (size_t o = 0; o < option_count(&verbs[v]); o++)
            zsh_option(out, &verbs[v].options[o]);
        for (size_t n = 0; n < verbs[v].argument_max; n++)
            zsh_argument(out, &verbs[v], n);
        fputs(" ;;\n", out);
    }
}

static void print_zsh(FILE *out)
{
    static const char script[] =
        "#compdef engine-ctl\n"
        "# zsh completion of engine-ctl; made by `engine-ctl completion zsh`.\n"
        "_engine_ctl() {\n"
        "  local verb word\n"
        "  local -a found at offer parts\n"
        "  local -i i\n"
        "  for ((i = 2; i < CURRENT; i++)); do\n"
        "    word=$words[i]\n"
        "    case $word in\n"
        "    {{valued}}--) ((i++)) ;;\n"
        "    -*) ;;\n"
        "    *) found+=($word) at+=($i) ;;\n"
        "    esac\n"
        "  done\n"
        "  case ${found[1]-} in\n"
        "  '') offer=({{first_words}}) ;;\n"
        "{{verbs}}"
        "  esac\n"
        "  if [[ -z $verb ]]; then\n"
        "    if [[ $PREFIX == -* ]]; then\n"
        "      _arguments{{globals}}\n"
        "    else\n"
        "      _describe 'verb' offer\n"
        "    fi\n"
        "    return\n"
        "  fi\n"
        "  # What is left are options and arguments, as of a program of their own.\n"
        "  parts=(${(s: :)verb})\n"
        "  for ((i = ${#parts}; i > 0; i--)); do\n"
        "    words[$at[i]]=()\n"
        "    ((CURRENT--))\n"
        "  done\n"
        "  case $verb in\n"
        "{{cases}}"
        "  esac\n"
        "}\n"
        "_engine_ctl \"$@\"\n";
    static const struct hole holes[] = {
        { "valued", print_valued }, { "first_words", zsh_first_words },
        { "verbs", zsh_verbs },     { "globals", zsh_globals },
        { "cases", zsh_cases },     { NULL, NULL },
    };

    print_template(out, script, holes);
}

/* ---- fish -------------------------------------------------------------------------------------- */

static const struct syntax fish_syntax = { "-F", "-a '", "'" };

static void fish_text(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text != '\0'; text++)
        if (*text == '\'' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    fputc('\'', out);
}

/* The end of a line: what it does. */
static void fish_help(FILE *out, const char *help)
{
    fputs(" -d ", out);
    fish_text(out, help);
    fputc('\n', out);
}

static void fish_option(FILE *out, const char *verb, const struct verb_option *option)
{
    const struct kind *kind = kind_of(option->value);

    fprintf(out, "complete -c engine-ctl -l %s", option->name);
    if (verb != NULL)
        fprintf(out, " -n '__engine_ctl_verb \"%s\"'", verb);
    if (option->value != NULL && !option->value_optional)
        fputs(is_file(kind) ? " -r -F" : " -x", out);
    if (kind != NULL && !is_file(kind)) {
        fputc(' ', out);
        print_offer(out, kind, &fish_syntax);
    }
    fish_help(out, option->help);
}

static void fish_word(FILE *out, const struct verb_option *option)
{
    fprintf(out, " --%s", option->name);
}

static void fish_valued(FILE *out)
{
    each_valued(out, fish_word);
}

static void fish_globals(FILE *out)
{
    for (size_t i = 0; i < verb_global_count; i++)
        fish_option(out, NULL, &verb_globals[i]);
}

static void fish_words(FILE *out, size_t v)
{
    const struct verb *verb = &verbs[v];

    if (is_first_of_word(v)) {
        fprintf(out, "complete -c engine-ctl -n '__engine_ctl_at \"\" 0' -a %.*s",
                (int)first_bytes(verb), verb->name);
        fish_help(out, verb->help);
    }
    if (second_word(verb) != NULL) {
        fprintf(out, "complete -c engine-ctl -n '__engine_ctl_at %.*s 0' -a %s",
                (int)first_bytes(verb), verb->name, second_word(verb));
        fish_help(out, verb->help);
    }
}

static void fish_argument(FILE *out, const struct verb *verb, size_t n)
{
    const struct kind *kind = kind_of(argument_at(verb, n));

    if (kind == NULL)
        return;
    fprintf(out, "complete -c engine-ctl -n '__engine_ctl_at \"%s\" %zu' ", verb->name, n);
    print_offer(out, kind, &fish_syntax);
    fputc('\n', out);
}

static void fish_verbs(FILE *out)
{
    for (size_t v = 0; v < verb_count; v++) {
        fish_words(out, v);
        for (size_t o = 0; o < option_count(&verbs[v]); o++)
            fish_option(out, verbs[v].name, &verbs[v].options[o]);
        for (size_t n = 0; n < verbs[v].argument_max; n++)
            fish_argument(out, &verbs[v], n);
    }
}

static void print_fish(FILE *out)
{
    static const char script[] =
        "# fish completion of engine-ctl; made by `engine-ctl completion fish`.\n"
        "\n"
        "# The words before the cursor that are no options and no values of them.\n"
        "function __engine_ctl_words\n"
        "    set -l skip 0\n"
        "    for word in (commandline -opc)[2..-1]\n"
        "        if test $skip = 1\n"
        "            set skip 0\n"
        "        else if contains -- $word{{valued}}\n"
        "            set skip 1\n"
        "        else if not string match -q -- '-*' $word\n"
        "            echo $word\n"
        "        end\n"
        "    end\n"
        "end\n"
        "\n"
        "# Are these the words, and so many arguments behind them?\n"
        "function __engine_ctl_at\n"
        "    set -l words (__engine_ctl_words)\n"
        "    set -l verb (string split -n ' ' -- $argv[1])\n"
        "    set -l n (count $verb)\n"
        "    test (count $words) -eq (math $n + $argv[2]); or return 1\n"
        "    test $n -eq 0; and return 0\n"
        "    test \"$words[1..$n]\" = \"$argv[1]\"\n"
        "end\n"
        "\n"
        "function __engine_ctl_verb\n"
        "    string match -q -- \"$argv[1]*\" (string join ' ' -- (__engine_ctl_words))\n"
        "end\n"
        "\n"
        "complete -c engine-ctl -f\n"
        "{{globals}}"
        "{{verbs}}";
    static const struct hole holes[] = {
        { "valued", fish_valued },
        { "globals", fish_globals },
        { "verbs", fish_verbs },
        { NULL, NULL },
    };

    print_template(out, script, holes);
}
