/* server_sim NAME SAVE_FILE [option...] - a dedicated game server, as far as memory is concerned.
 *
 *   worlds     grow while people play; without them there is no game, so nothing of them is given up
 *   caches     chunks of map that make the game faster; filled as long as there is room, dropped when
 *              the breaker asks for bytes
 *   particles  a pool that follows the particle rate of the breaker
 *   save file  the progress: written beside and renamed every few seconds, at SIGTERM, and before the
 *              server leaves because the breaker asked it to
 *
 * Two call-backs of the breaker share the cache under a lock: the immediate one gives bytes back also
 * while a step takes long; the one at frame marks turns the knobs. A save takes a buffer, so room for it
 * is reserved first; without room it is written in small pieces, which takes longer.
 *
 *   --bare            without engine-core: what the server would be without it
 *   --world MIB       that the world grows to (30)       --cache MIB     most of the cache (50)
 *   --grow S          time that the world takes (10)     --save S        between two saves (5)
 *   --burst MIB       of a level load, now and then (8)  --seed N        of the times of the loads
 *   --fill MIB        of the cache in a second (40)
 *   --priority N      told to the daemon (50)            --stamp FILE    log of call-backs, for benchmarks
 *
 * It ends at SIGTERM and SIGINT with status 0, at the breaker's wish with status 3. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/breaker.h>
#include <engine-core/client.h>
#include <engine-core/clock.h>
#include <engine-core/memory.h>
#include <engine-core/pool.h>

#define MIB (1024u * 1024u)
#define CHUNK_BYTES (256u * 1024u)
#define CHUNKS_MAX 4096
#define STEP_NS 20000000
#define STEPS_PER_S 50
#define PARTICLES 20000
#define SAVE_BUFFER_BYTES (2 * MIB)
#define SAVE_PIECE_BYTES (64u * 1024u)
#define EXIT_AS_ASKED 3

struct particle {
    float x, y, z, speed;
    uint64_t end_step;
};

struct options {
    const char *name, *save_path, *stamp_path;
    bool bare;
    unsigned world_mib, cache_mib, grow_s, save_s, burst_mib, fill_mib, seed, priority;
};

struct server {
    struct options options;
    struct ec_client *client; /* NULL: bare */

    unsigned char **world; /* chunks, never given up */
    size_t world_count, world_max;

    pthread_mutex_t lock; /* of the cache: the service thread drops, the game fills */
    unsigned char *cache[CHUNKS_MAX];
    size_t cache_first, cache_count, cache_max;
    unsigned fill_due; /* STEPS_PER_Sths of a chunk */
    uint32_t level;    /* told by the call-back */

    struct ec_pool *pool;
    struct particle *particles[PARTICLES];
    size_t particle_count;
    float particle_rate;

    unsigned char *burst; /* of a level that is being loaded */
    size_t burst_bytes;
    uint64_t burst_end;

    uint64_t step;       /* of play, those of earlier runs included */
    uint64_t saved_step; /* in the file */
    bool must_leave;
    int stamp_fd;
};

static volatile sig_atomic_t stopped;

static bool parse(struct options *options, int argc, char **argv);
static bool start(struct server *server);
static void stop(struct server *server);
static void play(struct server *server);
static void grow_world(struct server *server);
static void fill_cache(struct server *server);
static uint64_t drop_cache(struct server *server, uint64_t bytes);
static void load_level(struct server *server);
static void move_particles(struct server *server);
static bool save(struct server *server);
static bool write_save(struct server *server, unsigned char *buffer, size_t bytes);
static void load_progress(struct server *server);
static void heed_now(void *context, const struct ec_breaker_policy *policy);
static void heed_at_frame(void *context, const struct ec_breaker_policy *policy);
static unsigned char *take(size_t bytes);
static int64_t now_ns(void);

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

