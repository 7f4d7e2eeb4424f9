/* Aligned blocks: from posix_memalign, or whole pages. A table knows the live ones, so nothing lies in
 * front of a block, and a pointer that is none is never followed. */
#include "foundation/memory/aligned.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "foundation/memory/block_table.h"
#include "foundation/memory/shared_row.h"
#include "foundation/memory/watch.h"

#define ALIGN_DEFAULT 16
#define ALIGN_MAX ((size_t)2 << 20)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define BYTES_MAX ((size_t)1 << 40)
#define MAPPED_FROM_BYTES ((size_t)128 << 10) /* as malloc does */

enum { FROM_MALLOC, MAPPED };

struct ec_aligned {
    struct ec_shared_row row;
    struct ec_space *space;
    size_t limit_bytes;
    bool huge_pages;
    _Atomic size_t live_bytes;
    struct ec_block_table blocks;
};

static bool reserve(struct ec_aligned *aligned, size_t bytes);
static bool make_block(const struct ec_aligned *aligned, size_t align, struct ec_block *block);
static void free_block(const struct ec_aligned *aligned, const struct ec_block *block);
static void end_block(void *aligned, const struct ec_block *block);

int ec_aligned_create_in(struct ec_memory_sink *sink, const struct ec_aligned_desc *desc,
                         struct ec_aligned **aligned, struct ec_error *why)
{
    struct ec_aligned *made;
    int rc = ec_memory_check_name(desc->name, desc->tag, why);

    *aligned = NULL;
    if (rc < 0)
        return ec_error_prefix(why, rc, "aligned");
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "aligned \"%s\": no memory", desc->name);
    rc = ec_memory_sink_space(sink, desc->in_segment, &made->space, why);
    if (rc < 0) {
        free(made);
        return ec_error_prefix(why, rc, "aligned \"%s\"", desc->name);
    }
    made->limit_bytes = desc->limit_bytes != 0 ? desc->limit_bytes : SIZE_MAX;
    made->huge_pages = desc->huge_pages;
    ec_block_table_init(&made->blocks);
    ec_shared_row_init(&made->row, sink, desc->name, EC_ALLOCATOR_ALIGNED, desc->tag);
    *aligned = made;
    return EC_OK;
}

void ec_aligned_destroy(struct ec_aligned *aligned)
{
    if (aligned == NULL)
        return;
    ec_block_table_visit(&aligned->blocks, end_block, aligned);
    ec_block_table_finish(&aligned->blocks);
    ec_shared_row_finish(&aligned->row);
    free(aligned);
}

void *ec_aligned_alloc(struct ec_aligned *aligned, size_t bytes, size_t align)
{
    struct ec_block block = { .bytes = bytes };

    if (align == 0)
        align = ALIGN_DEFAULT;
    if (bytes == 0 || bytes > BYTES_MAX || (align & (align - 1)) != 0 || align > ALIGN_MAX ||
        !reserve(aligned, bytes)) {
        ec_shared_row_failed(&aligned->row);
        return NULL;
    }
    if (aligned->huge_pages && bytes >= HUGE_PAGE_BYTES)
        align = HUGE_PAGE_BYTES;
    if (!make_block(aligned, align > ALIGN_DEFAULT ? align : ALIGN_DEFAULT, &block))
        goto fail;
    if (!ec_block_table_add(&aligned->blocks, &block)) {
        free_block(aligned, &block);
        goto fail;
    }
    ec_shared_row_allocated(&aligned->row, bytes, block.room_bytes);
    ec_watch_allocated(aligned->row.sink, block.address, bytes, aligned->row.tag);
    return block.address;

fail:
    atomic_fetch_sub_explicit(&aligned->live_bytes, bytes, memory_order_relaxed);
    ec_shared_row_failed(&aligned->row);
    return NULL;
}

int ec_aligned_free(struct ec_aligned *aligned, void *address)
{
    struct ec_block block;

    if (address == NULL)
        return EC_OK;
    if (!ec_block_table_take(&aligned->blocks, address, &block)) {
        ec_shared_row_failed(&aligned->row);
        ec_memory_sink_fault(aligned->row.sink);
        return EC_ERR_PARAM;
    }
    ec_watch_freed(aligned->row.sink, address, block.bytes, aligned->row.tag);
    ec_shared_row_freed(&aligned->row, block.bytes, block.room_bytes);
    atomic_fetch_sub_explicit(&aligned->live_bytes, block.bytes, memory_order_relaxed);
    free_block(aligned, &block);
    return EC_OK;
}

void ec_aligned_stats(const struct ec_aligned *aligned, struct ec_memory_stats *stats)
{
    ec_shared_row_stats(&aligned->row, stats);
}

static bool reserve(struct ec_aligned *aligned, size_t bytes)
{
    size_t live = atomic_load_explicit(&aligned->live_bytes, memory_order_relaxed);

    do {
        if (bytes > aligned->limit_bytes || live > aligned->limit_bytes - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&aligned->live_bytes, &live, live + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Its room is that of the system: whole pages, or what malloc took for it as far as is known. */
static bool make_block(const struct ec_aligned *aligned, size_t align, struct ec_block *block)
{
    const size_t page = ec_space_page_bytes();

    if (aligned->space == NULL && block->bytes < MAPPED_FROM_BYTES) {
        block->kind = FROM_MALLOC;
        block->room_bytes = block->bytes;
        return posix_memalign(&block->address, align, block->bytes) == 0;
    }
    block->kind = MAPPED;
    block->room_bytes = (block->bytes + page - 1) & ~(page - 1);
    block->address = ec_space_map(aligned->space, block->room_bytes, align > page ? align : page);
    if (block->address == NULL)
        return false;
    if (aligned->huge_pages && block->bytes >= HUGE_PAGE_BYTES && aligned->space == NULL)
        madvise(block->address, block->room_bytes, MADV_HUGEPAGE); /* advice: a system that has
                                                                      none goes without */
    return true;
}

static void free_block(const struct ec_aligned *aligned, const struct ec_block *block)
{
    if (block->kind == MAPPED)
        ec_space_unmap(aligned->space, block->address, block->room_bytes);
    else
        free(block->address);
}

/* It is still out, and ends with its allocator. */
static void end_block(void *context, const struct ec_block *block)
{
    const struct ec_aligned *aligned = context;

    ec_watch_freed(aligned->row.sink, block->address, block->bytes, aligned->row.tag);
    free_block(aligned, block);
}
