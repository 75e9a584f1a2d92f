/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_OCI_H
#define VIAL_DRIVER_DOCKER_OCI_H

/*
 * A seccomp profile of ours (driver/native/profile.h) in the form container
 * engines take. It is the outer ring, around guest and programs: what is allowed
 * and with which arguments. Refusals that this form cannot express beside an
 * allowance are left to the inner ring, the two filters that the guest loads
 * before each program.
 */

#include <jansson.h>
#include <stdbool.h>

#include "vial/error.h"

struct oci_options {
    bool own_users; /* the guest can give its programs a user namespace */
    /* Refusals are counted by the guest, whose filter answers before an outer TRACE and
     * after an outer ERRNO. So EPERM becomes TRACE, which refuses as well (ENOSYS):
     * nobody traces with that option. */
    bool counted;
    bool fixed; /* the guest gives its programs fixed addresses */
};

/* NULL with ERR filled when PROFILE has a rule that makes no sense. */
json_t *oci_profile(json_t *profile, struct oci_options o, struct vial_error *err);

#endif
