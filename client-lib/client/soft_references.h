/* soft_references.h - which resources this program asked to be loaded ahead, by name.
 *
 * The daemon reads counts by the index of a resource in its directory. A daemon that comes anew has another
 * directory, where the same names have other indices or are not defined yet: then the counts move along.
 *
 * Thread: any; a mutex that is held for some stores. */
#ifndef EC_CLIENT_SOFT_REFERENCES_H
#define EC_CLIENT_SOFT_REFERENCES_H

#include "client/client.h"

int ec_client_soft_create(struct ec_client *client, struct ec_error *why);
void ec_client_soft_destroy(struct ec_client *client); /* accepts one without */

/* Around the exchange of the directory: in between nobody counts. */
void ec_client_soft_lift(struct ec_client *client);
void ec_client_soft_put_down(struct ec_client *client);

/* Names that no group defined then may be defined by now. Cost: a load while there are none. */
void ec_client_soft_look(struct ec_client *client);

#endif
