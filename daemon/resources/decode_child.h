/* decode_child.h - the life of a process that decodes a few resources.
 *
 * Thread: the only one of its process. */
#ifndef RESOURCES_DECODE_CHILD_H
#define RESOURCES_DECODE_CHILD_H

struct decode_load;
struct search_path;

/* Open, give up all rights; then for each: measure, ask for the range at socket_fd, decode into it, let go of
 * it and say so. End with the last, or when the other end of the socket is closed. */
void decode_child_run(struct search_path *search, const struct decode_load *load, int socket_fd)
    __attribute__((noreturn));

#endif
