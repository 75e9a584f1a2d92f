/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_LIVE_H
#define VIAL_CLI_LIVE_H

/*
 * The program's output, passed on as it arrives. Bytes go through untouched,
 * except to a terminal, where escape sequences become visible text.
 *
 *   live_open -> watch.output = live_write -> live_end -> live_close
 *
 * A reader that stops reading can hold vial up, but not for ever: a signal, or
 * the passing of the run's own deadline, gives up.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

#include "vial/engine.h"

struct pull_show;

struct live_stream {
    int fd;      /* ours to close when it is not 1 or 2 */
    bool safe;   /* neutralise for a terminal */
    size_t most; /* bytes that one write may take without blocking; 0: any */
    struct text_safe state;
};

struct live {
    struct live_stream streams[2];
    int signal_fd;                   /* borrowed */
    int64_t started_ns, deadline_ns; /* when the run is surely over */
    int error;                       /* errno that ended the output, or 0 */
    struct pull_show *pulls;         /* borrowed; how pulls are shown */
    bool lacks_module;               /* a Python said so */
    bool told;                       /* of a driver that stands in, before it began */
};

void live_open(struct live *l, bool raw, int signal_fd);

/* For struct vial_watch; CONTEXT is a struct live. */
void live_planned(void *context, int64_t most_ms);
int live_write(void *context, int stream, const void *data, size_t len);

/* After the last byte: an unfinished sequence becomes visible too. */
void live_end(struct live *l);
void live_close(struct live *l);

/* A descriptor that becomes readable when we are told to stop; -errno. Signals that the
 * caller made us ignore (nohup, background jobs) stay ignored. */
int signals_open(void);

/* Which one came, or 0. */
int signals_seen(int fd);

#endif
