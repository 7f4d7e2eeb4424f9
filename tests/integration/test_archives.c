/* Content from distribution packages, mounted and loaded whole: a Doom WAD, a zip of thousands of PNG, a
 * tree of directories, and a Quake PAK and a 7z made of that tree. Then the same kinds of files damaged:
 * errors, and nothing stays. */
#include <check.h>
#include <engine-core/client.h>
#include <engine-core/resource.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "foundation/json/json_scan.h"
#include "support/asset_daemon.h"
#include "support/reply.h"
#include "support/sample_images.h"

/* Packages freedoom, libreoffice-style-colibre and kobodeluxe-data. */
#define WAD "/usr/share/games/doom/freedoom1.wad"
#define ZIP "/usr/share/libreoffice/share/config/images_colibre.zip"
#define TREE "/usr/share/kobo-deluxe"
#define FILES_MAX 16384

static struct asset_daemon assets;
static char params[1 << 20];
static char path[256]; /* of the archive that a test makes */

/* What should be found, as the test read it itself. */
struct content {
    char *name;
    const unsigned char *bytes;
    size_t count;
};
static struct content contents[FILES_MAX];
static unsigned content_count;

/* ---- asking ----------------------------------------------------------------------------------- */

static void start(const char *const *arguments)
{
    assets = (struct asset_daemon) { 0 };
    asset_daemon_start_bare(&assets, arguments);
    content_count = 0;
}

static void stop(void)
{
    path[0] = '\0';
    asset_daemon_stop(&assets);
}

static void mount(const char *what)
{
    ck_assert_msg(access(what, R_OK) == 0, "%s is missing: .ci/install-packages test sample", what);
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s\"}", what));
}

/* A load that may fail. */
static const char *load(const char *group)
{
    return asset_call(&assets, "resource.load", "{\"group\":\"%s\"}", group);
}

static int64_t used_bytes(void)
{
    return reply_number(asset_call(&assets, "resource.stats", "{}"), "result/heap/used_bytes");
}

/* ---- content ---------------------------------------------------------------------------------- */

static const unsigned char *map_file(const char *file, size_t *count)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *bytes;

    ck_assert_msg(fd >= 0 && fstat(fd, &st) == 0, "%s is missing: .ci/install-packages test sample",
                  file);
    *count = (size_t)st.st_size;
    if (*count == 0) {
        close(fd);
        return (const unsigned char *)"";
    }
    bytes = mmap(NULL, *count, PROT_READ, MAP_PRIVATE, fd, 0);
    ck_assert_ptr_ne(bytes, MAP_FAILED);
    close(fd);
    return bytes;
}

static void expect(const char *name, const unsigned char *bytes, size_t count)
{
    ck_assert_uint_lt(content_count, FILES_MAX);
    contents[content_count++] = (struct content) { strdup(name), bytes, count };
}

static int add_file(const char *file, const struct stat *st, int type, struct FTW *at)
{
    size_t count;
    const unsigned char *bytes;

    (void)st;
    (void)at;
    if (type != FTW_F)
        return 0;
    bytes = map_file(file, &count);
    expect(file + strlen(TREE) + 1, bytes, count);
    return 0;
}

static void expect_tree(void)
{
    ck_assert_int_eq(nftw(TREE, add_file, 16, FTW_PHYS), 0);
    ck_assert_uint_gt(content_count, 50);
}

static uint32_t le32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Define and load everything that is expected, as one group, and compare each byte that a game sees. */
static void load_all_and_compare(const char *kind)
{
    struct ec_client *client;
    size_t at = (size_t)sprintf(params, "{\"group\":\"all\",\"resources\":[");
    const char *reply;

    for (unsigned i = 0; i < content_count; i++) {
        at += (size_t)snprintf(params + at, sizeof params - at,
                               "%s{\"name\":\"r%u\",\"path\":\"%s\",\"kind\":\"%s\"}",
                               i > 0 ? "," : "", i, contents[i].name, kind);
        ck_assert_uint_lt(at, sizeof params - 3);
    }
    strcpy(params + at, "]}");
    asset_ok(line_client_call(&assets.line, "resource.define", params));
    reply = load("all");
    asset_ok(reply);
    ck_assert_int_eq(reply_number(reply, "result/loaded"), content_count);
    client = asset_game(&assets, "game");
    for (unsigned i = 0; i < content_count; i++) {
        struct ec_resource_view view;
        ec_resource resource;
        char name[16];

        snprintf(name, sizeof name, "r%u", i);
        ck_assert_int_eq(ec_resource_find(client, name, &resource), EC_OK);
        ck_assert_int_eq(ec_resource_acquire(client, resource, &view), EC_OK);
        if (contents[i].bytes != NULL) { /* else only the load is checked */
            ck_assert_msg(view.bytes == contents[i].count, "%s: %zu", contents[i].name, view.bytes);
            ck_assert_msg(memcmp(view.data, contents[i].bytes, view.bytes) == 0, "%s",
                          contents[i].name);
        } else {
            ck_assert_uint_gt(view.width, 0);
        }
        ec_resource_release(client, resource);
    }
    ec_client_destroy(client);
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"all\"}"));
    asset_ok(asset_call(&assets, "resource.evict", "{\"bytes\":1}")); /* waits for the memory */
    ck_assert_int_eq(used_bytes(), 0);
}

