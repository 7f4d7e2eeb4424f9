/* Room doubles from 8 items on. */
#include <engine-core/array.h>

#include <string.h>

#define ROOM_FIRST 8

static int grow(struct ec_array *array, size_t room);

static char *at(const struct ec_array *array, size_t index)
{
    return (char *)array->items + index * array->item_bytes;
}

void ec_array_init(struct ec_array *array, const struct ec_allocator *from, size_t item_bytes)
{
    *array = (struct ec_array) { .item_bytes = item_bytes, .from = *from };
}

void ec_array_finish(struct ec_array *array)
{
    if (array->items != NULL)
        ec_allocator_free(&array->from, array->items, array->room * array->item_bytes);
    array->items = NULL;
    array->count = array->room = 0;
}

int ec_array_reserve(struct ec_array *array, size_t room)
{
    return room > array->room ? grow(array, room) : EC_OK;
}

void *ec_array_add(struct ec_array *array, const void *item)
{
    return ec_array_insert(array, array->count, item);
}

void *ec_array_insert(struct ec_array *array, size_t index, const void *item)
{
    const char *const own = array->items;
    size_t own_offset = SIZE_MAX;

    if (index > array->count)
        return NULL;
    if (item != NULL && own != NULL && (const char *)item >= own &&
        (const char *)item < own + array->count * array->item_bytes)
        own_offset = (size_t)((const char *)item - own);
    if (array->count == array->room) {
        const size_t room = array->room != 0 ? array->room * 2 : ROOM_FIRST;

        if (room < array->room || grow(array, room) < 0)
            return NULL;
    }
    memmove(at(array, index + 1), at(array, index), (array->count - index) * array->item_bytes);
    array->count++;
    if (own_offset != SIZE_MAX) { /* where it is now */
        if (own_offset >= index * array->item_bytes)
            own_offset += array->item_bytes;
        item = (char *)array->items + own_offset;
    }
    if (item != NULL)
        memcpy(at(array, index), item, array->item_bytes);
    return at(array, index);
}

int ec_array_remove(struct ec_array *array, size_t index)
{
    if (index >= array->count)
        return EC_ERR_PARAM;
    memmove(at(array, index), at(array, index + 1), (array->count - index - 1) * array->item_bytes);
    array->count--;
    return EC_OK;
}

int ec_array_remove_swap(struct ec_array *array, size_t index)
{
    if (index >= array->count)
        return EC_ERR_PARAM;
    array->count--;
    if (index != array->count)
        memcpy(at(array, index), at(array, array->count), array->item_bytes);
    return EC_OK;
}

void ec_array_clear(struct ec_array *array)
{
    array->count = 0;
}

int ec_array_shrink(struct ec_array *array)
{
    if (array->count == 0) {
        ec_array_finish(array);
        return EC_OK;
    }
    return array->count < array->room ? grow(array, array->count) : EC_OK;
}

/* Or shrink. */
static int grow(struct ec_array *array, size_t room)
{
    size_t bytes;
    void *items;

    if (__builtin_mul_overflow(room, array->item_bytes, &bytes))
        return EC_ERR_SIZE;
    items =
        ec_allocator_resize(&array->from, array->items, array->room * array->item_bytes, bytes, 0);
    if (items == NULL)
        return EC_ERR_MEMORY;
    array->items = items;
    array->room = room;
    return EC_OK;
}