int main(int argc, char **argv)
{
    static struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER, .stamp_fd = -1 };
    bool saved;

    if (!parse(&server.options, argc, argv)) {
        fprintf(stderr,
                "usage: server_sim NAME SAVE_FILE [--bare] [--world MIB] [--cache MIB] "
                "[--grow S] [--save S] [--burst MIB] [--fill MIB] [--seed N] [--priority N] "
                "[--stamp FILE]\n");
        return 2;
    }
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    if (!start(&server))
        return 1;
    play(&server);
    saved = save(&server);
    printf("%s: ends at step %llu, saved %llu\n", server.options.name,
           (unsigned long long)server.step, (unsigned long long)server.saved_step);
    stop(&server);
    return !saved ? 1 : server.must_leave ? EXIT_AS_ASKED : 0;
}

static bool parse(struct options *options, int argc, char **argv)
{
    const struct {
        const char *name;
        unsigned *number;
    } rows[] = {
        { "--world", &options->world_mib }, { "--cache", &options->cache_mib },
        { "--grow", &options->grow_s },     { "--save", &options->save_s },
        { "--burst", &options->burst_mib }, { "--seed", &options->seed },
        { "--fill", &options->fill_mib },   { "--priority", &options->priority },
    };

    *options = (struct options) { .world_mib = 30,
                                  .cache_mib = 50,
                                  .grow_s = 10,
                                  .save_s = 5,
                                  .burst_mib = 8,
                                  .fill_mib = 40,
                                  .seed = 1,
                                  .priority = 50 };
    if (argc < 3)
        return false;
    options->name = argv[1];
    options->save_path = argv[2];
    for (int i = 3; i < argc; i++) {
        bool known = false;

        if (strcmp(argv[i], "--bare") == 0) {
            options->bare = true;
            continue;
        }
        if (strcmp(argv[i], "--stamp") == 0 && i + 1 < argc) {
            options->stamp_path = argv[++i];
            continue;
        }
        for (size_t r = 0; r < sizeof rows / sizeof rows[0] && !known; r++)
            if (strcmp(argv[i], rows[r].name) == 0 && i + 1 < argc) {
                *rows[r].number = (unsigned)strtoul(argv[++i], NULL, 10);
                known = true;
            }
        if (!known)
            return false;
    }
    return options->grow_s > 0 && options->save_s > 0;
}

static bool start(struct server *server)
{
    const struct options *options = &server->options;
    const struct ec_client_desc desc = { .name = options->name };
    const struct ec_breaker_traits traits = { .priority = options->priority, .can_save = true };
    struct ec_pool_desc particles = { .name = "particles", .block_bytes = sizeof(struct particle) };
    struct ec_error why = { 0 };
    int rc = EC_OK;

    server->world_max = (size_t)options->world_mib * MIB / CHUNK_BYTES;
    server->cache_max = (size_t)options->cache_mib * MIB / CHUNK_BYTES;
    if (server->cache_max > CHUNKS_MAX)
        server->cache_max = CHUNKS_MAX;
    server->world = calloc(server->world_max + 1, sizeof *server->world);
    server->particle_rate = 1.0f;
    srand(options->seed);
    load_progress(server);
    if (server->world == NULL)
        return false;
    if (options->stamp_path != NULL)
        server->stamp_fd =
            open(options->stamp_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (!options->bare) {
        rc = ec_client_create(&desc, &server->client, &why);
        if (rc == EC_OK)
            rc = ec_breaker_declare(server->client, &traits, &why);
        if (rc == EC_OK)
            rc = ec_tag_register(server->client, "particles", 0, &particles.tag, &why);
        particles.client = server->client;
    }
    if (rc == EC_OK)
        rc = ec_pool_create(&particles, &server->pool, &why);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", options->name, why.text);
        return false;
    }
    if (server->client != NULL) {
        ec_breaker_on_change(
            server->client,
            &(struct ec_breaker_watch) { .fn = heed_now, .context = server, .immediate = true });
        ec_breaker_on_change(server->client,
                             &(struct ec_breaker_watch) { .fn = heed_at_frame, .context = server });
    }
    return true;
}

static void stop(struct server *server)
{
    if (server->client != NULL)
        ec_breaker_on_change(server->client, NULL);
    ec_pool_destroy(server->pool);
    ec_client_destroy(server->client);
}

