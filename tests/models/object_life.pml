/* object_life.pml - the lives of one place of an object pool
 * (client-lib/foundation/memory/object_pool.c: ec_object_create, _get, _destroy, _destroy_later, _flush).
 *
 * The state is one word: generation and the flags live and put off. The owner destroys its object and makes the
 * next one in the same place; two other threads put off the object that they know, one flushes, and one gets
 * the object of the first life. Handles are generations.
 *
 * Shown: each life ends once, only one that is on the list of those put off is flushed, the place is on that list
 * once at most, it has no second object while it has one, and who gets an object gets that of his handle.
 *
 * Orders are not modelled: between the end of a life and the object of the next there is a release fence, and who
 * gets it has an acquire fence between the object and his second look at the state. */

byte generation = 0;
bool live = false;
bool put_off = false; /* flag of the state */
bool listed = false;  /* ghost and list: the place is linked in it */
bool is_free = true;  /* ghost: the place may be taken */
byte ended[4];        /* ghost: ends of each life */
byte object = 0;      /* of which life is the object that the place names */
byte working = 5;

inline end_life(which)
{
    ended[which]++;
    assert(ended[which] == 1);
    assert(!is_free);
    is_free = true
}

/* The owner: three lives, one after the other. */
proctype Owner()
{
    byte mine, life;

    do
    :: d_step { life < 3 && is_free -> is_free = false } /* from the stack of free places */
        mine = generation + 1;
        object = mine;
        d_step { assert(!live); generation = mine; live = true; put_off = false }
        if
        :: /* destroy it now */
            if
#ifdef MUTATION_DESTROY_WHAT_WAS_PUT_OFF
            :: d_step { live && generation == mine -> live = false; put_off = false }
                end_life(mine)
#else
            :: d_step { live && generation == mine && !put_off -> live = false }
                end_life(mine)
#endif
            :: d_step { !(live && generation == mine) || put_off -> skip } /* a flush will, or did */
            fi
        :: true /* leave it to the others */
        fi;
        life++
    :: life < 3 && !is_free -> break /* it has its object: no other comes here */
    :: life == 3 -> break
    od;
    working--
}

/* Knows the handle of one life. */
proctype PutOff(byte known)
{
#ifdef MUTATION_PUT_OFF_IN_TWO_STEPS
    bool good;

    good = live && generation == known && !put_off;
    if
    :: good -> put_off = true; assert(!listed); listed = true
    :: else
    fi;
#else
    if
    :: d_step { live && generation == known && !put_off -> put_off = true }
        assert(!listed);
        listed = true
    :: d_step { !(live && generation == known && !put_off) -> skip }
    fi;
#endif
    working--
}

proctype Flush()
{
    byte round, which;

    do
    :: round < 3 ->
        if
        :: d_step { listed -> listed = false }
            assert(live && put_off);
            which = generation;
            d_step { live = false; put_off = false }
            end_life(which)
        :: d_step { !listed -> skip }
        fi;
        round++
    :: else -> break
    od;
    working--
}

/* Knows the handle of the first life. */
proctype Get()
{
    byte found;

    if
    :: d_step { live && generation == 1 -> skip }
        found = object;
        if
#ifdef MUTATION_GENERATION_ALONE
        :: generation == 1 -> assert(found == 1)
#else
        :: live && generation == 1 -> assert(found == 1)
#endif
        :: else
        fi
    :: d_step { !(live && generation == 1) -> skip }
    fi;
    working--
}

init
{
    atomic {
        run Owner();
        run PutOff(1);
        run PutOff(2);
        run Flush();
        run Get()
    }
}
