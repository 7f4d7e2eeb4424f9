/* Mount any bytes as an archive of whatever kind and read what is in it, as a decoding process does. Its name
 * has no ending, so every kind is tried. */
#include <physfs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "resources/search_path.h"

#define ENTRIES_MAX 16
#define ENTRY_BYTES_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* PhysicsFS leaks when it refuses an archive. The process that it did so in ends then, so it may. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
    return "leak:libphysfs";
}

static void read_entry(const struct search_path *search, const char *name)
{
    struct ec_error why = { 0 };
    struct search_entry entry;
    unsigned char *bytes;

    if (search_path_check(name, strlen(name), &why) < 0 ||
        search_entry_open(search, &entry, name, &why) < 0)
        return;
    if (entry.bytes <= ENTRY_BYTES_MAX && (bytes = malloc(entry.bytes + 1)) != NULL) {
        if (search_entry_read(&entry, bytes, entry.bytes, &why) == EC_OK)
            search_entry_at_end(&entry);
        free(bytes);
    }
    search_entry_close(&entry);
}

static void read_some(const struct search_path *search)
{
    char **names = PHYSFS_enumerateFiles("/");

    for (unsigned i = 0; names != NULL && names[i] != NULL && i < ENTRIES_MAX; i++)
        read_entry(search, names[i]);
    PHYSFS_freeList(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[sizeof "/proc/self/fd/" + 3 * sizeof(int)];
    const int fd = memfd_create("archive", MFD_CLOEXEC);
    struct search_path *search;
    struct ec_error why = { 0 };

    if (fd < 0 || write(fd, data, size) != (ssize_t)size ||
        search_path_create(&search, &why) != EC_OK)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (search_path_mount(search, path, "/", true, &why) == EC_OK)
        read_some(search);
    search_path_destroy(search);
    close(fd);
    return 0;
}
