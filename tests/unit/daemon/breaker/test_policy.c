/* A policy that does not fit together is refused as a whole, and the reason names the key. */
#include "breaker/policy.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"
#include "foundation/json/json_scan.h"

static struct config *config;
static struct breaker_policy policy;
static struct ec_error why;

static void set_up(void)
{
    ck_assert_int_eq(config_create(&(struct config_source) { 0 }, &config, &why), EC_OK);
    ck_assert_msg(policy_load(config, &policy, &why) == EC_OK, "%s", why.text);
}

static void tear_down(void)
{
    config_destroy(config);
}

static int set(const char *members)
{
    return policy_set(&policy, ec_json_root(members, strlen(members)), &why);
}

START_TEST(the_default_is_a_good_policy)
{
    const struct level_marks marks = policy_marks(&policy);

    ck_assert_uint_eq(marks.permille[1], 150);
    ck_assert_uint_eq(marks.permille[2], 100);
    ck_assert_uint_eq(marks.permille[3], 50);
    ck_assert_int_eq(marks.hold_ns, 500000000);
    ck_assert(!policy_does(&policy, 1, ACTION_EVICT));
    ck_assert(policy_does(&policy, 2, ACTION_EVICT));
    ck_assert(policy_does(&policy, 3, ACTION_EVICT)); /* what a level does, the higher do too */
    ck_assert(!policy_does(&policy, 2, ACTION_EXIT));
    ck_assert(policy_does(&policy, 3, ACTION_EXIT));
}
END_TEST

static const struct {
    const char *members;
    const char *named; /* in the text */
} bad[] = {
    { "{\"warning_permille\":100}", "breaker.eviction_permille is 100" },
    { "{\"eviction_permille\":50}", "breaker.emergency_permille is 50" },
    { "{\"emergency_permille\":600}", "breaker.emergency_permille is 600" },
    { "{\"warning_permille\":-1}", "warning_permille is an integer from 1" },
    { "{\"warning_permille\":\"15\"}", "warning_permille is an integer" },
    { "{\"hold_ms\":-5}", "hold_ms" },
    { "{\"hysteresis_permille\":400,\"warning_permille\":700}", "breaker.hysteresis_permille" },
    { "{\"warning_bytes\":1000,\"eviction_bytes\":1000}", "breaker.eviction_bytes is 1000" },
    { "{\"eviction_bytes\":1000,\"emergency_bytes\":2000}", "breaker.emergency_bytes is 2000" },
    { "{\"warning_bytes\":1000,\"emergency_bytes\":2000}", "breaker.emergency_bytes is 2000" },
    { "{\"fast_tick_ms\":200}", "breaker.fast_tick_ms is 200" },
    { "{\"eviction_actions\":\"evict,explode\"}", "there is no action \"explode\"" },
    { "{\"eviction_actions\":7}", "eviction_actions" },
    { "{\"sigterm\":1}", "sigterm is true or false" },
    { "{\"nonsense\":1}", "\"nonsense\" is no value of a policy that can be set" },
    { "{\"holdms\":1}",
      "\"holdms\" is no value of a policy that can be set, did you mean hold_ms?" },
    { "{\"\":1}", "\"\" is no value of a policy that can be set" },
    { "{\"on_level\":\"rm -rf /\"}", "on_level" }, /* who may set numbers may not run programs */
    { "{\"hold_ms\":100,\"eviction_permille\":990}", "breaker.eviction_permille" },
};

START_TEST(a_bad_one_is_refused_as_a_whole)
{
    const struct breaker_policy before = policy;

    ck_assert_int_eq(set(bad[_i].members), EC_ERR_POLICY);
    ck_assert_msg(strstr(why.text, bad[_i].named) != NULL, "%s", why.text);
    ck_assert_mem_eq(&policy, &before, sizeof policy);
}
END_TEST

START_TEST(all_of_a_good_one_is_taken_over)
{
    ck_assert_msg(set("{\"warning_permille\":300,\"eviction_permille\":200,\"sigterm\":true,"
                      "\"warning_actions\":\" trim , particles\",\"eviction_actions\":\"\"}") ==
                      EC_OK,
                  "%s", why.text);
    ck_assert_int_eq(policy.warning_permille, 300);
    ck_assert_int_eq(policy.sigterm, 1);
    ck_assert(policy_does(&policy, 1, ACTION_TRIM));
    ck_assert(policy_does(&policy, 1, ACTION_PARTICLES));
    ck_assert(!policy_does(&policy, 2, ACTION_EVICT));
}
END_TEST

START_TEST(what_is_written_can_be_set_again)
{
    char text[4096];
    struct ec_json_writer writer;
    struct breaker_policy before;

    ck_assert_int_eq(set("{\"lod_bias_permille\":250,\"hold_ms\":7}"), EC_OK);
    before = policy;
    ec_json_writer_init(&writer, text, sizeof text - 1);
    ec_json_object_begin(&writer);
    policy_write(&policy, &writer);
    ec_json_object_end(&writer);
    ck_assert_int_eq(ec_json_writer_status(&writer), EC_OK);
    text[writer.bytes] = '\0';
    /* all but the command, which cannot be set */
    strcpy(strstr(text, ",\"on_level\":\"\""), "}");
    ck_assert_msg(set(text) == EC_OK, "%s", why.text);
    ck_assert_mem_eq(&policy, &before, sizeof policy);
}
END_TEST

START_TEST(knobs_turn_at_the_level_that_has_them)
{
    struct ec_breaker_knobs knobs[LEVELS];

    for (uint32_t level = 0; level < LEVELS; level++)
        policy_write_knobs(&policy, level, &knobs[level]);
    ck_assert_uint_eq(atomic_load(&knobs[1].particle_rate_permille), 1000);
    ck_assert_uint_eq(atomic_load(&knobs[2].particle_rate_permille), 500);
    ck_assert_uint_eq(atomic_load(&knobs[2].audio_noncritical), 0);
    ck_assert_uint_eq(atomic_load(&knobs[2].quality_permille), 1000);
    ck_assert_uint_eq(atomic_load(&knobs[3].quality_permille), 0);
    ck_assert_uint_eq(atomic_load(&knobs[3].post_effects), 0);
    ck_assert_uint_eq(atomic_load(&knobs[3].lod_bias_permille), 1000);
    ck_assert_uint_eq(atomic_load(&knobs[0].shadows), 1);
}
END_TEST

START_TEST(a_configuration_with_marks_out_of_order_is_refused)
{
    static const char *const sets[] = { "breaker.warning_permille=50" };
    struct config *other;

    ck_assert_int_eq(
        config_create(&(struct config_source) { .sets = sets, .set_count = 1 }, &other, &why),
        EC_OK);
    ck_assert_int_eq(policy_load(other, &policy, &why), EC_ERR_POLICY);
    ck_assert_msg(strstr(why.text, "breaker.warning_permille") != NULL, "%s", why.text);
    config_destroy(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy");
    TCase *tcase = tcase_create("policy");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_default_is_a_good_policy);
    tcase_add_loop_test(tcase, a_bad_one_is_refused_as_a_whole, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(tcase, all_of_a_good_one_is_taken_over);
    tcase_add_test(tcase, what_is_written_can_be_set_again);
    tcase_add_test(tcase, knobs_turn_at_the_level_that_has_them);
    tcase_add_test(tcase, a_configuration_with_marks_out_of_order_is_refused);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
