/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_ADDITIONAL_FILES_H
#define VIAL_WIRES_ADDITIONAL_FILES_H

/* The archive that a submission of Judge0 may have. The daemon itself never looks into
 * it: a program of ours (runtimes/wires/unzip.py) unpacks it in a vessel, for the
 * submission's caller, and what that prints is judged like any stranger's words. */

#include <jansson.h>

#include "wires/turn.h"

/* What was unpacked; its caller pays for it until it is released. */
struct additional_files {
    struct stage told;
    json_t *list; /* of [name, mode, base64] */
};

/* Whether this host can unpack. */
bool additional_files_work(struct call *c);
int additional_files_unpack(struct call *c, int cancel_fd, const struct blob *zip,
                            struct additional_files *out, struct vial_error *err);
/* Puts them into REQ, but for one that has the name of REQ's code: that is there
 * already. */
int additional_files_put(struct call *c, const struct additional_files *f,
                         struct vial_request *req, struct vial_error *err);
/* For a program that has no code of its own (number 89): it needs a script `run`, and is
 * compiled only if there is a `compile`. */
int additional_files_lead(const struct additional_files *f, struct vial_request *req,
                          struct vial_error *err);
void additional_files_done(struct additional_files *f);
#define auto_additional_files __attribute__((cleanup(additional_files_done)))

#endif
