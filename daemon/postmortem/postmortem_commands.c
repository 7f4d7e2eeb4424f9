/* postmortem_commands.c - postmortem.list and postmortem.get. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/request.h"
#include "postmortem/state.h"

/* What a list shows of a record, as it stands there. */
static const char *const shown[] = { "kind",  "unix_ns",     "name", "client_id",  "pid",
                                     "cause", "signal_name", "code", "last_frame", "last_step" };
#define SHOWN (sizeof shown / sizeof shown[0])

static void write_row(struct ec_json_writer *w, const struct record_row *row, const char *text)
{
    struct ec_json_span values[SHOWN] = { { 0 } };
    struct ec_json_fields fields = { .names = shown, .values = values, .count = SHOWN };

    ec_json_object_begin(w);
    ec_json_member_u64(w, "id", row->id);
    ec_json_member_u64(w, "bytes", row->bytes);
    ec_json_member_boolean(w, "on_disk", row->unwritten == NULL);
    if (text == NULL || ec_json_scan(text, strlen(text), NULL, &fields, NULL) < 0) {
        ec_json_member_string(w, "kind", "unreadable");
    } else {
        for (size_t i = 0; i < SHOWN; i++)
            if (values[i].text != NULL)
                ec_json_member_raw(w, shown[i], values[i]);
    }
    ec_json_object_end(w);
}

int cmd_postmortem_list(struct request *request)
{
    const struct params_postmortem_list *params = request->params;
    const struct records *records = request->services->postmortem->records;
    struct ec_json_writer *w = request->result;
    const struct record_row *row;
    uint32_t count = 0;

    while (records_at(records, count) != NULL)
        count++;
    ec_json_object_begin(w);
    ec_json_member_array(w, "items");
    for (int64_t left = params->limit.integer; left > 0 && count > 0; left--) {
        char *text = NULL;

        row = records_at(records, --count); /* the newest first */
        if (records_read(records, row->id, &text, request->why) < 0)
            text = NULL;
        write_row(w, row, text);
        free(text);
    }
    ec_json_array_end(w);
    ec_json_object_end(w);
    return EC_OK;
}

int cmd_postmortem_get(struct request *request)
{
    const struct params_postmortem_get *params = request->params;
    struct ec_json_fault fault = { 0 };
    char *text = NULL;
    int rc = records_read(request->services->postmortem->records, (uint32_t)params->id.integer,
                          &text, request->why);

    if (rc < 0)
        return rc;
    /* Somebody may have changed the file: what is not strict JSON is not sent. */
    if (ec_json_check(text, strlen(text), NULL, &fault) < 0)
        rc = ec_fail(request->why, EC_ERR_STATE, "record %" PRId64 " is damaged: %s at byte %zu",
                     params->id.integer, fault.reason, fault.offset);
    else
        ec_json_raw(request->result, ec_json_root(text, strlen(text)));
    free(text);
    return rc;
}
