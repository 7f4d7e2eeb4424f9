/* mcap_crc32.h - the CRC of zip, PNG and MCAP (polynomial 0x04c11db7, reflected).
 *
 *     crc = mcap_crc32(0, "123456789", 9); // 0xcbf43926
 *     crc = mcap_crc32(crc, more, more_bytes);
 *
 * Thread: any. Cost: about half a nanosecond a byte. */
#ifndef ENGINE_CTL_MCAP_CRC32_H
#define ENGINE_CTL_MCAP_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* crc is 0 at first, then what the call before returned. */
uint32_t mcap_crc32(uint32_t crc, const void *bytes, size_t count);

#endif
