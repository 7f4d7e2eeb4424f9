/* boot_id.h - which boot of the host this is: monotonic time and process numbers mean nothing in another.
 *
 * Thread: any. Cost: reads a file of /proc. */
#ifndef ENGINE_CORED_BOOT_ID_H
#define ENGINE_CORED_BOOT_ID_H

#define BOOT_ID_BYTES 40 /* a UUID and its NUL */

/* "" where the kernel does not tell. */
void boot_id_read(char text[BOOT_ID_BYTES]);

#endif
