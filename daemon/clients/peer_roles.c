/* peer_roles.c - see peer_roles.h. */
#include "clients/peer_roles.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_BYTES 96

static int parse_row(char *row, struct peer_roles *roles, struct ec_error *why);
static bool parse_id(const char *text, uint32_t *id);
static bool find_id(const char *name, bool is_group, uint32_t *id);
static bool is_in_group(const struct peer *peer, uint32_t gid);

int peer_roles_parse(const char *text, struct peer_roles *roles, struct ec_error *why)
{
    roles->count = 0;
    while (*text != '\0') {
        const size_t bytes = strcspn(text, ",");
        char row[ROW_BYTES];
        int rc;

        if (bytes >= sizeof row)
            return ec_fail(why, EC_ERR_PARAM, "control.roles: %.40s… is too long", text);
        snprintf(row, sizeof row, "%.*s", (int)bytes, text);
        rc = parse_row(row, roles, why);
        if (rc < 0)
            return rc;
        text += bytes + (text[bytes] == ',');
    }
    return EC_OK;
}

enum ec_role peer_roles_of(const struct peer_roles *roles, const struct peer *peer)
{
    enum ec_role highest = EC_ROLE_NONE;

    for (unsigned i = 0; i < roles->count; i++) {
        const bool matches = roles->rows[i].is_group ? is_in_group(peer, roles->rows[i].id)
                                                     : peer->uid == roles->rows[i].id;

        if (matches && roles->rows[i].role > highest)
            highest = roles->rows[i].role;
    }
    return highest;
}

static int parse_row(char *row, struct peer_roles *roles, struct ec_error *why)
{
    char *equals = strchr(row, '=');
    const bool is_group = row[0] == '@';
    const char *who = row + is_group;
    enum ec_role role = EC_ROLE_NONE;
    uint32_t id;

    for (enum ec_role known = EC_ROLE_OBSERVER; equals != NULL && known <= EC_ROLE_OPERATOR;
         known++)
        if (strcmp(equals + 1, ec_role_name(known)) == 0)
            role = known;
    if (role == EC_ROLE_NONE || equals == who)
        return ec_fail(why, EC_ERR_PARAM,
                       "control.roles: %s: expected WHO=ROLE, the role being observer, game or "
                       "operator",
                       row);
    *equals = '\0';
    if (!parse_id(who, &id) && !find_id(who, is_group, &id))
        return ec_fail(why, EC_ERR_PARAM, "control.roles: there is no %s %s",
                       is_group ? "group" : "user", who);
    if (roles->count == PEER_ROLES_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "control.roles: more than %d rows", PEER_ROLES_MAX);
    roles->rows[roles->count].is_group = is_group;
    roles->rows[roles->count].id = id;
    roles->rows[roles->count++].role = role;
    return EC_OK;
}

static bool parse_id(const char *text, uint32_t *id)
{
    char *end;
    unsigned long number;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    number = strtoul(text, &end, 10);
    *id = (uint32_t)number;
    return errno == 0 && *end == '\0' && number < UINT32_MAX;
}

static bool find_id(const char *name, bool is_group, uint32_t *id)
{
    const struct group *group = is_group ? getgrnam(name) : NULL;
    const struct passwd *user = is_group ? NULL : getpwnam(name);

    if (group != NULL)
        *id = group->gr_gid;
    else if (user != NULL)
        *id = user->pw_uid;
    return group != NULL || user != NULL;
}

static bool is_in_group(const struct peer *peer, uint32_t gid)
{
    if (peer->gid == gid)
        return true;
    for (size_t i = 0; i < peer->group_count; i++)
        if (peer->groups[i] == gid)
            return true;
    return false;
}