/* ---- whole archives --------------------------------------------------------------------------- */

static const char *const huge_heap[] = { "--set", "resource.heap_huge=always", NULL };
static const char *const no_sandbox[] = { "--set", "resource.sandbox=false", NULL };
static const char *const *const ways[] = { NULL, huge_heap, no_sandbox };

START_TEST(a_tree_of_directories_is_loaded_whole)
{
    start(ways[_i]);
    expect_tree();
    mount(TREE);
    load_all_and_compare("raw");
    stop();
}
END_TEST

/* Every lump by its name, the last one of those with one name; and those of the maps by map, too. */
START_TEST(a_doom_wad_is_loaded_whole)
{
    size_t count;
    const unsigned char *wad = map_file(WAD, &count);
    const uint32_t lumps = le32(wad + 4), directory = le32(wad + 8);
    unsigned maps = 0;

    start(NULL);
    ck_assert_mem_eq(wad, "IWAD", 4);
    for (uint32_t i = 0; i < lumps; i++) {
        const unsigned char *row = wad + directory + 16 * i;
        unsigned later = 0;
        char name[9] = "";

        memcpy(name, row + 8, 8);
        for (char *at = strchr(name, '\\'); at != NULL; at = strchr(at, '\\'))
            *at = '^';
        for (uint32_t j = i + 1; j < lumps; j++)
            later += memcmp(wad + directory + 16 * j + 8, row + 8, 8) == 0;
        if (later == 0)
            expect(name, wad + le32(row), le32(row + 4));
        if (i + 10 >= lumps || memcmp(row + 16 + 8, "THINGS\0", 8) != 0)
            continue;
        maps++;
        for (uint32_t j = 1; j <= 10; j++) { /* THINGS to BLOCKMAP */
            char path_in_map[24];

            snprintf(path_in_map, sizeof path_in_map, "%s/%.8s", name,
                     (const char *)row + 16 * j + 8);
            expect(path_in_map, wad + le32(row + 16 * j), le32(row + 16 * j + 4));
        }
    }
    ck_assert_uint_ge(maps, 36); /* four episodes */
    ck_assert_uint_gt(content_count, 3000);
    mount(WAD);
    load_all_and_compare("raw");
    stop();
}
END_TEST

/* The names stand in the directory at the end of the file. */
START_TEST(a_zip_of_thousands_of_pictures_is_loaded_whole)
{
    size_t count;
    const unsigned char *zip = map_file(ZIP, &count), *end = zip + count - 22, *row;

    start(NULL);
    while (le32(end) != 0x06054b50)
        end--;
    row = zip + le32(end + 16);
    while (le32(row) == 0x02014b50) {
        const unsigned bytes = row[28] | (unsigned)row[29] << 8;
        char name[256];

        ck_assert_uint_lt(bytes, sizeof name);
        memcpy(name, row + 46, bytes);
        name[bytes] = '\0';
        if (bytes > 4 && strcmp(name + bytes - 4, ".png") == 0)
            expect(name, NULL, 0);
        row += 46 + bytes + (row[30] | (unsigned)row[31] << 8) + (row[32] | (unsigned)row[33] << 8);
    }
    ck_assert_uint_gt(content_count, 4000);
    mount(ZIP);
    load_all_and_compare("image");
    stop();
}
END_TEST

static void put32(FILE *file, uint32_t value)
{
    const unsigned char bytes[4] = { (unsigned char)value, (unsigned char)(value >> 8),
                                     (unsigned char)(value >> 16), (unsigned char)(value >> 24) };

    ck_assert_uint_eq(fwrite(bytes, 1, 4, file), 4);
}

