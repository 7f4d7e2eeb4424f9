/* engine-ctl cook: needs no daemon. */
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include "decoders/cook.h"

/* The options: 0 channels, 1 levels. */
int verb_cook(struct ctl *ctl, const struct verb_input *input)
{
    struct cook_desc desc = { .input = input->arguments[0], .output = input->arguments[1] };
    char before[TEXT_BYTES], decoded[TEXT_BYTES], after[TEXT_BYTES];
    struct cook_result result;
    struct ec_error why = { 0 };
    long long number = 0;

    if (input->options[0] != NULL) {
        if (!verb_number(input->options[0], 1, 4, &number))
            return ctl_fail(EXIT_USAGE, "cook: --channels is \"%s\", expected 1..4",
                            input->options[0]);
        desc.channels = (uint32_t)number;
    }
    if (input->options[1] != NULL) {
        if (!verb_number(input->options[1], 1, 32, &number))
            return ctl_fail(EXIT_USAGE, "cook: --levels is \"%s\", expected 1..32",
                            input->options[1]);
        desc.levels = (uint32_t)number;
    }
    if (cook_image(&desc, &result, &why) != EC_OK)
        return ctl_fail(EXIT_ANSWERED_ERROR, "cook: %s", why.text);
    if (ctl->json)
        printf("{\"width\":%u,\"height\":%u,\"channels\":%u,\"levels\":%u,\"decoded_bytes\":%llu,"
               "\"input_bytes\":%llu,\"output_bytes\":%llu}\n",
               result.width, result.height, result.channels, result.levels,
               (unsigned long long)result.decoded_bytes, (unsigned long long)result.input_bytes,
               (unsigned long long)result.output_bytes);
    else
        printf("%s: %u x %u, %u channels, %u levels; %s, %s decoded, %s cooked\n", desc.output,
               result.width, result.height, result.channels, result.levels,
               bytes_text(before, (double)result.input_bytes),
               bytes_text(decoded, (double)result.decoded_bytes),
               bytes_text(after, (double)result.output_bytes));
    return ctl_flush();
}
