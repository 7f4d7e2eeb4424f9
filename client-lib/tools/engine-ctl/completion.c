/* engine-ctl completion bash|zsh|fish - from the tables of verbs, commands, keys and metrics.
 *
 * All three scripts work alike: they find the verb among the words before the cursor, and offer its next
 * word, its options, or what its arguments and the values of its options can be (word_kind.h). Names that
 * only the daemon knows are asked for when they are offered: engine-ctl names KIND. A script is a text
 * with {{holes}} in it, which functions fill from the tables. */
#include <stdio.h>
#include <string.h>

#include "engine-ctl/verb.h"
#include "engine-ctl/word_kind.h"
#include "proto/tables/template.h"

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

/* What can stand in the place of a name of the tables, such as "real|game|CLOCK". */
struct offer {
    bool words;       /* there are some that do not change */
    bool names;       /* and some that the daemon knows */
    const char *path; /* "files", "directories", "programs" or NULL */
};

static struct offer offer_of(const char *text)
{
    struct offer offer = { .path = NULL };
    struct word_choice choice;

    while (word_choice_next(&text, &choice)) {
        if (choice.kind != NULL && choice.kind->path != NULL)
            offer.path = choice.kind->path;
        else if (choice.kind != NULL && choice.kind->method != NULL)
            offer.names = true;
        else
            offer.words = true;
    }
    return offer;
}

static bool is_empty(const struct offer *offer)
{
    return !offer->words && !offer->names && offer->path == NULL;
}

enum shell { BASH, ZSH, FISH, SHELLS };

