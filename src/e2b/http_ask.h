/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_HTTP_ASK_H
#define VIAL_E2B_HTTP_ASK_H

/*
 * One request of the wire while it is served, and how it is answered: each face has a
 * form of errors of its own. A handler answers once.
 */

#include <jansson.h>

#include "base/json.h"
#include "e2b/box.h"

struct ask {
    struct e2b *e2b;
    struct web_request *web;
    struct e2b_turn *turn;
    const char *path;       /* without a prefix of the URL's */
    struct box *box;        /* whose traffic it is, or NULL */
    unsigned port;          /* of it */
    bool own_host;          /* by a host name of that port's */
    const char *target;     /* as it came, without a prefix */
    struct e2b_owner owner; /* of the key, on the control API */
    struct caller *caller;
    const char *arg, *arg2; /* what the route's braces stood for, or NULL */
    unsigned retry_s;       /* with a 429 */
    bool root;              /* files are root's to use, where the box has one */
    bool proto;             /* its messages are protobuf, not JSON */
};

typedef void ask_handler(struct ask *a);

/* The body as one JSON object; an empty one is an empty object. */
int ask_body(struct ask *a, json_t **out, struct vial_error *err);

/* Whether VALUE, said under NAME, is an object of texts, and not too much of them. */
#define ASK_WORDS_COUNT 256
int ask_check_words(const char *name, const json_t *value, struct vial_error *err);

/* Refuses a member of OBJECT that is not null and not among KNOWN, COUNT of them, by
 * its name behind WHERE. */
int ask_check_members(json_t *object, const char *const *known, size_t count,
                      const char *where, struct vial_error *err);

/* Answers. VALUE is taken; NULL counts as no memory. */
void ask_json(struct ask *a, unsigned status, json_t *value);
void ask_text(struct ask *a, unsigned status, const char *type, const char *text);
void ask_done(struct ask *a); /* 204 */
/* {"code": STATUS, "message": TEXT} */
__attribute__((format(printf, 3, 4))) void ask_refuse(struct ask *a, unsigned status,
                                                      const char *format, ...);
/* The same from an error of vial's. */
void ask_error(struct ask *a, const struct vial_error *err);
unsigned ask_status_of(const struct vial_error *err);
/* "message: cause; remedy" */
#define ASK_WORDS 896
void ask_words(const struct vial_error *err, char out[ASK_WORDS]);

/* The proxy's: {"sandboxId", "message", "code"} */
void ask_proxy(struct ask *a, unsigned status, const char *id, const char *message);

/* Whether the path fits PATTERN: each "{}", of which there are two at most, takes one
 * component, for A->arg and A->arg2. ARGS has their texts. */
#define ASK_ARG 136 /* more than a volume's id */
bool ask_matches(struct ask *a, const char *pattern, char args[2][ASK_ARG]);

/* A program or cell counts for its caller until ask_ended. */
int ask_start(struct ask *a, struct vial_error *err);
void ask_ended(void *caller);

/* Whether the client has gone away. */
bool ask_is_gone(struct ask *a);

/* The faces. */
void control_handle(struct ask *a);
void envd_handle(struct ask *a);
void interpreter_handle(struct ask *a);
void port_handle(struct ask *a);

#endif
