/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WEB_MULTIPART_H
#define VIAL_WEB_MULTIPART_H

/* multipart/form-data (RFC 7578), read in place: nothing is copied but short texts. */

#include <stdbool.h>
#include <stddef.h>

struct part {
    char name[64];
    char filename[4096]; /* as it was sent, directories and all; or "" */
    const char *data;    /* borrowed from the body */
    size_t len;
};

struct multipart {
    const char *at, *end;
    char boundary[80]; /* with the two dashes before it */
};

/* TYPE is the header Content-Type. False: it names no boundary, or the body does not
 * begin with it. */
bool multipart_begin(struct multipart *m, const char *type, const char *body,
                     size_t len);

/* The next part: 1; 0 behind the last; -1: it is none. */
int multipart_next(struct multipart *m, struct part *out);

#endif