/* Quake's format: names of at most 55 bytes, and nothing is packed. */
static void write_pak(void)
{
    FILE *file;
    uint32_t at = 12;

    snprintf(path, sizeof path, "%s/content.pak", assets.process.directory);
    file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite("PACK", 1, 4, file), 4);
    for (unsigned i = 0; i < content_count; i++)
        at += (uint32_t)contents[i].count;
    put32(file, at);
    put32(file, 64 * content_count);
    for (unsigned i = 0; i < content_count; i++)
        ck_assert_uint_eq(fwrite(contents[i].bytes, 1, contents[i].count, file), contents[i].count);
    at = 12;
    for (unsigned i = 0; i < content_count; i++) {
        char name[56] = "";

        ck_assert_uint_lt(strlen(contents[i].name), sizeof name);
        memcpy(name, contents[i].name, strlen(contents[i].name));
        ck_assert_uint_eq(fwrite(name, 1, sizeof name, file), sizeof name);
        put32(file, at);
        put32(file, (uint32_t)contents[i].count);
        at += (uint32_t)contents[i].count;
    }
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(a_quake_pak_is_loaded_whole)
{
    start(NULL);
    expect_tree();
    write_pak();
    mount(path);
    load_all_and_compare("raw");
    stop();
}
END_TEST

static void write_7z(void)
{
    char command[512];

    snprintf(path, sizeof path, "%s/content.7z", assets.process.directory);
    snprintf(command, sizeof command, "cd %s && 7z a -bd -y %s . >/dev/null", TREE, path);
    ck_assert_msg(system(command) == 0, "%s (package p7zip-full)", command);
}

/* One solid block, so each entry unpacks what is before it: a few do. */
START_TEST(a_7z_is_mounted_and_read)
{
    start(NULL);
    expect_tree();
    while (content_count > 20)
        free(contents[--content_count].name);
    write_7z();
    mount(path);
    load_all_and_compare("raw");
    stop();
}
END_TEST

/* ---- order and names -------------------------------------------------------------------------- */

static void write_file(const char *name, const char *text)
{
    char file[300];
    int fd;

    snprintf(file, sizeof file, "%s/%s", assets.process.directory, name);
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void remove_file(const char *name)
{
    char file[300];

    snprintf(file, sizeof file, "%s/%s", assets.process.directory, name);
    ck_assert_int_eq(remove(file), 0);
}

static void make_folder(const char *name)
{
    char folder[300];

    snprintf(folder, sizeof folder, "%s/%s", assets.process.directory, name);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
}

static void assert_holds(const char *name, const char *text)
{
    struct ec_client *client = asset_game(&assets, "game");
    struct ec_resource_view view;
    ec_resource resource;

    ck_assert_int_eq(ec_resource_find(client, name, &resource), EC_OK);
    ck_assert_int_eq(ec_resource_acquire(client, resource, &view), EC_OK);
    ck_assert_uint_eq(view.bytes, strlen(text));
    ck_assert_mem_eq(view.data, text, view.bytes);
    ec_resource_release(client, resource);
    ec_client_destroy(client);
}

START_TEST(a_directory_over_an_archive_replaces_single_files)
{
    struct sample_zip zip = { 0 };

    start(NULL);
    snprintf(path, sizeof path, "%s/content.zip", assets.process.directory);
    sample_zip_add(&zip, "a.txt", "a of the archive", 16);
    sample_zip_add(&zip, "b.txt", "b of the archive", 16);
    sample_zip_write(&zip, path);
    make_folder("over");
    write_file("over/a.txt", "a of the directory");
    mount(path);
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s/over\",\"append\":false}",
                        assets.process.directory));
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"g\",\"resources\":[{\"name\":\"a\",\"path\":"
                        "\"a.txt\"},{\"name\":\"b\",\"path\":\"b.txt\"}]}"));
    asset_ok(load("g"));
    assert_holds("a", "a of the directory");
    assert_holds("b", "b of the archive");
    remove_file("over/a.txt");
    remove_file("over");
    stop();
}
END_TEST

