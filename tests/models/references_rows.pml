/* references_rows.pml - a thread's row of counts when the thread ends (client-lib/segment/references.h,
 * client-lib/segment/thread_rows.c), against evict in the daemon.
 *
 * references.pml has the threads of two games that live; here one game's thread A takes a row that was never
 * used, acquires a resource, and ends without releasing it. Its row goes to thread B, counts included, which
 * acquires the same resource for itself. What A held is released by B or by C, a thread that has another
 * row; it then stands below zero. Meanwhile the daemon evicts and loads again.
 *
 * Stores wait in the buffer of the thread that made them, oldest first, as in references.pml: those to
 * counts, to the number of rows that the daemon looks at, and the one that leaves the row.
 *
 * Shown: while anybody holds the resource, its bytes are in the heap, and when all is released the sum is 0.
 *
 * run-model: cc -DCOLLAPSE
 * run-model: pan -m100000 */

#define A 0
#define B 1
#define C 2
#define THREADS 3

#define ROW_C 0
#define ROW_AB 1
#define ROWS 2
#define HIGH 2 /* places of stores behind the rows */
#define USED 3

#define READY 0
#define EVICTING 1
#define GONE 2

byte generation = 1;
byte state = READY;

byte load = 1;    /* ghosts: which load's bytes are in the heap, and what is held of which */
byte in_heap = 1;
byte held_by_a;   /* by whoever releases it at last */
byte held_by_b;

bool fences = false;
short memory[4];  /* counts of ROW_C and ROW_AB, HIGH, USED */
short newest[ROWS]; /* what the owner of a row reads back */
chan buffer[THREADS] = [4] of { byte, short };

bool c_releases;  /* what A left; else B does */
bool a_done, a_holds;
byte done;

inline store(thread, place, value)
{
    buffer[thread] ! place, value
}

/* By the owner of the row. */
inline add(thread, row, delta)
{
    atomic {
        nfull(buffer[thread]) ->
        newest[row] = newest[row] + delta;
        buffer[thread] ! row, newest[row]
    }
}

proctype Memory(byte thread)
{
    byte place;
    short value;
end:
    do
    :: atomic { buffer[thread] ? place, value -> memory[place] = value; place = 0; value = 0 }
    od
}

proctype ThreadA()
{
    byte want, want_load;
    bool ready;

#ifndef MUTATION_ROW_IS_SHOWN_LATE
    store(A, HIGH, ROWS);
#endif
    if /* found now, or before the daemon began */
    :: d_step { state != GONE -> want = generation; want_load = load }
    :: d_step { want = 1; want_load = 1 }
    fi;
    add(A, ROW_AB, 1); /* G1 */
    if /* G2 */
    :: !fences
    :: fences && empty(buffer[A])
    fi;
    atomic { /* G3 */
        ready = (state == READY && generation == want);
        if
        :: ready -> held_by_a = want_load; a_holds = true
        :: else
        fi
    }
#ifdef MUTATION_ROW_IS_SHOWN_LATE
    store(A, HIGH, ROWS);
#endif
    if
    :: !ready -> add(A, ROW_AB, -1)
    :: else
    fi;
#ifdef MUTATION_COUNTS_ARE_MOVED
    if
    :: ready -> add(A, ROW_C, 1); add(A, ROW_AB, -1)
    :: else
    fi;
#endif
#ifdef MUTATION_ROW_IS_LEFT_AT_ONCE
    memory[USED] = 0; /* before its counts are there */
#else
    store(A, USED, 0);
#endif
    a_done = true
}

proctype ThreadB()
{
    byte want, want_load;
    bool ready;

    /* Acquire of USED: what A stored before is in memory. B has its own idea of what the count is. */
    atomic { a_done && memory[USED] == 0 -> newest[ROW_AB] = memory[ROW_AB] }
    if
    :: d_step { state != GONE -> want = generation; want_load = load }
        add(B, ROW_AB, 1);
        if
        :: !fences
        :: fences && empty(buffer[B])
        fi;
        atomic {
            ready = (state == READY && generation == want);
            if
            :: ready -> held_by_b = want_load
            :: else
            fi
        }
        d_step { assert(!ready || held_by_b == in_heap); held_by_b = 0 }
        add(B, ROW_AB, -1) /* G4, or nothing was held */
    :: true
    fi;
    if
    :: a_holds && !c_releases ->
        d_step { assert(held_by_a == in_heap); held_by_a = 0 }
        add(B, ROW_AB, -1)
    :: else
    fi;
    done++
}

/* It learns of what A holds once A's stores are in memory: the two have synchronised. */
proctype ThreadC()
{
    a_done && empty(buffer[A]);
    if
    :: a_holds && c_releases ->
        d_step { assert(held_by_a == in_heap); held_by_a = 0 }
        add(C, ROW_C, -1)
    :: else
    fi;
    done++
}

proctype Daemon()
{
    byte row, high;
    short sum;

    do
    :: load <= 2 ->
        state = EVICTING; /* D1 */
#ifndef MUTATION_NO_MEMBARRIER
        if /* D2 */
        :: fences
        :: !fences ->
            empty(buffer[A]);
            empty(buffer[B]);
            empty(buffer[C])
        fi;
#endif
        d_step { high = memory[HIGH]; row = 0; sum = 0 }
        do /* D3 */
        :: row < high -> d_step { sum = sum + memory[row]; row++ }
        :: else -> break
        od;
        if /* D4 */
        :: sum > 0 -> state = READY
        :: else ->
            d_step { generation++; state = GONE; in_heap = 0 }
            if
            :: load < 2 -> d_step { load++; in_heap = load; state = READY }
            :: else -> break
            fi
        fi
    od
}

/* At the end nobody holds anything, and the daemon must find that. */
proctype Judge()
{
    done == 2 && empty(buffer[A]) && empty(buffer[B]) && empty(buffer[C]);
    assert(memory[ROW_C] + memory[ROW_AB] == 0)
}

init {
    memory[HIGH] = 1; /* C was there before */
    memory[USED] = 1; /* A took it by a compare-and-swap */
    if
    :: fences = true
    :: fences = false
    fi;
    if
    :: c_releases = true
    :: c_releases = false
    fi;
    atomic {
        run Memory(A);
        run Memory(B);
        run Memory(C);
        run ThreadA();
        run ThreadB();
        run ThreadC();
        run Daemon();
        run Judge()
    }
}
