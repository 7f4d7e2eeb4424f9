/* engine-ctl resources alias, resources stats */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <string.h>

static void print_aliases(const struct ctl *ctl, const cJSON *result);
static void print_stats(const struct ctl *ctl, const cJSON *result);

/* The options: 0 set, 1 remove; both as often as wanted. */
int verb_resources_alias(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject(), *set = NULL, *remove = NULL;

    for (size_t i = 0; i < input->list_count; i++) {
        const char *text = input->list[i], *equals = strchr(text, '=');
        char name[1024];

        if (input->list_option[i] == 1) {
            if (remove == NULL)
                remove = cJSON_AddArrayToObject(params, "remove");
            cJSON_AddItemToArray(remove, cJSON_CreateString(text));
            continue;
        }
        if (equals == NULL || equals == text || (size_t)(equals - text) >= sizeof name) {
            cJSON_Delete(params);
            return ctl_fail(EXIT_USAGE, "resources alias: --set is \"%s\", expected NAME=PATH",
                            text);
        }
        memcpy(name, text, (size_t)(equals - text));
        name[equals - text] = '\0';
        if (set == NULL)
            set = cJSON_AddObjectToObject(params, "set");
        cJSON_AddStringToObject(set, name, equals + 1);
    }
    return ctl_show(ctl, "resource.alias", params, print_aliases);
}

int verb_resources_stats(struct ctl *ctl, const struct verb_input *input)
{
    (void)input;
    return ctl_show(ctl, "resource.stats", NULL, print_stats);
}

static void print_aliases(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = { { "NAME", false }, { "PATH", false } };
    struct table aliases = { .columns = columns, .column_count = 2 };
    const cJSON *row;

    cJSON_ArrayForEach(row, json_member(result, "aliases"))
    {
        table_cell(&aliases, "%s", row->string);
        table_cell(&aliases, "%s", row->valuestring);
    }
    table_print(&aliases, stdout, ctl->colours);
}

static void print_stats(const struct ctl *ctl, const cJSON *result)
{
    static const struct {
        const char *name, *title;
    } sizes[] = {
        { "virtual_bytes", "size" },         { "used_bytes", "used" },
        { "freeing_bytes", "freeing" },      { "resident_bytes", "in memory" },
        { "huge_bytes", "huge pages" },      { "free_bytes", "free" },
        { "largest_free_bytes", "largest" },
    };
    const cJSON *heap = json_member(result, "heap"), *decoding = json_member(result, "decoding");
    char text[TEXT_BYTES];

    printf("%sasset heap%s\n", style_on(STYLE_BOLD, ctl->colours), style_off(ctl->colours));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        printf("  %-11s %s\n", sizes[i].title, bytes_text(text, json_number(heap, sizes[i].name)));
    printf("  %-11s %.0f\n", "free ranges", json_number(heap, "free_ranges"));
    printf("  %-11s %s\n", "protection", json_text(heap, "protection"));
    printf("%sdecoding%s\n", style_on(STYLE_BOLD, ctl->colours), style_off(ctl->colours));
    printf("  %-11s %s\n", "guard", json_text(decoding, "guard"));
    printf("  %-11s %.0f of %.0f\n", "running", json_number(decoding, "running"),
           json_number(decoding, "workers"));
    printf("  %-11s %.0f\n", "waiting", json_number(decoding, "waiting"));
    printf("  %-11s %.0f\n", "cancelled", json_number(decoding, "cancelled"));
}
