/* template.h - a text with {{holes}} in it, which functions fill: scripts that are made from the tables.
 *
 *     static const struct ec_template_hole holes[] = { { "keys", print_keys }, { NULL, NULL } };
 *
 *     ec_template_print(out, "keys=\"{{keys}}\"\n", holes);
 *
 * Thread: any. */
#ifndef EC_PROTO_TABLES_TEMPLATE_H
#define EC_PROTO_TABLES_TEMPLATE_H

#include <stdio.h>

struct ec_template_hole {
    const char *name; /* NULL ends the list */
    void (*fill)(FILE *out);
};

/* A hole that is not in the list is our own mistake: assert. */
void ec_template_print(FILE *out, const char *text, const struct ec_template_hole *holes);

#endif
