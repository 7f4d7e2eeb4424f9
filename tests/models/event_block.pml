/* event_block.pml - a block of a port's pool that is used again (client-lib/segment/event_port.[ch]).
 *
 * One block, filled for one event after the other. The reader begins reliable and may be demoted at any
 * moment. Each event makes four stores, which reach memory in any order that the fences allow:
 *
 *       0 sequence   of the block: relaxed, a release fence behind it
 *       1 2 words    of the payload
 *       3 tail       release; the event names the block's sequence
 *
 * Shown: a payload that validates is whole and the one that its event named; a reader that was never
 * demoted never finds its block used again; who loses a block loses just its event.
 *
 *     run-model: pan -m100000 */

#define EVENTS 4
#define STORES 4

#define KIND(i) ((i) % STORES)
#define EVENT(i) ((i) / STORES)
#define IS_DONE(i) ((done >> (i)) & 1)
#define BEFORE(i) ((1 << (i)) - 1)
#define ALL_WORDS 26214 /* bits 1 and 2 of each event */

int done = 0;
byte issued = 0;
bool demoted = false;

byte tail = 0, sequence = 0, first_word = 0, second_word = 0;
byte cursor = 0;

inline prerequisites(i, mask)
{
    mask = 0;
    if
    :: KIND(i) == 3 -> mask = BEFORE(i)
    :: KIND(i) == 0 -> mask = (EVENT(i) > 0 -> 1 << (i - STORES) : 0)
    :: else ->
#ifdef MUTATION_NO_FENCE_BEHIND_SEQUENCE
        mask = BEFORE(EVENT(i) * STORES) & ALL_WORDS
#else
        mask = BEFORE(EVENT(i) * STORES + 1)
#endif
    fi
}

inline perform(i)
{
    if
    :: KIND(i) == 0 -> sequence = EVENT(i) + 1
    :: KIND(i) == 1 -> first_word = EVENT(i) + 1
    :: KIND(i) == 2 -> second_word = EVENT(i) + 1
    :: KIND(i) == 3 -> tail = EVENT(i) + 1
    fi;
    done = done | (1 << i)
}

active proctype memory()
{
    byte i;
    int mask;

    do
    :: atomic {
           (done & BEFORE(issued)) != BEFORE(issued) ->
           i = 0;
           do
           :: i < issued && IS_DONE(i) -> i++
           :: i < issued && !IS_DONE(i) ->
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
#ifdef MUTATION_NO_WAIT_FOR_READER
        :: true
#else
        :: demoted || cursor >= event -> skip /* all have passed the event that used the block */
#endif
        :: !demoted && cursor < event -> demoted = true
        fi;
        issued = issued + 1; /* the sequence; then the words; then the tail */
        issued = issued + 2;
        issued = issued + 1;
        event++
    od
}

active proctype reader()
{
    byte position = 0, lost = 0, a, b, s;

    do
    :: position == EVENTS -> break
    :: position < EVENTS ->
        tail > position; /* acquire; the event at position names sequence position + 1 */
#ifdef MUTATION_VALIDATE_BEFORE_USE
        s = sequence;
#endif
        a = first_word;
        b = second_word;
#ifndef MUTATION_VALIDATE_BEFORE_USE
        s = sequence; /* behind an acquire fence */
#endif
        if
        :: s == position + 1 -> assert(a == position + 1 && b == position + 1)
        :: else -> assert(demoted); lost++
        fi;
        position++;
        cursor = position;
        a = 0; b = 0; s = 0
    od
}
