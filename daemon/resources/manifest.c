/* manifest.c - count, allocate once, fill in. */
#include "resources/manifest.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "foundation/json/json_scan.h"

/* What a text holds, before memory is allocated for it. */
struct counts {
    size_t groups, resources, depends, text_bytes;
};

static int read_groups(struct ec_json_span root, struct manifest *manifest, struct ec_error *why);
static int bind_group(struct ec_json_span value, struct manifest_group *group,
                      struct ec_error *why);
static void count_group(const struct manifest_group *group, struct counts *counts);
static int prepare(struct manifest *manifest, const struct counts *counts, struct ec_error *why);
static int read_group(struct manifest *manifest, const struct manifest_group *value,
                      struct ec_error *why);
static int read_resources(struct manifest *manifest, struct group_desc *group,
                          struct ec_json_span array, struct ec_error *why);
static int read_depends(struct manifest *manifest, struct group_desc *group,
                        struct ec_json_span array, struct ec_error *why);
static int read_resource(struct manifest *manifest, struct ec_json_span row,
                         struct resource_desc *desc, struct ec_error *why);
static int read_number(struct ec_json_span value, const char *what, int64_t min, int64_t max,
                       uint32_t *number, struct ec_error *why);
static int read_text(struct manifest *manifest, struct ec_json_span value, const char *what,
                     size_t bytes_max, const char **text, struct ec_error *why);
static int object_bind(struct ec_json_span value, struct ec_json_fields *fields,
                       struct ec_error *why);
static int read_file(const char *path, char **text, size_t *bytes, struct ec_error *why);
static int read_files(char **paths, size_t count, struct manifest *manifests, struct ec_error *why);

int manifest_read(const char *text, size_t bytes, struct manifest *manifest, struct ec_error *why)
{
    struct ec_json_fault fault;
    size_t line, column;
    int rc = ec_json_check(text, bytes, NULL, &fault);

    *manifest = (struct manifest) { 0 };
    if (rc < 0) {
        ec_json_position(text, fault.offset, &line, &column);
        return ec_fail(why, rc, "%zu:%zu: %s", line, column, fault.reason);
    }
    return read_groups(ec_json_root(text, bytes), manifest, why);
}

int manifest_read_group(const struct manifest_group *group, struct manifest *manifest,
                        struct ec_error *why)
{
    struct counts counts = { 0 };
    int rc;

    *manifest = (struct manifest) { 0 };
    count_group(group, &counts);
    rc = prepare(manifest, &counts, why);
    if (rc == EC_OK)
        rc = read_group(manifest, group, why);
    if (rc < 0)
        manifest_finish(manifest);
    return rc;
}

void manifest_finish(struct manifest *manifest)
{
    free(manifest->groups);
    free(manifest->rows);
    free(manifest->depends);
    free(manifest->texts);
    *manifest = (struct manifest) { 0 };
}

static int read_groups(struct ec_json_span root, struct manifest *manifest, struct ec_error *why)
{
    static const char *const names[] = { "groups" };
    struct ec_json_span groups, value;
    struct ec_json_fields fields = { .names = names, .values = &groups, .count = 1 };
    struct ec_json_iterator rows;
    struct manifest_group group;
    struct counts counts = { 0 };
    int rc;

    if (ec_json_bind(root, &fields) < 0)
        return ec_fail(why, EC_ERR_PARAM, "is %s, expected an object",
                       ec_json_type_text(ec_json_type_of(root)));
    if (groups.text == NULL) {
        rc = bind_group(root, &group, why);
        return rc == EC_OK ? manifest_read_group(&group, manifest, why) : rc;
    }
    if (fields.unknown.text != NULL)
        return object_bind(root, &fields, why);
    if (ec_json_type_of(groups) != EC_JSON_ARRAY)
        return ec_fail(why, EC_ERR_PARAM, "groups is %s, expected an array",
                       ec_json_type_text(ec_json_type_of(groups)));
    rows = ec_json_iterate(groups);
    while (ec_json_next_element(&rows, &value)) {
        rc = bind_group(value, &group, why);
        if (rc < 0)
            return ec_error_prefix(why, rc, "groups[%zu]", counts.groups);
        count_group(&group, &counts);
    }
    rc = prepare(manifest, &counts, why);
    rows = ec_json_iterate(groups);
    while (rc == EC_OK && ec_json_next_element(&rows, &value)) {
        uint32_t at = manifest->count;

        rc = bind_group(value, &group, why);
        if (rc == EC_OK)
            rc = read_group(manifest, &group, why);
        if (rc < 0)
            ec_error_prefix(why, rc, "groups[%u]", at);
    }
    if (rc < 0)
        manifest_finish(manifest);
    return rc;
}

