/* event_cursor.pml - a cursor slot that is given to another reader while a publisher looks at it
 * (client-lib/segment/event_port.[ch], client-lib/client/subscriber_reading.c).
 *
 *       publisher of port P             reading thread               daemon
 *                                       reads with the slot          the port or the reader goes
 *       removes the old reader <---------------------------------- tells P (only of its own readers)
 *                                       leaves: owner := 0  <------- gives the slot to a reader of P
 *       knows the new reader   <---------------------------------- tells P
 *       owner (acquire): the new one?   position := start
 *       then position (acquire)         owner := new (release)
 *       limit := position + ring        reads P, position := ...
 *
 * The daemon gives a slot away before anybody has done what it said, so P may know the new reader while
 * the old one still moves the cursor, and may stand between reading that cursor and keeping what follows
 * from it. Who had the slot before is one of two: a reader of another port, whose positions mean nothing
 * in P, or an earlier reader of P, whom P still waits for by the same words. The two words of the slot
 * reach memory in any order that the release allows. The ring itself is event_port.pml's affair: here it
 * is three numbers that everybody sees at once.
 *
 * Shown: from the moment that P knows a reliable reader it overwrites nothing that this one has not
 * passed; it never takes an honest reader for a broken one; it never waits for ever (a state without an
 * end is an error). */

#define EVENTS 6
#define CELLS 2
#define NOBODY 0
#define OLD 1 /* an earlier reader of P */
#define OTHER 2 /* a reader of another port */
#define NEW 3
#define NEVER 255

byte tail = 0, intent = 0; /* of P: flushed, and claimed */

/* The slot: memory, and what the reading thread stored last. */
byte position, position_buffered, owner, owner_buffered;

bool given = false;                           /* the slot, by the daemon */
bool removal_posted = false, add_posted = false; /* P's mailbox, in this order */
byte promised_from = NEVER;                   /* P waits for the new reader from here on */

#ifdef MUTATION_OWNER_WITHOUT_RELEASE
#define MAY_OWNER_BE_SEEN true
#else
#define MAY_OWNER_BE_SEEN (position == position_buffered) /* release: what was stored before is there */
#endif

/* A store of the reading thread reaches memory at any moment; each word's in their order. */
proctype buffers()
{
end:
    do
    :: atomic { position != position_buffered -> position = position_buffered }
    :: atomic { owner != owner_buffered && MAY_OWNER_BE_SEEN -> owner = owner_buffered }
    od
}

proctype daemon()
{
    given = true;
    if
    :: owner_buffered == OLD -> removal_posted = true
    :: else -> skip
    fi;
    add_posted = true
}

/* What P knows of its reader. */
byte peer; /* NOBODY, OLD or NEW */
bool admitted;
byte joined, limit = 0;

inline apply_changes()
{
    atomic {
        if
        :: removal_posted ->
            removal_posted = false;
            if
            :: peer == OLD -> peer = NOBODY
            :: else -> skip
            fi
        :: else -> skip
        fi;
        if
        :: add_posted && !removal_posted ->
            add_posted = false;
            peer = NEW;
            admitted = false;
            joined = tail;
            promised_from = (intent > joined + CELLS -> intent - CELLS : joined)
        :: else -> skip
        fi;
#ifndef MUTATION_LIMIT_IS_KEPT
        limit = 0 /* look at the cursor again */
#endif
    }
}

/* Sets the limit. */
inline look_at_cursor()
{
    if
    :: peer == NEW && !admitted ->
#ifdef MUTATION_CURSOR_LOADED_FIRST
        c = position;
#endif
        if
#ifdef MUTATION_OWNER_DOES_NOT_NAME_THE_PORT
        :: owner != NOBODY ->
#else
        :: owner == NEW -> /* acquire */
#endif
#ifndef MUTATION_CURSOR_LOADED_FIRST
            c = position;
#endif
#ifndef MUTATION_NO_CHECK_AT_ADMISSION
            admitted = (c <= event && c + CELLS >= intent)
#else
            admitted = true
#endif
        :: else -> skip
        fi
    :: else -> skip
    fi;
    if
    :: peer == NOBODY -> c = NEVER
    :: peer == OLD || (peer == NEW && admitted) -> c = position
#ifdef MUTATION_NOT_WAITED_FOR_BEFORE_ADMISSION
    :: peer == NEW && !admitted -> c = NEVER
#else
    :: peer == NEW && !admitted ->
        c = (intent > joined + CELLS -> intent - CELLS : joined)
#endif
    fi;
    if
    :: c != NEVER && (c > event || c + CELLS < intent) ->
        assert(peer == OLD); /* who is gone may look broken */
        peer = NOBODY;
        c = NEVER
    :: else -> skip
    fi;
    limit = (c == NEVER -> event + 2 * CELLS : c + CELLS) /* c may be of a reader that is gone by now */
}

proctype publisher()
{
    byte event = 0, c;

    do
    :: event == EVENTS -> break
    :: event < EVENTS ->
        apply_changes();
again:
        if
        :: event + 1 > limit ->
            look_at_cursor();
            if
            :: event + 1 > limit -> /* full: what is open is flushed, then the program tries again */
                tail = event;
                if
                :: removal_posted || add_posted -> apply_changes()
                :: peer == OLD && position + CELLS >= event + 1
                :: peer == NEW && owner == NEW && position + CELLS >= event + 1
                fi;
                goto again
            :: else -> skip
            fi
        :: else -> skip
        fi;
        c = 0;
        atomic {
            if
            :: event + 1 > intent -> intent = event + 1
            :: else -> skip
            fi
        }
        event++;
        if
        :: tail = event; apply_changes() /* flush */
        :: event < EVENTS /* a batch stays open */
        fi
    od
}

/* One event of P by the reader that has the slot. */
inline read_event(at)
{
    atomic {
        tail > at ->
        if
        :: intent > at + CELLS ->
            assert(owner_buffered != NEW || at < promised_from); /* it is waited for */
            at = intent - CELLS
        :: else -> at++
        fi;
        position_buffered = at
    }
}

proctype reading_thread()
{
    byte at = 0, i;

    do
    :: given -> break /* once it has heard of it; it may go on reading for a while */
    :: owner_buffered == OLD && at < EVENTS && tail > at -> read_event(at)
    :: owner_buffered == OTHER -> atomic { /* positions of another port: any */
           select(i : 0 .. EVENTS);
           position_buffered = i;
           i = 0
       }
    od;
    owner_buffered = NOBODY;
    /* In P: at the tail, or where P began. */
    if
    :: at = tail
    :: at = 0
    fi;
#ifdef MUTATION_OWNER_BEFORE_POSITION
    owner_buffered = NEW;
    position_buffered = at;
#else
    position_buffered = at;
    owner_buffered = NEW;
#endif
    do
    :: at == EVENTS -> break
    :: at < EVENTS -> read_event(at)
#ifdef MUTATION_OLD_READING_KEEPS_THE_SLOT
    :: at < EVENTS -> position_buffered = EVENTS - 1
#endif
    od
}

init
{
    atomic {
        if
        :: owner = OLD; peer = OLD
        :: owner = OTHER; peer = NOBODY
        fi;
        owner_buffered = owner;
        run buffers();
        run daemon();
        run publisher();
        run reading_thread()
    }
}
