/* A program that knows of engine-core only what is installed. */
#include <engine-core/error.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    if (strcmp(ec_error_text(EC_ERR_STALE), ec_error_text(EC_ERR_TYPE)) == 0) {
        puts("two errors have one text");
        return 1;
    }
    return 0;
}
