/* The names of arguments and values say what they can be. */
#include "engine-ctl/word_kind.h"

#include <check.h>
#include <string.h>

#include "engine-ctl/verb.h"

/* The choices of a text: kinds by name, other words in quotes. */
static const struct {
    const char *text, *expected;
} cases[] = {
    { "CLOCK", "CLOCK" },
    { "GROUP]", "GROUP" },
    { "TYPE...", "TYPE" },
    { "real|game|CLOCK", "'real' 'game' CLOCK" },
    { "skip|slow|N", "'skip' 'slow'" },
    { "ready|METRIC>VALUE", "'ready' METRIC" },
    { "MODULE|LOG_LEVEL] [LOG_LEVEL]", "MODULE LOG_LEVEL" },
    { "NAME=PATH...", "" }, /* of which nothing is known */
    { "JSON", "" },
    { "", "" },
    { NULL, "" },
};

START_TEST(a_name_says_what_can_stand_in_its_place)
{
    const char *at = cases[_i].text;
    char found[256] = "";
    struct word_choice choice;

    while (word_choice_next(&at, &choice)) {
        const size_t used = strlen(found);

        if (choice.kind != NULL)
            snprintf(found + used, sizeof found - used, "%s%s", used > 0 ? " " : "",
                     choice.kind->name);
        else
            snprintf(found + used, sizeof found - used, "%s'%.*s'", used > 0 ? " " : "",
                     (int)choice.bytes, choice.text);
    }
    ck_assert_str_eq(found, cases[_i].expected);
}
END_TEST

START_TEST(arguments_are_found_by_their_place)
{
    const char *const arguments = "FILE [OFFSET] [N]";

    ck_assert_ptr_eq(word_argument(arguments, 0), arguments);
    ck_assert_str_eq(word_argument(arguments, 1), "OFFSET] [N]");
    ck_assert_str_eq(word_argument(arguments, 2), "N]");
    ck_assert_ptr_null(word_argument(arguments, 3));
    ck_assert_ptr_null(word_argument("", 0));
}
END_TEST

/* A kind that no verb speaks of would be known for nothing. */
START_TEST(each_kind_is_that_of_an_argument_or_value)
{
    const struct word_kind *kind = &word_kinds[_i];
    bool used = strcmp(kind->name, "PROGRAM") == 0; /* of a verb that runs one */

    for (size_t v = 0; v < verb_count; v++) {
        used = used || strstr(verbs[v].arguments, kind->name) != NULL;
        for (size_t o = 0; o < VERB_OPTIONS_MAX && verbs[v].options[o].name != NULL; o++)
            used = used || (verbs[v].options[o].value != NULL &&
                            strstr(verbs[v].options[o].value, kind->name) != NULL);
    }
    ck_assert_msg(used, "%s", kind->name);
    ck_assert_msg((kind->words != NULL) + (kind->print_words != NULL) + (kind->method != NULL) +
                          (kind->path != NULL) ==
                      1,
                  "%s has no source of words, or two", kind->name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("word_kind");
    TCase *tcase = tcase_create("word_kind");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_name_says_what_can_stand_in_its_place, 0,
                        (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(tcase, arguments_are_found_by_their_place);
    tcase_add_loop_test(tcase, each_kind_is_that_of_an_argument_or_value, 0, (int)word_kind_count);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
