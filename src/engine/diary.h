/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_DIARY_H
#define VIAL_ENGINE_DIARY_H

/*
 * The last runs of the caller's own, for 'vial logs' and 'vial metrics' without a
 * daemon. In the directory `runs` of the caller's state (base/state.h), which nobody
 * else can read, there are
 *
 *   <when>-<run>.json  a run: its result without files, the first part of what it
 *                      printed, and what was done for it, step by step
 *   counters.json      what all runs have added up to
 *
 * Only so many are kept (model/journaling.h); the oldest go. A run is not refused
 * because nobody can remember it. A program that can write to its caller's home can
 * write here, so that nothing read is believed.
 *
 *   diary_begin -> { diary_step | diary_output }* -> diary_end
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"
#include "model/metrics.h"
#include "model/settings.h"

#include "vial/result.h"

struct diary {
    bool on;
    size_t keep_bytes; /* of each stream */
    int64_t runs, started_ms;
    const char *home; /* borrowed */
    json_t *steps;
    struct str out, err;
};

/* ON false: all others do nothing. */
void diary_begin(struct diary *d, bool on, const struct settings *settings);
/* WHAT was done just now: "create", "start" …. DETAIL, an object or NULL, is taken. */
void diary_step(struct diary *d, const char *what, json_t *detail);
void diary_output(struct diary *d, int stream, const void *data, size_t len);
/* Writes it down. TITLE: language, or the command's first word. Releases D's members.
 */
void diary_end(struct diary *d, const char *title, const struct vial_result *result);

/* Newest first, without output and steps: a list. HOME may be NULL. */
int diary_list(const char *home, json_t **out, struct vial_error *err);
/* One by its id or its request's, whole. */
int diary_find(const char *home, const char *id, json_t **out, struct vial_error *err);
/* Adds what there is to M. */
int diary_count(const char *home, struct metrics *m, struct vial_error *err);

#endif
