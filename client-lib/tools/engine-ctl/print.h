/* print.h - what people read: aligned columns, IEC units, durations, colours.
 *
 *     struct table table = { .columns = columns, .column_count = 3 };
 *
 *     table_cell(&table, "%s", name);
 *     …
 *     table_print(&table, stdout, colours);
 *
 * Texts of other processes are shown as they are, except that control characters become '?': a name
 * must not be able to drive the terminal.
 *
 * Thread: one. */
#ifndef ENGINE_CTL_PRINT_H
#define ENGINE_CTL_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct column {
    const char *title;
    bool right; /* numbers */
};

#define TABLE_COLUMNS_MAX 16

struct table {
    const struct column *columns;
    size_t column_count;
    char **cells; /* row by row */
    size_t cell_count, cell_capacity;
};

/* The next cell; rows fill up from the left. */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Print with the title row, and empty the table. */
void table_print(struct table *table, FILE *out, bool colours);

/* Into a buffer of TEXT_BYTES, which is returned. */
#define TEXT_BYTES 32
char *bytes_text(char buffer[TEXT_BYTES], double bytes);   /* 12.3 MiB */
char *duration_text(char buffer[TEXT_BYTES], double ns);   /* 12.3 us, 2 h 5 min */
char *latency_text(char buffer[TEXT_BYTES], double ns);    /* 12.3 us; - when none was measured */
char *number_text(char buffer[TEXT_BYTES], double number); /* 12.3 k */

/* How many bytes of a line fit so many columns. Colours take none. */
size_t fitting_bytes(const char *line, size_t bytes, unsigned columns);

/* A text with control characters replaced, in place. Accepts NULL. */
char *tame(char *text);
/* A tame copy, never NULL: without memory for it the program ends. The caller frees it. */
char *tame_copy(const char *text);

enum style { STYLE_BOLD, STYLE_GOOD, STYLE_WARNING, STYLE_BAD };
const char *style_on(enum style style, bool colours); /* empty without colours */
const char *style_off(bool colours);

#endif
