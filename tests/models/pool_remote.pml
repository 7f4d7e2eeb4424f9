/* pool_remote.pml - blocks on their way home while their group changes its owner
 * (client-lib/foundation/memory/pool_heap.c).
 *
 * One group of three blocks, all with the users. Two threads that own no group free them: each looks
 * up the owner and, later, pushes the block to what was the owner then. Two heaps drain their lists,
 * take the group from each other, and unmap it when it is empty. A heap's lock is held for all that
 * concerns its groups; for a second lock nobody waits.
 *
 * The bitmap is written as it is in the program: read, changed, and stored in separate steps. Orders
 * are not modelled: a push releases and a drain acquires, the rest is under locks, and the owner is
 * read as it was at any time since the block was last touched, which these steps include.
 *
 * Shown: no bit is lost, no freed group is touched, and in the end each block is home. */

#define HEAPS 2
#define ALL 7

byte owner = 0;   /* of the group */
byte bitmap = 0;  /* blocks that lie free in the group */
byte live = ALL;  /* ghost: blocks that are with the users */
bool mapped = true;
byte remote[HEAPS];
bool locked[HEAPS];
byte working = 4; /* processes that have not ended */

/* Put blocks into the bitmap; under the lock of the heap that owns the group. */
inline put(bits)
{
    assert(mapped);
    word = bitmap;
    bitmap = word | bits
}

/* Under the lock of this heap, by any thread. */
inline drain(heap)
{
    d_step { taken = remote[heap]; remote[heap] = 0 }
    if
    :: taken != 0 ->
        assert(mapped);
        seen = owner;
        if
#ifdef MUTATION_KEEP_WHAT_IS_NOT_OURS
        :: true -> put(taken)
#else
        :: seen == heap -> put(taken)
        :: else -> remote[seen] = remote[seen] | taken
#endif
        fi
    :: else
    fi
}

inline steal(mine, theirs)
{
    if
    :: owner == theirs ->
#ifndef MUTATION_STEAL_UNLOCKED
        if
        :: d_step { !locked[theirs] -> locked[theirs] = true }
#endif
            drain(theirs);
            if
            :: owner == theirs && bitmap != 0 -> owner = mine
            :: else
            fi;
#ifndef MUTATION_STEAL_UNLOCKED
            locked[theirs] = false
        :: locked[theirs]
        fi
#endif
    :: else
    fi
}

#ifdef MUTATION_UNMAP_WHEN_UNUSED
#define UNNEEDED (live == 0)
#else
#define UNNEEDED (bitmap == ALL)
#endif

proctype Heap(byte h)
{
    byte word, taken, seen, round;
    byte other = 1 - h;

    do
    :: round < 2 ->
        d_step { !locked[h] -> locked[h] = true }
        drain(h);
        if
        :: mapped -> steal(h, other)
        :: true
        fi;
        if
        :: mapped && owner == h && UNNEEDED -> mapped = false
        :: true
        fi;
        locked[h] = false;
        round++
    :: else -> break
    od;
    working--
}

proctype Freer(byte blocks)
{
    byte block, seen;

    do
    :: blocks != 0 ->
        block = blocks & (255 - (blocks - 1)); /* the lowest */
        blocks = blocks - block;
        assert(mapped);
        seen = owner;
        d_step { live = live - block; remote[seen] = remote[seen] | block }
    :: else -> break
    od;
    working--
}

/* When nothing else runs, two drains of each heap bring home what was passed on. */
proctype Last()
{
    byte word, taken, seen, round;

    working == 0;
    do
    :: round < 2 && mapped ->
        drain(0);
        drain(1);
        round++
    :: else -> break
    od;
    assert(live == 0 && remote[0] == 0 && remote[1] == 0);
    assert(!mapped || bitmap == ALL)
}

init
{
    atomic {
        run Heap(0);
        run Heap(1);
        run Freer(3);
        run Freer(4);
        run Last()
    }
}
