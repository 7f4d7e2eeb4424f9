/* peer_roles.h - roles that the configuration gives to uids and groups, besides those that follow from the
 * daemon's own uid and control.group.
 *
 *     control.roles = "1001=operator,@render=game,alice=observer"
 *
 * Thread: loop. Names are looked up once, when it is parsed: a look-up may block. */
#ifndef ENGINE_CORED_CLIENTS_PEER_ROLES_H
#define ENGINE_CORED_CLIENTS_PEER_ROLES_H

#include "clients/peer.h"

#define PEER_ROLES_MAX 32

struct peer_roles {
    struct {
        bool is_group;
        uint32_t id; /* uid or gid */
        enum ec_role role;
    } rows[PEER_ROLES_MAX];
    unsigned count;
};

/* WHO=ROLE with commas between; WHO is a uid or user, or with @ in front a gid or group.
 *
 * Returns EC_OK, EC_ERR_PARAM (names what is wrong: the form, the role, a name that nobody has) or
 * EC_ERR_LIMIT. */
int peer_roles_parse(const char *text, struct peer_roles *roles, struct ec_error *why);

/* The highest role of those that match; EC_ROLE_NONE: none does. */
enum ec_role peer_roles_of(const struct peer_roles *roles, const struct peer *peer);

#endif
