/* Holes are filled where they stand, and all else stays as it is. */
#include "proto/tables/template.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static void fill_one(FILE *out)
{
    fputs("1", out);
}

static void fill_brace(FILE *out)
{
    fputs("{{one}}", out);
}

static const struct ec_template_hole holes[] = { { "one", fill_one },
                                                 { "brace", fill_brace },
                                                 { NULL, NULL } };

static const struct {
    const char *text, *expected;
} cases[] = {
    { "", "" },
    { "plain", "plain" },
    { "{{one}}", "1" },
    { "a{{one}}b{{one}}c", "a1b1c" },
    { "${x} { {one} }", "${x} { {one} }" },
    { "{{brace}}{{one}}", "{{one}}1" }, /* what is filled in is not looked at again */
};

START_TEST(holes_are_filled)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    ck_assert_ptr_nonnull(out);
    ec_template_print(out, cases[_i].text, holes);
    fclose(out);
    ck_assert_str_eq(text, cases[_i].expected);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("template");
    TCase *tcase = tcase_create("template");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, holes_are_filled, 0, (int)(sizeof cases / sizeof cases[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
