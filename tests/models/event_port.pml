/* event_port.pml - one publisher and one reader of an event port (client-lib/segment/event_port.[ch]).
 *
 * The ring holds CELLS events of two words each. The reader begins reliable; the publisher may demote
 * it at any moment, also while it reads, and then overtakes it. Each event of the publisher makes
 * four stores, which reach memory in any order that its fences allow, as on arm64:
 *
 *       0 intent     relaxed, a release fence behind it
 *       1 2 words    header and payload
 *       3 tail       release
 *
 * Who is killed just stops: every prefix of every order is searched, so a publisher that dies
 * anywhere before its tail store must have left nothing that a reader takes for an event.
 *
 * Shown: an event that validates is whole and the next in order; what was lost is counted exactly;
 * a reader that was never demoted is never lapped; a publisher waits for it.
 *
 *     run-model: pan -m100000 */

#define EVENTS 5
#define CELLS 2
#define STORES 4 /* of one event */

#define KIND(i) ((i) % STORES)
#define EVENT(i) ((i) / STORES)
#define IS_DONE(i) ((done >> (i)) & 1)
#define BEFORE(i) ((1 << (i)) - 1) /* all stores before store i */

int done = 0;     /* bit i: store i has reached memory */
byte issued = 0;  /* stores [0, issued) were executed by the publisher */
bool demoted = false;

/* Memory. Words hold the number of the event plus 1. */
byte tail = 0, intent = 0;
byte first_word[CELLS], second_word[CELLS];
byte cursor = 0; /* stored by the reader with release: its reads come before */

/* What must be in memory before store i. */
inline prerequisites(i, mask)
{
    mask = 0;
    if
    :: KIND(i) == 3 -> /* release: all before it */
#ifdef MUTATION_TAIL_WITHOUT_RELEASE
        mask = (EVENT(i) > 0 -> 1 << (i - STORES) : 0)
#else
        mask = BEFORE(i)
#endif
    :: KIND(i) == 0 -> /* relaxed: only earlier stores of the same word */
        mask = (EVENT(i) > 0 -> 1 << (i - STORES) : 0)
    :: else -> /* words: behind the fence that stands behind the intent */
#ifdef MUTATION_NO_FENCE_BEHIND_INTENT
        mask = (EVENT(i) >= CELLS -> 1 << (i - STORES * CELLS) : 0)
#else
        mask = BEFORE(EVENT(i) * STORES + 1) | (EVENT(i) >= CELLS -> 1 << (i - STORES * CELLS) : 0)
#endif
    fi
}

inline perform(i)
{
    if
    :: KIND(i) == 0 -> intent = EVENT(i) + 1
    :: KIND(i) == 1 -> first_word[EVENT(i) % CELLS] = EVENT(i) + 1
    :: KIND(i) == 2 -> second_word[EVENT(i) % CELLS] = EVENT(i) + 1
    :: KIND(i) == 3 -> tail = EVENT(i) + 1
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
    byte event = 0;

    do
    :: event == EVENTS -> break
    :: event < EVENTS ->
        if
#ifndef MUTATION_NO_ROOM_CHECK
        :: demoted || cursor + CELLS > event -> skip /* an acquire load: what follows stays behind */
#else
        :: true
#endif
        :: !demoted && cursor + CELLS <= event -> demoted = true
        fi;
        issued = issued + 1; /* the intent; then the words; then the tail */
        issued = issued + 2;
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
