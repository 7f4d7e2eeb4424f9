/* step_ahead.pml - a sleeper that takes the next step by its own timer, before the scheduler announces it
 * (client-lib/client/clock.c; daemon/scheduler/turn.c, game.c).
 *
 * Step n is due at time 2n, and is reached then unless game time stands: a pause holds from `until` on,
 * a step that is due just then is still reached. The scheduler announces what was reached, whenever it
 * gets to that, and orders one pause at any moment, which it writes into the page before it has an effect.
 *
 *     sleeper                            scheduler
 *     now  = clock                       until = clock + LEAD or later     (pause)
 *     page: announced, until             announced = steps reached by the clock
 *     due(announced + 1) <= now, until:  taken, if it is not too late for that
 *
 * Shown: no step is told that the scheduler never announces; none is told twice, nor before its time; and
 * the sleeper is one step ahead at most. The clock may go on between any two of these stores and loads. */

#define STEPS 3
#define END 8
#define NEVER 100
#define LATE 1 /* how long after its time a step may still be taken */

#define DUE(n) ((n) * 2)
#define EARLIER(a, b) ((a) < (b) -> (a) : (b))
#define REACHED(at, stand) (EARLIER(EARLIER(at, stand) / 2, STEPS))

byte clock = 0;
byte until = NEVER;
byte announced = 0;
byte told = 0;

active proctype time()
{
    do
    :: clock < END -> clock++
    :: clock == END -> break
    od
}

active proctype scheduler()
{
    byte now;

    do
    :: REACHED(clock, until) > announced -> announced = REACHED(clock, until) /* any number at once */
    :: until == NEVER && clock < END ->
#ifdef MUTATION_NO_LEAD
        now = clock;
        until = now
#else
        /* Announced that long before its effect, more than a turn can take: one step of the clock. */
        atomic { now = clock; until = now + 1 }
#endif
    :: clock == END && REACHED(clock, until) <= announced -> break
    :: clock == END && until != NEVER -> skip
    od
}

active proctype sleeper()
{
    byte now, step, stand;

    do
    :: clock == END -> break
    :: clock < END ->
#ifdef MUTATION_PAGE_FIRST
        step = announced;
        stand = until;
        now = clock;
#else
        now = clock;
        step = announced;
        stand = until;
#endif
        if
        :: step > told -> told = step
#ifdef MUTATION_SEVERAL
        :: step <= told && REACHED(now, stand) > told -> told = REACHED(now, stand)
#else
        :: step <= told && REACHED(now, stand) == step + 1 && now <= DUE(step + 1) + LATE && step == told ->
            assert(DUE(step + 1) <= clock);
            told = step + 1;
#endif
        :: else -> skip
        fi;
        assert(told <= announced + 1)
    od;
    assert(told <= REACHED(END, until))
}
