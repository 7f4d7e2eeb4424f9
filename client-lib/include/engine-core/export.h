/* engine-core/export.h - marks what the shared library exports. */
#ifndef ENGINE_CORE_EXPORT_H
#define ENGINE_CORE_EXPORT_H

#if defined(__GNUC__)
#define EC_API __attribute__((visibility("default")))
#else
#define EC_API
#endif

#endif
