/* The reason of an error as text; see fault.h. */
#include "engine-ctl/fault.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

int fault(struct ec_error *why, int code, const char *format, ...)
{
    va_list arguments;

    if (why == NULL)
        return code;
    why->code = code;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return code;
}
