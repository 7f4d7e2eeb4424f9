/* Jobs go to the workers and come back to the loop; cancelled ones leave nothing. Covers load_job.c,
 * which is what the workers run. */
#include "resources/worker_pool.h"

#include <check.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#include "resources/decode_child.h"
#include "resources/decode_messages.h"
#include "resources/decode_server.h"
#include "resources/search_path.h"
#include "support/sample_images.h"

#define HEAP_BYTES (8u << 20)
#define JOBS 40
#define THREADS 3

static uv_loop_t loop;
static struct asset_heap heap;
static unsigned char *base;
static int heap_fd;
static struct decode_nursery *nursery;
static struct decode_server *server;
static struct worker_pool *pool;
static const struct content_secret secret;
static struct ec_error why;
static char archive[64];

static struct load_job jobs[JOBS];
static unsigned done_count;
static unsigned order[JOBS]; /* in which each was done last */
static unsigned done_wanted; /* the loop stops then */

static void on_done(void *context, struct load_job *job)
{
    ck_assert_ptr_eq(context, &done_count);
    ck_assert_ptr_eq(job->owner, job);
    order[job - jobs] = done_count; /* so many were done before */
    if (++done_count == done_wanted)
        uv_stop(&loop);
}

static void start_pool(unsigned threads)
{
    ck_assert_int_eq(worker_pool_create(&(struct worker_pool_desc) { .loop = &loop,
                                                                     .heap = &heap,
                                                                     .nursery = nursery,
                                                                     .server = server,
                                                                     .threads = threads,
                                                                     .done = on_done,
                                                                     .context = &done_count },
                                        &pool, &why),
                     EC_OK);
}

static void set_up(void)
{
    const struct sample_shape shape = { .width = 64, .height = 32, .channels = 3 };
    struct sample_zip zip = { 0 };
    struct sample image;
    int fd;

    snprintf(archive, sizeof archive, "/tmp/worker-pool-XXXXXX");
    fd = mkstemp(archive);
    ck_assert_int_ge(fd, 0);
    close(fd);
    sample_png(&image, &shape);
    sample_zip_add(&zip, "image.png", image.bytes, image.count);
    sample_zip_add(&zip, "half.png", image.bytes, image.count / 2);
    sample_zip_add(&zip, "text", "some text", 9);
    sample_free(&image);
    sample_zip_write(&zip, archive);
    ck_assert_int_eq(decode_nursery_start(decode_child_run, &nursery, &why), EC_OK);
    ck_assert_msg(decode_server_start(nursery, &(struct search_mount) { archive, "/" }, 1, 30,
                                      &server, &why) == EC_OK,
                  "%s", why.text);

    heap_fd = memfd_create("heap", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(heap_fd, HEAP_BYTES), 0);
    base = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, heap_fd, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    ck_assert_int_eq(asset_heap_init(&heap, heap_fd, HEAP_BYTES, true, &why), EC_OK);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    done_count = 0;
    memset(jobs, 0, sizeof jobs);
    start_pool(THREADS);
}

static void tear_down(void)
{
    worker_pool_destroy(pool);
    uv_run(&loop, UV_RUN_DEFAULT); /* the pool is the last handle */
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    asset_heap_finish(&heap);
    munmap(base, HEAP_BYTES);
    close(heap_fd);
    decode_server_release(server);
    decode_nursery_end(nursery);
    unlink(archive);
}

/* The first child of a process, as the kernel lists them: those of each thread apart. */
static pid_t child_of(pid_t pid)
{
    char path[288];
    long child = 0;
    DIR *tasks;

    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    tasks = opendir(path);
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *task; child == 0 && (task = readdir(tasks)) != NULL;) {
        FILE *file;

        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%ld/task/%s/children", (long)pid, task->d_name);
        file = fopen(path, "re");
        if (file == NULL) /* the thread has ended meanwhile */
            continue;
        if (fscanf(file, "%ld", &child) != 1)
            child = 0;
        fclose(file);
    }
    closedir(tasks);
    ck_assert_int_ne(child, 0);
    return (pid_t)child;
}

/* The nursery is our only child, the server the nursery's. */
static pid_t server_pid(void)
{
    return child_of(child_of(getpid()));
}

/* It may still do something when kill() returns. */
static void kill_at_once(pid_t pid)
{
    struct pollfd ended = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };

    ck_assert_int_ge(ended.fd, 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(poll(&ended, 1, -1), 1);
    close(ended.fd);
}

static void job_init(struct load_job *job, const char *path, enum ec_resource_kind kind)
{
    job->owner = job;
    snprintf(job->path, sizeof job->path, "%s", path);
    job->kind = kind;
    job->limits = (struct load_limits) { .decode = { .bytes_max = 1 << 20, .pixels_max = 1 << 18 },
                                         .memory_bytes = 1 << 28,
                                         .seconds = 60,
                                         .guarded = true };
    job->secret = &secret;
}

