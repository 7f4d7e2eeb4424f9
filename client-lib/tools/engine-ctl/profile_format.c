/* profile_format.c - see profile.proto of github.com/google/pprof for the numbers of the fields.
 *
 * Protobuf in short: a field is its number and its kind in one varint; a varint has seven bits a byte, the
 * least first; text and messages have their length before them. */
#include "engine-ctl/profile_format.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/memory_sites.h"

enum { VARINT = 0, BYTES = 2 };
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE };
enum {
    MAPPING_ID = 1,
    MAPPING_START,
    MAPPING_LIMIT,
    MAPPING_OFFSET,
    MAPPING_FILE,
    MAPPING_BUILD_ID,
    MAPPING_HAS_FUNCTIONS,
    MAPPING_HAS_FILES,
    MAPPING_HAS_LINES
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE };

/* A message that is being written. */
struct message {
    uint8_t *base;
    size_t bytes, capacity;
    bool failed;
};

/* A frame that was seen: its text is module and offset. */
struct location {
    char *key;
    uint64_t id;
};

struct profile {
    struct message out;
    char **strings;
    size_t string_count;
    struct location *locations;
    size_t location_count;
    struct symbols *symbols;
    const cJSON *modules;
};

static void append(struct message *message, const void *data, size_t bytes)
{
    if (message->bytes + bytes > message->capacity) {
        const size_t capacity = (message->bytes + bytes) * 2 + 64;
        uint8_t *more = realloc(message->base, capacity);

        if (more == NULL) {
            message->failed = true;
            return;
        }
        message->base = more;
        message->capacity = capacity;
    }
    memcpy(message->base + message->bytes, data, bytes);
    message->bytes += bytes;
}

static void put_varint(struct message *message, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;

    do {
        bytes[count] = (uint8_t)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        value >>= 7;
        count++;
    } while (value != 0);
    append(message, bytes, count);
}

static void put_number(struct message *message, unsigned field, uint64_t value)
{
    if (value == 0)
        return; /* is what a missing field means */
    put_varint(message, field << 3 | VARINT);
    put_varint(message, value);
}

static void put_bytes(struct message *message, unsigned field, const void *data, size_t bytes)
{
    put_varint(message, field << 3 | BYTES);
    put_varint(message, bytes);
    append(message, data, bytes);
}

static void put_message(struct message *message, unsigned field, struct message *part)
{
    put_bytes(message, field, part->base != NULL ? (const void *)part->base : "", part->bytes);
    message->failed |= part->failed;
    free(part->base);
    *part = (struct message) { 0 };
}

/* The index of a text in the table of strings; 0 is the empty one. */
static uint64_t intern(struct profile *profile, const char *text)
{
    char **more;

    for (size_t i = 0; i < profile->string_count; i++)
        if (strcmp(profile->strings[i], text) == 0)
            return i;
    more = realloc(profile->strings, (profile->string_count + 1) * sizeof *more);
    if (more != NULL) {
        profile->strings = more;
        more[profile->string_count] = strdup(text);
    }
    if (more == NULL || more[profile->string_count] == NULL) {
        profile->out.failed = true;
        return 0;
    }
    return profile->string_count++;
}

static void put_value_type(struct profile *profile, unsigned field, const char *type,
                           const char *unit)
{
    struct message part = { 0 };

    put_number(&part, TYPE_TYPE, intern(profile, type));
    put_number(&part, TYPE_UNIT, intern(profile, unit));
    put_message(&profile->out, field, &part);
}

/* Addresses are those in the file, and a mapping spans all of them. */
static void put_mappings(struct profile *profile)
{
    const cJSON *module;
    uint64_t id = 0;

    cJSON_ArrayForEach(module, profile->modules)
    {
        struct message part = { 0 };

        put_number(&part, MAPPING_ID, ++id);
        put_number(&part, MAPPING_LIMIT, UINT64_MAX >> 1);
        put_number(&part, MAPPING_FILE, intern(profile, json_text(module, "path")));
        put_number(&part, MAPPING_BUILD_ID, intern(profile, json_text(module, "build_id")));
        put_number(&part, MAPPING_HAS_FUNCTIONS, 1);
        put_number(&part, MAPPING_HAS_FILES, 1);
        put_number(&part, MAPPING_HAS_LINES, 1);
        put_message(&profile->out, PROFILE_MAPPING, &part);
    }
}

/* One function for each location: what is shared is only their names. */
static void put_function(struct profile *profile, uint64_t id, const struct symbol *symbol,
                         const char *fallback)
{
    struct message part = { 0 };
    const uint64_t name = intern(profile, symbol->function != NULL ? symbol->function : fallback);

    put_number(&part, FUNCTION_ID, id);
    put_number(&part, FUNCTION_NAME, name);
    put_number(&part, FUNCTION_SYSTEM_NAME, name);
    if (symbol->file != NULL)
        put_number(&part, FUNCTION_FILE, intern(profile, symbol->file));
    put_message(&profile->out, PROFILE_FUNCTION, &part);
}

