/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TEMPLATE_TEMPLATE_BUILD_H
#define VIAL_TEMPLATE_TEMPLATE_BUILD_H

/*
 * Makes an image of a template: each step that changes files runs in a session of the
 * image so far, whose files are saved as the next one (docs/adr/0083). A step whose key
 * the store knows is not run again. The image gets its name when all is done.
 */

#include <jansson.h>

#include "template/template.h"

#include "vial/engine.h"

/* What images of steps are called: this, and the step's key. */
#define BUILD_STEP_NAME "template-step"

struct build_watch {
    int cancel_fd; /* readable: give up; -1: none; borrowed */
    /* A step begins. NUMBER counts from 1 to COUNT. */
    void (*step)(void *context, size_t number, size_t count,
                 const struct template_step *step, bool cached);
    /* What its program prints; other than 0 cancels. */
    int (*output)(void *context, int stream, const void *data, size_t len);
    vial_pull_progress *pulling; /* the base; or NULL */
    void *context;
};

struct build_order {
    struct vial_engine *engine;
    const char *name;        /* what the image is called */
    const char *dir;         /* where COPY finds files */
    const struct strv *args; /* "NAME=VALUE" for ARG */
    json_t *fields;          /* of a request: limits and network of all steps */
    bool no_cache;           /* run every step */
    struct build_watch watch;
};

/* *OUT: "image", "digest", "id", "size", "steps". A failed step is VIAL-TEMPLATE. */
int template_build(const struct template *t, const struct build_order *order,
                   json_t **out, struct vial_error *err);

#endif
