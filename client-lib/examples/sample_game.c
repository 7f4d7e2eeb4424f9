/* sample_game NAME [GROUP RESOURCE...] - a small game without a picture: what a program does with engine-core.
 *
 * It wakes on each physics step, moves, tells the others where it is, and reads where they are. It
 * holds textures of the daemon, has sparks in a pool and scratch memory in an arena, and gives up what
 * it can spare when the breaker asks for it. Several of them run side by side; SIGTERM or SIGINT ends one.
 *
 * The socket is found as always: $ENGINE_CORE_SOCKET, else the user's, else the system's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <engine-core/arena.h>
#include <engine-core/breaker.h>
#include <engine-core/client.h>
#include <engine-core/clock.h>
#include <engine-core/memory.h>
#include <engine-core/pool.h>
#include <engine-core/publisher.h>
#include <engine-core/resource.h>
#include <engine-core/subscriber.h>

#define TEXTURES_MAX 32
#define SPARKS_MAX 4096
#define SPARK_LIFE_STEPS 120
#define SPARKS_PER_EVENT 8
#define STEP_TIMEOUT_NS 1000000000
#define OTHERS_NS 1000000 /* how long a step waits for the events of the others */

/* What is published. The fields are registered, so tools see them by name. */
struct moved {
    uint64_t step;
    float x, y;
};

struct spark {
    uint64_t end_step;
    float x, y;
};

struct texture {
    const char *name;
    ec_resource handle;
    bool held;
    struct ec_resource_view view;
};

struct game {
    const char *name;
    const char *group; /* of the textures; NULL: it has none */
    struct ec_client *client;
    struct ec_step_clock physics;
    struct ec_publisher *publisher;
    struct ec_subscriber *subscriber;
    uint64_t moved_type;

    struct ec_arena *scratch; /* of one step */
    struct ec_pool *spark_pool;
    struct spark *sparks[SPARKS_MAX];
    size_t spark_count;

    struct texture textures[TEXTURES_MAX];
    size_t texture_count;

    uint64_t step;
    float x, y;
    uint32_t breaker_level;
    uint64_t seen; /* events of others */
};

static volatile sig_atomic_t running = 1;

static int start(struct game *game, struct ec_error *why);
static void stop(struct game *game);
static void play(struct game *game);
static void move(struct game *game);
static void tell_others(struct game *game);
static void read_others(struct game *game);
static void on_moved(void *context, const struct ec_event *event);
static void add_spark(struct game *game, float x, float y);
static void age_sparks(struct game *game);
static void draw(struct game *game);
static unsigned hold_textures(struct game *game);
static unsigned drop_textures(struct game *game);
static void load_group(struct game *game);
static void heed_breaker(struct game *game, uint32_t level);

static void on_signal(int number)
{
    (void)number;
    running = 0;
}

