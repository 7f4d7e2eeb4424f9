#include "daemon/config.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[32], path[64];
static struct config *config;
static struct ec_error why;

static void make_directory(void)
{
    strcpy(directory, "/tmp/config-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/f", directory);
    config = NULL;
    why = (struct ec_error) { 0 };
}

static void remove_directory(void)
{
    config_destroy(config);
    unlink(path);
    rmdir(directory);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "we");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static int create(const char *text, const char *const *sets, unsigned set_count)
{
    struct config_source source = { .sets = sets, .set_count = set_count };

    if (text != NULL) {
        write_file(text);
        source.file = path;
    }
    return config_create(&source, &config, &why);
}

/* What the log says while fn runs: it has not been started, so lines go straight to stderr. */
static char *said_while(int (*fn)(void))
{
    char *text = calloc(1, 65536);
    int ends[2], kept = dup(STDERR_FILENO);
    ssize_t bytes;

    ck_assert_int_eq(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    dup2(ends[1], STDERR_FILENO);
    ck_assert_int_eq(fn(), EC_OK);
    dup2(kept, STDERR_FILENO);
    bytes = read(ends[0], text, 65535);
    text[bytes > 0 ? bytes : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    close(kept);
    return text;
}

START_TEST(without_anything_all_values_are_built_in)
{
    ck_assert_int_eq(create(NULL, NULL, 0), EC_OK);
    for (enum ec_config_id id = 0; id < EC_CONFIGS; id++) {
        ck_assert_str_eq(config_origin(config, id), "built-in");
        if (ec_configs[id].type == EC_CONFIG_STRING)
            ck_assert_str_eq(config_string(config, id), ec_configs[id].string);
        else
            ck_assert_int_eq(config_integer(config, id), ec_configs[id].integer);
    }
    ck_assert_ptr_null(config_file(config, 0));
    ck_assert_uint_eq(config_version(config), 1);
}
END_TEST

START_TEST(every_default_is_in_its_own_range)
{
    const struct ec_config_row *row = &ec_configs[_i];
    const int64_t value =
        row->type == EC_CONFIG_STRING ? (int64_t)strlen(row->string) : row->integer;

    ck_assert_msg(row->type == EC_CONFIG_BOOLEAN || (value >= row->min && value <= row->max), "%s",
                  row->key);
}
END_TEST

START_TEST(keys_may_be_nested_or_flat)
{
    static const char *const texts[] = {
        "{\"event.stall_ms\":100,\"log\":{\"level\":\"debug\"}}",
        "{\"event\":{\"stall_ms\":100},\"log.level\":\"debug\"}",
        "\n{ \"event\" : { \"stall_ms\" : 100 } ,\n \"log\" : { \"level\" : \"debug\" } }\n",
    };

    ck_assert_int_eq(create(texts[_i], NULL, 0), EC_OK);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_event_stall_ms), 100);
    ck_assert_str_eq(config_string(config, EC_CONFIG_log_level), "debug");
}
END_TEST

START_TEST(each_value_knows_where_it_comes_from)
{
    static const char *const sets[] = { "log.level=error", "control.group=games" };
    char expected[80];

    ck_assert_int_eq(create("{\n\n  \"event.stall_ms\": 100,\n\"log.level\":\"debug\"}", sets, 2),
                     EC_OK);
    snprintf(expected, sizeof expected, "%s:3:21", path);
    ck_assert_str_eq(config_origin(config, EC_CONFIG_event_stall_ms), expected);
    ck_assert_str_eq(config_origin(config, EC_CONFIG_log_level), "--set");
    ck_assert_str_eq(config_string(config, EC_CONFIG_log_level), "error");
    ck_assert_str_eq(config_string(config, EC_CONFIG_control_group), "games");
    ck_assert_str_eq(config_origin(config, EC_CONFIG_control_batch), "built-in");
    ck_assert_str_eq(config_file(config, 0), path);
    ck_assert_ptr_null(config_file(config, 1));
}
END_TEST

