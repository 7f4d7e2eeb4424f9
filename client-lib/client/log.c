/* log.c - see engine-core/log.h. */
#include <engine-core/log.h>

#include <stdarg.h>
#include <stdio.h>

#include "client/client.h"
#include "foundation/real_time.h"
#include "segment/client_log.h"

void ec_log(struct ec_client *client, const char *format, ...)
{
    char text[EC_CLIENT_LOG_TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ec_client_log_write(ec_client_own(client), ec_real_ns(), text);
}
