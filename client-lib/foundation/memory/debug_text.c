/* Words for faults. */
#include "foundation/memory/debug_text.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct line {
    char *text;
    size_t bytes, used;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_place(struct line *line, const struct ec_debug_call *call);
static void add_frame(struct line *line, uint64_t frame);
static void add_call(struct line *line, const char *what, const struct ec_debug_call *call);

const char *ec_fault_kind_name(enum ec_fault_kind kind)
{
    switch (kind) {
    case EC_FAULT_DOUBLE_FREE:
        return "double free";
    case EC_FAULT_FOREIGN_POINTER:
        return "foreign pointer";
    case EC_FAULT_FRONT_GUARD:
        return "front guard overwritten";
    case EC_FAULT_BACK_GUARD:
        return "back guard overwritten";
    case EC_FAULT_WRITE_AFTER_FREE:
        return "write after free";
    case EC_FAULT_SIZE_MISMATCH:
        return "size mismatch";
    case EC_FAULT_ARRAY_MISMATCH:
        return "array mismatch";
    }
    return "unknown fault";
}

void ec_debug_fault_text(char *text, size_t bytes, const struct ec_debug_fault *fault)
{
    const struct ec_debug_block *block = fault->block;
    struct line line = { .text = text, .bytes = bytes };

    add(&line, "%s", ec_fault_kind_name(fault->kind));
    if (block == NULL) {
        add(&line, " %p", fault->address);
    } else {
        if (fault->kind == EC_FAULT_FRONT_GUARD)
            add(&line, " %td bytes in front", -fault->offset);
        else if (fault->kind == EC_FAULT_BACK_GUARD)
            add(&line, " %td bytes behind the end", fault->offset - (ptrdiff_t)block->bytes);
        else if (fault->kind == EC_FAULT_WRITE_AFTER_FREE)
            add(&line, " at offset %td", fault->offset);
        else if (fault->kind == EC_FAULT_SIZE_MISMATCH)
            add(&line, " (freed as %td bytes)", fault->offset);
        else if (fault->kind == EC_FAULT_ARRAY_MISMATCH)
            add(&line, block->array_count != 0 ? " (an array, freed as one block)"
                                               : " (one block, freed as an array)");
        add(&line, " of block %p (%zu bytes, allocation %llu)", block->address, block->bytes,
            (unsigned long long)block->serial);
    }
    add(&line, ", found by thread %d", fault->found->thread);
    add_place(&line, fault->found);
    add(&line, "\n");
    for (unsigned i = 0; i < fault->found->depth; i++)
        add_frame(&line, fault->found->stack[i]);
    if (block == NULL)
        return;
    add_call(&line, "allocated", &block->allocated);
    if (block->is_freed)
        add_call(&line, "freed", &block->freed);
}

void ec_debug_block_text(char *text, size_t bytes, const struct ec_debug_block *block)
{
    struct line line = { .text = text, .bytes = bytes };

    add(&line, "%p: %zu bytes, allocation %llu, by thread %d", block->address, block->bytes,
        (unsigned long long)block->serial, block->allocated.thread);
    add_place(&line, &block->allocated);
    add(&line, "\n");
    for (unsigned i = 0; i < block->allocated.depth; i++)
        add_frame(&line, block->allocated.stack[i]);
}

bool ec_debug_call_is_of(const struct ec_debug_call *call, const char *module)
{
    if (call->file != NULL && strstr(call->file, module) != NULL)
        return true;
    for (unsigned i = 0; i < call->depth; i++) {
        Dl_info info;

        if (dladdr((const void *)(uintptr_t)call->stack[i], &info) != 0 && info.dli_fname != NULL &&
            strstr(info.dli_fname, module) != NULL)
            return true;
    }
    return false;
}

static void add(struct line *line, const char *format, ...)
{
    va_list list;
    int count;

    if (line->used + 1 >= line->bytes)
        return;
    va_start(list, format);
    count = vsnprintf(line->text + line->used, line->bytes - line->used, format, list);
    va_end(list);
    if (count > 0)
        line->used += (size_t)count;
    if (line->used >= line->bytes)
        line->used = line->bytes - 1;
}

static void add_place(struct line *line, const struct ec_debug_call *call)
{
    if (call->file != NULL)
        add(line, " at %s:%u", call->file, call->line);
}

/* The offset is one before the return address, so that it is in the line of the call. */
static void add_frame(struct line *line, uint64_t frame)
{
    const void *const address = (const void *)(uintptr_t)frame;
    Dl_info info;
    const char *name;

    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        add(line, "    %p\n", address);
        return;
    }
    name = strrchr(info.dli_fname, '/');
    add(line, "    %s+%#tx\n", name != NULL ? name + 1 : info.dli_fname,
        (const char *)address - 1 - (const char *)info.dli_fbase);
}

static void add_call(struct line *line, const char *what, const struct ec_debug_call *call)
{
    add(line, "  %s by thread %d", what, call->thread);
    add_place(line, call);
    add(line, "\n");
    for (unsigned i = 0; i < call->depth; i++)
        add_frame(line, call->stack[i]);
}
