/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_CREDENTIALS_H
#define VIAL_IMAGES_FETCH_CREDENTIALS_H

/*
 * Who we are for a registry: as `docker login` left it in ~/.docker/config.json, or in
 * DOCKER_CONFIG's directory, itself or through a credential helper, which is the
 * caller's own program. Read before anything is confined, and kept in memory only.
 */

#include "vial/error.h"

struct credentials {
    char *user, *password; /* NULL: none */
    char *identity;        /* a token that tokens are had for, or NULL */
};

/* For HOST ("name" or "name:port"). None is no error. */
int credentials_find(const char *home, const char *host, struct credentials *out,
                     struct vial_error *err);
void credentials_done(struct credentials *c);

#endif
