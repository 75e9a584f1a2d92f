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
    const char *takes;   /* "request", "json", "bytes", or "" */
    const char *gives;   /* "result", "json", "bytes", "stream", or "" */
    const char *summary; /* one sentence */
};

/* Up to one without a path. */
extern const struct route routes[];

#define ROUTE(method, path, scope, handler, ...) route_handler handler;
#include "serve/routes.def"
#undef ROUTE

#endif
