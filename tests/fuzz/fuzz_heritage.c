/* State files of any content: refused with a reason, or all of it can be calculated with; and what was
 * read is written and read again the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/heritage_text.h"
#include "segment/clock_arithmetic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct heritage_content content, again;
    struct ec_error why = { 0 };
    struct ec_json_writer writer;

    if (heritage_content_read((const char *)data, bytes, &content, &why) < 0) {
        if (why.text[0] == '\0')
            abort();
        return 0;
    }
    for (uint32_t i = 0; i < content.clock.clock_count; i++) {
        const struct ec_step_snapshot *step = &content.clock.snapshot.step[i];

        ec_step_due_ns(step, ec_step_at(step, ec_game_at(&content.clock.snapshot.game, INT64_MAX)));
    }
    ec_json_writer_init_growing(&writer, ec_json_grow_heap, NULL, 4u << 20);
    heritage_content_write(&content, &writer);
    if (ec_json_writer_status(&writer) == EC_OK) {
        if (heritage_content_read(writer.base, writer.bytes, &again, &why) < 0 ||
            memcmp(&again.clock, &content.clock, sizeof again.clock) != 0 ||
            again.lease_count != content.lease_count)
            abort();
        heritage_content_finish(&again);
    }
    free(writer.base);
    heritage_content_finish(&content);
    return 0;
}
