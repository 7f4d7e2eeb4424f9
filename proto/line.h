/* proto/line.h - framing of the control socket and its limits.
 *
 * One JSON-RPC message per line, ended by LF, both directions. A line is at most EC_LINE_BYTES
 * long, its LF included. Descriptors ride on the first byte of a line. */
#ifndef EC_PROTO_LINE_H
#define EC_PROTO_LINE_H

#define EC_PROTOCOL 1               /* the version that core.hello negotiates */
#define EC_LINE_BYTES (1024 * 1024) /* longest message, LF included */
#define EC_LINE_DEPTH 64            /* deepest nesting of a message */
#define EC_LINE_FDS 72              /* most descriptors on one line: 64 ports and some */
#define EC_SOCKET_PATH_BYTES 107    /* sun_path holds 108 with its NUL */
#define EC_SOCKET_NAME "engine-core.sock"
#define EC_SOCKET_SYSTEM_DIR "/run/engine-core"

#endif
