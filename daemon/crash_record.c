/* crash_record.c - see crash_record.h.
 *
 * The file has the size of the struct. Its blocks are taken at the start (posix_fallocate), so that a
 * disk that is full later cannot turn a store into SIGBUS. A file of another version or build is as good
 * as none. */
#include "daemon/crash_record.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include <uv.h>

#include "breaker/breaker.h"
#include "clients/clients.h"
#include "daemon/boot_id.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "foundation/real_time.h"
#include "proto/line.h"
#include "telemetry/host_memory.h"

#define MAGIC 0x31687361726365ull /* "ecrash1" */
#define SUFFIX ".crash"
#define PATH_BYTES (EC_SOCKET_PATH_BYTES + 512)
#define BEAT_MS 1000
#define HANDLER_FRAMES 8
#define UNWIND_S 2
#define STACK_BYTES (64 * 1024) /* of the handler: the stack that overflowed cannot be used */

enum run_state { RUN_NONE, RUN_GOES_ON, RUN_ENDED };

struct crash_file {
    uint64_t magic;
    uint64_t bytes; /* of this struct: another build has another layout */
    _Atomic uint32_t state;
    char boot_id[BOOT_ID_BYTES];
    uint64_t instance;
    int32_t pid;
    char version[24];
    int64_t started_unix_ns;

    _Atomic int64_t beat_unix_ns;
    _Atomic uint64_t rss_bytes;
    _Atomic uint32_t clients, breaker_level;
    _Atomic uint64_t step;

    uint32_t module_count;
    struct crash_module modules[CRASH_MODULES];

    _Atomic int32_t signal; /* stored last by the handler */
    int32_t code;
    uint64_t address;
    int32_t thread;
    char thread_name[16];
    uint32_t frame_count;
    uint64_t frames[CRASH_FRAMES];

    _Atomic uint64_t next_line;
    struct crash_line lines[CRASH_LINES];
};

struct crash_record {
    char path[PATH_BYTES];
    struct crash_file *file; /* NULL: it could not be made */
    struct crash_found *found;
    uv_timer_t *beat;
    struct services *services;
    void *stack;
};

/* The handler and the log have no context: the process has one record. */
static _Atomic(struct crash_file *) own_file;

static const int crash_signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };

/* ---- reading --------------------------------------------------------------------------------- */

static void end_text(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
}

static void copy_lines(const struct crash_file *file, struct crash_found *found)
{
    uint64_t next = atomic_load_explicit(&file->next_line, memory_order_relaxed);

    for (unsigned i = 0; i < CRASH_LINES; i++) { /* the oldest is the one that comes next */
        const struct crash_line *line = &file->lines[(next + i) % CRASH_LINES];

        if (line->at_unix_ns == 0)
            continue;
        found->lines[found->line_count] = *line;
        end_text(found->lines[found->line_count].text, sizeof line->text);
        found->line_count++;
    }
}

static void copy_found(struct crash_file *file, struct crash_found *found)
{
    char boot_id[BOOT_ID_BYTES];

    boot_id_read(boot_id);
    end_text(file->boot_id, sizeof file->boot_id);
    end_text(file->version, sizeof file->version);
    end_text(file->thread_name, sizeof file->thread_name);
    *found = (struct crash_found) {
        .instance = file->instance,
        .pid = file->pid,
        .started_unix_ns = file->started_unix_ns,
        .beat_unix_ns = atomic_load_explicit(&file->beat_unix_ns, memory_order_relaxed),
        .rss_bytes = atomic_load_explicit(&file->rss_bytes, memory_order_relaxed),
        .clients = atomic_load_explicit(&file->clients, memory_order_relaxed),
        .breaker_level = atomic_load_explicit(&file->breaker_level, memory_order_relaxed),
        .step = atomic_load_explicit(&file->step, memory_order_relaxed),
        .same_boot = strcmp(file->boot_id, boot_id) == 0,
        .signal = atomic_load_explicit(&file->signal, memory_order_relaxed),
        .code = file->code,
        .address = file->address,
        .thread = file->thread,
        .frame_count = file->frame_count < CRASH_FRAMES ? file->frame_count : CRASH_FRAMES,
        .module_count = file->module_count < CRASH_MODULES ? file->module_count : CRASH_MODULES,
    };
    memcpy(found->version, file->version, sizeof found->version);
    memcpy(found->thread_name, file->thread_name, sizeof found->thread_name);
    memcpy(found->frames, file->frames, sizeof found->frames);
    memcpy(found->modules, file->modules, sizeof found->modules);
    for (uint32_t i = 0; i < found->module_count; i++) {
        end_text(found->modules[i].path, sizeof found->modules[i].path);
        if (found->modules[i].build_id_bytes > CRASH_BUILD_ID_BYTES)
            found->modules[i].build_id_bytes = CRASH_BUILD_ID_BYTES;
    }
    copy_lines(file, found);
}

