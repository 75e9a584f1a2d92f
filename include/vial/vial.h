/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_VIAL_H
#define VIAL_VIAL_H

/* vial: a sealed, single-use vessel for code you don't trust. */

#include "vial/budget.h"
#include "vial/context.h"
#include "vial/engine.h"
#include "vial/error.h"
#include "vial/files.h"
#include "vial/host.h"
#include "vial/keep.h"
#include "vial/plan.h"
#include "vial/request.h"
#include "vial/result.h"
#include "vial/session.h"
#include "vial/vessels.h"
#include "vial/warm.h"
#include "vial/workspace.h"

#endif
