/* bus_recorder.c - see bus_recorder.h. */
#include "bench/bus_recorder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bus_end.h"
#include "bench/harness.h"

static void file_path(char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/bench.mcap", bus_daemon.directory);
}

pid_t bus_recorder_start(void)
{
    const char *bin = getenv("EC_BIN_DIR");
    char program[4096], path[128];
    pid_t recorder;

    snprintf(program, sizeof program, "%s/engine-ctl", bin != NULL ? bin : ".");
    file_path(path, sizeof path);
    recorder = fork();
    if (recorder == 0) {
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(nothing, STDIN_FILENO);
        dup2(nothing, STDOUT_FILENO);
        execl(program, "engine-ctl", "--socket", bus_daemon.socket_path, "record", path,
              (char *)NULL);
        _exit(127);
    }
    if (recorder < 0)
        bench_fail("no process for the recorder");
    return recorder;
}

uint64_t bus_recorder_stop(pid_t recorder)
{
    char path[128];
    struct stat file;
    int status;

    file_path(path, sizeof path);
    if (kill(recorder, SIGINT) < 0 || waitpid(recorder, &status, 0) != recorder || status != 0 ||
        stat(path, &file) < 0)
        bench_fail("the recorder ended badly");
    unlink(path);
    return (uint64_t)file.st_size;
}
