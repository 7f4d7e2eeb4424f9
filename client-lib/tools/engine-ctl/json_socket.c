/* Lines to and from the daemon, with one deadline for each call. */
#include "engine-ctl/json_socket.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <engine-core/clock.h>

#define FIRST_BYTES 16384u
#define LINE_BYTES_MAX (64u * 1024 * 1024) /* more is no answer of ours */
#define NO_DEADLINE INT64_MAX

static int fail(struct ec_error *why, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int send_request(struct json_socket *connection, const char *method, const char *params,
                        int64_t deadline_ms, struct ec_error *why);
static int next_line(struct json_socket *connection, int64_t deadline_ms, char **line,
                     struct ec_error *why);
static int receive(struct json_socket *connection, int64_t deadline_ms, struct ec_error *why);
static int wait_for(const struct json_socket *connection, short events, int64_t deadline_ms,
                    struct ec_error *why);
static int take_answer(struct json_answer *answer, const cJSON *message, struct ec_error *why);
static int take_text(struct json_answer *answer, const char *member, struct ec_error *why);
static const char *skip_value(const char *at);
static const char *skip_string(const char *at);
static const char *skip_space(const char *at);
static int64_t now_ms(void);

int json_socket_open(struct json_socket *connection, const char *path, int timeout_ms,
                     struct ec_error *why)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd;

    if (strlen(path) >= sizeof address.sun_path)
        return fail(why, EC_ERR_PARAM, "socket path has %zu bytes, the limit is %zu", strlen(path),
                    sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail(why, EC_ERR_SYSTEM, "socket: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        int reason = errno;
        int code = reason == ENOENT || reason == ECONNREFUSED ? EC_ERR_DISCONNECTED
                   : reason == EACCES || reason == EPERM      ? EC_ERR_PERMISSION
                                                              : EC_ERR_SYSTEM;

        close(fd);
        return fail(why, code, "no daemon at %s: %s", path, strerror(reason));
    }
    *connection = (struct json_socket) { .fd_plus_one = fd + 1, .timeout_ms = timeout_ms };
    connection->buffer = malloc(FIRST_BYTES);
    connection->capacity = FIRST_BYTES;
    if (connection->buffer == NULL) {
        json_socket_close(connection);
        return fail(why, EC_ERR_MEMORY, "no memory for answers");
    }
    return EC_OK;
}

bool json_socket_is_open(const struct json_socket *connection)
{
    return connection->fd_plus_one > 0;
}

void json_socket_close(struct json_socket *connection)
{
    if (json_socket_is_open(connection))
        close(connection->fd_plus_one - 1);
    free(connection->buffer);
    *connection = (struct json_socket) { 0 };
}

int json_socket_call(struct json_socket *connection, const char *method, const char *params,
                     struct json_answer *answer, struct ec_error *why)
{
    const int64_t deadline_ms = now_ms() + connection->timeout_ms;
    int rc;

    *answer = (struct json_answer) { 0 };
    rc = send_request(connection, method, params, deadline_ms, why);
    if (rc == EC_ERR_DISCONNECTED) /* it may have said why before: reading finds that, or the end */
        rc = EC_OK;
    while (rc == EC_OK) {
        cJSON *message;
        const cJSON *id;

        rc = next_line(connection, deadline_ms, &answer->line, why);
        if (rc < 0)
            break;
        message = cJSON_Parse(answer->line);
        id = cJSON_GetObjectItemCaseSensitive(message, "id");
        if (message == NULL) {
            rc = fail(why, EC_ERR_REQUEST, "the daemon sent a line that is not JSON");
        } else if (cJSON_IsNull(id) ||
                   (cJSON_IsNumber(id) && id->valuedouble == (double)connection->last_id)) {
            rc = take_answer(answer, message, why);
            cJSON_Delete(message);
            return rc;
        }
        cJSON_Delete(message);
        json_answer_finish(answer); /* a notification, or the answer to an earlier call */
    }
    return rc;
}

int json_socket_next(struct json_socket *connection, const char *method, struct json_answer *answer,
                     struct ec_error *why)
{
    *answer = (struct json_answer) { 0 };
    for (;;) {
        const cJSON *name;
        cJSON *message;
        bool wanted;
        int rc = next_line(connection, NO_DEADLINE, &answer->line, why);

        if (rc < 0)
            return rc;
        message = cJSON_Parse(answer->line);
        name = cJSON_GetObjectItemCaseSensitive(message, "method");
        wanted = cJSON_IsString(name) && strcmp(name->valuestring, method) == 0;
        cJSON_Delete(message);
        if (wanted)
            return take_text(answer, "params", why);
        json_answer_finish(answer);
    }
}

void json_answer_finish(struct json_answer *answer)
{
    cJSON_Delete(answer->tree);
    free(answer->line);
    *answer = (struct json_answer) { 0 };
}

const char *json_member_text(const char *object, const char *name, size_t *bytes)
{
    const char *at = skip_space(object);

    if (*at != '{')
        return NULL;
    at = skip_space(at + 1);
    while (*at == '"') {
        const char *key = at + 1, *key_end, *value, *end;

        at = skip_string(at);
        key_end = at - 1;
        at = skip_space(at);
        if (*at != ':')
            return NULL;
        value = skip_space(at + 1);
        end = skip_value(value);
        if ((size_t)(key_end - key) == strlen(name) && memcmp(key, name, strlen(name)) == 0) {
            *bytes = (size_t)(end - value);
            return value;
        }
        at = skip_space(end);
        if (*at != ',')
            return NULL;
        at = skip_space(at + 1);
    }
    return NULL;
}

static int fail(struct ec_error *why, int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    why->code = code;
    return code;
}

static int send_request(struct json_socket *connection, const char *method, const char *params,
                        int64_t deadline_ms, struct ec_error *why)
{
    const int fd = connection->fd_plus_one - 1;
    char *line = NULL;
    int bytes = asprintf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"method\":\"%s\"%s%s}\n",
                         ++connection->last_id, method, params != NULL ? ",\"params\":" : "",
                         params != NULL ? params : "");
    int rc = EC_OK;

    if (bytes < 0)
        return fail(why, EC_ERR_MEMORY, "no memory for a request");
    for (char *at = line; at < line + bytes - 1; at++)
        if (*at == '\n' || *at == '\r') /* white space of the caller's params */
            *at = ' ';
    for (int sent = 0; rc == EC_OK && sent < bytes;) {
        ssize_t n = send(fd, line + sent, (size_t)(bytes - sent), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0)
            sent += (int)n;
        else if (errno == EAGAIN)
            rc = wait_for(connection, POLLOUT, deadline_ms, why);
        else if (errno == EPIPE || errno == ECONNRESET)
            rc = fail(why, EC_ERR_DISCONNECTED, "the daemon hung up");
        else if (errno != EINTR)
            rc = fail(why, EC_ERR_SYSTEM, "send: %s", strerror(errno));
    }
    free(line);
    return rc;
}

