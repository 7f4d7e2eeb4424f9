/* Runs the real program. Readiness comes over NOTIFY_SOCKET and the end over a pidfd, so that one
 * poll() waits for whichever happens. */
#include "support/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 32
#define DESCRIPTOR_LOOKS 50

static bool open_notify_socket(struct daemon_process *daemon);
static void exec_daemon(const struct daemon_process *daemon, const char *const *arguments);
static bool pass_descriptors(const struct daemon_process *daemon);
static const char *receive_notification(struct daemon_process *daemon);
static bool wait_ready(struct daemon_process *daemon);
static int end(struct daemon_process *daemon, int wait_ms);
static int exit_status(pid_t pid);
static void remove_directory(const char *path);
static const char *program_path(char *path, size_t bytes);
static char *read_file(const char *path);

bool daemon_prepare(struct daemon_process *daemon)
{
    *daemon = (struct daemon_process) { .pidfd = -1, .notify_fd = -1 };
    snprintf(daemon->directory, sizeof daemon->directory, "/tmp/engine-core-test-XXXXXX");
    if (mkdtemp(daemon->directory) == NULL) {
        snprintf(daemon->why, sizeof daemon->why, "mkdtemp: %s", strerror(errno));
        return false;
    }
    snprintf(daemon->socket_path, sizeof daemon->socket_path, "%s/socket", daemon->directory);
    snprintf(daemon->stderr_path, sizeof daemon->stderr_path, "%s/stderr", daemon->directory);
    snprintf(daemon->notify_path, sizeof daemon->notify_path, "%s/notify", daemon->directory);
    return open_notify_socket(daemon);
}

bool daemon_write_config(struct daemon_process *daemon, const char *json)
{
    FILE *file;
    bool written;

    snprintf(daemon->config_path, sizeof daemon->config_path, "%s/config.json", daemon->directory);
    file = fopen(daemon->config_path, "we");
    if (file == NULL)
        return false;
    written = fputs(json, file) >= 0;
    return fclose(file) == 0 && written;
}

bool daemon_start(struct daemon_process *daemon, const char *const *arguments)
{
    if (daemon->directory[0] == '\0' && !daemon_prepare(daemon))
        return false;
    daemon->pid = fork();
    if (daemon->pid == 0) {
        exec_daemon(daemon, arguments);
        _exit(127);
    }
    if (daemon->pid < 0) {
        snprintf(daemon->why, sizeof daemon->why, "fork: %s", strerror(errno));
        return false;
    }
    daemon->pidfd = (int)syscall(SYS_pidfd_open, daemon->pid, 0);
    if (daemon->pidfd >= 0 && wait_ready(daemon))
        return true;
    end(daemon, 0);
    return false;
}

int daemon_stop(struct daemon_process *daemon)
{
    kill(daemon->pid, SIGTERM);
    return end(daemon, DAEMON_WAIT_MS);
}

int daemon_kill(struct daemon_process *daemon)
{
    return end(daemon, 0);
}

static void forget_descriptor(struct daemon_process *daemon, const char *name)
{
    for (unsigned i = 0; i < daemon->kept_count; i++)
        if (strcmp(daemon->kept[i].name, name) == 0) {
            close(daemon->kept[i].fd);
            daemon->kept[i--] = daemon->kept[--daemon->kept_count];
        }
}

/* What a manager does with a message about descriptors. fd is closed unless it is kept. */
static void keep_descriptor(struct daemon_process *daemon, const char *message, int fd)
{
    const char *name = strstr(message, "FDNAME=");
    char text[64] = "";

    if (name != NULL)
        snprintf(text, sizeof text, "%.*s", (int)strcspn(name + 7, "\n"), name + 7);
    if (strstr(message, "FDSTOREREMOVE=1") != NULL)
        forget_descriptor(daemon, text);
    if (fd < 0)
        return;
    if (strncmp(message, "FDSTORE=1", 9) != 0 || daemon->kept_count == KEPT_DESCRIPTORS_MAX) {
        close(fd);
        return;
    }
    memcpy(daemon->kept[daemon->kept_count].name, text, sizeof text);
    daemon->kept[daemon->kept_count++].fd = fd;
}

