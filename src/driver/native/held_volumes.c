/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/held_volumes.h"

#include <stdlib.h>

#include "base/fail.h"

static int hold(struct held_volumes *h, const struct plan *plan, size_t i,
                struct vial_error *err)
{
    const struct plan_mount *m = &plan->mounts[i];

    if (!m->volume)
        return 0;
    if (!plan->volume_store)
        return fail(err, VIAL_E_FILE, "there is no place for volumes");
    return volume_open(plan->volume_store, m->source, m->writable, &h->items[i], err);
}

int held_volumes_open(struct held_volumes *h, const struct plan *plan,
                      struct vial_error *err)
{
    h->items = calloc(plan->mount_count + 1, sizeof(*h->items));
    if (!h->items)
        return fail_memory(err);
    for (; h->count < plan->mount_count; h->count++)
        h->items[h->count] = (struct volume)VOLUME_NONE;
    for (size_t i = 0; i < h->count; i++)
        if (hold(h, plan, i, err) < 0)
            return -1;
    return 0;
}

void held_volumes_close(struct held_volumes *h)
{
    for (size_t i = 0; i < h->count; i++)
        volume_close(&h->items[i]);
    free(h->items);
    *h = (struct held_volumes){ 0 };
}
