/* object_free.pml - the stack of free places of an object pool
 * (client-lib/foundation/memory/object_pool.c: place_pop, place_push).
 *
 * Three places lie on the stack. Two threads pop one or two and push them again in any order, the steps of the
 * other in between. The head holds the index of the first place and a count that changes with each pop and
 * push, both in one word.
 *
 * Shown: a place is never with two threads, and in the end each is on the stack once.
 *
 * Orders are not modelled: pop acquires what push released, and `next` is only believed when the head has
 * not changed since, in either part. */

#define PLACES 3
#define NONE 0

byte next[PLACES + 1]; /* place + 1 */
byte head_place = 1;
byte head_count = 0;
bool taken[PLACES + 1];
byte working = 2;

#ifdef MUTATION_NO_COUNT
#define UNCHANGED (head_place == seen_place)
#else
#define UNCHANGED (head_place == seen_place && head_count == seen_count)
#endif

inline pop(result)
{
    do
    :: d_step { seen_place = head_place; seen_count = head_count }
       if
       :: seen_place == NONE -> result = NONE; break
       :: else
       fi;
       after = next[seen_place];
       if
       :: d_step { UNCHANGED -> head_place = after; head_count++ }
          result = seen_place;
          assert(!taken[result]);
          taken[result] = true;
          break
       :: d_step { !UNCHANGED -> skip }
       fi
    od
}

inline push(place)
{
    taken[place] = false;
    do
    :: d_step { seen_place = head_place; seen_count = head_count }
       next[place] = seen_place;
       if
       :: d_step { UNCHANGED -> head_place = place; head_count++ }
          break
       :: d_step { !UNCHANGED -> skip }
       fi
    od
}

proctype Thread()
{
    byte seen_place, seen_count, after, one, two, round;

    do
    :: round < 2 ->
        pop(one);
        if
        :: pop(two)
        :: two = NONE
        fi;
        if
        :: one != NONE -> push(one)
        :: else
        fi;
        if
        :: two != NONE -> push(two)
        :: else
        fi;
        round++
    :: else -> break
    od;
    working--
}

proctype Last()
{
    byte place, count;
    bool seen[PLACES + 1];

    working == 0;
    place = head_place;
    do
    :: place != NONE ->
        assert(!seen[place]);
        seen[place] = true;
        count++;
        place = next[place]
    :: else -> break
    od;
    assert(count == PLACES)
}

init
{
    next[1] = 2;
    next[2] = 3;
    atomic {
        run Thread();
        run Thread();
        run Last()
    }
}