/* The next message, if one is there. */
static const char *receive_notification(struct daemon_process *daemon)
{
    static char message[4096];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = { .iov_base = message, .iov_len = sizeof message - 1 };
    struct msghdr header = { .msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes };
    ssize_t bytes = recvmsg(daemon->notify_fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *part;
    int fd = -1;

    if (bytes < 0)
        return NULL;
    message[bytes] = '\0';
    part = CMSG_FIRSTHDR(&header);
    if (part != NULL && part->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(part), sizeof fd);
    if (daemon->keeps_descriptors)
        keep_descriptor(daemon, message, fd);
    else if (fd >= 0)
        close(fd);
    return message;
}

/* Collect a process that ends. Returns its exit status. */
static int collect(struct daemon_process *daemon)
{
    const int status = exit_status(daemon->pid);

    close(daemon->pidfd);
    daemon->pidfd = -1;
    while (receive_notification(daemon) != NULL)
        ; /* what it sent last counts, too */
    return status;
}

void daemon_crash(struct daemon_process *daemon)
{
    kill(daemon->pid, SIGKILL);
    collect(daemon);
}

void daemon_end(struct daemon_process *daemon)
{
    struct pollfd polled = { .fd = daemon->pidfd, .events = POLLIN };
    int status = -1;

    kill(daemon->pid, SIGTERM);
    if (poll(&polled, 1, DAEMON_WAIT_MS) == 1)
        status = collect(daemon);
    if (status != 0) {
        fprintf(stderr, "the daemon did not end in good order: %d\n", status);
        abort();
    }
}

int daemon_wait(struct daemon_process *daemon)
{
    return end(daemon, DAEMON_WAIT_MS);
}

const char *daemon_notification(struct daemon_process *daemon)
{
    struct pollfd polled = { .fd = daemon->notify_fd, .events = POLLIN };

    return poll(&polled, 1, DAEMON_WAIT_MS) == 1 ? receive_notification(daemon) : NULL;
}

int daemon_run(const char *const *arguments, char *output, size_t output_bytes)
{
    char path[4096];
    const char *argv[ARGUMENTS_MAX + 2] = { program_path(path, sizeof path) };
    size_t used = 0;
    ssize_t bytes;
    int ends[2];
    pid_t pid;

    for (unsigned i = 0; i < ARGUMENTS_MAX && arguments[i] != NULL; i++)
        argv[i + 1] = arguments[i];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return 127;
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execv(path, (char *const *)(void *)argv);
        _exit(127);
    }
    close(ends[1]);
    while (used + 1 < output_bytes &&
           (bytes = read(ends[0], output + used, output_bytes - used - 1)) > 0)
        used += (size_t)bytes;
    output[used] = '\0';
    close(ends[0]);
    return pid < 0 ? 127 : exit_status(pid);
}

static unsigned descriptors_now(pid_t pid)
{
    char path[64];
    unsigned count = 0;
    DIR *directory;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    directory = opendir(path);
    if (directory == NULL) {
        perror(path);
        abort();
    }
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

unsigned process_descriptors(pid_t pid)
{
    unsigned least = descriptors_now(pid);

    for (int look = 1; look < DESCRIPTOR_LOOKS; look++) {
        unsigned count = descriptors_now(pid);

        least = count < least ? count : least;
        sched_yield(); /* it may be in the midst of a file that it looks at */
    }
    return least;
}

long process_resident_kib(pid_t pid)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)pid;
    return 0;
#else
    long resident = 0;
    char path[64];
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%*d %ld", &resident) != 1) {
        perror(path);
        abort();
    }
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
#endif
}

char *daemon_stderr(const struct daemon_process *daemon)
{
    return read_file(daemon->stderr_path);
}

bool daemon_has_said(const struct daemon_process *daemon, const char *text)
{
    char *said = daemon_stderr(daemon);
    const bool has = said != NULL && strstr(said, text) != NULL;

    free(said);
    return has;
}

static bool open_notify_socket(struct daemon_process *daemon)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    memcpy(address.sun_path, daemon->notify_path, strlen(daemon->notify_path) + 1);
    daemon->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (daemon->notify_fd < 0 ||
        bind(daemon->notify_fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        snprintf(daemon->why, sizeof daemon->why, "%s: %s", daemon->notify_path, strerror(errno));
        return false;
    }
    return true;
}

