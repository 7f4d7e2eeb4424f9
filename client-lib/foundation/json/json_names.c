/* Repeated member names: pairs in small objects, a merge sort in large ones. */
#include "foundation/json/json_names.h"

#include "foundation/json/json_string.h"
#include <engine-core/error.h>

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct ec_json_names *names, size_t capacity);
static uint32_t hash_plain(const char *name, size_t bytes);
static uint32_t hash_escaped(const char *name, size_t bytes);
static int compare(const char *text, const struct ec_json_name *a, const struct ec_json_name *b);
static const struct ec_json_name *sort(const char *text, struct ec_json_name *names, size_t count);

void ec_json_names_init(struct ec_json_names *names, const char *text)
{
    names->text = text;
    names->stack = names->own;
    names->count = 0;
    names->capacity = EC_JSON_NAMES_OWN;
}

void ec_json_names_finish(struct ec_json_names *names)
{
    if (names->stack != names->own)
        free(names->stack);
}

int ec_json_names_add(struct ec_json_names *names, size_t first, const char *name, size_t bytes,
                      bool has_escape)
{
    struct ec_json_name *added;

    if (names->count == names->capacity && !reserve(names, names->count + 1))
        return EC_ERR_MEMORY;
    added = &names->stack[names->count];
    added->hash = has_escape ? hash_escaped(name, bytes) : hash_plain(name, bytes);
    added->offset = (uint32_t)(name - names->text);
    added->bytes = (uint32_t)bytes & 0x7FFFFFFF;
    added->has_escape = has_escape;
    if (names->count - first < EC_JSON_NAMES_PAIRWISE)
        for (const struct ec_json_name *other = &names->stack[first]; other < added; other++)
            if (other->hash == added->hash && compare(names->text, other, added) == 0)
                return EC_ERR_PARSE;
    names->count++;
    return EC_OK;
}

int ec_json_names_end(struct ec_json_names *names, size_t first, struct ec_json_name *repeated)
{
    size_t count = names->count - first;
    const struct ec_json_name *sorted;
    bool found = false;

    if (count > EC_JSON_NAMES_PAIRWISE) {
        if (!reserve(names, names->count + count))
            return EC_ERR_MEMORY;
        sorted = sort(names->text, &names->stack[first], count);
        for (size_t i = 1; i < count; i++) {
            if (compare(names->text, &sorted[i - 1], &sorted[i]) != 0)
                continue;
            if (!found || sorted[i].offset < repeated->offset)
                *repeated = sorted[i];
            found = true;
        }
    }
    names->count = first;
    return found ? EC_ERR_PARSE : EC_OK;
}

static bool reserve(struct ec_json_names *names, size_t capacity)
{
    struct ec_json_name *grown;

    if (capacity <= names->capacity)
        return true;
    if (capacity < names->capacity * 2)
        capacity = names->capacity * 2;
    grown = realloc(names->stack == names->own ? NULL : names->stack, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    if (names->stack == names->own)
        memcpy(grown, names->own, names->count * sizeof *grown);
    names->stack = grown;
    names->capacity = capacity;
    return true;
}

static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u; /* odd, and its bits are well mixed */
    return hash ^ hash >> 32;
}

static inline uint32_t hash_end(uint64_t hash, size_t bytes)
{
    return (uint32_t)hash_word(hash, bytes);
}

/* The last 0..7 bytes of a name as a number, the first one lowest. Loads overlap instead of looping:
 * the bytes that two of them read fall on the same bits. */
static inline uint64_t hash_tail(const char *at, size_t bytes)
{
    const unsigned char *byte = (const unsigned char *)at;
    uint32_t low, high;

    if (bytes >= 4) {
        memcpy(&low, at, 4);
        memcpy(&high, at + bytes - 4, 4);
        return le32toh(low) | (uint64_t)le32toh(high) << 8 * (bytes - 4);
    }
    if (bytes == 0)
        return 0;
    return byte[0] | (uint64_t)byte[bytes / 2] << 8 * (bytes / 2) |
           (uint64_t)byte[bytes - 1] << 8 * (bytes - 1);
}

static uint32_t hash_plain(const char *name, size_t bytes)
{
    const char *at = name;
    uint64_t hash = 0;
    size_t left;

    for (left = bytes; left >= 8; left -= 8, at += 8)
        hash = hash_word(hash, ec_json_load64(at));
    return hash_end(hash_word(hash, hash_tail(at, left)), bytes);
}

/* The same number for the same name. */
static uint32_t hash_escaped(const char *name, size_t bytes)
{
    struct ec_json_decoder decoder = { .at = name, .end = name + bytes };
    char word[8];
    uint64_t hash = 0;
    size_t count = 0, filled = 0;
    int byte;

    while ((byte = ec_json_decode_byte(&decoder)) >= 0) {
        word[filled++] = (char)byte;
        count++;
        if (filled == sizeof word) {
            hash = hash_word(hash, ec_json_load64(word));
            filled = 0;
        }
    }
    return hash_end(hash_word(hash, hash_tail(word, filled)), count);
}

/* By bytes with escapes resolved; a name stands before those that it begins. */
static int compare_bytes(const char *text, const struct ec_json_name *a,
                         const struct ec_json_name *b)
{
    struct ec_json_decoder left = { .at = text + a->offset, .end = text + a->offset + a->bytes };
    struct ec_json_decoder right = { .at = text + b->offset, .end = text + b->offset + b->bytes };
    int byte, other;

    if (!a->has_escape && !b->has_escape) {
        int order = memcmp(left.at, right.at, a->bytes < b->bytes ? a->bytes : b->bytes);

        return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
    }
    do {
        byte = ec_json_decode_byte(&left);
        other = ec_json_decode_byte(&right);
    } while (byte == other && byte >= 0);
    return byte - other;
}

static int compare(const char *text, const struct ec_json_name *a, const struct ec_json_name *b)
{
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return compare_bytes(text, a, b);
}

/* Merge [from, middle) and [middle, to); of equal names the left one comes first. */
static void merge(const char *text, const struct ec_json_name *names, size_t from, size_t middle,
                  size_t to, struct ec_json_name *out)
{
    size_t left = from, right = middle;

    for (size_t i = from; i < to; i++) {
        bool take_left =
            right == to || (left < middle && compare(text, &names[left], &names[right]) <= 0);

        out[i] = take_left ? names[left++] : names[right++];
    }
}

/* Sort with as much room behind the names; the result is in one half or the other. */
static const struct ec_json_name *sort(const char *text, struct ec_json_name *names, size_t count)
{
    struct ec_json_name *source = names, *target = names + count;

    for (size_t run = 1; run < count; run *= 2) {
        struct ec_json_name *sorted = target;

        for (size_t from = 0; from < count; from += 2 * run) {
            size_t middle = from + run < count ? from + run : count;
            size_t to = middle + run < count ? middle + run : count;

            merge(text, source, from, middle, to, target);
        }
        target = source;
        source = sorted;
    }
    return source;
}
