/* log_journal.h - log lines for journald, with fields: its native protocol over a datagram socket.
 *
 *     MESSAGE=type game.shot registered by client 3
 *     PRIORITY=6
 *     SYSLOG_IDENTIFIER=engine-cored
 *     EC_MODULE=events
 *     EC_LEVEL=info
 *
 * Thread: one, the writer's. Nothing here blocks. */
#ifndef ENGINE_CORED_LOG_JOURNAL_H
#define ENGINE_CORED_LOG_JOURNAL_H

#include "daemon/log.h"

struct log_journal {
    int fd; /* -1: not open */
    char path[108];
};

void log_journal_init(struct log_journal *journal, const char *path);
void log_journal_finish(struct log_journal *journal);

/* text is the line's, without control characters. Returns 0, or the errno for which it was lost. */
int log_journal_write(struct log_journal *journal, const struct log_line *line, const char *text);

/* Does stderr lead to the journal already? */
bool log_journal_is_stderr(void);

#endif
