/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WEB_GZIP_H
#define VIAL_WEB_GZIP_H

/*
 * gzip (RFC 1952), of bodies and of answers. What a body unpacks to is bounded as the
 * body itself is.
 *
 *   gunzip_open -> gunzip_read* -> gunzip_close
 *   gzip_open -> gzip_add*, the last of them with LAST -> gzip_close
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "web/web.h"

/* Unpacks REQ's body while it comes; NULL: no memory. */
struct gunzip;
struct gunzip *gunzip_open(struct web_request *req);
/* As web_read. */
int gunzip_read(struct gunzip *g, struct str *out, struct web_refusal *no);
void gunzip_close(struct gunzip *g); /* NULL is allowed */

struct gzip;

/* NULL: no memory. */
struct gzip *gzip_open(void);
/* Adds what the LEN bytes at DATA pack to, to OUT; the rest of all with LAST. -1: no
 * memory. */
int gzip_add(struct gzip *g, const void *data, size_t len, bool last, struct str *out);
void gzip_close(struct gzip *g); /* NULL is allowed */

static inline void auto_gzip_(struct gzip **g)
{
    gzip_close(*g);
}
#define auto_gzip __attribute__((cleanup(auto_gzip_)))

#endif