static void play(struct server *server)
{
    const uint64_t save_steps = (uint64_t)server->options.save_s * STEPS_PER_S;
    struct timespec due;

    clock_gettime(CLOCK_MONOTONIC, &due);
    while (!stopped && !server->must_leave) {
        struct ec_frame frame;

        if (server->client != NULL)
            ec_frame_begin(server->client, &frame);
        server->step++;
        grow_world(server);
        load_level(server);
        fill_cache(server);
        move_particles(server);
        if (server->step - server->saved_step >= save_steps)
            (void)save(server); /* tried again at the next step */
        if (server->client != NULL)
            ec_frame_end(&frame);
        due.tv_nsec += STEP_NS;
        due.tv_sec += due.tv_nsec / 1000000000;
        due.tv_nsec %= 1000000000;
        while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
            ;
    }
}

/* People build: a straight line up to its size, then it stays. */
static void grow_world(struct server *server)
{
    const uint64_t steps = (uint64_t)server->options.grow_s * STEPS_PER_S;
    size_t wanted = (size_t)(server->world_max * server->step / steps);

    if (wanted > server->world_max)
        wanted = server->world_max;
    /* After a restart the world comes back in pieces, as it is loaded. */
    for (unsigned i = 0; i < 4 && server->world_count < wanted; i++) {
        unsigned char *chunk = take(CHUNK_BYTES);

        if (chunk != NULL)
            server->world[server->world_count++] = chunk;
    }
}

/* What was seen once is kept for the next time. From level 1 on nothing new is. */
static void fill_cache(struct server *server)
{
    uint64_t evictable_bytes;
    unsigned chunks;

    server->fill_due += server->options.fill_mib * (MIB / CHUNK_BYTES);
    chunks = server->fill_due / STEPS_PER_S;
    server->fill_due %= STEPS_PER_S;
    pthread_mutex_lock(&server->lock);
    for (; chunks > 0 && server->cache_count < server->cache_max && server->level == 0; chunks--) {
        unsigned char *chunk = take(CHUNK_BYTES);

        if (chunk == NULL)
            break;
        server->cache[(server->cache_first + server->cache_count++) % CHUNKS_MAX] = chunk;
    }
    evictable_bytes = (uint64_t)server->cache_count * CHUNK_BYTES;
    pthread_mutex_unlock(&server->lock);
    if (server->client != NULL)
        ec_breaker_offer(server->client, evictable_bytes);
}

/* The oldest first. Called with the lock held. */
static uint64_t drop_cache(struct server *server, uint64_t bytes)
{
    uint64_t dropped = 0;

    while (dropped < bytes && server->cache_count > 0) {
        munmap(server->cache[server->cache_first], CHUNK_BYTES);
        server->cache_first = (server->cache_first + 1) % CHUNKS_MAX;
        server->cache_count--;
        dropped += CHUNK_BYTES;
    }
    return dropped;
}

/* A level is loaded now and then: for a second it takes memory that nobody can spare. */
static void load_level(struct server *server)
{
    if (server->burst != NULL && server->step >= server->burst_end) {
        munmap(server->burst, server->burst_bytes);
        server->burst = NULL;
    }
    if (server->burst == NULL && server->options.burst_mib > 0 && rand() % (4 * STEPS_PER_S) == 0) {
        server->burst_bytes = (size_t)server->options.burst_mib * MIB;
        server->burst = take(server->burst_bytes);
        server->burst_end = server->step + STEPS_PER_S;
    }
}

static void move_particles(struct server *server)
{
    const size_t wanted = (size_t)((float)PARTICLES * server->particle_rate);

    while (server->particle_count > wanted)
        ec_pool_free(server->pool, server->particles[--server->particle_count]);
    for (unsigned i = 0; i < 200 && server->particle_count < wanted; i++) {
        struct particle *particle = ec_pool_alloc(server->pool);

        if (particle == NULL)
            break;
        *particle = (struct particle) { .speed = 1.0f, .end_step = server->step + STEPS_PER_S };
        server->particles[server->particle_count++] = particle;
    }
    for (size_t i = 0; i < server->particle_count; i++)
        server->particles[i]->x += server->particles[i]->speed;
}

