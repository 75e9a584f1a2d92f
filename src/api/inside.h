/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_API_INSIDE_H
#define VIAL_API_INSIDE_H

/*
 * What vial's own front ends have beyond include/vial. They are linked with the
 * library, so that no value has to become text and be read again.
 */

#include "images/fetcher.h"
#include "images/store_remove.h"
#include "settings/settings.h"

#include "vial/files.h"
#include "vial/session.h"
#include "vial/vessels.h"

/* The settings in force. They live as long as the engine, and do not change. */
const struct settings *inside_settings(const struct vial_engine *engine);

/* Opens an engine with settings that were read before, and outlive it; of OPTIONS those
 * count that do not say where settings come from. */
int inside_open(const struct vial_engine_options *options, struct settings *settings,
                struct vial_engine **out, struct vial_error *err);

/* ENGINE's vessels are of many callers, for whom SHARES counts. Before its first. */
struct network_shares;
void inside_share(struct vial_engine *engine, const struct network_shares *shares);

/* Whether REQ has a compile step that can be done once for many runs. */
bool inside_compiles(struct vial_engine *engine, const struct vial_request *req);

/* Does it, in a vessel of its own. *OUT is like REQ, but a plain command with what the
 * compiler made as files; NULL: that did not go well, and runs of REQ will say why. */
int inside_compile(struct vial_engine *engine, const struct vial_request *req,
                   const struct vial_session_options *options,
                   struct vial_request **out, double *cpu_ms, struct vial_error *err);

/* The same, with how the compile step ended (see engine/session/compile_once.h). */
int inside_compile_told(struct vial_engine *engine, const struct vial_request *req,
                        const struct vial_session_options *options,
                        struct vial_request **out, struct vial_result **told,
                        struct vial_error *err);

/* Images that need no container engine (images/store.h): the store's directory,
 * malloc'ed; all images; one of them. */
char *inside_store(const struct vial_engine *engine, struct vial_error *err);
int inside_stored_images(const struct vial_engine *engine, json_t **out,
                         struct vial_error *err);
int inside_stored_image(const struct vial_engine *engine, const char *reference,
                        json_t **out, struct vial_error *err);
int inside_store_pull(struct vial_engine *engine, const struct vial_pull *pull,
                      json_t **out, struct vial_error *err);
/* VERB "import", "export", "configure" or "verify"; *OUT is what it says. */
int inside_store_do(struct vial_engine *engine, const char *verb,
                    const struct vial_pull *image, const struct image_ends *ends,
                    json_t **out, struct vial_error *err);
int inside_store_prune(struct vial_engine *engine, const struct store_prune *rules,
                       json_t **out, struct vial_error *err);
int inside_store_remove(struct vial_engine *engine, const char *reference, json_t **out,
                        struct vial_error *err);

/* vial_session_snapshot for OWNER, one of many callers: NAME is his word for it, *OUT
 * has the name that it gets (images/snapshot_name.h). FORKS: it goes with the session
 * that is opened of it. Its removal: VIAL-IMAGE when it is not OWNER's. */
int inside_snapshot(struct vial_session *session, bool forks, const char *owner,
                    const char *name, json_t **out, struct vial_error *err);
int inside_snapshot_remove(struct vial_engine *engine, const char *owner,
                           const char *name, struct vial_error *err);
/* The same in two steps, for who has to know the whole name before. */
int inside_snapshot_name(bool forks, const char *owner, const char *name,
                         struct str *out, struct vial_error *err);
int inside_snapshot_as(struct vial_session *session, const char *whole, json_t **out,
                       struct vial_error *err);
/* The names of all that OWNER made, forks aside. */
int inside_snapshots(struct vial_engine *engine, const char *owner, struct strv *out,
                     struct vial_error *err);

/* What a container engine says of its images and volumes, as vial/vessels.h has it. */
int inside_image_pull(struct vial_engine *engine, const struct vial_pull *pull,
                      json_t **out, struct vial_error *err);
int inside_images(struct vial_engine *engine, json_t **out, struct vial_error *err);
int inside_image_prune(struct vial_engine *engine, const struct vial_prune *prune,
                       json_t **out, struct vial_error *err);
int inside_caches(json_t **out, struct vial_error *err);

/* Volumes (volumes/volume_store.h), as "name", "writers", "state", "size" and times:
 * all of them; one. In a daemon with a keeper: of those that its policy lets some
 * caller have.
 */
int inside_volumes(const struct vial_engine *engine, json_t **out,
                   struct vial_error *err);
int inside_volume(const struct vial_engine *engine, const char *name, json_t **out,
                  struct vial_error *err);
struct inside_volume {
    const char *name;
    bool many;    /* several vessels may write to it at once */
    int64_t size; /* in bytes; 0: what the settings say */
};
/* For CALLER, to whom the settings' bounds apply; NULL: for the operator himself. */
int inside_volume_create(struct vial_engine *engine, const char *caller,
                         const struct inside_volume *wanted, struct vial_error *err);
int inside_volume_remove(struct vial_engine *engine, const char *caller,
                         const char *name, struct vial_error *err);
int inside_volume_prune(struct vial_engine *engine, int64_t unused_for_s,
                        unsigned *removed, struct vial_error *err);

/* The plan of REQ as vial_plan has it. */
int inside_plan(struct vial_engine *engine, const struct vial_request *req,
                json_t **out, struct vial_error *err);

/* What the language of that name says its version is, here; malloc'ed, or NULL. */
char *inside_language_version(struct vial_engine *engine, const char *name);

/* Whether a program can have a network by these settings, on this host, now. */
bool inside_gives_network(struct vial_engine *engine);
/* Whether that driver's vessels are elsewhere, by the operator's account there. */
bool inside_is_far(const struct vial_engine *engine, const char *driver);

/* A file of any size on its way, piece by piece; nothing of it is kept here.
 * vial_session_put_with of what NEXT gives: 1 and bytes, 0 at the end, or -1: it is
 * given up, and leaves nothing. */
struct inside_source {
    int (*next)(void *context, const char **data, size_t *len);
    void *context;
};
int inside_put(struct vial_session *session, const char *path,
               const struct inside_source *from, const struct vial_put_options *options,
               struct vial_error *err);
/* vial_session_get to TAKE, which gives 0, or -errno to end it; what was taken before
 * an error stays taken. LEN is not 0. */
struct inside_sink {
    int (*take)(void *context, const char *data, size_t len);
    void *context;
    bool as_root; /* as vial_session_get_as */
};
int inside_get(struct vial_session *session, const char *path, uint64_t offset,
               uint64_t len, const struct inside_sink *to, struct vial_error *err);

/* What it uses, of which the two sizes are now; 0 where nothing counts them. */
struct inside_load {
    double cpu_ms;
    uint64_t memory_bytes, cache_bytes; /* the second is part of the first, and can be
                                           given back */
};
int inside_load(struct vial_session *session, struct inside_load *out,
                struct vial_error *err);

/* SESSION is used now, for as long as it may be idle. */
void inside_touch(struct vial_session *session);

/* PATH below the session's working directory, as file operations take it. */
const char *inside_file_name(const struct vial_session *session, const char *path);

#endif
