/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_AUTH_H
#define VIAL_SERVE_AUTH_H

/*
 * Finds out who asks. On a unix socket the kernel says which user it is: root, the
 * daemon's own, or one of the setting `uids`. On TCP a bearer token says so; only its
 * hash is known here. A request that another daemon passes on (sessions_at.h) has the
 * name of its caller, who is known here, too. Nobody else gets further than /healthz.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "engine/callers/gate.h"
#include "settings/settings.h"
#include "web/web.h"

/* The header of a request that was passed on: the caller's name. */
#define AUTH_FOR "Vial-For"

enum scope {
    SCOPE_NONE = 0,
    SCOPE_READ = 1 << 0,    /* languages, doctor, metrics, own runs */
    SCOPE_RUN = 1 << 1,     /* run, batch */
    SCOPE_SESSION = 1 << 2, /* sessions and all in them */
    SCOPE_IMAGE = 1 << 3,   /* pull and prune */
    SCOPE_ADMIN = 1 << 4,   /* what concerns others */
    SCOPE_ALL = (1 << 5) - 1,
};

struct identity {
    char name[96]; /* "uid:0", "token:ci" */
    unsigned scopes;
    struct quota quota;
    bool local; /* root or the daemon's own user: may name files of this host */
};

/* The file of tokens, in YAML: a list of
 *   { name: ci, sha256: …, scopes: [run, session], runs_per_minute: 60, … } */
struct token {
    char name[64];
    char sha256[65];
    unsigned scopes;
    struct quota quota;
};

struct auth {
    struct token *tokens;
    size_t token_count;
    uid_t *uids, *fronts; /* of the settings `uids` and `sessions_for` */
    size_t uid_count, front_count;
    uid_t own;
    struct quota usual;
    struct strv hosts, origins;
    const struct serve_settings *settings; /* borrowed */
};

/* OWN is whoever started the daemon. */
int auth_load(struct auth *a, const struct serve_settings *s, uid_t own,
              struct vial_error *err);
void auth_done(struct auth *a);

/* VIAL-AUTH when nobody known asks; VIAL-HTTP for a Host or Origin that is not
 * ours. */
int auth_check(const struct auth *a, const struct web_request *req,
               struct identity *out, struct vial_error *err);

/* Whether REQ has an Origin, and it is one that the setting `origins` names. */
bool auth_origin_is_listed(const struct auth *a, const struct web_request *req);

/* The same of a user on the unix socket, whatever is asked. */
int auth_peer(const struct auth *a, uid_t uid, struct identity *out,
              struct vial_error *err);

/* Whether daemons of that user may pass on requests of their callers. */
bool auth_front(const struct auth *a, uid_t uid);

/* Whose token KEY is; false: nobody's. */
bool auth_key(const struct auth *a, const char *key, struct identity *out);

/* What the file of tokens calls WHO; "" for others. Borrowed. */
const char *auth_token_name(const struct identity *who);

/* "run" and so on; 0 for none of them. */
unsigned auth_scope(const char *name);
const char *auth_scope_name(unsigned scope);

#endif
