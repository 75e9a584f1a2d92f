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

/* With OWN_USERS the guest can give its programs a user namespace. NULL with ERR filled
 * when PROFILE has a rule that makes no sense. */
json_t *oci_profile(json_t *profile, bool own_users, struct vial_error *err);

#endif
