/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_ROUTE_H
#define VIAL_SERVE_ROUTE_H

/* The daemon's routes are a table (routes.def) that also makes the OpenAPI document. */

#include "serve/http_call.h"

typedef void route_handler(struct call *call);

struct route {
    const char *method, *path; /* "{}" is one component, "{*}" all that is left */
    unsigned scope;            /* SCOPE_NONE: anyone, even unknown */
    route_handler *handler;
    const char *name;    /* for OpenAPI: operationId */
    const char *query;   /* parameters: "a|b", or "" */
    /* A shape of the body ("request+NAME": besides a request's members), "bytes" or "";
     * and the answers: "[STATUS ]WHAT|…", each a shape, "[a list of them]", "bytes",
     * "text" or "events SHAPE …"; "": 204. */
    const char *takes, *gives;
    const char *summary; /* one sentence */
};

/* All of it as an OpenAPI document; NULL without memory. */
json_t *openapi_json(void);

/* Whether PATH is like PATTERN; then the call has its parameters, until they are
 * forgotten. */
bool route_matches(struct call *c, const char *pattern, const char *path);
void route_forget(struct call *c);

/* Finds out who asks; -1: they may not use METHOD PATH, which takes SCOPE. */
int route_admit(struct call *c, unsigned scope, const char *method, const char *path,
                struct vial_error *err);

/* Up to one without a path. */
extern const struct route routes[];

#define ROUTE(method, path, scope, handler, ...) route_handler handler;
#include "serve/routes.def"
#undef ROUTE

#endif
