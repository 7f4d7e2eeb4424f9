/* memory_sites.h - call sites as memory.report, .sites, .leaks and .snapshot tell them, with names.
 *
 * Thread: one. */
#ifndef ENGINE_CTL_MEMORY_SITES_H
#define ENGINE_CTL_MEMORY_SITES_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "engine-ctl/symbols.h"

#define SITE_NAME_BYTES 256

/* One frame in words: "spawn (npc.c:42)", "spawn", or "game+0x1234" when nothing is known. */
const char *memory_frame_name(struct symbols *symbols, const cJSON *modules, const cJSON *frame,
                              char name[SITE_NAME_BYTES]);

/* Long lists of template arguments and parameters in a name of C++ become "<...>" and "(...)", so that it fits
 * on a screen. */
void memory_name_shorten(char *name);

/* The place that a site is called after, for people: that of the frame that it tells. */
const char *memory_site_name(struct symbols *symbols, const cJSON *modules, const cJSON *site,
                             char name[SITE_NAME_BYTES]);

/* A table of sites; frames is how many of each stack are shown below its site. changes: the numbers
 * are differences, with a sign. */
struct memory_sites_view {
    struct symbols *symbols;
    size_t frames;
    bool changes;
    bool colours;
};
void memory_sites_print(const cJSON *sites, const cJSON *modules,
                        const struct memory_sites_view *view);

#endif
