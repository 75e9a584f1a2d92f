/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCHER_H
#define VIAL_IMAGES_FETCHER_H

/*
 * Has vial-image (src/images/fetch) do something with a store: it is a program of its
 * own, since it reads what strangers made with libraries that vial has not.
 */

#include <jansson.h>
#include <stdint.h>

#include "base/str.h"

#include "vial/vessels.h"

struct image_ends {
    int in_fd, out_fd; /* what is imported, or exported; -1: nothing */
    const char *path;  /* a directory to import instead, or NULL */
    const char *base;  /* configure: the digest of the image whose config changes, */
    json_t *config;    /* and what it says instead; borrowed; or NULL */
};

struct fetcher {
    const char *program; /* vial-image */
    const char *store;
    const char *home, *registry;        /* or NULL */
    const struct strv *mirrors, *plain; /* or NULL */
    int64_t max_bytes, max_files;
    struct image_ends ends;
};

/* VERB: "pull", "import", "export", "configure" or "verify". Of PULL its name counts,
 * the image's; its time, 0 being none; who is told, and who can cancel; retries. *OUT
 * is the result.
 */
int fetcher_run(const struct fetcher *f, const char *verb, const struct vial_pull *pull,
                json_t **out, struct vial_error *err);

/* Follows one that somebody else started, by what it reports to REPORT_FD, which is
 * taken. Of TOLD the progress counts. */
int fetcher_hear(int report_fd, const struct vial_pull *told, json_t **out,
                 struct vial_error *err);

#endif
