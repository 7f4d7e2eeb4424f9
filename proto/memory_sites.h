/* proto/memory_sites.h - who asked for memory: call sites with what they hold, and loaded modules.
 *
 * Part of the client segment, so it can be read after the process was killed, when the kernel has
 * forgotten what was mapped where. Addresses mean nothing without the module that they lie in: its
 * build id and its address in the file are what a debugger needs to name a function.
 *
 * A site is a call stack or a place in a source file. Its counters only grow and are added to
 * atomically by any thread. When only some allocations are looked at (sample_bytes), each counts for
 * the ones that were not, so the numbers are estimates of all. */
#ifndef EC_PROTO_MEMORY_SITES_H
#define EC_PROTO_MEMORY_SITES_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define EC_SITES_MAX 4096
#define EC_SITE_FRAMES 24
#define EC_SITE_FILE_BYTES 52
#define EC_MODULES_MAX 256
#define EC_MODULE_PATH_BYTES 200
#define EC_BUILD_ID_BYTES 20

/* All but modules_until and the counters is written before ready is stored (release) and never changes again. */
struct ec_site_row {
    alignas(64) _Atomic uint32_t ready; /* 1: whole */
    uint32_t tag;
    uint32_t line;                 /* in file; 0: there is no file */
    uint32_t depth;                /* of frames */
    char file[EC_SITE_FILE_BYTES]; /* the end of its path */
    /* When a module on its stack is unloaded, how many module rows there were until then: its addresses are
     * looked for in these, the newest first, and later blocks with the same ones are another site's. 0: all its
     * modules are still loaded. */
    _Atomic uint32_t modules_until;
    _Atomic uint64_t allocs;
    _Atomic uint64_t frees;
    _Atomic uint64_t bytes_in;
    _Atomic uint64_t bytes_out;
    uint64_t frames[EC_SITE_FRAMES]; /* return addresses, the allocation's first */
};

enum ec_module_state {
    EC_MODULE_NONE = 0,
    EC_MODULE_LOADED = 1,
    EC_MODULE_UNLOADED = 2, /* its addresses may belong to another one by now */
};

/* state is stored last (release). */
struct ec_module_row {
    _Atomic uint32_t state; /* enum ec_module_state */
    uint32_t build_id_bytes;
    uint64_t begin, end; /* the addresses that it takes up */
    uint64_t bias;       /* an address less the bias is the address in the file */
    uint8_t build_id[EC_BUILD_ID_BYTES];
    uint8_t reserved[4];
    char path[EC_MODULE_PATH_BYTES]; /* the end of a longer one */
};

struct ec_tracking {
    _Atomic uint64_t sample_bytes;  /* mean distance of samples; 0: none are taken, 1: every one */
    _Atomic uint64_t samples;       /* taken so far */
    _Atomic uint64_t lost;          /* of them, those whose site found no row */
    _Atomic uint64_t unknown_frees; /* of blocks that were never counted, as far as can be told */
    _Atomic uint32_t site_count;    /* rows [0, site_count) were taken */
    _Atomic uint32_t module_count;  /* the same of modules */
    _Atomic uint32_t modules_lost;  /* found no row */
    uint32_t reserved;
    struct ec_site_row sites[EC_SITES_MAX];
    struct ec_module_row modules[EC_MODULES_MAX];
};

#endif
