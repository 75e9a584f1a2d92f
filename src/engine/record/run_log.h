/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RECORD_RUN_LOG_H
#define VIAL_ENGINE_RECORD_RUN_LOG_H

/*
 * The last runs of the caller's own, for 'vial logs' and 'vial metrics' without a
 * daemon. In the directory `runs` of the caller's state (base/state.h), which nobody
 * else can read, there are
 *
 *   <when>-<run>.json  a run: its result without files, the first part of what it
 *                      printed, and what was done for it, step by step
 *   counters.json      what all runs have added up to
 *
 * Only so many are kept (settings/blocks.h); the oldest go. A run is not refused
 * because nobody can remember it. A program that can write to its caller's home can
 * write here, so that nothing read is believed.
 *
 *   run_log_begin -> { run_log_step | run_log_output }* -> run_log_end
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"
#include "model/metrics.h"
#include "settings/settings.h"

#include "vial/result.h"

struct run_log {
    bool on;
    size_t keep_bytes; /* of each stream */
    int64_t runs, started_ms;
    const char *home; /* borrowed */
    json_t *steps;
    struct str out, err;
};

/* Where SETTINGS keep none, or this was not called for D, which is all zero, the others
 * do nothing. */
void run_log_begin(struct run_log *d, const struct settings *settings);
/* WHAT was done just now: "create", "start" …. DETAIL, an object or NULL, is taken. */
void run_log_step(struct run_log *d, const char *what, json_t *detail);
void run_log_output(struct run_log *d, int stream, const void *data, size_t len);
/* Writes it down. TITLE: language, or the command's first word. Releases D's members.
 */
void run_log_end(struct run_log *d, const char *title,
                 const struct vial_result *result);

/* Newest first, without output and steps: a list. HOME may be NULL. */
int run_log_list(const char *home, json_t **out, struct vial_error *err);
/* One by its id or its request's, whole. */
int run_log_find(const char *home, const char *id, json_t **out,
                 struct vial_error *err);
/* Adds what there is to M. */
int run_log_count(const char *home, struct metrics *m, struct vial_error *err);

#endif
