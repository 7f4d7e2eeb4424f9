/* packet.h - whole structs with descriptors over a SOCK_SEQPACKET socket.
 *
 * Thread: any; one packet is one system call, so several threads may send into one socket. */
#ifndef RESOURCES_PACKET_H
#define RESOURCES_PACKET_H

#include <stdbool.h>
#include <stddef.h>

#define PACKET_FDS 2

/* Both ends, close-on-exec. false: errno says why. */
bool packet_pair(int ends[2]);

/* false: the other side is gone, or errno says what else. Descriptors stay the caller's. */
bool packet_send(int socket_fd, const void *packet, size_t bytes, const int *fds,
                 unsigned fd_count);

/* Wait for one packet of exactly this size. fds gets what came with it, the caller's to close, and -1
 * in the other places; more descriptors than asked for (at most PACKET_FDS) are closed by the kernel.
 * false: the other side is gone, or what came is of another size; then no descriptor is kept. */
bool packet_receive(int socket_fd, void *packet, size_t bytes, int *fds, unsigned fd_count);

#endif
