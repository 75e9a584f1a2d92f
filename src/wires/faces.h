/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_FACES_H
#define VIAL_WIRES_FACES_H

#include "serve/face.h"

extern const struct face face_sandboxfusion, face_piston, face_judge0, face_gojudge;

#endif
