/* segment/foreign_text.h - copy a text out of another process's memory.
 *
 * Thread: any; the writer may go on. */
#ifndef EC_SEGMENT_FOREIGN_TEXT_H
#define EC_SEGMENT_FOREIGN_TEXT_H

#include <string.h>

/* Copied once, and then only the copy is looked at. It ends within its bytes, and control characters
 * become '?': it is shown on terminals. */
static inline void ec_foreign_text(char *text, const char *foreign, size_t bytes)
{
    memcpy(text, foreign, bytes - 1);
    text[bytes - 1] = '\0';
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

#endif
