/* Whatever a decoding process does, it is an error of its resource and of nothing else: one that
 * crashes, hangs, lies about sizes, talks nonsense or reaches for what is not its own. The children here
 * are the test's; everything around them is the daemon's. */
#include "resources/load_job.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "foundation/real_time.h"
#include "resources/decode_messages.h"
#include "resources/decode_server.h"
#include "resources/packet.h"

#define HEAP_BYTES (8u << 20)
#define BYTES 10000 /* of the resource that the children announce */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static struct decode_nursery *nursery;
static struct decode_server *server;
static struct asset_heap heap;
static unsigned char *base;
static uint64_t neighbour; /* a range of somebody else, full of 7 */
static int heap_fd, cancel_fd;
static struct load_job job;
static const struct content_secret secret;
static struct ec_error why;

/* ---- children --------------------------------------------------------------------------------- */

static struct sandbox sandbox;
static uint64_t place_bytes; /* of a child that has several turns */

static void tell(int socket_fd, const struct decode_child_message *message)
{
    if (!packet_send(socket_fd, message, sizeof *message, NULL, 0))
        _exit(90);
}

static void guard(int socket_fd)
{
    struct decode_child_message message = { .kind = DECODE_GUARDED };
    int listener;

    sandbox_enter(&sandbox, socket_fd, place_bytes);
    message.guard = sandbox.guard;
    listener = sandbox.listener;
    if (!packet_send(socket_fd, &message, sizeof message, &listener, listener >= 0 ? 1 : 0))
        _exit(91);
    if (listener >= 0)
        close(listener);
}

static struct decode_child_message measured(uint64_t bytes)
{
    struct decode_child_message message = { .kind = DECODE_MEASURED };

    message.measured.decoded = (struct decoded) { .bytes = bytes, .kind = EC_KIND_RAW };
    return message;
}

/* Announce honestly, and take the range. */
static int take_range(int socket_fd, struct decode_range *range)
{
    const struct decode_child_message message = measured(BYTES);
    int fd;

    tell(socket_fd, &message);
    if (!packet_receive(socket_fd, range, sizeof *range, &fd, 1) || fd < 0)
        _exit(92);
    return fd;
}

static unsigned char *map_range(int socket_fd)
{
    struct decode_range range;
    int fd = take_range(socket_fd, &range);
    unsigned char *memory = sandbox_map(&sandbox, fd, range.offset, range.bytes);

    if (memory == NULL)
        _exit(93);
    return memory;
}

static void done(int socket_fd)
{
    const struct decode_child_message message = { .kind = DECODE_DONE };

    tell(socket_fd, &message);
    _exit(0);
}

static void behave(int socket_fd)
{
    guard(socket_fd);
    sandbox_close();
    memset(map_range(socket_fd), 5, BYTES);
    done(socket_fd);
}

static void crash(int socket_fd)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it and exit */
    guard(socket_fd);
    memset(map_range(socket_fd), 5, 100);
    raise(SIGSEGV); /* to itself: what a wild pointer comes to */
}

static void abort_early(int socket_fd)
{
    signal(SIGABRT, SIG_DFL);
    guard(socket_fd);
    abort();
}

static void write_behind_the_range(int socket_fd)
{
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    guard(socket_fd);
    for (volatile unsigned char *at = map_range(socket_fd);; at += 4096)
        *at = 1;
}

static void hang(int socket_fd)
{
    guard(socket_fd);
    for (;;)
        recv(socket_fd, NULL, 0, MSG_TRUNC); /* forbidden, or for ever */
}

static void hang_in_the_range(int socket_fd)
{
    struct decode_range range;

    guard(socket_fd);
    take_range(socket_fd, &range);
    packet_receive(socket_fd, &range, sizeof range, NULL, 0); /* which never comes */
}

static void spin(int socket_fd)
{
    guard(socket_fd);
    for (volatile unsigned i = 0;; i++)
        ;
}

static void exit_early(int socket_fd)
{
    (void)socket_fd;
    _exit(3);
}

static void end_before_done(int socket_fd)
{
    guard(socket_fd);
    map_range(socket_fd);
    _exit(0);
}

