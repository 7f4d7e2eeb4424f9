/* Mounts and aliases of an earlier run, of any content: refused with a reason, or written and read again the
 * same. The boot is this one wherever the corpus says BOOT. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/boot_id.h"
#include "resources/kept_paths.h"

#define MARK "BOOT"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void write_again(struct kept_mounts *mounts, struct aliases *aliases)
{
    const unsigned mount_count = mounts->count;
    const uint32_t alias_count = aliases->count;
    struct ec_error why = { 0 };
    struct ec_json_writer writer;

    ec_json_writer_init_growing(&writer, ec_json_grow_heap, NULL, 16u << 20);
    kept_paths_write(mounts, aliases, &writer);
    if (ec_json_writer_status(&writer) == EC_OK &&
        (kept_paths_read(writer.base, writer.bytes, mounts, aliases, &why) < 0 ||
         mounts->count != mount_count || aliases->count != alias_count))
        abort();
    free(writer.base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct kept_mounts mounts = { 0 };
    struct aliases aliases = { 0 };
    struct ec_error why = { 0 };
    char boot_id[BOOT_ID_BYTES] = "", *text, *mark;

    text = malloc(bytes + sizeof boot_id);
    if (text == NULL)
        return 0;
    memcpy(text, data, bytes);
    boot_id_read(boot_id);
    mark = memmem(text, bytes, MARK, strlen(MARK));
    if (mark != NULL) {
        memmove(mark + strlen(boot_id), mark + strlen(MARK),
                bytes - (size_t)(mark - text) - strlen(MARK));
        memcpy(mark, boot_id, strlen(boot_id));
        bytes += strlen(boot_id) - strlen(MARK);
    }
    if (kept_paths_read(text, bytes, &mounts, &aliases, &why) == EC_OK)
        write_again(&mounts, &aliases);
    else if (why.text[0] == '\0')
        abort();
    kept_mounts_finish(&mounts);
    aliases_finish(&aliases);
    free(text);
    return 0;
}
