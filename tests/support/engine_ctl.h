/* support/engine_ctl.h - run engine-ctl for one test, with what it prints in a file.
 *
 *     struct engine_ctl ctl;
 *
 *     engine_ctl_open(&ctl, &engine);
 *     ck_assert_int_eq(ENGINE_CTL(&ctl, "resources", "load", "forest"), 0);
 *     ck_assert_ptr_nonnull(strstr(ctl.text, "forest is ready"));
 *
 *     game = ENGINE_CTL_START(&ctl, "resources", "watch");  // one that goes on
 *     …
 *     kill(game.pid, SIGINT);
 *     ck_assert_int_eq(engine_ctl_end(&ctl, &game), 0);
 *
 * stdout and stderr go into the same file, in the daemon's directory. Thread: one. */
#ifndef EC_SUPPORT_ENGINE_CTL_H
#define EC_SUPPORT_ENGINE_CTL_H

#include "support/daemon.h"
#include "support/game.h"

#define ENGINE_CTL_WORDS_MAX 16

struct engine_ctl {
    const struct daemon_process *daemon;
    char path[160];
    char text[1 << 20]; /* what the last run printed */
};

void engine_ctl_open(struct engine_ctl *ctl, const struct daemon_process *daemon);
/* words: NULL-terminated, behind --socket. Returns the exit code, or -signal. */
int engine_ctl_run(struct engine_ctl *ctl, const char *const *words);
struct game engine_ctl_start(struct engine_ctl *ctl, const char *const *words);
int engine_ctl_end(struct engine_ctl *ctl, struct game *game);

#define ENGINE_CTL(ctl, ...) engine_ctl_run((ctl), (const char *const[]) { __VA_ARGS__, NULL })
#define ENGINE_CTL_START(ctl, ...)                                                                 \
    engine_ctl_start((ctl), (const char *const[]) { __VA_ARGS__, NULL })

/* Read a file of text into room. What is not there is empty. */
void text_read(const char *path, char *text, size_t room);

#endif