static int bind_group(struct ec_json_span value, struct manifest_group *group, struct ec_error *why)
{
    static const char *const names[] = { "group", "resources", "depends", "residency", "priority" };
    struct ec_json_span values[5];
    struct ec_json_fields fields = { .names = names, .values = values, .count = 5 };
    int rc = object_bind(value, &fields, why);

    if (rc == EC_OK)
        *group = (struct manifest_group) { values[0], values[1], values[2], values[3], values[4] };
    return rc;
}

/* What is not an array counts as empty here and is refused later. Texts without their escapes, each with
 * its NUL, are no longer than they were with their quotes. */
static void count_group(const struct manifest_group *group, struct counts *counts)
{
    struct ec_json_iterator rows = ec_json_iterate(group->resources);
    struct ec_json_span element;

    counts->groups++;
    counts->text_bytes +=
        group->group.bytes + group->resources.bytes + group->depends.bytes + group->residency.bytes;
    while (ec_json_next_element(&rows, &element))
        counts->resources++;
    rows = ec_json_iterate(group->depends);
    while (ec_json_next_element(&rows, &element))
        counts->depends++;
}

/* Room for all that was counted. */
static int prepare(struct manifest *manifest, const struct counts *counts, struct ec_error *why)
{
    if (counts->groups > MANIFEST_GROUPS_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "more than %d groups", MANIFEST_GROUPS_MAX);
    if (counts->resources > MANIFEST_MEMBERS_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "more than %d resources", MANIFEST_MEMBERS_MAX);
    manifest->groups = calloc(counts->groups + 1, sizeof *manifest->groups);
    manifest->rows = calloc(counts->resources + 1, sizeof *manifest->rows);
    manifest->depends = calloc(counts->depends + 1, sizeof *manifest->depends);
    manifest->texts = malloc(counts->text_bytes + 1);
    if (manifest->groups != NULL && manifest->rows != NULL && manifest->depends != NULL &&
        manifest->texts != NULL)
        return EC_OK;
    manifest_finish(manifest);
    return ec_fail(why, EC_ERR_MEMORY, "no memory for %zu groups", counts->groups);
}

static int read_group(struct manifest *manifest, const struct manifest_group *value,
                      struct ec_error *why)
{
    struct group_desc *group = &manifest->groups[manifest->count];
    const char *residency = "auto";
    uint32_t priority = LOAD_PRIORITY_DEFAULT;
    int rc = read_text(manifest, value->group, "group", GROUP_NAME_BYTES - 1, &group->name, why);

    if (rc == EC_OK && value->residency.text != NULL)
        rc = read_text(manifest, value->residency, "residency", 16, &residency, why);
    if (rc == EC_OK && !residency_parse(residency, &group->residency))
        rc = ec_fail(why, EC_ERR_PARAM, "residency is %s, expected auto, pinned or evictable",
                     residency);
    if (rc == EC_OK)
        rc = read_number(value->priority, "priority", 0, LOAD_PRIORITY_MAX, &priority, why);
    group->priority = priority;
    if (rc == EC_OK)
        rc = read_resources(manifest, group, value->resources, why);
    if (rc == EC_OK)
        rc = read_depends(manifest, group, value->depends, why);
    if (rc == EC_OK && group->count == 0 && group->depend_count == 0)
        rc = ec_fail(why, EC_ERR_PARAM, "resources is empty, and it depends on no group");
    if (rc == EC_OK)
        manifest->count++;
    return rc;
}