static const struct {
    const char *text, *expected; /* behind the path */
} wrong[] = {
    { "{\"event\":{\"stall_ms\":\n  0}}", ":2:3: event.stall_ms is 0, allowed is 1 to 60000 ms" },
    { "{\"event.stall_ms\":60001}", ":1:19: event.stall_ms is 60001, allowed is 1 to 60000 ms" },
    { "{\"event.stall_ms\":\"7\"}",
      ":1:19: event.stall_ms is an integer from 1 to 60000, not a string" },
    { "{\"event.stall_ms\":1.5}",
      ":1:19: event.stall_ms is an integer from 1 to 60000, not a number" },
    { "{\"event.stall_ms\":null}",
      ":1:19: event.stall_ms is an integer from 1 to 60000, not null" },
    { "{\"event.stall_ms\":{\"x\":1}}",
      ":1:19: event.stall_ms is an integer from 1 to 60000, not an object" },
    { "{\"log.level\":7}", ":1:14: log.level is a string, not a number" },
    { "{\"log.level\":\"\"}", ":1:14: log.level has 0 bytes, allowed are 1 to 8" },
    { "{\"log.level\":\"loud\"}",
      ":1:14: log.level is loud, allowed are trace, debug, info, warning, error" },
    { "{\"log.level\":\"a\\u0000\"}", ":1:14: log.level must not contain \\u0000" },
    { "{\"event.stall_ms\":1,\"event\":{\"stall_ms\":2}}", ":1:41: event.stall_ms is given twice" },
    { "{\"log.level\":\"info\",}", ":1:21: " },
    { "{\"log.level\":\"info\"\n", ":2:1: " },
    { "[]", ":1:1: expected an object" },
    { "", ":1:1: " },
};

START_TEST(what_is_wrong_in_the_file_is_named_with_line_and_column)
{
    ck_assert_int_lt(create(wrong[_i].text, NULL, 0), 0);
    ck_assert_ptr_null(config);
    ck_assert_msg(
        strncmp(why.text, path, strlen(path)) == 0 &&
            strncmp(why.text + strlen(path), wrong[_i].expected, strlen(wrong[_i].expected)) == 0,
        "%s", why.text);
}
END_TEST

START_TEST(what_is_wrong_on_the_command_line_is_named)
{
    static const char *const cases[][2] = {
        { "event.stall_ms", "--set event.stall_ms: expected key=value" },
        { "=5", "--set =5: expected key=value" },
        { "event.stall_ms=0",
          "--set event.stall_ms=0: event.stall_ms is 0, allowed is 1 to 60000" },
        { "event.stall_ms=x",
          "--set event.stall_ms=x: event.stall_ms is an integer from 1 to 60000" },
        { "event.stall_ms=", "--set event.stall_ms=: event.stall_ms is an integer" },
        { "log.level=loud", "--set log.level=loud: log.level is loud" },
        { "event.stal_ms=5",
          "--set event.stal_ms=5: unknown key event.stal_ms, did you mean event.stall_ms?" },
        { "foo=1", "--set foo=1: unknown key foo" },
    };

    ck_assert_int_eq(create(NULL, &cases[_i][0], 1), EC_ERR_PARAM);
    ck_assert_msg(strncmp(why.text, cases[_i][1], strlen(cases[_i][1])) == 0, "%s", why.text);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_an_error)
{
    struct config_source source = { .file = "/nonexistent/file" };

    ck_assert_int_eq(config_create(&source, &config, &why), EC_ERR_SYSTEM);
    ck_assert_str_eq(why.text, "/nonexistent/file: No such file or directory");
}
END_TEST

START_TEST(a_file_that_is_far_too_long_is_an_error)
{
    char *text = malloc(1024 * 1024 + 3);

    memset(text, ' ', 1024 * 1024 + 2);
    memcpy(text, "{}", 2);
    text[1024 * 1024 + 2] = '\0';
    ck_assert_int_eq(create(text, NULL, 0), EC_ERR_SIZE);
    free(text);
}
END_TEST

static const char *unknown_text;

static int create_with_unknown(void)
{
    return create(unknown_text, NULL, 0);
}

START_TEST(an_unknown_key_is_a_warning_with_the_nearest_one)
{
    static const char *const cases[][2] = {
        { "{\"event\":{\"stal_ms\":5}}",
          "f:1:21: ignored: unknown key event.stal_ms, did you mean event.stall_ms?\n" },
        { "{\n\"colour\":5}", "f:2:10: ignored: unknown key colour\n" },
        { "{\"event\":5}", "f:1:10: ignored: unknown key event\n" },
    };
    char *said;

    unknown_text = cases[_i][0];
    said = said_while(create_with_unknown);
    ck_assert_msg(strstr(said, cases[_i][1]) != NULL, "%s", said);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_event_stall_ms), 250);
    free(said);
}
END_TEST

START_TEST(a_name_of_any_length_is_only_unknown)
{
    char text[2000];
    char *said;

    memset(text, 'n', sizeof text);
    memcpy(text, "{\"event\":{\"", 11);
    strcpy(text + sizeof text - 10, "\":{}}}");
    unknown_text = text;
    said = said_while(create_with_unknown);
    ck_assert_msg(strstr(said, "unknown key") != NULL, "%s", said);
    free(said);
}
END_TEST

