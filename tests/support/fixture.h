/* support/fixture.h - what a test of several processes begins and ends with: a daemon, and an operator
 * who is connected to it.
 *
 *     static struct daemon_process engine;
 *     static struct line_client operator;
 *
 *     static void set_up(void)
 *     {
 *         fixture_start(&engine, &operator, fixture_patient);
 *     }
 *
 *     static void tear_down(void)
 *     {
 *         fixture_stop(&engine, &operator);
 *     }
 *
 * Whatever goes wrong here aborts the test. Thread: one. */
#ifndef EC_SUPPORT_FIXTURE_H
#define EC_SUPPORT_FIXTURE_H

#include "support/daemon.h"

/* Arguments of a daemon that demotes no reader because the machine is busy. */
extern const char *const fixture_patient[];

/* arguments are those of daemon_start. */
void fixture_start(struct daemon_process *engine, struct line_client *tool,
                   const char *const *arguments);
void fixture_stop(struct daemon_process *engine, struct line_client *tool);

/* The same again with other arguments. */
void fixture_restart(struct daemon_process *engine, struct line_client *tool,
                     const char *const *arguments);

/* Wait until the daemon has this many clients, the operator among them. */
void fixture_await_clients(struct line_client *tool, unsigned count);

/* Wait until the daemon has no more descriptors open than process_descriptors told before: what it
 * closes behind an answer, it closes a moment later. */
void fixture_await_descriptors(const struct daemon_process *engine, struct line_client *tool,
                               unsigned at_most);

#endif