START_TEST(aliases_are_followed_when_a_resource_is_loaded)
{
    const char *reply;

    start(NULL);
    make_folder("tree");
    make_folder("tree/hd");
    write_file("tree/wall", "plain");
    write_file("tree/hd/wall", "fine");
    asset_ok(
        asset_call(&assets, "resource.mount", "{\"path\":\"%s/tree\"}", assets.process.directory));
    asset_ok(asset_call(
        &assets, "resource.define",
        "{\"group\":\"g\",\"resources\":[{\"name\":\"w\",\"path\":\"textures/wall\"}]}"));
    ck_assert_int_eq(reply_number(load("g"), "error/code"), EC_ERR_GROUP);
    asset_ok(asset_call(&assets, "resource.alias", "{\"set\":{\"textures/\":\"hd/\"}}"));
    asset_ok(load("g"));
    assert_holds("w", "fine");
    asset_ok(asset_call(&assets, "resource.evict", "{\"group\":\"g\"}"));

    /* The whole name wins over the prefix. */
    asset_ok(asset_call(&assets, "resource.alias", "{\"set\":{\"textures/wall\":\"wall\"}}"));
    asset_ok(load("g"));
    assert_holds("w", "plain");

    /* All or nothing, and the table is told. */
    reply = asset_call(&assets, "resource.alias",
                       "{\"remove\":[\"textures/\"],\"set\":{\"x\":\"../y\"}}");
    ck_assert_int_eq(reply_number(reply, "error/code"), EC_ERR_PATH);
    reply = asset_call(&assets, "resource.alias", "{}");
    ck_assert_msg(strstr(reply, "{\"textures/\":\"hd/\",\"textures/wall\":\"wall\"}") != NULL, "%s",
                  reply);
    remove_file("tree/hd/wall");
    remove_file("tree/hd");
    remove_file("tree/wall");
    remove_file("tree");
    stop();
}
END_TEST

START_TEST(a_link_that_leaves_the_mount_is_refused)
{
    char link[300];

    start(NULL);
    make_folder("tree");
    snprintf(link, sizeof link, "%s/tree/out", assets.process.directory);
    ck_assert_int_eq(symlink("/etc", link), 0);
    asset_ok(
        asset_call(&assets, "resource.mount", "{\"path\":\"%s/tree\"}", assets.process.directory));
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"g\",\"resources\":[{\"name\":\"out/passwd\"}]}"));
    ck_assert_int_eq(reply_number(load("g"), "error/code"), EC_ERR_GROUP);
    remove_file("tree/out");
    remove_file("tree");
    stop();
}
END_TEST

static void write_bytes(const char *name, const struct sample *sample)
{
    char file[300];
    FILE *out;

    snprintf(file, sizeof file, "%s/%s", assets.process.directory, name);
    out = fopen(file, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(sample->bytes, 1, sample->count, out), sample->count);
    ck_assert_int_eq(fclose(out), 0);
}

/* ---- levels, and cooked ones ---- */

static void assert_levels(const struct ec_resource_view *view)
{
    struct ec_resource_level last = { 0 }, beyond = ec_resource_level(view, view->levels);

    ck_assert_uint_eq(view->levels, 7); /* 64 x 48 down to 1 x 1 */
    ck_assert_uint_eq(view->channels, 4);
    for (uint32_t i = 0; i < view->levels; i++) {
        struct ec_resource_level level = ec_resource_level(view, i);
        const unsigned char *pixel = level.data;

        ck_assert_uint_eq(level.width, 64u >> i);
        ck_assert_uint_eq(level.height, 48u >> i > 0 ? 48u >> i : 1);
        ck_assert_uint_eq(level.stride, level.width * 4);
        ck_assert_uint_eq(level.offset % 16, 0);
        ck_assert_uint_ge(level.offset, last.offset + last.bytes);
        ck_assert_uint_le(level.offset + level.bytes, view->bytes);
        ck_assert_uint_eq(pixel[3], 255); /* the file has no alpha */
        last = level;
    }
    ck_assert_uint_eq(last.offset + last.bytes, view->bytes);
    ck_assert_ptr_null(beyond.data);
    ck_assert_uint_eq(beyond.bytes, 0);
    ck_assert_uint_eq(((const unsigned char *)view->data)[4 * 5], sample_pixel(5, 0, 0));
}

/* The same picture with the same options: decoded now, and decoded ahead of time. */
START_TEST(a_game_gets_all_levels_of_a_picture_and_of_a_cooked_one)
{
    static const struct sample_shape shape = { .width = 64, .height = 48, .channels = 3 };
    static const char *const names[] = { "plain", "cooked" };
    struct ec_resource_view views[2];
    struct ec_client *client;
    struct sample sample;
    char command[1024];

    start(NULL);
    make_folder("tree");
    sample_png(&sample, &shape);
    write_bytes("tree/plain", &sample);
    sample_free(&sample);
    snprintf(command, sizeof command,
             "%s/engine-ctl cook %s/tree/plain %s/tree/cooked --levels 32 --channels 4 >/dev/null",
             getenv("EC_BIN_DIR"), assets.process.directory, assets.process.directory);
    ck_assert_int_eq(system(command), 0);
    asset_ok(
        asset_call(&assets, "resource.mount", "{\"path\":\"%s/tree\"}", assets.process.directory));
    asset_ok(
        asset_call(&assets, "resource.define",
                   "{\"group\":\"g\",\"resources\":[{\"name\":\"plain\",\"kind\":\"image\","
                   "\"channels\":4,\"levels\":32},{\"name\":\"cooked\",\"kind\":\"image\"}]}"));
    asset_ok(load("g"));
    client = asset_game(&assets, "game");
    for (unsigned i = 0; i < 2; i++) {
        ec_resource resource;

        ck_assert_int_eq(ec_resource_find(client, names[i], &resource), EC_OK);
        ck_assert_int_eq(ec_resource_acquire(client, resource, &views[i]), EC_OK);
        assert_levels(&views[i]);
    }
    ck_assert_uint_eq(views[0].bytes, views[1].bytes);
    ck_assert_mem_eq(views[0].data, views[1].data, views[0].bytes);
    ec_client_destroy(client);
    remove_file("tree/plain");
    remove_file("tree/cooked");
    remove_file("tree");
    stop();
}
END_TEST

