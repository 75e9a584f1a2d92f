/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_COMMON_OJ_H
#define VIAL_WIRES_COMMON_OJ_H

#include "serve/route.h"

/* SandboxFusion's /submit for the one kind of dataset that comes along with the
 * request: a completion with a program in it, and tests. The body was judged. */
void common_oj_submit(struct call *c);

#endif
