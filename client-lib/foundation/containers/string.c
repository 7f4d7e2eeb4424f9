/* Room doubles from 32 bytes on, and is what is asked for where that is more. */
#include <engine-core/string.h>

#include <stdio.h>
#include <string.h>

#define ROOM_FIRST 32

static int make_room(struct ec_string *string, size_t more);

void ec_string_init(struct ec_string *string, const struct ec_allocator *from)
{
    *string = (struct ec_string) { .from = *from };
}

void ec_string_finish(struct ec_string *string)
{
    if (string->bytes != NULL)
        ec_allocator_free(&string->from, string->bytes, string->room);
    string->bytes = NULL;
    string->length = string->room = 0;
    string->status = EC_OK;
}

int ec_string_append(struct ec_string *string, const char *text)
{
    return ec_string_append_bytes(string, text, strlen(text));
}

/* The bytes may be a part of the string itself. */
int ec_string_append_bytes(struct ec_string *string, const void *bytes, size_t count)
{
    const char *const from = bytes, *const own = string->bytes;
    const bool is_own = own != NULL && from >= own && from < own + string->room;
    const size_t offset = is_own ? (size_t)(from - own) : 0;

    if (make_room(string, count) < 0)
        return string->status;
    if (count != 0)
        memmove(string->bytes + string->length, is_own ? string->bytes + offset : from, count);
    string->length += count;
    string->bytes[string->length] = '\0';
    return EC_OK;
}

int ec_string_append_char(struct ec_string *string, char c)
{
    return ec_string_append_bytes(string, &c, 1);
}

int ec_string_format(struct ec_string *string, const char *format, ...)
{
    va_list list;
    int rc;

    va_start(list, format);
    rc = ec_string_format_list(string, format, list);
    va_end(list);
    return rc;
}

/* Into the room that there is; where it is not enough, once more. */
int ec_string_format_list(struct ec_string *string, const char *format, va_list list)
{
    size_t room;
    va_list again;
    int count;

    if (make_room(string, 0) < 0)
        return string->status;
    room = string->room - string->length;
    va_copy(again, list);
    count = vsnprintf(string->bytes + string->length, room, format, list);
    if (count < 0) {
        string->bytes[string->length] = '\0';
        string->status = EC_ERR_SIZE; /* more than INT_MAX */
    } else if ((size_t)count < room) {
        string->length += (size_t)count;
    } else if (make_room(string, (size_t)count) == EC_OK) {
        vsnprintf(string->bytes + string->length, (size_t)count + 1, format, again);
        string->length += (size_t)count;
    } else {
        string->bytes[string->length] = '\0';
    }
    va_end(again);
    return string->status;
}

int ec_string_reserve(struct ec_string *string, size_t bytes)
{
    return bytes > string->length ? make_room(string, bytes - string->length) : string->status;
}

void ec_string_truncate(struct ec_string *string, size_t length)
{
    if (length >= string->length)
        return;
    string->length = length;
    string->bytes[length] = '\0';
}

void ec_string_clear(struct ec_string *string)
{
    string->status = EC_OK;
    ec_string_truncate(string, 0);
}

const char *ec_string_text(const struct ec_string *string)
{
    return string->bytes != NULL ? string->bytes : "";
}

int ec_string_status(const struct ec_string *string)
{
    return string->status;
}

/* For so many bytes more, and the NUL. */
static int make_room(struct ec_string *string, size_t more)
{
    const size_t least = string->length + 1;
    size_t room = string->room * 2 > ROOM_FIRST ? string->room * 2 : ROOM_FIRST;
    char *bytes;

    if (string->status < 0)
        return string->status;
    if (string->room >= least && more <= string->room - least)
        return EC_OK;
    if (more > SIZE_MAX / 4 - least)
        return string->status = EC_ERR_SIZE;
    if (room < least + more)
        room = least + more;
    bytes = ec_allocator_resize(&string->from, string->bytes, string->room, room, 1);
    if (bytes == NULL)
        return string->status = EC_ERR_MEMORY;
    if (string->bytes == NULL)
        bytes[0] = '\0';
    string->bytes = bytes;
    string->room = room;
    return EC_OK;
}
