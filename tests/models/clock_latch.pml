/* clock_latch.pml - the latch of the clock page (client-lib/segment/clock_page.[ch]).
 *
 * spin knows only sequential consistency, so the writer's store buffer is written out: its stores
 * reach memory in any order that its fences and releases allow, as on arm64. Two writes of a
 * snapshot of two words into two copies make twelve stores:
 *
 *       write 1     write 2
 *       0           6         latch odd     (release, then a release fence)
 *       1 2         7 8       copy 0
 *       3           9         latch even    (release, then a release fence)
 *       4 5        10 11      copy 1
 *
 * The memory performs them one by one, and may stop for ever at any point: the writer was killed.
 * The reader's loads are in program order but for what an absent acquire would allow.
 *
 * Shown: what a reader takes for whole is whole (no word of another snapshot), a second read never
 * goes back, and a reader needs at most one try more than the latch turns: nobody waits for a dead
 * writer. */

#define STORES 12

/* Which stores must have reached memory before store i: a bit mask. */
#define ALL_BEFORE(i) ((1 << (i)) - 1)

#define LATCH_ODD_1 0
#define LATCH_EVEN_1 3
#define LATCH_ODD_2 6
#define LATCH_EVEN_2 9

byte latch = 0;
byte copy_word[4]; /* copy 0: words 0 and 1; copy 1: words 2 and 3 */
short done = 0;    /* bit i: store i has reached memory */

/* What must be in memory before store i: for a latch store all before it, by its release; for others
 * all up to the last latch store, by the fence behind that. */
inline order_of(i, mask)
{
    mask = 0;
    if
    :: i == LATCH_ODD_1 || i == LATCH_EVEN_1 || i == LATCH_ODD_2 || i == LATCH_EVEN_2 ->
#ifdef MUTATION_LATCH_WITHOUT_RELEASE
        /* Stores of the same word stay in order, and the fences behind the others hold. */
        if
        :: i == LATCH_EVEN_2 -> mask = ALL_BEFORE(LATCH_ODD_2 + 1)
        :: i == LATCH_ODD_2 -> mask = ALL_BEFORE(LATCH_EVEN_1 + 1)
        :: i == LATCH_EVEN_1 -> mask = ALL_BEFORE(LATCH_ODD_1 + 1)
        :: else -> skip
        fi
#else
        mask = ALL_BEFORE(i)
#endif
    :: else ->
        /* A fence orders all that is before it, and each latch store has one behind it. */
#ifdef MUTATION_NO_FENCE_BEHIND_LATCH
        /* Only the coherence of one word remains: the same word was stored six stores ago. */
        if
        :: i > 6 -> mask = 1 << (i - 6)
        :: else -> skip
        fi
#else
        if
        :: i > LATCH_EVEN_2 -> mask = ALL_BEFORE(LATCH_EVEN_2 + 1)
        :: i > LATCH_ODD_2 && i < LATCH_EVEN_2 -> mask = ALL_BEFORE(LATCH_ODD_2 + 1)
        :: i > LATCH_EVEN_1 && i < LATCH_ODD_2 -> mask = ALL_BEFORE(LATCH_EVEN_1 + 1)
        :: else -> mask = ALL_BEFORE(LATCH_ODD_1 + 1)
        fi
#endif
    fi
}

inline perform(i)
{
    if
    :: i == LATCH_ODD_1 -> latch = 1
    :: i == LATCH_EVEN_1 -> latch = 2
    :: i == LATCH_ODD_2 -> latch = 3
    :: i == LATCH_EVEN_2 -> latch = 4
    :: i == 1 || i == 2 -> copy_word[i - 1] = 1
    :: i == 4 || i == 5 -> copy_word[i - 2] = 1
    :: i == 7 || i == 8 -> copy_word[i - 7] = 2
    :: else -> copy_word[i - 8] = 2
    fi;
    done = done | (1 << i)
}

active proctype memory()
{
    short mask;
    byte i;

    do
    :: done == ALL_BEFORE(STORES) -> break
    :: true -> break /* killed */
    :: done != ALL_BEFORE(STORES) ->
        atomic {
            select (i : 0 .. 11);
            order_of(i, mask);
            if
            :: (done & (1 << i)) == 0 && (done & mask) == mask -> perform(i)
            :: else -> skip /* not this one yet */
            fi;
            i = 0;
            mask = 0
        }
    od
}

/* Which copy a value of the latch points to. */
#ifdef MUTATION_ONE_COPY
#define COPY_OF(value) 0 /* a plain sequence lock */
#define USABLE(value) ((value) % 2 == 0)
#else
#define COPY_OF(value) (((value) & 1) * 2)
#define USABLE(value) true
#endif

byte first, second, seen, again;
byte newest = 0; /* the snapshot that the reader took last */

inline read_words()
{
    first = copy_word[COPY_OF(seen)];
    second = copy_word[COPY_OF(seen) + 1]
}

active proctype reader()
{
    byte tries = 0, reads = 0;

    do
    :: reads == 2 -> break
    :: reads < 2 ->
#ifdef MUTATION_LATCH_LOADED_WITHOUT_ACQUIRE
        /* The words may be loaded first, by a guess of where the latch points. */
        if
        :: seen = 0
        :: seen = 1
        fi;
        read_words();
        again = seen;
        seen = latch;
        if
        :: COPY_OF(seen) != COPY_OF(again) -> read_words() /* the guess was wrong */
        :: else -> skip
        fi;
        again = latch;
#else
        seen = latch;
#ifdef MUTATION_NO_FENCE_BEFORE_RECHECK
        again = latch; /* may be loaded before the words */
        read_words();
#else
        read_words();
#ifdef MUTATION_NO_RECHECK
        again = seen;
#else
        again = latch;
#endif
#endif
#endif
        if
        :: again == seen && USABLE(seen) ->
            assert(first == second);
            assert(first >= newest);
            newest = first;
            reads++;
            tries = 0
        :: else ->
            tries++;
            assert(tries <= 4) /* each failed try saw the latch turn, and it turns four times */
        fi
    od
}
