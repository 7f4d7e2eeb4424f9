/* engine-ctl symbolize: name addresses in an ELF file. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine-ctl/print.h"
#include "engine-ctl/symbols.h"
#include "engine-ctl/verb.h"

#define LINE_BYTES 4096
#define PATH_BYTES 3000

enum { BUILD_ID, DEBUG_DIRECTORY, RETURNS };

struct question {
    struct symbols *symbols;
    const char *build_id;
    bool is_return;
};

static bool read_offset(const char *text, uint64_t *offset);
static bool print_answer(const struct question *question, const char *path, uint64_t offset);
static void explain_lines(const struct question *question, const char *path);
static void explain_line(const struct question *question, const char *path, char *line);

int verb_symbolize(struct ctl *ctl, const struct verb_input *input)
{
    struct question question = {
        .symbols = symbols_create(input->options[DEBUG_DIRECTORY]),
        .build_id = input->options[BUILD_ID] != NULL ? input->options[BUILD_ID] : "",
        .is_return = input->options[RETURNS] != NULL,
    };
    const char *path = input->arguments[0];
    char whole[PATH_MAX];
    uint64_t offset;
    int rc = EXIT_DONE;

    (void)ctl;
    if (question.symbols == NULL)
        return ctl_fail(EXIT_ANSWERED_ERROR, "symbolize: no memory");
    if (path != NULL && realpath(path, whole) != NULL)
        path = whole; /* else only a debug file may be there */
    if (input->arguments[1] == NULL)
        explain_lines(&question, path);
    else if (!read_offset(input->arguments[1], &offset))
        rc = ctl_fail(EXIT_USAGE, "symbolize: \"%s\" is no offset such as 0x1234",
                      input->arguments[1]);
    else if (!print_answer(&question, path, offset))
        rc = ctl_fail(EXIT_ANSWERED_ERROR, "symbolize: %s: %s", input->arguments[0],
                      symbols_reason(question.symbols));
    symbols_destroy(question.symbols);
    return rc == EXIT_DONE ? ctl_flush() : rc;
}

static bool read_offset(const char *text, uint64_t *offset)
{
    char *end;

    if (strncmp(text, "0x", 2) != 0)
        return false;
    errno = 0;
    *offset = strtoull(text + 2, &end, 16);
    return errno == 0 && end != text + 2 && *end == '\0';
}

static bool print_answer(const struct question *question, const char *path, uint64_t offset)
{
    struct symbol symbol;

    if (!symbols_find(question->symbols, path, question->build_id, offset, question->is_return,
                      &symbol))
        return false;
    printf("%s", symbol.function != NULL ? symbol.function : "?");
    if (symbol.file != NULL)
        printf(" at %s:%d", symbol.file, symbol.line);
    putchar('\n');
    return true;
}

/* From stdin: offsets in the file; or, without one, lines that begin with a file and an offset, as
 * ec_tracking_leaks() writes them. What is no such line is passed through. */
static void explain_lines(const struct question *question, const char *path)
{
    char line[LINE_BYTES];

    while (fgets(line, sizeof line, stdin) != NULL)
        explain_line(question, path, line);
}

static void explain_line(const struct question *question, const char *path, char *line)
{
    char file[PATH_BYTES], number[32];
    uint64_t offset;

    if (path != NULL && sscanf(line, " %31s", number) == 1 && read_offset(number, &offset)) {
        if (!print_answer(question, path, offset))
            printf("%s: %s\n", number, symbols_reason(question->symbols));
        return;
    }
    if (path == NULL && sscanf(line, " %2999s %31s", file, number) == 2 && file[0] == '/' &&
        read_offset(number, &offset)) {
        printf("    ");
        if (!print_answer(question, file, offset))
            printf("%s %s: %s\n", file, number, symbols_reason(question->symbols));
        return;
    }
    line[strcspn(line, "\n")] = '\0';
    puts(tame(line));
}