/* ---- the source's pages -------------------------------------------------------------------------- */

#define LARGE_BYTES (4u << 20)
#define LARGE_PAGES (LARGE_BYTES / 4096)

/* How many of the first pages of a file the kernel has in memory. */
static unsigned pages_in_memory(const char *file)
{
    static unsigned char present[LARGE_PAGES];
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    unsigned count = 0;
    void *mapped;

    ck_assert_int_ge(fd, 0);
    mapped = mmap(NULL, LARGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(mapped, MAP_FAILED);
    ck_assert_int_eq(mincore(mapped, LARGE_BYTES, present), 0);
    for (unsigned i = 0; i < LARGE_PAGES; i++)
        count += present[i] & 1;
    munmap(mapped, LARGE_BYTES);
    close(fd);
    return count;
}

/* Into memory, and clean: what is still to be written cannot be dropped. */
static void settle_file(const char *file)
{
    static unsigned char bytes[LARGE_BYTES];
    const int fd = open(file, O_RDONLY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fsync(fd), 0);
    ck_assert_int_eq(pread(fd, bytes, sizeof bytes, 0), sizeof bytes);
    close(fd);
}

static const struct {
    bool archive;
    const char *drop; /* resource.drop_cache */
} page_cases[] = { { false, "true" }, { true, "true" }, { false, "false" }, { true, "false" } };

/* In a file system with pages of its own to drop: a tmpfs has none, so it is not made in one. */
START_TEST(a_files_pages_are_dropped_once_it_is_decoded)
{
    char set[48], file[160];
    const char *const arguments[] = { "--set", set, NULL };
    struct sample sample = { .bytes = calloc(1, LARGE_BYTES), .count = LARGE_BYTES };
    struct sample_zip zip = { 0 };
    char folder[] = "/var/tmp/engine-core-pages-XXXXXX";
    struct statfs fs;
    unsigned left;
    FILE *out;

    if (statfs("/var/tmp", &fs) == 0 && fs.f_type == TMPFS_MAGIC) {
        fputs("test_archives: /var/tmp is a tmpfs: whether pages are dropped was not seen\n",
              stderr);
        sample_free(&sample);
        return;
    }
    snprintf(set, sizeof set, "resource.drop_cache=%s", page_cases[_i].drop);
    start(arguments);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/large", folder);
    if (page_cases[_i].archive) {
        sample_zip_add(&zip, "large", sample.bytes, sample.count);
        sample_zip_write(&zip, file);
    } else {
        out = fopen(file, "we");
        ck_assert_ptr_nonnull(out);
        ck_assert_uint_eq(fwrite(sample.bytes, 1, sample.count, out), sample.count);
        ck_assert_int_eq(fclose(out), 0);
    }
    sample_free(&sample);
    settle_file(file);
    mount(page_cases[_i].archive ? file : folder);
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"all\",\"resources\":[{\"name\":\"large\"}]}"));
    asset_load(&assets, "all");
    left = pages_in_memory(file);
    if (strcmp(page_cases[_i].drop, "true") == 0)
        ck_assert_uint_le(left, LARGE_PAGES / 4); /* what the kernel keeps together is not cut */
    else
        ck_assert_uint_gt(left, 0); /* how much is the kernel's affair */
    stop();
    unlink(file);
    rmdir(folder);
}
END_TEST

/* ---- published pictures ------------------------------------------------------------------------ */

/* Package golang-1.19-src: PNG of all depths and colours, JPEG of all samplings, and damaged ones. */
#define PUBLISHED "/usr/share/go-1.19/src/image"
#define PUBLISHED_MAX 256

