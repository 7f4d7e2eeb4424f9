/* Tiers and the environment. */
#include "foundation/memory/checks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(EC_TIER_DEBUG) || defined(EC_TIER_DEVELOPMENT)
#define BY_TIER true
#else
#define BY_TIER false
#endif

static bool asked_for;

static void read_environment(void)
{
    const char *word = getenv("ENGINE_CORE_CHECKS");

    asked_for = word != NULL && strcmp(word, "1") == 0;
}

bool ec_memory_checks_are_on(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_environment);
    return BY_TIER || asked_for;
}

bool ec_memory_guards_are_on(void)
{
#if defined(EC_TIER_DEBUG)
    return true;
#else
    return false;
#endif
}
