/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_E2B_CALLS_H
#define VIAL_DRIVER_E2B_CALLS_H

/*
 * What is said to an E2B service: each call as a method, a target, headers and a body,
 * made from what is wanted, without any I/O. The control API makes and ends sandboxes;
 * envd, inside of each, takes files and starts programs.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "driver/e2b/endpoint.h"

/* What the service says of a sandbox that it made (answers.h). */
struct e2b_box {
    char id[E2B_ID + 1];         /* of its letters and digits alone */
    char token[E2B_TOKEN + 1];   /* for envd; "": none is needed */
    char traffic[E2B_TOKEN + 1]; /* likewise */
    char domain[E2B_DOMAIN + 1]; /* "": it says none */
};

/* Whom a call is for: what a refusal means depends on it. */
enum e2b_scope {
    E2B_OF_SERVICE,
    E2B_OF_SANDBOX, /* the control API's, which names one */
    E2B_IN_SANDBOX, /* of its envd */
};

/* When a call that was refused may be made again. */
enum e2b_again {
    E2B_AGAIN,         /* twice is as good as once */
    E2B_AGAIN_UNBEGUN, /* where the refusal says that nothing was begun */
    E2B_AGAIN_NEVER,
};

struct e2b_call {
    const char *about;  /* what messages say: "create the sandbox" */
    const char *method; /* as in HTTP */
    const char *type;   /* of the body; NULL without one */
    enum e2b_scope scope;
    enum e2b_again again;
    struct str target, headers, body;
    bool failed; /* no memory */
};

void e2b_call_done(struct e2b_call *c);
#define auto_e2b_call __attribute__((cleanup(e2b_call_done)))

/* A sandbox that is wanted. */
struct e2b_wish {
    const char *vessel;         /* its id here */
    const char *owner, *host;   /* base/owner.h, and which host that is of */
    const char *session, *task; /* labels, or NULL */
    bool internet;
    int64_t lease_s;
};

/* The control API's. */
void e2b_call_create(struct e2b_call *out, const struct e2b_endpoint *e,
                     const struct e2b_wish *w);
void e2b_call_renew(struct e2b_call *out, const struct e2b_endpoint *e, const char *id,
                    int64_t lease_s);
void e2b_call_kill(struct e2b_call *out, const struct e2b_endpoint *e, const char *id);
void e2b_call_look(struct e2b_call *out, const struct e2b_endpoint *e, const char *id);
/* All of vial's. */
void e2b_call_list(struct e2b_call *out, const struct e2b_endpoint *e);

/* envd's. PATH is below the user's home. */
void e2b_call_upload(struct e2b_call *out, const struct e2b_box *box, const char *path,
                     const struct blob *content);
/* ARGV is a program and its words, ended by NULL; the answer is a stream. */
void e2b_call_start(struct e2b_call *out, const struct e2b_box *box,
                    const char *const *argv);
void e2b_call_input(struct e2b_call *out, const struct e2b_box *box, uint32_t pid,
                    const void *data, size_t len);

/* Metadata's names, by which vial finds its own. */
#define E2B_MANAGED "vial"
#define E2B_OWNER   "vial.owner"
#define E2B_HOST    "vial.host"
#define E2B_VESSEL  "vial.vessel"
#define E2B_SESSION "vial.session"
#define E2B_TASK    "vial.task"

#endif
