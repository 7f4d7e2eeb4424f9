/* session_trace.c - a small model of a player. */
#include "bench/session_trace.h"

#include <stdio.h>

#define LEVELS 24
#define CHARACTERS 12
#define RACES 60
#define ROW 4 /* levels in a row */

struct range {
    unsigned first, count;
};

struct session {
    FILE *file;
    uint64_t random;
    uint64_t bytes;
    unsigned resources;
    int64_t now_ns;
    struct range levels[LEVELS], characters[CHARACTERS], interface, common;
};

static uint32_t random_below(struct session *session, uint32_t end)
{
    session->random ^= session->random << 13;
    session->random ^= session->random >> 7;
    session->random ^= session->random << 17;
    return (uint32_t)((session->random >> 33) % end);
}

/* Small numbers more often than large ones. */
static uint32_t random_favourite(struct session *session, uint32_t end)
{
    uint64_t a = random_below(session, 1000), b = random_below(session, 1000);

    return (uint32_t)(a * b * end / 1000000);
}

/* Sizes are spread evenly over the powers of two between. */
static struct range make(struct session *session, const char *what, unsigned number, unsigned count,
                         unsigned smallest_log2, unsigned largest_log2)
{
    struct range range = { session->resources, count };

    for (unsigned i = 0; i < count; i++) {
        unsigned log2 = smallest_log2 + random_below(session, largest_log2 - smallest_log2);
        uint64_t bytes = (UINT64_C(1) << log2) + random_below(session, 1u << log2);

        fprintf(session->file, "r %u %llu %llu %s%u/%u\n", session->resources++,
                (unsigned long long)bytes, (unsigned long long)bytes * 7 + 1000000, what, number,
                i);
        session->bytes += bytes;
    }
    return range;
}

static void use(struct session *session, char kind, unsigned resource)
{
    session->now_ns += 1000000;
    fprintf(session->file, "%c %lld 1 %u\n", kind, (long long)session->now_ns, resource);
}

static void use_all(struct session *session, char kind, struct range range)
{
    for (unsigned i = 0; i < range.count; i++)
        use(session, kind, range.first + i);
}

static void play(struct session *session)
{
    unsigned level = 0, in_row = ROW;

    for (unsigned race = 0; race < RACES; race++) {
        unsigned choice = random_below(session, 100);

        for (unsigned i = 0; i < 200; i++) /* in the menus */
            use(session, 'u',
                session->interface.first + random_favourite(session, session->interface.count));
        if (in_row < ROW) {
            level = (level + 1) % LEVELS;
            in_row++;
        } else if (race == 0 || choice >= 30) { /* else once more */
            level = random_favourite(session, LEVELS);
            in_row = choice >= 65 ? 1 : ROW;
        }
        use_all(session, 'u', session->common);
        use_all(session, 'u', session->levels[level]);
        for (unsigned i = 0, first = random_below(session, CHARACTERS); i < 8; i++)
            use_all(session, 'u', session->characters[(first + i) % CHARACTERS]);
        if (in_row < ROW)
            use_all(session, 's', session->levels[(level + 1) % LEVELS]);
        for (unsigned i = 0; i < 360; i++) /* what is shown while it is played */
            use(session, 'u', session->interface.first + random_favourite(session, 40));
    }
}

bool session_trace_write(const char *path, uint64_t *bytes)
{
    struct session session = { .file = fopen(path, "we"), .random = 88172645463325252 };

    if (session.file == NULL)
        return false;
    fprintf(session.file, "# engine-core resource trace 1\n");
    for (unsigned i = 0; i < LEVELS; i++)
        session.levels[i] = make(&session, "level", i, 60 + random_below(&session, 120), 16, 23);
    for (unsigned i = 0; i < CHARACTERS; i++)
        session.characters[i] = make(&session, "character", i, 20, 17, 22);
    session.interface = make(&session, "interface", 0, 300, 14, 20);
    session.common = make(&session, "common", 0, 300, 14, 21);
    play(&session);
    *bytes = session.bytes;
    return fclose(session.file) == 0;
}