static int read_resources(struct manifest *manifest, struct group_desc *group,
                          struct ec_json_span array, struct ec_error *why)
{
    struct ec_json_iterator rows = ec_json_iterate(array);
    struct ec_json_span row;

    if (array.text != NULL && ec_json_type_of(array) != EC_JSON_ARRAY)
        return ec_fail(why, EC_ERR_PARAM, "resources is %s, expected an array",
                       ec_json_type_text(ec_json_type_of(array)));
    group->resources = manifest->rows + manifest->resources;
    for (; ec_json_next_element(&rows, &row); group->count++, manifest->resources++) {
        int rc = read_resource(manifest, row, &group->resources[group->count], why);

        if (rc < 0)
            return ec_error_prefix(why, rc, "resources[%u]", group->count);
    }
    return EC_OK;
}

static int read_depends(struct manifest *manifest, struct group_desc *group,
                        struct ec_json_span array, struct ec_error *why)
{
    struct ec_json_iterator rows = ec_json_iterate(array);
    struct ec_json_span row;

    if (array.text != NULL && ec_json_type_of(array) != EC_JSON_ARRAY)
        return ec_fail(why, EC_ERR_PARAM, "depends is %s, expected an array",
                       ec_json_type_text(ec_json_type_of(array)));
    if (manifest->count > 0) { /* behind those of the group before */
        const struct group_desc *before = &manifest->groups[manifest->count - 1];

        group->depends = before->depends + before->depend_count;
    } else {
        group->depends = manifest->depends;
    }
    for (; ec_json_next_element(&rows, &row); group->depend_count++) {
        int rc;

        if (group->depend_count == MANIFEST_DEPENDS_MAX)
            return ec_fail(why, EC_ERR_LIMIT, "depends on more than %d groups",
                           MANIFEST_DEPENDS_MAX);
        rc = read_text(manifest, row, "name", GROUP_NAME_BYTES - 1,
                       &group->depends[group->depend_count], why);

        if (rc < 0)
            return ec_error_prefix(why, rc, "depends[%u]", group->depend_count);
    }
    return EC_OK;
}

static int read_resource(struct manifest *manifest, struct ec_json_span row,
                         struct resource_desc *desc, struct ec_error *why)
{
    static const char *const names[] = { "name", "path", "kind", "channels", "levels" };
    struct ec_json_span values[5];
    struct ec_json_fields fields = { .names = names, .values = values, .count = 5 };
    const char *kind = "raw";
    int rc = object_bind(row, &fields, why);

    if (rc == EC_OK)
        rc = read_text(manifest, values[0], "name", EC_RESOURCE_NAME_BYTES - 1, &desc->name, why);
    desc->path = desc->name;
    if (rc == EC_OK && values[1].text != NULL)
        rc = read_text(manifest, values[1], "path", SEARCH_PATH_BYTES - 1, &desc->path, why);
    if (rc == EC_OK && values[2].text != NULL)
        rc = read_text(manifest, values[2], "kind", 16, &kind, why);
    if (rc < 0)
        return rc;
    if (!decoder_kind(kind, &desc->kind))
        return ec_fail(why, EC_ERR_PARAM, "kind is %s, expected raw or image", kind);
    rc = read_number(values[3], "channels", 1, 4, &desc->options.channels, why);
    if (rc == EC_OK)
        rc = read_number(values[4], "levels", 1, 32, &desc->options.levels, why);
    if (rc == EC_OK && desc->kind != EC_KIND_IMAGE &&
        (values[3].text != NULL || values[4].text != NULL))
        rc = ec_fail(why, EC_ERR_PARAM, "channels and levels are for images");
    if (rc < 0)
        return rc;
    rc = search_path_check(desc->path, strlen(desc->path), why);
    return rc < 0 ? ec_error_prefix(why, rc, "path") : EC_OK;
}

