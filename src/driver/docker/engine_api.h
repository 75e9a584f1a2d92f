/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_ENGINE_API_H
#define VIAL_DRIVER_DOCKER_ENGINE_API_H

/*
 * The Engine API, as Docker (1.41 and later) and Podman speak it: calls with JSON
 * in and out, and errors told apart by their cause, each with what to do.
 *
 * Paths carry no version: every engine then speaks its newest, and says which.
 */

#include <jansson.h>

#include "http/http.h"

#define API_SOCKET_DEFAULT "/var/run/docker.sock"
#define API_MINOR          41 /* of version 1 */

struct api {
    struct http_transport transport;
    char socket[108];      /* the unix socket's path, or "" */
    struct http_peer peer; /* where it is instead */
    bool remote;           /* it may run on another host: nothing of ours is there */
    int64_t timeout_ms;    /* of a call that sets none itself; 0: the usual */
    unsigned retries;      /* after a failure that may pass */
    int64_t retry_ms;      /* before the first; doubled each time */
    const int *cancel_fd;  /* calls give up once it is readable; NULL: none */
};

/* The sources that say where the engine is; all may be NULL. */
struct api_source {
    const char *address;    /* as in DOCKER_HOST; NULL: the usual socket */
    const char *tls_verify; /* set at all: TLS, and nothing else */
    const char *certs;      /* directory; NULL: ~/.docker */
    const char *home;
    const char *plain; /* set at all: without TLS to other hosts, too */
};

/* address.c. The transport points into OUT, which must not be moved. */
int api_init(struct api *out, const struct api_source *from, struct vial_error *err);

/* The same from the environment: DOCKER_HOST, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH,
 * VIAL_ENGINE_PLAIN, and DOCKER_CLIENT_TIMEOUT in seconds. */
int api_find(struct api *out, struct vial_error *err);

/* One call. METHOD and TARGET as in HTTP; BODY is borrowed, or NULL; *OUT is the
 * answer's JSON, null when it has none; OUT may be NULL. Statuses from 400 on are
 * errors; 304 ("already so") is success. */
struct api_call {
    const char *method;
    const char *target;
    json_t *body;
    const struct blob *archive; /* a tar archive instead, or NULL */
    int64_t timeout_ms;         /* 0: the usual */
    const char *about;          /* what messages say: "create the container" */
    const char *object;         /* the image or container in question, for messages */
};
int api_do(const struct api *api, const struct api_call *call, json_t **out,
           struct vial_error *err);

/* The raw stream: see http_upgrade. EARLY gets what has come already. */
int api_attach(const struct api *api, const struct api_call *call, int *fd,
               struct str *early, struct vial_error *err);

/* An answer as an error; -1. */
int api_refused(const struct api_call *call, int status, const char *body, size_t len,
                struct vial_error *err);

/* Puts the engine's own words into ERR, made fit for a message. */
void api_cause(const char *body, size_t len, struct vial_error *err);

/* Adds what to do about a connection that could not be made; -1. */
int api_advise(const struct api *api, struct vial_error *err);

#endif
