/* known_links.c - see known_links.h. */
#include "client/known_links.h"

#include <stdlib.h>
#include <sys/stat.h>

void ec_known_links_add(struct ec_known_links *links, const struct ec_known_link *link)
{
    ec_known_links_remove(links, link->id);
    if (links->count == links->capacity) {
        uint32_t capacity = links->capacity != 0 ? links->capacity * 2 : 8;
        struct ec_known_link *grown = realloc(links->rows, capacity * sizeof *grown);

        if (grown == NULL)
            return;
        links->rows = grown;
        links->capacity = capacity;
    }
    links->rows[links->count++] = *link;
}

void ec_known_links_remove(struct ec_known_links *links, uint32_t id)
{
    for (uint32_t i = 0; i < links->count; i++)
        if (links->rows[i].id == id)
            links->rows[i--] = links->rows[--links->count];
}

void ec_known_links_finish(struct ec_known_links *links)
{
    free(links->rows);
    *links = (struct ec_known_links) { 0 };
}

uint64_t ec_known_link_segment(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

void ec_known_links_write(const struct ec_known_links *links, bool of_port,
                          struct ec_json_writer *writer)
{
    ec_json_member_array(writer, of_port ? "readers" : "ports");
    for (uint32_t i = 0; i < links->count; i++) {
        const struct ec_known_link *link = &links->rows[i];

        ec_json_object_begin(writer);
        ec_json_member_u64(writer, of_port ? "reader_id" : "port_id", link->id);
        if (!of_port)
            ec_json_member_u64(writer, "cursor", link->cursor);
        ec_json_member_u64(writer, "reader_slot", link->reader_slot);
        ec_json_member_hex64(writer, "segment", link->segment);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}
