/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_VESSELS_H
#define VIAL_VESSELS_H

/*
 * These functions are about things that outlive a single run: the vessels that exist
 * now, what dead callers have left, and the container engine's images.
 */

#include "vial/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A vessel that exists now. Read-only; text is NULL where the driver has none. */
struct vial_vessel {
    const char *driver, *name;
    const char *state; /* "running" … */
    bool orphan;       /* its caller has died */
    /* Of a process of this host: its guest, and who started that. */
    int pid, owner;
    /* Of a container. */
    const char *id, *vessel, *session, *task, *image;
    int64_t created;          /* seconds since the epoch */
    const char *const *ports; /* "127.0.0.1:8000:80/tcp"; ends with NULL, or is NULL */
    void *texts;              /* vial's own: what the others point to */
};

struct vial_vessels {
    struct vial_vessel *items;
    size_t count;
};

/* The vessels on this host that this user can see, of every driver; with PREFIX only
 * those whose name begins with it and a '-'. An engine that is not there has none. */
VIAL_API VIAL_MUST_CHECK int vial_vessel_list(struct vial_engine *engine,
                                              const char *prefix,
                                              struct vial_vessels *out,
                                              struct vial_error *err);

/* Zero-initialised vessels are allowed. */
VIAL_API void vial_vessels_free(struct vial_vessels *vessels);

/* The same as malloc'ed JSON text: a list of objects with "driver", "vessel", "state",
 * "orphan" …. */
VIAL_API VIAL_MUST_CHECK int vial_vessels(struct vial_engine *engine, char **json,
                                          struct vial_error *err);

/* Of those, the ones whose "name" begins with PREFIX and a '-'. */
VIAL_API VIAL_MUST_CHECK int vial_vessels_of(struct vial_engine *engine,
                                             const char *prefix, char **json,
                                             struct vial_error *err);

/* Removes what callers that have died left behind: containers, cgroups. Nothing
 * of a caller that lives is touched. *REMOVED is how many containers went. */
VIAL_API VIAL_MUST_CHECK int vial_cleanup(struct vial_engine *engine, unsigned *removed,
                                          struct vial_error *err);

/* The same now and then, by a thread, for a process that stays: at first soon after
 * it was started, then every INTERVAL_MS, each time a little earlier or later, so that
 * several of them seldom meet. INTERVAL_MS 0: as the settings say (`cleanup.interval`),
 * which may be never.
 *
 * TOLD, which may be NULL, is called from that thread: with how many of DRIVER's
 * vessels went, if any did; or with ERR, each time that it is not the same error as
 * the last time. An engine that cannot be reached is no error. The sweeper ends before
 * ENGINE does. */
struct vial_sweeper;
typedef void vial_swept(void *context, const char *driver, unsigned removed,
                        const struct vial_error *err);
VIAL_API VIAL_MUST_CHECK int vial_sweeper_open(struct vial_engine *engine,
                                               long long interval_ms, vial_swept *told,
                                               void *context, struct vial_sweeper **out,
                                               struct vial_error *err);
/* Does not wait for a container engine. NULL is allowed. */
VIAL_API void vial_sweeper_close(struct vial_sweeper *sweeper);

/* Which image to pull: "python:3.11-slim", "name@sha256:…"; how long it may take;
 * and who is told of its progress, or NULL. */
struct vial_pull {
    const char *name;
    long long timeout_ms; /* all tries together; 0: as the settings say */
    int cancel_fd;        /* readable: give up; -1: none; borrowed */
    vial_pull_progress *progress;
    void *context;
    const char *caller, *correlation; /* for the audit, as in struct vial_watch */

    /* After a failure that may pass (the registry is busy or broken, the connection
     * broke): how often it is tried again, and the pause before the first time, doubled
     * each time. retries 0: both as the settings say; -1: never. */
    int retries;
    long long retry_ms;
};

/* Pulls, and verifies that the image is there, with the digest asked for. *JSON is
 * malloc'ed text: "id", "tags", "digests", "size". VIAL-PULL-TIMEOUT when it took too
 * long; what came so far stays with the engine. */
VIAL_API VIAL_MUST_CHECK int vial_image_pull(struct vial_engine *engine,
                                             const struct vial_pull *pull, char **json,
                                             struct vial_error *err);

/* The engine's images with their sizes: malloc'ed JSON text, a list. */
VIAL_API VIAL_MUST_CHECK int vial_images(struct vial_engine *engine, char **json,
                                         struct vial_error *err);

struct vial_prune {
    bool all; /* all that no container uses, not only those without a name */
    const char *caller, *correlation; /* for the audit, as in struct vial_watch */
};

/* Removes images. *JSON is malloc'ed text: "removed" and "freed_bytes". */
VIAL_API VIAL_MUST_CHECK int vial_image_prune(struct vial_engine *engine,
                                              const struct vial_prune *prune,
                                              char **json, struct vial_error *err);

/* The cache volumes there are: malloc'ed JSON text, a list of "name", "created". */
VIAL_API VIAL_MUST_CHECK int vial_caches(struct vial_engine *engine, char **json,
                                         struct vial_error *err);

/* Removes those that no container uses. */
VIAL_API VIAL_MUST_CHECK int vial_cache_prune(struct vial_engine *engine,
                                              unsigned *removed,
                                              struct vial_error *err);

#ifdef __cplusplus
}
#endif
#endif
