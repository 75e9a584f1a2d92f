/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_IMAGE_WORK_H
#define VIAL_IMAGES_FETCH_IMAGE_WORK_H

/*
 * One job of vial-image: what is asked, and the place where it is made. The first
 * process of the program reads the job, holds the store's locks and renames what is
 * done; it starts a process for each stage that looks at strangers' bytes, and that one
 * is confined to what the stage needs (confine.h).
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "images/store.h"

#include "vial/error.h"

#define REPORT_FD 3 /* one JSON object a line: progress, then "image" or "error" */

#define MANIFEST_MAX ((size_t)4 << 20)
#define CONFIG_MAX   ((size_t)8 << 20)
#define LAYERS_MAX   200
#define FILE_OWNERS  65536 /* a user or group of an image is below */

struct job {
    json_t *json;      /* owns the texts */
    const char *verb;  /* "pull", "import", "export", "snapshot", "configure", "verify",
                          "sweep" */
    const char *store; /* absolute */
    const char *reference; /* as the user wrote it; "" on import: as the archive says */
    const char *registry;  /* or NULL */
    const char *ca;        /* a file of authorities, or NULL: the system's */
    const char *home;      /* for credentials; or NULL */
    const char *os, *arch;
    const char *path;        /* import: a directory instead of the standard input */
    const char *base;        /* snapshot, configure: the image below's digest, */
    json_t *config;          /* what its config says instead, or NULL, */
    int64_t first_id;        /* and who is 0 in it; 0: all is our own */
    bool ranged;             /* that, or of the range that we are in */
    json_t *mirrors, *plain; /* lists of strings */
    int64_t max_bytes, max_files;
    int64_t retry_ms;
    int retries;
};

/* What is being made, in the store's tmp. */
struct work {
    const struct job *job;
    int store_fd, tmp_fd; /* tmp_fd: of our own directory, locked */
    int lock_fd;          /* the store's, shared */
    char tmp_name[64];
};

/* A layer, as the manifest has it. */
struct layer_part {
    char digest[STORE_DIGEST];  /* of the blob */
    char diff_id[STORE_DIGEST]; /* of the tar in it */
    char chain[65];             /* hex */
    int64_t size;               /* of the blob */
    bool here;                  /* the store has it */
};

/* An image, as manifest and config have it. */
struct image_parts {
    char digest[STORE_DIGEST]; /* of the manifest */
    char config[STORE_DIGEST];
    int64_t config_size;
    struct layer_part layers[LAYERS_MAX];
    size_t count;
};

/* work.c */
int work_open(const struct job *job, struct work *out, struct vial_error *err);
void work_close(struct work *w); /* and removes what was not renamed */

/* A file in the work's directory, whole. */
int work_put(const struct work *w, const char *name, const void *data, size_t len,
             struct vial_error *err);
int work_get(const struct work *w, const char *name, size_t max, struct blob *out,
             struct vial_error *err);

/* Tells who started us; LAYER is a digest or "". */
void report_progress(const char *layer, const char *status, int64_t current,
                     int64_t total);

/* Runs STAGE in a process of its own, and waits for it. Ends it when we are told to
 * end: VIAL-CANCELLED. What ERR says in there it says here. */
typedef int work_stage(const struct work *w, void *context, struct vial_error *err);
int work_run(const struct work *w, work_stage *stage, void *context,
             struct vial_error *err);

#endif
