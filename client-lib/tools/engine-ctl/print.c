/* Tables and units. */
#include "engine-ctl/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static size_t columns_of(const char *text);
static size_t width_of(const struct table *table, size_t column);
static void print_row(const struct table *table, const size_t *widths, FILE *out,
                      const char *const *cells);
static void print_padded(FILE *out, const char *text, size_t width, bool right, bool last);

void table_cell(struct table *table, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        abort(); /* a few bytes: nothing would work any more */
    va_end(arguments);
    if (table->cell_count == table->cell_capacity) {
        table->cell_capacity = table->cell_capacity == 0 ? 64 : table->cell_capacity * 2;
        table->cells = realloc(table->cells, table->cell_capacity * sizeof *table->cells);
        if (table->cells == NULL)
            abort();
    }
    table->cells[table->cell_count++] = tame(text);
}

void table_print(struct table *table, FILE *out, bool colours)
{
    const char *titles[TABLE_COLUMNS_MAX] = { NULL };
    size_t widths[TABLE_COLUMNS_MAX];

    for (size_t i = 0; i < table->column_count; i++) {
        titles[i] = table->columns[i].title;
        widths[i] = width_of(table, i);
    }
    fputs(style_on(STYLE_BOLD, colours), out);
    print_row(table, widths, out, titles);
    fputs(style_off(colours), out);
    fputc('\n', out);
    for (size_t i = 0; i + table->column_count <= table->cell_count; i += table->column_count) {
        print_row(table, widths, out, (const char *const *)table->cells + i);
        fputc('\n', out);
    }
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->cell_count = table->cell_capacity = 0;
}

char *bytes_text(char buffer[TEXT_BYTES], double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t unit = 0;

    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        bytes /= 1024;
    snprintf(buffer, TEXT_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return buffer;
}

char *duration_text(char buffer[TEXT_BYTES], double ns)
{
    const unsigned long long whole =
        ns > 0 && ns < 1e18 ? (unsigned long long)(ns / 1e9) : 0; /* s */

    if (ns < 1e3)
        snprintf(buffer, TEXT_BYTES, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(buffer, TEXT_BYTES, "%.1f us", ns / 1e3);
    else if (ns < 1e9)
        snprintf(buffer, TEXT_BYTES, "%.1f ms", ns / 1e6);
    else if (ns < 60e9)
        snprintf(buffer, TEXT_BYTES, "%.1f s", ns / 1e9);
    else if (ns < 3600e9)
        snprintf(buffer, TEXT_BYTES, "%llu min %llu s", whole / 60, whole % 60);
    else
        snprintf(buffer, TEXT_BYTES, "%llu h %llu min", whole / 3600, whole / 60 % 60);
    return buffer;
}

char *latency_text(char buffer[TEXT_BYTES], double ns)
{
    return ns > 0 ? duration_text(buffer, ns) : strcpy(buffer, "-");
}

char *number_text(char buffer[TEXT_BYTES], double number)
{
    static const char *const units[] = { "", " k", " M", " G" };
    size_t unit = 0;

    for (; number >= 10000 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        number /= 1000;
    snprintf(buffer, TEXT_BYTES,
             unit == 0 && number == (double)(long long)number ? "%.0f%s" : "%.1f%s", number,
             units[unit]);
    return buffer;
}

size_t fitting_bytes(const char *line, size_t bytes, unsigned columns)
{
    unsigned used = 0;
    size_t i = 0;

    while (i < bytes) {
        if (line[i] == '\033') {
            while (i < bytes && line[i] != 'm')
                i++;
            i++;
            continue;
        }
        /* A character has one first byte. */
        if (((unsigned char)line[i] & 0xc0) != 0x80 && used++ == columns)
            break;
        i++;
    }
    return i < bytes ? i : bytes;
}

char *tame(char *text)
{
    for (char *at = text; at != NULL && *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
        else if ((unsigned char)*at == 0xc2 && (unsigned char)at[1] >= 0x80 &&
                 (unsigned char)at[1] < 0xa0)
            at[0] = at[1] = '?'; /* U+0080..U+009F: control characters, too */
    return text;
}

char *tame_copy(const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL)
        abort(); /* a few bytes, as in table_cell */
    return tame(copy);
}

const char *style_on(enum style style, bool colours)
{
    static const char *const codes[] = { "\033[1m", "\033[32m", "\033[33m", "\033[1;31m" };

    return colours ? codes[style] : "";
}

const char *style_off(bool colours)
{
    return colours ? "\033[0m" : "";
}

/* Characters, not bytes; good enough for names. */
static size_t columns_of(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static size_t width_of(const struct table *table, size_t column)
{
    size_t width = columns_of(table->columns[column].title);

    for (size_t i = column; i < table->cell_count; i += table->column_count) {
        size_t columns = columns_of(table->cells[i]);

        width = columns > width ? columns : width;
    }
    return width;
}

static void print_row(const struct table *table, const size_t *widths, FILE *out,
                      const char *const *cells)
{
    for (size_t i = 0; i < table->column_count; i++) {
        fputs(i == 0 ? "" : "  ", out);
        print_padded(out, cells[i], widths[i], table->columns[i].right,
                     i + 1 == table->column_count);
    }
}

static void print_padded(FILE *out, const char *text, size_t width, bool right, bool last)
{
    const int padding = (int)(width - columns_of(text));

    if (right)
        fprintf(out, "%*s%s", padding, "", text);
    else
        fprintf(out, "%s%*s", text, last ? 0 : padding, "");
}