int main(int argc, char **argv)
{
    static struct game game;
    struct ec_error why = { 0 };
    int rc;

    if (argc < 2 || argc - 3 > TEXTURES_MAX) {
        fprintf(stderr, "usage: sample_game NAME [GROUP RESOURCE...]   (at most %d)\n",
                TEXTURES_MAX);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    game.name = argv[1];
    game.group = argv[2];
    for (int i = 3; i < argc; i++)
        game.textures[game.texture_count++].name = argv[i];

    rc = start(&game, &why);
    if (rc == EC_OK)
        play(&game);
    else
        fprintf(stderr, "%s: %s\n", game.name, why.text);
    stop(&game);
    return rc == EC_OK ? 0 : 1;
}

static int start(struct game *game, struct ec_error *why)
{
    static const struct ec_event_field fields[] = {
        EC_EVENT_FIELD(struct moved, step, EC_FIELD_U64),
        EC_EVENT_FIELD(struct moved, x, EC_FIELD_F32),
        EC_EVENT_FIELD(struct moved, y, EC_FIELD_F32),
    };
    static const char *const types[] = { "sample.moved" };
    const struct ec_client_desc client = { .name = game->name };
    const struct ec_event_type_desc type = {
        .name = types[0], .fields = fields, .field_count = 3, .bytes = sizeof(struct moved)
    };
    const struct ec_subscriber_desc subscriber = { .types = types, .type_count = 1 };
    const struct ec_publisher_desc publisher = { .name = "main" };
    struct ec_arena_desc scratch = { .name = "scratch", .tag = EC_TAG_RENDERING, .bytes = 1 << 20 };
    struct ec_pool_desc sparks = { .name = "sparks", .block_bytes = sizeof(struct spark) };
    int rc;

    rc = ec_client_create(&client, &game->client, why);
    if (rc < 0)
        return rc;
    rc = ec_step_find(game->client, "physics", &game->physics);
    if (rc != EC_OK) {
        snprintf(why->text, sizeof why->text, "there is no step clock \"physics\": %s",
                 ec_error_text(rc));
        return EC_ERR_NOT_FOUND;
    }
    rc = ec_event_type_register(game->client, &type, &game->moved_type, why);
    if (rc == EC_OK)
        rc = ec_publisher_create(game->client, &publisher, &game->publisher, why);
    if (rc == EC_OK)
        rc = ec_subscriber_create(game->client, &subscriber, &game->subscriber, why);
    if (rc == EC_OK)
        rc = ec_tag_register(game->client, "sparks", 1 << 20, &sparks.tag, why);
    scratch.client = sparks.client = game->client;
    if (rc == EC_OK)
        rc = ec_arena_create(&scratch, &game->scratch, why);
    if (rc == EC_OK)
        rc = ec_pool_create(&sparks, &game->spark_pool, why);
    return rc;
}

/* Everything of a client goes before it; each of these accepts what was never made. */
static void stop(struct game *game)
{
    if (game->client != NULL)
        drop_textures(game);
    ec_pool_destroy(game->spark_pool);
    ec_arena_destroy(game->scratch);
    ec_subscriber_destroy(game->subscriber);
    ec_publisher_destroy(game->publisher);
    ec_client_destroy(game->client);
}

static void play(struct game *game)
{
    struct ec_step step;

    printf("%s: client %u, holds %u of %zu textures\n", game->name, ec_client_id(game->client),
           hold_textures(game), game->texture_count);
    while (running && ec_client_state(game->client) == EC_CONNECTED) {
        struct ec_frame frame;

        if (ec_step_wait(&game->physics, STEP_TIMEOUT_NS, &step) != EC_OK)
            continue;
        ec_frame_begin(game->client, &frame);
        for (game->step = step.step - step.steps_passed; game->step < step.step; game->step++)
            move(game);
        tell_others(game);
        read_others(game);
        age_sparks(game);
        draw(game);
        heed_breaker(game, ec_breaker_level(game->client));
        ec_frame_end(&frame);
    }
    if (running)
        printf("%s: the daemon has gone\n", game->name);
    printf("%s: ends at step %llu, saw %llu events of others\n", game->name,
           (unsigned long long)step.step, (unsigned long long)game->seen);
}

/* One step of the simulation: in a circle, a little faster for each texture. */
static void move(struct game *game)
{
    const float turn = 0.01f + 0.001f * (float)game->texture_count;

    game->x += turn * (1.0f - game->y);
    game->y += turn * game->x;
}

/* The payload is written where the others read it. */
static void tell_others(struct game *game)
{
    struct moved *moved;

    if (ec_publisher_claim(game->publisher, game->moved_type, sizeof *moved, (void **)&moved) !=
        EC_OK)
        return; /* a reader is behind: this step goes untold */
    *moved = (struct moved) { .step = game->step, .x = game->x, .y = game->y };
    ec_publisher_commit(game->publisher);
}

/* What is there, and what the others, who woke at the same time, tell within a moment. */
static void read_others(struct game *game)
{
    ec_subscriber_poll(game->subscriber, on_moved, game, SPARKS_MAX);
    if (ec_subscriber_wait(game->subscriber, OTHERS_NS) == EC_OK)
        ec_subscriber_poll(game->subscriber, on_moved, game, SPARKS_MAX);
}

static void on_moved(void *context, const struct ec_event *event)
{
    struct game *game = context;
    const struct moved *moved = event->payload;

    if (event->sender == ec_client_id(game->client))
        return;
    game->seen++;
    for (unsigned i = 0; i < SPARKS_PER_EVENT; i++)
        add_spark(game, moved->x, moved->y);
}

static void add_spark(struct game *game, float x, float y)
{
    struct spark *spark;

    if (game->spark_count == SPARKS_MAX)
        return;
    spark = ec_pool_alloc(game->spark_pool);
    if (spark == NULL)
        return;
    *spark = (struct spark) { .end_step = game->step + SPARK_LIFE_STEPS, .x = x, .y = y };
    game->sparks[game->spark_count++] = spark;
}

static void age_sparks(struct game *game)
{
    for (size_t i = game->spark_count; i-- > 0;) {
        if (game->sparks[i]->end_step > game->step)
            continue;
        ec_pool_free(game->spark_pool, game->sparks[i]);
        game->sparks[i] = game->sparks[--game->spark_count];
    }
}

/* Where a renderer would be: the list of what is to be drawn lives for this frame only. */
static void draw(struct game *game)
{
    struct spark *list;

    ec_arena_reset(game->scratch);
    if (game->spark_count == 0)
        return;
    list = ec_arena_alloc_array(game->scratch, game->spark_count, sizeof *list, 0);
    if (list == NULL)
        return;
    for (size_t i = 0; i < game->spark_count; i++)
        list[i] = *game->sparks[i];
}

/* What is held stays where it is. Not all of them need be loaded. Returns how many are held. */
static unsigned hold_textures(struct game *game)
{
    unsigned held = 0;

    for (size_t i = 0; i < game->texture_count; i++) {
        struct texture *texture = &game->textures[i];

        if (!texture->held &&
            ec_resource_find(game->client, texture->name, &texture->handle) == EC_OK)
            texture->held =
                ec_resource_acquire(game->client, texture->handle, &texture->view) == EC_OK;
        held += texture->held;
    }
    return held;
}

static unsigned drop_textures(struct game *game)
{
    unsigned dropped = 0;

    for (size_t i = 0; i < game->texture_count; i++) {
        if (!game->textures[i].held)
            continue;
        ec_resource_release(game->client, game->textures[i].handle);
        game->textures[i].held = false;
        dropped++;
    }
    return dropped;
}

/* A round trip, and the load itself: a real game would do this on a thread of its own. */
static void load_group(struct game *game)
{
    struct ec_error why = { 0 };
    char params[96], *result = NULL;

    if (game->group == NULL)
        return;
    snprintf(params, sizeof params, "{\"group\":\"%s\"}", game->group);
    if (ec_client_call(game->client, "resource.load", params, &result, &why) < 0)
        printf("%s: %s\n", game->name, why.text);
    free(result);
}

/* From level 2 on: let the textures go and give back the sparks. When it is over: load them again. */
static void heed_breaker(struct game *game, uint32_t level)
{
    if (level == game->breaker_level)
        return;
    if (level >= EC_BREAKER_EVICTION && game->breaker_level < EC_BREAKER_EVICTION) {
        const unsigned dropped = drop_textures(game);
        uint64_t freed_bytes;

        while (game->spark_count > 0)
            ec_pool_free(game->spark_pool, game->sparks[--game->spark_count]);
        freed_bytes = ec_pool_trim(game->spark_pool);
        ec_breaker_ack(game->client, level, freed_bytes);
        printf("%s: breaker level %u: %u textures dropped, %llu bytes given back\n", game->name,
               level, dropped, (unsigned long long)freed_bytes);
    } else if (level < EC_BREAKER_EVICTION && game->breaker_level >= EC_BREAKER_EVICTION) {
        load_group(game);
        printf("%s: breaker level %u again, holds %u of %zu textures\n", game->name, level,
               hold_textures(game), game->texture_count);
    }
    game->breaker_level = level;
}