/* In the child. It dies with the test, whatever happens to that one. */
static void exec_daemon(const struct daemon_process *daemon, const char *const *arguments)
{
    char path[4096];
    const char *argv[ARGUMENTS_MAX + 6] = { program_path(path, sizeof path), "--socket",
                                            daemon->socket_path };
    unsigned count = 3;
    int fd = open(daemon->stderr_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (daemon->config_path[0] != '\0') {
        argv[count++] = "--config";
        argv[count++] = daemon->config_path;
    }
    for (unsigned i = 0; arguments != NULL && arguments[i] != NULL && i < ARGUMENTS_MAX; i++)
        argv[count++] = arguments[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        return;
    setenv("NOTIFY_SOCKET", daemon->notify_path, 1);
    if ((daemon->listen_fd > 0 || daemon->kept_count > 0) && !pass_descriptors(daemon))
        return;
    for (int standard = STDIN_FILENO; daemon->is_mute && standard <= STDERR_FILENO; standard++)
        close(standard);
    execv(path, (char *const *)(void *)argv);
}

/* As systemd passes descriptors: from 3 on, with their names, and for whom they are. */
static bool pass_descriptors(const struct daemon_process *daemon)
{
    const unsigned first = daemon->listen_fd > 0 ? 1 : 0, count = first + daemon->kept_count;
    char pid[16], number[16], names[KEPT_DESCRIPTORS_MAX * 65 + 16] = "";
    int fds[KEPT_DESCRIPTORS_MAX + 1];

    for (unsigned i = 0; i < count; i++) {
        const char *name = i < first ? "control" : daemon->kept[i - first].name;

        /* Out of the way first: one may have the number of another's place. */
        fds[i] =
            fcntl(i < first ? daemon->listen_fd : daemon->kept[i - first].fd, F_DUPFD_CLOEXEC, 100);
        if (fds[i] < 0)
            return false;
        strcat(names, i > 0 ? ":" : "");
        strcat(names, name);
    }
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    snprintf(number, sizeof number, "%u", count);
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", number, 1);
    setenv("LISTEN_FDNAMES", names, 1);
    for (unsigned i = 0; i < count; i++)
        if (dup2(fds[i], 3 + (int)i) < 0)
            return false;
    return true;
}

static bool wait_ready(struct daemon_process *daemon)
{
    struct pollfd polled[] = { { .fd = daemon->notify_fd, .events = POLLIN },
                               { .fd = daemon->pidfd, .events = POLLIN } };
    char *said;

    while (poll(polled, 2, DAEMON_WAIT_MS) > 0) {
        if (polled[0].revents != 0) {
            const char *message = daemon_notification(daemon);

            if (message != NULL && strstr(message, "READY=1") != NULL)
                return true;
        } else if (polled[1].revents != 0) {
            break;
        }
    }
    said = daemon_stderr(daemon);
    snprintf(daemon->why, sizeof daemon->why, "engine-cored is not ready: %.200s",
             said != NULL ? said : "");
    free(said);
    return false;
}

/* Give the process wait_ms to end, then kill it; collect its status and clean up. */
static int end(struct daemon_process *daemon, int wait_ms)
{
    struct pollfd polled = { .fd = daemon->pidfd, .events = POLLIN };
    int status;

    if (daemon->pidfd < 0 || poll(&polled, 1, wait_ms) != 1)
        kill(daemon->pid, SIGKILL);
    status = exit_status(daemon->pid);
    if (daemon->pidfd >= 0)
        close(daemon->pidfd);
    if (daemon->notify_fd >= 0)
        close(daemon->notify_fd);
    while (daemon->kept_count > 0)
        close(daemon->kept[--daemon->kept_count].fd);
    remove_directory(daemon->directory);
    daemon->pidfd = daemon->notify_fd = -1;
    daemon->directory[0] = '\0';
    return status;
}

static int exit_status(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_directory(const char *path)
{
    if (path[0] != '\0')
        nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *program_path(char *path, size_t bytes)
{
    const char *directory = getenv("EC_BIN_DIR");

    snprintf(path, bytes, "%s/engine-cored", directory != NULL ? directory : ".");
    return path;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t capacity = 0;

    if (file == NULL)
        return NULL;
    if (getdelim(&text, &capacity, '\0', file) < 0) {
        free(text);
        text = strdup("");
    }
    fclose(file);
    return text;
}
