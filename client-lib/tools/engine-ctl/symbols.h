/* symbols.h - names for places in ELF files: function, source file and line.
 *
 * A place is an address in a file, as the file itself counts. The file is found by its path, if it still
 * has the build id that it had when the address was noted; else by its build id below the directories
 * for debug files. A stripped file is explained by its debug file, by build id or .gnu_debuglink, as
 * debuggers do it. This is libdwfl's work; names of C++ are demangled when the C++ library is there.
 *
 * Thread: one. Cost: a file is opened once, at the first question; then some 100 us a question. */
#ifndef ENGINE_CTL_SYMBOLS_H
#define ENGINE_CTL_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

struct symbols; /* opaque */

/* debug_directory: looked through before the usual ones; NULL: only those. NULL: no memory. */
struct symbols *symbols_create(const char *debug_directory);
void symbols_destroy(struct symbols *symbols); /* accepts NULL */

struct symbol {
    const char *function; /* NULL: not known. Valid until the next question */
    const char *file;     /* NULL: not known. Valid until symbols_destroy */
    int line;
};

/* build_id: hexadecimal, "" for any. A return address stands behind its call: is_return asks for the
 * call. False: the file is not there, or is another one by now; symbols_reason says which. */
bool symbols_find(struct symbols *symbols, const char *path, const char *build_id, uint64_t offset,
                  bool is_return, struct symbol *symbol);
const char *symbols_reason(const struct symbols *symbols);

#endif
