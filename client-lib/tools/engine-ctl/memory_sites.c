#include "engine-ctl/memory_sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"

#define FUNCTION_BYTES 1024
#define LIST_BYTES_MAX 24 /* of parameters and template arguments in a name for people */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* How long the text between < and > or ( and ) at `open` is; -1: it does not end. */
static ptrdiff_t list_bytes(const char *open)
{
    int depth = 0;

    for (const char *at = open; *at != '\0'; at++) {
        if (*at == '<' || *at == '(')
            depth++;
        else if (*at == ')' || (*at == '>' && at[-1] != '-'))
            depth--;
        if (depth == 0)
            return at - open - 1;
    }
    return -1;
}

void memory_name_shorten(char *name)
{
    static const char operator_word[] = "operator", left_out[] = "...";
    char *to = name;

    for (const char *at = name; *at != '\0';) {
        const ptrdiff_t bytes = *at == '<' || *at == '(' ? list_bytes(at) : -1;

        if (strncmp(at, operator_word, strlen(operator_word)) == 0) {
            const size_t own = strlen(operator_word) + strspn(at + strlen(operator_word), "<>=-");

            memmove(to, at, own);
            to += own;
            at += own;
        } else if (bytes > LIST_BYTES_MAX) {
            *to++ = *at;
            memcpy(to, left_out, strlen(left_out));
            to += strlen(left_out);
            at += bytes + 1;
            *to++ = *at++;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

static const char *frame_name(struct symbols *symbols, const cJSON *modules, const cJSON *frame,
                              bool is_short, char name[SITE_NAME_BYTES])
{
    const cJSON *module = cJSON_GetArrayItem(modules, (int)json_number(frame, "module"));
    const char *path = json_text(module, "path");
    const char *offset = json_text(frame, "offset");
    char function[FUNCTION_BYTES] = "";
    struct symbol symbol;

    if (json_member(frame, "module") == NULL || module == NULL) {
        snprintf(name, SITE_NAME_BYTES, "%s", json_text(frame, "address"));
        return tame(name);
    }
    if (!symbols_find(symbols, path, json_text(module, "build_id"), strtoull(offset, NULL, 16),
                      true, &symbol)) {
        snprintf(name, SITE_NAME_BYTES, "%.180s+%.40s", base_name(path), offset);
        return tame(name);
    }
    snprintf(function, sizeof function, "%s",
             symbol.function != NULL ? symbol.function : base_name(path));
    if (is_short)
        memory_name_shorten(function);
    if (symbol.file == NULL)
        snprintf(name, SITE_NAME_BYTES, "%.250s", function);
    else
        snprintf(name, SITE_NAME_BYTES, "%.160s (%.60s:%d)", function, base_name(symbol.file),
                 symbol.line);
    return tame(name);
}

const char *memory_frame_name(struct symbols *symbols, const cJSON *modules, const cJSON *frame,
                              char name[SITE_NAME_BYTES])
{
    return frame_name(symbols, modules, frame, false, name);
}

const char *memory_site_name(struct symbols *symbols, const cJSON *modules, const cJSON *site,
                             char name[SITE_NAME_BYTES])
{
    const cJSON *frames = json_member(site, "frames");
    const cJSON *frame = cJSON_GetArrayItem(frames, (int)json_number(site, "frame"));
    const char *where = json_text(site, "where");

    /* A place in a file of source says more than any address. */
    if (frame == NULL || (strchr(where, ':') != NULL && strstr(where, "+0x") == NULL)) {
        snprintf(name, SITE_NAME_BYTES, "%s", where[0] != '\0' ? where : "?");
        return tame(name);
    }
    return frame_name(symbols, modules, frame, true, name);
}

static const char *change_text(char text[TEXT_BYTES], double bytes)
{
    char amount[TEXT_BYTES];

    snprintf(text, TEXT_BYTES, "%s%.24s", bytes < 0 ? "-" : "+",
             bytes_text(amount, bytes < 0 ? -bytes : bytes));
    return text;
}

void memory_sites_print(const cJSON *sites, const cJSON *modules,
                        const struct memory_sites_view *view)
{
    static const struct column columns[] = { { "  SITE", false },
                                             { "BYTES", true },
                                             { "BLOCKS", true },
                                             { "ALLOCATIONS", true },
                                             { "TAG", false } };
    struct table table = { .columns = columns, .column_count = 5 };
    char name[SITE_NAME_BYTES], text[TEXT_BYTES];
    const cJSON *site;

    cJSON_ArrayForEach(site, sites)
    {
        const cJSON *frames = json_member(site, "frames"), *frame;
        size_t shown = 0, skipped = (size_t)json_number(site, "frame");
        const double bytes = json_number(site, "bytes");

        table_cell(&table, "  %s", memory_site_name(view->symbols, modules, site, name));
        table_cell(&table, "%s",
                   view->changes ? change_text(text, bytes) : bytes_text(text, bytes));
        table_cell(&table, view->changes ? "%+.0f" : "%.0f", json_number(site, "count"));
        table_cell(&table, view->changes ? "%+.0f" : "%.0f", json_number(site, "total"));
        table_cell(&table, "%s", json_text(site, "tag"));
        cJSON_ArrayForEach(frame, frames)
        {
            if (shown >= view->frames)
                break;
            if (skipped > 0) { /* libraries that pass the allocation on */
                skipped--;
                continue;
            }
            if (shown++ == 0) /* the site itself */
                continue;
            table_cell(&table, "    %s", frame_name(view->symbols, modules, frame, true, name));
            for (int i = 1; i < 5; i++)
                table_cell(&table, "%s", "");
        }
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, view->colours);
}
