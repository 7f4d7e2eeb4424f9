#include "control/methods.h"

#include <assert.h>
#include <string.h>

_Static_assert(EC_COMMANDS * 2 <= METHOD_SLOTS, "the table is half empty");
_Static_assert(EC_COMMANDS < 255, "an index fits a slot");

static uint32_t hash_of(const char *name, size_t bytes);

void methods_init(struct methods *methods)
{
    *methods = (struct methods) { 0 };
    for (size_t i = 0; i < EC_COMMANDS; i++) {
        const struct ec_command_row *row = &ec_commands[i];
        uint32_t slot = hash_of(row->method, strlen(row->method)) % METHOD_SLOTS;

        while (methods->slots[slot] != 0)
            slot = (slot + 1) % METHOD_SLOTS;
        methods->slots[slot] = (uint8_t)(i + 1);
        assert(row->param_count <= METHOD_PARAMS_MAX);
        for (size_t p = 0; p < row->param_count; p++) {
            methods->params[i][p] = row->params[p].name;
            if (strcmp(row->params[p].name, "dry_run") == 0)
                methods->dry_run[i] = (uint8_t)(p + 1);
        }
    }
}

int methods_find(const struct methods *methods, struct ec_json_span name)
{
    char unescaped[METHOD_BYTES_MAX];
    const char *text = name.text + 1; /* between the quotes */
    size_t bytes = name.bytes - 2;

    if (memchr(text, '\\', bytes) != NULL) {
        if (ec_json_get_text(name, unescaped, sizeof unescaped) < 0)
            return -1;
        text = unescaped;
        bytes = strlen(unescaped);
    }
    for (uint32_t slot = hash_of(text, bytes) % METHOD_SLOTS; methods->slots[slot] != 0;
         slot = (slot + 1) % METHOD_SLOTS) {
        const int index = methods->slots[slot] - 1;
        const char *method = ec_commands[index].method;

        if (strncmp(method, text, bytes) == 0 && method[bytes] == '\0')
            return index;
    }
    return -1;
}

/* FNV-1a. The names are ours: who makes collisions only reaches names that we do not have. */
static uint32_t hash_of(const char *name, size_t bytes)
{
    uint32_t hash = 0x811c9dc5u;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)name[i]) * 0x01000193u;
    return hash;
}
