/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_DAEMON_H
#define VIAL_CLI_DAEMON_H

/*
 * The daemon as the command line sees it: found at its unix socket, or started, or
 * named by its address. One that is started for a user is private: its socket lies in a
 * directory of the user's own, and it ends by itself when there is nothing left for it
 * to do.
 */

#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "http/http.h"

#define DAEMON_FLAG_ROW                                                                \
    {                                                                                  \
        "socket", "PATH", "The daemon's unix socket, instead of the usual ones."       \
    }

struct daemon {
    char socket[108];      /* "": it is reached as PEER */
    struct http_peer peer; /* on loopback, or by TLS */
    char host[272];        /* as its answers know it: HOST:PORT */
    const char *token;     /* borrowed, or NULL */
};

/* Where URL leads: http://HOST:PORT on loopback, https://HOST:PORT, unix:/PATH. TOKEN
 * is borrowed; CA, a file of authorities, or NULL for the host's. Nobody is asked. */
int daemon_at(const char *url, const char *token, const char *ca, struct daemon *out,
              struct vial_error *err);

/* The token for daemons: in FILE, else in VIAL_TOKEN. *OUT is malloc'ed, or NULL if
 * there is none. */
int daemon_token(const char *file, char **out, struct vial_error *err);

/* What a person calls it. */
const char *daemon_name(const struct daemon *d);

/* Finds a daemon. When there is none, and START is set and no --socket was given, one
 * is started. */
int daemon_find(const struct cli *cli, bool start, struct daemon *out,
                struct vial_error *err);

/* How it answered, whatever it said. */
struct daemon_said {
    int status;       /* of HTTP; 0: it did not answer */
    bool reached;     /* it may have heard the request */
    unsigned retry_s; /* it asks for that before the next try; 0: for nothing */
};

/* A request to it. JSON text or BYTES go with it; both may be NULL. An answer that
 * is an error becomes ERR. */
struct daemon_ask {
    const char *method, *target;
    const char *json;
    const struct blob *bytes;
    int cancel_fd;            /* -1: none */
    bool wants_result;        /* an error that comes with a whole result is none */
    struct daemon_said *said; /* or NULL */
};
int daemon_call(const struct daemon *d, const struct daemon_ask *ask, struct str *out,
                struct vial_error *err);

/* The answer piece by piece. */
int daemon_stream(const struct daemon *d, const struct daemon_ask *ask, http_take *take,
                  void *context, struct vial_error *err);

/* A connection whose bytes pass as they are, behind "Upgrade: tcp". *FD is
 * non-blocking, the caller's; FIRST has what came over it already. */
int daemon_tunnel(const struct daemon *d, const char *target, int *fd,
                  struct str *first, struct vial_error *err);

/* Where viald lies; malloc'ed, or NULL. */
char *daemon_program(void);

/* A request as the daemon wants it; malloc'ed. Files named by their path are read.
 * STDIN_FD, unless -1, is read to its end. */
int daemon_request(const struct vial_request *req, int stdin_fd, json_t **out,
                   struct vial_error *err);

#endif
