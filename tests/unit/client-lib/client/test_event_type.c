/* A struct and its layout are declared once and cannot disagree; ids are what the daemon computes. */
#include <engine-core/event.h>

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "proto/event_port.h"

#define EVERYTHING(FIELD, ARRAY)                                                                   \
    FIELD(uint8_t, a)                                                                              \
    FIELD(int8_t, b)                                                                               \
    FIELD(uint16_t, c)                                                                             \
    FIELD(int16_t, d)                                                                              \
    FIELD(uint32_t, e)                                                                             \
    FIELD(int32_t, f)                                                                              \
    FIELD(uint64_t, g)                                                                             \
    FIELD(int64_t, h)                                                                              \
    FIELD(float, i)                                                                                \
    FIELD(double, j)                                                                               \
    FIELD(bool, k)                                                                                 \
    ARRAY(char, l, 5)                                                                              \
    ARRAY(float, m, 3)                                                                             \
    ARRAY(bool, n, 2)
EC_EVENT_STRUCT(everything, "test.everything", EVERYTHING);

static const struct ec_event_field expected[] = {
    EC_EVENT_FIELD(struct everything, a, EC_FIELD_U8),
    EC_EVENT_FIELD(struct everything, b, EC_FIELD_I8),
    EC_EVENT_FIELD(struct everything, c, EC_FIELD_U16),
    EC_EVENT_FIELD(struct everything, d, EC_FIELD_I16),
    EC_EVENT_FIELD(struct everything, e, EC_FIELD_U32),
    EC_EVENT_FIELD(struct everything, f, EC_FIELD_I32),
    EC_EVENT_FIELD(struct everything, g, EC_FIELD_U64),
    EC_EVENT_FIELD(struct everything, h, EC_FIELD_I64),
    EC_EVENT_FIELD(struct everything, i, EC_FIELD_F32),
    EC_EVENT_FIELD(struct everything, j, EC_FIELD_F64),
    EC_EVENT_FIELD(struct everything, k, EC_FIELD_BOOL),
    EC_EVENT_FIELD(struct everything, l, EC_FIELD_CHAR),
    EC_EVENT_FIELD(struct everything, m, EC_FIELD_F32),
    EC_EVENT_FIELD(struct everything, n, EC_FIELD_BOOL),
};

START_TEST(a_struct_that_is_declared_once_has_the_layout_of_its_members)
{
    const struct ec_event_type_desc *desc = everything_desc();

    ck_assert_str_eq(desc->name, "test.everything");
    ck_assert_uint_eq(desc->version, 1);
    ck_assert_uint_eq(desc->bytes, sizeof(struct everything));
    ck_assert_uint_eq(desc->field_count, sizeof expected / sizeof expected[0]);
    ck_assert_int_eq(desc->policy, EC_EVENT_RELIABLE);
    for (uint32_t i = 0; i < desc->field_count; i++) {
        ck_assert_str_eq(desc->fields[i].name, expected[i].name);
        ck_assert_int_eq(desc->fields[i].type, expected[i].type);
        ck_assert_uint_eq(desc->fields[i].offset, expected[i].offset);
        ck_assert_uint_eq(desc->fields[i].bytes, expected[i].bytes);
    }
    ck_assert_uint_eq(sizeof((struct everything *)0)->l, 5);
}
END_TEST

#define CHECK_ID(name) ck_assert_uint_eq(ec_event_type(name), ec_event_type_id(name))
#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

START_TEST(an_id_is_the_same_for_a_literal_and_for_a_name_that_is_read)
{
    char name[200];

    CHECK_ID("");
    CHECK_ID("a");
    CHECK_ID("game.shot");
    CHECK_ID("name.with.\xc3\xa4");
    CHECK_ID(TEN TEN TEN "1");
    CHECK_ID(TEN TEN TEN "12");
    CHECK_ID(TEN TEN TEN "123");
    CHECK_ID(HUNDRED TEN TEN "12345678"); /* 128 bytes: the last that is computed in steps */
    CHECK_ID(HUNDRED TEN TEN "123456789");
    for (int bytes = 0; bytes < 150; bytes++) {
        snprintf(name, sizeof name, "%.*s", bytes, HUNDRED TEN TEN TEN TEN TEN);
        CHECK_ID(name);
    }
    ck_assert_uint_eq(everything_type(), ec_event_type_id("test.everything"));
}
END_TEST

#ifdef __OPTIMIZE__
START_TEST(the_compiler_computes_the_id_of_a_literal)
{
    const uint64_t id = everything_type(), id_of_long = ec_event_type(HUNDRED TEN TEN "1234567");
    const int computed = __builtin_constant_p(id), long_computed = __builtin_constant_p(id_of_long);

    ck_assert_int_eq(computed, 1);
#ifdef __clang__
    (void)long_computed; /* clang answers before it has folded that many steps */
#else
    ck_assert_int_eq(long_computed, 1);
#endif
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("event type");
    TCase *tcase = tcase_create("event type");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, a_struct_that_is_declared_once_has_the_layout_of_its_members);
    tcase_add_test(tcase, an_id_is_the_same_for_a_literal_and_for_a_name_that_is_read);
#ifdef __OPTIMIZE__
    tcase_add_test(tcase, the_compiler_computes_the_id_of_a_literal);
#endif
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