static void fail_after_done(int socket_fd)
{
    const struct decode_child_message message = { .kind = DECODE_DONE };

    guard(socket_fd);
    map_range(socket_fd);
    tell(socket_fd, &message);
    _exit(4);
}

static void announce(int socket_fd, uint64_t bytes)
{
    const struct decode_child_message message = measured(bytes);

    guard(socket_fd);
    tell(socket_fd, &message);
    pause();
}

static void announce_too_much(int socket_fd)
{
    announce(socket_fd, (1 << 20) + 1);
}

static void announce_the_most(int socket_fd)
{
    announce(socket_fd, UINT64_MAX);
}

static void announce_an_image(int socket_fd)
{
    struct decode_child_message message = measured(12);

    message.measured.decoded = (struct decoded) { .bytes = 12,
                                                  .kind = EC_KIND_IMAGE,
                                                  .width = 2,
                                                  .height = 2,
                                                  .channels = 3,
                                                  .stride = 6,
                                                  .levels = 1 };
    guard(socket_fd);
    tell(socket_fd, &message);
    pause();
}

/* Whatever comes is taken: with something left in the socket its end would come before what was told. */
static void await_the_kill(int socket_fd)
{
    for (;;)
        packet_receive(socket_fd, &(char) { 0 }, 1, NULL, 0);
}

static void announce_twice(int socket_fd)
{
    const struct decode_child_message message = measured(BYTES);

    guard(socket_fd);
    tell(socket_fd, &message);
    tell(socket_fd, &message);
    await_the_kill(socket_fd);
}

static void say_done_at_once(int socket_fd)
{
    guard(socket_fd);
    done(socket_fd);
}

static void talk_nonsense(int socket_fd)
{
    const struct decode_child_message message = { .kind = (enum decode_child_kind)99 };

    guard(socket_fd);
    tell(socket_fd, &message);
    pause();
}

static void guard_twice(int socket_fd)
{
    const struct decode_child_message message = { .kind = DECODE_GUARDED };

    tell(socket_fd, &message);
    tell(socket_fd, &message);
    pause();
}

static void measure_unguarded(int socket_fd)
{
    const struct decode_child_message message = measured(BYTES);

    tell(socket_fd, &message);
    pause();
}

static void send_half(int socket_fd)
{
    guard(socket_fd);
    packet_send(socket_fd, "half", 4, NULL, 0);
    await_the_kill(socket_fd);
}

/* The reason is not even a text, and the code none of ours. */
static void fail_rudely(int socket_fd)
{
    struct decode_child_message message = { .kind = DECODE_FAILED };

    message.why.code = 12345;
    memset(message.why.text, 0x1b, sizeof message.why.text);
    guard(socket_fd);
    tell(socket_fd, &message);
    _exit(0);
}

static void map_the_neighbour(int socket_fd)
{
    struct decode_range range;
    int fd;

    guard(socket_fd);
    fd = take_range(socket_fd, &range);
    if (sandbox_map(&sandbox, fd, 4096, range.bytes) != NULL) /* where the neighbour lies */
        memset(base, 1, 4096);
    done(socket_fd);
}

static void map_before_it_may(int socket_fd)
{
    const struct decode_child_message message = measured(BYTES);

    guard(socket_fd);
    tell(socket_fd, &message);
    if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, 0, 0) != MAP_FAILED)
        done(socket_fd);
    _exit(94);
}

static void map_twice_and_grow(int socket_fd)
{
    struct decode_range range;
    unsigned char *memory;
    int fd;

    guard(socket_fd);
    fd = take_range(socket_fd, &range);
    memory = sandbox_map(&sandbox, fd, range.offset, range.bytes);
    if (memory == NULL)
        _exit(93);
    if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096) != MAP_FAILED)
        _exit(95);
    if (mremap(memory, range.bytes, 2 * range.bytes, MREMAP_MAYMOVE) != MAP_FAILED)
        _exit(96);
    memset(memory, 5, BYTES);
    done(socket_fd);
}

static void write_through_the_descriptor(int socket_fd)
{
    struct decode_range range;
    int fd;

    guard(socket_fd);
    fd = take_range(socket_fd, &range);
    if (pwrite(fd, "x", 1, 4096) >= 0)
        done(socket_fd);
    _exit(97);
}

