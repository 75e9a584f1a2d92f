/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_JUPYTER_H
#define VIAL_WIRES_JUPYTER_H

#include "serve/route.h"

/* SandboxFusion's /run_jupyter: cells in turn, in one interpreter that remembers. */
void jupyter_run(struct call *c);

#endif
