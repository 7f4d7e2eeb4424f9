/* fixed_step.c - the classic fixed-step loop with interpolation, its time taken from engine-cored.
 *
 *     engine-cored &
 *     fixed_step 5                          # seconds; for ever without
 *     engine-ctl clock scale 0.25           # in slow motion
 *     engine-ctl clock pause                # it stands, and goes on drawing; `clock resume` ends that
 *     engine-ctl clock step physics 3       # three steps while it stands
 *
 * A ball jumps. It is simulated sixty times a second of game time, in steps that are the same in every
 * run, and drawn thirty times a second of real time between its last two places. */
#include <stdio.h>
#include <stdlib.h>

#include <engine-core/clock.h>

#define FRAME_NS 33333333
#define STEP_S (1.0 / 60)

struct ball {
    double height, speed;
};

static void simulate(struct ball *ball)
{
    ball->speed -= 9.81 * STEP_S;
    ball->height += ball->speed * STEP_S;
    if (ball->height < 0)
        ball->height = 0, ball->speed = 7;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 1e9;
    struct ball ball = { .speed = 7 }, before = ball;
    struct ec_error why = { 0 };
    struct ec_step_clock physics;
    struct ec_client *client;
    struct ec_frame frame;
    struct ec_step step;

    if (ec_client_create(&(struct ec_client_desc) { .name = "fixed step" }, &client, &why) < 0 ||
        ec_step_find(client, "physics", &physics) != EC_OK)
        return fprintf(stderr, "fixed_step: %s\n", why.text), 1;
    for (int64_t next = ec_time_real(), end = next + (int64_t)(seconds * 1e9); next < end;) {
        ec_frame_begin(client, &frame);
        while (ec_step_wait_until(&physics, next, &step) == EC_OK) /* until this frame is due */
            for (uint64_t n = step.steps_skipped; n < step.steps_passed; n++)
                before = ball, simulate(&ball);
        const double shown =
            before.height + (ball.height - before.height) * ec_step_alpha(&physics);
        printf("\r%10.3f s %*c\033[K", (double)ec_time_game(client) / 1e9, (int)(shown * 20) + 1,
               'o');
        fflush(stdout);
        ec_frame_end(&frame);
        next += FRAME_NS;
    }
    ec_client_destroy(client);
    return 0;
}