static void cut_the_heap(int socket_fd)
{
    struct decode_range range;
    int fd;

    guard(socket_fd);
    fd = take_range(socket_fd, &range);
    if (fallocate(fd, 3, 4096, 4096) >= 0)
        done(socket_fd);
    _exit(97);
}

static void open_for_writing(int socket_fd)
{
    guard(socket_fd);
    _exit(open("/tmp", O_TMPFILE | O_RDWR, 0600) >= 0 ? 0 : 98);
}

static void open_late(int socket_fd)
{
    guard(socket_fd);
    sandbox_close();
    _exit(open("/etc/passwd", O_RDONLY) >= 0 ? 0 : 98);
}

static void make_a_socket(int socket_fd)
{
    guard(socket_fd);
    _exit(socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 0 : 98);
}

static void fork_one(int socket_fd)
{
    guard(socket_fd);
    _exit(fork() >= 0 ? 0 : 98);
}

static void kill_the_server(int socket_fd)
{
    const pid_t parent = getppid();

    guard(socket_fd);
    _exit(kill(parent, SIGKILL) == 0 ? 0 : 98);
}

static void run_code(int socket_fd)
{
    guard(socket_fd);
    _exit(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED
              ? 0
              : 98);
}

/* It could run in place of a call that the daemon has allowed. */
static void handle_a_signal(int socket_fd)
{
    guard(socket_fd);
    _exit(signal(SIGXCPU, SIG_IGN) != SIG_ERR ? 0 : 98);
}

/* As a decoder would that believes a header. */
static void take_much_memory(int socket_fd)
{
    struct decode_child_message message = { .kind = DECODE_FAILED };
    void *volatile memory;

    sandbox_limit(64 << 20, 60);
    guard(socket_fd);
    memory = malloc(256 << 20);
    if (memory != NULL)
        _exit(99);
    ec_fail(&message.why, EC_ERR_MEMORY, "no memory");
    tell(socket_fd, &message);
    _exit(0);
}

/* ---- children that have several turns ---- */

#define TURNS 4

static void begin_turns(int socket_fd)
{
    static struct decode_entry more[TURNS - 1];

    if (!packet_receive(socket_fd, more, sizeof more, NULL, 0))
        _exit(80);
    for (unsigned i = 0; i < TURNS - 1; i++)
        if (strcmp(more[i].path, "more") != 0)
            _exit(81);
    place_bytes = 1 << 20;
    guard(socket_fd);
    sandbox_close();
}

static void await_turn(int socket_fd)
{
    struct decode_turn turn;

    if (!packet_receive(socket_fd, &turn, sizeof turn, NULL, 0))
        _exit(0);
    if (turn.entry == 0 || turn.entry >= TURNS)
        _exit(82);
}

/* Decode; and let go, if it does, of so many bytes. */
static void one_turn(int socket_fd, struct decode_range *range, uint64_t let_go_bytes)
{
    const struct decode_child_message message = { .kind = DECODE_DONE };
    const int fd = take_range(socket_fd, range);
    unsigned char *memory = sandbox_map(&sandbox, fd, range->offset, range->bytes);

    if (memory == NULL)
        _exit(93);
    close(fd);
    memset(memory, 5, BYTES);
    if (let_go_bytes > 0 && !sandbox_unmap(&sandbox, let_go_bytes))
        _exit(94);
    tell(socket_fd, &message);
}

static void behave_for_all_turns(int socket_fd)
{
    struct decode_range range;

    begin_turns(socket_fd);
    for (;;) {
        one_turn(socket_fd, &range, heap_ranges_round(BYTES));
        await_turn(socket_fd);
    }
}

static void fail_each_other_turn(int socket_fd)
{
    struct decode_child_message message = { .kind = DECODE_FAILED };
    struct decode_range range;

    begin_turns(socket_fd);
    ec_fail(&message.why, EC_ERR_PARAM, "damaged");
    for (;;) {
        tell(socket_fd, &message);
        await_turn(socket_fd);
        one_turn(socket_fd, &range, heap_ranges_round(BYTES));
        await_turn(socket_fd);
    }
}