int crash_record_read(const char *path, struct crash_found *found, struct ec_error *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct crash_file *file;
    ssize_t got = 0;
    size_t bytes = 0;
    struct stat st;
    int rc = EC_OK;

    if (fd < 0)
        return ec_fail(why, EC_ERR_NOT_FOUND, "%s: %s", path, strerror(errno));
    file = calloc(1, sizeof *file);
    if (file == NULL || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        rc = ec_fail(why, file == NULL ? EC_ERR_MEMORY : EC_ERR_LAYOUT, "%s: no file that fits",
                     path);
    if (rc == EC_OK && st.st_uid != geteuid())
        rc = ec_fail(why, EC_ERR_PERMISSION, "%s: it belongs to uid %u", path, (unsigned)st.st_uid);
    while (rc == EC_OK && bytes < sizeof *file &&
           (got = read(fd, (char *)file + bytes, sizeof *file - bytes)) > 0)
        bytes += (size_t)got;
    close(fd);
    if (rc == EC_OK &&
        (bytes != sizeof *file || file->magic != MAGIC || file->bytes != sizeof *file))
        rc = ec_fail(why, EC_ERR_LAYOUT, "%s: not of this version", path);
    if (rc == EC_OK && atomic_load_explicit(&file->state, memory_order_relaxed) != RUN_GOES_ON)
        rc = ec_fail(why, EC_ERR_NOT_FOUND, "%s: that run ended in good order", path);
    if (rc == EC_OK)
        copy_found(file, found);
    free(file);
    return rc;
}

const struct crash_module *crash_module_of(const struct crash_found *found, uint64_t address)
{
    for (uint32_t i = 0; i < found->module_count; i++)
        if (address >= found->modules[i].base && address < found->modules[i].end)
            return &found->modules[i];
    return NULL;
}

/* ---- the handler ----------------------------------------------------------------------------- */

/* Walk the frame pointers, which all own code keeps. The stack may be destroyed: memory is read by a
 * system call that fails instead of faulting. */
static uint32_t walk(uint64_t frames[CRASH_FRAMES], uint64_t pc, uint64_t frame)
{
    uint32_t count = 0;

    frames[count++] = pc;
    while (count < CRASH_FRAMES && frame != 0 && frame % sizeof frame == 0) {
        uint64_t pair[2] = { 0, 0 }; /* the caller's frame, the return address */
        struct iovec to = { .iov_base = pair, .iov_len = sizeof pair };
        struct iovec from = { .iov_base = (void *)(uintptr_t)frame, .iov_len = sizeof pair };

        if (syscall(SYS_process_vm_readv, (long)getpid(), &to, 1L, &from, 1L, 0L) !=
                (long)sizeof pair ||
            pair[1] == 0)
            break;
        frames[count++] = pair[1];
        if (pair[0] <= frame)
            break; /* stacks grow downwards: callers lie above */
        frame = pair[0];
    }
    return count;
}

/* The unwinder follows also what keeps no frame pointers, such as libc. It takes no lock and allocates nothing
 * once it was called (prepare_unwinder), but it trusts the stack: what the walk found is stored by then, a
 * fault in here ends the process as the first one would have, and what hangs is ended by the alarm. Its
 * own frames, those of the handler, come before pc. */
static void unwind(struct crash_file *file, uint64_t pc)
{
    void *frames[CRASH_FRAMES + HANDLER_FRAMES];
    const struct itimerval limit = { .it_value = { .tv_sec = UNWIND_S } }, none = { 0 };
    int count, first = 0;

    signal(SIGALRM, SIG_DFL);
    setitimer(ITIMER_REAL, &limit, NULL);
    count = backtrace(frames, CRASH_FRAMES + HANDLER_FRAMES);
    setitimer(ITIMER_REAL, &none, NULL);
    while (first < count && (uint64_t)(uintptr_t)frames[first] != pc)
        first++;
    if (count - first <= (int)file->frame_count)
        return;
    for (int i = first; i < count && i - first < CRASH_FRAMES; i++)
        file->frames[i - first] = (uint64_t)(uintptr_t)frames[i];
    file->frame_count = (uint32_t)(count - first < CRASH_FRAMES ? count - first : CRASH_FRAMES);
}

/* The first call loads what the others need. */
static void prepare_unwinder(void)
{
    void *frames[4];

    (void)backtrace(frames, 4);
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    struct crash_file *file = atomic_load_explicit(&own_file, memory_order_relaxed);
    const ucontext_t *machine = context;
    uint64_t pc = 0, frame = 0;
    const int errno_before = errno;

#if defined(__x86_64__)
    pc = (uint64_t)machine->uc_mcontext.gregs[REG_RIP];
    frame = (uint64_t)machine->uc_mcontext.gregs[REG_RBP];
#elif defined(__aarch64__)
    pc = machine->uc_mcontext.pc;
    frame = machine->uc_mcontext.regs[29];
#endif
    /* Not that of a forked child, which has this mapping, too. */
    if (file != NULL && getpid() == file->pid &&
        atomic_load_explicit(&file->signal, memory_order_relaxed) == 0) {
        file->code = info->si_code;
        file->address = number == SIGABRT ? 0 : (uint64_t)(uintptr_t)info->si_addr;
        file->thread = (int32_t)syscall(SYS_gettid);
        syscall(SYS_prctl, (long)PR_GET_NAME, file->thread_name, 0L, 0L, 0L);
        file->frame_count = walk(file->frames, pc, frame);
        atomic_store_explicit(&file->signal, number, memory_order_release);
        unwind(file, pc);
    }
    log_raw("engine-cored: a fatal signal; the next start makes a post-mortem record of it\n");
    errno = errno_before;
    /* The default action is in force again (SA_RESETHAND): once this returns, the fault repeats and
     * ends the process, with its core. One that was sent has to be sent again. */
    if (info->si_code <= 0)
        syscall(SYS_tgkill, (long)getpid(), syscall(SYS_gettid), (long)number);
}

static void set_handlers(struct crash_record *record)
{
    struct sigaction action = { .sa_sigaction = on_crash,
                                .sa_flags = (int)(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND) };
    stack_t stack = { .ss_size = STACK_BYTES };

    prepare_unwinder();
    record->stack = malloc(STACK_BYTES);
    stack.ss_sp = record->stack;
    if (stack.ss_sp != NULL) /* of the main thread; others use their own stack */
        sigaltstack(&stack, NULL);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof crash_signals / sizeof crash_signals[0]; i++)
        sigaction(crash_signals[i], &action, NULL);
}

