/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_FACE_H
#define VIAL_SERVE_FACE_H

/*
 * A face makes the daemon look like another service to that service's clients: paths,
 * ways to say a token, and refusals in that service's form. Each is off unless the
 * setting `wires` names it. It answers on the root, where its paths are, and whole
 * below a prefix of its own. What faces do is the room `wires`, which defines all but
 * the last three of these.
 */

#include "serve/route.h"

struct face_route {
    const char *method, *path; /* as in routes.def, below one of the face's bases */
    unsigned scope;            /* SCOPE_NONE: anyone, even unknown */
    route_handler *handler;
};

struct face {
    const char *name;         /* in the setting `wires` */
    const char *const *bases; /* of its paths, NULL-terminated: "" or "/api/v2" */
    const struct face_route *routes;
    /* Answers a refusal in the face's own form; STATUS is what ERR stands for. */
    void (*refuse)(struct call *c, unsigned status, const struct vial_error *err);
};

/* Up to NULL. Where two have one path on the root, it is the first one's. */
extern const struct face *const faces[];

/* What faces keep between calls. */
struct wires;
int wires_open(const char *share_dir, struct wires **out, struct vial_error *err);
void wires_close(struct wires *wires); /* NULL is allowed */

/* Whether PATH belongs to a face that is on. */
bool face_has(const struct serve_settings *s, const char *path);
/* Answers C if its path belongs to one. */
bool face_answer(struct call *c);
/* Counts and records that C was turned away, and answers in the face's form. */
void face_refuse(struct call *c, const struct face *face, const struct vial_error *err);

#endif
