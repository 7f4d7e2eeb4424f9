/* engine-core/frame_string.h - a growing string that lives for a frame.
 *
 *     struct ec_frame_string label;
 *
 *     ec_frame_string_init(&label, frame); // in each frame anew
 *     ec_frame_string_format(&label, "%s (%d)", name, level);
 *     draw(ec_frame_string_text(&label));
 *
 * There is no finish: it ends with its frame, and its text can be read through the next one. Who goes on
 * appending after that gets EC_ERR_STALE, and it is counted in `failed` of the frame arena. As long as nothing
 * else is allocated from the arena, growing happens in place.
 *
 * Otherwise it is <engine-core/string.h>. Thread: that of the frame arena. */
#ifndef ENGINE_CORE_FRAME_STRING_H
#define ENGINE_CORE_FRAME_STRING_H

#include <engine-core/frame_arena.h>
#include <engine-core/string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_frame_string {
    struct ec_string string; /* changes go through the functions below */
    struct ec_frame_arena *frame;
    uint64_t number; /* of the frame that it lives in */
};

EC_API void ec_frame_string_init(struct ec_frame_string *string, struct ec_frame_arena *frame);

/* As in <engine-core/string.h>, and EC_ERR_STALE when its frame is over. */
EC_API int ec_frame_string_append(struct ec_frame_string *string, const char *text);
EC_API int ec_frame_string_append_bytes(struct ec_frame_string *string, const void *bytes,
                                        size_t count);
EC_API int ec_frame_string_format(struct ec_frame_string *string, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Its text; "" once it may no longer be read, which is after the frame that follows its own. */
EC_API const char *ec_frame_string_text(const struct ec_frame_string *string);

#ifdef __cplusplus
}
#endif
#endif
