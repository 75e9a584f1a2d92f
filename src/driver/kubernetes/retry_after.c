/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/retry_after.h"

#include <string.h>
#include <strings.h>

#include "base/unit.h"

void retry_after_hear(struct retry_after *p, const char *line)
{
    static const char name[] = "Retry-After:";
    const char *value = line + strlen(name);
    int64_t seconds = 0;

    if (strncasecmp(line, name, strlen(name)) != 0)
        return;
    value += strspn(value, " \t");
    /* API servers give seconds; of a date, as proxies may have it, nothing is made. */
    if (unit_parse_count(value, &seconds) == 0)
        p->told_ms = seconds < INT32_MAX ? seconds * 1000 : INT64_MAX;
}

int64_t retry_after_next(struct retry_after *p)
{
    int64_t wait_ms = p->told_ms > p->wait_ms ? p->told_ms : p->wait_ms;

    if ((p->told_ms == 0 && p->tries == 0) || wait_ms > p->left_ms)
        return -1;
    if (p->told_ms == 0) {
        p->tries--;
        p->wait_ms *= 2;
    }
    p->told_ms = 0;
    p->left_ms -= wait_ms;
    return wait_ms;
}
