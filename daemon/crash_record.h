/* crash_record.h - what is left of this process when it ends without a word.
 *
 * A file beside the socket (PATH.crash), mapped for as long as the daemon runs: whatever is stored in
 * it survives SIGKILL, because the pages belong to the file. It holds the last log lines and the state
 * of the last second. A handler of SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT adds signal, address
 * and stack; it uses async-signal-safe calls only, and then lets the signal end the process.
 *
 *     +--------+---------+-------+------------------------------+
 *     | header | modules | crash | last lines, a ring of texts  |
 *     +--------+---------+-------+------------------------------+
 *
 * The next run finds it, unless this one ended in good order, and makes a post-mortem record of it.
 *
 * Thread: loop, but for what the handler and the log do. Cost: a copy of each log line. */
#ifndef ENGINE_CORED_CRASH_RECORD_H
#define ENGINE_CORED_CRASH_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"

struct services;

int crash_record_init(struct services *services, struct ec_error *why); /* module phase: reads */
int crash_record_post_init(struct services *services,
                           struct ec_error *why); /* begins the own one */
void crash_record_shutdown(struct services *services);

#define CRASH_LINES 64
#define CRASH_LINE_BYTES 256
#define CRASH_FRAMES 48
#define CRASH_MODULES 64
#define CRASH_PATH_BYTES 128
#define CRASH_BUILD_ID_BYTES 20

/* A program or library as it was mapped. */
struct crash_module {
    uint64_t base, end;
    uint64_t bias; /* address in memory minus address in the file */
    uint8_t build_id[CRASH_BUILD_ID_BYTES];
    uint8_t build_id_bytes; /* 0: none */
    char path[CRASH_PATH_BYTES];
};

struct crash_line {
    int64_t at_unix_ns; /* 0: unused */
    uint32_t level;
    char text[CRASH_LINE_BYTES - 12]; /* module, then the text */
};

/* A record of an earlier run: copied, every text ended, every count bounded. */
struct crash_found {
    uint64_t instance;
    int32_t pid;
    char version[24];
    int64_t started_unix_ns, beat_unix_ns; /* when it was last known to run */
    uint64_t rss_bytes;
    uint32_t clients, breaker_level;
    uint64_t step; /* of the first step clock */
    bool same_boot;
    int32_t signal; /* 0: no handler ran: it was killed, or the host ended */
    int32_t code;   /* si_code */
    uint64_t address;
    int32_t thread;
    char thread_name[16];
    uint32_t frame_count;
    uint64_t frames[CRASH_FRAMES];
    uint32_t module_count;
    struct crash_module modules[CRASH_MODULES];
    uint32_t line_count;
    struct crash_line lines[CRASH_LINES]; /* oldest first */
};

/* What the run before left; NULL: it ended in good order, or there was none. */
const struct crash_found *crash_record_found(const struct services *services);

/* For tests: read a file. Returns EC_OK, EC_ERR_NOT_FOUND (no file, or in good order), EC_ERR_PERMISSION
 * (another user made it: the directory of the socket may be everybody's) or EC_ERR_LAYOUT. */
int crash_record_read(const char *path, struct crash_found *found, struct ec_error *why);

/* The module that an address lies in; NULL: none. */
const struct crash_module *crash_module_of(const struct crash_found *found, uint64_t address);

#endif