static void submit(struct load_job *job, const char *path, enum ec_resource_kind kind)
{
    job_init(job, path, kind);
    worker_pool_submit(pool, job);
}

static void await(unsigned count)
{
    done_wanted = count;
    if (done_count < count)
        uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(done_count, count);
}

START_TEST(many_jobs_come_back_decoded_in_ranges_of_their_own)
{
    for (unsigned i = 0; i < JOBS; i++)
        submit(&jobs[i], i % 2 == 0 ? "image.png" : "text",
               i % 2 == 0 ? EC_KIND_IMAGE : EC_KIND_RAW);
    await(JOBS);
    for (unsigned i = 0; i < JOBS; i++) {
        const unsigned char *bytes = base + jobs[i].offset;

        ck_assert_int_eq(jobs[i].rc, EC_OK);
        ck_assert_uint_eq(jobs[i].decoded.bytes, i % 2 == 0 ? 64 * 32 * 3 : 9);
        if (i % 2 == 1)
            ck_assert_mem_eq(bytes, "some text", 9);
        for (uint32_t x = 0; x < 64 && i % 2 == 0; x++)
            ck_assert_uint_eq(bytes[31 * 64 * 3 + x * 3 + 1], sample_pixel(x, 31, 1));
        asset_heap_free(&heap, jobs[i].offset, jobs[i].decoded.bytes);
    }
    ck_assert_uint_eq(asset_heap_used(&heap), 0);
}
END_TEST

static struct load_job *all_but_the_first(void *context, unsigned *index)
{
    (void)context;
    if (*index == 0)
        *index = 1;
    return *index < 3 ? &jobs[*index] : NULL;
}

static void count_end(void *context, struct load_job *job)
{
    (void)context;
    (void)job;
    done_count++;
}

/* A cancellation may come before the process is started. */
START_TEST(a_batch_whose_first_was_taken_away_begins_with_the_second)
{
    const struct load_place place = { .heap = &heap, .server = server, .cancel_fd = -1 };
    struct decode_entry entries[3];
    struct load_batch batch = {
        .count = 3, .entries = entries, .turn = all_but_the_first, .end = count_end
    };

    job_init(&jobs[0], "image.png", EC_KIND_RAW);
    job_init(&jobs[1], "text", EC_KIND_RAW);
    job_init(&jobs[2], "half.png", EC_KIND_RAW);
    for (unsigned i = 0; i < 3; i++)
        load_job_entry(&jobs[i], &entries[i]);
    batch.limits = jobs[0].limits;
    ck_assert_int_eq(load_batch_run(&batch, &place), LOAD_OVER);
    ck_assert_uint_ge(done_count, 1); /* the other one waits again if this has taken long */
    ck_assert_msg(jobs[1].rc == EC_OK, "%s", jobs[1].why.text);
    ck_assert_uint_eq(jobs[1].decoded.bytes, 9);
    ck_assert_mem_eq(base + jobs[1].offset, "some text", 9);
    ck_assert_uint_eq(jobs[0].decoded.bytes, 0);
}
END_TEST

START_TEST(a_job_that_fails_takes_no_memory_and_says_why)
{
    submit(&jobs[0], "half.png", EC_KIND_IMAGE);
    submit(&jobs[1], "text", EC_KIND_IMAGE);
    submit(&jobs[2], "nothing", EC_KIND_RAW);
    await(3);
    ck_assert_int_eq(jobs[0].rc, EC_ERR_PARAM);
    ck_assert_ptr_nonnull(strstr(jobs[0].why.text, "truncated"));
    ck_assert_int_eq(jobs[1].rc, EC_ERR_PARAM);
    ck_assert_int_eq(jobs[2].rc, EC_ERR_NOT_FOUND);
    ck_assert_uint_eq(asset_heap_used(&heap), 0);
}
END_TEST

START_TEST(a_cancelled_job_comes_back_without_memory)
{
    for (unsigned i = 0; i < JOBS; i++)
        submit(&jobs[i], "image.png", EC_KIND_IMAGE);
    for (unsigned i = 0; i < JOBS; i++)
        worker_pool_cancel(pool, &jobs[i]);
    await(JOBS);
    for (unsigned i = 0; i < JOBS; i++) {
        ck_assert(jobs[i].rc == EC_OK || jobs[i].rc == EC_AGAIN);
        if (jobs[i].rc == EC_OK) /* it was faster */
            asset_heap_free(&heap, jobs[i].offset, jobs[i].decoded.bytes);
    }
    ck_assert_uint_eq(asset_heap_used(&heap), 0);
    /* It may be wanted again. */
    submit(&jobs[0], "image.png", EC_KIND_IMAGE);
    await(JOBS + 1);
    ck_assert_int_eq(jobs[0].rc, EC_OK);
}
END_TEST

