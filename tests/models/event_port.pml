/* event_port.pml - one publisher and one reader of an event port (client-lib/segment/event_port.[ch]).
 *
 * The ring holds CELLS events of two words each. The reader begins reliable; the publisher may demote
 * it at any moment, also while it reads, and then overtakes it. It may claim three cells, scribble over
 * them, and commit one. Each event makes five stores, which reach memory in any order that the fences
 * allow, as on arm64:
 *
 *       0 intent     relaxed, a release fence behind it; never less than before
 *       1 2 words    header and payload
 *       3 scribbles  over the cells that were claimed and not committed
 *       4 tail       release
 *
 * Who is killed just stops: every prefix of every order is searched, so a publisher that dies
 * anywhere before its tail store must have left nothing that a reader takes for an event.
 *
 * Shown: an event that validates is whole and the next in order; what was lost is counted exactly;
 * a reader that was never demoted is never lapped; a publisher waits for it.
 *
 *     run-model: pan -m100000 */

#define EVENTS 5
#define CELLS 3
#define STORES 5 /* of one event */
#define SCRIBBLE 255

#define KIND(i) ((i) % STORES)
#define EVENT(i) ((i) / STORES)
#define ALL_WORDS 15153614 /* bits 1, 2 and 3 of each event */
#define IS_DONE(i) ((done >> (i)) & 1)
#define BEFORE(i) ((1 << (i)) - 1) /* all stores before store i */

int done = 0;     /* bit i: store i has reached memory */
byte issued = 0;  /* stores [0, issued) were executed by the publisher */
bool demoted = false;
byte claimed[EVENTS];      /* cells: 1 or 3 */
byte intent_value[EVENTS]; /* what event i stores */

/* Memory. Words hold the number of the event plus 1. */
byte tail = 0, intent = 0;
byte first_word[CELLS], second_word[CELLS];
byte cursor = 0; /* stored by the reader with release: its reads come before */

/* What must be in memory before store i. */
inline prerequisites(i, mask)
{
    mask = 0;
    if
    :: KIND(i) == 4 -> /* release: all before it */
#ifdef MUTATION_TAIL_WITHOUT_RELEASE
        mask = (EVENT(i) > 0 -> 1 << (i - STORES) : 0)
#else
        mask = BEFORE(i)
#endif
    :: KIND(i) == 0 -> /* relaxed: only earlier stores of the same word */
        mask = (EVENT(i) > 0 -> 1 << (i - STORES) : 0)
    :: else -> /* words: behind the fence that stands behind the intent */
#ifdef MUTATION_NO_FENCE_BEHIND_INTENT
        /* Stores to the same words stay in order: those of earlier events, and their scribbles. */
        mask = BEFORE(EVENT(i) * STORES) & ALL_WORDS
#else
        mask = BEFORE(EVENT(i) * STORES + 1) | (KIND(i) == 3 -> (3 << (i - 2)) : 0)
#endif
    fi
}

inline perform(i)
{
    if
    :: KIND(i) == 0 -> intent = intent_value[EVENT(i)]
    :: KIND(i) == 1 -> first_word[EVENT(i) % CELLS] = EVENT(i) + 1
    :: KIND(i) == 2 -> second_word[EVENT(i) % CELLS] = EVENT(i) + 1
    :: KIND(i) == 3 ->
        if
        :: claimed[EVENT(i)] == 3 ->
            first_word[(EVENT(i) + 1) % CELLS] = SCRIBBLE;
            first_word[(EVENT(i) + 2) % CELLS] = SCRIBBLE
        :: else -> skip
        fi
    :: KIND(i) == 4 -> tail = EVENT(i) + 1
    fi;
    done = done | (1 << i)
}

/* Lets issued stores reach memory, in any order that is allowed. */
active proctype memory()
{
    byte i;
    int mask;

    do
    :: atomic {
           done != BEFORE(EVENTS * STORES) && (done & BEFORE(issued)) != BEFORE(issued) ->
           i = 0;
           do
           :: i < issued && IS_DONE(i) -> i++
           :: i < issued && !IS_DONE(i) -> /* this one, or a later one */
               if
               :: break
               :: i++
               fi
           :: i >= issued -> break
           od;
           if
           :: i < issued ->
               prerequisites(i, mask);
               if
               :: (done & mask) == mask -> perform(i)
               :: else -> skip
               fi
           :: else -> skip
           fi;
           mask = 0;
           i = 0
       }
    :: done == BEFORE(EVENTS * STORES) -> break
    od
}

active proctype publisher()
{
    byte event = 0, highest = 0;

    do
    :: event == EVENTS -> break
    :: event < EVENTS ->
        if
        :: claimed[event] = 1
        :: claimed[event] = 3
        fi;
        if
#ifndef MUTATION_NO_ROOM_CHECK
        :: demoted || cursor + CELLS >= event + claimed[event] -> skip /* an acquire load: what follows stays behind */
#else
        :: true
#endif
        :: !demoted && cursor + CELLS < event + claimed[event] -> demoted = true
        fi;
#ifdef MUTATION_INTENT_GOES_BACK
        highest = event + claimed[event];
#else
        if
        :: event + claimed[event] > highest -> highest = event + claimed[event]
        :: else -> skip
        fi;
#endif
        intent_value[event] = highest;
        issued = issued + 1; /* the intent; then words and scribbles; then the tail */
        issued = issued + 3;
        issued = issued + 1;
        event++
    od
}

active proctype reader()
{
    byte position = 0, seen = 0, lost = 0;
    byte t, a, b, i;

    do
    :: seen + lost == EVENTS -> break
    :: seen + lost < EVENTS ->
        atomic { tail > position -> t = tail } /* acquire: the words are loaded after it */
        if
        :: t - position > CELLS -> goto lapped
        :: else -> skip
        fi;
#ifdef MUTATION_VALIDATE_BEFORE_USE
        i = intent;
#endif
#ifdef MUTATION_CURSOR_BEFORE_USE
        cursor = position + 1;
#endif
        a = first_word[position % CELLS];
        b = second_word[position % CELLS];
#ifndef MUTATION_VALIDATE_BEFORE_USE
        i = intent; /* behind an acquire fence: after the words */
#endif
        if
        :: i > position + CELLS -> goto lapped
        :: else -> skip
        fi;
        assert(a == position + 1 && b == position + 1);
        seen++;
        position++;
        cursor = position; /* release: after the words were loaded */
        goto next;
lapped:
        assert(demoted); /* a reader in time is never overtaken */
        i = intent;
        if
        :: i > CELLS + position ->
            lost = lost + (i - CELLS - position);
            position = i - CELLS;
            cursor = position
        :: else -> skip
        fi;
next:
        assert(seen + lost == position);
        t = 0; a = 0; b = 0; i = 0
    od
}
