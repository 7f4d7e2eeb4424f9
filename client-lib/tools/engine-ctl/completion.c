/* engine-ctl completion bash|zsh|fish - from the tables of verbs, commands, keys and metrics.
 *
 * All three scripts work alike: they find the verb among the words before the cursor, and offer its next
 * word, its options, or what its arguments and the values of its options can be. The names of arguments
 * and values in the table say what kind they are: FILE, METHOD, KEY, … */
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

static const struct kind kinds[] = {
    { "METHOD", NULL, print_methods },
    { "KEY", NULL, print_keys },
    { "METRIC", NULL, print_conditions },
    { "SHELL", "bash zsh fish", NULL },
    { "LEVEL", "0 1 2 3", NULL },
    { "LOG_LEVEL", "trace debug info warning error", NULL },
    { "TOPIC", "memory clock event breaker resource control", NULL },
    { "CLOCK", "real game physics network ai", NULL },
    { "POLICY", "skip slow", NULL },
    { "FILE", NULL, NULL },
    { "PATH", NULL, NULL },
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

/* The kind whose name stands at text as a whole word; NULL: nothing is known of it. */
static const struct kind *kind_of(const char *text)
{
    size_t bytes;

    if (text == NULL)
        return NULL;
    text += *text == '[';
    bytes = strspn(text, NAME_LETTERS);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].name) == bytes && memcmp(kinds[i].name, text, bytes) == 0)
            return &kinds[i];
    return NULL;
}

static bool is_file(const struct kind *kind)
{
    return kind != NULL && kind->words == NULL && kind->print == NULL;
}

static void print_words(FILE *out, const struct kind *kind)
{
    if (kind->print != NULL)
        kind->print(out);
    else
        fputs(kind->words, out);
}

