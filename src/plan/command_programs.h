/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_COMMAND_PROGRAMS_H
#define VIAL_PLAN_COMMAND_PROGRAMS_H

/*
 * Which programs a command starts, as far as that can be read off it: of
 *
 *   cd web && A=1 sudo -u me time npm test | tee log
 *
 * cd, npm and tee. What decides about an image needs no more than that; nothing here is
 * believed for any other purpose. A line that means something else to its shell gets an
 * image that does not suit it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Asked about each program, which is LEN bytes of NAME without its directories. A
 * return other than NULL ends the search. */
typedef const char *command_programs_ask(const void *context, const char *name,
                                         size_t len);

/* COMMAND is a program with its arguments, or a shell with a line. NULL: nothing was
 * found. */
const char *command_programs_search(const struct strv *command,
                                    command_programs_ask *ask, const void *context);

#endif
