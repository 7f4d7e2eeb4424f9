/* exit_status.h - how a process ended that is not our child.
 *
 * Since Linux 6.15 its pidfd says so once its parent has collected it; before that, /proc shows the
 * status of one that nobody has collected yet, if we may look. Otherwise it is not known.
 *
 * Thread: any. Cost: a system call, and perhaps a file of /proc. */
#ifndef ENGINE_CORED_POSTMORTEM_EXIT_STATUS_H
#define ENGINE_CORED_POSTMORTEM_EXIT_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

/* *status is as of waitpid. false: it is not known, or not yet. */
bool exit_status_of(int pidfd, pid_t pid, int *status);

#endif
