/* record_info.h - tell what is in a recording: from its summary, or by reading all of it when it was
 * cut. Also of MCAP files that are none of ours, as far as they go. */
#ifndef ENGINE_CTL_RECORD_INFO_H
#define ENGINE_CTL_RECORD_INFO_H

#include "engine-ctl/ctl.h"

int record_info(struct ctl *ctl, const char *path);

#endif