/* A number that may be missing: then it stays what it is. */
static int read_number(struct ec_json_span value, const char *what, int64_t min, int64_t max,
                       uint32_t *number, struct ec_error *why)
{
    int64_t got = 0;

    if (value.text == NULL)
        return EC_OK;
    if (ec_json_get_i64(value, &got) < 0 || got < min || got > max)
        return ec_fail(why, EC_ERR_PARAM, "%s is %.*s, expected %" PRId64 "..%" PRId64, what,
                       (int)(value.bytes < 32 ? value.bytes : 32), value.text, min, max);
    *number = (uint32_t)got;
    return EC_OK;
}

/* A string member of 1..bytes_max bytes without control characters. */
static int read_text(struct manifest *manifest, struct ec_json_span value, const char *what,
                     size_t bytes_max, const char **text, struct ec_error *why)
{
    const int code = strcmp(what, "path") == 0 ? EC_ERR_PATH : EC_ERR_PARAM;
    char *to = manifest->texts + manifest->texts_used;
    size_t bytes;

    if (ec_json_type_of(value) != EC_JSON_STRING)
        return ec_fail(why, EC_ERR_PARAM, "%s is %s, expected a string", what,
                       value.text == NULL ? "missing" : ec_json_type_text(ec_json_type_of(value)));
    if (ec_json_get_text(value, to, value.bytes) < 0)
        return ec_fail(why, code, "%s contains a NUL", what);
    bytes = strlen(to);
    if (bytes == 0 || bytes > bytes_max)
        return ec_fail(why, code, "%s has %zu bytes, expected 1..%zu", what, bytes, bytes_max);
    for (const char *at = to; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return ec_fail(why, code, "%s contains a control character", what);
    manifest->texts_used += bytes + 1;
    *text = to;
    return EC_OK;
}

static int object_bind(struct ec_json_span value, struct ec_json_fields *fields,
                       struct ec_error *why)
{
    if (ec_json_bind(value, fields) < 0)
        return ec_fail(why, EC_ERR_PARAM, "is %s, expected an object",
                       ec_json_type_text(ec_json_type_of(value)));
    if (fields->unknown.text != NULL)
        return ec_fail(why, EC_ERR_PARAM, "has the unknown member %.*s",
                       (int)(fields->unknown.bytes < 64 ? fields->unknown.bytes : 64),
                       fields->unknown.text);
    return EC_OK;
}

/* ---- files ---- */

static int is_manifest(const struct dirent *entry)
{
    size_t bytes = strlen(entry->d_name);

    return entry->d_name[0] != '.' && bytes > 5 && strcmp(entry->d_name + bytes - 5, ".json") == 0;
}

static void paths_free(char **paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
}

/* The files that a path stands for: itself, or those in the directory. */
static int paths_list(const char *path, char ***paths, size_t *count, struct ec_error *why)
{
    struct dirent **entries = NULL;
    int found = scandir(path, &entries, is_manifest, alphasort);
    bool whole = true;

    if (found < 0 && errno != ENOTDIR)
        return ec_fail(why, errno == ENOENT ? EC_ERR_NOT_FOUND : EC_ERR_PATH, "%s: %s", path,
                       strerror(errno));
    *count = found < 0 ? 1 : (size_t)found;
    *paths = calloc(*count + 1, sizeof **paths);
    for (size_t i = 0; i < *count && *paths != NULL; i++) {
        if (found < 0)
            (*paths)[i] = strdup(path);
        else if (asprintf(&(*paths)[i], "%s/%s", path, entries[i]->d_name) < 0)
            (*paths)[i] = NULL;
        whole = whole && (*paths)[i] != NULL;
    }
    for (int i = 0; i < found; i++)
        free(entries[i]);
    free(entries);
    if (*paths != NULL && whole)
        return EC_OK;
    if (*paths != NULL)
        paths_free(*paths, *count);
    return ec_fail(why, EC_ERR_MEMORY, "no memory for %zu manifests", *count);
}

int manifests_define(struct resources *resources, const char *path, bool keep,
                     struct manifest_sum *sum, struct ec_error *why)
{
    struct group_desc *all = NULL;
    struct manifest *manifests;
    uint32_t count = 0;
    size_t files = 0;
    char **paths = NULL;
    int rc = paths_list(path, &paths, &files, why);

    if (rc < 0)
        return rc;
    manifests = calloc(files + 1, sizeof *manifests);
    rc = manifests != NULL ? read_files(paths, files, manifests, why)
                           : ec_fail(why, EC_ERR_MEMORY, "no memory for %zu manifests", files);
    for (size_t i = 0; i < files && rc == EC_OK; i++)
        count += manifests[i].count;
    if (rc == EC_OK) {
        all = calloc(count + 1, sizeof *all);
        if (all == NULL)
            rc = ec_fail(why, EC_ERR_MEMORY, "no memory for %u groups", count);
        count = 0;
    }
    for (size_t i = 0; i < files && rc == EC_OK; i++) {
        memcpy(all + count, manifests[i].groups, manifests[i].count * sizeof *all);
        count += manifests[i].count;
    }
    if (rc == EC_OK) {
        rc = keep ? groups_define(resources, all, count, why)
                  : groups_may_define(resources, all, count, why);
        if (rc < 0)
            ec_error_prefix(why, rc, "%s", path);
    }
    *sum = (struct manifest_sum) { .groups = count };
    for (uint32_t i = 0; i < count && rc == EC_OK; i++)
        sum->resources += all[i].count;
    if (count > 0 && rc == EC_OK)
        memcpy(sum->first, all[0].name, strlen(all[0].name) + 1);
    for (size_t i = 0; i < files && manifests != NULL; i++)
        manifest_finish(&manifests[i]);
    free(all);
    free(manifests);
    paths_free(paths, files);
    return rc;
}

static int read_files(char **paths, size_t count, struct manifest *manifests, struct ec_error *why)
{
    for (size_t i = 0; i < count; i++) {
        char *text;
        size_t bytes;
        int rc = read_file(paths[i], &text, &bytes, why);

        if (rc == EC_OK) {
            rc = manifest_read(text, bytes, &manifests[i], why);
            free(text);
        }
        if (rc < 0)
            return ec_error_prefix(why, rc, "%s", paths[i]);
    }
    return EC_OK;
}

static int read_file(const char *path, char **text, size_t *bytes, struct ec_error *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t got = 0;
    size_t size;

    *text = NULL;
    *bytes = 0;
    if (fd < 0)
        return ec_fail(why, errno == ENOENT ? EC_ERR_NOT_FOUND : EC_ERR_PATH, "%s",
                       strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)MANIFEST_BYTES_MAX) {
        close(fd);
        return ec_fail(why, EC_ERR_SIZE, "not a file of at most %u bytes", MANIFEST_BYTES_MAX);
    }
    size = (size_t)st.st_size;
    *text = malloc(size + 1);
    while (*text != NULL && *bytes < size && (got = read(fd, *text + *bytes, size - *bytes)) != 0) {
        if (got < 0 && errno != EINTR)
            break;
        *bytes += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    if (*text == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for %zu bytes", size);
    if (got >= 0)
        return EC_OK;
    free(*text);
    *text = NULL;
    return ec_fail(why, EC_ERR_PATH, "cannot be read: %s", strerror(errno));
}
