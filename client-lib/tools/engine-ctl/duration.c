/* duration.c - see duration.h. */
#include "engine-ctl/duration.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_DISTANCE_MAX 1099511627776.0

static const struct {
    const char *name;
    double factor;
    bool is_time;
} units[] = {
    { "ns", 1, true },
    { "us", 1e3, true },
    { "ms", 1e6, true },
    { "s", 1e9, true },
    { "min", 60e9, true },
    { "h", 3600e9, true },
    { "KiB", 1024, false },
    { "MiB", 1048576, false },
    { "GiB", 1073741824, false },
    { "TiB", 1099511627776, false },
};

/* The number, and the row of its unit; -1: it has none. */
static bool parse(const char *text, double *number, int *unit)
{
    char *end;

    errno = 0;
    *number = strtod(text, &end);
    *unit = -1;
    if (errno != 0 || end == text || !(*number >= 0 && *number < 9.2e18))
        return false;
    if (*end == '\0')
        return true;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, end) == 0)
            *unit = (int)i;
    return *unit >= 0;
}

bool duration_parse(const char *text, long long *ns)
{
    double number;
    int unit;

    if (!parse(text, &number, &unit) || (unit >= 0 && !units[unit].is_time))
        return false;
    number *= unit >= 0 ? units[unit].factor : 1e9;
    if (!(number < 9.2e18))
        return false;
    *ns = (long long)(number + 0.5);
    return true;
}

bool amount_parse(const char *text, double *amount)
{
    int unit;

    if (!parse(text, amount, &unit))
        return false;
    *amount *= unit >= 0 ? units[unit].factor : 1;
    return true;
}

bool sample_distance_parse(const char *text, uint64_t *bytes)
{
    double number;
    int unit;

    *bytes = 0;
    if (strcmp(text, "off") == 0)
        return true;
    if (!parse(text, &number, &unit) || (unit >= 0 && units[unit].is_time))
        return false;
    number *= unit >= 0 ? units[unit].factor : 1;
    if (number > SAMPLE_DISTANCE_MAX || number != (double)(uint64_t)number)
        return false;
    *bytes = (uint64_t)number;
    return true;
}
