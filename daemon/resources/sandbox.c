/* sandbox.c - a seccomp filter, written as a list of rules.
 *
 * The filter is a program for the kernel: it looks at the number of the system call and at its
 * arguments as values, never at memory. Rules are appended one by one; each ends the program when its
 * call is met, and the last instruction is for all calls that no rule names.
 *
 * Mapping a file cannot be judged by a fixed program, since the range is known only after the header
 * was decoded, by code that a hostile file may have taken over. So the filter hands such calls to the
 * process at the listener, which compares the arguments with the range that it reserved. Going on with
 * the call after the look is safe here, which it is not in general: arguments are values, and there is
 * no second thread that could change what a descriptor stands for.
 *
 * mremap would let a mapping grow over its range, or hide elsewhere; it fails, and malloc copies instead.
 *
 * A process that decodes several resources has to let go of one range before it gets the next. Its word
 * is not enough for that. So ranges are mapped at one address, which the filter knows, and an munmap there
 * goes by the listener as well: when the process at the listener has seen it for the whole mapping, that is
 * gone. It cannot fail: both its ends are ends of mappings, whatever was done inside, so nothing has
 * to be split. And it cannot be left undone: a signal that comes between the listener's answer and the
 * call would be handled instead of it, so no handler can be installed, and a signal ends the process. */
#include "resources/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "foundation/huge_map.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the filter knows x86-64 and arm64"
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define OTHERWISE (SANITIZED ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS)
#define MAP_PROTECTION (PROT_READ | PROT_WRITE)
#define MAP_FLAGS (MAP_SHARED | MAP_POPULATE) /* the pages are there: one call instead of faults */
#define NOT_READ_ONLY (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define INSTRUCTIONS_MAX 192

struct program {
    struct sock_filter code[INSTRUCTIONS_MAX];
    unsigned short count;
};

/* Calls that need no look at their arguments. */
static const unsigned plain_calls[] = {
    __NR_read,           __NR_pread64,       __NR_lseek,     __NR_close,       __NR_brk,
    __NR_madvise,        __NR_futex,         __NR_exit,      __NR_exit_group,  __NR_rt_sigreturn,
    __NR_rt_sigprocmask, __NR_clock_gettime, __NR_getrandom, __NR_sched_yield, __NR_getpid,
    __NR_gettid,         __NR_fadvise64,     __NR_fstat,
};

/* For opening an entry of the search path; sandbox_close() takes these away. */
static const unsigned opening_calls[] = {
    __NR_openat, __NR_newfstatat, __NR_readlinkat, __NR_seccomp, __NR_faccessat,
#ifdef __NR_open
    __NR_open,   __NR_stat,       __NR_lstat,      __NR_access,  __NR_readlink,
#endif
};

#if SANITIZED
/* What the run time does by itself, also while it reports. */
static const unsigned sanitizer_calls[] = {
    __NR_rt_sigaction,    __NR_sigaltstack,     __NR_prlimit64, __NR_sched_getaffinity,
    __NR_clock_nanosleep, __NR_nanosleep,       __NR_uname,     __NR_getdents64,
    __NR_prctl,           __NR_set_robust_list, __NR_mincore,
};
#endif

static void add(struct program *program, struct sock_filter instruction)
{
    assert(program->count < INSTRUCTIONS_MAX);
    program->code[program->count++] = instruction;
}

static void load(struct program *program, size_t offset)
{
    add(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void end(struct program *program, uint32_t action)
{
    add(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Leave out the next skip instructions unless the loaded word is value. */
static void unless_equal(struct program *program, uint32_t value, uint8_t skip)
{
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip));
}

/* Leave out the next skip instructions if the loaded word has one of the bits. */
static void if_any_bit(struct program *program, uint32_t bits, uint8_t skip)
{
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, skip, 0));
}

/* The lower half of an argument; both machines are little-endian. */
static size_t argument(unsigned index)
{
    return offsetof(struct seccomp_data, args) + index * sizeof(uint64_t);
}

static void rule_plain(struct program *program, unsigned call, uint32_t action)
{
    unless_equal(program, call, 1);
    end(program, action);
}

