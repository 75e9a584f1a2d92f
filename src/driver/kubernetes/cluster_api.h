/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_CLUSTER_API_H
#define VIAL_DRIVER_KUBERNETES_CLUSTER_API_H

/*
 * The API server of a cluster: calls with JSON in and out, and refusals told apart by
 * their cause, each with what to do. TLS and names are vial-tls's, for which keys lie
 * in files without a name.
 *
 * Credentials are renewed where they came from, once they end or are refused; so one
 * thread at a time.
 */

#include <jansson.h>

#include "driver/kubernetes/kubeconfig.h"
#include "http/http.h"

struct cluster_api {
    struct cluster cluster;
    struct http_transport transport;
    struct http_peer peer; /* what it is given is owned */
    char head[300];        /* of Host: */
    const int *cancel_fd;  /* calls give up once it is readable; NULL: none */
    unsigned retries;      /* after a refusal that will pass; 0: no patience at all */
    int64_t retry_ms;
};

/* From the environment: KUBECONFIG, HOME, VIAL_KUBERNETES_CONTEXT and _NAMESPACE; or a
 * pod's account. OUT, which must not be moved, is the caller's to close, whatever this
 * returns. */
int cluster_api_open(struct cluster_api *out, struct vial_error *err);
void cluster_api_close(struct cluster_api *api); /* all zero is allowed */
#define auto_cluster_api __attribute__((cleanup(cluster_api_close)))

/* Has vial-tls given authority, certificate and key as they are now. */
int cluster_api_give(struct cluster_api *api, struct vial_error *err);

struct cluster_call {
    const char *method;
    const char *path;   /* behind the server's prefix: "/api/v1/…" */
    json_t *body;       /* borrowed, or NULL */
    int64_t timeout_ms; /* 0: the usual */
    const char *about;  /* what messages say: "create the pod" */
};

/* *OUT is the answer's JSON; OUT may be NULL. */
int cluster_do(struct cluster_api *api, const struct cluster_call *call, json_t **out,
               struct vial_error *err);

/* One object of the answer after the other, as they come, to TAKE, which returns
 * whether it wants more. 0 also when the server ended it, or the time was over. */
typedef bool cluster_take(void *context, json_t *object);
int cluster_watch(struct cluster_api *api, const struct cluster_call *call,
                  cluster_take *take, void *context, struct vial_error *err);

/* A WebSocket for the subprotocol v4.channel.k8s.io. EARLY gets what has come of it
 * already. */
int cluster_attach(struct cluster_api *api, const struct cluster_call *call, int *fd,
                   struct str *early, struct vial_error *err);

/* refusal.c: what an answer means that is none. */

/* Nobody was there, or no answer: ERR, which says why, in words about clusters; -1. */
int cluster_unreached(const struct cluster_api *api, const struct cluster_call *call,
                      struct vial_error *err);
/* The server does not know who asks. */
bool cluster_is_unknown(int status);
/* RC and A are http_call's: it may be asked again. */
bool cluster_may_pass(const char *method, int rc, const struct http_answer *a,
                      const struct vial_error *why);
/* WHY is that there is no such object. */
bool cluster_is_missing(const struct vial_error *why);
/* WHY is that there is one of that name already. */
bool cluster_is_taken(const struct vial_error *why);

/* The cluster's words, or a pod's shell's, made fit for a message; NULL: none. */
void cluster_add_cause(struct vial_error *err, const char *text);

/* A refusal as an error; -1. Pure. */
int cluster_refused(const struct cluster_call *call, int status, const char *body,
                    size_t len, struct vial_error *err);

#endif
