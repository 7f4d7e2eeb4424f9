/* preload_program - does with malloc what its arguments say, in order, for tests of the preload library.
 *
 *   blocks COUNT BYTES   allocate and keep
 *   every                one of each: calloc, realloc, reallocarray, memalign, aligned_alloc,
 *                        posix_memalign, valloc, pvalloc, strdup; checked and freed
 *   grow BYTES           one block by realloc, kilobyte by kilobyte; checked and freed
 *   threads COUNT        so many one after the other, and as many at once; each frees what another
 *                        one allocated
 *   fork                 the child allocates 1,000 x 1,000 bytes, says so, and waits for a line, too; after
 *                        `close` it looks first whether it has all that the program opened since
 *   exec WORD...         become the program WORD
 *   plugin LIBRARY COUNT dlopen it and call its plugin_allocate()
 *   unload               dlclose what was loaded last
 *   other                print "ready COUNT", of the calls that another library in malloc's place counted
 *   hold THREADS COUNT BYTES   so many threads at once, each with so many blocks; they wait as `wait` does
 *   close                close all descriptors from 3 on, as daemons do
 *   forget COUNT         allocate by way of forget_here(), and lose it
 *   wait                 print "ready PID", go on at a line on stdin
 *   exit                 by _exit
 *
 * Ends with 0 when all was right. */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "preload_program: line %d: %s\n", __LINE__, #condition);               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define THREADS_MAX 256
#define TAKEN_MAX 29 /* so many descriptors are opened after `close` */

static void *volatile kept; /* the newest block: each begins with a pointer to the one before */

static void keep(size_t bytes)
{
    void **block = malloc(bytes);

    CHECK(block != NULL && malloc_usable_size(block) >= bytes);
    memset(block, 0xA5, bytes);
    *block = kept;
    kept = (void *)block;
}

static bool is_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Write all that the block is said to have; what the library keeps there must not be in it. */
static void fill(void *block, size_t bytes)
{
    CHECK(block != NULL && malloc_usable_size(block) >= bytes);
    memset(block, 0x5A, malloc_usable_size(block));
}

static volatile size_t too_many = SIZE_MAX / 2; /* the compiler must not know it */

static void one_of_each(void)
{
    static const size_t sizes[] = { 1, 24, 100, 4096, 5000, 200000, 3000000 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t bytes = sizes[i];
        void *block = calloc(bytes, 1);

        CHECK(block != NULL && is_zero(block, bytes));
        fill(block, bytes);
        block = realloc(block, bytes * 2);
        CHECK(*(unsigned char *)block == 0x5A && ((unsigned char *)block)[bytes - 1] == 0x5A);
        fill(block, bytes * 2);
        block = realloc(block, bytes);
        CHECK(((unsigned char *)block)[bytes - 1] == 0x5A);
        block = reallocarray(block, bytes, 3);
        fill(block, bytes * 3);
        CHECK(realloc(block, 0) == NULL); /* freed, as glibc has it */
        for (size_t align = 8; align <= 65536; align *= 8) {
            block = memalign(align, bytes);
            CHECK((uintptr_t)block % align == 0);
            fill(block, bytes);
            free(block);
            block = aligned_alloc(align, bytes);
            CHECK((uintptr_t)block % align == 0);
            fill(block, bytes);
            free(block);
            CHECK(posix_memalign(&block, align, bytes) == 0 && (uintptr_t)block % align == 0);
            fill(block, bytes);
            block = realloc(block, bytes * 5);
            CHECK(((unsigned char *)block)[bytes - 1] == 0x5A);
            free(block);
        }
        block = valloc(bytes);
        CHECK((uintptr_t)block % 4096 == 0);
        fill(block, bytes);
        free(block);
        block = pvalloc(bytes);
        CHECK((uintptr_t)block % 4096 == 0);
        fill(block, bytes);
        free(block);
    }
    free(strdup("text"));
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    CHECK(calloc(too_many, 4) == NULL && reallocarray(NULL, too_many, 4) == NULL);
    CHECK(malloc(too_many * 2 - 8) == NULL && malloc(too_many) == NULL);
    CHECK(posix_memalign(&(void *) { NULL }, 3, 8) != 0);
}

static void grow(size_t bytes)
{
    unsigned char *block = NULL;

    for (size_t now = 1024; now <= bytes; now += 1024) {
        block = realloc(block, now);
        CHECK(block != NULL);
        memset(block + now - 1024, (int)(now / 1024 % 251), 1024);
    }
    for (size_t at = 0; at + 1024 <= bytes; at += 1024)
        CHECK(block[at] == (at / 1024 + 1) % 251 && block[at + 1023] == block[at]);
    free(block);
}

struct hand_over {
    void *blocks[1000];
};

static void *allocate_for_another(void *context)
{
    struct hand_over *mine = context;

    for (size_t i = 0; i < 1000; i++)
        mine->blocks[i] = malloc(16 + i);
    return NULL;
}

static void *free_of_another(void *context)
{
    struct hand_over *others = context;

    for (size_t i = 0; i < 1000; i++)
        free(others->blocks[i]);
    return NULL;
}

