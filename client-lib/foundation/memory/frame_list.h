/* foundation/memory/frame_list.h - what has to hear of a sink's frames.
 *
 * Frame arenas go on when a frame begins, object pools destroy what was put off when one ends.
 *
 * Thread: any; functions are called under a lock, on the thread that marks the frame: they must not add or
 * remove. Cost: an uncontended lock for each mark. */
#ifndef EC_FOUNDATION_MEMORY_FRAME_LIST_H
#define EC_FOUNDATION_MEMORY_FRAME_LIST_H

struct ec_memory_sink;

struct ec_frame_link {
    void (*begins)(void *context); /* NULL: it does not want to know */
    void (*ends)(void *context);
    void *context;
    struct ec_frame_link *next;
};

/* sink NULL: it has no frames, and nothing happens. The link stays the caller's. */
void ec_frame_list_add(struct ec_memory_sink *sink, struct ec_frame_link *link);
void ec_frame_list_remove(struct ec_memory_sink *sink, struct ec_frame_link *link);

void ec_frame_list_begin(struct ec_memory_sink *sink);
void ec_frame_list_end(struct ec_memory_sink *sink);

#endif
