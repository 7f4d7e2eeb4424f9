/* support/daemon.h - run a real engine-cored for one test, and talk to it in raw lines.
 *
 *     struct daemon_process daemon;
 *     struct line_client client;
 *
 *     ck_assert_msg(daemon_start(&daemon, NULL), "%s", daemon.why);
 *     ck_assert(line_client_connect(&client, daemon.socket_path));
 *     reply = line_client_call(&client, "core.ping", "{}");
 *     line_client_close(&client);
 *     ck_assert_int_eq(daemon_stop(&daemon), 0);
 *
 * The daemon lives in a directory of its own that goes with it. It is ready when it has said so over
 * NOTIFY_SOCKET, so nothing here sleeps or polls. Every line that comes back is checked to be strict
 * JSON; one that is not aborts the test.
 *
 * Thread: one at a time. All file descriptors are close-on-exec. */
#ifndef EC_SUPPORT_DAEMON_H
#define EC_SUPPORT_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define KEPT_DESCRIPTORS_MAX 64
#define DAEMON_WAIT_MS 90000 /* how long any of these waits before the test has failed */

struct daemon_process {
    pid_t pid;
    int pidfd;
    char directory[64];   /* made by mkdtemp; removed by daemon_stop and daemon_kill */
    char socket_path[96]; /* in directory */
    char config_path[96]; /* in directory; written by daemon_write_config */
    char stderr_path[96]; /* what the daemon said */
    char notify_path[96]; /* the socket that it reports to */
    int notify_fd;
    int listen_fd; /* of the test: passed by socket activation when it is not 0 */
    bool is_mute;  /* started with stdin, stdout and stderr closed */
    /* Do as a service manager with a descriptor store: keep what the daemon sends, and pass it to the
     * next daemon_start. */
    bool keeps_descriptors;
    struct kept_descriptor {
        char name[64];
        int fd;
    } kept[KEPT_DESCRIPTORS_MAX];
    unsigned kept_count;
    char why[256]; /* the reason of a failed start */
};

/* Make the directory only: before daemon_write_config and daemon_start, which else does it. */
bool daemon_prepare(struct daemon_process *daemon);
/* A configuration file that daemon_start passes with --config. */
bool daemon_write_config(struct daemon_process *daemon, const char *json);

/* Start engine-cored with --socket and further arguments (NULL-terminated, or NULL) and wait until it
 * is ready. false: it ended before; why has its last words. Zero the struct first, or prepare it. */
bool daemon_start(struct daemon_process *daemon, const char *const *arguments);

/* SIGTERM and SIGKILL. Both wait for the end, remove the directory and return the exit status: the
 * code, or -signal. A daemon that does not end in time is killed: -SIGKILL. */
int daemon_stop(struct daemon_process *daemon);
int daemon_kill(struct daemon_process *daemon);
/* Wait until it ends by itself; the same afterwards. */
int daemon_wait(struct daemon_process *daemon);

/* The next message on the notify socket, such as "READY=1\nSTATUS=...". NULL: none came in time. */
const char *daemon_notification(struct daemon_process *daemon);

/* SIGKILL, but the directory stays for the next daemon_start, in which games find the new one. */
void daemon_crash(struct daemon_process *daemon);
/* The same with SIGTERM: it ends in good order, or the test is aborted. */
void daemon_end(struct daemon_process *daemon);

/* Run engine-cored to its end with the arguments. output gets stdout and stderr. Returns the exit
 * status as daemon_stop does. */
int daemon_run(const char *const *arguments, char *output, size_t output_bytes);

/* How many descriptors a process, the daemon or a game, keeps open: the fewest of several looks, because
 * it opens files in passing, such as those in /proc that say how much memory there is. */
unsigned process_descriptors(pid_t pid);

/* How much of a process is in memory. 0 with a sanitizer, which keeps freed memory for a while. */
long process_resident_kib(pid_t pid);

/* What the daemon wrote to stderr so far, NUL-terminated; caller frees. */
char *daemon_stderr(const struct daemon_process *daemon);
/* Whether this is in it. */
bool daemon_has_said(const struct daemon_process *daemon, const char *text);

struct line_client {
    int fd;
    char *buffer; /* received and not yet returned */
    size_t bytes, capacity, taken;
    unsigned next_id;
    int fds[72]; /* descriptors that came with what was received; the test's to close */
    unsigned fd_count;
};

bool line_client_connect(struct line_client *client, const char *socket_path);
void line_client_close(struct line_client *client);

/* Send bytes as they are, or a line with LF added; fds ride on the first byte. false: hung up. */
bool line_client_send_bytes(struct line_client *client, const void *data, size_t bytes);
bool line_client_send(struct line_client *client, const char *line);
bool line_client_send_fds(struct line_client *client, const char *line, const int *fds,
                          unsigned fd_count);

/* The next line without its LF, valid until the next call here; NULL: the daemon hung up.
 * No line in time aborts the test. */
const char *line_client_receive(struct line_client *client);

/* Send a request with a fresh id and return the reply with that id, skipping notifications.
 * params is JSON text or NULL. */
const char *line_client_call(struct line_client *client, const char *method, const char *params);

/* The same; a reply without a result aborts the test. */
const char *line_client_must(struct line_client *client, const char *method, const char *params);

/* The same over a connection of its own. Valid until the next. */
const char *daemon_ask(const struct daemon_process *daemon, const char *method, const char *params);

/* core.hello with this name. */
const char *line_client_hello(struct line_client *client, const char *name);

/* Wait until the daemon has hung up; what it still sends is thrown away. */
void line_client_wait_hang_up(struct line_client *client);

/* Is there a member of this name anywhere in the line whose JSON text is value? For short checks:
 * line_has(reply, "pong", "true"). */
bool line_has(const char *line, const char *name, const char *value);

#endif
