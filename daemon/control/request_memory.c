#include "control/request_memory.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define KEPT_BYTES (256 * 1024) /* pages that a large request has touched beyond go back */

/* The memory that cJSON allocates from while a tree is built on this thread. */
static _Thread_local struct request_memory *tree_memory;

static void *tree_malloc(size_t bytes);
static void tree_free(void *block);
static bool has_escaped_nul(struct ec_json_span span);

int request_memory_init(struct request_memory *memory, struct ec_error *why)
{
    cJSON_Hooks hooks = { .malloc_fn = tree_malloc, .free_fn = tree_free };
    void *base = mmap(NULL, REQUEST_MEMORY_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    *memory = (struct request_memory) { 0 };
    if (base == MAP_FAILED)
        return ec_fail(why, EC_ERR_MEMORY, "reserve %d bytes for requests: %s",
                       REQUEST_MEMORY_BYTES, strerror(errno));
    memory->base = base;
    cJSON_InitHooks(&hooks);
    return EC_OK;
}

void request_memory_finish(struct request_memory *memory)
{
    if (memory->base != NULL)
        munmap(memory->base, REQUEST_MEMORY_BYTES);
    *memory = (struct request_memory) { 0 };
}

void *request_memory_alloc(struct request_memory *memory, size_t bytes)
{
    const size_t align = _Alignof(max_align_t);
    void *block = memory->base + memory->used;

    if (bytes > REQUEST_MEMORY_BYTES - memory->used)
        return NULL;
    memory->used += (bytes + align - 1) / align * align; /* the whole is a multiple, too */
    return block;
}

void request_memory_reset(struct request_memory *memory)
{
    if (memory->used > KEPT_BYTES)
        madvise(memory->base + KEPT_BYTES, REQUEST_MEMORY_BYTES - KEPT_BYTES, MADV_DONTNEED);
    memory->used = 0;
}

struct cJSON *request_memory_tree(struct request_memory *memory, struct ec_json_span span,
                                  struct ec_error *why)
{
    struct cJSON *tree;

    if (span.text == NULL || has_escaped_nul(span)) {
        ec_fail(why, EC_ERR_PARAM, "a string must not contain \\u0000");
        return NULL;
    }
    tree_memory = memory;
    tree = cJSON_ParseWithLength(span.text, span.bytes);
    tree_memory = NULL;
    if (tree == NULL)
        ec_fail(why, EC_ERR_MEMORY,
                "a value of %zu bytes needs more than the %d bytes of a request", span.bytes,
                REQUEST_MEMORY_BYTES);
    return tree;
}

/* The text was checked, so a backslash always has its successor. */
static bool has_escaped_nul(struct ec_json_span span)
{
    const char *end = span.text + span.bytes;
    const char *at = span.text;

    while ((at = memchr(at, '\\', (size_t)(end - at))) != NULL) {
        if (end - at >= 6 && memcmp(at, "\\u0000", 6) == 0)
            return true;
        at += 2;
    }
    return false;
}

/* Outside of request_memory_tree() cJSON gets nothing: nobody else is to use it in this process. */
static void *tree_malloc(size_t bytes)
{
    return tree_memory != NULL ? request_memory_alloc(tree_memory, bytes) : NULL;
}

static void tree_free(void *block)
{
    (void)block; /* goes with the request */
}
