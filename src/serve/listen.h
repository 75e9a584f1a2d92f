/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_LISTEN_H
#define VIAL_SERVE_LISTEN_H

/* Sockets to listen on: "unix:PATH" or "tcp:HOST:PORT". */

#include <stdbool.h>
#include <sys/stat.h>

#include "settings/blocks.h"

#include "vial/error.h"

struct listener {
    int fd;
    bool tcp;
    char path[108];   /* of a unix socket that we made, to be removed; or "" */
    struct stat made; /* its */
    char shown[160];
};

/* Binds ADDRESS. A TCP address that others can reach is refused without tokens and
 * TLS; on loopback, without tokens. A unix socket is for its owner alone unless the
 * settings name others. */
int listen_open(const char *address, const struct serve_settings *s,
                struct listener *out, struct vial_error *err);
void listen_close(struct listener *l);
/* Binds "tcp:HOST:PORT", whoever can reach it: for what tells no secret and takes
 * nothing. */
int listen_open_agent(const char *address, int *out, struct vial_error *err);

/* The usual unix socket of this user; malloc'ed, or NULL. */
char *listen_usual(void);

/* Sockets that systemd opened for us: how many, from descriptor 3 on. */
int listen_inherited(void);

#endif
