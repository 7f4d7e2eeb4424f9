/* memory_text.c - find rows and numbers in the kernel's texts. */
#include "breaker/memory_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct memory_group_version memory_group_v2 = { "cgroup2",       "memory.max",
                                                      "memory.high",   "memory.current",
                                                      "inactive_file", "active_file" };
const struct memory_group_version memory_group_v1 = { "cgroup",
                                                      "memory.limit_in_bytes",
                                                      NULL,
                                                      "memory.usage_in_bytes",
                                                      "total_inactive_file",
                                                      "total_active_file" };

/* v1 writes "no limit" as a number near 2^63. */
#define V1_UNLIMITED (UINT64_MAX / 4)

static const char *row_of(const char *text, const char *name);
static bool has_word(const char *list, size_t bytes, const char *word);
static bool names_memory(const char *options);

bool memory_text_number(const char *text, uint64_t *value)
{
    char *end;

    if (strncmp(text, "max", 3) == 0) {
        *value = MEMORY_UNLIMITED;
        return true;
    }
    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (errno != 0 || (*end != '\0' && !isspace((unsigned char)*end)))
        return false;
    if (*value >= V1_UNLIMITED)
        *value = MEMORY_UNLIMITED;
    return true;
}

bool memory_text_row(const char *text, const char *name, uint64_t *value)
{
    const char *row = row_of(text, name);

    return row != NULL && memory_text_number(row + strspn(row, " \t"), value);
}

bool memory_text_stalled_us(const char *text, const char *row, uint64_t *microseconds)
{
    static const char word[] = "total=";
    const char *at = row_of(text, row), *end, *total;

    if (at == NULL)
        return false;
    end = at + strcspn(at, "\n");
    total = strstr(at, word);
    return total != NULL && total < end &&
           memory_text_number(total + sizeof word - 1, microseconds);
}

bool memory_text_host(const char *meminfo, struct memory_host *host)
{
    uint64_t free_kib, active_kib, inactive_kib, slab_kib, second_bytes;

    if (!memory_text_row(meminfo, "MemTotal:", &host->total_bytes) ||
        !memory_text_row(meminfo, "MemAvailable:", &host->kernel_bytes) ||
        host->total_bytes > UINT64_MAX / 4096 || host->kernel_bytes > UINT64_MAX / 4096)
        return false;
    host->total_bytes *= 1024;
    host->kernel_bytes *= 1024;
    host->available_bytes =
        host->kernel_bytes < host->total_bytes ? host->kernel_bytes : host->total_bytes;
    if (!memory_text_row(meminfo, "MemFree:", &free_kib) ||
        !memory_text_row(meminfo, "Active(file):", &active_kib) ||
        !memory_text_row(meminfo, "Inactive(file):", &inactive_kib))
        return true; /* then the kernel's own word has to do */
    if (!memory_text_row(meminfo, "SReclaimable:", &slab_kib))
        slab_kib = 0;
    second_bytes = (free_kib + inactive_kib + active_kib / 2 + slab_kib / 2) * 1024;
    if (second_bytes < host->available_bytes)
        host->available_bytes = second_bytes;
    return true;
}

uint64_t memory_text_group_left(const struct memory_group_version *version, uint64_t limit_bytes,
                                uint64_t usage_bytes, const char *stat)
{
    uint64_t inactive_bytes, active_bytes, file_bytes, used_bytes;

    if (!memory_text_row(stat, version->inactive_file, &inactive_bytes))
        inactive_bytes = 0;
    if (!memory_text_row(stat, version->active_file, &active_bytes))
        active_bytes = 0;
    if (__builtin_add_overflow(inactive_bytes, active_bytes / 2, &file_bytes))
        file_bytes = UINT64_MAX;
    used_bytes = usage_bytes > file_bytes ? usage_bytes - file_bytes : 0;
    return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;
}

/* A line is "0::/path" for v2 and "4:memory,…:/path" for v1. */
bool memory_text_group_path(const char *cgroup, const struct memory_group_version *version,
                            char *path, size_t bytes)
{
    for (const char *line = cgroup; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        const char *end = line + length, *first = memchr(line, ':', length), *second;
        size_t path_bytes;

        second = first == NULL ? NULL : memchr(first + 1, ':', (size_t)(end - first - 1));
        if (second != NULL && (version == &memory_group_v2
                                   ? second == first + 1
                                   : has_word(first + 1, (size_t)(second - first - 1), "memory"))) {
            path_bytes = (size_t)(end - second - 1);
            if (path_bytes >= bytes)
                return false;
            memcpy(path, second + 1, path_bytes);
            path[path_bytes] = '\0';
            if (strcmp(path, "/") == 0)
                path[0] = '\0';
            return true;
        }
        line = *end == '\0' ? end : end + 1;
    }
    return false;
}

/* A line: "36 35 0:27 ROOT MOUNT options … - cgroup2 source super-options". */
bool memory_text_group_mount(const char *mountinfo, const struct memory_group_version *version,
                             char *root, char *mount, size_t bytes)
{
    for (const char *line = mountinfo; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        char copy[4096], type[32], options[1024], *tail;

        if (length < sizeof copy) {
            memcpy(copy, line, length);
            copy[length] = '\0';
            tail = strstr(copy, " - ");
            if (tail != NULL && sscanf(tail, " - %31s %*s %1023s", type, options) == 2 &&
                strcmp(type, version->type) == 0 &&
                (version == &memory_group_v2 || names_memory(options))) {
                char root_text[2048], mount_text[2048];

                if (sscanf(copy, "%*s %*s %*s %2047s %2047s", root_text, mount_text) == 2 &&
                    strlen(root_text) < bytes && strlen(mount_text) < bytes) {
                    strcpy(root, root_text);
                    strcpy(mount, mount_text);
                    return true;
                }
            }
        }
        line += length;
        line += *line == '\n';
    }
    return false;
}

/* What follows the name in the first row that begins with it; NULL: no row does. */
static const char *row_of(const char *text, const char *name)
{
    const size_t bytes = strlen(name);

    while (*text != '\0') {
        if (strncmp(text, name, bytes) == 0 && (text[bytes] == ' ' || text[bytes] == '\t'))
            return text + bytes;
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return NULL;
}

/* Is the word in a list with commas between? */
static bool has_word(const char *list, size_t bytes, const char *word)
{
    const size_t word_bytes = strlen(word);
    const char *end = list + bytes;

    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const size_t length = (size_t)((comma == NULL ? end : comma) - list);

        if (length == word_bytes && memcmp(list, word, length) == 0)
            return true;
        list += length + 1;
    }
    return false;
}

static bool names_memory(const char *options)
{
    return has_word(options, strlen(options), "memory");
}
