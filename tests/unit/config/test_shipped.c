/* The shipped configuration names every key with its built-in value: it is where people look them up. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"

START_TEST(the_shipped_file_has_every_key_with_its_default)
{
    const enum ec_config_id id = (enum ec_config_id)_i;
    char path[4096];
    const struct config_source source = { .file = path };
    struct config *config;
    struct ec_error why;

    snprintf(path, sizeof path, "%s/config/engine-core.json", getenv("EC_SOURCE_DIR"));
    ck_assert_msg(config_create(&source, &config, &why) == EC_OK, "%s", why.text);
    ck_assert_msg(strncmp(config_origin(config, id), path, strlen(path)) == 0, "%s is missing",
                  ec_configs[id].key);
    if (ec_configs[id].type == EC_CONFIG_STRING)
        ck_assert_str_eq(config_string(config, id), ec_configs[id].string);
    else
        ck_assert_int_eq(config_integer(config, id), ec_configs[id].integer);
    config_destroy(config);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shipped");
    TCase *tcase = tcase_create("shipped");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, the_shipped_file_has_every_key_with_its_default, 0, EC_CONFIGS);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
