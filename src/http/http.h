/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_HTTP_HTTP_H
#define VIAL_HTTP_HTTP_H

/*
 * An HTTP/1.1 client for container engines, and for our own daemon: one connection per
 * call, a bound on everything that comes back, and a time-out on every wait. It also
 * gives the raw connection after an upgrade, which is how container engines attach.
 *
 * The connection is made by a transport, so that tests can put a socket pair in
 * the server's place.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

#include "vial/error.h"

struct http_transport {
    /* A connected, non-blocking stream socket, which becomes the caller's; or -1
     * with ERR filled. Blocks for TIMEOUT_MS at most, and gives up once CANCEL_FD
     * (-1: none) is readable. */
    int (*connect)(const void *context, int64_t timeout_ms, int cancel_fd,
                   struct vial_error *err);
    const void *context; /* borrowed */
};

/* dial.c: CONTEXT is the socket's path. */
int http_unix_connect(const void *context, int64_t timeout_ms, int cancel_fd,
                      struct vial_error *err);

/* A server that is reached over TCP. */
struct http_peer {
    char host[256], port[8];
    bool tls;
    bool anonymous;    /* we show no certificate: CERTS is the file of authorities that
                          are trusted, or "" for the host's own */
    char certs[1024];  /* else the directory of ca.pem, cert.pem and key.pem */
    char helper[1024]; /* path of vial-tls */
    int asked_fd;      /* > 0: one that runs already is asked instead (call_out.h) */
    /* > 0, each 10 or higher: files of the authority that is trusted (empty: the
     * host's own), of our certificate and of its key (both empty: we show none), in
     * CERTS' place, which is the name that the server's certificate must have.
     * Borrowed.
     */
    int given[3];
};

/* peer_address.c: "HOST", "HOST:PORT" or "[v6]:PORT", a slash behind it at most. -1: it
 * is none of these. Only host and port are written. */
int http_peer_parse(struct http_peer *out, const char *text, const char *usual_port);
/* peer_address.c: nobody else is there. */
bool http_is_loopback(const char *host);

/* dial.c: CONTEXT is a peer by number, without TLS. */
int http_tcp_connect(const void *context, int64_t timeout_ms, int cancel_fd,
                     struct vial_error *err);
/* dial.c: CONTEXT is a peer by name or number; another program connects. */
int http_dial_connect(const void *context, int64_t timeout_ms, int cancel_fd,
                      struct vial_error *err);
/* dial.c: starts PROGRAM with ARGS, in a session of its own, without an environment,
 * and with FDS at 3 and on. 0 or an errno. */
int http_start(const char *program, const char *const *args, const int *fds,
               size_t count, pid_t *out);

struct http_request {
    const char *method;
    const char *target;         /* "/images/json?all=1"; already encoded */
    const char *host;           /* for the head; NULL: whatever is there */
    const char *token;          /* a bearer's, or NULL */
    const char *body;           /* JSON text, or NULL */
    const char *headers;        /* more lines of the head, each with its end; or NULL */
    const struct blob *archive; /* bytes as the body instead, or NULL */
    const char *type;           /* what these are; NULL: a tar archive */
    int64_t timeout_ms;         /* for the whole call; > 0 */
    int64_t idle_ms;            /* > 0: timeout_ms starts anew with each byte, as far as
                                   this; for streams */
    int cancel_fd;              /* readable: give up; -1: none */
    bool head_only;             /* the answer's body does not matter */
    const char *upgrade; /* http_upgrade: lines of the head that say to what, each
                            with its end; NULL: to a plain stream */
    /* Told of each line of the answer's head behind the first, or NULL; -1: the answer
     * is not valid. */
    int (*header)(void *context, const char *line);
    void *header_context;
};

#define HTTP_BODY_MAX (16u << 20) /* bytes of one answer */

struct http_answer {
    int status;
    unsigned version_major, version_minor; /* of "Api-Version:", or 0.0 */
    struct str body;
};
void http_answer_done(struct http_answer *a);
#define auto_answer __attribute__((cleanup(http_answer_done)))

/* 0 with any status, or -1 when there was no whole answer. *OUT is empty before,
 * and the caller's to release whatever this returns. */
int http_call(const struct http_transport *t, const struct http_request *r,
              struct http_answer *out, struct vial_error *err);

/* The same; a body that comes with a status below 300 goes to TAKE piece by
 * piece instead. TAKE returns 0, or -1 with ERR filled to give up. */
typedef int http_take(void *context, const char *data, size_t len,
                      struct vial_error *err);
int http_stream(const struct http_transport *t, const struct http_request *r,
                http_take *take, void *context, struct http_answer *out,
                struct vial_error *err);

/* Asks for the raw connection. With status 101 (or 200, as old servers say) *FD
 * is a non-blocking socket, the caller's, and OUT->body holds what has come over
 * it so far. Otherwise *FD is -1 and OUT the refusal. */
int http_upgrade(const struct http_transport *t, const struct http_request *r,
                 struct http_answer *out, int *fd, struct vial_error *err);

/* TEXT so that it can stand in a target: letters, digits and "-._~" as they are. */
void http_escape(struct str *out, const char *text);

#endif