static int next_line(struct json_socket *connection, int64_t deadline_ms, char **line,
                     struct ec_error *why)
{
    size_t searched = connection->begin;

    for (;;) {
        const char *begin = connection->buffer + connection->begin;
        const char *end = searched == connection->end ? NULL
                                                      : memchr(connection->buffer + searched, '\n',
                                                               connection->end - searched);
        int rc;

        if (end != NULL) {
            *line = strndup(begin, (size_t)(end - begin));
            connection->begin += (size_t)(end - begin) + 1;
            return *line != NULL ? EC_OK : fail(why, EC_ERR_MEMORY, "no memory for an answer");
        }
        if (connection->begin > 0) {
            memmove(connection->buffer, begin, connection->end - connection->begin);
            connection->end -= connection->begin;
            connection->begin = 0;
        }
        searched = connection->end;
        rc = receive(connection, deadline_ms, why);
        if (rc < 0)
            return rc;
    }
}

static int receive(struct json_socket *connection, int64_t deadline_ms, struct ec_error *why)
{
    const int fd = connection->fd_plus_one - 1;
    ssize_t n;

    assert(connection->capacity > 0);
    if (connection->end == connection->capacity) {
        size_t capacity = connection->capacity * 2;
        char *grown = capacity <= LINE_BYTES_MAX ? realloc(connection->buffer, capacity) : NULL;

        if (grown == NULL)
            return fail(why, EC_ERR_MEMORY, "no memory for a line of %zu bytes", capacity);
        connection->buffer = grown;
        connection->capacity = capacity;
    }
    for (;;) {
        int rc = wait_for(connection, POLLIN, deadline_ms, why);

        if (rc < 0)
            return rc;
        n = recv(fd, connection->buffer + connection->end, connection->capacity - connection->end,
                 0);
        if (n > 0) {
            connection->end += (size_t)n;
            return EC_OK;
        }
        if (n == 0 || errno == ECONNRESET)
            return fail(why, EC_ERR_DISCONNECTED, "the daemon hung up");
        if (errno != EINTR)
            return fail(why, EC_ERR_SYSTEM, "receive: %s", strerror(errno));
    }
}

