/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_OUTPUT_H
#define VIAL_ENGINE_OUTPUT_H

/*
 * Keeps a bounded part of an unbounded stream: the head, the tail, or both
 * halves, with exact counts. Memory is bounded by the limit whatever comes.
 */

#include "model/plan.h"

#include "vial/result.h"

struct output {
    enum plan_keep keep;
    const char *note; /* instead of the usual notice, or NULL; borrowed */
    size_t limit;
    size_t head_limit, tail_limit;
    struct str head;
    char *tail; /* a ring of tail_limit bytes, allocated when first needed */
    size_t tail_len, tail_at;
    uint64_t total;
    bool failed;
};

void output_init(struct output *o, enum plan_keep keep, size_t limit, const char *note);
void output_add(struct output *o, const void *data, size_t len);
/* How many of the next bytes will be part of the head. */
size_t output_room(const struct output *o);
/* What comes behind the head: the notice, if bytes are missing, and the tail. */
void output_rest(const struct output *o, struct str *out);
/* True when bytes are missing. */
bool output_is_cut(const struct output *o);
/* Moves what was kept into OUT, with a notice where bytes are missing:
 * NOTE ("{limit}" and "{left}" are replaced), or "[… 1234 bytes left out …]".
 * -1: no memory. */
int output_take(struct output *o, struct vial_stream *out);
void output_done(struct output *o);

#endif
