/* template.c - see template.h. */
#include "proto/tables/template.h"

#include <assert.h>
#include <string.h>

void ec_template_print(FILE *out, const char *text, const struct ec_template_hole *holes)
{
    const char *open;

    while ((open = strstr(text, "{{")) != NULL) {
        const char *name = open + 2;
        const size_t bytes = strcspn(name, "}");
        const struct ec_template_hole *hole = holes;

        fwrite(text, 1, (size_t)(open - text), out);
        while (strlen(hole->name) != bytes || memcmp(hole->name, name, bytes) != 0) {
            hole++;
            assert(hole->name != NULL);
        }
        hole->fill(out);
        text = name + bytes + 2;
    }
    fputs(text, out);
}
