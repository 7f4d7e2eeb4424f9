/* huge_map.h - map a file so that its huge pages can be mapped whole.
 *
 * A huge page of a file is one entry of the address map only where address and offset agree in their
 * lower 21 bits; anywhere else it is 512 small ones. The kernel chooses such addresses for files that
 * always have huge pages, which a memfd has not.
 *
 *     base = ec_huge_map(fd, offset, bytes, PROT_READ, MAP_POPULATE);
 *     …
 *     munmap(base, bytes);
 *
 * Thread: any. Cost: three system calls more than mmap for what is large, none for what is small. */
#ifndef EC_FOUNDATION_HUGE_MAP_H
#define EC_FOUNDATION_HUGE_MAP_H

#include <stddef.h>
#include <stdint.h>

#define EC_HUGE_BYTES ((size_t)2 << 20)

/* Reserve addresses (PROT_NONE, nothing behind them) that agree with offset; no huge page fits into less
 * than 2 MiB, so there they are any. offset: whole pages. Returns MAP_FAILED with errno. */
void *ec_huge_reserve(uint64_t offset, size_t bytes);

/* As mmap does, MAP_SHARED and flags. Returns MAP_FAILED with errno. */
void *ec_huge_map(int fd, uint64_t offset, size_t bytes, int protection, int flags);

/* Memory of this process for one large buffer, all zero, in huge pages where the system allows that to
 * who asks. NULL: no memory. Freed with the same bytes; NULL is accepted. */
void *ec_huge_alloc(size_t bytes);
void ec_huge_free(void *memory, size_t bytes);

#endif