static void rule_argument_is(struct program *program, unsigned call, unsigned index, uint32_t value)
{
    unless_equal(program, call, 4);
    load(program, argument(index));
    unless_equal(program, value, 1);
    end(program, SECCOMP_RET_ALLOW);
    end(program, OTHERWISE);
}

static void rule_argument_lacks(struct program *program, unsigned call, unsigned index,
                                uint32_t bits)
{
    unless_equal(program, call, 4);
    load(program, argument(index));
    if_any_bit(program, bits, 1);
    end(program, SECCOMP_RET_ALLOW);
    end(program, OTHERWISE);
}

/* Memory without a file is free, code is never, a file is for the listener to decide. */
static void rule_mmap(struct program *program, uint32_t file_action)
{
    unless_equal(program, __NR_mmap, 7);
    load(program, argument(2));
    if_any_bit(program, PROT_EXEC, 4);
    load(program, argument(3));
    if_any_bit(program, MAP_ANONYMOUS, 1);
    end(program, file_action);
    end(program, SECCOMP_RET_ALLOW);
    end(program, OTHERWISE);
}

/* At the place of the ranges the listener has to see it. */
static void rule_munmap(struct program *program, uint64_t place, uint32_t place_action)
{
    unless_equal(program, __NR_munmap, 6);
    load(program, argument(0));
    unless_equal(program, (uint32_t)place, 3);
    load(program, argument(0) + sizeof(uint32_t));
    unless_equal(program, (uint32_t)(place >> 32), 1);
    end(program, place_action);
    end(program, SECCOMP_RET_ALLOW);
}

/* Numbers mean other calls in other modes of the processor. */
static void begin(struct program *program)
{
    program->count = 0;
    load(program, offsetof(struct seccomp_data, arch));
    unless_equal(program, ARCHITECTURE, 1);
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0));
    end(program, SECCOMP_RET_KILL_PROCESS);
    load(program, offsetof(struct seccomp_data, nr));
}

static void fill(struct program *program, int socket_fd, uint64_t place, uint32_t file_action)
{
    begin(program);
    for (size_t i = 0; i < sizeof plain_calls / sizeof plain_calls[0]; i++)
        rule_plain(program, plain_calls[i], SECCOMP_RET_ALLOW);
    rule_plain(program, __NR_mremap, SECCOMP_RET_ERRNO | ENOMEM);
    rule_argument_is(program, __NR_sendmsg, 0, (uint32_t)socket_fd);
    rule_argument_is(program, __NR_recvmsg, 0, (uint32_t)socket_fd);
    rule_argument_is(program, __NR_tgkill, 0, (uint32_t)getpid()); /* abort() */
    rule_argument_lacks(program, __NR_mprotect, 2, PROT_EXEC);
    rule_mmap(program, file_action);
    rule_munmap(program, place, file_action);
    rule_argument_lacks(program, __NR_openat, 2, NOT_READ_ONLY);
#ifdef __NR_open
    rule_argument_lacks(program, __NR_open, 1, NOT_READ_ONLY);
#endif
    for (size_t i = 0; i < sizeof opening_calls / sizeof opening_calls[0]; i++)
        rule_plain(program, opening_calls[i], SECCOMP_RET_ALLOW);
#if SANITIZED
    for (size_t i = 0; i < sizeof sanitizer_calls / sizeof sanitizer_calls[0]; i++)
        rule_plain(program, sanitizer_calls[i], SECCOMP_RET_ALLOW);
    rule_argument_is(program, __NR_write, 0, STDERR_FILENO);
#endif
    end(program, OTHERWISE);
}

/* Returns what seccomp does: a listener, 0, or -1. */
static int install(const struct program *program, unsigned flags)
{
    const struct sock_fprog code = { .len = program->count,
                                     .filter = (struct sock_filter *)(size_t)program->code };

    return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &code);
}

const char *sandbox_guard_name(enum sandbox_guard guard)
{
    static const char *const names[] = {
        [SANDBOX_PROCESS] = "processes of their own",
        [SANDBOX_SECCOMP] = "processes of their own under seccomp",
        [SANDBOX_ONE_RANGE] =
            "processes of their own under seccomp that can write one range at a time",
    };

    return names[guard];
}

