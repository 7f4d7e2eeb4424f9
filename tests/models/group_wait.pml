/* group_wait.pml - how the scheduler waits for the members of a step clock's group
 * (daemon/scheduler/group.c, sleeper.c; client-lib/client/step_member.c).
 *
 * Each of two required members simulates step n, stores done = n and wakes who sleeps on done. The
 * scheduler announces step n + 1 when all that are not released are done with n. It looks at them in
 * their order, and sleeps on the command word and on the done of the first that is not ready, with the
 * values that it decided by: the kernel puts it to sleep only if both still hold.
 *
 *     scheduler                          member
 *     seen = done                        done = n            (release)
 *     not ready: sleep while done==seen  wake done
 *
 * A member may be stopped for a while or for ever: its budget releases it. A released one that finishes
 * anything is required again, for the next step.
 *
 * Shown: no wake-up is lost, so that all steps are announced without the budget of a member that is
 * alive; nobody is more than one step apart from another that is not released; a stopped member does
 * not stop the others. A scheduler that sleeps for ever is a state without end: the search finds it. */

#define STEPS 3
#define MEMBERS 2
#define NOBODY 255

byte step = 0;            /* announced */
byte done[MEMBERS];       /* of each member */
bool released[MEMBERS];
byte left_at[MEMBERS];    /* done, when it was released */
byte from[MEMBERS];       /* first step that waits for it */
bool stopped[MEMBERS];    /* for ever */
bool finished = false;    /* all steps were announced */

/* The futex of the scheduler: on whose done it sleeps. */
byte sleeps_on = NOBODY;

/* done == seen was checked and the sleeper queued in one: that is what the kernel promises. */
inline sleep_while(member, seen)
{
    atomic {
        if
        :: done[member] == seen -> sleeps_on = member
        :: else -> skip
        fi
    };
    if
    :: sleeps_on == NOBODY -> skip
    :: sleeps_on != NOBODY && stopped[member] -> /* its budget is over, which only time can tell */
        atomic {
            sleeps_on = NOBODY;
            released[member] = true;
            left_at[member] = done[member]
        }
    fi
}

active proctype scheduler()
{
    byte i, seen;
    bool ready;

    do
    :: step == STEPS -> break
    :: step < STEPS ->
        ready = true;
        i = 0;
        do
        :: i == MEMBERS -> break
        :: i < MEMBERS ->
            seen = done[i];
            if
            :: released[i] ->
                if
                :: seen != left_at[i] ->
                    released[i] = false;
                    from[i] = step + 1
                :: else -> skip
                fi
            :: !released[i] && (step < from[i] || seen == step) -> skip
            :: else ->
                ready = false;
#ifdef MUTATION_SECOND_LOAD
                seen = done[i]; /* it may be ready by now */
#endif
                break
            fi;
            i++
        od;
        if
        :: ready ->
            atomic {
                /* Whoever takes part has finished the step before. */
                assert(released[0] || step < from[0] || done[0] == step);
                assert(released[1] || step < from[1] || done[1] == step);
                step++
            }
        :: !ready -> sleep_while(i, seen)
        fi
    od;
    finished = true
}

proctype member(byte self; bool may_stop)
{
    byte told = 0;

    do
    :: finished -> break
    :: step != told ->
        told = step; /* the newest: what was missed meanwhile is passed over */
        if
        :: may_stop -> /* hung or killed while it simulates, or only late */
            stopped[self] = true;
            if
            :: goto end
            :: stopped[self] = false
            fi
        :: true -> skip
        fi;
#ifdef MUTATION_WAKE_BEFORE_DONE
        atomic { if :: sleeps_on == self -> sleeps_on = NOBODY :: else -> skip fi };
        done[self] = told
#else
        done[self] = told;
#ifndef MUTATION_NO_WAKE
        atomic { if :: sleeps_on == self -> sleeps_on = NOBODY :: else -> skip fi }
#endif
#endif
    od;
end:
    skip
}

init
{
    atomic {
        from[0] = 1;
        from[1] = 1;
        run member(0, false);
        run member(1, true)
    }
}
