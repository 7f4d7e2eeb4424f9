/* publisher.c - publish a hundred shots a second, for subscriber.c. Ends with the daemon. */
#include <engine-core/publisher.h>

#include <stdio.h>
#include <time.h>

#define SHOT(FIELD, ARRAY) FIELD(uint32_t, number) FIELD(float, x) FIELD(float, y)
EC_EVENT_STRUCT(shot, "example.shot", SHOT);

int main(void)
{
    struct ec_client *client;
    struct ec_publisher *publisher;
    struct ec_error why = { 0 };
    struct shot *shot;
    uint64_t type;

    if (ec_client_create(&(struct ec_client_desc) { .name = "publisher" }, &client, &why) < 0 ||
        ec_event_type_register(client, shot_desc(), &type, &why) < 0 ||
        ec_publisher_create(client, &(struct ec_publisher_desc) { 0 }, &publisher, &why) < 0) {
        fprintf(stderr, "publisher: %s\n", why.text);
        return 1;
    }
    for (uint32_t number = 0; ec_client_state(client) == EC_CONNECTED; number++) {
        if (ec_publisher_claim(publisher, type, sizeof *shot, (void **)&shot) == EC_OK) {
            *shot = (struct shot) { .number = number, .x = 1.5f, .y = -1.5f };
            ec_publisher_commit(publisher);
        }
        nanosleep(&(struct timespec) { .tv_nsec = 10000000 }, NULL);
    }
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}