static uint64_t put_location(struct profile *profile, const cJSON *frame)
{
    const cJSON *index = json_member(frame, "module");
    const cJSON *module =
        index == NULL ? NULL : cJSON_GetArrayItem(profile->modules, (int)index->valuedouble);
    const char *address = module == NULL ? json_text(frame, "address") : json_text(frame, "offset");
    const uint64_t id = profile->location_count + 1;
    struct location *more;
    struct message part = { 0 }, line = { 0 };
    struct symbol symbol = { 0 };
    char name[SITE_NAME_BYTES] = "", key[64];

    snprintf(key, sizeof key, "%d+%.40s", index == NULL ? -1 : (int)index->valuedouble, address);
    for (size_t i = 0; i < profile->location_count; i++)
        if (strcmp(profile->locations[i].key, key) == 0)
            return profile->locations[i].id;
    more = realloc(profile->locations, id * sizeof *more);
    if (more == NULL) {
        profile->out.failed = true;
        return 0;
    }
    profile->locations = more;
    more[id - 1] = (struct location) { strdup(key), id };
    if (more[id - 1].key == NULL) {
        profile->out.failed = true;
        return 0;
    }
    profile->location_count++;

    if (module != NULL)
        (void)symbols_find(profile->symbols, json_text(module, "path"),
                           json_text(module, "build_id"), strtoull(address, NULL, 16), true,
                           &symbol);
    if (symbol.function == NULL)
        memory_frame_name(profile->symbols, profile->modules, frame, name);
    put_function(profile, id, &symbol, name);
    put_number(&line, LINE_FUNCTION, id);
    put_number(&line, LINE_LINE, symbol.line > 0 ? (uint64_t)symbol.line : 0);
    put_number(&part, LOCATION_ID, id);
    if (module != NULL)
        put_number(&part, LOCATION_MAPPING, (uint64_t)index->valuedouble + 1);
    put_number(&part, LOCATION_ADDRESS, strtoull(address, NULL, 16));
    put_message(&part, LOCATION_LINE, &line);
    put_message(&profile->out, PROFILE_LOCATION, &part);
    return id;
}

static void put_sample(struct profile *profile, const cJSON *site)
{
    static const char *const values[] = { "count", "bytes", "total", "total_bytes" };
    struct message part = { 0 }, ids = { 0 }, numbers = { 0 };
    const cJSON *frame;

    cJSON_ArrayForEach(frame, json_member(site, "frames"))
        put_varint(&ids, put_location(profile, frame));
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        put_varint(&numbers, (uint64_t)json_number(site, values[i]));
    put_message(&part, SAMPLE_LOCATION, &ids);
    put_message(&part, SAMPLE_VALUE, &numbers);
    put_message(&profile->out, PROFILE_SAMPLE, &part);
}

bool profile_write_pprof(FILE *out, const cJSON *process, struct symbols *symbols)
{
    struct profile profile = { .symbols = symbols, .modules = json_member(process, "modules") };
    const cJSON *site;
    bool done;

    intern(&profile, "");
    put_value_type(&profile, PROFILE_SAMPLE_TYPE, "inuse_objects", "count");
    put_value_type(&profile, PROFILE_SAMPLE_TYPE, "inuse_space", "bytes");
    put_value_type(&profile, PROFILE_SAMPLE_TYPE, "alloc_objects", "count");
    put_value_type(&profile, PROFILE_SAMPLE_TYPE, "alloc_space", "bytes");
    put_mappings(&profile);
    cJSON_ArrayForEach(site, json_member(process, "sites"))
    {
        put_sample(&profile, site);
    }
    put_value_type(&profile, PROFILE_PERIOD_TYPE, "space", "bytes");
    put_number(&profile.out, PROFILE_PERIOD,
               (uint64_t)json_number(json_member(process, "sampling"), "sample_bytes"));
    for (size_t i = 0; i < profile.string_count; i++)
        put_bytes(&profile.out, PROFILE_STRING, profile.strings[i], strlen(profile.strings[i]));

    done = !profile.out.failed &&
           fwrite(profile.out.base, 1, profile.out.bytes, out) == profile.out.bytes;
    for (size_t i = 0; i < profile.string_count; i++)
        free(profile.strings[i]);
    for (size_t i = 0; i < profile.location_count; i++)
        free(profile.locations[i].key);
    free(profile.strings);
    free(profile.locations);
    free(profile.out.base);
    return done;
}

/* A semicolon parts frames and a space ends them, so neither may be in a name. */
static void fold(char *name)
{
    for (char *c = name; *c != '\0'; c++)
        if (*c == ';' || *c == ' ')
            *c = '_';
}

bool profile_write_folded(FILE *out, const cJSON *process, struct symbols *symbols, bool by_total)
{
    const cJSON *modules = json_member(process, "modules"), *site;

    cJSON_ArrayForEach(site, json_member(process, "sites"))
    {
        const cJSON *frames = json_member(site, "frames");
        const int depth = cJSON_GetArraySize(frames);
        char name[SITE_NAME_BYTES];

        for (int i = depth - 1; i >= 0; i--) {
            memory_frame_name(symbols, modules, cJSON_GetArrayItem(frames, i), name);
            fold(name);
            fprintf(out, "%s%s", name, i > 0 ? ";" : "");
        }
        if (depth == 0) {
            snprintf(name, sizeof name, "%s", json_text(site, "where"));
            fold(name);
            fputs(name, out);
        }
        fprintf(out, " %.0f\n", json_number(site, by_total ? "total_bytes" : "bytes"));
    }
    return ferror(out) == 0;
}