static void crash_in_the_second_turn(int socket_fd)
{
    struct decode_range range;

    signal(SIGSEGV, SIG_DFL);
    begin_turns(socket_fd);
    one_turn(socket_fd, &range, heap_ranges_round(BYTES));
    await_turn(socket_fd);
    raise(SIGSEGV);
}

static void crash_before_the_first_turn(int socket_fd)
{
    signal(SIGSEGV, SIG_DFL);
    begin_turns(socket_fd);
    raise(SIGSEGV);
}

static void keep_the_range(int socket_fd)
{
    struct decode_range range;

    begin_turns(socket_fd);
    one_turn(socket_fd, &range, 0);
    await_turn(socket_fd); /* which never comes */
}

/* The other half would still be there when somebody else has the range. */
static void keep_half_of_the_range(int socket_fd)
{
    struct decode_range range;

    begin_turns(socket_fd);
    one_turn(socket_fd, &range, 4096);
    await_turn(socket_fd);
    memset(sandbox.place, 9, BYTES);
    pause();
}

/* Where it is not looked at. */
static void map_it_elsewhere(int socket_fd)
{
    const struct decode_child_message message = { .kind = DECODE_DONE };
    struct decode_range range;
    unsigned char *memory;
    int fd;

    begin_turns(socket_fd);
    fd = take_range(socket_fd, &range);
    memory = mmap(NULL, range.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                  (off_t)range.offset);
    if (memory == MAP_FAILED)
        _exit(93);
    if (munmap(sandbox.place, range.bytes) != 0) /* of which nothing is mapped */
        _exit(94);
    tell(socket_fd, &message);
    pause();
}

static void map_the_range_of_the_last_turn(int socket_fd)
{
    struct decode_range first, second;
    int fd;

    begin_turns(socket_fd);
    one_turn(socket_fd, &first, heap_ranges_round(BYTES));
    await_turn(socket_fd);
    fd = take_range(socket_fd, &second);
    if (sandbox_map(&sandbox, fd, first.offset, first.bytes) != NULL)
        memset(sandbox.place, 9, BYTES);
    pause();
}

static void map_again_after_letting_go(int socket_fd)
{
    struct decode_range range;
    int fd;

    begin_turns(socket_fd);
    fd = take_range(socket_fd, &range);
    if (sandbox_map(&sandbox, fd, range.offset, range.bytes) == NULL ||
        !sandbox_unmap(&sandbox, range.bytes))
        _exit(93);
    if (sandbox_map(&sandbox, fd, range.offset, range.bytes) != NULL)
        done(socket_fd);
    pause();
}

static const struct {
    const char *name;
    void (*run)(int socket_fd);
    enum load_outcome outcome;
    unsigned ended;   /* jobs that had their turn, */
    int rcs[TURNS];   /* and what came of them */
    const char *part; /* of the last one's reason */
} in_turns[] = {
    { "turns", behave_for_all_turns, LOAD_OVER, TURNS, { 0 }, "" },
    { "each other",
      fail_each_other_turn,
      LOAD_OVER,
      TURNS,
      { EC_ERR_PARAM, 0, EC_ERR_PARAM, 0 },
      "" },
    { "crash second", crash_in_the_second_turn, LOAD_ALONE, 1, { 0 }, "" },
    { "crash first", crash_before_the_first_turn, LOAD_ALONE, 0, { 0 }, "" },
    { "keep", keep_the_range, LOAD_OVER, 1, { EC_ERR_SYSTEM }, "crashed: Killed" },
    { "keep half", keep_half_of_the_range, LOAD_OVER, 1, { EC_ERR_SYSTEM }, "not its own" },
    { "elsewhere", map_it_elsewhere, LOAD_OVER, 1, { EC_ERR_SYSTEM }, "not its own" },
    { "last turn's", map_the_range_of_the_last_turn, LOAD_ALONE, 1, { 0 }, "" },
    { "again", map_again_after_letting_go, LOAD_OVER, 1, { EC_ERR_SYSTEM }, "not its own" },
};
#define IN_TURNS (sizeof in_turns / sizeof in_turns[0])

