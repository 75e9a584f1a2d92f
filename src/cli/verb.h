/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_VERB_H
#define VIAL_CLI_VERB_H

/* The verbs of `vial session` and `vial context`, over the daemon. Each gives an exit
 * status, or -1 with ERR filled. */

#include "cli/daemon.h"

struct verb {
    const char *name;
    const char *operands;
    size_t least; /* operands besides the verb */
    int (*run)(struct cli *cli, const struct daemon *d, struct vial_error *err);
    const char *fields; /* of a request that it takes: " a b ", VERB_STARTS, or NULL */
};

#define VERB_STARTS "*" /* it starts a session: all fields, and a daemon if need be */

/* "/v1/sessions/ID" and REST, which may be NULL, with the session of operand 1. */
int verb_target(const struct cli *cli, const char *rest, struct str *out,
                struct vial_error *err);
/* Adds PATH, whose slashes stay as they are. */
int verb_add_path(struct str *out, const char *path, struct vial_error *err);

/* A call without a body, whose answer is of no interest. */
int verb_do(const struct daemon *d, const char *method, const char *target,
            const char *json, struct vial_error *err);

/* The verb that is asked for, of those that KNOWN has up to its empty row. */
int verb_run(struct cli *cli, const struct verb *known, const char *command);

/* A session with the flags of a request; SAID is the daemon's answer. */
int verb_start(const struct cli *cli, const struct daemon *d, struct str *said,
               struct vial_error *err);
int verb_list(struct cli *cli, const struct daemon *d, struct vial_error *err);

/* verb_exec.c */
int verb_exec(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_ps(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_attach(struct cli *cli, const struct daemon *d, struct vial_error *err);

/* verb_forward.c */
int verb_forward(struct cli *cli, const struct daemon *d, struct vial_error *err);

/* verb_files.c: files, and the workspace */
int verb_write(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_read(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_watch(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_ls(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_rm(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_diff(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_commit(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_discard(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_checkpoint(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_rollback(struct cli *cli, const struct daemon *d, struct vial_error *err);

#endif
