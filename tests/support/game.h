/* support/game.h - a game in a process of its own, for one test.
 *
 *     static int publish(const struct game_side *side)
 *     {
 *         struct ec_client *client = game_join("publisher", side->context);
 *         …
 *         game_say(side);  // the test goes on
 *         game_hear(side); // until the test says so
 *         return 0;
 *     }
 *
 *     struct game game = game_start(publish, engine.socket_path);
 *     game_await(&game);
 *     game_tell(&game);
 *     ck_assert_int_eq(game_end(&game), 0);
 *
 * Test and game speak in single bytes over two pipes, so nothing sleeps. A game dies with its test.
 * Whatever goes wrong here aborts the test.
 *
 * Thread: one. */
#ifndef EC_SUPPORT_GAME_H
#define EC_SUPPORT_GAME_H

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <engine-core/client.h>

#define GAME_WAIT_NS 60000000000ll /* how long anything may take before the test has failed */

/* A game ends with the line of what went wrong. */
#define GAME_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(100);                                                                            \
        }                                                                                          \
    } while (0)

struct game {
    pid_t pid;
    int from, to;
};

/* The game's own end. */
struct game_side {
    int say, hear;
    const void *context;
};

typedef int game_fn(const struct game_side *side);

struct game game_start(game_fn *fn, const void *context);
void game_await(const struct game *game); /* one game_say */
void game_tell(const struct game *game);
/* Wait for its end. Returns the exit code, or -signal. */
int game_end(struct game *game);
int game_kill(struct game *game);
/* Wait until it is stopped, after a SIGSTOP. */
void game_stop(const struct game *game);
void game_continue(const struct game *game);

void game_say(const struct game_side *side);
void game_hear(const struct game_side *side);
struct ec_client *game_join(const char *name, const char *socket_path);

#endif
