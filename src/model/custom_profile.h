/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_CUSTOM_PROFILE_H
#define VIAL_MODEL_CUSTOM_PROFILE_H

/* A seccomp profile of the administrator's own, once it is compiled. */

#include "base/str.h"

struct custom_profile {
    struct blob filter; /* struct sock_filter; empty: there is none */
    size_t rules;       /* that the file has */
    char sha256[65];    /* of the file, in hex digits */
};

#endif
