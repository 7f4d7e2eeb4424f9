/* kept_paths.c - see kept_paths.h. */
#include "resources/kept_paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/boot_id.h"
#include "daemon/fd_store.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "daemon/state_file.h"
#include "foundation/json/json_scan.h"
#include "resources/search_path.h"
#include "resources/state.h"

#define FORMAT 1
#define SUFFIX ".paths"
#define FILE_BYTES_MAX (64u << 20) /* ALIASES_MAX names and paths of 4 KiB each, and escapes */
#define PATH_BYTES 640
#define TEXT_BYTES 4096 /* of a path */

/* ---- the text --------------------------------------------------------------------------------- */

void kept_paths_write(const struct kept_mounts *mounts, const struct aliases *aliases,
                      struct ec_json_writer *writer)
{
    char boot_id[BOOT_ID_BYTES];

    boot_id_read(boot_id);
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "format", FORMAT);
    ec_json_member_string(writer, "boot_id", boot_id);
    ec_json_member_array(writer, "mounts");
    for (unsigned i = 0; i < mounts->count; i++) {
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "path", mounts->rows[i].path);
        ec_json_member_string(writer, "at", mounts->rows[i].at);
        ec_json_member_boolean(writer, "append", mounts->rows[i].append);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    ec_json_member_object(writer, "aliases");
    for (uint32_t i = 0; i < aliases->count; i++) {
        ec_json_key_n(writer, aliases->rows[i].name, strlen(aliases->rows[i].name));
        ec_json_string(writer, aliases->rows[i].path);
    }
    ec_json_object_end(writer);
    ec_json_object_end(writer);
    ec_json_line_end(writer);
}

/* Caller frees; NULL: no text, or one that is too long or empty. */
static char *text_of(struct ec_json_span span)
{
    char *text = malloc(TEXT_BYTES);

    if (text != NULL && (ec_json_get_text(span, text, TEXT_BYTES) < 0 || text[0] == '\0')) {
        free(text);
        text = NULL;
    }
    return text;
}

static int add_mount(struct kept_mounts *mounts, const char *path, const char *at, bool append,
                     struct ec_error *why)
{
    struct kept_mount *grown;

    if (mounts->count == MOUNTS_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "mounts: more than %d", MOUNTS_MAX);
    grown = realloc(mounts->rows, (mounts->count + 1) * sizeof *grown);
    if (grown == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a mount");
    mounts->rows = grown;
    grown[mounts->count] = (struct kept_mount) { strdup(path), strdup(at), append };
    if (grown[mounts->count].path == NULL || grown[mounts->count].at == NULL) {
        free(grown[mounts->count].path);
        free(grown[mounts->count].at);
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a mount");
    }
    mounts->count++;
    return EC_OK;
}

static int read_mount(struct ec_json_span row, struct kept_mounts *mounts, struct ec_error *why)
{
    char *path = text_of(ec_json_get_member(row, "path")),
         *at = text_of(ec_json_get_member(row, "at"));
    bool append = false;
    int rc = EC_OK;

    if (path == NULL || at == NULL || path[0] != '/' || at[0] != '/' ||
        ec_json_get_boolean(ec_json_get_member(row, "append"), &append) < 0)
        rc = ec_fail(why, EC_ERR_PARAM, "mounts: one is not {path, at, append}");
    if (rc == EC_OK)
        rc = add_mount(mounts, path, at, append, why);
    free(path);
    free(at);
    return rc;
}

static int read_aliases(struct ec_json_span object, struct aliases *aliases, struct ec_error *why)
{
    struct alias *rows = calloc(ALIASES_MAX, sizeof *rows);
    struct ec_json_iterator members = ec_json_iterate(object);
    struct ec_json_span name, path;
    uint32_t count = 0;
    int rc = rows != NULL ? EC_OK : ec_fail(why, EC_ERR_MEMORY, "no memory for aliases");

    while (rc == EC_OK && ec_json_next_member(&members, &name, &path)) {
        if (count == ALIASES_MAX) {
            rc = ec_fail(why, EC_ERR_LIMIT, "aliases: more than %d", ALIASES_MAX);
            break;
        }
        rows[count] = (struct alias) { text_of(name), text_of(path) };
        if (rows[count].name == NULL || rows[count].path == NULL)
            rc = ec_fail(why, EC_ERR_PARAM, "aliases: one is no text");
        count++;
    }
    if (rc == EC_OK)
        rc = aliases_change(aliases, NULL, 0, rows, count, why);
    for (uint32_t i = 0; i < count; i++) {
        free((char *)(size_t)rows[i].name);
        free((char *)(size_t)rows[i].path);
    }
    free(rows);
    return rc;
}

static int read_all(struct ec_json_span root, struct kept_mounts *mounts, struct aliases *aliases,
                    struct ec_error *why)
{
    struct ec_json_iterator rows = ec_json_iterate(ec_json_get_member(root, "mounts"));
    char ours[BOOT_ID_BYTES], theirs[BOOT_ID_BYTES];
    struct ec_json_span row;
    uint64_t format = 0;
    int rc = EC_OK;

