#include "engine-ctl/symbols.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define USUAL_DIRECTORIES ":.debug:/usr/lib/debug"
#define PATH_BYTES 4096
#define NAME_BYTES 4096
#define BUILD_ID_BYTES 64

/* One file. */
struct symbol_file {
    struct symbol_file *next;
    char *path;
    char *build_id;
    Dwfl *dwfl;
    Dwfl_Module *module; /* NULL: it could not be used */
    GElf_Addr bias;
    const char *reason;
};

struct symbols {
    Dwfl_Callbacks callbacks;
    char *debug_path; /* what libdwfl searches */
    const char *debug_directory;
    struct symbol_file *files;
    const char *reason;
    char name[NAME_BYTES]; /* of the last answer */
    char *(*demangle)(const char *name, char *buffer, size_t *bytes, int *status);
    void *cpp_library;
};

static struct symbol_file *find_file(struct symbols *symbols, const char *path,
                                     const char *build_id);
static void open_file(struct symbols *symbols, struct symbol_file *file);
static bool try_path(struct symbols *symbols, struct symbol_file *file, const char *path);
static bool has_build_id(Dwfl_Module *module, const char *build_id);
static void find_line(const struct symbol_file *file, GElf_Addr address, struct symbol *symbol);
static void set_name(struct symbols *symbols, const char *name);

struct symbols *symbols_create(const char *debug_directory)
{
    struct symbols *symbols = calloc(1, sizeof *symbols);

    if (symbols == NULL)
        return NULL;
    symbols->debug_directory = debug_directory;
    if (asprintf(&symbols->debug_path, "%s%s%s", debug_directory != NULL ? "+:" : "+",
                 debug_directory != NULL ? debug_directory : "", USUAL_DIRECTORIES) < 0) {
        free(symbols);
        return NULL;
    }
    symbols->callbacks = (Dwfl_Callbacks) {
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &symbols->debug_path,
    };
    return symbols;
}

void symbols_destroy(struct symbols *symbols)
{
    struct symbol_file *next;

    if (symbols == NULL)
        return;
    for (struct symbol_file *file = symbols->files; file != NULL; file = next) {
        next = file->next;
        if (file->dwfl != NULL)
            dwfl_end(file->dwfl);
        free(file->path);
        free(file->build_id);
        free(file);
    }
    if (symbols->cpp_library != NULL)
        dlclose(symbols->cpp_library);
    free(symbols->debug_path);
    free(symbols);
}

bool symbols_find(struct symbols *symbols, const char *path, const char *build_id, uint64_t offset,
                  bool is_return, struct symbol *symbol)
{
    struct symbol_file *file = find_file(symbols, path, build_id);
    GElf_Addr address;
    const char *name;

    *symbol = (struct symbol) { 0 };
    if (file == NULL || file->module == NULL) {
        symbols->reason = file == NULL ? "no memory" : file->reason;
        return false;
    }
    address = file->bias + offset - (is_return ? 1 : 0);
    name = dwfl_module_addrname(file->module, address);
    if (name != NULL) {
        set_name(symbols, name);
        symbol->function = symbols->name;
    }
    find_line(file, address, symbol);
    symbols->reason = "its symbols are stripped, and no debug file was found";
    return symbol->function != NULL || symbol->file != NULL;
}

const char *symbols_reason(const struct symbols *symbols)
{
    return symbols->reason == NULL ? "" : symbols->reason;
}

static struct symbol_file *find_file(struct symbols *symbols, const char *path,
                                     const char *build_id)
{
    struct symbol_file *file;

    for (file = symbols->files; file != NULL; file = file->next)
        if (strcmp(file->path, path) == 0 && strcmp(file->build_id, build_id) == 0)
            return file;
    file = calloc(1, sizeof *file);
    if (file == NULL)
        return NULL;
    file->path = strdup(path);
    file->build_id = strdup(build_id);
    if (file->path == NULL || file->build_id == NULL) {
        free(file->path);
        free(file->build_id);
        free(file);
        return NULL;
    }
    file->reason = "the file is not there, or no plain one";
    file->next = symbols->files;
    symbols->files = file;
    open_file(symbols, file);
    return file;
}

/* The path first. Another build under that name explains nothing, and the right one may still lie
 * somewhere by its build id. */
