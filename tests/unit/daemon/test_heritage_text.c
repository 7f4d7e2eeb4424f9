/* The heritage as text: what is written is read again; what makes no sense is refused as a whole. */
#include "daemon/heritage_text.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ec_error why;

static struct heritage_content content(void)
{
    static struct lease leases[2];
    static struct checkpoint_heritage checkpoint;
    struct heritage_content made = {
        .instance = 0x1234567890abcdef, .runs = 3, .has_clock = true, .last_id = { 256, 512, 1024 }
    };

    leases[0] = (struct lease) { 7, 4711, 1000, UINT64_MAX, "a \"game\"" };
    leases[1] = (struct lease) { 8, 1, 0, 1, "b" };
    made.leases = leases;
    made.lease_count = 2;
    strcpy(made.boot_id, "boot");
    made.clock = (struct clock_heritage) { .scale_num = 5, .scale_den = 2, .clock_count = 1 };
    made.clock.snapshot.game = (struct ec_game_snapshot) { .real0_ns = INT64_MAX - 1,
                                                           .game0_ns = -5,
                                                           .scale_num = 5,
                                                           .scale_den = 2,
                                                           .until_ns = EC_CLOCK_NEVER };
    made.clock.snapshot.game_next = made.clock.snapshot.game;
    made.clock.snapshot.step[0] = (struct ec_step_snapshot) {
        .name = "physics", .source = EC_STEP_GAME, .period_num = 50000000, .period_den = 3
    };
    made.clock.clock[0].step = UINT64_MAX;
    made.clock.clock[0].period_num = 50000000;
    made.clock.clock[0].period_den = 3;
    checkpoint = (struct checkpoint_heritage) { .id = 33,
                                                .name = "before the \"boss\"",
                                                .game_ns = -6,
                                                .remainder = 1,
                                                .remainder_den = 2,
                                                .clock_count = 1 };
    checkpoint.clock[0].step = made.clock.snapshot.step[0];
    checkpoint.clock[0].period_num = 7;
    checkpoint.clock[0].period_den = 11;
    checkpoint.clock[0].halved = true;
    made.checkpoints[1] = &checkpoint;
    made.has_breaker = true;
    made.breaker = (struct breaker_heritage) { .manual_level = 2,
                                               .manual_end_ns = INT64_MAX,
                                               .manual_reason = "a rehearsal",
                                               .last_reservation_id = 9,
                                               .reservation_count = 2 };
    made.breaker.reservations[0].id = 8;
    made.breaker.reservations[0].client_id = 70;
    made.breaker.reservations[0].bytes = UINT64_MAX;
    made.breaker.reservations[0].held_bytes = UINT64_MAX;
    made.breaker.reservations[1].id = 9;
    made.breaker.reservations[1].client_id = 71;
    return made;
}

/* The text of a content, NUL-terminated. */
static char *text_of(const struct heritage_content *from)
{
    static char text[16384];
    struct ec_json_writer writer;

    ec_json_writer_init(&writer, text, sizeof text - 1);
    heritage_content_write(from, &writer);
    ck_assert_int_eq(ec_json_writer_status(&writer), EC_OK);
    text[writer.bytes] = '\0';
    return text;
}

START_TEST(what_is_written_is_read_again_to_the_bit)
{
    struct heritage_content made = content(), read;
    char *text = text_of(&made);

    ck_assert_msg(heritage_content_read(text, strlen(text), &read, &why) == EC_OK, "%s", why.text);
    ck_assert_uint_eq(read.instance, made.instance);
    ck_assert_mem_eq(read.last_id, made.last_id, sizeof read.last_id);
    ck_assert_mem_eq(&read.clock, &made.clock, sizeof read.clock);
    ck_assert_ptr_nonnull(read.checkpoints[1]);
    ck_assert_mem_eq(read.checkpoints[1], made.checkpoints[1], sizeof *read.checkpoints[1]);
    ck_assert(read.has_breaker);
    ck_assert_mem_eq(&read.breaker, &made.breaker, sizeof read.breaker);
    ck_assert_uint_eq(read.lease_count, 2);
    ck_assert_mem_eq(read.leases, made.leases, 2 * sizeof *read.leases);
    heritage_content_finish(&read);
}
END_TEST

/* One place of a good text changed. */
static const struct {
    const char *from, *to, *says;
} changes[] = {
    { "\"format\":1", "\"format\":2", "format" },
    { "\"runs\":3", "\"runs\":-1", "runs" },
    { "\"ended\":false", "\"ended\":0", "ended" },
    { "\"instance\":\"0x1", "\"instance\":\"1", "instance" },
    { "\"scale_den\":2", "\"scale_den\":0", "game" },
    { "\"scale_num\":5", "\"scale_num\":500", "game" },
    { "\"period_den\":3", "\"period_den\":0", "step clock" },
    { "\"its_period_num\":50000000", "\"its_period_num\":0", "step clock" },
    { "\"source\":1", "\"source\":2", "step clock" },
    { "\"its_late\":0", "\"its_late\":9", "step clock" },
    { "\"name\":\"physics\"", "\"name\":\"\"", "steps" },
    { "\"client_id\":7,", "\"client_id\":0,", "leases" },
    { "\"pid\":4711", "\"pid\":4294967295", "leases" },
    { "\"pid\":4711", "\"pid\":99999999999", "pid" },
    { "\"uid\":1000,", "", "uid" },
    { "\"id\":33", "\"id\":0", "checkpoints" },
    { "\"remainder\":1,\"remainder_den\":2", "\"remainder\":2,\"remainder_den\":2", "checkpoints" },
    { "\"remainder\":1,\"remainder_den\":2", "\"remainder\":0,\"remainder_den\":0", "checkpoints" },
    { "\"its_period_den\":11", "\"its_period_den\":0", "checkpoints" },
    { "\"its_halved\":true", "\"its_halved\":1", "its_halved" },
    { "\"manual_level\":2", "\"manual_level\":4", "breaker" },
    { "\"id\":8,", "\"id\":0,", "reservations" },
    { "\"id\":8,", "\"id\":9,", "reservations" },
    { "\"client_id\":70", "\"client_id\":0", "reservations" },
    { "\"bytes\":18446744073709551615", "\"bytes\":-1", "bytes" },
    { "}\n", "", "byte" },
};

START_TEST(what_makes_no_sense_is_refused_with_its_place)
{
    struct heritage_content made = content(), read;
    char *text = text_of(&made), *at = strstr(text, changes[_i].from), changed[16384];

    ck_assert_ptr_nonnull(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, changes[_i].to,
             at + strlen(changes[_i].from));
    ck_assert_int_lt(heritage_content_read(changed, strlen(changed), &read, &why), 0);
    ck_assert_msg(strstr(why.text, changes[_i].says) != NULL, "%s", why.text);
    ck_assert_ptr_null(read.leases);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heritage text");
    TCase *tcase = tcase_create("heritage text");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, what_is_written_is_read_again_to_the_bit);
    tcase_add_loop_test(tcase, what_makes_no_sense_is_refused_with_its_place, 0,
                        (int)(sizeof changes / sizeof changes[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