static void reset_handlers(void)
{
    for (size_t i = 0; i < sizeof crash_signals / sizeof crash_signals[0]; i++)
        signal(crash_signals[i], SIG_DFL);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void mirror_line(const struct log_line *line)
{
    struct crash_file *file = atomic_load_explicit(&own_file, memory_order_acquire);
    struct crash_line *place;

    if (file == NULL)
        return;
    place = &file->lines[atomic_fetch_add_explicit(&file->next_line, 1, memory_order_relaxed) %
                         CRASH_LINES];
    place->level = (uint32_t)line->level;
    snprintf(place->text, sizeof place->text, "%s: %.*s", line->module,
             (int)(sizeof place->text - LOG_MODULE_BYTES - 3), line->text);
    place->at_unix_ns = (int64_t)line->at.tv_sec * 1000000000 + line->at.tv_nsec;
}

static void take_build_id(struct crash_module *module, const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const char *at = (const char *)info->dlpi_addr + part->p_vaddr, *end = at + part->p_memsz;

        while (part->p_type == PT_NOTE && (size_t)(end - at) > sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *name = at + sizeof *note, *value = name + ((note->n_namesz + 3u) & ~3u);

            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
                memcmp(name, "GNU", 4) == 0 && note->n_descsz <= CRASH_BUILD_ID_BYTES) {
                memcpy(module->build_id, value, note->n_descsz);
                module->build_id_bytes = (uint8_t)note->n_descsz;
                return;
            }
            at = value + ((note->n_descsz + 3u) & ~3u);
        }
    }
}

static int take_module(struct dl_phdr_info *info, size_t bytes, void *context)
{
    struct crash_file *file = context;
    struct crash_module *module = &file->modules[file->module_count];
    ssize_t got;

    (void)bytes;
    if (file->module_count == CRASH_MODULES)
        return 1;
    *module = (struct crash_module) { .bias = info->dlpi_addr, .base = UINT64_MAX };
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uint64_t from = info->dlpi_addr + part->p_vaddr;

        if (part->p_type != PT_LOAD)
            continue;
        module->base = from < module->base ? from : module->base;
        module->end = from + part->p_memsz > module->end ? from + part->p_memsz : module->end;
    }
    snprintf(module->path, sizeof module->path, "%s", info->dlpi_name);
    if (info->dlpi_name[0] == '\0') { /* the program itself */
        got = readlink("/proc/self/exe", module->path, sizeof module->path - 1);
        module->path[got > 0 ? got : 0] = '\0';
    }
    take_build_id(module, info);
    file->module_count++;
    return 0;
}

