/* references.c - the parts of references.h that make system calls or loop. */
#include "segment/references.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static long membarrier(int command)
{
    return syscall(__NR_membarrier, command, 0, 0);
}

enum ec_reference_order ec_reference_register(bool daemon_fences)
{
    if (daemon_fences && membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0)
        return EC_REFERENCE_MEMBARRIER;
    return EC_REFERENCE_FENCE;
}

bool ec_reference_membarrier_works(void)
{
    const int needed = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    long commands = membarrier(MEMBARRIER_CMD_QUERY);

    return commands > 0 && (commands & needed) == needed &&
           membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

int ec_reference_barrier(bool use_membarrier)
{
    atomic_thread_fence(memory_order_seq_cst); /* for the games that fence themselves */
    if (use_membarrier && membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0)
        return EC_ERR_SYSTEM;
    return EC_OK;
}

static uint32_t threads_used(const struct ec_client_segment *segment)
{
    uint32_t high = atomic_load_explicit(&segment->threads_high, memory_order_relaxed);

    return high < EC_THREADS_MAX ? high : EC_THREADS_MAX;
}

static uint32_t sum_rows(const struct ec_reference_rows *rows, uint32_t threads, uint32_t index)
{
    int64_t sum = 0;

    for (uint32_t thread = 0; thread < threads; thread++) /* D3: pairs with the release store G4 */
        sum += atomic_load_explicit(&rows->count[thread][index], memory_order_acquire);
    if (sum <= 0)
        return 0;
    return sum < INT32_MAX ? (uint32_t)sum : INT32_MAX;
}

uint32_t ec_reference_sum(const struct ec_client_segment *segment,
                          const struct ec_reference_rows *rows, uint32_t index)
{
    return index < EC_RESOURCES_MAX ? sum_rows(rows, threads_used(segment), index) : 0;
}

uint64_t ec_reference_total(const struct ec_client_segment *segment,
                            const struct ec_reference_rows *rows, uint32_t high)
{
    uint32_t threads = threads_used(segment);
    uint64_t total = 0;

    for (uint32_t index = 0; index < high && index < EC_RESOURCES_MAX; index++)
        total += sum_rows(rows, threads, index);
    return total;
}
