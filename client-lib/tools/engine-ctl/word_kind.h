/* word_kind.h - what an argument, or the value of an option, can be.
 *
 * The tables of verbs call arguments and values by what they are: CLOCK, [GROUP], TYPE..., or
 * "skip|slow|N", where a word in small letters stands for itself. This is what is known of each name:
 * words of the tables, names that the daemon knows at this moment, files.
 *
 * Thread: any. */
#ifndef ENGINE_CTL_WORD_KIND_H
#define ENGINE_CTL_WORD_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct word_kind {
    const char *name;   /* "CLOCK" */
    const char *words;  /* always the same ones; NULL: none, or print_words has them */
    const char *method; /* whose result has those of the daemon; NULL: there are none */
    const char *list;   /* the member of the result that lists them: an array, or an object */
    const char *member; /* of each element: the word; NULL: the name of the object's member */
    const char *help;   /* of each element: a word about it; NULL: none */
    const char *path;   /* "files", "directories" or "programs"; NULL: no such thing */
    void (*print_words)(FILE *out); /* words of a table, between spaces */
};

extern const struct word_kind word_kinds[];
extern const size_t word_kind_count;

/* Its name in small letters, as engine-ctl names takes it: LOG_LEVEL is "log-level". */
#define WORD_KIND_BYTES 16
void word_kind_spell(const struct word_kind *kind, char spelling[WORD_KIND_BYTES]);

/* One of several that are possible, such as "skip" in "skip|slow|N". */
struct word_choice {
    const struct word_kind *kind; /* NULL: the text stands for itself */
    const char *text;
    size_t bytes;
};

/* The next choice at *at, which begins at the name of an argument or value and is NULL at its end;
 * what is of no known kind is passed over. false: there is none left. */
bool word_choice_next(const char **at, struct word_choice *choice);

/* The name of the n-th argument, as in "METHOD [PARAMS]"; NULL: there are fewer. */
const char *word_argument(const char *arguments, size_t n);

#endif
