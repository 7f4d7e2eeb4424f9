/* log_sinks.h - where log lines go: stderr, a file, the journal; any of them, or all.
 *
 * Thread: the writer's, but log_sinks_desc, which is plain data. */
#ifndef ENGINE_CORED_LOG_SINKS_H
#define ENGINE_CORED_LOG_SINKS_H

#include <limits.h>

#include "daemon/log.h"
#include "daemon/log_file.h"
#include "daemon/log_journal.h"

struct log_sinks_desc {
    bool to_stderr, to_file, to_journal;
    char file[PATH_MAX];
    uint64_t file_bytes;
    unsigned file_count;
    char journal[108];
};

struct log_sinks {
    struct log_sinks_desc desc;
    struct log_file file;
    struct log_journal journal;
    uint64_t lost;   /* lines that a file or the journal did not take */
    bool is_failing; /* it has been said */
};

/* What a sink says of itself, such as that its disk is full; goes to all other sinks, too. */
typedef void log_sinks_say_fn(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void log_sinks_use(struct log_sinks *sinks, const struct log_sinks_desc *desc);
void log_sinks_finish(struct log_sinks *sinks);

/* One line, as stderr shows it (with its LF) and without control characters in text. Returns whether it
 * is for stderr, too: the caller writes that. */
bool log_sinks_write(struct log_sinks *sinks, const struct log_line *line, const char *shown,
                     size_t shown_bytes, const char *text, log_sinks_say_fn *say);

#endif
