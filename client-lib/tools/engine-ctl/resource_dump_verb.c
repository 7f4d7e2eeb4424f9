/* engine-ctl resources dump: what is in memory, as a file. */
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/client.h>
#include <engine-core/resource.h>

#include "decoders/png_file.h"

static int dump(struct ctl *ctl, struct ec_client *client, const struct verb_input *input);
static int write_view(const struct ec_resource_view *view, uint32_t level, const char *path,
                      struct ec_error *why);
static int write_bytes(const char *path, const void *bytes, size_t count, struct ec_error *why);
static const char *not_there(int rc);

/* It reads the memory that games map, as a game does; nothing is copied on the way. */
int verb_resources_dump(struct ctl *ctl, const struct verb_input *input)
{
    const struct ec_client_desc desc = { .name = "engine-ctl",
                                         .socket_path = ctl->socket_path,
                                         .timeout_ms = (uint32_t)ctl->timeout_ms };
    struct ec_client *client;
    struct ec_error why = { 0 };
    int rc = ec_client_create(&desc, &client, &why);

    if (rc != EC_OK)
        return ctl_fail(ctl_exit_code(rc), "resources dump: %s", why.text);
    rc = dump(ctl, client, input);
    ec_client_destroy(client);
    return rc;
}

/* The options: 0 mip. */
static int dump(struct ctl *ctl, struct ec_client *client, const struct verb_input *input)
{
    const char *name = input->arguments[0], *path = input->arguments[1];
    struct ec_resource_view view;
    struct ec_error why = { 0 };
    ec_resource resource;
    char text[TEXT_BYTES];
    long long level = 0;
    int rc;

    if (input->options[0] != NULL && !verb_number(input->options[0], 0, 31, &level))
        return ctl_fail(EXIT_USAGE, "resources dump: --mip is \"%s\", expected 0..31",
                        input->options[0]);
    rc = ec_resource_find(client, name, &resource);
    if (rc == EC_OK)
        rc = ec_resource_acquire(client, resource, &view);
    if (rc != EC_OK)
        return ctl_fail(EXIT_ANSWERED_ERROR, "resources dump: %s %s", name, not_there(rc));
    rc = write_view(&view, (uint32_t)level, path, &why);
    ec_resource_release(client, resource);
    if (rc != EC_OK)
        return ctl_fail(EXIT_ANSWERED_ERROR, "resources dump: %s", why.text);
    if (ctl->json)
        printf("{\"bytes\":%zu,\"width\":%u,\"height\":%u,\"channels\":%u,\"levels\":%u}\n",
               view.bytes, view.width, view.height, view.channels, view.levels);
    else if (view.content == EC_RESOURCE_IMAGE)
        printf("%s: %u x %u, %u channels, %u levels\n", path, view.width, view.height,
               view.channels, view.levels);
    else
        printf("%s: %s\n", path, bytes_text(text, (double)view.bytes));
    return ctl_flush();
}

/* Images become PNG; everything else goes out byte by byte. */
static int write_view(const struct ec_resource_view *view, uint32_t level, const char *path,
                      struct ec_error *why)
{
    struct ec_resource_level at;
    struct png_file_image image;

    if (view->content != EC_RESOURCE_IMAGE)
        return write_bytes(path, view->data, view->bytes, why);
    at = ec_resource_level(view, level);
    image = (struct png_file_image) { .pixels = at.data,
                                      .width = at.width,
                                      .height = at.height,
                                      .channels = view->channels,
                                      .stride = at.stride };
    if (at.data == NULL) {
        snprintf(why->text, sizeof why->text, "it has %u levels", view->levels);
        return EC_ERR_PARAM;
    }
    return png_file_write(path, &image, why);
}

static int write_bytes(const char *path, const void *bytes, size_t count, struct ec_error *why)
{
    FILE *file = fopen(path, "wbe");
    bool whole = file != NULL && fwrite(bytes, 1, count, file) == count;
    int error = errno;

    if (file != NULL && fclose(file) != 0 && whole) {
        whole = false;
        error = errno;
    }
    if (whole)
        return EC_OK;
    if (file != NULL)
        unlink(path);
    snprintf(why->text, sizeof why->text, "%s: %s", path, strerror(error));
    return EC_ERR_SYSTEM;
}

static const char *not_there(int rc)
{
    switch (rc) {
    case EC_ERR_NOT_FOUND:
        return "is not defined";
    case EC_ERR_EVICTED:
        return "is evicted; resources request brings it back";
    case EC_AGAIN:
        return "is being loaded or evicted";
    default:
        return "is not loaded";
    }
}
