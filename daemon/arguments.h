/* arguments.h - the command line of engine-cored, from one table: parsing, help and completion.
 *
 * Thread: the main one, before anything is started. */
#ifndef ENGINE_CORED_ARGUMENTS_H
#define ENGINE_CORED_ARGUMENTS_H

#include <stdio.h>

#include "daemon/config.h"

#define ARGUMENTS_SETS_MAX 64

/* Exit codes of the daemon. */
#define EXIT_CANNOT_START 1
#define EXIT_USAGE 2

struct arguments {
    const char *socket_path;
    const char *print; /* a table; NULL: run */
    const char *check; /* a configuration file; NULL: run */
    struct config_source source;
    const char *sets[ARGUMENTS_SETS_MAX];
};

/* What is wrong is said on stderr; help and version are printed.
 *
 * Returns an exit code, or -1 to go on. */
int arguments_parse(int argc, char **argv, struct arguments *arguments);

/* A script that makes a shell complete engine-cored. */
void completion_print_bash(FILE *out);
void completion_print_zsh(FILE *out);
void completion_print_fish(FILE *out);

#endif