static bool heard[EC_CONFIGS];

static void on_change(void *context, enum ec_config_id id)
{
    ck_assert_ptr_eq(context, &heard);
    heard[id] = true;
}

START_TEST(a_reload_applies_what_may_change_and_tells)
{
    bool changed[EC_CONFIGS];

    memset(heard, 0, sizeof heard);
    ck_assert_int_eq(create("{\"control.batch\":7}", NULL, 0), EC_OK);
    ck_assert_int_eq(config_on_change(config, on_change, &heard), EC_OK);
    write_file("{\"control.batch\":8,\"control.line_s\":9,\"resource.workers\":3}");
    ck_assert_int_eq(config_reload(config, changed, &why), EC_OK);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 8);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_line_s), 9);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_resource_workers), 2); /* needs a restart */
    ck_assert_uint_eq(config_version(config), 2);
    for (size_t i = 0; i < EC_CONFIGS; i++) {
        const bool is_reloaded = i == EC_CONFIG_control_batch || i == EC_CONFIG_control_line_s;

        ck_assert_int_eq(changed[i], is_reloaded || i == EC_CONFIG_resource_workers);
        ck_assert_int_eq(heard[i], is_reloaded);
    }
}
END_TEST

START_TEST(a_reload_of_a_wrong_file_changes_nothing)
{
    bool changed[EC_CONFIGS];

    memset(heard, 0, sizeof heard);
    ck_assert_int_eq(create("{\"control.batch\":7}", NULL, 0), EC_OK);
    ck_assert_int_eq(config_on_change(config, on_change, &heard), EC_OK);
    write_file("{\"control.batch\":8,\"control.line_s\":0}");
    ck_assert_int_eq(config_reload(config, changed, &why), EC_ERR_PARAM);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 7);
    ck_assert_uint_eq(config_version(config), 1);
    for (size_t i = 0; i < EC_CONFIGS; i++)
        ck_assert(!changed[i] && !heard[i]);
}
END_TEST

START_TEST(a_reload_does_not_wait_for_who_writes_to_a_pipe)
{
    bool changed[EC_CONFIGS];

    ck_assert_int_eq(create("{\"control.batch\":7}", NULL, 0), EC_OK);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(config_reload(config, changed, &why), EC_ERR_STATE);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 7);
}
END_TEST

START_TEST(a_reload_without_a_change_keeps_the_version)
{
    bool changed[EC_CONFIGS];

    ck_assert_int_eq(create("{\"control.batch\":7}", NULL, 0), EC_OK);
    write_file("\n{\"control\":{\"batch\":7}}");
    ck_assert_int_eq(config_reload(config, changed, &why), EC_OK);
    ck_assert_uint_eq(config_version(config), 1);
    ck_assert(!changed[EC_CONFIG_control_batch]);
}
END_TEST

START_TEST(a_key_that_goes_from_the_file_gets_its_default_back)
{
    bool changed[EC_CONFIGS];

    ck_assert_int_eq(create("{\"control.batch\":7}", NULL, 0), EC_OK);
    write_file("{}");
    ck_assert_int_eq(config_reload(config, changed, &why), EC_OK);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 100);
    ck_assert_str_eq(config_origin(config, EC_CONFIG_control_batch), "built-in");
}
END_TEST

START_TEST(comments_keep_all_else_in_its_place)
{
    ck_assert_int_eq(create("// first\n{ /* a\n\"b */ \"event.stall_ms\": 100, // the last\n"
                            "\"control.group\": \"a//b/*c*/\\\"//\" }\n// end",
                            NULL, 0),
                     EC_OK);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_event_stall_ms), 100);
    ck_assert_str_eq(config_string(config, EC_CONFIG_control_group), "a//b/*c*/\"//");
    config_destroy(config);
    ck_assert_int_eq(create("/* two\nlines */ {\"event.stall_ms\": 0}", NULL, 0), EC_ERR_PARAM);
    ck_assert_ptr_nonnull(strstr(why.text, ":2:29: event.stall_ms is 0"));
    ck_assert_int_eq(create("{} /* no end", NULL, 0), EC_ERR_PARSE);
}
END_TEST

