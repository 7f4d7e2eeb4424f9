#include "segment/site_report.h"

#include <string.h>

#include "proto/memory_rows.h"
#include "segment/foreign_text.h"

static uint64_t key_of(const struct ec_site_report *site, enum ec_site_order order);
static void sift(struct ec_site_report *sites, unsigned count, unsigned at,
                 enum ec_site_order order);
static bool read_module(const struct ec_client_segment *segment, uint32_t row, uint64_t address,
                        struct ec_module_report *module);
static bool passes_on(const char *path);

/* A heap of the `max` greatest so far, the least of them first; sorted at the end. */
unsigned ec_site_report_top(const struct ec_client_segment *segment, enum ec_site_order order,
                            struct ec_site_report *sites, unsigned max)
{
    const uint32_t rows = ec_site_report_rows(segment);
    struct ec_site_report site;
    unsigned count = 0;

    for (uint32_t row = 0; max > 0 && row < rows; row++) {
        if (!ec_site_report_row(segment, row, &site) || key_of(&site, order) == 0)
            continue;
        if (count < max) {
            sites[count++] = site;
            for (unsigned i = count / 2; count == max && i-- > 0;)
                sift(sites, count, i, order);
        } else if (key_of(&site, order) > key_of(&sites[0], order)) {
            sites[0] = site;
            sift(sites, count, 0, order);
        }
    }
    for (unsigned i = count / 2; i-- > 0;)
        sift(sites, count, i, order);
    for (unsigned left = count; left > 1; left--) { /* the least goes to the end */
        site = sites[0];
        sites[0] = sites[left - 1];
        sites[left - 1] = site;
        sift(sites, left - 1, 0, order);
    }
    return count;
}

bool ec_site_report_row(const struct ec_client_segment *segment, uint32_t row,
                        struct ec_site_report *site)
{
    const struct ec_site_row *from = &segment->tracking.sites[row];
    uint64_t frees, bytes_out;

    /* Acquire: pairs with the release in ec_sites_find(), after all but the counters. */
    if (atomic_load_explicit(&from->ready, memory_order_acquire) != 1)
        return false;
    site->row = row;
    site->tag = *(const volatile uint32_t *)&from->tag;
    site->line = *(const volatile uint32_t *)&from->line;
    site->depth = *(const volatile uint32_t *)&from->depth;
    if (site->depth > EC_SITE_FRAMES)
        site->depth = EC_SITE_FRAMES;
    site->modules_until = atomic_load_explicit(&from->modules_until, memory_order_relaxed);
    ec_foreign_text(site->file, from->file, sizeof site->file);
    memcpy(site->frames, from->frames, sizeof site->frames);
    frees =
        ec_row_load(&from->frees); /* what went first, so that a block is not gone before it came */
    bytes_out = ec_row_load(&from->bytes_out);
    site->total = ec_row_load(&from->allocs);
    site->total_bytes = ec_row_load(&from->bytes_in);
    site->count = ec_row_difference(site->total, frees);
    site->bytes = ec_row_difference(site->total_bytes, bytes_out);
    return true;
}

uint32_t ec_site_report_rows(const struct ec_client_segment *segment)
{
    const uint32_t count =
        atomic_load_explicit(&segment->tracking.site_count, memory_order_relaxed);

    return count < EC_SITES_MAX ? count : EC_SITES_MAX;
}

bool ec_module_report_find(const struct ec_client_segment *segment,
                           const struct ec_site_report *site, uint64_t address,
                           struct ec_module_report *module)
{
    uint32_t count = atomic_load_explicit(&segment->tracking.module_count, memory_order_acquire);
    struct ec_module_report unloaded;
    bool was_there = false;

    if (count > EC_MODULES_MAX)
        count = EC_MODULES_MAX;
    if (site->modules_until != 0 && site->modules_until < count)
        count = site->modules_until;
    while (count-- > 0) {
        if (!read_module(segment, count, address, module))
            continue;
        if (!module->is_unloaded || site->modules_until != 0)
            return true;
        if (!was_there)
            unloaded = *module;
        was_there = true;
    }
    if (was_there)
        *module = unloaded;
    return was_there;
}

uint32_t ec_site_report_frame(const struct ec_client_segment *segment,
                              const struct ec_site_report *site)
{
    struct ec_module_report module;

    for (uint32_t i = 0; i < site->depth; i++)
        if (!ec_module_report_find(segment, site, site->frames[i], &module) ||
            !passes_on(module.path))
            return i;
    return 0;
}

void ec_sampling_report(const struct ec_client_segment *segment, struct ec_sampling_report *report)
{
    const struct ec_tracking *tracking = &segment->tracking;

    *report = (struct ec_sampling_report) {
        .sample_bytes = ec_row_load(&tracking->sample_bytes),
        .samples = ec_row_load(&tracking->samples),
        .lost = ec_row_load(&tracking->lost),
        .unknown_frees = ec_row_load(&tracking->unknown_frees),
        .sites = ec_site_report_rows(segment),
    };
}

static uint64_t key_of(const struct ec_site_report *site, enum ec_site_order order)
{
    return order == EC_SITES_BY_BYTES ? site->bytes : site->total;
}

static void sift(struct ec_site_report *sites, unsigned count, unsigned at,
                 enum ec_site_order order)
{
    for (;;) {
        unsigned least = at;

        for (unsigned child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (key_of(&sites[child], order) < key_of(&sites[least], order))
                least = child;
        if (least == at)
            return;
        struct ec_site_report moved = sites[at];

        sites[at] = sites[least];
        sites[least] = moved;
        at = least;
    }
}

/* false: there is none, or the address lies outside of it; then no text is copied. */
static bool read_module(const struct ec_client_segment *segment, uint32_t row, uint64_t address,
                        struct ec_module_report *module)
{
    const struct ec_module_row *from = &segment->tracking.modules[row];
    /* Acquire: pairs with the release in ec_module_list_update(). */
    const uint32_t state = atomic_load_explicit(&from->state, memory_order_acquire);

    if (state != EC_MODULE_LOADED && state != EC_MODULE_UNLOADED)
        return false;
    module->row = row;
    module->is_unloaded = state == EC_MODULE_UNLOADED;
    module->begin = *(const volatile uint64_t *)&from->begin;
    module->end = *(const volatile uint64_t *)&from->end;
    if (address < module->begin || address >= module->end)
        return false;
    module->bias = *(const volatile uint64_t *)&from->bias;
    module->build_id_bytes = *(const volatile uint32_t *)&from->build_id_bytes;
    if (module->build_id_bytes > EC_BUILD_ID_BYTES)
        module->build_id_bytes = 0;
    memcpy(module->build_id, from->build_id, sizeof module->build_id);
    ec_foreign_text(module->path, from->path, sizeof module->path);
    return true;
}

/* The C and C++ libraries, the loader, and our own. */
static bool passes_on(const char *path)
{
    static const char *const names[] = { "libc.so", "libc-", "libstdc++.so", "libengine-core",
                                         "ld-linux" };
    const char *name = strrchr(path, '/');

    name = name == NULL ? path : name + 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}
