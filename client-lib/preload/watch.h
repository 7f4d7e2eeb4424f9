/* watch.h - the thread of the library: settings, modules, and the daemon.
 *
 * It starts with the program and takes no signals. While there is no daemon it tries again and again,
 * from 50 ms to 2 s apart; the program and its counting do not depend on it.
 *
 * Settings come from the environment, as `engine-ctl run` sets them:
 *
 *   ENGINE_CORE_SOCKET         where the daemon is
 *   ENGINE_CORE_MALLOC_TAG     the tag that everything is counted for; "malloc" by default
 *   ENGINE_CORE_MALLOC_SAMPLE  mean distance of samples in bytes; 0: none, 1: each allocation;
 *                              524288 by default
 *   ENGINE_CORE_MALLOC_AT_ONCE 1: main begins when the daemon was asked; not for programs that this one
 *                              starts
 *
 * Without that the thread waits a little before it looks for the daemon: the many programs that a shell
 * runs for some milliseconds are not worth a line in anybody's list. A forked child gets a copy of the
 * segment, since it has a copy of the memory, and a thread of its own, which waits as well: most children
 * become another program first. */
#ifndef EC_PRELOAD_WATCH_H
#define EC_PRELOAD_WATCH_H

#define PRELOAD_TAG_VARIABLE "ENGINE_CORE_MALLOC_TAG"
#define PRELOAD_SAMPLE_VARIABLE "ENGINE_CORE_MALLOC_SAMPLE"
#define PRELOAD_AT_ONCE_VARIABLE "ENGINE_CORE_MALLOC_AT_ONCE"
#define PRELOAD_TAG_DEFAULT "malloc"
#define PRELOAD_SAMPLE_DEFAULT (512u * 1024)

#endif
