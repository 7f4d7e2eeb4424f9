/* keeping.c - what a later run of the daemon goes on from; see daemon/heritage.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "breaker/state.h"
#include "clients/clients.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "foundation/real_time.h"

_Static_assert(HERITAGE_RESERVATIONS >= RESERVATIONS_MAX, "all of them can be kept");
_Static_assert(HERITAGE_REASON_BYTES >= BREAKER_REASON_BYTES, "whole");

void breaker_keep(const struct breaker *breaker)
{
    const struct reservations *reservations = &breaker->reservations;
    struct breaker_heritage kept = {
        .manual_level = breaker->manual.level,
        .manual_end_ns = breaker->manual.end_ns,
        .last_reservation_id = reservations->last_id,
    };

    if (breaker->manual.level > LEVEL_NORMAL)
        snprintf(kept.manual_reason, sizeof kept.manual_reason, "%s", breaker->manual.reason);
    for (unsigned i = 0; i < RESERVATIONS_MAX; i++) {
        const struct reservation *row = &reservations->rows[i];
        const uint32_t at = kept.reservation_count;

        if (row->id == 0)
            continue;
        kept.reservations[at].id = row->id;
        kept.reservations[at].client_id = row->client_id;
        kept.reservations[at].bytes = row->bytes;
        kept.reservations[at].end_ns = row->end_ns;
        kept.reservations[at].held_bytes = row->held_bytes;
        kept.reservation_count++;
    }
    heritage_set_breaker(breaker->services->heritage, &kept);
}

/* Those of clients that may come back: what they were promised stays promised. */
static unsigned inherit_reservations(struct breaker *breaker, const struct breaker_heritage *kept,
                                     int64_t now_ns)
{
    struct reservations *reservations = &breaker->reservations;

    for (uint32_t i = 0; i < kept->reservation_count; i++) {
        if (reservations->count == RESERVATIONS_MAX || kept->reservations[i].end_ns <= now_ns ||
            !clients_awaits(breaker->services->clients, kept->reservations[i].client_id))
            continue;
        reservations->rows[reservations->count++] = (struct reservation) {
            .id = kept->reservations[i].id,
            .client_id = kept->reservations[i].client_id,
            .bytes = kept->reservations[i].bytes,
            .end_ns = kept->reservations[i].end_ns,
            .held_bytes = kept->reservations[i].held_bytes,
        };
    }
    reservations->last_id = kept->last_reservation_id;
    return reservations->count;
}

/* What the last run left, if that holds. */
static void take_over(struct breaker *breaker, const struct breaker_heritage *kept)
{
    const int64_t now_ns = ec_real_ns();
    const unsigned count = inherit_reservations(breaker, kept, now_ns);

    if (count > 0) {
        log_info("breaker", "%u reservations of the last run stand", count);
        breaker_deduct(breaker);
    }
    if (kept->manual_level > LEVEL_NORMAL &&
        (kept->manual_end_ns == 0 || kept->manual_end_ns > now_ns)) {
        log_warning("breaker", "level %" PRIu32 " by hand of the last run stands: %s",
                    kept->manual_level, kept->manual_reason);
        breaker_raise_again(breaker, kept->manual_level, kept->manual_end_ns, kept->manual_reason);
    }
}

void breaker_inherit(struct breaker *breaker)
{
    struct services *services = breaker->services;
    struct breaker_heritage kept;

    if (heritage_breaker(services->heritage, segments_are_kept(services->segments), &kept))
        take_over(breaker, &kept);
    breaker_keep(breaker); /* what does not hold must not come back in the run after this one */
}
