/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_BATCH_H
#define VIAL_BATCH_BATCH_H

/*
 * Many rows, several at once: each thread takes the next line of the input, grades it
 * and writes its line of output, whole and with one system call. So whatever ends the
 * process, the output is a number of whole lines, but perhaps for the last.
 *
 *   batch_open -> { batch_resume } -> batch_run -> batch_close
 */

#include <pthread.h>

#include "batch/done.h"
#include "batch/grade.h"
#include "batch/lines.h"
#include "batch/tally.h"

#define BATCH_JOBS_MOST 256u

struct batch_options {
    unsigned jobs;
    bool in_order;      /* of the input; else as they end */
    double failed_most; /* share of rows that vial may fail on before all ends */
    struct row_rules rules;
    /* Called each PROGRESS_MS with the lock held, whether rows end or not; or NULL. */
    void (*progress)(void *context, const struct tally *t);
    int64_t progress_ms;
    void *context;
};

struct batch {
    struct batch_options options;
    struct grader *grader;
    int out_fd;
    pthread_mutex_t reading; /* `in` and `next`; taken before `lock` */
    struct lines in;
    struct sha256 hash; /* of the input's bytes */
    size_t next;        /* index of the row that is read next */
    pthread_mutex_t lock;
    pthread_cond_t moved; /* the next to be written is another */
    pthread_cond_t over;  /* all threads that ran rows have ended */
    bool is_over;
    struct tally tally;
    struct done done;
    size_t written; /* in order: all before it are */
    struct held {
        json_t *line;
    } * held; /* in order: lines that wait for those before them */
    size_t held_count;
    bool ended; /* no more is read */
    struct vial_error error;
};

/* IN_FD, OUT_FD and GRADER stay the caller's. */
int batch_open(struct batch *b, const struct batch_options *options,
               struct grader *grader, int in_fd, int out_fd, struct vial_error *err);
/* Leaves out what OUT_FD has already; PATH is for messages. */
int batch_resume(struct batch *b, const char *path, struct vial_error *err);
/* After batch_run: the SHA-256 of the input; "" if it was not read to its end. */
void batch_input_hash(struct batch *b, char out[65]);
/* -1: it had to stop early, by an error of its own or because it was cancelled
 * (then ERR is empty). */
int batch_run(struct batch *b, struct vial_error *err);
void batch_close(struct batch *b);

#endif
