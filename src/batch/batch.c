/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/batch.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/thread.h"

#define HELD_BY_JOB 64u /* in order: how many rows a slow one may hold back */

int batch_open(struct batch *b, const struct batch_options *options,
               struct grader *grader, int in_fd, int out_fd, struct vial_error *err)
{
    *b = (struct batch){ .options = *options,
                         .grader = grader,
                         .in = { .fd = in_fd, .cancel_fd = grader->cancel_fd },
                         .out_fd = out_fd,
                         .done = { .fd = -1 } };
    b->in.hash = &b->hash;
    sha256_init(&b->hash);
    b->held_count = options->in_order ? (size_t)options->jobs * HELD_BY_JOB : 0;
    if (b->held_count)
        b->held = calloc(b->held_count, sizeof(*b->held));
    if ((b->held_count && !b->held) || pthread_mutex_init(&b->lock, NULL) != 0 ||
        pthread_mutex_init(&b->reading, NULL) != 0 || tally_init(&b->tally) < 0)
        return fail_memory(err);
    thread_cond_init(&b->moved);
    thread_cond_init(&b->over);
    return 0;
}

void batch_close(struct batch *b)
{
    for (size_t i = 0; i < b->held_count; i++)
        json_decref(b->held[i].line);
    free(b->held);
    lines_done(&b->in);
    done_free(&b->done);
    tally_done(&b->tally);
    (void)pthread_cond_destroy(&b->moved);
    (void)pthread_cond_destroy(&b->over);
    (void)pthread_mutex_destroy(&b->lock);
    (void)pthread_mutex_destroy(&b->reading);
}

static void seen(void *context, const json_t *line)
{
    tally_resume(context, line);
}

void batch_input_hash(struct batch *b, char out[65])
{
    out[0] = '\0';
    if (b->in.ended)
        sha256_text(&b->hash, out);
}

int batch_resume(struct batch *b, const char *path, struct vial_error *err)
{
    return done_read(b->out_fd, path, &b->done, seen, &b->tally, err);
}

static bool is_cancelled(const struct batch *b)
{
    struct pollfd cancelled = { .fd = b->grader->cancel_fd, .events = POLLIN };

    return poll(&cancelled, 1, 0) > 0;
}

/* With the lock held: no more rows are begun. */
static void stop(struct batch *b, const struct vial_error *err)
{
    if (err && !b->error.code[0])
        b->error = *err;
    b->ended = true;
    (void)pthread_cond_broadcast(&b->moved);
}

/* The next line that is not blank, as a row; false: there is none. */
static bool read_row(struct batch *b, struct row *row)
{
    struct vial_error err = { 0 };
    const char *text;
    size_t len;
    int rc;

    while ((rc = lines_next(&b->in, &text, &len, &err)) > 0 && row_is_blank(text, len))
        ;
    if (rc > 0) {
        *row = (struct row){ .index = b->next++, .line = b->in.number };
        row_read(text, len, &b->options.rules, row);
        return true;
    }
    (void)pthread_mutex_lock(&b->lock);
    stop(b, rc < 0 ? &err : NULL);
    (void)pthread_mutex_unlock(&b->lock);
    return false;
}

/* With the lock held: whether the output has it. Moves on if so. */
static bool is_there(struct batch *b, const struct row *row)
{
    struct vial_error err = { 0 };
    bool there = false;

    if (done_has(&b->done, row->index, row->hash, &there, &err) < 0) {
        stop(b, &err);
        return true;
    }
    return there;
}

/* With the lock held: writes what may be written. LINE NULL: a row that was there. */
static void write_line(struct batch *b, json_t *line)
{
    auto_free char *text =
        line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    size_t len = text ? strlen(text) : 0;
    struct vial_error err = { 0 };

    if (text) {
        text[len] = '\n'; /* in place of its end: one write for the whole line */
        if (io_write_all(b->out_fd, text, len + 1) < 0) {
            (void)fail_sys(&err, "write the output");
            (void)fail_remedy(&err, "make room; --resume then goes on with a file");
            stop(b, &err);
        }
    } else if (line) {
        (void)fail_memory(&err);
        stop(b, &err);
    }
}

static void write_held(struct batch *b)
{
    for (;;) {
        struct held *slot = &b->held[b->written % b->held_count];

        if (!slot->line)
            break;
        if (!json_is_null(slot->line))
            write_line(b, slot->line);
        json_decref(slot->line);
        slot->line = NULL;
        b->written++;
    }
    (void)pthread_cond_broadcast(&b->moved);
}

