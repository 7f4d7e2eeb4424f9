#include "foundation/memory/module_list.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

struct pass {
    struct ec_module_list *list;
    bool is_first; /* the first one is the program */
    bool has_changed;
    bool seen[EC_MODULES_MAX];
};

static int look(struct dl_phdr_info *info, size_t bytes, void *context);
static void take(struct pass *pass, const struct dl_phdr_info *info,
                 const struct ec_module_row *module);
static int find(const struct pass *pass, const struct ec_module_row *module);
static void end_sites(struct ec_tracking *tracking, const struct ec_module_row *module,
                      uint32_t rows);
static void copy_build_id(struct ec_module_row *row, const struct dl_phdr_info *info);
static void copy_path(struct ec_module_row *row, const char *path, size_t bytes);

bool ec_module_list_update(struct ec_module_list *list)
{
    struct pass pass = { .list = list, .is_first = true };
    struct ec_tracking *tracking = list->tracking;
    const uint32_t count = atomic_load_explicit(&tracking->module_count, memory_order_relaxed);

    dl_iterate_phdr(look, &pass);
    if (!pass.has_changed)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct ec_module_row *row = &tracking->modules[i];

        if (pass.seen[i] ||
            atomic_load_explicit(&row->state, memory_order_relaxed) != EC_MODULE_LOADED)
            continue;
        end_sites(tracking, row, count);
        atomic_store_explicit(&row->state, EC_MODULE_UNLOADED, memory_order_release);
    }
    return true;
}

static int look(struct dl_phdr_info *info, size_t bytes, void *context)
{
    struct pass *pass = context;
    struct ec_module_row module = { .begin = UINT64_MAX, .bias = info->dlpi_addr };
    int row;

    (void)bytes; /* dlpi_adds and dlpi_subs are there since glibc 2.4 */
    if (pass->is_first) {
        if (pass->list->loads == info->dlpi_adds && pass->list->unloads == info->dlpi_subs)
            return 1;
        pass->has_changed = true;
        pass->list->loads = info->dlpi_adds;
        pass->list->unloads = info->dlpi_subs;
    }
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type != PT_LOAD)
            continue;
        if (info->dlpi_addr + part->p_vaddr < module.begin)
            module.begin = info->dlpi_addr + part->p_vaddr;
        if (info->dlpi_addr + part->p_vaddr + part->p_memsz > module.end)
            module.end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    copy_build_id(&module, info);
    row = find(pass, &module);
    if (row >= 0)
        pass->seen[row] = true;
    else if (module.end != 0)
        take(pass, info, &module);
    pass->is_first = false;
    return 0;
}

/* Another library may take the very place of one that was unloaded since. */
static int find(const struct pass *pass, const struct ec_module_row *module)
{
    const struct ec_tracking *tracking = pass->list->tracking;
    const uint32_t count = atomic_load_explicit(&tracking->module_count, memory_order_relaxed);

    for (uint32_t i = 0; i < count; i++) {
        const struct ec_module_row *row = &tracking->modules[i];

        if (row->begin == module->begin && row->end == module->end &&
            row->build_id_bytes == module->build_id_bytes &&
            memcmp(row->build_id, module->build_id, sizeof row->build_id) == 0 &&
            atomic_load_explicit(&row->state, memory_order_relaxed) == EC_MODULE_LOADED)
            return (int)i;
    }
    return -1;
}

/* Its addresses may be another module's from now on. What is sampled at them before this look counts as its own. */
static void end_sites(struct ec_tracking *tracking, const struct ec_module_row *module,
                      uint32_t rows)
{
    const uint32_t count = atomic_load_explicit(&tracking->site_count, memory_order_relaxed);

    for (uint32_t i = 0; i < count && i < EC_SITES_MAX; i++) {
        struct ec_site_row *site = &tracking->sites[i];

        /* Acquire: pairs with the release in ec_sites_find(). */
        if (atomic_load_explicit(&site->ready, memory_order_acquire) != 1 ||
            atomic_load_explicit(&site->modules_until, memory_order_relaxed) != 0)
            continue;
        for (uint32_t frame = 0; frame < site->depth; frame++)
            if (site->frames[frame] >= module->begin && site->frames[frame] < module->end) {
                atomic_store_explicit(&site->modules_until, rows, memory_order_relaxed);
                break;
            }
    }
}

static void take(struct pass *pass, const struct dl_phdr_info *info,
                 const struct ec_module_row *module)
{
    struct ec_tracking *tracking = pass->list->tracking;
    const uint32_t count = atomic_load_explicit(&tracking->module_count, memory_order_relaxed);
    struct ec_module_row *row;
    char program[1024];

    if (count >= EC_MODULES_MAX) {
        atomic_fetch_add_explicit(&tracking->modules_lost, 1, memory_order_relaxed);
        return;
    }
    row = &tracking->modules[count];
    row->begin = module->begin;
    row->end = module->end;
    row->bias = module->bias;
    row->build_id_bytes = module->build_id_bytes;
    memcpy(row->build_id, module->build_id, sizeof row->build_id);
    if (info->dlpi_name[0] != '\0') {
        copy_path(row, info->dlpi_name, strlen(info->dlpi_name));
    } else if (pass->is_first) {
        const ssize_t length = readlink("/proc/self/exe", program, sizeof program);

        if (length > 0)
            copy_path(row, program, (size_t)length);
    }
    pass->seen[count] = true;
    atomic_store_explicit(&row->state, EC_MODULE_LOADED, memory_order_release);
    atomic_store_explicit(&tracking->module_count, count + 1, memory_order_release);
}

/* Notes are whole words: header, name, content. */
static void copy_build_id(struct ec_module_row *row, const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const unsigned char *notes = (const unsigned char *)(info->dlpi_addr + part->p_vaddr);
        size_t at = 0;

        if (part->p_type != PT_NOTE)
            continue;
        while (at + sizeof(ElfW(Nhdr)) <= part->p_memsz) {
            ElfW(Nhdr) note;
            size_t name, content;

            memcpy(&note, notes + at, sizeof note);
            name = at + sizeof note;
            content = name + ((size_t)note.n_namesz + 3) / 4 * 4;
            if (content + note.n_descsz > part->p_memsz)
                break;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                memcmp(notes + name, "GNU", 4) == 0 && note.n_descsz <= EC_BUILD_ID_BYTES) {
                memcpy(row->build_id, notes + content, note.n_descsz);
                row->build_id_bytes = note.n_descsz;
                return;
            }
            at = content + ((size_t)note.n_descsz + 3) / 4 * 4;
        }
    }
}

static void copy_path(struct ec_module_row *row, const char *path, size_t bytes)
{
    const size_t room = sizeof row->path - 1;

    memcpy(row->path, path + (bytes > room ? bytes - room : 0), bytes > room ? room : bytes);
}
