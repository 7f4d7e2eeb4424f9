/* A list under a lock, in order of addition. */
#include "foundation/memory/frame_list.h"

#include <stddef.h>

#include "foundation/memory/sink.h"

void ec_frame_list_add(struct ec_memory_sink *sink, struct ec_frame_link *link)
{
    struct ec_frame_link **place;

    link->next = NULL;
    if (sink == NULL)
        return;
    pthread_mutex_lock(&sink->frame_lock);
    for (place = &sink->frame_links; *place != NULL; place = &(*place)->next)
        ;
    *place = link;
    pthread_mutex_unlock(&sink->frame_lock);
}

void ec_frame_list_remove(struct ec_memory_sink *sink, struct ec_frame_link *link)
{
    struct ec_frame_link **place;

    if (sink == NULL)
        return;
    pthread_mutex_lock(&sink->frame_lock);
    for (place = &sink->frame_links; *place != NULL; place = &(*place)->next)
        if (*place == link) {
            *place = link->next;
            break;
        }
    pthread_mutex_unlock(&sink->frame_lock);
}

void ec_frame_list_begin(struct ec_memory_sink *sink)
{
    pthread_mutex_lock(&sink->frame_lock);
    for (struct ec_frame_link *link = sink->frame_links; link != NULL; link = link->next)
        if (link->begins != NULL)
            link->begins(link->context);
    pthread_mutex_unlock(&sink->frame_lock);
}

void ec_frame_list_end(struct ec_memory_sink *sink)
{
    pthread_mutex_lock(&sink->frame_lock);
    for (struct ec_frame_link *link = sink->frame_links; link != NULL; link = link->next)
        if (link->ends != NULL)
            link->ends(link->context);
    pthread_mutex_unlock(&sink->frame_lock);
}
