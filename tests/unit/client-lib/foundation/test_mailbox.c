/* A mailbox hands over everything once, and what one thread posts in the order of posting. */
#include "foundation/mailbox.h"

#include <check.h>
#include <pthread.h>
#include <stdint.h>

#include "support/often.h"

#define THREADS 3
#define LETTERS 20000u

struct letter {
    struct ec_mail mail;
    unsigned thread;
    unsigned number;
};

static struct ec_mailbox box;
static struct letter letters[THREADS][LETTERS];

static struct letter *letter_of(struct ec_mail *mail)
{
    return (struct letter *)(void *)mail;
}

START_TEST(what_was_posted_first_is_taken_first)
{
    ck_assert(!ec_mailbox_has_mail(&box));
    ck_assert_ptr_null(ec_mailbox_take(&box));
    for (unsigned i = 0; i < 3; i++)
        ec_mailbox_post(&box, &letters[0][i].mail);
    ck_assert(ec_mailbox_has_mail(&box));
    ck_assert_ptr_eq(ec_mailbox_take(&box), &letters[0][0].mail);
    ck_assert_ptr_eq(letters[0][0].mail.next, &letters[0][1].mail);
    ck_assert_ptr_eq(letters[0][1].mail.next, &letters[0][2].mail);
    ck_assert_ptr_null(letters[0][2].mail.next);
    ck_assert(!ec_mailbox_has_mail(&box));
}
END_TEST

static void *post_all(void *argument)
{
    const unsigned thread = (unsigned)(uintptr_t)argument;

    for (unsigned i = 0; i < LETTERS; i++) {
        letters[thread][i].thread = thread;
        letters[thread][i].number = i;
        ec_mailbox_post(&box, &letters[thread][i].mail);
    }
    return NULL;
}

START_TEST(many_threads_post_and_nothing_is_lost_or_taken_twice)
{
    unsigned next[THREADS] = { 0 }, taken = 0;
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_all, (void *)i), 0);
    while (taken < THREADS * LETTERS) {
        struct ec_mail *mail = ec_mailbox_take(&box);

        while (mail != NULL) {
            struct letter *letter = letter_of(mail);

            mail = mail->next;
            ASSERT_OFTEN(letter->number == next[letter->thread]);
            next[letter->thread]++;
            taken++;
        }
    }
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_ptr_null(ec_mailbox_take(&box));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox");
    TCase *tcase = tcase_create("mailbox");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, what_was_posted_first_is_taken_first);
    tcase_add_test(tcase, many_threads_post_and_nothing_is_lost_or_taken_twice);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