/* The name of the n-th argument, as in "METHOD [PARAMS]"; NULL: there are fewer. */
static const char *argument_at(const struct verb *verb, size_t n)
{
    const char *at = verb->arguments;

    while (n-- > 0 && at != NULL) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    return at != NULL && *at != '\0' ? at : NULL;
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

/* Is it the first of the verbs that begin with its first word? */
static bool is_first_of_word(size_t v)
{
    for (size_t i = 0; i < v; i++)
        if (first_bytes(&verbs[i]) == first_bytes(&verbs[v]) &&
            memcmp(verbs[i].name, verbs[v].name, first_bytes(&verbs[v])) == 0)
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
        if (first_bytes(&verbs[i]) != first_bytes(&verbs[v]) ||
            memcmp(verbs[i].name, verbs[v].name, first_bytes(&verbs[v])) != 0)
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

/* ---- bash -------------------------------------------------------------------------------------- */

static void bash_valued(FILE *out, const struct verb_option *option)
{
    fprintf(out, "--%s|", option->name);
}

static void bash_value(FILE *out, const struct verb_option *option)
{
    const struct kind *kind = kind_of(option->value);

    fprintf(out, "    --%s) ", option->name);
    if (is_file(kind))
        fputs("files=1", out);
    else if (kind != NULL) {
        fputs("offer=\"", out);
        print_words(out, kind);
        fputc('"', out);
    } else
        fputs(":", out);
    fputs(" ;;\n", out);
}

static void bash_argument(FILE *out, const struct verb *verb, size_t n)
{
    const struct kind *kind = kind_of(argument_at(verb, n));

    if (kind == NULL)
        return;
    fprintf(out, "    \"%s/%zu\") ", verb->name, n);
    if (is_file(kind)) {
        fputs("files=1", out);
    } else {
        fputs("offer=\"", out);
        print_words(out, kind);
        fputc('"', out);
    }
    fputs(" ;;\n", out);
}

static void print_bash(FILE *out)
{
    fputs("# bash completion of engine-ctl; made by `engine-ctl completion bash`.\n"
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
          "        ",
          out);
    each_valued(out, bash_valued);
    fputs("--) ((i++)) ;;\n"
          "        -*) ;;\n"
          "        *) words+=(\"$word\") ;;\n"
          "        esac\n"
          "    done\n"
          "    case ${words[0]-} in\n"
          "    '') offer=\"",
          out);
    print_first_words(out);
    fputs("\" ;;\n", out);
    for (size_t v = 0; v < verb_count; v++) {
        if (!is_first_of_word(v))
            continue;
        fprintf(out, "    %.*s) ", (int)first_bytes(&verbs[v]), verbs[v].name);
        if (second_word(&verbs[v]) != NULL) {
            fputs("if ((${#words[@]} > 1)); then verb=\"${words[0]} ${words[1]}\"; else offer=\"",
                  out);
            print_second_words(out, v);
            fputs("\"; fi ;;\n", out);
        } else {
            fputs("verb=${words[0]} ;;\n", out);
        }
    }
    fputs("    esac\n"
          "    if [[ -n $verb ]]; then\n"
          "        word=($verb)\n"
          "        i=$((${#words[@]} - ${#word[@]}))\n"
          "        case $verb/$i in\n",
          out);
    for (size_t v = 0; v < verb_count; v++)
        for (size_t n = 0; n < verbs[v].argument_max; n++)
            bash_argument(out, &verbs[v], n);
    fputs("        esac\n"
          "        case $verb in\n",
          out);
    for (size_t v = 0; v < verb_count; v++) {
        if (option_count(&verbs[v]) == 0)
            continue;
        fprintf(out, "    \"%s\") options=\"", verbs[v].name);
        for (size_t o = 0; o < option_count(&verbs[v]); o++)
            fprintf(out, "%s--%s", o == 0 ? "" : " ", verbs[v].options[o].name);
        fputs("\" ;;\n", out);
    }
    fputs("        esac\n"
          "    fi\n"
          "    if [[ $cur == -* ]]; then\n"
          "        offer=\"$options ",
          out);
    print_global_options(out);
    fputs("\"\n"
          "        files=\n"
          "    fi\n"
          "    case $prev in\n",
          out);
    each_valued(out, bash_value);
    fputs("    esac\n"
          "    if [[ -n $files ]]; then\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
          "    else\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$offer\" -- \"$cur\")\n"
          "    fi\n"
          "}\n"
          "complete -F _engine_ctl engine-ctl\n",
          out);
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

static void zsh_option(FILE *out, const struct verb_option *option)
{
    const struct kind *kind = kind_of(option->value);
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
        if (is_file(kind)) {
            fputs("_files", out);
        } else if (kind != NULL) {
            fputs("(", out);
            print_words(out, kind);
            fputs(")", out);
        }
    }
    fputs("'", out);
}

static void zsh_verb(FILE *out, const struct verb *verb)
{
    fprintf(out, "    '%s') _arguments", verb->name);
    for (size_t i = 0; i < verb_global_count; i++)
        zsh_option(out, &verb_globals[i]);
    for (size_t o = 0; o < option_count(verb); o++)
        zsh_option(out, &verb->options[o]);
    for (size_t n = 0; n < verb->argument_max; n++) {
        const char *name = argument_at(verb, n);
        const struct kind *kind = kind_of(name);

        fprintf(out, " '%zu:%.*s:", n + 1,
                name != NULL ? (int)strspn(name + (*name == '['), NAME_LETTERS) : 0,
                name != NULL ? name + (*name == '[') : "");
        if (is_file(kind)) {
            fputs("_files", out);
        } else if (kind != NULL) {
            fputs("(", out);
            print_words(out, kind);
            fputs(")", out);
        }
        fputs("'", out);
    }
    fputs(" ;;\n", out);
}

static void zsh_valued(FILE *out, const struct verb_option *option)
{
    fprintf(out, "--%s|", option->name);
}

static void print_zsh(FILE *out)
{
    fputs("#compdef engine-ctl\n"
          "# zsh completion of engine-ctl; made by `engine-ctl completion zsh`.\n"
          "_engine_ctl() {\n"
          "  local verb word\n"
          "  local -a found at offer parts\n"
          "  local -i i\n"
          "  for ((i = 2; i < CURRENT; i++)); do\n"
          "    word=$words[i]\n"
          "    case $word in\n"
          "    ",
          out);
    each_valued(out, zsh_valued);
    fputs("--) ((i++)) ;;\n"
          "    -*) ;;\n"
          "    *) found+=($word) at+=($i) ;;\n"
          "    esac\n"
          "  done\n"
          "  case ${found[1]-} in\n"
          "  '') offer=(",
          out);
    for (size_t v = 0; v < verb_count; v++) {
        if (!is_first_of_word(v))
            continue;
        fprintf(out, "\n    '%.*s:", (int)first_bytes(&verbs[v]), verbs[v].name);
        zsh_text(out, verbs[v].help);
        fputs("'", out);
    }
    fputs(") ;;\n", out);
    for (size_t v = 0; v < verb_count; v++) {
        if (!is_first_of_word(v))
            continue;
        if (second_word(&verbs[v]) == NULL) {
            fprintf(out, "  %s) verb=$found[1] ;;\n", verbs[v].name);
            continue;
        }
        fprintf(out,
                "  %.*s) if ((${#found} > 1)); then verb=\"$found[1] $found[2]\"; else offer=(",
                (int)first_bytes(&verbs[v]), verbs[v].name);
        for (size_t i = v; i < verb_count; i++) {
            if (first_bytes(&verbs[i]) != first_bytes(&verbs[v]) ||
                memcmp(verbs[i].name, verbs[v].name, first_bytes(&verbs[v])) != 0)
                continue;
            fprintf(out, "\n    '%s:", second_word(&verbs[i]));
            zsh_text(out, verbs[i].help);
            fputs("'", out);
        }
        fputs("); fi ;;\n", out);
    }
    fputs("  esac\n"
          "  if [[ -z $verb ]]; then\n"
          "    if [[ $PREFIX == -* ]]; then\n"
          "      _arguments",
          out);
    for (size_t i = 0; i < verb_global_count; i++)
        zsh_option(out, &verb_globals[i]);
    fputs("\n"
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
          "  case $verb in\n",
          out);
    for (size_t v = 0; v < verb_count; v++)
        zsh_verb(out, &verbs[v]);
    fputs("  esac\n"
          "}\n"
          "_engine_ctl \"$@\"\n",
          out);
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

static void fish_option(FILE *out, const char *verb, const struct verb_option *option)
{
    const struct kind *kind = kind_of(option->value);

    fprintf(out, "complete -c engine-ctl -l %s", option->name);
    if (verb != NULL)
        fprintf(out, " -n '__engine_ctl_verb \"%s\"'", verb);
    if (option->value != NULL && !option->value_optional)
        fputs(is_file(kind) ? " -r -F" : " -x", out);
    if (kind != NULL && !is_file(kind)) {
        fputs(" -a '", out);
        print_words(out, kind);
        fputs("'", out);
    }
    fputs(" -d ", out);
    fish_text(out, option->help);
    fputc('\n', out);
}

static void fish_valued(FILE *out, const struct verb_option *option)
{
    fprintf(out, " --%s", option->name);
}

static void print_fish(FILE *out)
{
    fputs("# fish completion of engine-ctl; made by `engine-ctl completion fish`.\n"
          "\n"
          "# The words before the cursor that are no options and no values of them.\n"
          "function __engine_ctl_words\n"
          "    set -l skip 0\n"
          "    for word in (commandline -opc)[2..-1]\n"
          "        if test $skip = 1\n"
          "            set skip 0\n"
          "        else if contains -- $word",
          out);
    each_valued(out, fish_valued);
    fputs("\n"
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
          "complete -c engine-ctl -f\n",
          out);
    for (size_t i = 0; i < verb_global_count; i++)
        fish_option(out, NULL, &verb_globals[i]);
    for (size_t v = 0; v < verb_count; v++) {
        const struct verb *verb = &verbs[v];

        if (is_first_of_word(v)) {
            fprintf(out, "complete -c engine-ctl -n '__engine_ctl_at \"\" 0' -a %.*s -d ",
                    (int)first_bytes(verb), verb->name);
            fish_text(out, verb->help);
            fputc('\n', out);
        }
        if (second_word(verb) != NULL) {
            fprintf(out, "complete -c engine-ctl -n '__engine_ctl_at %.*s 0' -a %s -d ",
                    (int)first_bytes(verb), verb->name, second_word(verb));
            fish_text(out, verb->help);
            fputc('\n', out);
        }
        for (size_t o = 0; o < option_count(verb); o++)
            fish_option(out, verb->name, &verb->options[o]);
        for (size_t n = 0; n < verb->argument_max; n++) {
            const struct kind *kind = kind_of(argument_at(verb, n));

            if (kind == NULL)
                continue;
            fprintf(out, "complete -c engine-ctl -n '__engine_ctl_at \"%s\" %zu' ", verb->name, n);
            if (is_file(kind)) {
                fputs("-F", out);
            } else {
                fputs("-a '", out);
                print_words(out, kind);
                fputs("'", out);
            }
            fputc('\n', out);
        }
    }
}
