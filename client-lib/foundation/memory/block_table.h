/* foundation/memory/block_table.h - which addresses are live blocks, and what is known of each.
 *
 * For allocators that keep nothing in front of their blocks: a pointer that is no block is found out
 * without being followed. A hash table with open addressing, in 16 shards with a lock each.
 *
 * Thread: any; init and finish while nobody else uses it. Cost: a lock and a look-up; at most half of the
 * places of 40 bytes are empty, or three quarters after a peak. */
#ifndef EC_FOUNDATION_MEMORY_BLOCK_TABLE_H
#define EC_FOUNDATION_MEMORY_BLOCK_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EC_BLOCK_TABLE_SHARDS 16

struct ec_block {
    void *address; /* never NULL */
    size_t bytes;
    size_t room_bytes; /* taken from where it came from */
    uint32_t tag;
    uint32_t kind; /* the allocator's own */
    void *context; /* the allocator's own */
};

struct ec_block_shard {
    pthread_mutex_t lock;
    struct ec_block *places; /* address NULL: empty */
    size_t place_count;      /* power of two, or 0 */
    size_t count;
};

struct ec_block_table {
    struct ec_block_shard shards[EC_BLOCK_TABLE_SHARDS];
};

void ec_block_table_init(struct ec_block_table *table);
void ec_block_table_finish(struct ec_block_table *table); /* the blocks are not looked at */

/* The address is not in the table yet. false: no memory, and nothing changed. */
bool ec_block_table_add(struct ec_block_table *table, const struct ec_block *block);

/* Take the block out; false: there is none at this address. Of two threads that take it one gets it. */
bool ec_block_table_take(struct ec_block_table *table, const void *address, struct ec_block *block);

/* The same, and it stays. */
bool ec_block_table_find(struct ec_block_table *table, const void *address, struct ec_block *block);

/* Replace what is known of the block at this address; false: there is none. */
bool ec_block_table_update(struct ec_block_table *table, const struct ec_block *block);

size_t ec_block_table_count(struct ec_block_table *table);

/* Call visit for each block, a shard at a time under its lock: it must not use the table. */
void ec_block_table_visit(struct ec_block_table *table,
                          void (*visit)(void *context, const struct ec_block *block),
                          void *context);

#endif
