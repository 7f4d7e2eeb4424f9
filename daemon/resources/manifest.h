/* manifest.h - groups of resources as JSON: what resource.define takes, and what files hold.
 *
 *     {"groups": [
 *       {"group": "forest", "depends": ["common"], "residency": "auto",
 *        "resources": [{"name": "tree", "path": "textures/tree.png", "kind": "image", "levels": 4},
 *                      {"name": "paths.bin"}]}
 *     ]}
 *
 * A file may also hold one group alone. The members are those of resource.define and default to the
 * same. A group has resources or depends on others, or both.
 *
 * The text is hostile: it is scanned as strict JSON first, and each value is bounded here.
 *
 * Thread:    any. Ownership: all texts lie in the manifest's own memory. */
#ifndef RESOURCES_MANIFEST_H
#define RESOURCES_MANIFEST_H

#include <stddef.h>

#include "foundation/error.h"
#include "foundation/json/json_span.h"
#include "resources/state.h"

#define MANIFEST_BYTES_MAX (16u << 20)
#define MANIFEST_GROUPS_MAX 16384
#define MANIFEST_MEMBERS_MAX 262144 /* of all groups; many may name one resource */
#define MANIFEST_DEPENDS_MAX 256    /* of one group */

struct manifest {
    struct group_desc *groups;
    uint32_t count;
    uint32_t resources; /* of all groups */

    struct resource_desc *rows; /* of all groups, one behind the other */
    const char **depends;
    char *texts;
    size_t texts_used;
};

/* Read a text. Errors of syntax name line and column, others the place: "groups[1]: resources[3]: name …".
 *
 * Returns EC_OK, EC_ERR_PARSE, EC_ERR_SIZE, EC_ERR_PARAM, EC_ERR_PATH, EC_ERR_LIMIT or EC_ERR_MEMORY; then there
 * is nothing to finish. */
int manifest_read(const char *text, size_t bytes, struct manifest *manifest, struct ec_error *why);
/* One group, by the values of its members in a text that was checked already; those that are not there are
 * empty. */
struct manifest_group {
    struct ec_json_span group, resources, depends, residency, priority;
};
int manifest_read_group(const struct manifest_group *group, struct manifest *manifest,
                        struct ec_error *why);
void manifest_finish(struct manifest *manifest);

/* A file of the host, or all *.json files of a directory in the order of their names. Groups may depend on
 * groups of other files; all are defined, or none. keep is false to only try. The error begins with the
 * file.
 *
 * Returns as manifest_read and groups_define, EC_ERR_NOT_FOUND or EC_ERR_PATH (unreadable). */
struct manifest_sum {
    char first[GROUP_NAME_BYTES]; /* name of the first group */
    uint32_t groups, resources;
};
int manifests_define(struct resources *resources, const char *path, bool keep,
                     struct manifest_sum *sum, struct ec_error *why);

#endif