/* Written beside and renamed: the file holds one whole save at every moment. */
static bool save(struct server *server)
{
    const struct ec_breaker_wish wish = { .bytes = SAVE_BUFFER_BYTES, .hold_s = 10 };
    unsigned char piece[SAVE_PIECE_BYTES], *buffer = NULL;
    uint32_t reservation = 0;
    struct ec_error why;
    bool has_room = server->client == NULL, done;

    if (server->client != NULL)
        has_room = ec_breaker_reserve(server->client, &wish, &reservation, &why) == EC_OK;
    if (has_room)
        buffer = take(SAVE_BUFFER_BYTES);
    done = buffer != NULL ? write_save(server, buffer, SAVE_BUFFER_BYTES)
                          : write_save(server, piece, sizeof piece);
    if (buffer != NULL)
        munmap(buffer, SAVE_BUFFER_BYTES);
    if (reservation != 0)
        (void)ec_breaker_release(server->client, reservation, &why);
    return done;
}

/* The step, and a sum of the world, which has to be looked at for that. */
static bool write_save(struct server *server, unsigned char *buffer, size_t bytes)
{
    const uint64_t step = server->step;
    char beside[4096];
    uint64_t sum = 0;
    bool done;
    FILE *file;

    snprintf(beside, sizeof beside, "%s.new", server->options.save_path);
    file = fopen(beside, "we");
    if (file == NULL)
        return false;
    for (size_t i = 0; i < server->world_count; i++)
        for (size_t at = 0; at < CHUNK_BYTES; at += bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES) {
            const size_t part = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;

            memcpy(buffer, server->world[i] + at, part);
            sum += buffer[0] + (uint64_t)buffer[part - 1];
        }
    done = fprintf(file, "%llu %llu\n", (unsigned long long)step, (unsigned long long)sum) > 0;
    done = fclose(file) == 0 && done && rename(beside, server->options.save_path) == 0;
    if (done)
        server->saved_step = step;
    return done;
}

static void load_progress(struct server *server)
{
    unsigned long long step = 0;
    FILE *file = fopen(server->options.save_path, "re");

    if (file == NULL)
        return;
    if (fscanf(file, "%llu", &step) == 1)
        server->step = server->saved_step = step;
    fclose(file);
}

/* On the service thread of the library: bytes at once. */
static void heed_now(void *context, const struct ec_breaker_policy *policy)
{
    struct server *server = context;
    const int64_t told_ns = now_ns();
    uint64_t freed_bytes = 0;

    pthread_mutex_lock(&server->lock);
    server->level = policy->level;
    if (policy->give_bytes > 0)
        freed_bytes = drop_cache(server, policy->give_bytes);
    pthread_mutex_unlock(&server->lock);
    if (policy->give_bytes > 0)
        ec_breaker_answer(server->client, policy, freed_bytes, 0);
    if (server->stamp_fd >= 0) {
        char line[128];
        const int bytes =
            snprintf(line, sizeof line, "%lld %u %llu %llu\n", (long long)told_ns, policy->level,
                     (unsigned long long)policy->give_bytes, (unsigned long long)freed_bytes);

        if (write(server->stamp_fd, line, (size_t)bytes) < 0)
            server->stamp_fd = -1;
    }
}

/* Inside ec_frame_begin: what belongs to the game's thread. */
static void heed_at_frame(void *context, const struct ec_breaker_policy *policy)
{
    struct server *server = context;
    const size_t before = server->particle_count;

    server->particle_rate = policy->particle_rate;
    if (policy->level >= EC_BREAKER_EVICTION) {
        move_particles(server);
        ec_pool_trim(server->pool);
        if (before > server->particle_count)
            ec_breaker_knob_turned(server->client, EC_BREAKER_KNOB_PARTICLES,
                                   (before - server->particle_count) * sizeof(struct particle));
    }
    if (policy->must_leave)
        server->must_leave = true;
}

/* Memory that is really there. */
static unsigned char *take(size_t bytes)
{
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    for (size_t at = 0; at < bytes; at += 4096)
        memory[at] = (unsigned char)(at >> 12);
    return memory;
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}
