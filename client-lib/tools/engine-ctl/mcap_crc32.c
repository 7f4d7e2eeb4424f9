/* Eight bytes a turn: table k holds what a byte does that is followed by k zero bytes ("slicing by 8",
 * Kounavis and Berry, 2005). */
#include "engine-ctl/mcap_crc32.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0xedb88320u /* 0x04c11db7, bits reversed */
#define SLICES 8

static uint32_t tables[SLICES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int slice = 1; slice < SLICES; slice++)
            tables[slice][byte] =
                (tables[slice - 1][byte] >> 8) ^ tables[0][tables[slice - 1][byte] & 0xff];
}

static uint32_t of_eight(uint32_t crc, const unsigned char *at)
{
    uint32_t low, high;

    memcpy(&low, at, sizeof low);
    memcpy(&high, at + 4, sizeof high);
    low ^= crc;
    return tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff] ^ tables[5][(low >> 16) & 0xff] ^
           tables[4][low >> 24] ^ tables[3][high & 0xff] ^ tables[2][(high >> 8) & 0xff] ^
           tables[1][(high >> 16) & 0xff] ^ tables[0][high >> 24];
}

uint32_t mcap_crc32(uint32_t crc, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    pthread_once(&once, fill_tables);
    crc = ~crc;
    for (; count >= 8; count -= 8, at += 8)
        crc = of_eight(crc, at);
    for (; count > 0; count--, at++)
        crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xff];
    return ~crc;
}
