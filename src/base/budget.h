/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_BUDGET_H
#define VIAL_BASE_BUDGET_H

/*
 * A budget counts what several callers take of something that is not endless: memory,
 * disk. A caller gets as much as is left for the others, and no more: one alone has at
 * most half of it, and each newcomer finds at least as much free as anybody holds.
 *
 * Every function may be called from several threads; all of them take NULL for a
 * budget without bounds.
 */

#include <stdbool.h>
#include <stdint.h>

enum budget_kind { BUDGET_MEMORY, BUDGET_DISK, BUDGET_KINDS };

struct vial_budget; /* counted; public as vial/budget.h */

struct vial_budget *budget_new(void); /* without bounds; NULL: no memory */
struct vial_budget *budget_ref(struct vial_budget *b);
void budget_unref(struct vial_budget *b);
void budget_set(struct vial_budget *b, enum budget_kind kind, uint64_t bytes);

/* The most that one caller can ever have. */
uint64_t budget_share(struct vial_budget *b, enum budget_kind kind);
/* False: WHO (NULL: "") cannot have that much more now. */
bool budget_take(struct vial_budget *b, enum budget_kind kind, const char *who,
                 uint64_t bytes);
void budget_give(struct vial_budget *b, enum budget_kind kind, const char *who,
                 uint64_t bytes);
/* The sum of all that was taken. */
uint64_t budget_used(struct vial_budget *b, enum budget_kind kind);

#endif
