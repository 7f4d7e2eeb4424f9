#include "support/engine_ctl.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const struct engine_ctl *ctl;
    const char *const *words;
};

static int run(const struct game_side *side)
{
    const struct run *run = side->context;
    const char *argv[ENGINE_CTL_WORDS_MAX + 4] = { "engine-ctl", "--socket",
                                                   run->ctl->daemon->socket_path };
    char program[4096];
    int fd = open(run->ctl->path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

    GAME_CHECK(fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    for (unsigned i = 0; run->words[i] != NULL; i++) {
        GAME_CHECK(i < ENGINE_CTL_WORDS_MAX);
        argv[3 + i] = run->words[i];
    }
    snprintf(program, sizeof program, "%s/engine-ctl", getenv("EC_BIN_DIR"));
    execv(program, (char *const *)(uintptr_t)argv);
    return 127;
}

void engine_ctl_open(struct engine_ctl *ctl, const struct daemon_process *daemon)
{
    ctl->daemon = daemon;
    ctl->text[0] = '\0';
    snprintf(ctl->path, sizeof ctl->path, "%s/engine-ctl.txt", daemon->directory);
}

struct game engine_ctl_start(struct engine_ctl *ctl, const char *const *words)
{
    return game_start(run, &(struct run) { ctl, words });
}

int engine_ctl_end(struct engine_ctl *ctl, struct game *game)
{
    int code = game_end(game);

    text_read(ctl->path, ctl->text, sizeof ctl->text);
    return code;
}

int engine_ctl_run(struct engine_ctl *ctl, const char *const *words)
{
    struct game game = engine_ctl_start(ctl, words);

    return engine_ctl_end(ctl, &game);
}

void text_read(const char *path, char *text, size_t room)
{
    FILE *file = fopen(path, "re");
    size_t bytes = file != NULL ? fread(text, 1, room - 1, file) : 0;

    text[bytes] = '\0';
    if (file != NULL)
        fclose(file);
}
