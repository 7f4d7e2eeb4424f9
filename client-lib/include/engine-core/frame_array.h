/* engine-core/frame_array.h - a growing array that lives for a frame.
 *
 *     struct ec_frame_array visible;
 *
 *     ec_frame_array_init(&visible, frame, sizeof(struct object *)); // in each frame anew
 *     ec_frame_array_add(&visible, &object);
 *     for (size_t i = 0; i < visible.array.count; i++)
 *         draw(*EC_ARRAY_AT(&visible.array, struct object *, i));
 *
 * There is no finish: it ends with its frame, and its items can be read through the next one. Who goes on
 * adding after that gets NULL, and it is counted in `failed` of the frame arena. As long as nothing else is
 * allocated from the arena, growing happens in place.
 *
 * Otherwise it is <engine-core/array.h>. Thread: that of the frame arena. */
#ifndef ENGINE_CORE_FRAME_ARRAY_H
#define ENGINE_CORE_FRAME_ARRAY_H

#include <engine-core/array.h>
#include <engine-core/frame_arena.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_frame_array {
    struct ec_array array; /* read it as you like; changes go through the functions below */
    struct ec_frame_arena *frame;
    uint64_t number; /* of the frame that it lives in */
};

EC_API void ec_frame_array_init(struct ec_frame_array *array, struct ec_frame_arena *frame,
                                size_t item_bytes);

/* As in <engine-core/array.h>, and EC_ERR_STALE or NULL when its frame is over. */
EC_API int ec_frame_array_reserve(struct ec_frame_array *array, size_t room);
EC_API void *ec_frame_array_add(struct ec_frame_array *array, const void *item);

/* Whether its items may still be read: EC_OK in its frame and the next, else EC_ERR_STALE. */
EC_API int ec_frame_array_check(const struct ec_frame_array *array);

#ifdef __cplusplus
}
#endif
#endif
