/* http_request.h - understand one HTTP/1 request, and say what it is to be answered with.
 *
 * Strict: what is not understood is refused, not guessed at. Thread: any. */
#ifndef ENGINE_CORED_HTTP_REQUEST_H
#define ENGINE_CORED_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_REQUEST_BYTES 8192 /* of the head, with its empty line */

struct http_request {
    int status;   /* what to answer: 200, or 400, 403, 404, 405, 505 */
    bool is_head; /* without a body */
};

/* Where the head ends: behind its empty line; 0: it is not complete. */
size_t http_head_bytes(const char *text, size_t bytes);

/* hosts: names that are allowed as Host, with commas between, without port. head is what http_head_bytes()
 * has measured. */
struct http_request http_parse(const char *head, size_t bytes, const char *hosts);

const char *http_reason(int status); /* "Not Found" */

#endif
