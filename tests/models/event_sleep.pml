/* event_sleep.pml - a reader that sleeps and a publisher that wakes it (client-lib/segment/event_port.[ch],
 * client-lib/client/subscriber.c).
 *
 *       publisher                      reader
 *                                      silence the bell
 *       tail := n                      epoch := odd
 *       full fence                     full fence
 *       epoch odd, not rung yet?       tail still old?
 *         ring                           wait for the bell
 *                                      epoch := even, look again
 *
 * The publisher does not know the reader from the beginning: its service thread posts the reader to a
 * mailbox, then a full fence, then rings it; the publishing thread looks at the mailbox before it claims
 * and after the fence of its flush.
 *
 * Each side's store waits in a buffer until a fence, or until it leaves by itself: without a fence on
 * either side both loads may be older than both stores. A publisher may be killed after its tail store
 * and before it rings; then the daemon rings for it.
 *
 * Shown: the reader never sleeps for ever while an event waits for it (a state without an end is an
 * error), and it is rung at most once for each time that it sleeps. */

#define EVENTS 3

byte tail = 0, tail_buffered = 0; /* memory, and the publisher's newest store */
byte epoch = 0, epoch_buffered = 0;
bool posted = false, posted_buffered = false; /* the mailbox */
byte bell = 0;  /* the eventfd's count */
bool dead = false;

/* A buffered store may reach memory at any moment. */
active proctype buffers()
{
end:
    do
    :: tail != tail_buffered -> tail = tail_buffered
    :: epoch != epoch_buffered -> epoch = epoch_buffered
    :: posted != posted_buffered -> posted = posted_buffered
    od
}

active proctype service()
{
    posted_buffered = true;
#ifndef MUTATION_NO_FENCE_AT_JOIN
    atomic { posted = posted_buffered }
#endif
#ifndef MUTATION_NO_RING_AT_JOIN
    bell++
#endif
}

active proctype publisher()
{
    byte event = 0, rung = 0, seen;
    bool known = false;
    byte last = 0; /* for the assertion */

    do
    :: event == EVENTS -> break
    :: event < EVENTS ->
        known = posted; /* claim */
        event++;
        tail_buffered = event;
#ifndef MUTATION_NO_FENCE_IN_PUBLISHER
        atomic { tail = tail_buffered } /* full fence: the buffer is empty before the next load */
#endif
        if
        :: true
        :: dead = true; break /* SIGKILL between commit and ring; the kernel finishes its stores */
        fi;
#ifndef MUTATION_NO_LOOK_IN_FLUSH
        known = posted;
#endif
        seen = epoch;
        if
        :: !known -> skip
#ifdef MUTATION_RING_EVERY_TIME
        :: known && seen % 2 == 1 -> assert(seen != last); last = seen; bell++
#else
        :: known && seen % 2 == 1 && seen != rung -> assert(seen != last); last = seen; rung = seen; bell++
#endif
        :: else -> skip
        fi
    od
}

/* The daemon sees the end of the process and rings all readers of its ports. */
active proctype daemon()
{
end:
    dead -> tail = tail_buffered;
#ifndef MUTATION_NO_RING_AT_DEATH
    bell++
#endif
}

inline sleep()
{
    if
    :: bell > 0
    :: dead && position == tail_buffered /* nothing waits, and nothing will: this sleep may last */
    fi
}

active proctype reader()
{
    byte position = 0;

    do
    :: position == EVENTS || (dead && position == tail_buffered) -> break
    :: else ->
        if
        :: tail > position -> position = tail /* awake: read what is there */
        :: else ->
#ifndef MUTATION_SILENCE_BEHIND_LOOK
            bell = 0; /* what rang for what was read since; a ring after this one is heard below */
#endif
            epoch_buffered = epoch_buffered + 1;
#ifndef MUTATION_NO_FENCE_IN_READER
            atomic { epoch = epoch_buffered }
#endif
#ifndef MUTATION_NO_SECOND_LOOK
            if
            :: tail > position -> skip
            :: else ->
#ifdef MUTATION_SILENCE_BEHIND_LOOK
                bell = 0;
#endif
                sleep()
            fi;
#else
            sleep();
#endif
            epoch_buffered = epoch_buffered + 1 /* the bell stays: it is silenced before the next sleep */
        fi
    od
}
