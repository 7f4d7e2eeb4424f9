/* foundation/json/json_names.h - find a member name that stands twice in one object, for json_scan.c.
 *
 * The names of all open objects lie on one stack, outermost first. An object of few members compares
 * each new name with those before it. One of many is sorted when it ends: by hash, and names with
 * equal hashes by their bytes. So the hash needs no secret: who makes all hashes collide gets a merge
 * sort of strings, O(bytes log members), since a comparison looks at no more bytes than the name has
 * that it puts in its place. */
#ifndef EC_FOUNDATION_JSON_NAMES_H
#define EC_FOUNDATION_JSON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EC_JSON_NAMES_PAIRWISE 16 /* members up to which every pair is compared */
#define EC_JSON_NAMES_OWN 256     /* names that need no allocation */

/* One name: where it stands in the text, without quotes. */
struct ec_json_name {
    uint32_t hash; /* of the bytes with escapes resolved */
    uint32_t offset;
    uint32_t bytes : 31;
    uint32_t has_escape : 1;
};

struct ec_json_names {
    const char *text;
    struct ec_json_name *stack; /* own, or allocated */
    size_t count;
    size_t capacity;
    struct ec_json_name own[EC_JSON_NAMES_OWN];
};

void ec_json_names_init(struct ec_json_names *names, const char *text);
void ec_json_names_finish(struct ec_json_names *names);

/* Add a name to the innermost object, whose first name has index `first`.
 *
 * Returns EC_OK, EC_ERR_PARSE (a repeated name), EC_ERR_MEMORY. */
int ec_json_names_add(struct ec_json_names *names, size_t first, const char *name, size_t bytes,
                      bool has_escape);

/* End the innermost object and drop its names.
 *
 * Returns EC_OK, EC_ERR_PARSE (*repeated is the first one that repeats another), EC_ERR_MEMORY. */
int ec_json_names_end(struct ec_json_names *names, size_t first, struct ec_json_name *repeated);

#endif
