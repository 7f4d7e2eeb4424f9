/* engine-ctl run: become a program whose allocations are counted. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine-ctl/duration.h"
#include "engine-ctl/verb.h"

#define LIBRARY "libengine-core-preload.so"
#define PRELOAD "LD_PRELOAD"
#define TAG_BYTES_MAX 31

enum { TAG, SAMPLE, AT_ONCE };

static int check_input(const struct verb_input *input);
static bool find_library(char path[PATH_MAX]);
static bool find_program(const char *name, char path[PATH_MAX]);
static int check_program(const char *name);
static bool has_loader(int fd, const Elf64_Ehdr *header);
static int set_environment(const struct ctl *ctl, const struct verb_input *input,
                           const char *library);

int verb_run(struct ctl *ctl, const struct verb_input *input)
{
    char library[PATH_MAX];
    int rc = check_input(input);

    if (rc != EXIT_DONE)
        return rc;
    if (!find_library(library))
        return ctl_fail(EXIT_USAGE, "run: %s is neither beside this program nor installed",
                        LIBRARY);
    rc = check_program(input->rest[0]);
    if (rc == EXIT_DONE)
        rc = set_environment(ctl, input, library);
    if (rc != EXIT_DONE)
        return rc;
    execvp(input->rest[0], input->rest);
    return ctl_fail(EXIT_USAGE, "run: %s: %s", input->rest[0], strerror(errno));
}

static int check_input(const struct verb_input *input)
{
    const char *tag = input->options[TAG];
    uint64_t bytes;

    if (input->rest == NULL || input->rest[0] == NULL)
        return ctl_fail(EXIT_USAGE, "run: which program? Try engine-ctl run --help");
    if (tag != NULL && (tag[0] == '\0' || strlen(tag) > TAG_BYTES_MAX))
        return ctl_fail(EXIT_USAGE, "run: the tag has %zu bytes, expected 1..%d", strlen(tag),
                        TAG_BYTES_MAX);
    for (const char *c = tag; c != NULL && *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return ctl_fail(EXIT_USAGE, "run: the tag holds the control character 0x%02x",
                            (unsigned char)*c);
    if (input->options[SAMPLE] != NULL && !sample_distance_parse(input->options[SAMPLE], &bytes))
        return ctl_fail(EXIT_USAGE, "run: --sample is \"%s\", expected bytes up to 1TiB, or off",
                        input->options[SAMPLE]);
    return EXIT_DONE;
}

/* In the build tree and where it is installed, programs lie in bin and libraries beside that. */
static bool find_library(char path[PATH_MAX])
{
    char own[PATH_MAX];
    const ssize_t bytes = readlink("/proc/self/exe", own, sizeof own - 1);
    char *slash;

    if (bytes <= 0)
        return false;
    own[bytes] = '\0';
    slash = strrchr(own, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return (snprintf(path, PATH_MAX, "%s/../lib/%s", own, LIBRARY) < PATH_MAX &&
            access(path, R_OK) == 0) ||
           (snprintf(path, PATH_MAX, "%s/../%s/%s", own, EC_LIBDIR, LIBRARY) < PATH_MAX &&
            access(path, R_OK) == 0);
}

/* As execvp does it. */
static bool find_program(const char *name, char path[PATH_MAX])
{
    const char *directories = getenv("PATH");

    if (strchr(name, '/') != NULL)
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && access(path, X_OK) == 0;
    for (const char *at = directories; at != NULL && *at != '\0';) {
        const size_t bytes = strcspn(at, ":");

        if (snprintf(path, PATH_MAX, "%.*s/%s", (int)bytes, bytes == 0 ? "." : at, name) <
                PATH_MAX &&
            access(path, X_OK) == 0)
            return true;
        at += bytes + (at[bytes] == ':');
    }
    return false;
}

/* Where nothing would be counted it is better to say so than to run the program all the same. A file
 * that is no ELF file, such as a script, is left to its interpreter. */
static int check_program(const char *name)
{
    char path[PATH_MAX];
    Elf64_Ehdr header;
    struct stat st;
    int fd, rc = EXIT_DONE;

    if (!find_program(name, path))
        return ctl_fail(EXIT_USAGE, "run: %s: %s", name, strerror(ENOENT));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return EXIT_DONE; /* it may be run and not be read */
    if (fstat(fd, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) != 0 && geteuid() != st.st_uid)
        rc = ctl_fail(EXIT_USAGE, "run: %s changes its user: the loader lets nothing be preloaded",
                      path);
    else if (read(fd, &header, sizeof header) == (ssize_t)sizeof header &&
             memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
             header.e_ident[EI_CLASS] == ELFCLASS64 && !has_loader(fd, &header))
        rc = ctl_fail(EXIT_USAGE, "run: %s is linked statically: nothing can be preloaded", path);
    close(fd);
    return rc;
}

static bool has_loader(int fd, const Elf64_Ehdr *header)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr part;
        const off_t at = (off_t)(header->e_phoff + (uint64_t)i * sizeof part);

        if (pread(fd, &part, sizeof part, at) != (ssize_t)sizeof part)
            return true; /* not for us to judge */
        if (part.p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* What was preloaded before comes after ours, so that it is counted, too. */
static int set_environment(const struct ctl *ctl, const struct verb_input *input,
                           const char *library)
{
    const char *before = getenv(PRELOAD);
    char path[PATH_MAX], sample[24] = "", *list = NULL;
    uint64_t bytes;
    bool done;

    if (realpath(library, path) == NULL)
        return ctl_fail(EXIT_USAGE, "run: %s: %s", library, strerror(errno));
    if (asprintf(&list, "%s%s%s", path, before != NULL && before[0] != '\0' ? ":" : "",
                 before != NULL ? before : "") < 0)
        return ctl_fail(EXIT_ANSWERED_ERROR, "run: no memory");
    if (input->options[SAMPLE] != NULL && sample_distance_parse(input->options[SAMPLE], &bytes))
        snprintf(sample, sizeof sample, "%" PRIu64, bytes);
    done =
        setenv(PRELOAD, list, 1) == 0 &&
        (input->options[TAG] == NULL ||
         setenv("ENGINE_CORE_MALLOC_TAG", input->options[TAG], 1) == 0) &&
        (input->options[SAMPLE] == NULL || setenv("ENGINE_CORE_MALLOC_SAMPLE", sample, 1) == 0) &&
        (input->options[AT_ONCE] == NULL || setenv("ENGINE_CORE_MALLOC_AT_ONCE", "1", 1) == 0) &&
        (ctl->socket_path == NULL || setenv("ENGINE_CORE_SOCKET", ctl->socket_path, 1) == 0);
    free(list);
    return done ? EXIT_DONE : ctl_fail(EXIT_ANSWERED_ERROR, "run: %s", strerror(errno));
}
