/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_HTTP_PARSE_H
#define VIAL_HTTP_PARSE_H

/*
 * One answer, taken apart as it arrives, without I/O. The server is not trusted:
 * a head that is too long, a length that is no number, or two lengths that
 * contradict each other end it.
 *
 *   parse_init -> parse_feed* -> (parse_eof) ; done when state is PARSE_DONE
 */

#include <sys/types.h>

#include "http/http.h"

#define PARSE_HEAD_MAX (32u << 10)

enum parse_state {
    PARSE_HEAD,
    PARSE_LENGTH,     /* `left` bytes of body */
    PARSE_CHUNK_LINE, /* a chunk's length */
    PARSE_CHUNK,      /* `left` bytes of it */
    PARSE_CHUNK_END,  /* its line end */
    PARSE_TRAILER,
    PARSE_TO_EOF,
    PARSE_DONE,
};

struct parse {
    enum parse_state state;
    bool upgrade; /* a status of 101 or 200 ends it behind the head */
    bool no_body; /* the request was HEAD */
    /* Told of each line of the head behind the first, or NULL; -1: it is not valid. */
    int (*header)(void *context, const char *line);
    void *header_context;
    int status;
    unsigned version_major, version_minor;
    uint64_t left;
    struct str line; /* head, chunk line or trailer so far */
};

void parse_done(struct parse *p);

/* Takes DATA and gives the body's bytes to TAKE. Returns how many bytes belonged
 * to this answer (all but those behind its end), or -1 with ERR filled. */
ssize_t parse_feed(struct parse *p, const char *data, size_t len, http_take *take,
                   void *context, struct vial_error *err);

/* The connection ended: 0 when the answer is whole. */
int parse_eof(struct parse *p, struct vial_error *err);

#endif
