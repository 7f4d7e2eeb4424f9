/* bench/contender_shape.h - how much one run does: the same for ours and for every peer. */
#ifndef EC_BENCH_CONTENDER_SHAPE_H
#define EC_BENCH_CONTENDER_SHAPE_H

#define SHAPE_BURST 128         /* publishes that are timed in one piece */
#define SHAPE_BURSTS 100        /* in a run of publishing cost */
#define SHAPE_BLOCK 16          /* round trips that are timed in one piece */
#define SHAPE_BLOCKS 128        /* in a run of round trips while polling */
#define SHAPE_BLOCKS_SLEEPING 8 /* in a run of round trips with sleep */
#define SHAPE_THROUGHPUT 200000 /* events in a run of throughput */

#endif
