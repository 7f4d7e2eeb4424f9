/* heap_file.h - a file for the asset heap in a tmpfs of its own, which can have huge pages.
 *
 * A memfd gets huge pages only where the system switch for shared memory allows it, which is off in most
 * systems. A tmpfs decides for itself: with huge pages memory is given back 45 times faster, and games
 * miss the address cache less. The price is that its files cannot be sealed.
 *
 * Either the daemon makes a tmpfs that is mounted nowhere (needs CAP_SYS_ADMIN), or the administrator
 * mounts one, best with mode 0700 and huge=within_size, and names it. The file has no name in both cases,
 * so nothing is left behind.
 *
 * Thread: any. */
#ifndef ENGINE_CORED_HEAP_FILE_H
#define ENGINE_CORED_HEAP_FILE_H

#include <stdint.h>

#include "foundation/error.h"

#define HEAP_FILE_HUGE "never, auto, advise, within_size, always" /* what a configuration may say */

struct heap_file_desc {
    const char *path; /* of a directory in a tmpfs; "": make one */
    const char *huge; /* for one that is made: "always", "within_size" or "advise" */
    uint64_t bytes;   /* most that a made one may hold */
};

/* *fd is the caller's: read and write, mode 0400, empty.
 *
 * Returns EC_OK, EC_ERR_PARAM (huge is another word), EC_ERR_NOT_FOUND or EC_ERR_PATH (path is no
 * directory of a tmpfs), or EC_ERR_SYSTEM (it cannot be made; mostly for want of rights). */
int heap_file_open(const struct heap_file_desc *desc, int *fd, struct ec_error *why);

/* How many of its bytes are huge pages; of a memfd, too. Cost: maps the file, reads one byte of each huge
 * page's place that has memory, and reads /proc/self/smaps: milliseconds for a full heap. */
uint64_t heap_file_huge_bytes(int fd, uint64_t bytes);

#endif
