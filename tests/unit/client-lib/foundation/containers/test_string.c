/* The string promises to hold what was appended, always with its NUL, and to fail once and for all. */
#include <engine-core/string.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/arena.h"
#include "support/often.h"

START_TEST(it_agrees_with_a_plain_buffer)
{
    static char model[200000];
    const struct ec_allocator from = ec_system_allocator();
    struct ec_string string;
    size_t length = 0;

    srand(6);
    ec_string_init(&string, &from);
    ck_assert_str_eq(ec_string_text(&string), "");
    for (int round = 0; round < 20000; round++) {
        char piece[300];
        const int bytes = rand() % (int)(sizeof piece - 1), what = rand() % 100;

        memset(piece, 'a' + round % 26, (size_t)bytes);
        piece[bytes] = '\0';
        if (length + sizeof piece + 20 > sizeof model || what == 0) {
            length = length / 2;
            ec_string_truncate(&string, length);
        } else if (what < 30) {
            ASSERT_OFTEN(ec_string_append(&string, piece) == EC_OK);
            length += (size_t)sprintf(model + length, "%s", piece);
        } else if (what < 60) {
            ASSERT_OFTEN(ec_string_format(&string, "%d:%s", round, piece) == EC_OK);
            length += (size_t)sprintf(model + length, "%d:%s", round, piece);
        } else if (what < 90) {
            ASSERT_OFTEN(ec_string_append_char(&string, (char)round) == EC_OK);
            model[length++] = (char)round; /* zero bytes too */
        } else if (what < 98) {
            ASSERT_OFTEN(ec_string_reserve(&string, length + (size_t)bytes) == EC_OK);
        } else if (what == 98 && length > 10) {
            ASSERT_OFTEN(ec_string_append_bytes(&string, string.bytes + 3, 7) ==
                         EC_OK); /* itself */
            memcpy(model + length, model + 3, 7);
            length += 7;
        }
        ASSERT_OFTEN(string.length == length);
        if (round % 20 == 0)
            ASSERT_OFTEN(memcmp(ec_string_text(&string), model, length) == 0);
        ASSERT_OFTEN(ec_string_text(&string)[length] == '\0');
    }
    ec_string_finish(&string);
    ck_assert_str_eq(ec_string_text(&string), "");
}
END_TEST

START_TEST(without_memory_it_keeps_what_it_has_and_says_so_at_the_end)
{
    struct ec_arena *arena;
    struct ec_allocator from;
    struct ec_string string;

    ck_assert_int_eq(ec_arena_create_in(NULL, &(struct ec_arena_desc) { .name = "a", .bytes = 100 },
                                        &arena, NULL),
                     EC_OK);
    from = ec_arena_allocator(arena);
    ec_string_init(&string, &from);
    ck_assert_int_eq(ec_string_append(&string, "0123456789"), EC_OK);
    ck_assert_int_eq(ec_string_format(&string, "%0200d", 1), EC_ERR_MEMORY);
    ck_assert_int_eq(ec_string_append(&string, "x"), EC_ERR_MEMORY); /* although there is room */
    ck_assert_int_eq(ec_string_status(&string), EC_ERR_MEMORY);
    ck_assert_str_eq(ec_string_text(&string), "0123456789");
    ec_string_clear(&string);
    ck_assert_int_eq(ec_string_append(&string, "x"), EC_OK);
    ck_assert_int_eq(ec_string_append_bytes(&string, "", SIZE_MAX / 2), EC_ERR_SIZE);
    ck_assert_str_eq(ec_string_text(&string), "x");
    ec_string_finish(&string);
    ec_arena_destroy(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("string");
    TCase *tcase = tcase_create("string");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, it_agrees_with_a_plain_buffer);
    tcase_add_test(tcase, without_memory_it_keeps_what_it_has_and_says_so_at_the_end);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
