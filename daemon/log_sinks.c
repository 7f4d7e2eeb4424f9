/* log_sinks.c - see log_sinks.h. */
#include "daemon/log_sinks.h"

#include <inttypes.h>
#include <string.h>

static bool write_file(struct log_sinks *sinks, const char *shown, size_t bytes,
                       log_sinks_say_fn *say);

void log_sinks_use(struct log_sinks *sinks, const struct log_sinks_desc *desc)
{
    log_sinks_finish(sinks);
    sinks->desc = *desc;
    sinks->is_failing = false;
    log_file_init(&sinks->file, desc->file, desc->file_bytes, desc->file_count);
    log_journal_init(&sinks->journal, desc->journal);
}

void log_sinks_finish(struct log_sinks *sinks)
{
    if (sinks->desc.to_file)
        log_file_finish(&sinks->file);
    if (sinks->desc.to_journal)
        log_journal_finish(&sinks->journal);
}

bool log_sinks_write(struct log_sinks *sinks, const struct log_line *line, const char *shown,
                     size_t shown_bytes, const char *text, log_sinks_say_fn *say)
{
    bool is_kept = false;

    if (sinks->desc.to_file)
        is_kept = write_file(sinks, shown, shown_bytes, say);
    if (sinks->desc.to_journal) {
        const bool is_taken = log_journal_write(&sinks->journal, line, text) == 0;

        sinks->lost += !is_taken;
        is_kept = is_kept || is_taken;
    }
    return sinks->desc.to_stderr || !is_kept; /* what nobody else keeps is shown at least */
}

/* A failure is said once, and its end. */
static bool write_file(struct log_sinks *sinks, const char *shown, size_t bytes,
                       log_sinks_say_fn *say)
{
    const uint64_t missing = sinks->file.lost;
    const int reason = log_file_write(&sinks->file, shown, bytes);

    sinks->lost += reason != 0;
    if (reason != 0 && !sinks->is_failing) {
        sinks->is_failing = true;
        say(LOG_LEVEL_ERROR, "%s: %s; lines are lost there until it goes again", sinks->desc.file,
            strerror(reason));
    } else if (reason == 0 && sinks->is_failing) {
        sinks->is_failing = false;
        say(LOG_LEVEL_WARNING, "%s is written again, %" PRIu64 " lines are missing in it",
            sinks->desc.file, missing);
    }
    return reason == 0;
}
