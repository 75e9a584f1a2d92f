/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_EGRESS_H
#define VIAL_E2B_EGRESS_H

/*
 * Ranges of addresses as E2B's clients write them, and as a gate takes them. With E2B
 * what is allowed wins over what is denied, with a gate it is the other way round: so
 * the ranges that are denied are cut, until none of them has an allowed address. Pure.
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/public_address.h"
#include "model/policy.h"

#define EGRESS_MOST 128u /* entries of a request's lists */

/* TEXT is ADDRESS or ADDRESS/BITS; bits beyond BITS are cleared. */
bool egress_parse(const char *text, struct range *out);
/* All traffic: IPv6, too. */
bool egress_is_all(const struct range *r);

/* Adds the entries for R to ALLOW: on the ports that the operator's USUAL entries have
 * for all of it, else on the usual ones. */
int egress_allow(const struct range *r, const json_t *usual, json_t *allow,
                 struct vial_error *err);

/* Adds to DENY what lists of texts come to: DENIED without ALLOWED, whose names are
 * none of ours. */
int egress_deny(const json_t *denied, const json_t *allowed,
                const struct policy *policy, json_t *deny, struct vial_error *err);

/* The first of ALLOWED that has an address of DENIED, or NULL. */
const char *egress_meets(const json_t *allowed, const json_t *denied);

#endif