    if (ec_json_get_u64(ec_json_get_member(root, "format"), &format) < 0 || format != FORMAT)
        return ec_fail(why, EC_ERR_PARAM, "format: expected %d", FORMAT);
    if (ec_json_get_text(ec_json_get_member(root, "boot_id"), theirs, sizeof theirs) < 0)
        return ec_fail(why, EC_ERR_PARAM, "boot_id: expected text");
    boot_id_read(ours);
    if (strcmp(ours, theirs) != 0)
        return ec_fail(why, EC_ERR_NOT_FOUND, "it is of another boot");
    while (rc == EC_OK && ec_json_next_element(&rows, &row))
        rc = read_mount(row, mounts, why);
    return rc == EC_OK ? read_aliases(ec_json_get_member(root, "aliases"), aliases, why) : rc;
}

int kept_paths_read(const char *text, size_t bytes, struct kept_mounts *mounts,
                    struct aliases *aliases, struct ec_error *why)
{
    struct ec_json_fault fault = { 0 };
    int rc;

    kept_mounts_finish(mounts);
    aliases_finish(aliases);
    if (ec_json_check(text, bytes, NULL, &fault) < 0)
        return ec_fail(why, EC_ERR_PARSE, "%s at byte %zu", fault.reason, fault.offset);
    rc = read_all(ec_json_root(text, bytes), mounts, aliases, why);
    if (rc < 0) {
        kept_mounts_finish(mounts);
        aliases_finish(aliases);
    }
    return rc;
}

void kept_mounts_finish(struct kept_mounts *mounts)
{
    for (unsigned i = 0; i < mounts->count; i++) {
        free(mounts->rows[i].path);
        free(mounts->rows[i].at);
    }
    free(mounts->rows);
    *mounts = (struct kept_mounts) { 0 };
}

/* ---- the file --------------------------------------------------------------------------------- */

static const char *file_path(const struct resources *resources, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%.*s" SUFFIX, PATH_BYTES - 32, resources->services->socket_path);
    return path;
}

void kept_paths_inherit(struct resources *resources)
{
    const struct services *services = resources->services;
    char path[PATH_BYTES], *text;
    struct ec_error why = { 0 };
    size_t bytes;

    if (!heritage_counts(services->heritage, segments_are_kept(services->segments)))
        return;
    text = state_file_read(file_path(resources, path), FILE_BYTES_MAX, &bytes, &why);
    if (text != NULL &&
        kept_paths_read(text, bytes, &resources->kept_mounts, &resources->aliases, &why) == EC_OK)
        log_info(RESOURCES_MODULE, "%u mounts and %u aliases of the last run",
                 resources->kept_mounts.count, resources->aliases.count);
    else if (why.text[0] != '\0')
        log_warning(RESOURCES_MODULE, "%s: %s; mounts and aliases of the last run are gone", path,
                    why.text);
    free(text);
}

void kept_paths_mounted(struct resources *resources, const struct search_mount *mount, bool append)
{
    struct ec_error why = { 0 };

    if (add_mount(&resources->kept_mounts, mount->path, mount->at, append, &why) < 0)
        log_warning(RESOURCES_MODULE, "%s; %s ends with this run of the daemon", why.text,
                    mount->path);
    kept_paths_save(resources);
}

void kept_paths_save(struct resources *resources)
{
    char path[PATH_BYTES];
    struct ec_json_writer writer;
    int rc;

    if (resources->services->heritage == NULL)
        return;
    ec_json_writer_init_growing(&writer, ec_json_grow_heap, NULL, FILE_BYTES_MAX);
    kept_paths_write(&resources->kept_mounts, &resources->aliases, &writer);
    rc = ec_json_writer_status(&writer) == EC_OK
             ? state_file_replace(file_path(resources, path), writer.base, writer.bytes)
             : ENOMEM;
    if (rc != 0)
        log_warning(
            RESOURCES_MODULE,
            "cannot write %s: %s; a daemon after this one would not know mounts and aliases", path,
            strerror(rc));
    free(writer.base);
}

/* As long as somebody may go on, so does the file. */
void kept_paths_end(struct resources *resources)
{
    const struct services *services = resources->services;
    char path[PATH_BYTES];

    if (heritage_is_ours(services->heritage) && heritage_lease(services->heritage, 0) == NULL &&
        !fd_store_is_used(services->fd_store))
        unlink(file_path(resources, path));
    kept_mounts_finish(&resources->kept_mounts);
}
