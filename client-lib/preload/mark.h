/* mark.h - how free finds out that a block is a sample: by its address, and by its last 16 bytes.
 *
 *   | what the program asked for ... | site, weight | check |
 *   ^ block                                         ^ end of the usable size
 *
 * When only some blocks are samples, each of them begins at a page, or 16 bytes behind one, as large
 * blocks of glibc do. So one test of the address tells nearly all others apart, and only then the end
 * of the block is read. The check is a secret of the process mixed with the address; it is wiped before
 * the block goes back, so that no later block can inherit it.
 *
 * No table has to be searched or locked, and a block may be freed by any thread.
 *
 * Thread: signal. */
#ifndef EC_PRELOAD_MARK_H
#define EC_PRELOAD_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MARK_BYTES 16
#define MARK_ALIGN 4096u
#define MARK_MASK (MARK_ALIGN - 1 - MARK_BYTES) /* offsets 0 and 16 pass */

struct mark {
    uint32_t site;
    uint64_t bytes; /* that it stands for, below 2^48 */
};

/* Once, before the first mark. */
void mark_init(void);

/* The block has `usable` bytes and is marked. */
bool mark_read(const void *block, size_t usable, struct mark *mark);
void mark_write(void *block, size_t usable, const struct mark *mark);
void mark_wipe(void *block, size_t usable);

#endif
