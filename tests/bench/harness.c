/* harness.c - contenders, pairs and rows; see harness.h. */
#include "bench/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_S 60 /* how long a contender may take to start, and for one run by default */
#define END_MS 10000
#define ATTEMPTS_PER_PAIR 10 /* before the quietest pairs have to do */
#define PAIRS_MIN 5

/* ---- the contender's side -------------------------------------------------------------------- */

void bench_ready(void)
{
    puts("ready");
    fflush(stdout);
}

bool bench_next(void)
{
    char line[16];

    return fgets(line, sizeof line, stdin) != NULL;
}

void bench_answer(double value, long switches)
{
    printf("%.17g %ld\n", value, switches);
    fflush(stdout);
}

void bench_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _exit(EXIT_FAILURE);
}

void bench_missing(const char *what)
{
    printf("missing %s\n", what);
    fflush(stdout);
    _exit(EXIT_SUCCESS);
}

/* ---- two processes of one contender ---------------------------------------------------------- */

void bench_partner_start(struct bench_partner *partner,
                         void (*main)(struct bench_partner *parent, const void *context),
                         const void *context)
{
    int down[2], up[2];

    if (pipe(down) < 0 || pipe(up) < 0)
        bench_fail("pipe: %s", strerror(errno));
    fflush(stdout);
    partner->pid = fork();
    if (partner->pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (partner->pid == 0) {
        struct bench_partner parent = { .pid = getppid(), .to = up[1], .from = down[0] };

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(up[0]);
        close(down[1]);
        main(&parent, context);
        _exit(EXIT_SUCCESS);
    }
    close(up[1]);
    close(down[0]);
    partner->to = down[1];
    partner->from = up[0];
}

void bench_partner_end(struct bench_partner *partner)
{
    close(partner->to);
    while (waitpid(partner->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(partner->from);
}

void bench_partner_send(const struct bench_partner *partner, uint64_t value)
{
    if (write(partner->to, &value, sizeof value) != (ssize_t)sizeof value)
        bench_fail("partner %d has ended", (int)partner->pid);
}

bool bench_partner_wait(const struct bench_partner *partner, uint64_t *value)
{
    return read(partner->from, value, sizeof *value) == (ssize_t)sizeof *value;
}

/* ---- measuring ------------------------------------------------------------------------------- */

int64_t bench_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void bench_pin(int which)
{
    static cpu_set_t allowed; /* as the process found them */
    cpu_set_t one;

    if (CPU_COUNT(&allowed) == 0 && sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        bench_fail("sched_getaffinity: %s", strerror(errno));
    if (which == BENCH_ANY_PROCESSOR) {
        sched_setaffinity(0, sizeof allowed, &allowed);
        return;
    }
    CPU_ZERO(&one);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && which-- == 0)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 0)
        bench_fail("two processors are needed, %d may be used", CPU_COUNT(&allowed));
    if (sched_setaffinity(0, sizeof one, &one) < 0)
        bench_fail("sched_setaffinity: %s", strerror(errno));
}

long bench_switches(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

long bench_switches_process(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

double bench_median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_percentile(double *values, size_t count, double percentile)
{
    const size_t at = (size_t)(percentile * (double)count / 100);

    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare_doubles);
    return values[at < count ? at : count - 1];
}

uint64_t bench_read(const void *payload, size_t bytes)
{
    const uint64_t *words = payload;
    uint64_t difference = 0;

    for (size_t i = 0; i < bytes / sizeof *words; i++)
        difference |= words[i] ^ words[0];
    if (difference != 0)
        bench_fail("a payload is not whole");
    return words[0];
}

/* ---- contenders ------------------------------------------------------------------------------ */

struct contender_process {
    const char *name;
    pid_t pid;
    FILE *to, *from;
    int answer_s; /* how long it may take */
    bool missing;
};

static _Noreturn void exec_beside(const struct bench_contender *contender)
{
    char path[4096], *slash;
    const char *argv[16] = { contender->program };
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);

    if (bytes > 0) {
        path[bytes] = '\0';
        slash = strrchr(path, '/');
        snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "%s", contender->program);
        for (size_t i = 0; i < 14 && contender->arguments != NULL && contender->arguments[i]; i++)
            argv[i + 1] = contender->arguments[i];
        execv(path, (char *const *)(void *)argv);
    }
    bench_missing("not built, its package was not there");
}

static bool contender_answer(struct contender_process *process, char *line, int bytes)
{
    struct pollfd answer = { .fd = fileno(process->from), .events = POLLIN };

    if (poll(&answer, 1, process->answer_s * 1000) != 1) {
        fprintf(stderr, "%s did not answer in %d s\n", process->name, process->answer_s);
        return false;
    }
    if (fgets(line, bytes, process->from) == NULL) {
        fprintf(stderr, "%s ended\n", process->name);
        return false;
    }
    line[strcspn(line, "\n")] = '\0';
    return true;
}

static bool contender_start(struct contender_process *process,
                            const struct bench_contender *contender)
{
    char line[256];
    int down[2], up[2];

    *process = (struct contender_process) { .name = contender->name, .answer_s = ANSWER_S };
    if (pipe2(down, O_CLOEXEC) < 0 || pipe2(up, O_CLOEXEC) < 0)
        return false;
    fflush(stdout);
    process->pid = fork();
    if (process->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(down[0], STDIN_FILENO);
        dup2(up[1], STDOUT_FILENO);
        close(down[0]);
        close(down[1]);
        close(up[0]);
        close(up[1]);
        if (contender->run == NULL)
            exec_beside(contender);
        contender->run(contender->context);
        _exit(EXIT_SUCCESS);
    }
    close(down[0]);
    close(up[1]);
    process->to = fdopen(down[1], "w");
    process->from = fdopen(up[0], "r");
    if (process->pid < 0 || !contender_answer(process, line, sizeof line))
        return false;
    process->missing = strncmp(line, "missing", 7) == 0;
    if (!process->missing && strcmp(line, "ready") != 0) {
        fprintf(stderr, "%s said \"%s\" and not \"ready\"\n", process->name, line);
        return false;
    }
    return true;
}

static void contender_end(struct contender_process *process)
{
    if (process->pid <= 0)
        return;
    fclose(process->to);
    for (int waited_ms = 0; waitpid(process->pid, NULL, WNOHANG) == 0; waited_ms++) {
        if (waited_ms == END_MS)
            kill(process->pid, SIGKILL);
        poll(NULL, 0, 1);
    }
    fclose(process->from);
    process->pid = 0;
}

static bool contender_run(struct contender_process *process, double *value, long *switches)
{
    char line[256];

    fputs("run\n", process->to);
    fflush(process->to);
    if (!contender_answer(process, line, sizeof line))
        return false;
    if (sscanf(line, "%lf %ld", value, switches) != 2) {
        fprintf(stderr, "%s said \"%s\" and not VALUE SWITCHES\n", process->name, line);
        return false;
    }
    return true;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

struct pair {
    double ours, peer, ratio;
    long switches;
};

struct pairs {
    struct pair kept[BENCH_PAIRS_MAX];
    unsigned count, wanted;
    unsigned thrown_away;
    bool disturbed; /* there were not enough quiet ones */
};

/* Keep a pair: while there is room, or in place of the one that was disturbed most. */
static void keep_pair(struct pairs *pairs, const struct pair *pair)
{
    struct pair *worst = &pairs->kept[0];

    if (pairs->count < pairs->wanted) {
        pairs->kept[pairs->count++] = *pair;
        return;
    }
    for (unsigned i = 1; i < pairs->count; i++)
        if (pairs->kept[i].switches > worst->switches)
            worst = &pairs->kept[i];
    if (pair->switches < worst->switches)
        *worst = *pair;
}

static unsigned quiet_pairs(const struct pairs *pairs)
{
    unsigned quiet = 0;

    for (unsigned i = 0; i < pairs->count; i++)
        quiet += pairs->kept[i].switches == 0;
    return quiet;
}

static bool measure_pairs(const struct bench_row *row, struct contender_process *ours,
                          struct contender_process *peer, struct pairs *pairs)
{
    struct pair pair;
    long switches;

    ours->answer_s = row->run_s != 0 ? (int)row->run_s : ANSWER_S;
    if (peer != NULL)
        peer->answer_s = ours->answer_s;
    for (unsigned attempt = 0; attempt <= pairs->wanted * ATTEMPTS_PER_PAIR; attempt++) {
        pair = (struct pair) { .peer = 1 };
        if (!contender_run(ours, &pair.ours, &pair.switches))
            return false;
        if (peer != NULL) {
            if (!contender_run(peer, &pair.peer, &switches))
                return false;
            pair.switches += switches;
        }
        if (attempt == 0)
            continue; /* caches, page tables and branch predictors of both */
        pair.ratio = pair.peer > 0 ? pair.ours / pair.peer : 0;
        if (row->shared)
            pair.switches = 0;
        pairs->thrown_away += pair.switches != 0;
        keep_pair(pairs, &pair);
        if (quiet_pairs(pairs) == pairs->wanted)
            return true;
    }
    pairs->disturbed = true;
    pairs->thrown_away -= pairs->wanted - quiet_pairs(pairs);
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void print_number(const char *name, double value, bool known)
{
    if (known)
        printf(",\"%s\":%.6g", name, value);
    else
        printf(",\"%s\":null", name);
}

static void print_missing(const struct bench_row *row, const char *peer)
{
    printf("{\"name\":\"%s\",\"unit\":\"%s\",\"ours\":null,\"peer\":null,"
           "\"peer_name\":\"%s (not installed)\",\"ratio\":null",
           row->name, row->unit, peer);
    print_number("goal", row->goal, row->op != NULL);
    printf(",\"op\":\"%s\",\"holds\":false,\"runs\":0,\"min\":null,\"max\":null}\n",
           row->op != NULL ? row->op : "");
}

static void print_row(const struct bench_row *row, const char *peer, struct pairs *pairs)
{
    double ours[BENCH_PAIRS_MAX], other[BENCH_PAIRS_MAX], ratio[BENCH_PAIRS_MAX], judged;
    unsigned count = pairs->count;

    for (unsigned i = 0; i < count; i++) {
        ours[i] = pairs->kept[i].ours;
        other[i] = pairs->kept[i].peer;
        ratio[i] = peer != NULL ? pairs->kept[i].ratio : pairs->kept[i].ours;
    }
    judged = bench_median(ratio, count);
    printf("{\"name\":\"%s\",\"unit\":\"%s\"", row->name, row->unit);
    print_number("ours", bench_median(ours, count), true);
    print_number("peer", bench_median(other, count), peer != NULL);
    if (peer != NULL)
        printf(",\"peer_name\":\"%s\"", peer);
    else
        printf(",\"peer_name\":null");
    print_number("ratio", judged, peer != NULL);
    print_number("goal", row->goal, row->op != NULL);
    if (row->op != NULL)
        printf(",\"op\":\"%s\",\"holds\":%s", row->op,
               (row->op[0] == '<' ? judged <= row->goal : judged >= row->goal) ? "true" : "false");
    else
        printf(",\"op\":null,\"holds\":null");
    printf(",\"runs\":%u", count);
    print_number("min", ratio[0], true);
    print_number("max", ratio[count - 1], true);
    printf(",\"thrown_away\":%u,\"disturbed\":%s}\n", pairs->thrown_away,
           pairs->disturbed ? "true" : "false");
}

bool bench_wanted(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc == 1;
}

bool bench_compare(const struct bench_row *row, const struct bench_contender *ours,
                   const struct bench_contender *peer)
{
    struct contender_process left = { 0 }, right = { 0 };
    struct pairs pairs = { .wanted = row->pairs != 0 ? row->pairs : BENCH_PAIRS };
    bool measured = false;

    signal(SIGPIPE, SIG_IGN);
    if (pairs.wanted < PAIRS_MIN)
        pairs.wanted = PAIRS_MIN;
    if (pairs.wanted > BENCH_PAIRS_MAX)
        pairs.wanted = BENCH_PAIRS_MAX;
    if (peer != NULL && !contender_start(&right, peer))
        goto done;
    if (right.missing) {
        print_missing(row, peer->name);
        measured = true;
        goto done;
    }
    if (!contender_start(&left, ours))
        goto done;
    if (left.missing) { /* what it takes to measure ours */
        print_missing(row, ours->name);
        measured = true;
        goto done;
    }
    if (!measure_pairs(row, &left, peer != NULL ? &right : NULL, &pairs))
        goto done;
    print_row(row, peer != NULL ? peer->name : NULL, &pairs);
    measured = true;

done:
    contender_end(&left);
    contender_end(&right);
    if (!measured)
        fprintf(stderr, "%s was not measured\n", row->name);
    fflush(stdout);
    return measured;
}
