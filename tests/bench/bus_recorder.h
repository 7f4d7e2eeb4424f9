/* bench/bus_recorder.h - engine-ctl record, as one more reader of a contender's bus. Thread: one. */
#ifndef EC_BENCH_BUS_RECORDER_H
#define EC_BENCH_BUS_RECORDER_H

#include <stdint.h>
#include <sys/types.h>

/* Start it over bus_daemon, before this process has threads. Its publishers know it by bus_await_readers. */
pid_t bus_recorder_start(void);
/* End it and wait until all is written. Returns the bytes of the file, which is removed. */
uint64_t bus_recorder_stop(pid_t recorder);

#endif