/* How a shell is told to offer paths of that sort; "" when there are none. */
static const char *path_action(const struct offer *offer, enum shell shell)
{
    static const struct {
        const char *path, *actions[SHELLS];
    } rows[] = {
        { "files", { "-f", "_files", " -F" } },
        { "directories", { "-d", "_files -/", " -a '(__fish_complete_directories)'" } },
        { "programs", { "-c", "_command_names -e", " -a '(__fish_complete_command)'" } },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (offer->path != NULL && strcmp(offer->path, rows[i].path) == 0)
            return rows[i].actions[shell];
    return "";
}

/* Those that do not change, between spaces. */
static void print_words(FILE *out, const char *text)
{
    struct word_choice choice;
    bool any = false;

    while (word_choice_next(&text, &choice)) {
        if (choice.kind != NULL && (choice.kind->path != NULL || choice.kind->method != NULL))
            continue;
        if (any)
            fputc(' ', out);
        any = true;
        if (choice.kind == NULL)
            fwrite(choice.text, 1, choice.bytes, out);
        else if (choice.kind->words != NULL)
            fputs(choice.kind->words, out);
        else
            choice.kind->print_words(out);
    }
}

/* The kinds of those that the daemon knows, as engine-ctl names takes them. */
static void print_kinds(FILE *out, const char *text)
{
    char spelling[WORD_KIND_BYTES];
    struct word_choice choice;
    bool any = false;

    while (word_choice_next(&text, &choice)) {
        if (choice.kind == NULL || choice.kind->method == NULL)
            continue;
        word_kind_spell(choice.kind, spelling);
        fprintf(out, "%s%s", any ? " " : "", spelling);
        any = true;
    }
}

/* The name of the n-th argument; NULL: there are fewer. */
static const char *argument_at(const struct verb *verb, size_t n)
{
    if (verb->runs_program)
        return n == 0 ? "PROGRAM" : "FILE";
    return n < verb->argument_max ? word_argument(verb->arguments, n) : NULL;
}

/* So many arguments are offered for. */
static size_t argument_count(const struct verb *verb)
{
    return verb->runs_program ? 2 : verb->argument_max;
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

/* ---- bash and zsh ------------------------------------------------------------------------------ */

static void alternative(FILE *out, const struct verb_option *option)
{
    fprintf(out, "--%s|", option->name);
}

/* All but the last part of a pattern of `case`. */
static void print_valued(FILE *out)
{
    each_valued(out, alternative);
}

/* ---- bash -------------------------------------------------------------------------------------- */

/* What the variables become when this is to be offered. */
static void bash_offer(FILE *out, const char *text)
{
    const struct offer offer = offer_of(text);

    fputs("offer=\"", out);
    print_words(out, text);
    fputs("\" names=\"", out);
    print_kinds(out, text);
    fputs("\" how=", out);
    fputs(path_action(&offer, BASH), out);
}

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
        for (size_t n = 0; n < argument_count(&verbs[v]); n++) {
            const struct offer offer = offer_of(argument_at(&verbs[v], n));

            if (is_empty(&offer))
                continue;
            fprintf(out, "        \"%s/\"%s%zu%s) ", verbs[v].name,
                    verbs[v].runs_program && n > 0 ? "[" : "", n,
                    verbs[v].runs_program && n > 0 ? "-9]*" : "");
            bash_offer(out, argument_at(&verbs[v], n));
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
    fprintf(out, "    --%s) ", option->name);
    bash_offer(out, option->value);
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
        "\n"
        "# _engine_ctl_names PROGRAM SOCKET KIND...: what the daemon knows of these kinds.\n"
        "_engine_ctl_names()\n"
        "{\n"
        "    local program=$1 socket=$2 kind\n"
        "    shift 2\n"
        "    for kind; do\n"
        "        \"$program\" ${socket:+--socket \"$socket\"} --timeout 5 names \"$kind\"\n"
        "    done 2>/dev/null | cut -f 1\n"
        "}\n"
        "\n"
        "_engine_ctl()\n"
        "{\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "    local offer= names= how= options= verb= socket= i word quoted\n"
        "    local -a words=()\n"
        "\n"
        "    COMPREPLY=()\n"
        "    # --name=value is three words here.\n"
        "    if [[ $cur == = ]]; then\n"
        "        cur=\n"
        "    elif [[ $prev == = ]]; then\n"
        "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
        "    fi\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        word=${COMP_WORDS[i]}\n"
        "        case $word in\n"
        "        {{valued}}=)\n"
        "            if [[ ${COMP_WORDS[i + 1]-} == = ]]; then ((i++)); fi\n"
        "            ((i++))\n"
        "            if [[ $word == --socket ]]; then socket=${COMP_WORDS[i]}; fi\n"
        "            ;;\n"
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
        "        names= how=\n"
        "    fi\n"
        "    case $prev in\n"
        "{{values}}"
        "    esac\n"
        "    if [[ -n $how ]]; then\n"
        "        [[ $how == -c ]] || compopt -o filenames 2>/dev/null\n"
        "        mapfile -t COMPREPLY < <(compgen \"$how\" -- \"$cur\")\n"
        "        return\n"
        "    fi\n"
        "    mapfile -t COMPREPLY < <(compgen -W \"$offer\" -- \"$cur\")\n"
        "    [[ -n $names ]] || return 0\n"
        "    # Programs chose these: they are compared as they are, and nothing in them is expanded.\n"
        "    while IFS= read -r word; do\n"
        "        printf -v quoted %q \"$word\"\n"
        "        if [[ $word == \"$cur\"* || $quoted == \"$cur\"* ]]; then COMPREPLY+=(\"$quoted\"); fi\n"
        "    done < <(_engine_ctl_names \"${COMP_WORDS[0]}\" \"$socket\" $names)\n"
        "}\n"
        "complete -F _engine_ctl engine-ctl\n";
    static const struct ec_template_hole holes[] = {
        { "valued", print_valued },  { "first_words", print_first_words },
        { "verbs", bash_verbs },     { "arguments", bash_arguments },
        { "options", bash_options }, { "global_options", print_global_options },
        { "values", bash_values },   { NULL, NULL },
    };

    ec_template_print(out, script, holes);
}

/* ---- zsh --------------------------------------------------------------------------------------- */

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

/* The action of an argument or value: where the words come from. */
static void zsh_offer(FILE *out, const char *text)
{
    const struct offer offer = offer_of(text);

    fputs(path_action(&offer, ZSH), out);
    if (offer.path != NULL || is_empty(&offer))
        return;
    fputs(offer.names ? "{_engine_ctl_names \"" : "(", out);
    if (offer.names) {
        print_kinds(out, text);
        fputs("\" ", out);
    }
    print_words(out, text);
    fputs(offer.names ? "}" : ")", out);
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
        zsh_offer(out, option->value);
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

    if (verb->runs_program && n > 0) {
        fputs(" '*::argument:_normal'", out);
        return;
    }
    fprintf(out, " '%zu:%.*s:", n + 1, name != NULL ? (int)strcspn(name, "|]>. ") : 0,
            name != NULL ? name : "");
    zsh_offer(out, name);
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
        for (size_t n = 0; n < argument_count(&verbs[v]); n++)
            zsh_argument(out, &verbs[v], n);
        fputs(" ;;\n", out);
    }
}

static void print_zsh(FILE *out)
{
    static const char script[] =
        "#compdef engine-ctl\n"
        "# zsh completion of engine-ctl; made by `engine-ctl completion zsh`.\n"
        "\n"
        "# _engine_ctl_names KINDS WORD...: what the daemon knows of these kinds, and the words.\n"
        "_engine_ctl_names() {\n"
        "  local -a found\n"
        "  local kind\n"
        "  for kind in ${(s: :)1}; do\n"
        "    found+=(${(f)\"$($program ${socket:+--socket} $socket --timeout 5 names $kind 2>/dev/null)\"})\n"
        "  done\n"
        "  found=(${found//:/\\\\:})\n"
        "  found=(${found/$'\\t'/:} ${@[2,-1]})\n"
        "  _describe $1 found\n"
        "}\n"
        "\n"
        "_engine_ctl() {\n"
        "  local verb word socket program=$words[1]\n"
        "  local -a found at offer parts\n"
        "  local -i i\n"
        "  for ((i = 2; i < CURRENT; i++)); do\n"
        "    word=$words[i]\n"
        "    case $word in\n"
        "    --socket=*) socket=${word#*=} ;;\n"
        "    {{valued}}--) ((i++)); [[ $word == --socket ]] && socket=$words[i] ;;\n"
        "    -*) ;;\n"
        "    *) found+=($word) at+=($i) ;;\n"
        "    esac\n"
        "  done\n"
        "  case ${found[1]-} in\n"
        "  '') offer=({{first_words}}) ;;\n"
        "{{verbs}}"
        "  esac\n"
        "  if [[ -z $verb ]]; then\n"
        "    if [[ $PREFIX == -* || $words[CURRENT-1] == ({{valued}}--) ]]; then\n"
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
    static const struct ec_template_hole holes[] = {
        { "valued", print_valued }, { "first_words", zsh_first_words },
        { "verbs", zsh_verbs },     { "globals", zsh_globals },
        { "cases", zsh_cases },     { NULL, NULL },
    };

    ec_template_print(out, script, holes);
}

/* ---- fish -------------------------------------------------------------------------------------- */

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

/* Where the words come from; nothing, when nothing is known. */
static void fish_offer(FILE *out, const char *text)
{
    const struct offer offer = offer_of(text);

    fputs(path_action(&offer, FISH), out);
    if (offer.path != NULL || is_empty(&offer))
        return;
    fputs(" -a '", out);
    print_words(out, text);
    if (offer.names) {
        fputs(" (__engine_ctl_names ", out);
        print_kinds(out, text);
        fputc(')', out);
    }
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
    const struct offer offer = offer_of(option->value);

    fprintf(out, "complete -c engine-ctl -l %s", option->name);
    if (verb != NULL)
        fprintf(out, " -n '__engine_ctl_verb \"%s\"'", verb);
    if (option->value != NULL && !option->value_optional)
        fputs(offer.path != NULL ? " -r" : " -x", out);
    fish_offer(out, option->value);
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
    const struct offer offer = offer_of(argument_at(verb, n));

    if (is_empty(&offer))
        return;
    fprintf(out, "complete -c engine-ctl -n '__engine_ctl_at \"%s\" %zu'", verb->name, n);
    fish_offer(out, argument_at(verb, n));
    fputc('\n', out);
}

static void fish_verbs(FILE *out)
{
    for (size_t v = 0; v < verb_count; v++) {
        fish_words(out, v);
        for (size_t o = 0; o < option_count(&verbs[v]); o++)
            fish_option(out, verbs[v].name, &verbs[v].options[o]);
        for (size_t n = 0; n < argument_count(&verbs[v]); n++)
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
        "# What the daemon knows of these kinds.\n"
        "function __engine_ctl_names\n"
        "    set -l words (commandline -opc)\n"
        "    set -l socket (string match -- '--socket=*' $words)\n"
        "    set -l at (contains -i -- --socket $words); and set socket --socket $words[(math $at + 1)]\n"
        "    for kind in $argv\n"
        "        $words[1] $socket --timeout 5 names $kind 2>/dev/null\n"
        "    end\n"
        "end\n"
        "\n"
        "function __engine_ctl_verb\n"
        "    string match -q -- \"$argv[1]*\" (string join ' ' -- (__engine_ctl_words))\n"
        "end\n"
        "\n"
        "complete -c engine-ctl -f\n"
        "{{globals}}"
        "{{verbs}}";
    static const struct ec_template_hole holes[] = {
        { "valued", fish_valued },
        { "globals", fish_globals },
        { "verbs", fish_verbs },
        { NULL, NULL },
    };

    ec_template_print(out, script, holes);
}