static void open_file(struct symbols *symbols, struct symbol_file *file)
{
    const char *const directories[] = { symbols->debug_directory, "/usr/lib/debug" };
    char path[PATH_BYTES];

    if (file->path[0] == '/' && try_path(symbols, file, file->path))
        return;
    for (size_t i = 0; strlen(file->build_id) > 2 && i < 2; i++)
        if (directories[i] != NULL &&
            snprintf(path, sizeof path, "%s/.build-id/%.2s/%s.debug", directories[i],
                     file->build_id, file->build_id + 2) < (int)sizeof path &&
            try_path(symbols, file, path))
            return;
}

/* Another process named it: opening a device or a pipe can have effects, or wait for ever. So it is opened
 * to look at first, and what was looked at is read. -1: it is not there, or no plain file. */
static int open_plain(const char *path)
{
    const int place = open(path, O_PATH | O_CLOEXEC);
    char link[32];
    struct stat st;
    int fd = -1;

    if (place < 0)
        return -1;
    if (fstat(place, &st) == 0 && S_ISREG(st.st_mode)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", place);
        fd = open(link, O_RDONLY | O_CLOEXEC);
    }
    close(place);
    return fd;
}

static bool try_path(struct symbols *symbols, struct symbol_file *file, const char *path)
{
    const int fd = open_plain(path);

    if (fd < 0)
        return false;
    file->dwfl = dwfl_begin(&symbols->callbacks);
    if (file->dwfl != NULL) {
        file->module = dwfl_report_offline(file->dwfl, "", path, fd); /* takes fd if it succeeds */
        dwfl_report_end(file->dwfl, NULL, NULL);
    }
    if (file->module == NULL)
        close(fd);
    if (file->module != NULL && has_build_id(file->module, file->build_id) &&
        dwfl_module_getelf(file->module, &file->bias) != NULL)
        return true;
    file->reason = file->module == NULL ? "the file is no ELF file"
                                        : "the file is another one by now: its build id differs";
    if (file->dwfl != NULL)
        dwfl_end(file->dwfl);
    file->dwfl = NULL;
    file->module = NULL;
    return false;
}

static bool has_build_id(Dwfl_Module *module, const char *build_id)
{
    const unsigned char *bits;
    GElf_Addr address;
    const int bytes = dwfl_module_build_id(module, &bits, &address);
    char text[2 * BUILD_ID_BYTES + 1] = "";

    if (build_id[0] == '\0')
        return true;
    for (int i = 0; i < bytes && i < BUILD_ID_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", bits[i]);
    return strcmp(text, build_id) == 0;
}

/* libdwfl finds a compilation unit by .debug_aranges, which clang does not write: then all are asked. */
static void find_line(const struct symbol_file *file, GElf_Addr address, struct symbol *symbol)
{
    Dwfl_Line *line = dwfl_module_getsrc(file->module, address);
    Dwarf_Die *unit = NULL;
    Dwarf_Addr bias;

    if (line != NULL) {
        symbol->file = dwfl_lineinfo(line, NULL, &symbol->line, NULL, NULL, NULL);
        return;
    }
    while ((unit = dwfl_module_nextcu(file->module, unit, &bias)) != NULL) {
        Dwarf_Line *found =
            dwarf_haspc(unit, address - bias) == 1 ? dwarf_getsrc_die(unit, address - bias) : NULL;

        if (found == NULL)
            continue;
        symbol->file = dwarf_linesrc(found, NULL, NULL);
        if (dwarf_lineno(found, &symbol->line) != 0)
            symbol->line = 0;
        return;
    }
}

static void set_name(struct symbols *symbols, const char *name)
{
    int status = -1;
    char *plain = NULL;

    if (strncmp(name, "_Z", 2) == 0 && symbols->cpp_library == NULL) {
        symbols->cpp_library = dlopen("libstdc++.so.6", RTLD_LAZY);
        if (symbols->cpp_library != NULL) {
            void *found = dlsym(symbols->cpp_library, "__cxa_demangle");

            memcpy(&symbols->demangle, &found, sizeof found);
        }
    }
    if (strncmp(name, "_Z", 2) == 0 && symbols->demangle != NULL)
        plain = symbols->demangle(name, NULL, NULL, &status);
    snprintf(symbols->name, sizeof symbols->name, "%s", plain != NULL ? plain : name);
    free(plain);
}
