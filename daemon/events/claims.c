/* claims.c - see claims.h. */
#include "events/claims.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/cursor_segment.h"
#include "proto/event_port.h"

enum { ID, READER_SLOT, SEGMENT, CURSOR, MEMBERS };

static int read_claim(struct claim *claim, struct ec_json_span object, bool of_port,
                      struct ec_error *why)
{
    const char *names[MEMBERS] = { of_port ? "reader_id" : "port_id", "reader_slot", "segment",
                                   "cursor" };
    struct ec_json_span values[MEMBERS] = { { 0 } };
    struct ec_json_fields fields = { .names = names,
                                     .values = values,
                                     .count = of_port ? CURSOR : MEMBERS };
    uint64_t numbers[MEMBERS] = { 0 };

    if (ec_json_bind(object, &fields) < 0 || fields.unknown.bytes != 0)
        return ec_fail(why, EC_ERR_PARAM, "resume: a claim is no object of known members");
    for (size_t i = 0; i < fields.count; i++)
        if (i == SEGMENT ? ec_json_get_hex64(values[i], &numbers[i]) < 0
                         : ec_json_get_u64(values[i], &numbers[i]) < 0)
            return ec_fail(why, EC_ERR_PARAM, "resume: %s of a claim is missing or no number",
                           names[i]);
    if (numbers[ID] == 0 || numbers[ID] > UINT32_MAX ||
        numbers[READER_SLOT] >= EC_PORT_READERS_MAX || numbers[CURSOR] >= EC_CURSORS_MAX)
        return ec_fail(why, EC_ERR_PARAM, "resume: a claim is out of range");
    *claim = (struct claim) {
        .id = (uint32_t)numbers[ID],
        .reader_slot = (uint32_t)numbers[READER_SLOT],
        .cursor = (uint32_t)numbers[CURSOR],
        .segment = numbers[SEGMENT],
    };
    return EC_OK;
}

/* A port's readers have a slot each; a reader's ports a cursor. */
static bool conflicts(const struct claim *a, const struct claim *b, bool of_port)
{
    return a->id == b->id || (of_port ? a->reader_slot == b->reader_slot : a->cursor == b->cursor);
}

int claims_read(struct claims *claims, struct ec_json_span array, bool of_port,
                struct ec_error *why)
{
    const uint32_t most = of_port ? EC_PORT_READERS_MAX : EC_CURSORS_MAX;
    struct ec_json_iterator items = ec_json_iterate(array);
    struct ec_json_span item;
    int rc = EC_OK;

    *claims = (struct claims) { 0 };
    while (rc == EC_OK && ec_json_next_element(&items, &item)) {
        struct claim *grown, claim;

        rc = read_claim(&claim, item, of_port, why);
        for (uint32_t i = 0; i < claims->count && rc == EC_OK; i++)
            if (conflicts(&claims->rows[i], &claim, of_port))
                rc = ec_fail(why, EC_ERR_PARAM, "resume: two claims for one place");
        if (rc == EC_OK && claims->count == most)
            rc = ec_fail(why, EC_ERR_PARAM, "resume: more than %u claims", most);
        if (rc < 0)
            break;
        grown = realloc(claims->rows, (claims->count + 1) * sizeof *grown);
        if (grown == NULL) {
            rc = ec_fail(why, EC_ERR_MEMORY, "no memory for %u claims", claims->count + 1);
            break;
        }
        claims->rows = grown;
        claims->rows[claims->count++] = claim;
    }
    if (rc < 0)
        claims_finish(claims);
    return rc;
}

void claims_finish(struct claims *claims)
{
    free(claims->rows);
    *claims = (struct claims) { 0 };
}

const struct claim *claims_find(const struct claims *claims, uint32_t id)
{
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->rows[i].id == id)
            return &claims->rows[i];
    return NULL;
}

void claims_remove(struct claims *claims, uint32_t id)
{
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->rows[i].id == id) {
            claims->rows[i] = claims->rows[--claims->count];
            return;
        }
}

uint64_t claim_segment(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}
