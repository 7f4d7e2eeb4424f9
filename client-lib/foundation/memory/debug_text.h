/* foundation/memory/debug_text.h - faults and blocks in words.
 *
 *     double free of block 0x7f3c (48 bytes, allocation 17) by thread 812 at ai.c:90
 *       allocated by thread 812 at ai.c:71
 *         game+0x1a2b
 *         libc.so.6+0x27249
 *       freed by thread 813 at ai.c:88
 *         …
 *
 * Thread: any. Cost: formats text; asks the loader for modules. */
#ifndef EC_FOUNDATION_MEMORY_DEBUG_TEXT_H
#define EC_FOUNDATION_MEMORY_DEBUG_TEXT_H

#include <engine-core/debug.h>

/* "double free" and so on. */
const char *ec_fault_kind_name(enum ec_fault_kind kind);

/* All of it, cut where bytes end, with a NUL. fault->text is not looked at. */
void ec_debug_fault_text(char *text, size_t bytes, const struct ec_debug_fault *fault);

/* One line of a list of live blocks, with the first frame of its stack. */
void ec_debug_block_text(char *text, size_t bytes, const struct ec_debug_block *block);

/* Whether the call's file, or a module that its stack leads through, has the word in its path. */
bool ec_debug_call_is_of(const struct ec_debug_call *call, const char *module);

#endif
