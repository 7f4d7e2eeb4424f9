/* decode_server.c - nursery and servers: two loops over one kind of order.
 *
 * Nursery and server are the same program. One socket brings orders; a signalfd tells of children that
 * ended. When the other end of the socket is closed, by the daemon or by its death, the process kills
 * its children and ends; so nothing of it is left over however the daemon ended. */
#include "resources/decode_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resources/decode_messages.h"
#include "resources/packet.h"
#include "resources/search_path.h"

#define CHILDREN_MAX                                                                               \
    1024 /* more than there are workers, and than servers that wait for their end */

/* A new server's first answer is milliseconds of work, which no configuration bounds: a limit that is
 * meant for archives must not refuse the start on a machine that stands still. */
#define START_S 30
#define PROBE_S 5 /* of that for the probe of the filter */

/* How a program is asked to be a nursery, and where its socket is. */
#define NURSERY_ARGUMENT "--decode-nursery"
#define NURSERY_FD (STDERR_FILENO + 1)

/* A server whose beginning fails because a process was killed is tried so often. */
#define TRIES 4

/* ---- in nursery and server ---- */

struct server_process {
    int orders_fd;
    int signal_fd;
    decode_child_fn *child;
    struct search_path *search; /* NULL in the nursery */
    enum sandbox_guard guard;
    struct {
        pid_t pid;
        int status_fd; /* -1: a server */
    } children[CHILDREN_MAX];
    unsigned count;
};

static void server_run(int orders_fd, decode_child_fn *child, const char *name)
    __attribute__((noreturn));
static void order_handle(struct server_process *process);
static void order_serve(struct server_process *process, int fd);
static void order_mount(struct server_process *process, const struct decode_mount *mount);
static void order_load(struct server_process *process, const struct decode_load *load,
                       const int fds[2]);
static void children_reap(struct server_process *process);
static void close_all_but(int keep_fd);

static void server_run(int orders_fd, decode_child_fn *child, const char *name)
{
    static struct server_process process; /* the process has no other */
    sigset_t ended, all;

    /* The daemon's signals are not meant for its helpers, which share its terminal and control group.
     * SIGALRM ends a server that does not come to the end of an archive. */
    sigfillset(&all);
    sigdelset(&all, SIGALRM);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_NAME, name);
    process = (struct server_process) { .orders_fd = orders_fd, .child = child };
    process.signal_fd = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
    if (process.signal_fd < 0)
        _exit(EXIT_FAILURE);
    for (;;) {
        struct pollfd wait[] = { { .fd = orders_fd, .events = POLLIN },
                                 { .fd = process.signal_fd, .events = POLLIN } };

        if (poll(wait, 2, -1) < 0)
            continue;
        if (wait[1].revents != 0)
            children_reap(&process);
        if (wait[0].revents != 0)
            order_handle(&process);
    }
}

static void server_end(struct server_process *process)
{
    for (unsigned i = 0; i < process->count; i++)
        kill(process->children[i].pid, SIGKILL);
    while (wait(NULL) > 0)
        ;
    _exit(EXIT_SUCCESS);
}

