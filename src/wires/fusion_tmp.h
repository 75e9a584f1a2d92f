/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_FUSION_TMP_H
#define VIAL_WIRES_FUSION_TMP_H

/*
 * Files that a request of SandboxFusion's has below /tmp. A request's files lie below
 * the working directory: these do, too, until a shell that becomes the compiler, or the
 * program, has taken them to /tmp.
 */

#include "base/str.h"
#include "serve/http_call.h"

#include "vial/request.h"

/* Where a file of that NAME lies first, appended to OUT; false: it is none of these. */
bool fusion_tmp_path(const char *name, struct str *out);
/* Has REQ's compiler and program begin with that shell, if it has such files. */
int fusion_tmp_lead(const struct call *c, struct vial_request *req,
                    struct vial_error *err);

#endif
