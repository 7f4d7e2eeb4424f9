/* An array whose frame is known. */
#include <engine-core/frame_array.h>

#include "foundation/memory/arena.h"

static bool is_over(const struct ec_frame_array *array)
{
    return ec_frame_arena_number(array->frame) != array->number;
}

static int refuse(const struct ec_frame_array *array)
{
    ec_count(&ec_frame_arena_base(array->frame)->row->failed, 1, false);
    return EC_ERR_STALE;
}

void ec_frame_array_init(struct ec_frame_array *array, struct ec_frame_arena *frame,
                         size_t item_bytes)
{
    const struct ec_allocator from = ec_frame_allocator(frame);

    *array = (struct ec_frame_array) { .frame = frame, .number = ec_frame_arena_number(frame) };
    ec_array_init(&array->array, &from, item_bytes);
}

int ec_frame_array_reserve(struct ec_frame_array *array, size_t room)
{
    return is_over(array) ? refuse(array) : ec_array_reserve(&array->array, room);
}

void *ec_frame_array_add(struct ec_frame_array *array, const void *item)
{
    if (is_over(array)) {
        refuse(array);
        return NULL;
    }
    return ec_array_add(&array->array, item);
}

int ec_frame_array_check(const struct ec_frame_array *array)
{
    return ec_frame_arena_number(array->frame) - array->number <= 1 ? EC_OK : EC_ERR_STALE;
}
