/* One line that is written again and again; see progress.h. */
#include "engine-ctl/progress.h"

#include <stdarg.h>
#include <stdio.h>

#include <engine-core/clock.h>

#define PERIOD_NS 200000000
#define CLEAR "\r\x1b[K"

void progress_show(const struct ctl *ctl, struct progress *progress, const char *format, ...)
{
    int64_t now = ec_time_real();
    va_list arguments;

    if (!ctl->terminal || ctl->json || now < progress->next_ns)
        return;
    progress->next_ns = now + PERIOD_NS;
    progress->shown = true;
    fputs(CLEAR, stdout);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs(CLEAR, stdout);
    progress->shown = false;
}
