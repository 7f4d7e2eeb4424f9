/* Each check finds what is not well in the daemon's answers, says by what evidence, and what helps. */
#include "engine-ctl/doctor.h"

#include <check.h>
#include <stddef.h>
#include <string.h>

#define SLOT(name) offsetof(struct doctor, name)

/* Of one answer: what is found in it; text NULL: nothing. */
static const struct {
    size_t slot;
    const char *answer;
    enum severity severity;
    const char *text, *evidence, *command;
} cases[] = {
    { SLOT(breaker),
      "{\"level\":1,\"available_bytes\":1048576,\"total_bytes\":10485760,\"cause\":\"memory\"}",
      SEVERITY_WARNING, "The memory breaker is at level 1", "1.0 MiB of 10.0 MiB are available",
      "engine-ctl mem-report" },
    { SLOT(breaker), "{\"level\":3,\"cause\":\"manual\",\"reason\":\"a test\"}", SEVERITY_PROBLEM,
      "level 3", "a test", "engine-ctl breaker reset" },
    { SLOT(breaker), "{\"level\":0,\"manual_level\":1,\"hold_s\":9}", SEVERITY_NOTE,
      "raised by hand", "level 1, 9 s left", "engine-ctl breaker reset" },
    { SLOT(breaker), "{\"level\":0,\"next_level_ns\":60000000000,\"growth_bytes_s\":1024}",
      SEVERITY_WARNING, "Memory shrinks", "1.0 KiB/s less", "engine-ctl top" },
    { SLOT(breaker), "{\"level\":0,\"available_ratio\":0.17,\"thresholds\":[0.15,0.1,0.05]}",
      SEVERITY_NOTE, "little room above level 1", "17.0 % are available", "engine-ctl mem-report" },
    { SLOT(breaker), "{\"level\":0,\"available_ratio\":0.5,\"thresholds\":[0.15,0.1,0.05]}",
      SEVERITY_NOTE, NULL, NULL, NULL },
    { SLOT(breaker), "{\"level\":0,\"clients\":[{\"client_id\":4,\"name\":\"a\",\"late\":2}]}",
      SEVERITY_WARNING, "a does not give memory back", "client 4 was late 2 times",
      "engine-ctl mem-report --client 4" },
    { SLOT(report),
      "{\"items\":[{\"client_id\":4,\"name\":\"a\",\"alive\":true,\"tags\":[{\"tag\":\"audio\","
      "\"bytes\":2048,\"budget_bytes\":1024}]}]}",
      SEVERITY_WARNING, "a uses more memory for audio", "2.0 KiB of 1.0 KiB",
      "engine-ctl mem-report --client 4" },
    { SLOT(clock), "{\"steps\":[{\"name\":\"ai\",\"hz\":10,\"step\":90,\"missed\":10}]}",
      SEVERITY_WARNING, "Clock ai leaves steps out", "10 of 100 steps",
      "engine-ctl clock group ai" },
    { SLOT(clock),
      "{\"steps\":[{\"name\":\"ai\",\"hz\":10,\"jitter_last_minute_ns\":{\"p99\":50000000}}]}",
      SEVERITY_WARNING, "Steps of clock ai come late", "the period is 100.0 ms",
      "engine-ctl clock get" },
    { SLOT(info), "{\"scheduler\":{\"class\":\"other\",\"refused\":\"not permitted\"}}",
      SEVERITY_NOTE, "no real-time priority", "refused: not permitted", "systemctl start" },
    { SLOT(clock), "{\"paused\":true,\"game_ns\":1500000000}", SEVERITY_NOTE, "Game time stands",
      "paused at 1.500 s", "engine-ctl clock resume" },
    { SLOT(clock), "{\"discontinuities\":2}", SEVERITY_NOTE, "Time stood still", "2 times",
      "engine-ctl log tail" },
    { SLOT(clients),
      "{\"items\":[{\"client_id\":3,\"name\":\"a\",\"pid\":9,\"stalled\":true,\"last_frame\":7}]}",
      SEVERITY_WARNING, "a has rendered nothing", "client 3, pid 9, frame 7",
      "engine-ctl call client.get '{\"client_id\":3}'" },
    { SLOT(clients), "{\"items\":[{\"client_id\":3,\"name\":\"a\",\"lost_notifications\":5}]}",
      SEVERITY_WARNING, "a reads the socket too slowly", "lost 5 notifications",
      "engine-ctl clients" },
    { SLOT(closed), "{\"items\":[{\"reason\":\"it does not take its answers\"},{\"reason\":\"\"}]}",
      SEVERITY_WARNING, "did not read", "1 of the last 2", "engine-ctl clients --closed" },
    { SLOT(info), "{\"counters\":{\"control.refused\":3}}", SEVERITY_NOTE, "turned away", "3 times",
      "engine-ctl log tail" },
    { SLOT(events), "{\"items\":[{\"name\":\"shot\",\"published\":9,\"lost\":2,\"refused\":1}]}",
      SEVERITY_WARNING, "Events of type shot are lost", "2 lost by readers, 1 refused",
      "engine-ctl events stats --type shot" },
    { SLOT(events),
      "{\"ports\":[{\"port\":\"main\",\"client_id\":2,\"ring_bytes\":1000,\"used_bytes\":950}]}",
      SEVERITY_WARNING, "A reader holds up the port main", "950 of 1000 bytes",
      "engine-ctl events stats" },
    { SLOT(resources), "{\"groups\":[{\"group\":\"hall\",\"state\":\"failed\",\"resources\":4}]}",
      SEVERITY_PROBLEM, "The group hall failed to load", "4 resources",
      "engine-ctl resources load hall" },
    /* A name is a word for the shell that the command is given to. */
    { SLOT(resources),
      "{\"groups\":[{\"group\":\"$(reboot) it's\",\"state\":\"failed\",\"resources\":4}]}",
      SEVERITY_PROBLEM, "$(reboot)", "4 resources",
      "engine-ctl resources load '$(reboot) it'\\''s'" },
    { SLOT(reload), "{\"errors\":[\"a.json:1:2: control.batch is an integer\"]}", SEVERITY_PROBLEM,
      "would not start", "a.json:1:2", "engine-ctl config check FILE" },
    { SLOT(config), "{\"last_reload\":{\"failed\":true,\"reason\":\"a.json:1:2\"}}",
      SEVERITY_WARNING, "The last reload was refused", "a.json:1:2", "engine-ctl config reload" },
    { SLOT(reload), "{\"needs_restart\":[\"resource.workers\"]}", SEVERITY_NOTE,
      "resource.workers has changed", "read from", "systemctl restart" },
    { SLOT(info), "{\"counters\":{\"log.sink_lost\":2}}", SEVERITY_WARNING, "could not be written",
      "2 lines", "engine-ctl log tail" },
    { SLOT(info), "{\"counters\":{\"log.lost\":2}}", SEVERITY_NOTE, "too many at once", "2 lines",
      "engine-ctl log level" },
    { SLOT(log), "{\"level\":\"debug\"}", SEVERITY_NOTE, "say everything", "level debug",
      "engine-ctl log level info" },
    { SLOT(info), "{\"build\":{\"tier\":\"debug\"}}", SEVERITY_NOTE, "built for debugging",
      "tier debug", "make install" },
    { SLOT(info), "{\"build\":{\"tier\":\"release\"}}", SEVERITY_NOTE, NULL, NULL, NULL },
};

