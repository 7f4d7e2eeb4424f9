/* engine-ctl resources dump: what is in memory, as a file. */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <engine-core/client.h>
#include <engine-core/resource.h>

#include "decoders/png_file.h"

static int dump(struct ctl *ctl, struct ec_client *client, const struct verb_input *input);
static int write_view(const struct ec_resource_view *view, uint32_t level, const char *path,
                      struct ec_error *why);
static int write_image(FILE *file, const struct ec_resource_view *view, uint32_t index,
                       struct ec_error *why);
static int write_failed(const char *path, struct ec_error *why);
static bool name_is_unknown(struct ec_client *client, const char *name, struct ec_error *why);
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
    if (rc == EC_ERR_NOT_FOUND && name_is_unknown(client, name, &why))
        return ctl_fail(EXIT_ANSWERED_ERROR, "resources dump: %s", why.text);
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

/* Images become PNG; everything else goes out byte by byte. A file that could not be completed is removed,
 * but nothing that is no file: a pipe, a terminal or a device stays. */
static int write_view(const struct ec_resource_view *view, uint32_t level, const char *path,
                      struct ec_error *why)
{
    struct stat status = { 0 };
    FILE *file;
    int rc;

    if (level > 0 && level >= view->levels) {
        snprintf(why->text, sizeof why->text,
                 view->content == EC_RESOURCE_IMAGE ? "it has %u levels, from 0 on"
                                                    : "it is no image and has no levels",
                 view->levels);
        return EC_ERR_PARAM;
    }
    file = fopen(path, "wbe");
    if (file == NULL)
        return write_failed(path, why);
    fstat(fileno(file), &status);
    rc = view->content == EC_RESOURCE_IMAGE ? write_image(file, view, level, why)
         : fwrite(view->data, 1, view->bytes, file) == view->bytes ? EC_OK
                                                                   : write_failed(path, why);
    if (fclose(file) != 0 && rc == EC_OK)
        rc = write_failed(path, why);
    if (rc != EC_OK && S_ISREG(status.st_mode))
        unlink(path);
    return rc;
}

static int write_image(FILE *file, const struct ec_resource_view *view, uint32_t index,
                       struct ec_error *why)
{
    struct ec_resource_level level = ec_resource_level(view, index);
    const struct png_file_image image = { .pixels = level.data,
                                          .width = level.width,
                                          .height = level.height,
                                          .channels = view->channels,
                                          .stride = level.stride };

    return png_file_write(file, &image, why);
}

static int write_failed(const char *path, struct ec_error *why)
{
    snprintf(why->text, sizeof why->text, "%s: %s", path, strerror(errno));
    return EC_ERR_SYSTEM;
}

/* The daemon knows which name may be meant, and says so. */
static bool name_is_unknown(struct ec_client *client, const char *name, struct ec_error *why)
{
    cJSON *params = cJSON_CreateObject();
    char *text, *result = NULL;
    int rc;

    cJSON_AddStringToObject(params, "name", name);
    text = json_params(params);
    rc = ec_client_call(client, "resource.get", text, &result, why);
    cJSON_free(text);
    free(result);
    return rc < 0;
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