START_TEST(standard_files_may_be_missing_and_later_ones_win)
{
    struct config_source source = { .standard = { "/nonexistent/engine-core.json", path } };

    write_file("{\"event.stall_ms\": 100}");
    ck_assert_int_eq(config_create(&source, &config, &why), EC_OK);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_event_stall_ms), 100);
    ck_assert(!config_file_was_read(config, 0) && config_file_was_read(config, 1));
    config_destroy(config);

    source = (struct config_source) { .standard = { path, path } };
    ck_assert_int_eq(config_create(&source, &config, &why), EC_OK);
    config_destroy(config);

    write_file("{\"event.stall_ms\": 0}"); /* one that is there must be right */
    ck_assert_int_eq(config_create(&source, &config, &why), EC_ERR_PARAM);
}
END_TEST

static struct ec_json_span span_of(const char *text)
{
    return ec_json_root(text, strlen(text));
}

START_TEST(a_value_that_is_set_wins_until_it_is_taken_back)
{
    bool changed[EC_CONFIGS];

    memset(heard, 0, sizeof heard);
    ck_assert_int_eq(create("{\"control.batch\":7}", NULL, 0), EC_OK);
    ck_assert_int_eq(config_on_change(config, on_change, &heard), EC_OK);
    ck_assert_int_eq(config_rehearse_set(config, EC_CONFIG_control_batch, span_of("8"), &why),
                     EC_OK);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 7);
    ck_assert_int_eq(config_set(config, EC_CONFIG_control_batch, span_of("8"), &why), EC_OK);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 8);
    ck_assert_str_eq(config_origin(config, EC_CONFIG_control_batch), "config.set");
    ck_assert_uint_eq(config_version(config), 2);
    ck_assert(heard[EC_CONFIG_control_batch]);

    write_file("{\"control.batch\":9}"); /* a reload does not take it back */
    ck_assert_int_eq(config_reload(config, changed, &why), EC_OK);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 8);
    ck_assert_int_eq(config_set(config, EC_CONFIG_control_batch, span_of("null"), &why), EC_OK);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 9);
    ck_assert_uint_eq(config_version(config), 3);
}
END_TEST

START_TEST(a_value_that_cannot_be_set_changes_nothing)
{
    static const struct {
        enum ec_config_id id;
        const char *value;
        int rc;
    } cases[] = {
        { EC_CONFIG_control_batch, "0", EC_ERR_PARAM },
        { EC_CONFIG_control_batch, "\"8\"", EC_ERR_PARAM },
        { EC_CONFIG_log_level, "\"loud\"", EC_ERR_PARAM },
        { EC_CONFIG_log_level, "\"a\\u0000\"", EC_ERR_PARAM },
        { EC_CONFIG_resource_workers, "3", EC_ERR_STATE },
    };

    ck_assert_int_eq(create("{\"control.batch\":7}", NULL, 0), EC_OK);
    ck_assert_int_eq(config_set(config, cases[_i].id, span_of(cases[_i].value), &why),
                     cases[_i].rc);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 7);
    ck_assert_uint_eq(config_version(config), 1);
}
END_TEST

/* Two keys that do not fit: a check that says so in its own words. */
static int check_batch(void *context, const struct config *fresh, struct ec_error *reason)
{
    int *count = context;

    (*count)++;
    if (config_integer(fresh, EC_CONFIG_control_batch) <
        config_integer(fresh, EC_CONFIG_control_in_flight))
        return EC_OK;
    return ec_fail(reason, EC_ERR_PARAM, "control.batch is not below control.in_flight.");
}

static const struct {
    const char *text, *set;
    const char *expected; /* @ is the file */
} misfits[] = {
    { "{\"control.batch\":300}", NULL, "@:1:18: control.batch is not below control.in_flight." },
    { "{\"control.in_flight\":\n9}", NULL, "@:2:1: control.batch is not below control.in_flight." },
    { "{\"control.batch\":300,\n\"control.in_flight\":200}", NULL,
      "@:1:18: control.batch is not below control.in_flight.; control.in_flight is from @:2:21" },
    { "{\"control.batch\":300}", "control.in_flight=200",
      "@:1:18: control.batch is not below control.in_flight.; control.in_flight is from --set" },
    { NULL, "control.in_flight=50", "--set: control.batch is not below control.in_flight." },
};

static void fill_in(char filled[512], const char *text)
{
    size_t used = 0;

    for (; *text != '\0'; text++)
        used += (size_t)snprintf(filled + used, 512 - used, "%.*s",
                                 *text == '@' ? (int)strlen(path) : 1, *text == '@' ? path : text);
}

