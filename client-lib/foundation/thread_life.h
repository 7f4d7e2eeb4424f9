/* foundation/thread_life.h - a number for each life of a thread, and whether that life is over.
 *
 * Thread ids are used again; a life is not, for some four million threads in the same place. The first 1,023
 * threads that live at the same time have one.
 *
 * Thread: any. Cost: a load of a thread-local variable; a thread's first call claims a place. */
#ifndef EC_FOUNDATION_THREAD_LIFE_H
#define EC_FOUNDATION_THREAD_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#define EC_THREAD_LIFE_NONE 0

/* The calling thread's; EC_THREAD_LIFE_NONE when it has none: too many threads, or it is ending. */
uint32_t ec_thread_life(void);

/* EC_THREAD_LIFE_NONE is over. */
bool ec_thread_life_is_over(uint32_t life);

#endif