void sandbox_limit(uint64_t memory_bytes, unsigned seconds)
{
    const struct rlimit none = { 0, 0 }, processor = { seconds, seconds + 1 };
    struct rlimit data;

    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_FSIZE, &none);
    setrlimit(RLIMIT_CPU, &processor);
    if (SANITIZED || getrlimit(RLIMIT_DATA, &data) < 0)
        return;
    if (data.rlim_max == RLIM_INFINITY || memory_bytes < data.rlim_max)
        data.rlim_cur = data.rlim_max = memory_bytes;
    setrlimit(RLIMIT_DATA, &data);
}

void sandbox_enter(struct sandbox *sandbox, int socket_fd, uint64_t place_bytes)
{
    struct program program;

    *sandbox = (struct sandbox) { .guard = SANDBOX_PROCESS, .listener = -1 };
    if (place_bytes > 0) {
        void *place = ec_huge_reserve(0, place_bytes);

        if (place != MAP_FAILED) {
            sandbox->place = place;
            sandbox->place_bytes = place_bytes;
        }
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return;
    fill(&program, socket_fd, (uintptr_t)sandbox->place, SECCOMP_RET_USER_NOTIF);
    sandbox->listener = install(&program, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    if (sandbox->listener >= 0) {
        sandbox->guard = SANDBOX_ONE_RANGE;
        return;
    }
    fill(&program, socket_fd, (uintptr_t)sandbox->place, SECCOMP_RET_ALLOW);
    if (install(&program, 0) == 0)
        sandbox->guard = SANDBOX_SECCOMP;
}

void sandbox_close(void)
{
    struct program program;

    if (SANITIZED)
        return;
    begin(&program);
    for (size_t i = 0; i < sizeof opening_calls / sizeof opening_calls[0]; i++)
        rule_plain(&program, opening_calls[i], OTHERWISE);
    end(&program, SECCOMP_RET_ALLOW);
    install(&program, 0); /* where there is no seccomp, there was no first filter either */
}

void *sandbox_map(const struct sandbox *sandbox, int heap_fd, uint64_t offset, uint64_t bytes)
{
    void *memory = MAP_FAILED;

    if (sandbox->place == NULL)
        memory = ec_huge_map(heap_fd, offset, bytes, MAP_PROTECTION, MAP_POPULATE);
    else if (bytes <= sandbox->place_bytes)
        memory = mmap(sandbox->place, bytes, MAP_PROTECTION, MAP_FLAGS | MAP_FIXED, heap_fd,
                      (off_t)offset);
    return memory != MAP_FAILED ? memory : NULL;
}

/* The addresses stay reserved: malloc would get them else. */
bool sandbox_unmap(const struct sandbox *sandbox, uint64_t bytes)
{
    return munmap(sandbox->place, bytes) == 0 &&
           mmap(sandbox->place, bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == sandbox->place;
}

/* Let the call go on, or fail with EPERM. */
static bool answer_call(int listener, const struct seccomp_notif *call, bool allowed)
{
    struct seccomp_notif_resp answer = { .id = call->id };

    if (allowed)
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        answer.error = -EPERM;
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 && allowed;
}

bool sandbox_allow_unmap(int listener, uint64_t address, uint64_t bytes)
{
    struct seccomp_notif call = { 0 }; /* the kernel wants it to be all zero */

    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
        return false;
    return answer_call(listener, &call,
                       call.data.nr == __NR_munmap && call.data.args[0] == address &&
                           call.data.args[1] == bytes);
}

bool sandbox_allow_map(int listener, uint64_t offset, uint64_t bytes, uint64_t *address)
{
    struct seccomp_notif call = { 0 };
    const __u64 *arguments = call.data.args;

    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
        return false;
    *address = arguments[3] & MAP_FIXED ? arguments[0] : UINT64_MAX; /* else it is only a wish */
    /* Where it comes to lie is the process's own business. */
    return answer_call(
        listener, &call,
        call.data.nr == __NR_mmap && arguments[1] == bytes && arguments[2] == MAP_PROTECTION &&
            (arguments[3] & ~(__u64)MAP_FIXED) == MAP_FLAGS && arguments[5] == offset);
}