static struct published {
    char *path;
    bool damaged; /* or not understood */
} published[PUBLISHED_MAX];
static unsigned published_count;

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static int add_published(const char *file, const struct stat *st, int type, struct FTW *at)
{
    const char *name = file + at->base;
    const bool is_picture = ends_with(name, ".png") || ends_with(name, ".jpeg");

    (void)st;
    if (type != FTW_F || (!is_picture && !ends_with(name, ".gif")) ||
        strstr(file, "testdata") == NULL)
        return 0;
    ck_assert_uint_lt(published_count, PUBLISHED_MAX);
    published[published_count++] = (struct published) {
        strdup(file + strlen(PUBLISHED) + 1),
        !is_picture || strncmp(name, "invalid-", 8) == 0 ||
            strstr(name, ".410.") != NULL, /* a sampling that libjpeg-turbo refuses here */
    };
    return 0;
}

/* The pixels of a picture that is loaded. */
static ec_resource hold_published(struct ec_client *client, const char *name,
                                  struct ec_resource_view *view)
{
    ec_resource resource;

    ck_assert_msg(ec_resource_find(client, name, &resource) == EC_OK, "%s", name);
    ck_assert_int_eq(ec_resource_acquire(client, resource, view), EC_OK);
    return resource;
}

/* The mean difference of two pictures with the same sides. */
static double difference(struct ec_client *client, const char *left, const char *right)
{
    struct ec_resource_view views[2];
    ec_resource held[2];
    double sum = 0;

    held[0] = hold_published(client, left, &views[0]);
    held[1] = hold_published(client, right, &views[1]);
    ck_assert_uint_eq(views[0].width, views[1].width);
    ck_assert_uint_eq(views[0].height, views[1].height);
    ck_assert_uint_eq(views[0].bytes, views[1].bytes);
    for (size_t i = 0; i < views[0].bytes; i++)
        sum += abs(((const unsigned char *)views[0].data)[i] -
                   ((const unsigned char *)views[1].data)[i]);
    ec_resource_release(client, held[0]);
    ec_resource_release(client, held[1]);
    return sum / (double)views[0].bytes;
}

START_TEST(published_pictures_are_decoded_and_their_damaged_ones_refused)
{
    struct ec_client *client;
    unsigned damaged = 0;

    published_count = 0;
    start(NULL);
    mount(PUBLISHED);
    ck_assert_int_eq(nftw(PUBLISHED, add_published, 16, FTW_PHYS), 0);
    ck_assert_uint_gt(published_count, 80);
    for (unsigned i = 0; i < published_count; i++) {
        const char *file = published[i].path, *reply;
        char group[16];

        asset_ok(asset_call(&assets, "resource.define",
                            "{\"group\":\"g%u\",\"resources\":[{\"name\":\"%s\",\"kind\":\"image\","
                            "\"channels\":3,\"levels\":32}]}",
                            i, file));
        snprintf(group, sizeof group, "g%u", i);
        reply = load(group);
        ck_assert_msg((reply_at(reply, "error").text != NULL) == published[i].damaged, "%s: %s",
                      file, reply);
        damaged += published[i].damaged;
    }
    ck_assert_uint_ge(damaged, 9); /* five PNG; what is no picture that is understood */
    client = asset_game(&assets, "game");
    ck_assert(difference(client, "png/testdata/gray-gradient.png",
                         "png/testdata/gray-gradient.interlaced.png") == 0);
    ck_assert(
        difference(client, "testdata/video-001.jpeg", "testdata/video-001.progressive.jpeg") == 0);
    /* Colours by other ways: a JPEG differs from its picture by little, and so it does in four inks. */
    ck_assert(difference(client, "testdata/video-001.png", "testdata/video-001.jpeg") < 8);
    ck_assert(difference(client, "testdata/video-001.cmyk.png", "testdata/video-001.cmyk.jpeg") <
              8);
    /* Whole, but with the first scans only. */
    ck_assert(difference(client, "testdata/video-001.progressive.truncated.png",
                         "testdata/video-001.progressive.truncated.jpeg") < 8);
    ck_assert(difference(client, "testdata/video-001.rgb.png", "testdata/video-001.rgb.jpeg") < 8);
    ck_assert(difference(client, "testdata/video-005.gray.png", "testdata/video-005.gray.jpeg") <
              8);
    ck_assert(difference(client, "testdata/video-001.png", "testdata/video-005.gray.png") > 8);
    ec_client_destroy(client);
    for (unsigned i = 0; i < published_count; i++) {
        asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"g%u\"}", i));
        free(published[i].path);
    }
    asset_ok(asset_call(&assets, "resource.evict", "{\"bytes\":1}"));
    ck_assert_int_eq(used_bytes(), 0);
    stop();
}
END_TEST

