/* clock_arithmetic.c - see clock_arithmetic.h for the formulas.
 *
 * Why 128 bits suffice: time since a base is below 2^63 ns. A period's terms are below 2^62 and a
 * scale's below 2^63, so that no product reaches 2^127. */
#include "segment/clock_arithmetic.h"

#include <assert.h>

#define NS_PER_S 1000000000u

static ec_u128 gcd(ec_u128 a, ec_u128 b)
{
    while (b != 0) {
        ec_u128 rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* base + ns, held at the end of time. */
static int64_t add_saturated(int64_t base_ns, ec_u128 ns)
{
    uint64_t room = (uint64_t)INT64_MAX - (uint64_t)base_ns; /* right for negative bases, too */

    return ns > room ? INT64_MAX : (int64_t)((uint64_t)base_ns + (uint64_t)ns);
}

int ec_period_of_rate(uint64_t rate_num, uint64_t rate_den, uint64_t *period_num,
                      uint64_t *period_den)
{
    ec_u128 num = (ec_u128)rate_den * NS_PER_S;
    ec_u128 den = rate_num;
    ec_u128 common;

    if (rate_num == 0 || rate_den == 0)
        return EC_ERR_PARAM;
    common = gcd(num, den);
    num /= common;
    den /= common;
    if (num >= EC_PERIOD_TERM_MAX || den >= EC_PERIOD_TERM_MAX)
        return EC_ERR_PARAM;
    if (num < den * (ec_u128)EC_PERIOD_NS_MIN || num > den * (ec_u128)EC_PERIOD_NS_MAX)
        return EC_ERR_PARAM;
    *period_num = (uint64_t)num;
    *period_den = (uint64_t)den;
    return EC_OK;
}

void ec_rate_of_period(uint64_t period_num, uint64_t period_den, uint64_t *rate_num,
                       uint64_t *rate_den)
{
    ec_u128 num = (ec_u128)period_den * NS_PER_S;
    ec_u128 common = gcd(num, period_num);

    *rate_num = (uint64_t)(num / common); /* fits: what it was made of did */
    *rate_den = (uint64_t)(period_num / common);
}

bool ec_game_valid(const struct ec_game_snapshot *game)
{
    return game->scale_den > 0 && game->scale_den <= EC_SCALE_DEN_MAX &&
           game->remainder < game->scale_den &&
           game->scale_num <= EC_SCALE_MAX * (uint64_t)game->scale_den;
}

static bool period_valid(uint64_t num, uint64_t den)
{
    return num > 0 && num < EC_PERIOD_TERM_MAX && den > 0 && den < EC_PERIOD_TERM_MAX;
}

bool ec_step_valid(const struct ec_step_snapshot *step)
{
    return period_valid(step->period_num, step->period_den) && step->fraction < step->period_den &&
           (step->until_step == 0 || (step->until_step >= step->n0 &&
                                      period_valid(step->next_period_num, step->next_period_den)));
}

/* The clock as it is after an announced change. Rare, so it stays out of the way. */
static __attribute__((noinline)) struct ec_step_snapshot announced(struct ec_step_snapshot step)
{
    ec_step_rebase_announced(&step);
    return step;
}

int64_t ec_step_due_ns(const struct ec_step_snapshot *step, uint64_t number)
{
    ec_u128 parts;

    if (step->until_step != 0 && number > step->until_step) {
        struct ec_step_snapshot next = announced(*step);

        return ec_step_due_ns(&next, number);
    }
    if (number < step->n0)
        return step->base_ns;
    parts = step->fraction + (ec_u128)(number - step->n0) * step->period_num;
    return add_saturated(step->base_ns, parts / step->period_den + (parts % step->period_den != 0));
}

/* due(n) <= t means fraction + k P <= (t - base) Q, because t is whole: so k is a floor. */
uint64_t ec_step_at(const struct ec_step_snapshot *step, int64_t source_ns)
{
    uint64_t number;
    ec_u128 parts;

    if (source_ns <= step->base_ns)
        return step->n0;
    parts = (ec_u128)((uint64_t)source_ns - (uint64_t)step->base_ns) * step->period_den;
    if (parts < step->fraction)
        return step->n0;
    number = step->n0 + (uint64_t)((parts - step->fraction) / step->period_num);
    if (step->until_step != 0 &&
        number >= step->until_step) { /* it may be later by a shorter one */
        struct ec_step_snapshot next = announced(*step);

        return ec_step_at(&next, source_ns);
    }
    return number;
}

double ec_step_fraction(const struct ec_step_snapshot *step, uint64_t number, int64_t source_ns)
{
    int64_t due_ns = ec_step_due_ns(step, number);
    bool is_next = step->until_step != 0 && number >= step->until_step;
    double since_ns, period_ns;

    if (source_ns <= due_ns)
        return 0.0;
    since_ns = (double)((uint64_t)source_ns - (uint64_t)due_ns);
    period_ns = is_next ? (double)step->next_period_num / (double)step->next_period_den
                        : (double)step->period_num / (double)step->period_den;
    return since_ns < period_ns ? since_ns / period_ns : 1.0;
}

/* A remainder of remainder/remainder_den ns, and the new fraction num/den ns that is to go on from
 * it: bring both to one denominator below den_limit, num below num_limit. */
static int join_remainder(uint64_t *remainder, uint64_t remainder_den, uint64_t *num, uint64_t *den,
                          uint64_t num_limit, uint64_t den_limit)
{
    ec_u128 shared = gcd(*remainder, remainder_den); /* remainder 0 leaves denominator 1 */
    uint64_t r = (uint64_t)(*remainder / shared);
    uint64_t r_den = (uint64_t)(remainder_den / shared);
    ec_u128 common = (ec_u128)*den / gcd(*den, r_den) * r_den;

    if (common >= den_limit || (ec_u128)*num * (common / *den) >= num_limit) {
        *remainder = (uint64_t)((ec_u128)r * *den / r_den);
        return EC_AGAIN;
    }
    *remainder = (uint64_t)(r * (common / r_den));
    *num = (uint64_t)(*num * (common / *den));
    *den = (uint64_t)common;
    return EC_OK;
}

int ec_step_rebase(struct ec_step_snapshot *step, uint64_t number, uint64_t period_num,
                   uint64_t period_den)
{
    uint64_t old_den = step->period_den;
    ec_u128 parts;

    assert(number >= step->n0 && ec_step_valid(step));
    parts = step->fraction + (ec_u128)(number - step->n0) * step->period_num;
    step->base_ns = add_saturated(step->base_ns, parts / old_den);
    step->fraction = (uint64_t)(parts % old_den);
    step->n0 = number;
    step->period_num = period_num;
    step->period_den = period_den;
    return join_remainder(&step->fraction, old_den, &step->period_num, &step->period_den,
                          EC_PERIOD_TERM_MAX, EC_PERIOD_TERM_MAX);
}

int ec_step_rebase_announced(struct ec_step_snapshot *step)
{
    uint64_t until = step->until_step;

    step->until_step = 0;
    return ec_step_rebase(step, until, step->next_period_num, step->next_period_den);
}

/* game(real) >= game_ns means (real - real0) num + remainder >= (game_ns - game0) den: a ceiling. */
int64_t ec_game_real_ns(const struct ec_game_snapshot *game, int64_t game_ns)
{
    ec_u128 parts;

    if (game_ns <= game->game0_ns)
        return game->real0_ns;
    parts = (ec_u128)((uint64_t)game_ns - (uint64_t)game->game0_ns) * game->scale_den;
    if (game->scale_num == 0)
        return INT64_MAX; /* the remainder is below 1 ns, so it does not reach game_ns */
    parts -= game->remainder;
    return add_saturated(game->real0_ns, parts / game->scale_num + (parts % game->scale_num != 0));
}

int ec_game_rebase(struct ec_game_snapshot *game, int64_t real_ns, uint64_t scale_num,
                   uint64_t scale_den)
{
    uint64_t old_den = game->scale_den;
    uint64_t since;
    ec_u128 parts, common;

    assert(real_ns >= game->real0_ns && ec_game_valid(game) && scale_den > 0);
    since = (uint64_t)real_ns - (uint64_t)game->real0_ns;
    parts = (ec_u128)since * game->scale_num + game->remainder;
    common = gcd(scale_num, scale_den);
    game->game0_ns = add_saturated(game->game0_ns, parts / old_den);
    game->remainder = (uint64_t)(parts % old_den);
    game->real0_ns = real_ns;
    game->scale_num = (uint64_t)(scale_num / common);
    game->scale_den = (uint64_t)(scale_den / common);
    return join_remainder(&game->remainder, old_den, &game->scale_num, &game->scale_den, UINT64_MAX,
                          EC_SCALE_DEN_MAX + 1);
}

int ec_game_set(struct ec_game_snapshot *game, int64_t real_ns, int64_t game_ns, uint64_t remainder,
                uint64_t remainder_den)
{
    assert(remainder < remainder_den);
    game->real0_ns = real_ns;
    game->game0_ns = game_ns;
    game->remainder = remainder;
    return join_remainder(&game->remainder, remainder_den, &game->scale_num, &game->scale_den,
                          UINT64_MAX, EC_SCALE_DEN_MAX + 1);
}
