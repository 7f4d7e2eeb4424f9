/* replay_file.h - the events of a recording in an order that is the same every time.
 *
 *     replay_file_open(&file, "game.mcap", &(struct replay_choice){ .by_step = true }, &why);
 *     … file.ports …
 *     while ((rc = replay_file_next(&file, &event, &why)) == EC_OK)
 *         publish(event);
 *     replay_file_finish(&file);
 *
 * A recorder takes port after port, so a file is nearly in order, but not quite. Opening reads it once
 * and notes the least key of each chunk: an event may go out when no later chunk has one that comes
 * before it. What waits for that is held in a heap.
 *
 * Thread:    one.
 * Ownership: an event is the file's until the next call.
 * Cost:      the file is read twice; memory for what the recorder took out of order, and 8 bytes per
 *            chunk. */
#ifndef ENGINE_CTL_REPLAY_FILE_H
#define ENGINE_CTL_REPLAY_FILE_H

#include "engine-ctl/recording.h"

#define REPLAY_NAME_BYTES 48

struct replay_port {
    char client[REPLAY_NAME_BYTES];
    char name[REPLAY_NAME_BYTES];
    uint64_t events;
    size_t payload_bytes_max;
};

struct replay_channel {
    struct event_layout layout;
    uint64_t type; /* id */
    uint32_t port; /* index in ports */
};

struct replay_event {
    uint64_t key; /* time or step */
    uint32_t port;
    uint64_t sequence; /* within the port, then; publishing counts anew */
    uint64_t arrival;  /* its place in the file */
    uint64_t type;
    uint32_t flags;
    size_t bytes;
    unsigned char payload[];
};

struct replay_choice {
    const char *const *types; /* names */
    size_t type_count;        /* 0: all but the daemon's own, which would tell lies now */
    bool by_step;             /* order by (step, client, port, sequence); else by time first */
};

struct replay_file {
    struct replay_choice choice;
    struct replay_channel **channels; /* by id; NULL: not replayed */
    uint32_t channel_end;             /* ids lie below */
    struct replay_port *ports;        /* in the order of (client, name) */
    uint32_t port_count;
    uint64_t events;      /* that are replayed */
    uint64_t left_out;    /* of other types */
    uint64_t bad;         /* messages that are no events, or of a size that their layout forbids */
    uint64_t first, last; /* keys */
    bool whole;           /* false: the file was cut */
    uint64_t damaged;

    uint64_t *floors; /* by chunk: the least key from it on */
    uint64_t chunk_count;
    struct mcap_reader *reader;
    bool ended;
    uint64_t bound, arrivals;
    struct replay_event **heap, *current;
    size_t heap_count, heap_capacity;
};

/* Returns EC_OK, EC_ERR_NOT_FOUND (there is no event of a type that was asked for), EC_ERR_PARSE (no
 *         recording), EC_ERR_PARAM (a layout makes no sense) or what reading finds. Finish it also
 *         after an error. */
int replay_file_open(struct replay_file *file, const char *path, const struct replay_choice *choice,
                     struct ec_error *why);
void replay_file_finish(struct replay_file *file);

/* EC_OK, EC_AGAIN (that was all), EC_ERR_MEMORY, EC_ERR_SYSTEM. */
int replay_file_next(struct replay_file *file, const struct replay_event **event,
                     struct ec_error *why);

#endif
