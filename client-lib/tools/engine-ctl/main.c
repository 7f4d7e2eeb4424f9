/* engine-ctl - the command line of engine-core. */
#include <stdlib.h>
#include <unistd.h>

#include "engine-ctl/verb.h"

#define TIMEOUT_MS_DEFAULT 30000

int main(int argc, char **argv)
{
    const char *no_colour = getenv("NO_COLOR");
    struct ctl ctl = { .timeout_ms = TIMEOUT_MS_DEFAULT, .terminal = isatty(STDOUT_FILENO) == 1 };
    const struct verb *verb;
    struct verb_input input;
    int rc;

    ctl.colours = ctl.terminal && (no_colour == NULL || no_colour[0] == '\0');
    rc = verb_parse(&ctl, argc, argv, &verb, &input);
    if (rc == EXIT_DONE && verb != NULL)
        rc = verb->run(&ctl, &input);
    json_socket_close(&ctl.socket);
    return rc;
}