/* With the lock held. Takes LINE; null stands for a row that was there. */
static void put(struct batch *b, size_t index, json_t *line)
{
    if (b->held_count) {
        b->held[index % b->held_count].line = line;
        write_held(b);
        return;
    }
    if (!json_is_null(line))
        write_line(b, line);
    json_decref(line);
}

/* In order a slow row may hold back only so many. False: no more are begun. */
static bool wait_for_room(struct batch *b)
{
    bool ended;

    (void)pthread_mutex_lock(&b->lock);
    while (b->held_count && !b->ended && b->next >= b->written + b->held_count)
        thread_wait(&b->moved, &b->lock, 1000);
    if (is_cancelled(b))
        stop(b, NULL);
    ended = b->ended;
    (void)pthread_mutex_unlock(&b->lock);
    return !ended;
}

/* Whether it is still to be run; one that is there already is passed over. */
static bool is_new(struct batch *b, const struct row *row)
{
    bool there;

    (void)pthread_mutex_lock(&b->lock);
    there = is_there(b, row);
    if (there)
        put(b, row->index, json_null());
    (void)pthread_mutex_unlock(&b->lock);
    return !there;
}

/* The next row that is not there yet; false: there is none. Who waits for a line holds
 * up nobody who has one. */
static bool take(struct batch *b, struct row *row)
{
    bool found = false;

    (void)pthread_mutex_lock(&b->reading);
    while (!found && wait_for_room(b) && read_row(b, row)) {
        found = is_new(b, row);
        if (!found)
            row_done(row);
    }
    (void)pthread_mutex_unlock(&b->reading);
    return found;
}

/* With the lock held: where nearly nothing can be run, the rest is not tried. */
static void stop_at_failures(struct batch *b)
{
    struct vial_error err = b->tally.first;

    if (!tally_fails_much(&b->tally, b->options.failed_most))
        return;
    (void)fail_in(&err, "vial failed on %zu of %zu rows",
                  b->tally.verdicts[VIAL_FAILED], b->tally.done + b->tally.resumed);
    (void)fail_remedy(&err,
                      "mend that, then --resume --retry-failed; --max-infra bears "
                      "more");
    stop(b, &err);
}

/* A row that was cancelled is as if it had not begun. */
static void finish(struct batch *b, const struct row *row, struct grade *g)
{
    struct vial_error err = { 0 };

    (void)pthread_mutex_lock(&b->lock);
    if (g->cancelled) {
        stop(b, NULL);
        json_decref(g->line);
    } else if (!g->line) {
        (void)fail_memory(&err);
        stop(b, &err);
    } else {
        put(b, row->index, g->line);
        tally_add(&b->tally, row, g);
        if (g->verdict == VIAL_FAILED)
            stop_at_failures(b);
    }
    (void)pthread_mutex_unlock(&b->lock);
}

static void *work(void *context)
{
    struct batch *b = context;
    struct grade g;
    struct row row;

    while (take(b, &row)) {
        grade_row(b->grader, &row, &g);
        finish(b, &row, &g);
        row_done(&row);
    }
    return NULL;
}

/* By the clock, so that a batch in which nothing ends any more is seen to stand. */
static void *tell_progress(void *context)
{
    struct batch *b = context;
    int64_t pause_ns = b->options.progress_ms * 1000000;
    int64_t next_ns = clock_now_ns() + pause_ns;

    (void)pthread_mutex_lock(&b->lock);
    while (!b->is_over) {
        int64_t left_ns = next_ns - clock_now_ns();

        if (left_ns > 0) {
            thread_wait(&b->over, &b->lock, left_ns / 1000000 + 1);
            continue;
        }
        b->options.progress(b->options.context, &b->tally);
        next_ns = clock_now_ns() + pause_ns;
    }
    (void)pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void end_progress(struct batch *b, pthread_t thread)
{
    (void)pthread_mutex_lock(&b->lock);
    b->is_over = true;
    (void)pthread_cond_signal(&b->over);
    (void)pthread_mutex_unlock(&b->lock);
    (void)pthread_join(thread, NULL);
}

int batch_run(struct batch *b, struct vial_error *err)
{
    pthread_t threads[BATCH_JOBS_MOST];
    pthread_t teller;
    bool tells = b->options.progress &&
                 thread_start(&teller, THREAD_STACK, tell_progress, b) == 0;
    unsigned count = 0;

    while (count + 1 < b->options.jobs && count < BATCH_JOBS_MOST &&
           thread_start(&threads[count], THREAD_STACK, work, b) == 0)
        count++;
    (void)work(b);
    for (unsigned i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    if (tells)
        end_progress(b, teller);
    if (b->error.code[0])
        *err = b->error;
    return b->error.code[0] || is_cancelled(b) ? -1 : 0;
}
