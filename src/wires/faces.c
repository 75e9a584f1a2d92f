/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/faces.h"

#include <stddef.h>

const struct face *const faces[] = { &face_sandboxfusion, &face_piston, &face_gojudge,
                                     &face_judge0, NULL };