START_TEST(a_job_that_is_cancelled_while_it_waits_is_not_done)
{
    ck_assert_int_eq(kill(server_pid(), SIGSTOP), 0); /* nothing is begun */
    for (unsigned i = 0; i < JOBS; i++)
        submit(&jobs[i], "image.png", EC_KIND_IMAGE);
    for (unsigned i = 0; i < JOBS; i++)
        worker_pool_cancel(pool, &jobs[i]);
    await(JOBS);
    ck_assert_int_eq(kill(server_pid(), SIGCONT), 0);
    for (unsigned i = 0; i < JOBS; i++)
        ck_assert_int_eq(jobs[i].rc, EC_AGAIN);
    ck_assert_uint_eq(asset_heap_used(&heap), 0);
    submit(&jobs[0], "image.png", EC_KIND_IMAGE);
    await(JOBS + 1);
    ck_assert_int_eq(jobs[0].rc, EC_OK);
}
END_TEST

START_TEST(a_higher_priority_comes_first)
{
    /* A pool of one thread, which hands back in the order that it begins. The server stands still, so it
     * takes one job and waits with it. */
    worker_pool_destroy(pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    start_pool(1);
    ck_assert_int_eq(kill(server_pid(), SIGSTOP), 0);
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i].priority = i == JOBS - 2 ? 7 : 1;
        submit(&jobs[i], "text", EC_KIND_RAW);
    }
    worker_pool_raise(pool, &jobs[JOBS - 1], 9);
    ck_assert_int_eq(kill(server_pid(), SIGCONT), 0);
    await(JOBS);
    for (unsigned i = 0; i < JOBS; i++)
        ck_assert_int_eq(jobs[i].rc, EC_OK);
    ck_assert_uint_le(order[JOBS - 1], 1);
    ck_assert_uint_eq(order[JOBS - 2], order[JOBS - 1] + 1);
}
END_TEST

START_TEST(a_server_that_was_killed_is_started_again)
{
    submit(&jobs[0], "text", EC_KIND_RAW);
    await(1);
    ck_assert_int_eq(jobs[0].rc, EC_OK);
    ck_assert_int_eq(kill(server_pid(), SIGKILL), 0);
    submit(&jobs[1], "text", EC_KIND_RAW);
    submit(&jobs[2], "image.png", EC_KIND_IMAGE);
    await(3);
    ck_assert_msg(jobs[1].rc == EC_OK, "%s", jobs[1].why.text);
    ck_assert_msg(jobs[2].rc == EC_OK, "%s", jobs[2].why.text);
}
END_TEST

/* The nursery is started again by executing the program anew. */
START_TEST(a_nursery_that_was_killed_is_started_again)
{
    for (unsigned round = 0; round < 3; round++) {
        const pid_t its_server = server_pid(), its_nursery = child_of(getpid());

        kill_at_once(its_nursery);
        submit(&jobs[2 * round], "text", EC_KIND_RAW); /* its server is still there */
        await(2 * round + 1);
        ck_assert_msg(jobs[2 * round].rc == EC_OK, "%s", jobs[2 * round].why.text);
        kill_at_once(its_server);
        submit(&jobs[2 * round + 1], "image.png", EC_KIND_IMAGE);
        await(2 * round + 2);
        ck_assert_msg(jobs[2 * round + 1].rc == EC_OK, "%s", jobs[2 * round + 1].why.text);
        ck_assert_int_ne(server_pid(), its_server);
    }
}
END_TEST

START_TEST(the_end_of_the_pool_does_not_wait_for_what_was_not_begun)
{
    for (unsigned i = 0; i < JOBS; i++)
        submit(&jobs[i], "image.png", EC_KIND_IMAGE);
    /* tear_down destroys the pool now; nothing of it is told to the loop. */
    ck_assert_uint_eq(done_count, 0);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("worker pool");
    TCase *tcase = tcase_create("worker pool");
    SRunner *runner;
    int failed;

    decode_nursery_if_asked(argc, argv, decode_child_run);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, many_jobs_come_back_decoded_in_ranges_of_their_own);
    tcase_add_test(tcase, a_batch_whose_first_was_taken_away_begins_with_the_second);
    tcase_add_test(tcase, a_job_that_fails_takes_no_memory_and_says_why);
    tcase_add_test(tcase, a_cancelled_job_comes_back_without_memory);
    tcase_add_test(tcase, a_job_that_is_cancelled_while_it_waits_is_not_done);
    tcase_add_test(tcase, a_higher_priority_comes_first);
    tcase_add_test(tcase, a_server_that_was_killed_is_started_again);
    tcase_add_test(tcase, a_nursery_that_was_killed_is_started_again);
    tcase_add_test(tcase, the_end_of_the_pool_does_not_wait_for_what_was_not_begun);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
