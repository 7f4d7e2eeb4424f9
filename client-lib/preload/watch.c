#include "preload/watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/breaker.h>
#include <engine-core/client.h>

#include "client/client.h"
#include "foundation/futex.h"
#include "foundation/memory/stack_trace.h"
#include "foundation/real_time.h"
#include "foundation/thread.h"
#include "preload/account.h"
#include "preload/mark.h"

#define RETRY_MS_MIN 50
#define RETRY_MS_MAX 2000
#define LOOK_MS 1000    /* how long a new module may stay unlisted */
#define BEGIN_MS 100    /* who has ended, or has become another program, by then is not shown */
#define AT_ONCE_MS 2000 /* how long main waits for a daemon that does not answer */
#define NAME_BYTES_MAX 47
#define SAMPLE_BYTES_MAX (1ull << 40)

struct watch {
    pthread_t thread;
    bool has_thread;
    int begin_ms; /* before the first attempt */
    int retry_ms;
    _Atomic uint32_t has_tried; /* futex: the first attempt is over */
    struct ec_client *client;   /* NULL: not connected */
    struct file_identity {
        dev_t device;
        ino_t inode;
    } segment;
};

static struct watch watch;

static void await_first_try(void);
static uint64_t sample_setting(void);
static void after_fork_in_child(void);
static void start(void);
static void *run(void *context);
static void connect_to_daemon(void);
static void serve(void);
static void on_breaker(void *context, const struct ec_breaker_policy *policy);
static uint64_t resident_bytes(void);
static struct file_identity identity_of(int fd);
static bool is_identity_of(int fd, const struct file_identity *identity);
static void pause_ms(int ms);

/* The environment is there only from here on. */
__attribute__((constructor)) static void begin(void)
{
    const char *tag = getenv(PRELOAD_TAG_VARIABLE);
    const bool at_once = getenv(PRELOAD_AT_ONCE_VARIABLE) != NULL;
    struct preload_thread *thread = &preload_thread;

    if (thread->counters == NULL && !account_open(thread))
        return;
    (void)unsetenv(PRELOAD_AT_ONCE_VARIABLE);
    mark_init();
    ec_stack_trace_prepare();
    account_configure(tag != NULL && tag[0] != '\0' ? tag : PRELOAD_TAG_DEFAULT, sample_setting());
    ec_module_list_update(&preload.modules);
    pthread_atfork(NULL, NULL, after_fork_in_child);
    watch.begin_ms = at_once ? 0 : BEGIN_MS;
    start();
    if (at_once && watch.has_thread)
        await_first_try();
}

static void await_first_try(void)
{
    const int64_t deadline_ns = ec_real_ns() + AT_ONCE_MS * 1000000ll;

    while (atomic_load_explicit(&watch.has_tried, memory_order_acquire) == 0 &&
           ec_real_ns() < deadline_ns)
        ec_futex_wait(&watch.has_tried, 0, deadline_ns);
}

static uint64_t sample_setting(void)
{
    const char *text = getenv(PRELOAD_SAMPLE_VARIABLE);
    unsigned long long bytes;
    char *end;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return PRELOAD_SAMPLE_DEFAULT;
    errno = 0;
    bytes = strtoull(text, &end, 10);
    return *end != '\0' || errno != 0 || bytes > SAMPLE_BYTES_MAX ? PRELOAD_SAMPLE_DEFAULT : bytes;
}

/* No lock is held across a fork: that of the sink is taken at the start only. */
static void after_fork_in_child(void)
{
    const int code = errno, fd = preload.segment.fd;
    const bool is_open = preload.segment.base != NULL && is_identity_of(fd, &watch.segment);

    account_renew_segment(true);
    if (is_open)
        close(fd);
    watch.client = NULL; /* the fork handlers of the library close what it has open */
    watch.has_thread = false;
    watch.begin_ms = BEGIN_MS;
    start();
    errno = code;
}

