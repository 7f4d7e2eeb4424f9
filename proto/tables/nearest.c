/* Edit distance: insertions, deletions, replacements and swaps of neighbours cost one each. */
#include "proto/tables/nearest.h"

#include <string.h>

static size_t edit_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

void ec_nearest_init(struct ec_nearest *nearest, const char *name, size_t bytes)
{
    *nearest = (struct ec_nearest) { .name = name, .bytes = bytes };
}

/* How many letters of the name are behind the words that both begin with: "nosuch" of breaker.nosuch and
 * breaker.proc. */
static size_t bytes_apart(const struct ec_nearest *nearest, const char *known)
{
    size_t words = 0;

    for (size_t i = 0; i < nearest->bytes && known[i] != '\0' && nearest->name[i] == known[i]; i++)
        if (known[i] == '.' || known[i] == ' ')
            words = i + 1;
    return nearest->bytes - words;
}

void ec_nearest_offer(struct ec_nearest *nearest, const char *known)
{
    const size_t bytes = strlen(known);
    size_t distance;

    if (nearest->bytes > EC_NEAREST_BYTES_MAX || bytes > EC_NEAREST_BYTES_MAX)
        return;
    distance = edit_distance(nearest->name, nearest->bytes, known, bytes);
    /* More than a third of the letters wrong is another word. */
    if (distance > bytes_apart(nearest, known) / 3 + 1)
        return;
    if (nearest->best == NULL || distance < nearest->distance) {
        nearest->distance = distance;
        nearest->best = known;
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row by row; a swap looks two rows back. */
static size_t edit_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t rows[3][EC_NEAREST_BYTES_MAX + 1];

    for (size_t j = 0; j <= b_bytes; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1,
                           above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_bytes % 3][b_bytes];
}
