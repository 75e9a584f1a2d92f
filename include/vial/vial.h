/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_VIAL_H
#define VIAL_VIAL_H

/* vial: a sealed, single-use vessel for code you don't trust. */

#include "vial/engine.h"
#include "vial/error.h"
#include "vial/request.h"
#include "vial/result.h"
#include "vial/vessels.h"

#endif
