/* contender_wake.c - see contender_wake.h.
 *
 * A process writes how late it was into its row of a shared table. All rows begin with the same wake, so
 * that a column is one wake of all processes. */
#include "bench/contender_wake.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/clock.h>

#include "bench/harness.h"
#include "support/daemon.h"

#define PROCESSES_MAX 16
#define WAKES_MAX 1024
#define LEAD_NS INT64_C(300000000) /* from the start of the processes to their first wake */
#define FIFO_PRIORITY 5            /* below the scheduler's thread, as games are */

struct table {
    double late_us[PROCESSES_MAX][WAKES_MAX];
};

static struct table *table;
static struct daemon_process server;

static void work(int64_t work_ns)
{
    struct timespec now;
    int64_t end_ns = 0, now_ns = 0;

    while (work_ns > 0 && now_ns <= end_ns) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        now_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
        if (end_ns == 0)
            end_ns = now_ns + work_ns;
    }
}

static void wake_by_sleep(const struct wake_shape *shape, double *late_us, int64_t base_ns)
{
    for (unsigned i = 0; i < shape->wakes; i++) {
        int64_t due_ns = base_ns + (int64_t)i * 1000000000 / shape->hz;
        struct timespec due = { due_ns / 1000000000, due_ns % 1000000000 };

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
            ;
        late_us[i] = (double)(bench_ns() - due_ns) / 1e3;
        work(shape->work_ns);
    }
}

/* Steps that were missed are written down as late as the one that was told. */
static void wake_by_step(const struct wake_shape *shape, double *late_us, int64_t base_ns)
{
    const struct ec_client_desc desc = { .name = "wake", .socket_path = server.socket_path };
    const struct ec_step_join_desc join = { .spread = shape->kind == WAKE_SPREAD };
    struct ec_error why = { 0 };
    struct ec_step_clock clock;
    struct ec_client *client;
    struct ec_step step;
    unsigned i = 0;

    if (ec_client_create(&desc, &client, &why) < 0 ||
        ec_step_find(client, "bench", &clock) != EC_OK ||
        (shape->kind != WAKE_STEP && ec_step_join(&clock, &join, &why) < 0))
        bench_fail("a process that wakes: %s", why.text);
    while (i < shape->wakes) {
        double late;

        if (ec_step_wait(&clock, -1, &step) != EC_OK)
            bench_fail("no step came");
        late = (double)(bench_ns() - step.due_ns - clock.phase_ns) / 1e3;
        for (uint64_t n = 0; n < step.steps_passed && i < shape->wakes; n++)
            if (step.due_ns >= base_ns)
                late_us[i++] = late;
        work(shape->work_ns);
    }
    ec_client_destroy(client);
}

static void wake(const struct wake_shape *shape, double *late_us, int64_t base_ns)
{
    const struct sched_param param = { .sched_priority = FIFO_PRIORITY };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);
    if (shape->fifo && sched_setscheduler(0, SCHED_FIFO, &param) < 0)
        _exit(1);
    if (shape->kind == WAKE_SLEEPER)
        wake_by_sleep(shape, late_us, base_ns);
    else
        wake_by_step(shape, late_us, base_ns);
    _exit(0);
}

static void run_processes(const struct wake_shape *shape)
{
    int64_t base_ns = bench_ns() + LEAD_NS;
    pid_t pids[PROCESSES_MAX];
    int status;

    for (unsigned i = 0; i < shape->processes; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            wake(shape, table->late_us[i], base_ns);
    }
    for (unsigned i = 0; i < shape->processes; i++)
        if (pids[i] < 0 || waitpid(pids[i], &status, 0) < 0 || status != 0)
            bench_fail("a process that wakes has failed");
}

static double evaluate(const struct wake_shape *shape)
{
    static double values[PROCESSES_MAX * WAKES_MAX];
    unsigned count = 0;

    for (unsigned i = 0; i < shape->wakes; i++) {
        double last = 0;

        for (unsigned p = 0; p < shape->processes; p++) {
            double late = table->late_us[p][i];

            if (!shape->last)
                values[count++] = late;
            last = late > last ? late : last;
        }
        if (shape->last)
            values[count++] = last;
    }
    return bench_percentile(values, count, shape->percentile);
}

/* cyclictest prints a histogram: us and how often. */
static double run_cyclictest(const struct wake_shape *shape)
{
    static double values[WAKES_MAX];
    char command[160], line[256];
    unsigned count = 0, us, times;
    FILE *output;

    snprintf(command, sizeof command, "cyclictest -q -i %u -l %u -h 20000 %s 2>/dev/null",
             1000000 / shape->hz, shape->wakes, shape->fifo ? "-p 5 --policy=fifo" : "");
    output = popen(command, "r");
    while (output != NULL && fgets(line, sizeof line, output) != NULL)
        if (sscanf(line, "%u %u", &us, &times) == 2)
            while (times-- > 0 && count < WAKES_MAX)
                values[count++] = us;
    if (output == NULL || pclose(output) != 0 || count == 0)
        bench_fail("cyclictest gave no histogram");
    return bench_percentile(values, count, shape->percentile);
}

static void start_daemon(const struct wake_shape *shape)
{
    struct line_client operator;
    char params[96];

    if (!daemon_start(&server, NULL) || !line_client_connect(&operator, server.socket_path))
        bench_fail("engine-cored: %s", server.why);
    snprintf(params, sizeof params,
             "{\"name\":\"bench\",\"hz\":%u,\"source\":\"real\",\"spin_us\":%u}", shape->hz,
             shape->spin_us);
    if (strstr(line_client_call(&operator, "clock.step.create", params), "\"result\"") == NULL)
        bench_fail("no step clock %s", params);
    line_client_close(&operator);
}

/* As long as this process lives the processors do not sleep deeply. cyclictest asks for that, too: without
 * it an idle machine would compare idle states. Needs root; without it cyclictest does not get it either. */
static void keep_processors_awake(void)
{
    const int32_t latency_us = 0;
    const int fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, &latency_us, sizeof latency_us) != sizeof latency_us)
        bench_fail("/dev/cpu_dma_latency: %s", strerror(errno));
}

void contender_wake(const void *context)
{
    const struct wake_shape *shape = context;
    bool has_daemon = shape->kind < WAKE_SLEEPER;

    keep_processors_awake();

    if (shape->kind == WAKE_CYCLICTEST && system("command -v cyclictest >/dev/null") != 0)
        bench_missing("cyclictest (rt-tests)");
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        bench_fail("no memory for a table");
    if (has_daemon)
        start_daemon(shape);
    bench_ready();
    while (bench_next()) {
        if (shape->kind == WAKE_CYCLICTEST) {
            bench_answer(run_cyclictest(shape), 0);
            continue;
        }
        run_processes(shape);
        bench_answer(evaluate(shape), 0);
    }
    if (has_daemon)
        daemon_stop(&server);
}
