/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_CHILD_H
#define VIAL_DRIVER_NATIVE_CHILD_H

#include "driver/native/script.h"

/*
 * Between clone and exec. Walks S and never returns: the guest's exec happens,
 * or the step that failed goes to CONTROL_FD as a struct script_report. Makes
 * system calls only and touches no libc state, for the parent may have threads
 * (tests/gates/child.py checks the object file).
 */
_Noreturn void child_run(const struct script *s, int control_fd);

#endif