static void start(void)
{
    struct ec_error why;

    if (preload.segment.base == NULL)
        return; /* nobody could see it */
    watch.segment = identity_of(preload.segment.fd);
    watch.has_thread = ec_thread_start(&watch.thread, "ec-memory", run, NULL, &why) == EC_OK;
    if (watch.has_thread)
        pthread_detach(watch.thread);
}

static void *run(void *context)
{
    (void)context;
    account_become_own();
    pause_ms(watch.begin_ms);
    watch.retry_ms = RETRY_MS_MIN;
    for (;;) {
        ec_module_list_update(&preload.modules); /* a look costs next to nothing */
        if (watch.client == NULL)
            connect_to_daemon();
        if (atomic_exchange_explicit(&watch.has_tried, 1, memory_order_release) == 0)
            ec_futex_wake_all(&watch.has_tried);
        if (watch.client != NULL)
            serve();
        else
            pause_ms(watch.retry_ms);
    }
    return NULL;
}

static void connect_to_daemon(void)
{
    char name[NAME_BYTES_MAX + 1];
    const struct ec_client_desc desc = { .name = name, .no_thread = true };
    struct ec_error why;
    char path[EC_SOCKET_PATH_MAX];

    watch.retry_ms = watch.retry_ms * 2 < RETRY_MS_MAX ? watch.retry_ms * 2 : RETRY_MS_MAX;
    if (ec_client_socket_path(NULL, path, sizeof path, &why) < 0)
        return;
    if (!is_identity_of(preload.segment.fd, &watch.segment)) { /* the program has closed it */
        if (!account_renew_segment(false))
            return;
        watch.segment = identity_of(preload.segment.fd);
    }
    snprintf(name, sizeof name, "%s",
             program_invocation_short_name[0] != '\0' ? program_invocation_short_name : "program");
    if (ec_client_create_lent(&desc, &preload.segment, &watch.client, &why) < 0) {
        watch.client = NULL;
        return;
    }
    watch.retry_ms = RETRY_MS_MIN;
    ec_breaker_on_change(watch.client, &(struct ec_breaker_watch) { .fn = on_breaker,
                                                                    .context = watch.client,
                                                                    .immediate = true });
}

/* Until the next look at the modules, or until the daemon has something to say. */
static void serve(void)
{
    struct pollfd wait = { .fd = ec_client_fd(watch.client), .events = POLLIN };
    int rc;

    rc = poll(&wait, 1, LOOK_MS);
    /* A program that closes all descriptors, as daemons do, also closes this one, and the number soon
     * belongs to somebody else: then nothing of the client may be touched any more. */
    if (!ec_connection_has_descriptors(watch.client->connection)) {
        watch.client = NULL;
        return;
    }
    if (rc > 0)
        (void)ec_client_dispatch(watch.client); /* without a daemon it looks for the next one */
}

/* From level 2 on, what the C library keeps goes back to the system. */
static void on_breaker(void *context, const struct ec_breaker_policy *policy)
{
    struct ec_client *client = context;
    uint64_t before, after;

    if (policy->level < EC_BREAKER_EVICTION && !policy->trim)
        return;
    before = resident_bytes();
    if (preload.next.trim != NULL)
        (void)preload.next.trim(0);
    after = resident_bytes();
    before = before > after ? before - after : 0;
    ec_breaker_answer(client, policy, before, before);
}

static uint64_t resident_bytes(void)
{
    unsigned long long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct file_identity identity_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (struct file_identity) { st.st_dev, st.st_ino }
                               : (struct file_identity) { 0 };
}

static bool is_identity_of(int fd, const struct file_identity *identity)
{
    const struct file_identity now = identity_of(fd);

    return now.inode != 0 && now.device == identity->device && now.inode == identity->inode;
}

static void pause_ms(int ms)
{
    const struct timespec time = { ms / 1000, ms % 1000 * 1000000l };

    nanosleep(&time, NULL);
}
