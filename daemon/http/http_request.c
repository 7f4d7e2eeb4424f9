/* http_request.c - see http_request.h. RFC 9112, as far as a GET without a body needs it. */
#include "http/http_request.h"

#include <string.h>
#include <strings.h>

#define METRICS_PATH "/metrics"

/* A piece of the head. */
struct text {
    const char *at;
    size_t bytes;
};

static bool next_line(struct text *rest, struct text *line);
static bool next_word(struct text *line, struct text *word);
static int check_first_line(struct text line, struct http_request *request);
static bool split_header(struct text line, struct text *name, struct text *value);
static bool is_allowed(struct text host, const char *hosts);

size_t http_head_bytes(const char *text, size_t bytes)
{
    const char *end = memmem(text, bytes, "\r\n\r\n", 4);

    return end != NULL ? (size_t)(end - text) + 4 : 0;
}

struct http_request http_parse(const char *head, size_t bytes, const char *hosts)
{
    struct http_request request = { .status = 400 };
    struct text rest = { head, bytes - 2 }, line, name, value; /* without the empty line */
    unsigned host_count = 0;
    bool from_page = false, host_is_allowed = false, has_body = false;
    int status;

    if (memchr(head, '\0', bytes) != NULL || !next_line(&rest, &line))
        return request;
    status = check_first_line(line, &request);
    while (rest.bytes > 0) {
        if (!next_line(&rest, &line) || !split_header(line, &name, &value))
            return request;
        if (name.bytes == 4 && strncasecmp(name.at, "Host", 4) == 0) {
            host_count++;
            host_is_allowed = is_allowed(value, hosts);
        } else if (name.bytes == 6 && strncasecmp(name.at, "Origin", 6) == 0) {
            from_page = true;
        } else if ((name.bytes == 14 && strncasecmp(name.at, "Content-Length", 14) == 0 &&
                    !(value.bytes == 1 && value.at[0] == '0')) ||
                   (name.bytes == 17 && strncasecmp(name.at, "Transfer-Encoding", 17) == 0)) {
            has_body = true;
        }
    }
    if (host_count != 1 || has_body)
        return request;
    request.status = host_is_allowed && !from_page ? status : 403;
    return request;
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        { 200, "OK" },
        { 400, "Bad Request" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 431, "Request Header Fields Too Large" },
        { 505, "HTTP Version Not Supported" },
    };

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Error";
}

/* A line without its CRLF. false: it has none, or holds a control character. */
static bool next_line(struct text *rest, struct text *line)
{
    const char *end = memmem(rest->at, rest->bytes, "\r\n", 2);

    if (end == NULL)
        return false;
    *line = (struct text) { rest->at, (size_t)(end - rest->at) };
    rest->bytes -= line->bytes + 2;
    rest->at = end + 2;
    for (size_t i = 0; i < line->bytes; i++)
        if (((unsigned char)line->at[i] < 0x20 && line->at[i] != '\t') || line->at[i] == 0x7f)
            return false;
    return true;
}

/* Words have one space between them. */
static bool next_word(struct text *line, struct text *word)
{
    const char *space = memchr(line->at, ' ', line->bytes);
    const size_t bytes = space != NULL ? (size_t)(space - line->at) : line->bytes;

    *word = (struct text) { line->at, bytes };
    line->at += bytes + (space != NULL);
    line->bytes -= bytes + (space != NULL);
    return bytes > 0;
}

static bool is_text(struct text text, const char *known)
{
    return text.bytes == strlen(known) && memcmp(text.at, known, text.bytes) == 0;
}

/* What it would be answered with if all headers are well. */
static int check_first_line(struct text line, struct http_request *request)
{
    struct text method, target, version;
    size_t path_bytes;

    if (line.bytes == 0 || line.at[line.bytes - 1] == ' ' || !next_word(&line, &method) ||
        !next_word(&line, &target) || !next_word(&line, &version) || line.bytes > 0 ||
        version.bytes != 8 || memcmp(version.at, "HTTP/", 5) != 0)
        return 400;
    if (!is_text(version, "HTTP/1.1") && !is_text(version, "HTTP/1.0"))
        return 505;
    request->is_head = is_text(method, "HEAD");
    if (!request->is_head && !is_text(method, "GET"))
        return 405;
    path_bytes = 0;
    while (path_bytes < target.bytes && target.at[path_bytes] != '?')
        path_bytes++;
    target.bytes = path_bytes;
    return is_text(target, METRICS_PATH) ? 200 : 404;
}

static bool split_header(struct text line, struct text *name, struct text *value)
{
    const char *colon = memchr(line.at, ':', line.bytes);

    if (colon == NULL || colon == line.at)
        return false;
    *name = (struct text) { line.at, (size_t)(colon - line.at) };
    *value = (struct text) { colon + 1, line.bytes - name->bytes - 1 };
    for (size_t i = 0; i < name->bytes; i++)
        if (strchr("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
                   name->at[i]) == NULL)
            return false;
    while (value->bytes > 0 && (value->at[0] == ' ' || value->at[0] == '\t')) {
        value->at++;
        value->bytes--;
    }
    while (value->bytes > 0 &&
           (value->at[value->bytes - 1] == ' ' || value->at[value->bytes - 1] == '\t'))
        value->bytes--;
    return true;
}

/* A port may follow; an address of IPv6 stands in brackets. */
static bool is_allowed(struct text host, const char *hosts)
{
    size_t bytes = host.bytes;

    while (bytes > 0 && host.at[bytes - 1] >= '0' && host.at[bytes - 1] <= '9')
        bytes--;
    if (bytes > 1 && bytes < host.bytes && host.at[bytes - 1] == ':')
        host.bytes = bytes - 1;
    while (*hosts != '\0') {
        const size_t name_bytes = strcspn(hosts, ",");

        if (name_bytes > 0 && name_bytes == host.bytes &&
            strncasecmp(hosts, host.at, name_bytes) == 0)
            return true;
        hosts += name_bytes + (hosts[name_bytes] == ',');
    }
    return false;
}
