/* before_answers.h - what has to be in a file before an answer goes out.
 *
 * A module that answers only for what is written notes that there is something to write; the control plane
 * lets it be written before it sends. So what many requests of one read have changed is written once.
 *
 *     before_answers_add(services->before_answers, write_now, module); // once
 *     before_answers_note(services->before_answers);                   // after each change
 *
 * Thread: loop. Cost: a load for each send while there is nothing to write. */
#ifndef ENGINE_CORED_BEFORE_ANSWERS_H
#define ENGINE_CORED_BEFORE_ANSWERS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#define BEFORE_ANSWERS_MAX 4

struct before_answers {
    bool is_due;
    unsigned count;
    struct {
        void (*write)(void *context); /* does nothing when its module has nothing to write */
        void *context;
    } rows[BEFORE_ANSWERS_MAX];
};

static inline void before_answers_add(struct before_answers *before, void (*write)(void *context),
                                      void *context)
{
    assert(before->count < BEFORE_ANSWERS_MAX);
    before->rows[before->count].write = write;
    before->rows[before->count].context = context;
    before->count++;
}

static inline void before_answers_remove(struct before_answers *before, const void *context)
{
    for (unsigned i = 0; i < before->count; i++)
        if (before->rows[i].context == context)
            before->rows[i--] = before->rows[--before->count];
}

static inline void before_answers_note(struct before_answers *before)
{
    before->is_due = true;
}

static inline void before_answers_write(struct before_answers *before)
{
    if (__builtin_expect(!before->is_due, true))
        return;
    before->is_due = false;
    for (unsigned i = 0; i < before->count; i++)
        before->rows[i].write(before->rows[i].context);
}

#endif
