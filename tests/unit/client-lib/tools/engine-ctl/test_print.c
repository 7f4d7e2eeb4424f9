/* What people read. */
#include "engine-ctl/print.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    double value;
    const char *text;
} bytes_cases[] = {
    { 0, "0 B" },
    { 1023, "1023 B" },
    { 1024, "1.0 KiB" },
    { 1536, "1.5 KiB" },
    { 16.0 * 1024 * 1024 * 1024, "16.0 GiB" },
},
  duration_cases[] = {
      { 0, "0 ns" },
      { 999, "999 ns" },
      { 12300, "12.3 us" },
      { 16700000, "16.7 ms" },
      { 1.5e9, "1.5 s" },
      { 125e9, "2 min 5 s" },
      { 7500e9, "2 h 5 min" },
      { 1e30, "0 h 0 min" },
  },
  number_cases[] = {
      { 0, "0" }, { 9999, "9999" }, { 60.25, "60.2" }, { 12300, "12.3 k" }, { 12300000, "12.3 M" },
  };

START_TEST(bytes_are_shown_in_iec_units)
{
    char text[TEXT_BYTES];

    ck_assert_str_eq(bytes_text(text, bytes_cases[_i].value), bytes_cases[_i].text);
}
END_TEST

START_TEST(durations_are_shown_in_the_largest_unit_below_them)
{
    char text[TEXT_BYTES];

    ck_assert_str_eq(duration_text(text, duration_cases[_i].value), duration_cases[_i].text);
}
END_TEST

START_TEST(large_numbers_are_shortened)
{
    char text[TEXT_BYTES];

    ck_assert_str_eq(number_text(text, number_cases[_i].value), number_cases[_i].text);
}
END_TEST

START_TEST(control_characters_never_reach_the_terminal)
{
    char text[] = "a\033[2Jb\nc\x7f\xc2\x9b"
                  "d\xc3\xbc";
    char *copy = tame_copy(text);

    ck_assert_str_eq(copy, "a?[2Jb?c???d\xc3\xbc");
    free(copy);
    ck_assert_str_eq(tame(text), "a?[2Jb?c???d\xc3\xbc");
}
END_TEST

static char *printed(bool colours)
{
    static const struct column columns[] = { { "NAME", false }, { "BYTES", true }, { "X", false } };
    struct table table = { .columns = columns, .column_count = 3 };
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    table_cell(&table, "%s", "m\xc3\xbc"); /* two columns, three bytes */
    table_cell(&table, "%d", 7);
    table_cell(&table, "yes");
    table_cell(&table, "longer");
    table_cell(&table, "%d", 123456);
    table_cell(&table, "no");
    table_print(&table, out, colours);
    fclose(out);
    ck_assert_ptr_null(table.cells);
    return text;
}

START_TEST(columns_are_aligned)
{
    char *text = printed(false);

    ck_assert_str_eq(text, "NAME     BYTES  X\n"
                           "m\xc3\xbc           7  yes\n"
                           "longer  123456  no\n");
    free(text);
}
END_TEST

START_TEST(colours_only_when_asked_for)
{
    char *text = printed(false);

    ck_assert_ptr_null(strchr(text, '\033'));
    free(text);
    text = printed(true);
    ck_assert_ptr_nonnull(strchr(text, '\033'));
    free(text);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

int main(void)
{
    Suite *suite = suite_create("print");
    TCase *tests = tcase_create("print");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(tests, bytes_are_shown_in_iec_units, 0, COUNT(bytes_cases));
    tcase_add_loop_test(tests, durations_are_shown_in_the_largest_unit_below_them, 0,
                        COUNT(duration_cases));
    tcase_add_loop_test(tests, large_numbers_are_shortened, 0, COUNT(number_cases));
    tcase_add_test(tests, control_characters_never_reach_the_terminal);
    tcase_add_test(tests, columns_are_aligned);
    tcase_add_test(tests, colours_only_when_asked_for);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