START_TEST(what_is_not_well_is_found_with_evidence_and_what_helps)
{
    static struct doctor doctor;
    cJSON *answer = cJSON_Parse(cases[_i].answer);

    ck_assert_ptr_nonnull(answer);
    memset(&doctor, 0, sizeof doctor);
    memcpy((char *)&doctor + cases[_i].slot, &answer, sizeof answer);
    doctor_check(&doctor);
    if (cases[_i].text == NULL) {
        ck_assert_uint_eq(doctor.count, 0);
    } else {
        ck_assert_uint_eq(doctor.count, 1);
        ck_assert_int_eq(doctor.findings[0].severity, cases[_i].severity);
        ck_assert_msg(strstr(doctor.findings[0].text, cases[_i].text) != NULL, "%s",
                      doctor.findings[0].text);
        ck_assert_msg(strstr(doctor.findings[0].evidence, cases[_i].evidence) != NULL, "%s",
                      doctor.findings[0].evidence);
        ck_assert_msg(strstr(doctor.findings[0].command, cases[_i].command) != NULL, "%s",
                      doctor.findings[0].command);
    }
    cJSON_Delete(answer);
}
END_TEST

START_TEST(nothing_is_found_where_nothing_was_answered)
{
    static struct doctor doctor;

    memset(&doctor, 0, sizeof doctor);
    ck_assert_uint_gt(doctor_check(&doctor), 10);
    ck_assert_uint_eq(doctor.count, 0);
}
END_TEST

START_TEST(findings_beyond_the_last_are_counted)
{
    static struct doctor doctor;

    memset(&doctor, 0, sizeof doctor);
    for (int i = 0; i < FINDINGS_MAX + 3; i++)
        finding_evidence(doctor_find(&doctor, SEVERITY_NOTE, "events", "%d", i), "%d", i);
    ck_assert_uint_eq(doctor.count, FINDINGS_MAX);
    ck_assert_uint_eq(doctor.dropped, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("doctor_checks");
    TCase *tcase = tcase_create("doctor_checks");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, what_is_not_well_is_found_with_evidence_and_what_helps, 0,
                        (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(tcase, nothing_is_found_where_nothing_was_answered);
    tcase_add_test(tcase, findings_beyond_the_last_are_counted);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