static void order_handle(struct server_process *process)
{
    struct decode_order order;
    int fds[2];

    if (!packet_receive(process->orders_fd, &order, sizeof order, fds, 2))
        server_end(process);
    switch (order.kind) {
    case DECODE_SERVE:
        order_serve(process, fds[0]);
        break;
    case DECODE_MOUNT:
        order_mount(process, &order.mount);
        break;
    case DECODE_LOAD:
        order_load(process, &order.load, fds);
        break;
    }
    for (unsigned i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Returns as fork does, 0 in the child; -1 with errno when there are too many. */
static pid_t child_fork(struct server_process *process, int status_fd)
{
    pid_t pid;

    if (process->count == CHILDREN_MAX) {
        errno = EAGAIN;
        return -1;
    }
    pid = fork();
    if (pid > 0) {
        process->children[process->count].pid = pid;
        process->children[process->count++].status_fd = status_fd;
    }
    return pid;
}

/* The new server's first answer tells the daemon that it lives; if it does not, the end is closed. */
static void order_serve(struct server_process *process, int fd)
{
    if (child_fork(process, -1) == 0) {
        close_all_but(fd);
        server_run(fd, process->child, "ec-decode");
    }
}

/* Try on a child what the kernel has. One that a filter kills had a filter; one that hangs under it ends
 * itself after a while, and says nothing for it. */
static enum sandbox_guard probe_guard(int socket_fd)
{
    const pid_t pid = fork();
    struct sandbox sandbox;
    int status;

    if (pid == 0) {
        alarm(PROBE_S);
        sandbox_enter(&sandbox, socket_fd, 0);
        _exit((int)sandbox.guard);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return SANDBOX_PROCESS;
    if (WIFEXITED(status))
        return (enum sandbox_guard)WEXITSTATUS(status);
    return WTERMSIG(status) == SIGSYS ? SANDBOX_SECCOMP : SANDBOX_PROCESS;
}

static void order_mount(struct server_process *process, const struct decode_mount *mount)
{
    struct decode_mounted answer = { 0 };
    struct ec_error why = { 0 };

    alarm(mount->seconds);
    answer.rc = EC_OK;
    if (process->search == NULL) {
        answer.rc = search_path_create(&process->search, &why);
        process->guard = probe_guard(process->orders_fd);
    }
    answer.guard = process->guard;
    if (answer.rc == EC_OK && mount->path[0] != '\0')
        answer.rc = search_path_mount(process->search, mount->path, mount->at, true, &why);
    alarm(0);
    memcpy(answer.text, why.text, sizeof answer.text);
    packet_send(process->orders_fd, &answer, sizeof answer, NULL, 0);
}

/* What a fault of its own raises; those of a terminal stay away. */
static void signals_unblock(void)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGXCPU };
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigaddset(&set, own[i]);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* fds: the child's end of the job socket; where to report about the child. */
static void order_load(struct server_process *process, const struct decode_load *load,
                       const int fds[2])
{
    int status_fd = dup(fds[1]), pid_fd = -1;
    struct decode_status status = { .kind = DECODE_STARTED };
    const pid_t server = getpid();
    const pid_t pid = status_fd < 0 ? -1 : child_fork(process, status_fd);

    if (pid == 0) {
        close(status_fd);
        close(fds[1]);
        close(process->orders_fd);
        close(process->signal_fd);
        signals_unblock();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != server) /* it died in between */
            _exit(EXIT_FAILURE);
        process->child(process->search, load, fds[0]);
        _exit(EXIT_FAILURE); /* it does not come back */
    }
    if (pid < 0 || (pid_fd = (int)syscall(SYS_pidfd_open, pid, 0)) < 0)
        status.value = errno; /* without a pidfd the child finds its socket closed, and ends */
    packet_send(fds[1], &status, sizeof status, &pid_fd, pid_fd >= 0 ? 1 : 0);
    if (pid_fd >= 0)
        close(pid_fd);
    if (pid < 0 && status_fd >= 0)
        close(status_fd);
}

static void child_ended(struct server_process *process, pid_t pid, int value)
{
    const struct decode_status status = { .kind = DECODE_ENDED, .value = value };

    for (unsigned i = 0; i < process->count; i++) {
        const int fd = process->children[i].status_fd;

        if (process->children[i].pid != pid)
            continue;
        if (fd >= 0) {
            packet_send(fd, &status, sizeof status, NULL, 0);
            close(fd);
        }
        process->children[i] = process->children[--process->count];
        return;
    }
}

static void children_reap(struct server_process *process)
{
    struct signalfd_siginfo signals[8];
    int status;
    pid_t pid;

    while (read(process->signal_fd, signals, sizeof signals) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        child_ended(process, pid, status);
}

/* stderr stays: what a sanitizer or the C library has to say goes there. */
static void close_all_but(int keep_fd)
{
    if (keep_fd > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)keep_fd - 1, 0);
    close_range((unsigned)keep_fd + 1, ~0u, 0);
}

/* ---- in the daemon ---- */

struct decode_nursery {
    pthread_mutex_t lock; /* of all */
    pid_t pid;
    int orders_fd;
    bool stopped; /* for good */
};

struct decode_server {
    atomic_uint references;
    int orders_fd;
    enum sandbox_guard guard;
    unsigned count;
    struct search_mount *mounts; /* copies */
};

static int nursery_order(struct decode_nursery *nursery, int server_fd, struct ec_error *why);
static int server_begin(struct decode_nursery *nursery, struct decode_server *server,
                        struct ec_error *why);
static int mounts_copy(struct decode_server *server, const struct search_mount *mounts,
                       unsigned count, struct ec_error *why);

static int server_mount(struct decode_server *server, const struct search_mount *mount,
                        unsigned seconds, struct ec_error *why);

void decode_nursery_if_asked(int argc, char **argv, decode_child_fn *child)
{
    if (argc == 2 && strcmp(argv[1], NURSERY_ARGUMENT) == 0)
        server_run(NURSERY_FD, child, "ec-nursery");
}

int decode_nursery_start(decode_child_fn *child, struct decode_nursery **nursery,
                         struct ec_error *why)
{
    struct decode_nursery *made = calloc(1, sizeof *made);
    int ends[2];

    *nursery = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the decoding processes");
    if (!packet_pair(ends)) {
        free(made);
        return ec_fail(why, EC_ERR_SYSTEM, "decoding processes: socketpair: %s", strerror(errno));
    }
    made->orders_fd = ends[0];
    made->pid = fork();
    if (made->pid == 0) {
        close_all_but(ends[1]);
        server_run(ends[1], child, "ec-nursery");
    }
    close(ends[1]);
    if (made->pid < 0) {
        const int code =
            ec_fail(why, EC_ERR_SYSTEM, "decoding processes: fork: %s", strerror(errno));

        close(ends[0]);
        free(made);
        return code;
    }
    pthread_mutex_init(&made->lock, NULL); /* never fails with default attributes */
    *nursery = made;
    return EC_OK;
}

void decode_nursery_stop(struct decode_nursery *nursery)
{
    if (nursery == NULL)
        return;
    pthread_mutex_lock(&nursery->lock);
    nursery->stopped = true;
    shutdown(nursery->orders_fd, SHUT_RDWR); /* for it, as if the daemon had ended */
    pthread_mutex_unlock(&nursery->lock);
}

/* Wait for the end of one that is about to end. */
static void nursery_bury(struct decode_nursery *nursery)
{
    while (nursery->pid > 0 && waitpid(nursery->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    nursery->pid = 0;
}

void decode_nursery_end(struct decode_nursery *nursery)
{
    if (nursery == NULL)
        return;
    close(nursery->orders_fd);
    nursery_bury(nursery);
    pthread_mutex_destroy(&nursery->lock);
    free(nursery);
}

/* Execute this program anew as a nursery. */
static int nursery_spawn(struct decode_nursery *nursery, struct ec_error *why)
{
    static char name[] = "engine-cored", argument[] = NURSERY_ARGUMENT;
    char *const arguments[] = { name, argument, NULL };
    posix_spawn_file_actions_t actions;
    int ends[2], error;

    if (!packet_pair(ends))
        return ec_fail(why, EC_ERR_SYSTEM, "decoding processes: socketpair: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    error = posix_spawn_file_actions_adddup2(&actions, ends[1], NURSERY_FD);
    if (error == 0)
        error = posix_spawn_file_actions_addclosefrom_np(&actions, NURSERY_FD + 1);
    if (error == 0)
        error = posix_spawn(&nursery->pid, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        nursery->pid = 0;
        return ec_fail(why, EC_ERR_SYSTEM, "decoding processes: spawn: %s", strerror(error));
    }
    close(nursery->orders_fd);
    nursery->orders_fd = ends[0];
    return EC_OK;
}

/* Have a server started at the other end of server_fd, by another nursery if this one has ended. */
static int nursery_order(struct decode_nursery *nursery, int server_fd, struct ec_error *why)
{
    const struct decode_order order = { .kind = DECODE_SERVE };
    int rc = EC_OK;

    pthread_mutex_lock(&nursery->lock);
    if (nursery->stopped) {
        rc = ec_fail(why, EC_ERR_STATE, "decoding processes: the nursery has been ended");
    } else if (!packet_send(nursery->orders_fd, &order, sizeof order, &server_fd, 1)) {
        shutdown(nursery->orders_fd, SHUT_RDWR); /* whatever kept it from taking the order */
        nursery_bury(nursery);
        rc = nursery_spawn(nursery, why);
        if (rc == EC_OK && !packet_send(nursery->orders_fd, &order, sizeof order, &server_fd, 1))
            rc = ec_fail(why, EC_ERR_STATE, "decoding processes: the nursery has ended");
    }
    pthread_mutex_unlock(&nursery->lock);
    return rc;
}

int decode_server_start(struct decode_nursery *nursery, const struct search_mount *mounts,
                        unsigned count, unsigned seconds, struct decode_server **server,
                        struct ec_error *why)
{
    struct decode_server *made = calloc(1, sizeof *made);
    int rc;

    *server = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a decoding process");
    atomic_init(&made->references, 1);
    made->orders_fd = -1;
    rc = mounts_copy(made, mounts, count, why);
    for (int tries = 0; rc == EC_OK && tries < TRIES; tries++) {
        rc = server_begin(nursery, made, why);
        if (rc != EC_ERR_STATE)
            break;
        if (tries + 1 < TRIES) /* somebody has killed it, or the nursery, just now */
            rc = EC_OK;
    }
    for (unsigned i = 0; i < count && rc == EC_OK; i++)
        rc = server_mount(made, &mounts[i], seconds, why);
    if (rc < 0) {
        decode_server_release(made);
        return rc;
    }
    *server = made;
    return EC_OK;
}

/* Up to its first answer. Returns EC_ERR_STATE when it, or the nursery, has ended meanwhile. */
static int server_begin(struct decode_nursery *nursery, struct decode_server *server,
                        struct ec_error *why)
{
    static const struct search_mount nothing = { "", "/" }; /* makes an empty search path */
    const struct timeval still = { .tv_sec = START_S };     /* of one that takes no orders */
    int ends[2], rc;

    if (server->orders_fd >= 0)
        close(server->orders_fd);
    server->orders_fd = -1;
    if (!packet_pair(ends))
        return ec_fail(why, EC_ERR_SYSTEM, "decoding process: socketpair: %s", strerror(errno));
    server->orders_fd = ends[0];
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &still, sizeof still);
    rc = nursery_order(nursery, ends[1], why);
    close(ends[1]);
    if (rc == EC_OK)
        rc = server_mount(server, &nothing, START_S, why);
    return rc == EC_ERR_PATH ? ec_fail(why, EC_ERR_STATE, "decoding process: it has ended") : rc;
}

int decode_server_again(struct decode_nursery *nursery, const struct decode_server *old,
                        unsigned seconds, struct decode_server **server, struct ec_error *why)
{
    return decode_server_start(nursery, old->mounts, old->count, seconds, server, why);
}

static int mounts_copy(struct decode_server *server, const struct search_mount *mounts,
                       unsigned count, struct ec_error *why)
{
    server->mounts = calloc(count > 0 ? count : 1, sizeof *server->mounts);
    for (; server->mounts != NULL && server->count < count; server->count++) {
        struct search_mount *copy = &server->mounts[server->count];

        copy->path = strdup(mounts[server->count].path);
        copy->at = strdup(mounts[server->count].at);
        if (copy->path == NULL || copy->at == NULL) {
            server->count++;
            break;
        }
    }
    if (server->mounts == NULL || (count > 0 && (server->mounts[server->count - 1].path == NULL ||
                                                 server->mounts[server->count - 1].at == NULL)))
        return ec_fail(why, EC_ERR_MEMORY, "no memory for %u mounts", count);
    return EC_OK;
}

static int server_mount(struct decode_server *server, const struct search_mount *mount,
                        unsigned seconds, struct ec_error *why)
{
    struct pollfd wait = { .fd = server->orders_fd, .events = POLLIN };
    struct decode_order order = { .kind = DECODE_MOUNT, .mount.seconds = seconds };
    const char *what = mount->path[0] != '\0' ? mount->path : "the empty search path";
    struct decode_mounted answer;
    int ready;

    if (snprintf(order.mount.path, sizeof order.mount.path, "%s", mount->path) >=
            (int)sizeof order.mount.path ||
        snprintf(order.mount.at, sizeof order.mount.at, "%s", mount->at) >=
            (int)sizeof order.mount.at)
        return ec_fail(why, EC_ERR_PATH, "%s is too long", mount->path);
    if (!packet_send(server->orders_fd, &order, sizeof order, NULL, 0))
        return ec_fail(why, EC_ERR_PATH,
                       "%s cannot be mounted: the process that reads it has ended", what);
    do
        ready = poll(&wait, 1, (int)seconds * 1000);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return ec_fail(why, EC_ERR_TIMEOUT, "%s was not read within %u s", what, seconds);
    if (!packet_receive(server->orders_fd, &answer, sizeof answer, NULL, 0))
        return ec_fail(why, EC_ERR_PATH, "%s cannot be mounted: the process that read it ended",
                       what);
    server->guard = answer.guard;
    return answer.rc < 0 ? ec_fail(why, answer.rc, "%s", answer.text) : EC_OK;
}

enum sandbox_guard decode_server_guard(const struct decode_server *server)
{
    return server->guard;
}

struct decode_server *decode_server_acquire(struct decode_server *server)
{
    atomic_fetch_add_explicit(&server->references, 1, memory_order_relaxed);
    return server;
}

void decode_server_release(struct decode_server *server)
{
    /* Acquire and release: the last one closes after all others have sent. */
    if (server == NULL ||
        atomic_fetch_sub_explicit(&server->references, 1, memory_order_acq_rel) != 1)
        return;
    if (server->orders_fd >= 0)
        close(server->orders_fd);
    for (unsigned i = 0; i < server->count; i++) {
        free((char *)(size_t)server->mounts[i].path);
        free((char *)(size_t)server->mounts[i].at);
    }
    free(server->mounts);
    free(server);
}

/* Until the server has said how starting went. A server that stands still is as good as ended. */
static int child_await(struct decode_child *child, int cancel_fd, struct ec_error *why)
{
    struct pollfd wait[] = { { .fd = child->status_fd, .events = POLLIN },
                             { .fd = cancel_fd, .events = POLLIN } };
    struct decode_status status = { 0 };
    int ready;

    do
        ready = poll(wait, 2, START_S * 1000);
    while (ready < 0 && errno == EINTR);
    if (ready > 0 && wait[0].revents == 0)
        return EC_AGAIN;
    if (ready <= 0 || !packet_receive(child->status_fd, &status, sizeof status, &child->pid_fd, 1))
        return ec_fail(why, EC_ERR_STATE, "the process that starts decoders %s",
                       ready <= 0 ? "does nothing" : "has ended");
    if (status.value == 0 && child->pid_fd >= 0)
        return EC_OK;
    return ec_fail(why, EC_ERR_SYSTEM, "the decoding process cannot start: %s",
                   strerror(status.value));
}

int decode_child_start(struct decode_server *server, const struct decode_load *load,
                       const struct decode_entry *more, int cancel_fd, struct decode_child *child,
                       struct ec_error *why)
{
    struct decode_order order = { .kind = DECODE_LOAD, .load = *load };
    int job[2], report[2], sent[2], rc;

    *child = (struct decode_child) { -1, -1, -1 };
    if (!packet_pair(job))
        return ec_fail(why, EC_ERR_SYSTEM, "decoding process: socketpair: %s", strerror(errno));
    if (!packet_pair(report)) {
        close(job[0]);
        close(job[1]);
        return ec_fail(why, EC_ERR_SYSTEM, "decoding process: socketpair: %s", strerror(errno));
    }
    sent[0] = job[1];
    sent[1] = report[1];
    packet_send(server->orders_fd, &order, sizeof order, sent, 2);
    if (load->count > 1) /* without them it ends, which is heard */
        packet_send(job[0], more, (load->count - 1) * sizeof *more, NULL, 0);
    close(job[1]);
    close(report[1]); /* if the order went nowhere, the other end reads its end now */
    child->socket_fd = job[0];
    child->status_fd = report[0];
    rc = child_await(child, cancel_fd, why);
    if (rc != EC_OK)
        decode_child_finish(child, 0);
    return rc;
}

int decode_child_finish(struct decode_child *child, int wait_ms)
{
    struct decode_status status = { 0 };
    int value = -1;

    if (child->pid_fd >= 0) {
        struct pollfd ended = { .fd = child->pid_fd, .events = POLLIN };

        if (wait_ms == 0 || poll(&ended, 1, wait_ms) <= 0)
            syscall(SYS_pidfd_send_signal, child->pid_fd, SIGKILL, NULL, 0);
        while (poll(&ended, 1, -1) < 0 && errno == EINTR)
            ;
        if (packet_receive(child->status_fd, &status, sizeof status, NULL, 0))
            value = status.value;
        close(child->pid_fd);
    }
    if (child->socket_fd >= 0)
        close(child->socket_fd);
    if (child->status_fd >= 0)
        close(child->status_fd);
    *child = (struct decode_child) { -1, -1, -1 };
    return value;
}
