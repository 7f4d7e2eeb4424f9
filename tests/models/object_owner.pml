/* object_owner.pml - who owns the object of one place of an object pool
 * (client-lib/foundation/memory/object_pool.c: ec_object_create, _hand_off, _take).
 *
 * The owner is one word beside the state. Thread 1 makes the first object and hands it off, or ends without a word.
 * Threads 2 and 3 try to take that object. Meanwhile it is destroyed, and thread 4 makes the next one in the same
 * place, and hands it off or keeps it.
 *
 * Shown: of one object nobody is owner who was not told so, no two threads are told that they own the same one, and
 * nobody takes an object that his handle does not name.
 *
 * Orders are not modelled: hand-off releases, and who takes acquires. */

#define NONE 0

byte generation = 1; /* of the object in the place; it lives until it is the next one's turn */
bool live = true;
byte owner = 1;
bool over[5];  /* the thread has ended */
byte owns[5];  /* ghost: which object the thread was told that it owns; 0: none */
byte told[3];  /* ghost: how many think so of each object */

inline begin_to_own(me, which)
{
    owns[me] = which;
    told[which]++;
    assert(told[which] == 1)
}

inline end_to_own(me)
{
    told[owns[me]]--;
    owns[me] = 0
}

/* What a thread was told holds as long as the object lives. */
inline look(me)
{
    d_step { assert(owns[me] == 0 || !live || generation != owns[me] || owner == me) }
}

inline hand_off(me)
{
    look(me);
#ifdef MUTATION_HAND_OFF_WITHOUT_COMPARING
    d_step { end_to_own(me); owner = NONE }
#else
    d_step {
        end_to_own(me);
        if
        :: owner == me -> owner = NONE
        :: else /* the object is gone, and the place another's */
        fi
    }
#endif
}

/* Of the first object. */
proctype Taker(byte me)
{
    byte seen, named;

    if
    :: !live || generation != 1 -> goto done /* stale */
    :: live && generation == 1
    fi;
    seen = owner;
    if
    :: seen != NONE && !over[seen] -> goto done /* not allowed */
    :: else
    fi;
    if
    :: d_step { owner == seen -> owner = me; named = generation }
    :: owner != seen -> goto done
    fi;
    if
#ifdef MUTATION_NO_SECOND_LOOK
    :: begin_to_own(me, 1); assert(named == 1)
#else
    :: d_step { live && generation == 1 -> begin_to_own(me, 1); assert(named == 1) }
    :: d_step { !live || generation != 1 ->
#ifdef MUTATION_GIVE_BACK_WITHOUT_COMPARING
        owner = NONE
#else
        if
        :: owner == me -> owner = NONE
        :: else
        fi
#endif
       }
#endif
    fi;
    look(me);
done:
    skip
}

proctype First()
{
    if
    :: hand_off(1)
    :: d_step { end_to_own(1); over[1] = true }
    fi
}

/* The first object ends, by anybody, and thread 4 makes the next one. The state is stored last. */
proctype Next()
{
    live = false;
    owner = 4;
    d_step { generation = 2; live = true; begin_to_own(4, 2) }
    look(4);
    if
    :: hand_off(4)
    :: look(4)
    fi
}

init {
    begin_to_own(1, 1);
    atomic { run First(); run Taker(2); run Taker(3); run Next() }
}
