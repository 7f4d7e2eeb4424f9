/* Layouts: what a stranger's JSON may say, and what viewers are told. */
#include "engine-ctl/event_layout.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct event_layout layout;
static struct ec_error why;

static int read_text(const char *text)
{
    cJSON *json = cJSON_Parse(text);
    int rc;

    ck_assert_ptr_nonnull(json);
    rc = event_layout_read(json, &layout, &why);
    cJSON_Delete(json);
    return rc;
}

#define SHOT                                                                                       \
    "{\"name\":\"game.shot\",\"version\":2,\"size\":32,\"policy\":\"lossy\",\"fields\":["          \
    "{\"name\":\"id\",\"type\":\"u8\",\"count\":1,\"offset\":0},"                                  \
    "{\"name\":\"x\",\"type\":\"f32\",\"count\":3,\"offset\":4},"                                  \
    "{\"name\":\"who\",\"type\":\"char\",\"count\":5,\"offset\":16},"                              \
    "{\"name\":\"big\",\"type\":\"u64\",\"count\":1,\"offset\":24}]}"

START_TEST(a_layout_comes_back_as_the_json_that_it_was)
{
    char *text;

    ck_assert_int_eq(read_text(SHOT), EC_OK);
    ck_assert_uint_eq(layout.field_count, 4);
    ck_assert_uint_eq(layout.fields[1].bytes, 12);
    ck_assert(layout.lossy);
    text = event_layout_json(&layout);
    ck_assert_str_eq(text, SHOT);
    cJSON_free(text);
}
END_TEST

static void check_ros1(const char *expected)
{
    struct mcap_bytes text = { 0 };

    event_layout_ros1(&layout, "", &text);
    mcap_put_u8(&text, 0);
    ck_assert_str_eq((const char *)text.at, expected);
    mcap_bytes_finish(&text);
}

START_TEST(the_gaps_of_the_struct_are_fields_for_viewers)
{
    ck_assert_int_eq(read_text(SHOT), EC_OK);
    check_ros1("uint8 id\nuint8[3] ec_gap_1\nfloat32[3] x\nuint8[5] who # text, padded with NUL\n"
               "uint8[3] ec_gap_3\nuint64 big\n");
}
END_TEST

START_TEST(names_that_viewers_do_not_take_are_made_fit_and_stay_apart)
{
    ck_assert_int_eq(read_text("{\"name\":\"t\",\"version\":1,\"size\":5,\"fields\":["
                               "{\"name\":\"a-b\",\"type\":\"u8\",\"count\":1,\"offset\":0},"
                               "{\"name\":\"a.b\",\"type\":\"u8\",\"count\":1,\"offset\":1},"
                               "{\"name\":\"_c\",\"type\":\"bool\",\"count\":1,\"offset\":2},"
                               "{\"name\":\"ec_step\",\"type\":\"i8\",\"count\":2,\"offset\":3}]}"),
                     EC_OK);
    check_ros1("uint8 a_b\nuint8 a_b_1\nbool f__c\nint8[2] ec_step_3\n");
}
END_TEST

START_TEST(a_type_without_fields_is_bytes)
{
    ck_assert_int_eq(read_text("{\"name\":\"t\",\"version\":1,\"size\":100,\"fields\":[]}"), EC_OK);
    check_ros1("uint8[] data\n");
}
END_TEST

static const struct {
    const char *text, *names;
} wrong[] = {
    { "[]", "no name" },
    { "{\"name\":\"\",\"version\":1,\"size\":1}", "no name" },
    { "{\"name\":\"t\",\"size\":1}", "version" },
    { "{\"name\":\"t\",\"version\":-1,\"size\":1}", "version" },
    { "{\"name\":\"t\",\"version\":1,\"size\":0}", "size" },
    { "{\"name\":\"t\",\"version\":1,\"size\":4294967296}", "size" },
    { "{\"name\":\"t\",\"version\":1,\"size\":4,\"fields\":[1]}", "field 0" },
    { "{\"name\":\"t\",\"version\":1,\"size\":4,\"fields\":["
      "{\"name\":\"a\",\"type\":\"u128\",\"count\":1,\"offset\":0}]}",
      "field a" },
    { "{\"name\":\"t\",\"version\":1,\"size\":4,\"fields\":["
      "{\"name\":\"a\",\"type\":\"u32\",\"count\":0,\"offset\":0}]}",
      "field a" },
    { "{\"name\":\"t\",\"version\":1,\"size\":4,\"fields\":["
      "{\"name\":\"a\",\"type\":\"u32\",\"count\":1,\"offset\":1}]}",
      "field a" },
    { "{\"name\":\"t\",\"version\":1,\"size\":8,\"fields\":["
      "{\"name\":\"a\",\"type\":\"u32\",\"count\":1,\"offset\":0},"
      "{\"name\":\"b\",\"type\":\"u32\",\"count\":1,\"offset\":3}]}",
      "field b" },
};

START_TEST(a_layout_that_makes_no_sense_is_refused_and_named)
{
    ck_assert_int_eq(read_text(wrong[_i].text), EC_ERR_PARAM);
    ck_assert_msg(strstr(why.text, wrong[_i].names) != NULL, "%s", why.text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_layout");
    TCase *tcase = tcase_create("event_layout");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, a_layout_comes_back_as_the_json_that_it_was);
    tcase_add_test(tcase, the_gaps_of_the_struct_are_fields_for_viewers);
    tcase_add_test(tcase, names_that_viewers_do_not_take_are_made_fit_and_stay_apart);
    tcase_add_test(tcase, a_type_without_fields_is_bytes);
    tcase_add_loop_test(tcase, a_layout_that_makes_no_sense_is_refused_and_named, 0,
                        (int)(sizeof wrong / sizeof wrong[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
