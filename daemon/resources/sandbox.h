/* sandbox.h - what a process that decodes a stranger's file may still do.
 *
 * The process gives rights up in two steps, each for good:
 *
 *   sandbox_enter   read files, open more of them for reading, use memory and one socket; map a file
 *                   only when the process at the other end of the listener allows that very mapping,
 *                   and end such a mapping only before its eyes
 *   sandbox_close   open nothing any more
 *
 * A forbidden system call ends the process with SIGSYS. Beside the filter there are limits on memory
 * and processor time, and no core file is written.
 *
 * Built with a sanitizer a forbidden call fails with EPERM instead, and writing to stderr and opening
 * for reading stay allowed: its run time needs that to report.
 *
 * Thread: the only one of its process. */
#ifndef RESOURCES_SANDBOX_H
#define RESOURCES_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

/* What is in force, weakest first. */
enum sandbox_guard {
    SANDBOX_PROCESS,   /* a process of its own, with limits */
    SANDBOX_SECCOMP,   /* and a filter of system calls, which cannot look at single mappings */
    SANDBOX_ONE_RANGE, /* and mappings are looked at */
};
const char *sandbox_guard_name(enum sandbox_guard guard);

/* Most memory of its own (no limit with a sanitizer, whose shadow has no bounds), and most seconds on a
 * processor. */
void sandbox_limit(uint64_t memory_bytes, unsigned seconds);

/* Filled by sandbox_enter. */
struct sandbox {
    enum sandbox_guard guard;
    int listener; /* to be handed to the process that looks at mappings; -1: none */
    void *place;  /* where ranges are mapped, one after the other; NULL: one, anywhere */
    uint64_t place_bytes;
};

/* Filter this process. It may use socket_fd with sendmsg and recvmsg. With place_bytes it can map several
 * ranges of at most so many bytes, one after the other. What the kernel does not have is left out. */
void sandbox_enter(struct sandbox *sandbox, int socket_fd, uint64_t place_bytes);
void sandbox_close(void);

/* The one mapping that is allowed, made by the sandboxed process. NULL: refused, or no memory. */
void *sandbox_map(const struct sandbox *sandbox, int heap_fd, uint64_t offset, uint64_t bytes);
/* The end of what sandbox_map made at the sandbox's place. false: it could not be, and stays. */
bool sandbox_unmap(const struct sandbox *sandbox, uint64_t bytes);

/* The other side of sandbox_map: take what is asked for at the listener and allow it if it is that range;
 * *address is where it comes to lie. Call when the listener is readable.
 * false: something else was asked for and refused. */
bool sandbox_allow_map(int listener, uint64_t offset, uint64_t bytes, uint64_t *address);
/* The other side of sandbox_unmap. true: that whole mapping is gone before the process does anything
 * else, so it cannot write there any more. */
bool sandbox_allow_unmap(int listener, uint64_t address, uint64_t bytes);

#endif
