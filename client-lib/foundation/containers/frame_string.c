/* A string whose frame is known. */
#include <engine-core/frame_string.h>

#include "foundation/memory/arena.h"

/* false: its frame is over, which is counted. */
static bool may_change(const struct ec_frame_string *string)
{
    if (ec_frame_arena_number(string->frame) == string->number)
        return true;
    ec_count(&ec_frame_arena_base(string->frame)->row->failed, 1, false);
    return false;
}

void ec_frame_string_init(struct ec_frame_string *string, struct ec_frame_arena *frame)
{
    const struct ec_allocator from = ec_frame_allocator(frame);

    *string = (struct ec_frame_string) { .frame = frame, .number = ec_frame_arena_number(frame) };
    ec_string_init(&string->string, &from);
}

int ec_frame_string_append(struct ec_frame_string *string, const char *text)
{
    return may_change(string) ? ec_string_append(&string->string, text) : EC_ERR_STALE;
}

int ec_frame_string_append_bytes(struct ec_frame_string *string, const void *bytes, size_t count)
{
    return may_change(string) ? ec_string_append_bytes(&string->string, bytes, count)
                              : EC_ERR_STALE;
}

int ec_frame_string_format(struct ec_frame_string *string, const char *format, ...)
{
    va_list list;
    int rc;

    if (!may_change(string))
        return EC_ERR_STALE;
    va_start(list, format);
    rc = ec_string_format_list(&string->string, format, list);
    va_end(list);
    return rc;
}

const char *ec_frame_string_text(const struct ec_frame_string *string)
{
    return ec_frame_arena_number(string->frame) - string->number <= 1
               ? ec_string_text(&string->string)
               : "";
}
