/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include "vial/budget.h"

struct vial_budget *vial_budget_new(uint64_t memory_bytes, uint64_t disk_bytes)
{
    struct vial_budget *b = budget_new();

    vial_budget_set(b, memory_bytes, disk_bytes);
    return b;
}

void vial_budget_set(struct vial_budget *budget, uint64_t memory_bytes,
                     uint64_t disk_bytes)
{
    budget_set(budget, BUDGET_MEMORY, memory_bytes);
    budget_set(budget, BUDGET_DISK, disk_bytes);
}

void vial_budget_look(struct vial_budget *budget, uint64_t *memory_bytes,
                      uint64_t *disk_bytes)
{
    *memory_bytes = budget_used(budget, BUDGET_MEMORY);
    *disk_bytes = budget_used(budget, BUDGET_DISK);
}

void vial_budget_free(struct vial_budget *budget)
{
    budget_unref(budget);
}