START_TEST(keys_that_do_not_fit_together_are_named_with_line_and_column)
{
    char expected[512];
    int count = 0;

    ck_assert_int_eq(create(misfits[_i].text, &misfits[_i].set, misfits[_i].set != NULL), EC_OK);
    ck_assert_int_eq(config_add_check(config, check_batch, &count, &why), EC_ERR_PARAM);
    fill_in(expected, misfits[_i].expected);
    ck_assert_str_eq(why.text, expected);
    ck_assert_int_eq(config_say_places(config, why.code, &why), EC_ERR_PARAM); /* not twice */
    ck_assert_str_eq(why.text, expected);
    ck_assert_int_eq(count, 1);
}
END_TEST

START_TEST(a_reload_whose_keys_do_not_fit_changes_nothing_and_says_where)
{
    bool changed[EC_CONFIGS];
    char expected[512];
    int count = 0;

    ck_assert_int_eq(create("{}", NULL, 0), EC_OK);
    ck_assert_int_eq(config_add_check(config, check_batch, &count, &why), EC_OK);
    write_file("{\n  \"control\": { \"batch\": 256 } }");
    ck_assert_int_eq(config_reload(config, changed, &why), EC_ERR_PARAM);
    fill_in(expected, "@:2:25: control.batch is not below control.in_flight.");
    ck_assert_str_eq(why.text, expected);
    ck_assert_int_eq(config_integer(config, EC_CONFIG_control_batch), 100);
    ck_assert_str_eq(config_last_reload(config)->reason, expected);
}
END_TEST

START_TEST(the_last_reload_can_be_asked_for)
{
    bool changed[EC_CONFIGS];

    ck_assert_int_eq(create("{\"control.batch\":7}", NULL, 0), EC_OK);
    ck_assert_uint_eq(config_last_reload(config)->count, 0);
    write_file("{\"control.batch\":0}");
    ck_assert_int_eq(config_rehearse_reload(config, changed, &why), EC_ERR_PARAM);
    ck_assert_uint_eq(config_last_reload(config)->count, 0);
    ck_assert_int_eq(config_reload(config, changed, &why), EC_ERR_PARAM);
    ck_assert_uint_eq(config_last_reload(config)->count, 1);
    ck_assert_int_eq(config_last_reload(config)->rc, EC_ERR_PARAM);
    ck_assert_ptr_nonnull(strstr(config_last_reload(config)->reason, "control.batch is 0"));
    write_file("{\"control.batch\":8}");
    ck_assert_int_eq(config_reload(config, changed, &why), EC_OK);
    ck_assert_int_eq(config_last_reload(config)->rc, EC_OK);
    ck_assert_str_eq(config_last_reload(config)->reason, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, make_directory, remove_directory);
    tcase_add_test(tcase, without_anything_all_values_are_built_in);
    tcase_add_loop_test(tcase, every_default_is_in_its_own_range, 0, EC_CONFIGS);
    tcase_add_loop_test(tcase, keys_may_be_nested_or_flat, 0, 3);
    tcase_add_test(tcase, each_value_knows_where_it_comes_from);
    tcase_add_loop_test(tcase, what_is_wrong_in_the_file_is_named_with_line_and_column, 0,
                        (int)(sizeof wrong / sizeof wrong[0]));
    tcase_add_loop_test(tcase, what_is_wrong_on_the_command_line_is_named, 0, 8);
    tcase_add_test(tcase, a_file_that_is_not_there_is_an_error);
    tcase_add_test(tcase, a_file_that_is_far_too_long_is_an_error);
    tcase_add_loop_test(tcase, an_unknown_key_is_a_warning_with_the_nearest_one, 0, 3);
    tcase_add_test(tcase, a_name_of_any_length_is_only_unknown);
    tcase_add_test(tcase, a_reload_applies_what_may_change_and_tells);
    tcase_add_test(tcase, a_reload_of_a_wrong_file_changes_nothing);
    tcase_add_test(tcase, a_reload_does_not_wait_for_who_writes_to_a_pipe);
    tcase_add_test(tcase, a_reload_without_a_change_keeps_the_version);
    tcase_add_test(tcase, a_key_that_goes_from_the_file_gets_its_default_back);
    tcase_add_test(tcase, comments_keep_all_else_in_its_place);
    tcase_add_test(tcase, standard_files_may_be_missing_and_later_ones_win);
    tcase_add_test(tcase, a_value_that_is_set_wins_until_it_is_taken_back);
    tcase_add_loop_test(tcase, a_value_that_cannot_be_set_changes_nothing, 0, 5);
    tcase_add_test(tcase, the_last_reload_can_be_asked_for);
    tcase_add_loop_test(tcase, keys_that_do_not_fit_together_are_named_with_line_and_column, 0,
                        (int)(sizeof misfits / sizeof misfits[0]));
    tcase_add_test(tcase, a_reload_whose_keys_do_not_fit_changes_nothing_and_says_where);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