static const struct {
    const char *name; /* the path that is asked for */
    void (*run)(int socket_fd);
    int rc;
    const char *part;    /* of the reason */
    bool needs_the_kill; /* a filter that ends the process: not with a sanitizer */
} children[] = {
    { "behave", behave, EC_OK, "", false },
    { "crash", crash, EC_ERR_SYSTEM, "crashed: Segmentation fault", false },
    { "abort", abort_early, EC_ERR_SYSTEM, "crashed: Aborted", false },
    { "write behind", write_behind_the_range, EC_ERR_SYSTEM, "the decoder ", false },
    { "hang", hang, EC_ERR_SYSTEM, "forbidden", true },
    { "hang in range", hang_in_the_range, EC_ERR_TIMEOUT, "within 1 s", false },
    { "spin", spin, EC_ERR_TIMEOUT, "within 1 s", false },
    { "exit early", exit_early, EC_ERR_SYSTEM, "exit code 3", false },
    { "no done", end_before_done, EC_ERR_SYSTEM, "exit code 0", false },
    { "done and fail", fail_after_done, EC_ERR_SYSTEM, "exit code 4", false },
    { "too much", announce_too_much, EC_ERR_SIZE, "impossible", false },
    { "the most", announce_the_most, EC_ERR_SIZE, "impossible", false },
    { "an image", announce_an_image, EC_ERR_SIZE, "impossible", false },
    { "twice", announce_twice, EC_ERR_PARAM, "nonsense", false },
    { "done at once", say_done_at_once, EC_ERR_PARAM, "nonsense", false },
    { "nonsense", talk_nonsense, EC_ERR_PARAM, "nonsense", false },
    { "guard twice", guard_twice, EC_ERR_PARAM, "nonsense", false },
    { "unguarded", measure_unguarded, EC_ERR_PARAM, "nonsense", false },
    { "half", send_half, EC_ERR_SYSTEM, "crashed: Killed", false },
    { "rude", fail_rudely, EC_ERR_PARAM, "????", false },
    { "map neighbour", map_the_neighbour, EC_ERR_SYSTEM, "not its own", false },
    { "map early", map_before_it_may, EC_ERR_SYSTEM, "not its own", false },
    { "map twice", map_twice_and_grow, EC_OK, "", false },
    { "pwrite", write_through_the_descriptor, EC_ERR_SYSTEM, "forbidden", true },
    { "punch", cut_the_heap, EC_ERR_SYSTEM, "forbidden", true },
    { "open", open_for_writing, EC_ERR_SYSTEM, "forbidden", true },
    { "open late", open_late, EC_ERR_SYSTEM, "forbidden", true },
    { "socket", make_a_socket, EC_ERR_SYSTEM, "forbidden", true },
    { "fork", fork_one, EC_ERR_SYSTEM, "forbidden", true },
    { "kill", kill_the_server, EC_ERR_SYSTEM, "forbidden", true },
    { "code", run_code, EC_ERR_SYSTEM, "forbidden", true },
    { "handler", handle_a_signal, EC_ERR_SYSTEM, "forbidden", true },
    { "memory", take_much_memory, EC_ERR_MEMORY, "no memory", true },
};
#define CHILDREN (sizeof children / sizeof children[0])

static void run_child(struct search_path *search, const struct decode_load *load, int socket_fd)
{
    (void)search;
    for (size_t i = 0; i < CHILDREN; i++)
        if (strcmp(children[i].name, load->first.path) == 0)
            children[i].run(socket_fd);
    for (size_t i = 0; i < IN_TURNS; i++)
        if (strcmp(in_turns[i].name, load->first.path) == 0)
            in_turns[i].run(socket_fd);
    _exit(100);
}

/* ---- around them ------------------------------------------------------------------------------ */

static void set_up(void)
{
    ck_assert_int_eq(decode_nursery_start(run_child, &nursery, &why), EC_OK);
    ck_assert_int_eq(decode_server_start(nursery, NULL, 0, 30, &server, &why), EC_OK);
    heap_fd = memfd_create("heap", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(heap_fd, HEAP_BYTES), 0);
    base = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, heap_fd, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    ck_assert_int_eq(asset_heap_init(&heap, heap_fd, HEAP_BYTES, true, &why), EC_OK);
    ck_assert_int_eq(asset_heap_reserve(&heap, 65536, &neighbour, &why), EC_OK);
    ck_assert_uint_eq(neighbour, 4096);
    memset(base + neighbour, 7, 65536);
    cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(cancel_fd, 0);
}

