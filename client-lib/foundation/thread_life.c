/* Places with a serial number each: odd while a thread lives there. A life is place and serial. */
#include "foundation/thread_life.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define PLACE_BITS 10
#define PLACES (1u << PLACE_BITS)
#define SERIAL_MASK (UINT32_MAX >> PLACE_BITS)

static _Atomic uint32_t serials[PLACES]; /* place 0 is never taken, so that no life is 0 */
static pthread_key_t at_end;
static bool at_end_exists;
static _Thread_local uint32_t this_life;
static _Thread_local bool
    asked; /* once: a thread that found no place has none, nor one that ended */

static uint32_t claim(void);
static void make_key(void);
static void thread_ends(void *value);

uint32_t ec_thread_life(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (asked)
        return this_life;
    asked = true;
    pthread_once(&once, make_key);
    if (!at_end_exists || pthread_setspecific(at_end, &serials) != 0)
        return EC_THREAD_LIFE_NONE; /* its end would not be noticed */
    this_life = claim();
    return this_life;
}

/* Acquire: pairs with the release of the thread's end, so that who finds it over sees what it wrote. */
bool ec_thread_life_is_over(uint32_t life)
{
    const uint32_t serial =
        atomic_load_explicit(&serials[life & (PLACES - 1)], memory_order_acquire);

    return (serial & SERIAL_MASK) != life >> PLACE_BITS || (serial & 1) == 0;
}

static uint32_t claim(void)
{
    for (uint32_t place = 1; place < PLACES; place++) {
        uint32_t serial = atomic_load_explicit(&serials[place], memory_order_relaxed);

        if ((serial & 1) == 0 &&
            atomic_compare_exchange_strong_explicit(&serials[place], &serial, serial + 1,
                                                    memory_order_relaxed, memory_order_relaxed))
            return (serial + 1) << PLACE_BITS | place;
    }
    return EC_THREAD_LIFE_NONE;
}

static void make_key(void)
{
    at_end_exists = pthread_key_create(&at_end, thread_ends) == 0;
}

static void thread_ends(void *value)
{
    const uint32_t place = this_life & (PLACES - 1);

    (void)value;
    if (this_life != EC_THREAD_LIFE_NONE)
        atomic_store_explicit(&serials[place],
                              atomic_load_explicit(&serials[place], memory_order_relaxed) + 1,
                              memory_order_release);
    this_life = EC_THREAD_LIFE_NONE;
}