/* ---- damage ----------------------------------------------------------------------------------- */

static uint32_t random_state;

static uint32_t random_below(uint32_t end)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(random_state >> 4) * end >> 28);
}

/* Truncated, longer, flipped, and with another size in the header. */
static void damage(struct sample *sample, unsigned how)
{
    random_state = how * 2654435761u;
    if (how % 4 == 0) {
        sample->count = random_below((uint32_t)sample->count);
    } else if (how % 4 == 1) {
        for (unsigned flips = 1 + random_below(8); flips > 0; flips--)
            sample->bytes[random_below((uint32_t)sample->count)] ^=
                (unsigned char)(1u << random_below(8));
    } else if (how % 4 == 2) {
        memset(sample->bytes + random_below((uint32_t)sample->count / 2), 0xff, 4);
    } else { /* where formats keep their sizes */
        unsigned at = random_below(40);

        for (unsigned i = at; i < at + 4 && i < sample->count; i++)
            sample->bytes[i] = (unsigned char)random_below(256);
    }
}

static void (*const makers[])(struct sample *sample,
                              const struct sample_shape *shape) = { sample_png, sample_jpeg,
                                                                    sample_tga, sample_bmp };
#define DAMAGED 160

/* Each with a good one in its group, of which nothing stays either. */
START_TEST(damaged_pictures_are_errors_that_leave_nothing)
{
    static const struct sample_shape shape = { .width = 64, .height = 48, .channels = 3 };
    unsigned errors = 0, before;
    struct sample sample;
    char name[32];

    start(NULL);
    make_folder("tree");
    sample_png(&sample, &shape);
    write_bytes("tree/good", &sample);
    sample_free(&sample);
    for (unsigned i = 0; i < DAMAGED; i++) {
        makers[i % 4](&sample, &shape);
        damage(&sample, i / 4);
        snprintf(name, sizeof name, "tree/%u", i);
        write_bytes(name, &sample);
        sample_free(&sample);
    }
    asset_ok(
        asset_call(&assets, "resource.mount", "{\"path\":\"%s/tree\"}", assets.process.directory));
    asset_await_idle(&assets);
    before = process_descriptors(assets.process.pid);
    for (unsigned i = 0; i < DAMAGED; i++) {
        const char *reply;

        asset_ok(
            asset_call(&assets, "resource.define",
                       "{\"group\":\"g%u\",\"resources\":[{\"name\":\"good\",\"kind\":\"image\"},"
                       "{\"name\":\"%u\",\"kind\":\"image\",\"levels\":32}]}",
                       i, i));
        snprintf(name, sizeof name, "g%u", i);
        reply = load(name);
        if (reply_at(reply, "error").text != NULL) {
            ck_assert_int_eq(reply_number(reply, "error/code"), EC_ERR_GROUP);
            errors++;
        }
        asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"g%u\"}",
                            i)); /* what is not noticed is a picture */
    }
    ck_assert_uint_gt(errors, DAMAGED / 4);
    asset_ok(asset_call(&assets, "resource.evict", "{\"bytes\":1}"));
    ck_assert_int_eq(used_bytes(), 0);
    asset_await_idle(&assets);
    ck_assert_uint_eq(process_descriptors(assets.process.pid), before);
    for (unsigned i = 0; i < DAMAGED; i++) {
        snprintf(name, sizeof name, "tree/%u", i);
        remove_file(name);
    }
    remove_file("tree/good");
    remove_file("tree");
    stop();
}
END_TEST

static const char *const archives[] = { "zip", "pak", "7z" };

