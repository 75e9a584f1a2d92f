/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TEMPLATE_BUILD_STATE_H
#define VIAL_TEMPLATE_BUILD_STATE_H

/* A build under way: what the instructions so far have said. */

#include <jansson.h>

#include "images/store.h"
#include "template/build_context.h"
#include "template/template_build.h"

#include "vial/session.h"

struct build {
    const struct template *t;
    const struct build_order *order;
    struct context context;    /* listed when the first COPY needs it; fd -1 before */
    struct strv env;           /* "NAME=VALUE": the base's and ENV's */
    struct strv args;          /* of ARG, those of the order among them */
    char *cwd;                 /* absolute; NULL: none was said */
    char user[32];             /* "UID:GID"; "": root */
    json_t *config;            /* what the image's config will say beside those */
    char image[512];           /* what the next session is opened of, */
    char digest[STORE_DIGEST]; /* and which image that is */
    json_t *steps;             /* of the report */
    size_t number;             /* of the step under way */
};

/* The environment of programs: args, and env over them. */
void build_variables(const struct build *b, struct strv *out);

/* Takes NAME=VALUE into LIST, once. */
int build_put(struct strv *list, const char *pair, struct vial_error *err);

/* PATH as a clean absolute one, below the present directory; malloc'ed. */
char *build_path(const struct build *b, const char *path, struct vial_error *err);

/* TEXT with its variables replaced; malloc'ed. */
char *build_expand(const struct build *b, const char *text, struct vial_error *err);

/* The object under KEY, which is made if need be; borrowed. */
json_t *build_member(json_t *object, const char *key);

/* step_plain.c: what needs no vessel, or none that is saved. */
int step_plain(struct build *b, const struct template_step *step,
               struct vial_error *err);

/* step_session.c: refuses what the template wants to reach and the caller has not
 * allowed: a file that a stranger wrote chooses no network. */
int step_check_network(const struct build *b, struct vial_error *err);
/* A session of the present image, for one step. */
int step_open(const struct build *b, struct vial_session **out, struct vial_error *err);
/* Runs ARGV (NULL-terminated) there, as AS, "UID:GID" or "". PRINTED, or NULL, gets its
 * standard output, which is not shown then. */
int step_run(const struct build *b, struct vial_session *s, const char *const *argv,
             const char *as, struct str *printed, struct vial_error *err);

/* step_copy.c */
struct copy {
    struct picks picks;
    char *to;  /* absolute */
    bool into; /* TO is a directory, as it is written */
};
int copy_read(struct build *b, const struct template_step *step, struct copy *out,
              struct vial_error *err);
int copy_do(const struct build *b, const struct copy *c, struct vial_session *s,
            struct vial_error *err);
void copy_done(struct copy *c);
#define auto_copy __attribute__((cleanup(copy_done)))

static inline void auto_session_(struct vial_session **s)
{
    vial_session_free(*s);
}
#define auto_session __attribute__((cleanup(auto_session_)))

#endif
