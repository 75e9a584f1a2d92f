/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BUDGET_H
#define VIAL_BUDGET_H

/*
 * How much memory and disk the output of programs may take, of all engines that were
 * opened with the same budget, and of all their callers together. A caller gets as much
 * as is left for the others: one alone has at most half. A run whose output might not
 * fit is refused with VIAL-BUSY; a session's programs keep less of what they printed.
 */

#include <stdint.h>

#include "vial/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vial_budget;

/* NULL: no memory. */
VIAL_API struct vial_budget *vial_budget_new(uint64_t memory_bytes,
                                             uint64_t disk_bytes);

/* Other sizes, from now on. What was taken stays taken. */
VIAL_API void vial_budget_set(struct vial_budget *budget, uint64_t memory_bytes,
                              uint64_t disk_bytes);

/* Says how much is taken now. */
VIAL_API void vial_budget_look(struct vial_budget *budget, uint64_t *memory_bytes,
                               uint64_t *disk_bytes);

/* Engines and results that use it may outlive this. NULL is allowed. */
VIAL_API void vial_budget_free(struct vial_budget *budget);

#ifdef __cplusplus
}
#endif
#endif
