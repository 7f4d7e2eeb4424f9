/* references.pml - acquire in games against evict in the daemon (client-lib/segment/references.h).
 *
 * spin knows only sequential consistency, so each thread's store buffer is written out: a store to a
 * count goes into a queue first and reaches memory at any later moment. A load of life reads memory at
 * once, and may so come before the store: that is what the barrier is for.
 *
 * Game 0 has two threads, game 1 has one; each acquires and releases one resource by a handle that it
 * has found, now or long ago (which stands for all that it did before). One game may be killed at any step. What one thread of game 0 has
 * acquired, the other may release; it learns of it after the count has reached memory, since the two
 * must have synchronised. The daemon evicts: mark, barrier, sum row by row, then free or unmark; what
 * was freed is loaded again under the next generation. Or it replaces the resource, because its file
 * changed: the name moves to another entry, which is not shown, and this one begins a generation that is
 * never READY; the bytes are freed when the counts are found to be 0. It learns of a death at any time
 * afterwards.
 *
 * Shown: who holds a reference finds in the heap what its handle was made for.
 *
 * run-model: cc -DCOLLAPSE
 * run-model: pan -m200000 */

#define GAMES 2
#define THREADS 3 /* 0 and 1 are of game 0, 2 is of game 1; each has a row of counts */
#define GAME_OF(thread) ((thread) / 2)
#define LOADS 2

#define READY 0
#define EVICTING 1
#define GONE 2

/* life is one word: both are read and written in one step. */
byte generation = 1;
byte state = READY;

/* Ghosts: which load's bytes lie in the heap (0: none), and which each thread believes to hold. */
byte load = 1;
byte in_heap = 1;
byte holds[THREADS];

bool fences = false;   /* the games fence themselves; else the daemon does it by membarrier */
short count[THREADS]; /* in memory */
short newest[THREADS];/* what the owner of the row reads back */
chan buffer[THREADS] = [2] of { short };

bool killed[GAMES];

inline store_count(row, delta)
{
    atomic {
        nfull(buffer[row]) ->
        newest[row] = newest[row] + delta;
        buffer[row] ! newest[row]
    }
}

proctype Memory(byte row)
{
    short value;
end:
    do
    :: atomic { buffer[row] ? value -> count[row] = value; value = 0 }
    od
}

/* G3 */
#ifdef MUTATION_STATE_ONLY
#define READY_FOR_US (state == READY)
#else
#define READY_FOR_US (state == READY && generation == want)
#endif

proctype Thread(byte thread)
{
    byte want, want_load, row;
    bool ready;

    {
        if
        :: d_step { state != GONE -> want = generation; want_load = load }
        :: d_step { want = 1; want_load = 1 }
        fi;
#ifdef MUTATION_LOOK_FIRST
        ready = READY_FOR_US;
#endif
        store_count(thread, 1); /* G1 */
#ifndef MUTATION_NO_FENCE_IN_GAME
        if /* G2 */
        :: !fences
        :: fences && empty(buffer[thread])
        fi;
#endif
#ifndef MUTATION_LOOK_FIRST
        ready = READY_FOR_US;
#endif
        row = thread;
        if
        :: ready ->
            holds[thread] = want_load;
            if
            :: true
            :: thread < 2 && empty(buffer[thread]) -> row = 1 - thread
            fi;
#ifdef MUTATION_RELEASE_BEFORE_USE
            store_count(row, -1);
            row = 0
#endif
            /* The bytes were read until now. A loss at any earlier moment still shows here. */
            d_step {
                assert(holds[thread] == in_heap);
                holds[thread] = 0
            }
        :: else
        fi;
#ifdef MUTATION_RELEASE_BEFORE_USE
        if
        :: !ready -> store_count(thread, -1)
        :: else
        fi
#else
        store_count(row, -1) /* G4 */
#endif
    } unless { killed[GAME_OF(thread)] }
}

/* SIGKILL at any step, or after the last: nothing of the game reads any more. Its buffered stores still
 * reach memory. */
proctype Killer()
{
    if
    :: d_step { killed[0] = true; holds[0] = 0; holds[1] = 0 }
    :: d_step { killed[1] = true; holds[2] = 0 }
    fi
}

proctype Daemon()
{
    byte row;
    short sum;
    bool held, replacing;

    do
    :: load <= LOADS ->
        if /* D1 */
        :: state = EVICTING
        :: d_step { generation++; state = GONE; replacing = true }
        fi;
#ifndef MUTATION_NO_MEMBARRIER
        if /* D2: for each buffer there is a moment in it at which it was empty */
        :: fences
        :: !fences ->
            empty(buffer[0]);
            empty(buffer[1]);
            empty(buffer[2])
        fi;
#endif
        do /* D3 */
        :: row < THREADS ->
            atomic {
                sum = (row == 1 -> sum : 0) + count[row];
                if
                :: row != 0 && sum > 0 -> held = true
                :: row != 0 && sum > 0 && killed[GAME_OF(row)] /* the kernel has told */
                :: else
                fi;
                row++
            }
        :: else -> break
        od;
#ifdef MUTATION_BROKEN_CONNECTION_IS_A_DEATH
        held = false;
#endif
        atomic { sum = 0; row = 0 }
#ifdef MUTATION_REPLACED_BYTES_GO_AT_ONCE
        if
        :: replacing -> held = false
        :: else
        fi;
#endif
        if /* D4 */
        :: held && replacing -> break /* looked for again later, which is as if this look came then */
        :: !held && replacing -> in_heap = 0; break
        :: held && !replacing -> d_step { state = READY; held = false }
        :: else ->
            d_step {
#ifndef MUTATION_SAME_GENERATION
                generation++;
#endif
                state = GONE;
                in_heap = 0
            }
            if
            :: load < LOADS -> d_step { load++; in_heap = load; state = READY }
            :: else -> break
            fi
        fi
    od
}

init {
    if
    :: fences = true
    :: fences = false
    fi;
    atomic {
        run Memory(0);
        run Memory(1);
        run Memory(2);
        run Thread(0);
        run Thread(1);
        run Thread(2);
        run Killer();
        run Daemon()
    }
}
