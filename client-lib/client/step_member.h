/* client/step_member.h - what a member of a step clock's group writes down, for clock.c. */
#ifndef EC_CLIENT_STEP_MEMBER_H
#define EC_CLIENT_STEP_MEMBER_H

#include <engine-core/clock.h>

/* It was told of a step whose time, with the phase, had come at due_ns of real time. */
void ec_step_member_woken(struct ec_step_clock *clock, uint64_t step, int64_t due_ns,
                          int64_t now_ns);

/* It is done with the step told last: say so, and wake the scheduler if that waits. */
void ec_step_member_finished(struct ec_step_clock *clock, int64_t now_ns);

#endif
