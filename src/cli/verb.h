/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_VERB_H
#define VIAL_CLI_VERB_H

/* The verbs of `vial session`, over the daemon. Each gives an exit status, or -1 with
 * ERR filled. */

#include "cli/daemon.h"

struct verb {
    const char *name;
    const char *operands;
    size_t least; /* operands besides the verb */
    int (*run)(struct cli *cli, const struct daemon *d, struct vial_error *err);
};

/* "/v1/sessions/ID" and REST, which may be NULL, with the session of operand 1. */
int verb_target(const struct cli *cli, const char *rest, struct str *out,
                struct vial_error *err);

/* A call without a body, whose answer is of no interest. */
int verb_do(const struct daemon *d, const char *method, const char *target,
            const char *json, struct vial_error *err);

/* verb_exec.c */
int verb_exec(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_attach(struct cli *cli, const struct daemon *d, struct vial_error *err);

/* verb_files.c */
int verb_write(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_read(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_ls(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_rm(struct cli *cli, const struct daemon *d, struct vial_error *err);

/* verb_workspace.c */
int verb_diff(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_commit(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_discard(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_checkpoint(struct cli *cli, const struct daemon *d, struct vial_error *err);
int verb_rollback(struct cli *cli, const struct daemon *d, struct vial_error *err);

#endif
