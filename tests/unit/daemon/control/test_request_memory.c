#include "control/request_memory.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

static struct request_memory memory;
static struct ec_error why;

static void set_up(void)
{
    ck_assert_int_eq(request_memory_init(&memory, NULL, 0, &why), EC_OK);
}

static void tear_down(void)
{
    request_memory_finish(&memory);
}

static struct ec_json_span span(const char *text)
{
    return (struct ec_json_span) { text, strlen(text) };
}

START_TEST(blocks_are_aligned_and_apart)
{
    unsigned char *first = request_memory_alloc(&memory, 1);
    unsigned char *second = request_memory_alloc(&memory, 17);
    unsigned char *third = request_memory_alloc(&memory, 8);

    ck_assert_uint_eq((uintptr_t)first % alignof(max_align_t), 0);
    ck_assert_uint_eq((uintptr_t)second % alignof(max_align_t), 0);
    ck_assert(second >= first + 1 && third >= second + 17);
}
END_TEST

START_TEST(four_mebibytes_and_not_a_byte_more)
{
    ck_assert_ptr_nonnull(request_memory_alloc(&memory, REQUEST_MEMORY_BYTES - 16));
    ck_assert_ptr_null(request_memory_alloc(&memory, 17));
    ck_assert_ptr_nonnull(request_memory_alloc(&memory, 16));
    ck_assert_ptr_null(request_memory_alloc(&memory, 1));
    ck_assert_ptr_null(request_memory_alloc(&memory, SIZE_MAX));
    request_memory_reset(&memory);
    ck_assert_ptr_nonnull(request_memory_alloc(&memory, 1));
}
END_TEST

START_TEST(a_tree_lies_in_the_request_and_nowhere_else)
{
    struct cJSON *tree = request_memory_tree(&memory, span("{\"a\":[1,\"x\"],\"b\":{}}"), &why);
    const unsigned char *place = (const unsigned char *)tree;

    ck_assert_ptr_nonnull(tree);
    ck_assert(place >= memory.base && place < memory.base + memory.used);
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(tree, "a")), 2);
    cJSON_Delete(tree); /* allowed, and does nothing */
    ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(tree, "b")->string, "b");
}
END_TEST

START_TEST(a_tree_that_does_not_fit_is_an_error)
{
    static char text[400001];

    memset(text, '1', sizeof text - 1);
    text[0] = '[';
    for (size_t i = 2; i < sizeof text - 2; i += 2)
        text[i] = ',';
    text[sizeof text - 2] = ']';
    ck_assert_ptr_null(request_memory_tree(&memory, span(text), &why));
    ck_assert_int_eq(why.code, EC_ERR_MEMORY);
    request_memory_reset(&memory);
    ck_assert_ptr_nonnull(request_memory_tree(&memory, span("[1]"), &why));
}
END_TEST

START_TEST(an_escaped_nul_would_cut_a_string_and_is_an_error)
{
    static const struct {
        const char *text;
        bool is_good;
    } cases[] = {
        { "[\"a\\u0000b\"]", false }, { "[\"\\\\u0000\"]", true },  { "[\"\\\\\\u0000\"]", false },
        { "[\"\\u00001\"]", false },  { "[\"\\u0001\\n\"]", true },
    };

    ck_assert_int_eq(request_memory_tree(&memory, span(cases[_i].text), &why) != NULL,
                     cases[_i].is_good);
    if (!cases[_i].is_good)
        ck_assert_int_eq(why.code, EC_ERR_PARAM);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request_memory");
    TCase *tcase = tcase_create("request_memory");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, blocks_are_aligned_and_apart);
    tcase_add_test(tcase, four_mebibytes_and_not_a_byte_more);
    tcase_add_test(tcase, a_tree_lies_in_the_request_and_nowhere_else);
    tcase_add_test(tcase, a_tree_that_does_not_fit_is_an_error);
    tcase_add_loop_test(tcase, an_escaped_nul_would_cut_a_string_and_is_an_error, 0, 5);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