/* The daemon takes it or leaves it; what was mounted before stays usable. */
START_TEST(damaged_archives_are_refused_or_read_and_the_rest_goes_on)
{
    struct sample whole = { 0 };
    const char *reply;

    start(NULL);
    make_folder("tree");
    write_file("tree/fine", "fine");
    asset_ok(
        asset_call(&assets, "resource.mount", "{\"path\":\"%s/tree\"}", assets.process.directory));
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"fine\",\"resources\":[{\"name\":\"fine\"}]}"));
    expect_tree();
    while (content_count > 12)
        free(contents[--content_count].name);
    if (strcmp(archives[_i], "zip") == 0) {
        struct sample_zip zip = { 0 };

        snprintf(path, sizeof path, "%s/content.zip", assets.process.directory);
        for (unsigned i = 0; i < content_count; i++)
            sample_zip_add(&zip, contents[i].name, contents[i].bytes, contents[i].count);
        sample_zip_write(&zip, path);
    } else if (strcmp(archives[_i], "pak") == 0) {
        write_pak();
    } else {
        write_7z();
    }
    for (unsigned i = 0; i < 16; i++) {
        const unsigned char *bytes = map_file(path, &whole.count);
        char name[32];

        whole.bytes = malloc(whole.count);
        ck_assert_ptr_nonnull(whole.bytes);
        memcpy(whole.bytes, bytes, whole.count);
        munmap((void *)(uintptr_t)bytes, whole.count);
        damage(&whole, i);
        snprintf(name, sizeof name, "damaged%u", i);
        write_bytes(name, &whole);
        free(whole.bytes);
        reply = asset_call(&assets, "resource.mount", "{\"path\":\"%s/%s\"}",
                           assets.process.directory, name);
        ck_assert(reply_at(reply, "result").text != NULL || reply_number(reply, "error/code") < 0);
        asset_ok(asset_call(&assets, "resource.define",
                            "{\"group\":\"g%u\",\"resources\":[{\"name\":\"%u\",\"path\":\"%s\"}]}",
                            i, i, contents[i % content_count].name));
        snprintf(name, sizeof name, "g%u", i);
        load(name); /* an error, or bytes */
        asset_ok(load("fine"));
        asset_ok(asset_call(&assets, "resource.evict", "{\"bytes\":1000000000}"));
    }
    ck_assert_int_eq(used_bytes(), 0);
    for (unsigned i = 0; i < 16; i++) {
        char name[32];

        snprintf(name, sizeof name, "damaged%u", i);
        remove_file(name);
    }
    remove_file("tree/fine");
    remove_file("tree");
    stop();
}
END_TEST

/* ---- the loop does not wait ------------------------------------------------------------------- */

START_TEST(progress_is_told_and_a_load_that_nobody_wants_ends)
{
    struct line_client events;
    const char *text;
    int64_t last = -1;

    start(NULL);
    expect_tree();
    mount(TREE);
    ck_assert(line_client_connect(&events, assets.process.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&events, "events"));
    asset_ok(line_client_call(&events, "event.subscribe", "{\"types\":[\"resource.progress\"]}"));
    load_all_and_compare("raw");
    do {
        text = line_client_receive(&events);
        ck_assert_ptr_nonnull(text);
        ck_assert_str_eq(reply_text(text, "params/payload/group"), "all");
        ck_assert_int_gt(reply_number(text, "params/payload/loaded"), last);
        last = reply_number(text, "params/payload/loaded");
        ck_assert_int_eq(reply_number(text, "params/payload/total"), content_count);
    } while (last < content_count);

    /* Asked for and given up at once: what was not begun is never begun. */
    asset_ok(asset_call(&assets, "resource.load", "{\"group\":\"all\",\"wait\":false}"));
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"all\"}"));
    asset_await_idle(&assets);
    ck_assert_int_gt(
        reply_number(asset_call(&assets, "resource.stats", "{}"), "result/decoding/cancelled"), 0);
    asset_ok(asset_call(&assets, "resource.evict", "{\"bytes\":1}"));
    ck_assert_int_eq(used_bytes(), 0);
    line_client_close(&events);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("archives");
    TCase *tcase = tcase_create("archives");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 300); /* thousands of processes, with a sanitizer on a busy machine */
    tcase_add_loop_test(tcase, a_tree_of_directories_is_loaded_whole, 0,
                        sizeof ways / sizeof ways[0]);
    tcase_add_test(tcase, a_doom_wad_is_loaded_whole);
    tcase_add_test(tcase, a_zip_of_thousands_of_pictures_is_loaded_whole);
    tcase_add_test(tcase, a_quake_pak_is_loaded_whole);
    tcase_add_test(tcase, a_7z_is_mounted_and_read);
    tcase_add_test(tcase, a_directory_over_an_archive_replaces_single_files);
    tcase_add_test(tcase, aliases_are_followed_when_a_resource_is_loaded);
    tcase_add_test(tcase, a_link_that_leaves_the_mount_is_refused);
    tcase_add_test(tcase, a_game_gets_all_levels_of_a_picture_and_of_a_cooked_one);
    tcase_add_loop_test(tcase, a_files_pages_are_dropped_once_it_is_decoded, 0,
                        sizeof page_cases / sizeof page_cases[0]);
    tcase_add_test(tcase, published_pictures_are_decoded_and_their_damaged_ones_refused);
    tcase_add_test(tcase, damaged_pictures_are_errors_that_leave_nothing);
    tcase_add_loop_test(tcase, damaged_archives_are_refused_or_read_and_the_rest_goes_on, 0,
                        sizeof archives / sizeof archives[0]);
    tcase_add_test(tcase, progress_is_told_and_a_load_that_nobody_wants_ends);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