static void threads(unsigned count)
{
    static struct hand_over shares[THREADS_MAX];
    static pthread_t running[THREADS_MAX];

    CHECK(count <= THREADS_MAX);
    for (unsigned i = 0; i < count; i++) {
        CHECK(pthread_create(&running[0], NULL, allocate_for_another, &shares[i]) == 0);
        pthread_join(running[0], NULL);
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < count; i++)
            CHECK(pthread_create(&running[i], NULL,
                                 round == 0 ? free_of_another : allocate_for_another,
                                 &shares[i]) == 0);
        for (unsigned i = 0; i < count; i++)
            pthread_join(running[i], NULL);
    }
    for (unsigned i = 0; i < count; i++)
        free_of_another(&shares[i]);
}

static void wait_for_line(void)
{
    char line[16];

    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin) != NULL);
}

static void *plugin;

static void load_plugin(const char *path, unsigned count)
{
    void (*allocate)(unsigned);
    void *found;

    plugin = dlopen(path, RTLD_NOW);
    CHECK(plugin != NULL);
    found = dlsym(plugin, "plugin_allocate");
    CHECK(found != NULL);
    memcpy(&allocate, &found, sizeof found);
    allocate(count);
}

static void ask_other(void)
{
    void *found = dlsym(RTLD_DEFAULT, "other_malloc_count");
    unsigned long (*count)(void);

    CHECK(found != NULL);
    memcpy(&count, &found, sizeof found);
    printf("ready %lu\n", count());
    fflush(stdout);
}

static struct {
    unsigned count;
    size_t bytes;
    pthread_barrier_t barrier;
} held;

/* Comes and goes first, at the same time as the others do. */
static void *hold_blocks(void *context)
{
    void **blocks = context;

    for (int round = 0; round < 4; round++) {
        pthread_barrier_wait(&held.barrier);
        for (unsigned i = 0; i < held.count; i++)
            blocks[i] = malloc(held.bytes);
        if (round == 3)
            break;
        for (unsigned i = 0; i < held.count; i++)
            free(blocks[i]);
    }
    pthread_barrier_wait(&held.barrier); /* all have theirs */
    pthread_barrier_wait(&held.barrier); /* and may give them back */
    for (unsigned i = 0; i < held.count; i++)
        free(blocks[i]);
    return NULL;
}

static void hold(unsigned thread_count, unsigned count, size_t bytes)
{
    static pthread_t running[THREADS_MAX];
    static void *blocks[THREADS_MAX][1000];

    CHECK(thread_count <= THREADS_MAX && count <= 1000);
    held.count = count;
    held.bytes = bytes;
    CHECK(pthread_barrier_init(&held.barrier, NULL, thread_count + 1) == 0);
    for (unsigned i = 0; i < thread_count; i++)
        CHECK(pthread_create(&running[i], NULL, hold_blocks, blocks[i]) == 0);
    for (int round = 0; round < 5; round++)
        pthread_barrier_wait(&held.barrier);
    wait_for_line();
    pthread_barrier_wait(&held.barrier);
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(running[i], NULL);
}

static int taken[TAKEN_MAX]; /* numbers of the descriptors that were closed */
static unsigned taken_count;

static void check_descriptors(void)
{
    for (unsigned i = 0; i < taken_count; i++)
        CHECK(fcntl(taken[i], F_GETFD) >= 0);
}

static void fork_child(void)
{
    const pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        check_descriptors();
        for (unsigned i = 0; i < 1000; i++)
            keep(1000);
        wait_for_line();
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

__attribute__((noinline)) void forget_here(unsigned count);
__attribute__((noinline)) void forget_here(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        *(volatile char *)malloc(1024) = 1;
}

static void descriptors_closed(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    /* And their numbers are somebody else's now, but for those that the library was faster to take. */
    for (taken_count = 0; taken_count < TAKEN_MAX; taken_count++) {
        taken[taken_count] = dup(0);
        CHECK(taken[taken_count] >= 0);
    }
}

int main(int argc, char **argv)
{
    for (int at = 1; at < argc; at++) {
        const char *word = argv[at];

        if (strcmp(word, "blocks") == 0) {
            for (long left = atol(argv[at + 1]); left > 0; left--)
                keep((size_t)atol(argv[at + 2]));
            at += 2;
        } else if (strcmp(word, "every") == 0) {
            one_of_each();
        } else if (strcmp(word, "grow") == 0) {
            grow((size_t)atol(argv[++at]));
        } else if (strcmp(word, "threads") == 0) {
            threads((unsigned)atoi(argv[++at]));
        } else if (strcmp(word, "fork") == 0) {
            fork_child();
        } else if (strcmp(word, "exec") == 0) {
            execv(argv[at + 1], &argv[at + 1]);
            CHECK(0 && "exec");
        } else if (strcmp(word, "plugin") == 0) {
            load_plugin(argv[at + 1], (unsigned)atoi(argv[at + 2]));
            at += 2;
        } else if (strcmp(word, "unload") == 0) {
            CHECK(dlclose(plugin) == 0);
        } else if (strcmp(word, "other") == 0) {
            ask_other();
        } else if (strcmp(word, "hold") == 0) {
            hold((unsigned)atoi(argv[at + 1]), (unsigned)atoi(argv[at + 2]),
                 (size_t)atol(argv[at + 3]));
            at += 3;
        } else if (strcmp(word, "close") == 0) {
            descriptors_closed();
        } else if (strcmp(word, "forget") == 0) {
            forget_here((unsigned)atoi(argv[++at]));
        } else if (strcmp(word, "wait") == 0) {
            wait_for_line();
        } else if (strcmp(word, "exit") == 0) {
            _exit(0);
        } else {
            CHECK(0 && "known word");
        }
    }
    return 0;
}
