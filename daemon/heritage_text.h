/* heritage_text.h - the heritage as text: one JSON object, written and read strictly.
 *
 * Thread: any. Ownership: the leases are the content's; heritage_content_finish frees them. */
#ifndef ENGINE_CORED_HERITAGE_TEXT_H
#define ENGINE_CORED_HERITAGE_TEXT_H

#include <stddef.h>

#include "daemon/boot_id.h"
#include "daemon/heritage.h"
#include "foundation/json/json_writer.h"

struct heritage_content {
    char boot_id[BOOT_ID_BYTES];
    uint64_t instance;
    uint32_t runs;
    bool ended; /* in good order, and nobody was attached */
    bool has_clock;
    struct clock_heritage clock;
    struct checkpoint_heritage *checkpoints[HERITAGE_CHECKPOINTS]; /* by id; owned; NULL: none */
    bool has_breaker;
    struct breaker_heritage breaker;
    uint32_t last_id[HERITAGE_IDS];
    struct lease *leases;
    unsigned lease_count;
};

void heritage_content_write(const struct heritage_content *content, struct ec_json_writer *writer);

/* Nothing of a text that is refused is kept. Who wrote it may have been another version, or a disk that
 * was full: all values are checked.
 *
 * Returns EC_OK, EC_ERR_PARSE (no JSON), EC_ERR_PARAM (the text names the member) or EC_ERR_MEMORY. */
int heritage_content_read(const char *text, size_t bytes, struct heritage_content *content,
                          struct ec_error *why);
void heritage_content_finish(struct heritage_content *content); /* accepts a zeroed one */

#endif
