/* engine-ctl names KIND - what there is to be named, one a line, for scripts and the shells' completions. */
#include <stdlib.h>
#include <string.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"
#include "engine-ctl/word_kind.h"

static const struct word_kind *find_kind(const char *name);
static int no_kind(const char *name);
static void add_table_words(cJSON *words, const struct word_kind *kind);
static int add_daemon_words(struct ctl *ctl, cJSON *words, const struct word_kind *kind);
static void add_list(cJSON *words, const struct word_kind *kind, const cJSON *result,
                     const char *list);
static void add_element(cJSON *words, const struct word_kind *kind, const cJSON *element);
static void add_word(cJSON *words, const char *name, const char *about);
static void print_words(const struct ctl *ctl, const cJSON *words);

int verb_names(struct ctl *ctl, const struct verb_input *input)
{
    const struct word_kind *kind = find_kind(input->arguments[0]);
    cJSON *words;
    int rc = EXIT_DONE;

    if (kind == NULL)
        return no_kind(input->arguments[0]);
    words = cJSON_CreateArray(); /* of {name, about} */
    if (kind->method != NULL)
        rc = add_daemon_words(ctl, words, kind);
    else
        add_table_words(words, kind);
    if (rc == EXIT_DONE) {
        print_words(ctl, words);
        rc = ctl_flush();
    }
    cJSON_Delete(words);
    return rc;
}

/* By its name in small letters. */
static const struct word_kind *find_kind(const char *name)
{
    char spelling[WORD_KIND_BYTES];

    for (size_t i = 0; i < word_kind_count; i++) {
        word_kind_spell(&word_kinds[i], spelling);
        if (word_kinds[i].path == NULL && strcmp(spelling, name) == 0)
            return &word_kinds[i];
    }
    return NULL;
}

static int no_kind(const char *name)
{
    char known[1024] = "";
    FILE *out = fmemopen(known, sizeof known, "w");

    for (size_t i = 0; out != NULL && i < word_kind_count; i++)
        if (strcmp(word_kinds[i].name, "KIND") == 0)
            word_kinds[i].print_words(out);
    if (out != NULL)
        fclose(out);
    return ctl_fail(EXIT_USAGE, "names: there is no kind %s; there are: %s", name, known);
}

static void add_table_words(cJSON *words, const struct word_kind *kind)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (out == NULL)
        return;
    if (kind->print_words != NULL)
        kind->print_words(out);
    else
        fputs(kind->words, out);
    fclose(out);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        add_word(words, word, "");
    free(text);
}

/* All pages of them. */
static int add_daemon_words(struct ctl *ctl, cJSON *words, const struct word_kind *kind)
{
    char *params = NULL;
    int rc;

    do {
        struct json_answer answer;
        const char *next;

        rc = ctl_call(ctl, kind->method, params, &answer);
        cJSON_free(params);
        params = NULL;
        if (rc == EXIT_DONE)
            add_list(words, kind, answer.tree, kind->list);
        next = rc == EXIT_DONE ? json_text(answer.tree, "next") : "";
        if (next[0] != '\0') {
            cJSON *object = cJSON_CreateObject();

            cJSON_AddStringToObject(object, "after", next);
            params = json_params(object);
        }
        json_answer_finish(&answer);
    } while (params != NULL);
    return rc;
}

/* list is the name of a member, or "items/tags": the tags of each item. */
static void add_list(cJSON *words, const struct word_kind *kind, const cJSON *result,
                     const char *list)
{
    const char *inner = strchr(list, '/');
    const cJSON *element;
    char name[32];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(list, "/"), list);
    cJSON_ArrayForEach(element, json_member(result, name))
    {
        if (inner != NULL)
            add_list(words, kind, element, inner + 1);
        else
            add_element(words, kind, element);
    }
}

static bool has_word(const cJSON *words, const char *name)
{
    const cJSON *word;

    cJSON_ArrayForEach(word, words)
    {
        if (strcmp(json_text(word, "name"), name) == 0)
            return true;
    }
    return false;
}

static void add_element(cJSON *words, const struct word_kind *kind, const cJSON *element)
{
    const cJSON *member = kind->member != NULL ? json_member(element, kind->member) : NULL;
    const char *about = kind->help != NULL ? json_text(element, kind->help) : "";
    char number[TEXT_BYTES];

    if (strchr(kind->list, '/') != NULL && has_word(words, json_text(element, kind->member)))
        return; /* another process has it, too */
    snprintf(number, sizeof number, "%.0f", cJSON_IsNumber(member) ? member->valuedouble : 0);
    if (kind->member == NULL)
        add_word(words, element->string, about);
    else
        add_word(words, cJSON_IsString(member) ? member->valuestring : number, about);
}

static void add_word(cJSON *words, const char *name, const char *about)
{
    cJSON *word = cJSON_CreateObject();

    cJSON_AddStringToObject(word, "name", name);
    cJSON_AddStringToObject(word, "about", about);
    cJSON_AddItemToArray(words, word);
}

/* The name, and behind a tab what it is. Programs chose most of these, so none may drive a terminal. */
static void print_words(const struct ctl *ctl, const cJSON *words)
{
    const cJSON *word;

    if (ctl->json) {
        char *text = cJSON_PrintUnformatted(words);

        printf("{\"items\":%s}\n", text != NULL ? text : "[]");
        cJSON_free(text);
        return;
    }
    cJSON_ArrayForEach(word, words)
    {
        char *name = tame_copy(json_text(word, "name"));
        char *about = tame_copy(json_text(word, "about"));

        printf(about[0] != '\0' ? "%s\t%s\n" : "%s\n", name, about);
        free(name);
        free(about);
    }
}
