/* support/often.h - an assertion for what a test asks a hundred thousand times.
 *
 *     for (int i = 0; i < 200000; i++)
 *         ASSERT_OFTEN(ec_pool_free(pool, blocks[i]) == EC_OK);
 *
 * Each assertion of Check that holds makes a system call, to tell the parent how far the test came.
 * This one costs a branch, and says where it failed and what. */
#ifndef EC_SUPPORT_OFTEN_H
#define EC_SUPPORT_OFTEN_H

#include <check.h>

#define ASSERT_OFTEN(condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("Assertion '%s' failed", #condition);                                     \
    } while (0)

#endif
