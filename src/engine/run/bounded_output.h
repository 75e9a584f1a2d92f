/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RUN_BOUNDED_OUTPUT_H
#define VIAL_ENGINE_RUN_BOUNDED_OUTPUT_H

/*
 * Keeps a bounded part of an unbounded stream: the head, the tail, or both
 * halves, with exact counts. Memory is bounded by the limit whatever comes.
 *
 * What a result has of a program's output is bounded here, for runs, kept calls and
 * cells. What a session keeps for those who read a program's output later is bounded
 * in session/exec_output.c.
 */

#include "model/plan.h"

#include "vial/result.h"

/* One buffer has all of it: the head, room for the notice, the ring of the tail. What
 * is taken in the end is made in that same place. */
struct output {
    enum plan_keep keep;
    const char *note; /* instead of the usual notice, or NULL; borrowed */
    size_t limit;
    size_t head_limit, tail_limit;
    char *data;
    size_t size; /* of DATA; it grows with the head, to all for the tail */
    size_t head_len;
    size_t tail_len, tail_at; /* in the ring of tail_limit bytes */
    uint64_t total;
    bool failed;
};

void output_init(struct output *o, enum plan_keep keep, size_t limit, const char *note);
/* Stdout and stderr of a program of PLAN, from their begin; what was kept before of
 * another one is forgotten. */
void outputs_begin(struct output both[2], const struct plan *plan);
void outputs_done(struct output both[2]);
/* How many of the next LEN bytes a program may write that has written so many already:
 * all, or what `output_max` leaves it. */
size_t output_allowed(const struct plan *plan, uint64_t written, size_t len);
void output_add(struct output *o, const void *data, size_t len);
/* How many of the next bytes will be part of the head. */
size_t output_room(const struct output *o);
/* So many bytes of TEXT, which is UTF-8, are whole letters and will be. */
size_t output_room_text(const struct output *o, const char *text, size_t len);
/* Nothing more becomes part of the head. */
void output_close(struct output *o);

typedef void output_piece(void *context, const void *data, size_t len);
/* The head, piece by piece. */
void output_head(const struct output *o, output_piece *give, void *context);
/* Gives what comes behind the head: the notice, if bytes are missing, and the tail. */
void output_rest(const struct output *o, output_piece *give, void *context);
/* True when bytes are missing. */
bool output_is_cut(const struct output *o);
/* Moves what was kept into OUT, with a notice where bytes are missing:
 * NOTE ("{limit}" and "{left}" are replaced), or "[… 1234 bytes left out …]".
 * It takes no more memory than what was kept. -1: no memory. */
int output_take(struct output *o, struct vial_stream *out);
void output_done(struct output *o);

#endif
