/* game.c - see game.h. */
#include "support/game.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "support/daemon.h"

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        abort();
    }
}

struct game game_start(game_fn *fn, const void *context)
{
    int from[2], to[2];
    struct game game;

    must(pipe(from) == 0 && pipe(to) == 0, "pipe");
    game.pid = fork();
    must(game.pid >= 0, "fork");
    if (game.pid == 0) {
        struct game_side side = { .say = from[1], .hear = to[0], .context = context };

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(from[0]);
        close(to[1]);
        _exit(fn(&side));
    }
    close(from[1]);
    close(to[0]);
    game.from = from[0];
    game.to = to[1];
    return game;
}

void game_await(const struct game *game)
{
    char byte;

    must(read(game->from, &byte, 1) == 1, "the game ended");
}

void game_tell(const struct game *game)
{
    must(write(game->to, "!", 1) == 1, "the game ended");
}

int game_end(struct game *game)
{
    int status;

    must(waitpid(game->pid, &status, 0) == game->pid, "waitpid");
    close(game->from);
    close(game->to);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int game_kill(struct game *game)
{
    must(kill(game->pid, SIGKILL) == 0, "kill");
    return game_end(game);
}

void game_stop(const struct game *game)
{
    int status;

    must(kill(game->pid, SIGSTOP) == 0, "kill");
    must(waitpid(game->pid, &status, WUNTRACED) == game->pid && WIFSTOPPED(status), "waitpid");
}

void game_continue(const struct game *game)
{
    must(kill(game->pid, SIGCONT) == 0, "kill");
}

void game_say(const struct game_side *side)
{
    GAME_CHECK(write(side->say, "!", 1) == 1);
}

void game_hear(const struct game_side *side)
{
    char byte;

    GAME_CHECK(read(side->hear, &byte, 1) == 1);
}

struct ec_client *game_join(const char *name, const char *socket_path)
{
    struct ec_client_desc desc = { .name = name,
                                   .socket_path = socket_path,
                                   .timeout_ms = DAEMON_WAIT_MS };
    struct ec_error why = { 0 };
    struct ec_client *client;
    int rc = ec_client_create(&desc, &client, &why);

    if (rc < 0)
        fprintf(stderr, "%s\n", why.text);
    GAME_CHECK(rc == EC_OK);
    return client;
}
