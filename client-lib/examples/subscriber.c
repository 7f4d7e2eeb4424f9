/* subscriber.c - print the shots that publisher.c publishes. Ends with the daemon. */
#include <engine-core/subscriber.h>

#include <stdio.h>

#define SHOT(FIELD, ARRAY) FIELD(uint32_t, number) FIELD(float, x) FIELD(float, y)
EC_EVENT_STRUCT(shot, "example.shot", SHOT);

int main(void)
{
    struct ec_subscriber_desc shots = { .types = (const char *[]) { "example.shot" },
                                        .type_count = 1 };
    struct ec_client *client;
    struct ec_subscriber *subscriber;
    struct ec_event event;
    struct ec_error why = { 0 };

    if (ec_client_create(&(struct ec_client_desc) { .name = "subscriber" }, &client, &why) < 0 ||
        ec_event_type_register(client, shot_desc(), NULL, &why) < 0 ||
        ec_subscriber_create(client, &shots, &subscriber, &why) < 0) {
        fprintf(stderr, "subscriber: %s\n", why.text);
        return 1;
    }
    while (ec_client_state(client) == EC_CONNECTED) {
        ec_subscriber_wait(subscriber, 100000000);
        while (ec_subscriber_next(subscriber, &event) == EC_OK) {
            struct shot shot = *(const struct shot *)event.payload;

            if (ec_subscriber_done(subscriber) == EC_OK) /* it was whole while it was copied */
                printf("shot %u at %.1f, %.1f\n", shot.number, shot.x, shot.y);
        }
        fflush(stdout);
    }
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}
