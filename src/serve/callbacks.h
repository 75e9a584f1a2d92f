/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_CALLBACKS_H
#define VIAL_SERVE_CALLBACKS_H

/*
 * URLs of clients that the daemon tells of an end. Off unless the setting `callbacks`
 * names hosts. The daemon cannot connect to anything: a process that it starts before
 * it gives up its rights does (http/call_out.h), and judges by the same list.
 *
 *   callbacks_start -> { callback_read -> callback_put }* -> callbacks_stop
 */

#include <sys/types.h>

#include "http/http.h"

#define CALLBACK_TRIES      3
#define CALLBACK_TIMEOUT_MS 5000

struct out_rules;

struct callbacks {
    struct out_rules *rules; /* NULL: off */
    int fd;
    pid_t pid;
};

/* HOSTS: the setting. */
int callbacks_start(struct callbacks *c, const struct strv *hosts,
                    struct vial_error *err);
void callbacks_stop(struct callbacks *c);

/* Where a callback goes. */
struct callback {
    struct http_peer peer;
    const char *target; /* within the URL; "" is "/" */
};

/* False: URL is none, or leads to where nobody may be called. OUT borrows from it. */
bool callback_read(const struct callbacks *c, const char *url, struct callback *out);

/* Puts BODY, a JSON text, there. Any answer is good; only a connection that fails is
 * tried again. -1: none of them was answered, or CANCEL_FD is readable. */
int callback_put(const struct callback *to, const char *body, int cancel_fd,
                 struct vial_error *err);

#endif
