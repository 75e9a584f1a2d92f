/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_API_SESSION_H
#define VIAL_API_SESSION_H

#include "vial/session.h"

/* Like vial_session_open; the session is HELD from its first moment on. */
int session_open_held(struct vial_engine *engine, const struct vial_request *req,
                      const struct vial_session_options *options,
                      struct vial_session **out, struct vial_error *err);

#endif
