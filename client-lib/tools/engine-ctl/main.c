/* engine-ctl - the command line of engine-core. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine-ctl/verb.h"

#define TIMEOUT_MS_DEFAULT 30000

static void fill_standard_descriptors(void);

int main(int argc, char **argv)
{
    const char *no_colour = getenv("NO_COLOR");
    struct ctl ctl = { .timeout_ms = TIMEOUT_MS_DEFAULT, .terminal = isatty(STDOUT_FILENO) == 1 };
    const struct verb *verb;
    struct verb_input input;
    int rc;

    fill_standard_descriptors();
    ctl.colours = ctl.terminal && (no_colour == NULL || no_colour[0] == '\0');
    rc = verb_parse(&ctl, argc, argv, &verb, &input);
    if (rc == EXIT_DONE && verb != NULL)
        rc = verb->run(&ctl, &input);
    json_socket_close(&ctl.socket);
    return rc == EXIT_REHEARSED ? EXIT_DONE : rc;
}

/* Who starts us with stdout closed must not get the output into the socket, which would have its
 * number. Opened for reading, so that writing is still an error. */
static void fill_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}
