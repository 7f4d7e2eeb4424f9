/* log_journal.c - see log_journal.h. https://systemd.io/JOURNAL_NATIVE_PROTOCOL: one datagram of lines
 * NAME=value; values without a line feed need no length. */
#include "daemon/log_journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#define DATAGRAM_BYTES (4 * LOG_TEXT_BYTES + 256)

static const int priorities[] = {
    [LOG_LEVEL_TRACE] = LOG_DEBUG,     [LOG_LEVEL_DEBUG] = LOG_DEBUG, [LOG_LEVEL_INFO] = LOG_INFO,
    [LOG_LEVEL_WARNING] = LOG_WARNING, [LOG_LEVEL_ERROR] = LOG_ERR,
};

void log_journal_init(struct log_journal *journal, const char *path)
{
    *journal = (struct log_journal) { .fd = -1 };
    snprintf(journal->path, sizeof journal->path, "%s", path);
}

void log_journal_finish(struct log_journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
}

int log_journal_write(struct log_journal *journal, const struct log_line *line, const char *text)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char datagram[DATAGRAM_BYTES];
    int bytes;

    if (journal->fd < 0)
        journal->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (journal->fd < 0)
        return errno;
    memcpy(address.sun_path, journal->path, sizeof address.sun_path);
    bytes = snprintf(datagram, sizeof datagram,
                     "MESSAGE=%s\nPRIORITY=%d\nSYSLOG_IDENTIFIER=engine-cored\nEC_MODULE=%s\n"
                     "EC_LEVEL=%s\n",
                     text, priorities[line->level], line->module, log_level_name(line->level));
    if (sendto(journal->fd, datagram, (size_t)bytes, MSG_NOSIGNAL,
               (const struct sockaddr *)&address, sizeof address) >= 0)
        return 0;
    return errno;
}

/* systemd says device and inode of the stream that it has made: "8:12345". */
bool log_journal_is_stderr(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;

    return stream != NULL && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}
