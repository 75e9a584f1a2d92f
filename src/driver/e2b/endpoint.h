/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_E2B_ENDPOINT_H
#define VIAL_DRIVER_E2B_ENDPOINT_H

/*
 * Where an E2B service is, and by which key it is asked. The environment says so, by
 * the same names as to E2B's SDKs: E2B_API_KEY, E2B_DOMAIN, E2B_API_URL and
 * E2B_SANDBOX_URL; E2B_TEMPLATE names the template, and SSL_CERT_FILE the authorities
 * that are trusted.
 */

#include "http/http.h"

#define E2B_ID     64u /* bytes of a sandbox's id, at most */
#define E2B_TOKEN  256u
#define E2B_DOMAIN 253u

/* A server that is reached by a URL. It must not be moved: the transport points into
 * it. */
struct e2b_server {
    struct http_peer peer;
    struct http_transport transport;
    char host[300]; /* as it stands in a request */
    char path[128]; /* before every other; "" for none */
};

struct e2b_endpoint {
    char key[E2B_TOKEN + 1];
    char template_name[129];
    char domain[E2B_DOMAIN + 1]; /* of sandboxes; "": the service has to say it */
    char authorities[1024];      /* "": the host's own */
    char box_url[600]; /* of every sandbox; "": they have names of their own */
    struct e2b_server api;
};

/* What the variables say; each may be NULL. */
struct e2b_source {
    const char *key, *domain, *api_url, *box_url, *template_name, *authorities;
};

int e2b_endpoint_init(struct e2b_endpoint *out, const struct e2b_source *from,
                      struct vial_error *err);

/* The same from the environment. */
int e2b_endpoint_find(struct e2b_endpoint *out, struct vial_error *err);

/* Whether the environment has a key at all. */
bool e2b_endpoint_is_set(void);

/* Where sandbox ID is, of which the service says that it is at DOMAIN; "" says nothing.
 */
int e2b_endpoint_box(const struct e2b_endpoint *e, const char *id, const char *domain,
                     struct e2b_server *out, struct vial_error *err);

#endif
