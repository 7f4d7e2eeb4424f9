/* HTTP requests of any content: each is answered with a status that has a reason, and nothing is read
 * beyond what came. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const size_t head_bytes = http_head_bytes((const char *)data, bytes);
    struct http_request request;

    if (head_bytes == 0)
        return 0;
    if (head_bytes > bytes)
        abort();
    request = http_parse((const char *)data, head_bytes, "localhost,127.0.0.1,[::1]");
    if (strcmp(http_reason(request.status), "Error") == 0)
        abort();
    if (request.status == 200 && memmem(data, head_bytes, "/metrics", 8) == NULL)
        abort();
    return 0;
}
