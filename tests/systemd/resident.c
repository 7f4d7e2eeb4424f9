/* resident.c - a game for the boot test: it stays, and says each time that it is connected, as whom.
 *
 * Lines on stdout: "connected ID". Ends by a signal. */
#include <engine-core/client.h>
#include <engine-core/event.h>
#include <engine-core/publisher.h>

#include <stdio.h>
#include <unistd.h>

static struct ec_client *client;

static void on_state(void *context, enum ec_client_state state)
{
    (void)context;
    if (state == EC_CONNECTED)
        printf("connected %u\n", ec_client_id(client));
    else
        printf("alone\n");
    fflush(stdout);
}

int main(void)
{
    struct ec_client_desc desc = { .name = "resident", .on_state = on_state };
    struct ec_event_type_desc type = { .name = "resident.word", .max_bytes = 64 };
    struct ec_publisher_desc port = { 0 };
    struct ec_publisher *publisher;
    struct ec_error why = { 0 };

    if (ec_client_create(&desc, &client, &why) < 0 ||
        ec_event_type_register(client, &type, NULL, &why) < 0 ||
        ec_publisher_create(client, &port, &publisher, &why) < 0) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    on_state(NULL, EC_CONNECTED);
    for (;;)
        pause();
}
