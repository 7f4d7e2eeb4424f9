/* support/json_texts.h - texts that a JSON parser must accept, and texts that it must refuse.
 *
 *     for (size_t s = 0; s < json_text_sets_count; s++)
 *         for (size_t i = 0; i < json_text_sets[s].count; i++)
 *             judge(json_text_sets[s].texts[i].text, json_text_sets[s].texts[i].bytes);
 *
 * They are written after RFC 8259, with every kind of text that public collections have. Where the RFC
 * leaves the parser free, they say what this project's does: numbers that do not fit, lone surrogates,
 * byte order marks and bytes that are no UTF-8 are refused, and so are names that come twice.
 * Nesting is not in here: such texts are long and made by who needs them. Thread: any. */
#ifndef EC_SUPPORT_JSON_TEXTS_H
#define EC_SUPPORT_JSON_TEXTS_H

#include <stddef.h>

#include "foundation/json/json_scan.h"

struct json_text {
    const char *text; /* may hold NUL */
    size_t bytes;
};

struct json_text_set {
    enum ec_json_fault_kind fault; /* of every text in it; EC_JSON_FAULT_NONE: they are accepted */
    const struct json_text *texts;
    size_t count;
};

extern const struct json_text_set json_text_sets[];
extern const size_t json_text_sets_count;

#endif
