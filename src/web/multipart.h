/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WEB_MULTIPART_H
#define VIAL_WEB_MULTIPART_H

/*
 * multipart/form-data (RFC 7578). Of a body that is there, in place: nothing is copied
 * but short texts. Of one that comes piece by piece, through a window:
 *
 *   form_begin -> { form_next -> form_data* }* -> form_done
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

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

/* Adds what comes next to OUT: 1; 0: that was all; -1: it does not come. */
typedef int form_source(void *context, struct str *out);

struct form {
    form_source *source;
    void *context;
    struct str window;
    size_t at;         /* in it */
    bool ended;        /* what is in the window is all that there still is */
    bool failed;       /* the source, or memory for the window */
    bool inside;       /* of a part's data */
    char boundary[84]; /* as it stands behind a part's data */
};

/* As multipart_begin: what stands before the first part is short. */
bool form_begin(struct form *f, const char *type, form_source *source, void *context);
/* The next part, without its data: 1; 0 behind the last; -1: it is none. What nobody
 * took of the one before is passed over. */
int form_next(struct form *f, struct part *out);
/* Some of the part's data, for as long as nothing else is asked of F: 1; 0: there is no
 * more; -1: it is cut short. */
int form_data(struct form *f, const char **data, size_t *len);
void form_done(struct form *f);

#endif
