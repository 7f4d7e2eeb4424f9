/* aliases.c - a sorted table that is made anew for each change. */
#include "resources/aliases.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resources/search_path.h"

static int check(const struct alias *alias, struct ec_error *why);
static struct alias *find(const struct aliases *aliases, const char *name, size_t bytes);
static int put(struct aliases *aliases, const struct alias *alias, struct ec_error *why);
static bool take(struct aliases *aliases, const char *name);

static void row_free(struct alias *row)
{
    free((char *)(size_t)row->name);
    free((char *)(size_t)row->path);
}

void aliases_finish(struct aliases *aliases)
{
    for (uint32_t i = 0; i < aliases->count; i++)
        row_free(&aliases->rows[i]);
    free(aliases->rows);
    *aliases = (struct aliases) { 0 };
}

int aliases_change(struct aliases *aliases, const char *const *remove, uint32_t remove_count,
                   const struct alias *set, uint32_t set_count, struct ec_error *why)
{
    struct aliases next = { .rows = calloc(ALIASES_MAX, sizeof(struct alias)) };
    int rc = EC_OK;

    if (next.rows == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for aliases");
    for (uint32_t i = 0; i < aliases->count && rc == EC_OK; i++)
        rc = put(&next, &aliases->rows[i], why);
    for (uint32_t i = 0; i < remove_count && rc == EC_OK; i++)
        if (!take(&next, remove[i]))
            rc = ec_fail(why, EC_ERR_NOT_FOUND, "there is no alias %s", remove[i]);
    for (uint32_t i = 0; i < set_count && rc == EC_OK; i++) {
        rc = check(&set[i], why);
        if (rc == EC_OK)
            rc = put(&next, &set[i], why);
    }
    if (rc < 0) {
        aliases_finish(&next);
        return rc;
    }
    aliases_finish(aliases);
    *aliases = next;
    return EC_OK;
}

int aliases_resolve(const struct aliases *aliases, const char *name, char *path, size_t bytes,
                    struct ec_error *why)
{
    size_t matched = strlen(name);
    const struct alias *alias = find(aliases, name, matched);

    while (alias == NULL && matched > 0) {
        matched--;
        while (matched > 0 && name[matched - 1] != '/')
            matched--;
        if (matched > 0)
            alias = find(aliases, name, matched);
    }
    if (snprintf(path, bytes, "%s%s", alias != NULL ? alias->path : "",
                 name + (alias != NULL ? matched : 0)) >= (int)bytes)
        return ec_fail(why, EC_ERR_PATH, "alias %s makes the path of %s longer than %zu bytes",
                       alias != NULL ? alias->name : "", name, bytes - 1);
    return EC_OK;
}

/* A prefix is checked without its '/'; what is put together of two checked parts is as good as they. */
static int check_path(const char *path, bool *is_prefix, struct ec_error *why)
{
    size_t bytes = strlen(path);

    *is_prefix = bytes > 0 && path[bytes - 1] == '/';
    return search_path_check(path, *is_prefix ? bytes - 1 : bytes, why);
}

static int check(const struct alias *alias, struct ec_error *why)
{
    bool name_is_prefix, path_is_prefix;
    int rc = check_path(alias->name, &name_is_prefix, why);

    if (rc == EC_OK)
        rc = check_path(alias->path, &path_is_prefix, why);
    if (rc == EC_OK && name_is_prefix != path_is_prefix)
        rc = ec_fail(why, EC_ERR_PATH, "only one of %s and %s ends in '/'", alias->name,
                     alias->path);
    return rc < 0 ? ec_error_prefix(why, rc, "alias") : EC_OK;
}

/* Where the name is, or where it belongs. */
static uint32_t place_of(const struct aliases *aliases, const char *name, size_t bytes,
                         bool *is_there)
{
    uint32_t low = 0, high = aliases->count;

    *is_there = false;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const char *other = aliases->rows[middle].name;
        int order = strncmp(other, name, bytes);

        if (order == 0 && other[bytes] != '\0')
            order = 1;
        if (order == 0)
            *is_there = true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct alias *find(const struct aliases *aliases, const char *name, size_t bytes)
{
    bool is_there;
    const uint32_t place = place_of(aliases, name, bytes, &is_there);

    return is_there ? &aliases->rows[place] : NULL;
}

static int put(struct aliases *aliases, const struct alias *alias, struct ec_error *why)
{
    bool is_there;
    const uint32_t place = place_of(aliases, alias->name, strlen(alias->name), &is_there);
    struct alias *row = &aliases->rows[place];
    struct alias copy;

    if (!is_there && aliases->count == ALIASES_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "more than %d aliases", ALIASES_MAX);
    copy = (struct alias) { strdup(alias->name), strdup(alias->path) };
    if (copy.name == NULL || copy.path == NULL) {
        row_free(&copy);
        return ec_fail(why, EC_ERR_MEMORY, "no memory for alias %s", alias->name);
    }
    if (is_there) {
        row_free(row);
    } else {
        memmove(row + 1, row, (aliases->count - place) * sizeof *row);
        aliases->count++;
    }
    *row = copy;
    return EC_OK;
}

static bool take(struct aliases *aliases, const char *name)
{
    bool is_there;
    const uint32_t place = place_of(aliases, name, strlen(name), &is_there);

    if (!is_there)
        return false;
    row_free(&aliases->rows[place]);
    aliases->count--;
    memmove(&aliases->rows[place], &aliases->rows[place + 1],
            (aliases->count - place) * sizeof *aliases->rows);
    return true;
}