static void tear_down(void)
{
    close(cancel_fd);
    asset_heap_finish(&heap);
    munmap(base, HEAP_BYTES);
    close(heap_fd);
    decode_server_release(server);
    decode_nursery_end(nursery);
}

static unsigned descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    ck_assert_ptr_nonnull(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void job_init(struct load_job *made, const char *path, unsigned seconds)
{
    *made =
        (struct load_job) { .secret = &secret,
                            .kind = EC_KIND_RAW,
                            .limits = { .decode = { .bytes_max = 1 << 20, .pixels_max = 1 << 18 },
                                        .memory_bytes = 1 << 28,
                                        .seconds = seconds,
                                        .guarded = true } };
    snprintf(made->path, sizeof made->path, "%s", path);
}

static struct load_job *only_turn(void *context, unsigned *index)
{
    return *index == 0 ? context : NULL;
}

static void only_end(void *context, struct load_job *ended)
{
    ck_assert_ptr_eq(context, ended);
}

/* The job in a process of its own. */
static enum load_outcome run_alone(void)
{
    const struct load_place place = { .heap = &heap, .server = server, .cancel_fd = cancel_fd };
    struct decode_entry entry;
    const struct load_batch batch = { .limits = job.limits,
                                      .count = 1,
                                      .entries = &entry,
                                      .turn = only_turn,
                                      .end = only_end,
                                      .context = &job };

    load_job_entry(&job, &entry);
    return load_batch_run(&batch, &place);
}

static void run(const char *child, unsigned seconds)
{
    job_init(&job, child, seconds);
    ck_assert_int_eq(run_alone(), LOAD_OVER);
}

static void assert_neighbour_is_whole(void)
{
    for (unsigned i = 0; i < 65536; i++)
        if (base[neighbour + i] != 7)
            ck_abort_msg("byte %u of the neighbour is %u", i, base[neighbour + i]);
}

START_TEST(a_child_harms_nothing_but_its_own_resource)
{
    const unsigned before = descriptors();

    if (SANITIZED && children[_i].needs_the_kill)
        return;
    run(children[_i].name, children[_i].rc == EC_ERR_TIMEOUT ? 1 : 60);
    ck_assert_msg(job.rc == children[_i].rc, "%d: %s", job.rc, job.why.text);
    if (job.rc == EC_OK) {
        ck_assert_int_eq(job.guard, SANDBOX_ONE_RANGE);
        ck_assert_uint_eq(base[job.offset + BYTES - 1], 5);
        asset_heap_free(&heap, job.offset, job.decoded.bytes);
    } else {
        ck_assert_msg(strstr(job.why.text, children[_i].part) != NULL, "%s", job.why.text);
    }
    assert_neighbour_is_whole();
    ck_assert_uint_eq(asset_heap_used(&heap), 65536);
    ck_assert_uint_eq(descriptors(), before);

    /* And the next one finds everything in order. */
    run("behave", 60);
    ck_assert_msg(job.rc == EC_OK, "%s", job.why.text);
    ck_assert_uint_eq(base[job.offset], 5);
}
END_TEST

static struct load_job turns[TURNS];
static unsigned turns_ended;

static struct load_job *turn_of(void *context, unsigned *index)
{
    ck_assert_ptr_eq(context, turns);
    return *index < TURNS ? &turns[*index] : NULL;
}

static void turn_ended(void *context, struct load_job *ended)
{
    ck_assert_ptr_eq(context, turns);
    ck_assert_ptr_eq(ended, &turns[turns_ended]);
    turns_ended++;
}

static enum load_outcome run_in_turns(const char *child)
{
    const struct load_place place = { .heap = &heap, .server = server, .cancel_fd = cancel_fd };
    struct decode_entry entries[TURNS];
    struct load_batch batch = {
        .count = TURNS, .entries = entries, .turn = turn_of, .end = turn_ended, .context = turns
    };

    turns_ended = 0;
    for (unsigned i = 0; i < TURNS; i++) {
        job_init(&turns[i], i == 0 ? child : "more", 60);
        load_job_entry(&turns[i], &entries[i]);
    }
    batch.limits = turns[0].limits;
    return load_batch_run(&batch, &place);
}

/* A process gets no further turn when it is a second old, as it may be on a machine that stood still. */
static bool is_cut_short(size_t at, enum load_outcome outcome, int64_t begin_ns)
{
    return ec_real_ns() - begin_ns > EC_NS_PER_S &&
           (outcome != in_turns[at].outcome || turns_ended != in_turns[at].ended);
}

START_TEST(a_child_with_several_turns_harms_only_the_one_whose_turn_it_is)
{
    const unsigned before = descriptors();
    int64_t begin_ns = ec_real_ns();
    enum load_outcome outcome = run_in_turns(in_turns[_i].name);

    for (unsigned tries = 1; tries < 20 && is_cut_short((size_t)_i, outcome, begin_ns); tries++) {
        for (unsigned i = 0; i < turns_ended; i++)
            if (turns[i].rc == EC_OK)
                asset_heap_free(&heap, turns[i].offset, turns[i].decoded.bytes);
        begin_ns = ec_real_ns();
        outcome = run_in_turns(in_turns[_i].name);
    }
    ck_assert_int_eq(outcome, in_turns[_i].outcome);
    ck_assert_uint_eq(turns_ended, in_turns[_i].ended);
    for (unsigned i = 0; i < turns_ended; i++) {
        ck_assert_msg(turns[i].rc == in_turns[_i].rcs[i], "%u: %d: %s", i, turns[i].rc,
                      turns[i].why.text);
        if (turns[i].rc != EC_OK)
            continue;
        ck_assert_int_eq(turns[i].guard, SANDBOX_ONE_RANGE);
        for (unsigned k = 0; k < BYTES; k++)
            ck_assert_uint_eq(base[turns[i].offset + k], 5);
        asset_heap_free(&heap, turns[i].offset, turns[i].decoded.bytes);
    }
    if (turns_ended > 0)
        ck_assert_msg(strstr(turns[turns_ended - 1].why.text, in_turns[_i].part) != NULL, "%s",
                      turns[turns_ended - 1].why.text);
    assert_neighbour_is_whole();
    ck_assert_uint_eq(asset_heap_used(&heap), 65536);
    ck_assert_uint_eq(descriptors(), before);
}
END_TEST

START_TEST(a_child_that_nobody_waits_for_any_more_is_killed)
{
    ck_assert_int_eq(eventfd_write(cancel_fd, 1), 0);
    run("hang in range", 60);
    ck_assert_int_eq(job.rc, EC_AGAIN);
    ck_assert_uint_eq(asset_heap_used(&heap), 65536);
}
END_TEST

START_TEST(a_full_heap_is_an_error_of_the_resource)
{
    uint64_t last = 0, next;

    while (asset_heap_reserve(&heap, 4096, &next, &why) == EC_OK)
        last = next;
    run("behave", 60);
    ck_assert_int_eq(job.rc, EC_ERR_MEMORY);
    ck_assert_ptr_nonnull(strstr(job.why.text, "no free range"));
    for (unsigned i = 0; i < 3; i++)
        asset_heap_free(&heap, last - i * 4096, 4096);
    run("behave", 60);
    ck_assert_msg(job.rc == EC_OK, "%s", job.why.text);
}
END_TEST

START_TEST(without_a_server_nothing_is_tried)
{
    decode_nursery_end(nursery); /* takes its server along */
    nursery = NULL;
    snprintf(job.path, sizeof job.path, "behave");
    ck_assert_int_eq(run_alone(), LOAD_NO_SERVER);
    ck_assert_uint_eq(asset_heap_used(&heap), 65536);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("load job");
    TCase *tcase = tcase_create("load job");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_child_harms_nothing_but_its_own_resource, 0, (int)CHILDREN);
    tcase_add_loop_test(tcase, a_child_with_several_turns_harms_only_the_one_whose_turn_it_is, 0,
                        (int)IN_TURNS);
    tcase_add_test(tcase, a_child_that_nobody_waits_for_any_more_is_killed);
    tcase_add_test(tcase, a_full_heap_is_an_error_of_the_resource);
    tcase_add_test(tcase, without_a_server_nothing_is_tried);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
