/* state.h - the state of this module, for its own files. */
#ifndef ENGINE_CORED_POSTMORTEM_STATE_H
#define ENGINE_CORED_POSTMORTEM_STATE_H

#include <uv.h>

#include "postmortem/records.h"

struct postmortem {
    struct services *services;
    struct records *records;
    struct death *deaths; /* that wait for their exit status */
    uv_timer_t *timer;    /* runs while there are some */
};

#endif
