/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/supplies.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "driver/native/launch.h"

struct supplies *supplies_open(int guest_fd)
{
    struct supplies *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->guest_fd = launch_seal(guest_fd);
    s->janitor = JANITOR_NONE;
    scripts_open(&s->scripts);
    if (groups_open(&s->groups) == 0) {
        (void)cgroup_sweep(&s->groups.base, ~0u);
        janitor_start_for_all(&s->janitor, &s->groups.base);
    }
    return s;
}

void supplies_rest(struct supplies *s)
{
    groups_rest(&s->groups);
}

bool supplies_tend(const struct supplies *s)
{
    return s && s->janitor.leash_fd >= 0;
}

void supplies_close(struct supplies *s)
{
    groups_close(&s->groups);
    scripts_close(&s->scripts);
    janitor_dismiss(&s->janitor);
    auto_fd_(&s->guest_fd);
    free(s);
}