static void on_beat(uv_timer_t *timer)
{
    struct crash_record *record = timer->data;
    struct services *services = record->services;
    struct crash_file *file = record->file;
    const struct ec_clock_page *clock = segments_clock(services->segments);

    atomic_store_explicit(&file->beat_unix_ns, ec_wall_ns(), memory_order_relaxed);
    atomic_store_explicit(&file->rss_bytes, host_memory_rss("/proc", file->pid, NULL),
                          memory_order_relaxed);
    atomic_store_explicit(&file->clients, clients_count(services->clients), memory_order_relaxed);
    atomic_store_explicit(&file->breaker_level, breaker_level(services->breaker),
                          memory_order_relaxed);
    atomic_store_explicit(&file->step,
                          atomic_load_explicit(&clock->step[0].step, memory_order_relaxed),
                          memory_order_relaxed);
}

/* A fresh file under the name; the one of the run before was read already. */
static int make_file(struct crash_record *record, struct ec_error *why)
{
    struct crash_file *file;
    int fd, rc;

    unlink(record->path);
    fd = open(record->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "%s", strerror(errno));
    rc = posix_fallocate(fd, 0, sizeof *file);
    file =
        rc == 0 ? mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (file == MAP_FAILED) {
        unlink(record->path);
        return ec_fail(why, EC_ERR_SYSTEM, "%s", strerror(rc != 0 ? rc : errno));
    }
    record->file = file;
    return EC_OK;
}

static void fill_file(struct crash_record *record)
{
    struct crash_file *file = record->file;

    file->magic = MAGIC;
    file->bytes = sizeof *file;
    boot_id_read(file->boot_id);
    file->instance = record->services->instance;
    file->pid = getpid();
    snprintf(file->version, sizeof file->version, "%s", EC_VERSION);
    file->started_unix_ns = ec_wall_ns();
    dl_iterate_phdr(take_module, file);
    atomic_store_explicit(&file->beat_unix_ns, file->started_unix_ns, memory_order_relaxed);
    atomic_store_explicit(&file->state, RUN_GOES_ON, memory_order_release);
}

int crash_record_init(struct services *services, struct ec_error *why)
{
    struct crash_record *record = calloc(1, sizeof *record);
    struct ec_error reason = { 0 };

    if (record == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the crash record");
    services->crash_record = record;
    record->services = services;
    snprintf(record->path, sizeof record->path, "%.*s" SUFFIX, EC_SOCKET_PATH_BYTES + 256,
             services->socket_path);
    record->found = calloc(1, sizeof *record->found);
    if (record->found != NULL && crash_record_read(record->path, record->found, &reason) < 0) {
        free(record->found);
        record->found = NULL;
    }
    return EC_OK;
}

/* The socket is ours by now, so the file is, too. Without one the daemon runs as well. */
int crash_record_post_init(struct services *services, struct ec_error *why)
{
    struct crash_record *record = services->crash_record;
    struct ec_error reason = { 0 };

    if (make_file(record, &reason) < 0) {
        log_warning("crash_record", "cannot make %s: %s; a crash will leave no record",
                    record->path, reason.text);
        return EC_OK;
    }
    record->beat = calloc(1, sizeof *record->beat);
    if (record->beat == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a timer");
    uv_timer_init(services->loop, record->beat);
    record->beat->data = record;
    uv_timer_start(record->beat, on_beat, BEAT_MS, BEAT_MS);
    uv_unref((uv_handle_t *)record->beat);
    fill_file(record);
    /* release: partners are the loads in mirror_line and on_crash. */
    atomic_store_explicit(&own_file, record->file, memory_order_release);
    log_set_mirror(mirror_line);
    set_handlers(record);
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

/* The mapping stays until the process ends: a thread may be in mirror_line, and the last lines of the
 * shutdown belong into it until the very end. */
void crash_record_shutdown(struct services *services)
{
    struct crash_record *record = services->crash_record;
    stack_t none = { .ss_flags = SS_DISABLE };

    if (record == NULL)
        return;
    if (record->beat != NULL)
        uv_close((uv_handle_t *)record->beat, on_closed);
    if (record->file != NULL) {
        log_set_mirror(NULL);
        reset_handlers();
        sigaltstack(&none, NULL);
        atomic_store_explicit(&record->file->state, RUN_ENDED, memory_order_relaxed);
        atomic_store_explicit(&own_file, NULL, memory_order_relaxed);
        unlink(record->path);
    }
    free(record->stack);
    free(record->found);
    free(record);
    services->crash_record = NULL;
}

const struct crash_found *crash_record_found(const struct services *services)
{
    return services->crash_record != NULL ? services->crash_record->found : NULL;
}
