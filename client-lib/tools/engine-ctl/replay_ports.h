/* replay_ports.h - the clients and ports of a recording, opened anew.
 *
 * Each recorded client becomes a client of its name, each of its ports a port of that name: readers
 * that order events by client and port see the same order as then.
 *
 * Thread: one. Ownership: file is the caller's and outlives the ports. */
#ifndef ENGINE_CTL_REPLAY_PORTS_H
#define ENGINE_CTL_REPLAY_PORTS_H

#include <engine-core/publisher.h>

#include "engine-ctl/ctl.h"
#include "engine-ctl/replay_file.h"

struct replay_ports {
    const struct replay_file *file;
    struct ec_publisher **publishers; /* by index of file->ports */
    struct ec_client **clients;       /* the same; each client once, at its first port */
};

/* Connect, register the types and open the ports. stamp: of all publishers.
 *
 * Returns EC_OK, EC_ERR_TYPE_CONFLICT (a type is registered with another layout: names the field), or
 *         what the library answers. Close it also after an error. */
int replay_ports_open(struct replay_ports *ports, const struct ctl *ctl,
                      const struct replay_file *file, enum ec_stamp stamp, struct ec_error *why);
void replay_ports_close(struct replay_ports *ports);

/* Publish one event in the open batch of its port. Returns EC_OK, EC_AGAIN (a reliable reader is
 * behind; it was waited for a moment) or an error of the library. */
int replay_ports_publish(struct replay_ports *ports, const struct replay_event *event);

/* Make visible what was published, and begin the next batch. */
void replay_ports_flush(struct replay_ports *ports);

/* Take the step and the time for what follows (EC_STAMP_FRAME). */
void replay_ports_stamp(struct replay_ports *ports);

/* Nothing of this step or an earlier one comes any more. Makes visible what was published. */
void replay_ports_step_passed(struct replay_ports *ports, uint64_t step);

#endif
