/* support/segv.h - a test that has to end by touching memory that nobody may touch.
 *
 *     tcase_add_segv_test(tcase, use_of_an_older_frame_ends_the_program);
 *
 * Without a sanitizer the process ends by SIGSEGV; the sanitizers catch the signal, report, and exit. */
#ifndef EC_SUPPORT_SEGV_H
#define EC_SUPPORT_SEGV_H

#include <check.h>
#include <signal.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEGV_EXIT 1
#elif __has_feature(thread_sanitizer)
#define SEGV_EXIT 66
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SEGV_EXIT 1
#elif defined(__SANITIZE_THREAD__)
#define SEGV_EXIT 66
#endif

#ifdef SEGV_EXIT
#define tcase_add_segv_test(tcase, test) tcase_add_exit_test(tcase, test, SEGV_EXIT)
#else
#define tcase_add_segv_test(tcase, test) tcase_add_test_raise_signal(tcase, test, SIGSEGV)
#endif

#endif
