/* Linear probing; taking a block out moves the following ones up, so there are no tombstones (Knuth, The
 * Art of Computer Programming 3, 6.4, algorithm R). */
#include "foundation/memory/block_table.h"

#include <stdlib.h>

#define PLACES_FIRST 64

static bool resize(struct ec_block_shard *shard, size_t place_count);
static size_t place_of(const struct ec_block_shard *shard, const void *address);
static void take_out(struct ec_block_shard *shard, size_t place);

/* Fibonacci hashing; blocks are at least 16 apart. */
static uint64_t hash(const void *address)
{
    return ((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15u;
}

static struct ec_block_shard *shard_of(struct ec_block_table *table, const void *address)
{
    return &table->shards[hash(address) >> 60];
}

static size_t home_of(const struct ec_block_shard *shard, const void *address)
{
    return (size_t)(hash(address) >> 20) & (shard->place_count - 1);
}

void ec_block_table_init(struct ec_block_table *table)
{
    *table = (struct ec_block_table) { 0 };
    for (int i = 0; i < EC_BLOCK_TABLE_SHARDS; i++)
        pthread_mutex_init(&table->shards[i].lock, NULL);
}

void ec_block_table_finish(struct ec_block_table *table)
{
    for (int i = 0; i < EC_BLOCK_TABLE_SHARDS; i++) {
        free(table->shards[i].places);
        pthread_mutex_destroy(&table->shards[i].lock);
    }
}

bool ec_block_table_add(struct ec_block_table *table, const struct ec_block *block)
{
    struct ec_block_shard *shard = shard_of(table, block->address);
    bool added;

    pthread_mutex_lock(&shard->lock);
    added = shard->count + 1 <= shard->place_count / 2 || resize(shard, shard->place_count * 2);
    if (added) {
        shard->places[place_of(shard, block->address)] = *block;
        shard->count++;
    }
    pthread_mutex_unlock(&shard->lock);
    return added;
}

bool ec_block_table_take(struct ec_block_table *table, const void *address, struct ec_block *block)
{
    struct ec_block_shard *shard = shard_of(table, address);
    bool found = false;

    pthread_mutex_lock(&shard->lock);
    if (shard->count != 0) {
        const size_t place = place_of(shard, address);

        found = shard->places[place].address != NULL;
        if (found) {
            *block = shard->places[place];
            take_out(shard, place);
            if (shard->count < shard->place_count / 8 && shard->place_count > PLACES_FIRST)
                resize(shard, shard->place_count / 2); /* no memory: it stays as it is */
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return found;
}

bool ec_block_table_find(struct ec_block_table *table, const void *address, struct ec_block *block)
{
    struct ec_block_shard *shard = shard_of(table, address);
    bool found = false;

    pthread_mutex_lock(&shard->lock);
    if (shard->count != 0) {
        *block = shard->places[place_of(shard, address)];
        found = block->address != NULL;
    }
    pthread_mutex_unlock(&shard->lock);
    return found;
}

bool ec_block_table_update(struct ec_block_table *table, const struct ec_block *block)
{
    struct ec_block_shard *shard = shard_of(table, block->address);
    bool found = false;

    pthread_mutex_lock(&shard->lock);
    if (shard->count != 0) {
        struct ec_block *place = &shard->places[place_of(shard, block->address)];

        found = place->address != NULL;
        if (found)
            *place = *block;
    }
    pthread_mutex_unlock(&shard->lock);
    return found;
}

size_t ec_block_table_count(struct ec_block_table *table)
{
    size_t count = 0;

    for (int i = 0; i < EC_BLOCK_TABLE_SHARDS; i++) {
        pthread_mutex_lock(&table->shards[i].lock);
        count += table->shards[i].count;
        pthread_mutex_unlock(&table->shards[i].lock);
    }
    return count;
}

void ec_block_table_visit(struct ec_block_table *table,
                          void (*visit)(void *context, const struct ec_block *block), void *context)
{
    for (int i = 0; i < EC_BLOCK_TABLE_SHARDS; i++) {
        struct ec_block_shard *shard = &table->shards[i];

        pthread_mutex_lock(&shard->lock);
        for (size_t place = 0; place < shard->place_count; place++)
            if (shard->places[place].address != NULL)
                visit(context, &shard->places[place]);
        pthread_mutex_unlock(&shard->lock);
    }
}

static bool resize(struct ec_block_shard *shard, size_t place_count)
{
    struct ec_block_shard larger = { .place_count = place_count != 0 ? place_count : PLACES_FIRST };

    larger.places = calloc(larger.place_count, sizeof *larger.places);
    if (larger.places == NULL)
        return false;
    for (size_t i = 0; i < shard->place_count; i++)
        if (shard->places[i].address != NULL)
            larger.places[place_of(&larger, shard->places[i].address)] = shard->places[i];
    free(shard->places);
    shard->places = larger.places;
    shard->place_count = larger.place_count;
    return true;
}

/* Where the address is, or the empty place where it would be. */
static size_t place_of(const struct ec_block_shard *shard, const void *address)
{
    size_t place = home_of(shard, address);

    while (shard->places[place].address != NULL && shard->places[place].address != address)
        place = (place + 1) & (shard->place_count - 1);
    return place;
}

/* Fill the hole with a later block that may lie there, and so on with the hole that this one leaves. */
static void take_out(struct ec_block_shard *shard, size_t place)
{
    const size_t mask = shard->place_count - 1;
    size_t hole = place, next = place;

    for (;;) {
        size_t home;

        next = (next + 1) & mask;
        if (shard->places[next].address == NULL)
            break;
        home = home_of(shard, shard->places[next].address);
        if (((next - home) & mask) < ((next - hole) & mask))
            continue; /* its home lies behind the hole */
        shard->places[hole] = shard->places[next];
        hole = next;
    }
    shard->places[hole] = (struct ec_block) { 0 };
    shard->count--;
}