static int wait_for(const struct json_socket *connection, short events, int64_t deadline_ms,
                    struct ec_error *why)
{
    struct pollfd ready[] = { { .fd = connection->fd_plus_one - 1, .events = events },
                              { .fd = connection->stop_plus_one - 1, .events = POLLIN } };

    for (;;) {
        int64_t left_ms = deadline_ms - now_ms();
        int n;

        if (left_ms <= 0)
            return fail(why, EC_ERR_TIMEOUT, "no answer in time");
        n = poll(ready, 2, deadline_ms == NO_DEADLINE || left_ms > INT32_MAX ? -1 : (int)left_ms);
        if (n > 0 && ready[1].revents != 0)
            return fail(why, EC_ERR_TIMEOUT, "stopped before the answer");
        if (n > 0)
            return EC_OK;
        if (n < 0 && errno != EINTR)
            return fail(why, EC_ERR_SYSTEM, "poll: %s", strerror(errno));
    }
}

static int take_answer(struct json_answer *answer, const cJSON *message, struct ec_error *why)
{
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(message, "error");
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(error, "code");
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(error, "message");

    if (error == NULL)
        return take_text(answer, "result", why);
    answer->error = json_member_text(answer->line, "error", &answer->error_bytes);
    if (!cJSON_IsNumber(code) || code->valueint >= 0)
        return fail(why, EC_ERR_REQUEST, "the daemon answered an error without a code");
    return fail(why, code->valueint, "%s",
                cJSON_IsString(text) ? text->valuestring : ec_error_text(code->valueint));
}

static int take_text(struct json_answer *answer, const char *member, struct ec_error *why)
{
    answer->result = json_member_text(answer->line, member, &answer->result_bytes);
    if (answer->result == NULL)
        return fail(why, EC_ERR_REQUEST, "the daemon sent no %s", member);
    answer->tree = cJSON_ParseWithLength(answer->result, answer->result_bytes);
    if (answer->tree == NULL)
        return fail(why, EC_ERR_MEMORY, "no memory for a result");
    return EC_OK;
}

/* Behind a value. The text was parsed before, so it is well formed; its NUL ends every loop. */
static const char *skip_value(const char *at)
{
    int depth = 0;

    if (*at == '\0')
        return at;
    do {
        if (*at == '"') {
            at = skip_string(at);
        } else {
            depth += *at == '{' || *at == '[';
            depth -= *at == '}' || *at == ']';
            at++;
            if (depth == 0 && !isspace((unsigned char)at[-1]) && strchr("}],", at[-1]) == NULL)
                while (*at != '\0' && !isspace((unsigned char)*at) && strchr("}],", *at) == NULL)
                    at++; /* a number or a word */
        }
    } while (depth > 0 && *at != '\0');
    return at;
}

static const char *skip_string(const char *at)
{
    for (at++; *at != '\0' && *at != '"'; at++)
        if (*at == '\\' && at[1] != '\0')
            at++;
    return *at == '"' ? at + 1 : at;
}

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static int64_t now_ms(void)
{
    return ec_time_real() / 1000000;
}
