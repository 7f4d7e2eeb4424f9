/* reference.h - print what the tables say, as Markdown. docs/generated is made of it.
 *
 * Thread: any. */
#ifndef ENGINE_CORED_REFERENCE_H
#define ENGINE_CORED_REFERENCE_H

#include <stdio.h>

#include "foundation/error.h"

/* table: commands, config, counters, metrics, errors or events; or default-config, which is no table but the
 * configuration file with all defaults; or completion-bash, -zsh and -fish, scripts for the shells.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND (there is no such table; nothing was printed). */
int reference_print(FILE *out, const char *table);

/* Their names; NULL behind the last. */
const char *reference_table(size_t index);

#endif
