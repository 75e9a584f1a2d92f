/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_SERVICE_H
#define VIAL_SERVE_SERVICE_H

/*
 * The daemon's state, shared by all its threads. What a reload replaces is a
 * generation: settings, who is known, and an engine. A call uses one generation from
 * its begin to its end.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "audit/refusals.h"
#include "e2b/e2b.h"
#include "engine/callers/gate.h"
#include "engine/callers/registry.h"
#include "model/metrics.h"
#include "serve/access_log.h"
#include "serve/auth.h"
#include "serve/batches.h"
#include "serve/callbacks.h"
#include "serve/compiled.h"
#include "serve/file_watch.h"
#include "serve/health.h"
#include "serve/history.h"
#include "serve/keys.h"
#include "serve/recent.h"
#include "settings/settings.h"
#include "web/web.h"

#include "vial/vial.h"

struct generation {
    unsigned users;
    uint64_t number; /* the first is 1; never the same again, as an address may be */
    struct generation *next; /* the one before it, while that may be in use */
    struct settings *settings;
    struct auth auth;
    struct vial_engine *engine;
    struct mcp_vial *mcp;
    struct mcp_http *mcp_http;
};

/* Where the settings come from; what flags say comes last. */
struct serve_sources {
    const char *preset, *config; /* or NULL */
    char share_dir[32];          /* vial's data, if not where they usually are; or "" */
    json_t *flags;               /* an object like the settings' `serve`, or NULL */
    bool kept;                   /* vessels are opened by the keeper */
    uid_t own;                   /* who started the daemon */
};

#define SERVE_LISTENERS 16

struct serve {
    struct serve_sources sources;
    pthread_mutex_t lock; /* for the generations and `listeners` */
    struct generation *now;
    struct gate gate;
    struct history history;
    struct keys keys;
    struct metrics metrics;
    struct recent recent;
    struct batches batches;
    struct log log;
    struct refusals refusals;
    struct registry *registry;
    unsigned char port_key[32]; /* that tokens of ports are made with (ports.h) */
    struct wires *wires;        /* what faces keep (face.h) */
    struct compiled_cache compiled;
    struct callbacks callbacks; /* of the start */
    char node[8];               /* of the start: ids that proxies know do not change */
    char sessions_at[108];      /* of the start: a unix socket; "": sessions are here */
    struct e2b *e2b; /* there, if off by the settings: a reload may change that */
    struct vial_budget *budget; /* for output, of all engines */
    struct health health;
    struct file_watch watch; /* of the thread that hears signals */
    int64_t started_s, started_ns;
    int64_t last_call_ns;
    unsigned calls; /* under way */
    int nice;       /* of who serve callers; the rest of us may be quicker */
    bool draining;
    _Atomic int64_t ends_ns; /* while it drains: when sessions end */
    struct web *listeners[SERVE_LISTENERS];
    size_t listener_count;
    struct vial_sweeper *sweeper; /* of the newest engine */
    int64_t counted_ns;           /* when the vessels were counted, for the metrics */
    unsigned vessels, orphans;
};

/* Reads all settings, while there is still the right to. */
int serve_load(struct serve *s, const struct serve_sources *sources,
               struct vial_error *err);
/* Opens the engine, and all else that needs threads. */
int serve_open(struct serve *s, struct vial_error *err);
/* After serve_load, whatever it returned. */
void serve_done(struct serve *s);

/* Reads all settings again. What does not fit leaves everything as it was. */
int serve_reload(struct serve *s, struct vial_error *err);

struct generation *serve_use(struct serve *s);
void serve_unuse(struct serve *s, struct generation *g);

/* Whether a request is E2B's, and the settings have that on. */
bool serve_e2b(struct serve *s, const struct web_request *req);

/* The handler of every listener; CONTEXT is the struct serve. */
void serve_handle(void *context, struct web_request *req);
/* Records what a listener refused by itself. */
void serve_refused(void *context, const struct web_request *req, unsigned status);

#endif
