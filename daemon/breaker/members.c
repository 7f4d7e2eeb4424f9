/* members.c - what is read out of a client's own segment. */
#include "breaker/members.h"

#include <stdio.h>
#include <unistd.h>

#include "clients/clients.h"
#include "segment/telemetry.h"

uint64_t member_evictable(const struct member *member)
{
    const struct ec_client_segment *segment = client_segment(member->client);
    struct ec_memory_sum sum;
    uint64_t bytes;

    if (segment == NULL)
        return 0;
    bytes = ec_telemetry_evictable(segment);
    if (bytes != 0)
        return bytes;
    ec_telemetry_memory(segment, &sum);
    return sum.bytes;
}

uint32_t member_budget_level(const struct member *member, uint32_t eviction_permille)
{
    const struct ec_client_segment *segment = client_segment(member->client);
    struct ec_tag_report tags[EC_TAGS_MAX];
    uint32_t level = LEVEL_NORMAL;
    unsigned count;

    if (segment == NULL || eviction_permille == 0)
        return LEVEL_NORMAL;
    count = ec_telemetry_tags(segment, tags);
    for (unsigned i = 0; i < count; i++) {
        if (tags[i].budget_bytes == 0 || tags[i].bytes <= tags[i].budget_bytes)
            continue;
        if ((double)tags[i].bytes > (double)tags[i].budget_bytes * eviction_permille / 1000.0)
            return LEVEL_EVICTION;
        level = LEVEL_WARNING;
    }
    return level;
}

/* statm: all pages, resident ones, those of files and shared memory among them, … */
void member_memory(const struct member *member, uint64_t *resident_bytes, uint64_t *private_bytes)
{
    const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned long long resident, shared;
    char text[128];
    ssize_t bytes;

    *resident_bytes = *private_bytes = 0;
    bytes = member->statm_fd < 0 ? -1 : pread(member->statm_fd, text, sizeof text - 1, 0);
    if (bytes <= 0)
        return;
    text[bytes] = '\0';
    if (sscanf(text, "%*s %llu %llu", &resident, &shared) != 2 || shared > resident)
        return;
    *resident_bytes = resident * page_bytes;
    *private_bytes = (resident - shared) * page_bytes;
}

bool member_is_in(const struct member *member, uint32_t source)
{
    for (uint32_t i = 0; i < member->chain.count; i++)
        if (member->chain.source[i] == source)
            return true;
    return false;
}
