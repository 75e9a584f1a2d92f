/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_H
#define VIAL_ENGINE_H

/*
 * The engine reads the settings once and then runs requests:
 *
 *   vial_engine_open -> { vial_run | vial_plan | … }* -> vial_engine_close
 *
 * One engine may be used by several threads at once. The library never logs,
 * exits, aborts on bad input, or changes signal dispositions.
 */

#include "vial/budget.h"
#include "vial/request.h"
#include "vial/result.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vial_engine;

/* Where settings come from. Zero-initialise; every member may stay NULL. */
struct vial_engine_options {
    const char *preset;         /* name of a preset */
    const char *config;         /* a settings file instead of the usual ones */
    const char *project_dir;    /* where ./vial.yaml is looked for; NULL: here */
    const char *share_dir;      /* runtimes, presets, guest; NULL: found by itself */
    const char *audit;          /* a log of every run, unless settings name one */
    bool journal;               /* the last runs are remembered, if the settings say so
                                   (`journal`): for programs of one user */
    bool kept;                  /* vessels are opened by the daemon's keeper, which must
                                   have been started; the daemon alone sets this */
    struct vial_budget *budget; /* what output may take; NULL: any */
};

/* One step of pulling an image. LAYER may be "". TOTAL is 0 where it is not known. A
 * return other than 0 cancels the pull. */
typedef int vial_pull_progress(void *context, const char *layer, const char *status,
                               unsigned long long current, unsigned long long total);

/* How a caller follows a run. Zero-initialise and set `cancel_fd` and
 * `stdin_fd` to -1, or pass NULL for no watching at all. */
struct vial_watch {
    int cancel_fd; /* readable or closed: cancel the run; -1: none; borrowed */
    int stdin_fd;  /* piped live to the program; -1: the request's stdin; borrowed */

    /* Called with each chunk as it arrives, from the thread in vial_run.
     * STREAM is 1 or 2. A return other than 0 cancels the run. */
    int (*output)(void *context, int stream, const void *data, size_t len);
    void *context;
    /* Whether OUTPUT can take more now, or NULL: it always can. While it cannot, the
     * program waits once it has written some 256 KiB more on a stream; its time goes
     * on. It is asked again when ROOM_FD becomes readable, and once a second; and no
     * longer waited for when the program's time is over: OUTPUT gets all the rest then.
     */
    bool (*room)(void *context);
    int room_fd;    /* borrowed; it counts only with `room` */
    bool live_only; /* keep nothing in the result's streams, only count */

    const char *caller; /* who asks, for the audit; NULL: this process's user */
    /* The caller's own name for the run: plain text of at most 64 bytes, or NULL. It
     * stands in the audit log and in the result; the program finds it as
     * VIAL_REQUEST_ID. */
    const char *correlation;
    double queued_ms; /* how long it waited before vial_run */

    /* Told, with `context`, while the image is pulled before the run; or NULL. */
    vial_pull_progress *pulling;
    bool local_images; /* nothing is pulled for this caller, whatever is asked for */
    /* Called, before the first byte of output, with what the caller must know of this
     * run: that another driver stands in, or that it waits for its turn. TEXT is one
     * line, for people. NULL: the result alone says so. */
    void (*notice)(void *context, const char *text);
    /* Called, before that, with how long the run's programs may take together at most;
     * or NULL. */
    void (*planned)(void *context, int64_t most_ms);
    /* Of a context's cell: called with each display, as JSON, in its place between
     * pieces of OUTPUT; or NULL. */
    void (*displayed)(void *context, const char *json);
};

/* Reads the settings; OPTIONS may be NULL. *OUT is given back with
 * vial_engine_close. Starts nothing. */
VIAL_API VIAL_MUST_CHECK int vial_engine_open(const struct vial_engine_options *options,
                                              struct vial_engine **out,
                                              struct vial_error *err);

/* NULL is allowed. No run may be under way. */
VIAL_API void vial_engine_close(struct vial_engine *engine);

/* Runs REQ and blocks until it has ended. Returns 0 with *OUT set, whatever
 * became of the run: a refusal is a result with verdict `denied`. Returns -1
 * only when there is no memory for a result. */
VIAL_API VIAL_MUST_CHECK int vial_run(struct vial_engine *engine,
                                      const struct vial_request *req,
                                      const struct vial_watch *watch,
                                      struct vial_result **out, struct vial_error *err);

/* The next five give malloc'ed JSON text in *JSON. */

/* The resolved plan of REQ. Opens nothing. */
VIAL_API VIAL_MUST_CHECK int vial_plan(struct vial_engine *engine,
                                       const struct vial_request *req, char **json,
                                       struct vial_error *err);

/* The language table with what is usable here and its version. */
VIAL_API VIAL_MUST_CHECK int vial_languages(struct vial_engine *engine, char **json,
                                            struct vial_error *err);

/* The names of those that can run at this moment. */
VIAL_API VIAL_MUST_CHECK int vial_languages_offered(struct vial_engine *engine,
                                                    char **json,
                                                    struct vial_error *err);

/* Every setting with its value and where it came from. */
VIAL_API VIAL_MUST_CHECK int vial_config(struct vial_engine *engine, char **json,
                                         struct vial_error *err);

/* Tells what each driver can enforce on this host, layer by layer, with the fix for
 * what is missing. */
VIAL_API VIAL_MUST_CHECK int vial_doctor(struct vial_engine *engine, char **json,
                                         struct vial_error *err);

/* The runs that the caller's journal remembers, newest first; or RUN, by its id or its
 * correlation, with what it printed and what was done for it. malloc'ed JSON text. */
VIAL_API VIAL_MUST_CHECK int vial_journal(struct vial_engine *engine, const char *run,
                                          char **json, struct vial_error *err);

/* Gives the sums of those runs and of all before them in Prometheus' text format, and
 * the number of vessels that exist now. malloc'ed. */
VIAL_API VIAL_MUST_CHECK int vial_metrics(struct vial_engine *engine, char **text,
                                          struct vial_error *err);

/* JSON schema of "request", "result" or "settings". malloc'ed. */
VIAL_API VIAL_MUST_CHECK int vial_schema(const char *kind, char **json,
                                         struct vial_error *err);

/* Gives the engine preset's block `preset` (see presets/) as malloc'ed JSON text;
 * "null" without a preset. */
VIAL_API VIAL_MUST_CHECK int vial_preset(struct vial_engine *engine, char **json,
                                         struct vial_error *err);

/* The preset's name, or NULL. It lives as long as the engine. */
VIAL_API const char *vial_preset_name(const struct vial_engine *engine);

/* The preset's own code for error CODE ("ACODE-SBX-003" for "VIAL-MOUNT"), or NULL.
 * It lives as long as the engine. */
VIAL_API const char *vial_preset_code(const struct vial_engine *engine,
                                      const char *code);

/* "MAJOR.MINOR.PATCH". Static storage. */
VIAL_API const char *vial_version(void);

#ifdef __cplusplus
}
#endif
#endif
