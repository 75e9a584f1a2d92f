/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/repository.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/unit.h"
#include "model/value.h"
#include "settings/trust.h"

/* SUDO_UID, for root only: nobody else could make use of it. */
static bool called_sudo(uid_t uid)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): read only */
    const char *text = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
    int64_t number = 0;

    return text && unit_parse_count(text, &number) == 0 && number == (int64_t)uid;
}

static bool is_callers(uid_t uid)
{
    return uid == geteuid() || uid == 0 || called_sudo(uid);
}

/* Whose the first LEN bytes of PATH are, SUFFIX behind them. */
static bool owner_of(const char *path, size_t len, const char *suffix, uid_t *out)
{
    char name[PATH_MAX];
    struct stat st;

    if ((size_t)snprintf(name, sizeof(name), "%.*s%s", (int)len, path, suffix) >=
            sizeof(name) ||
        lstat(name, &st) < 0)
        return false;
    *out = st.st_uid;
    return true;
}

/* Every directory from HERE up to its first LEN bytes. */
static bool all_belong_to(uid_t uid, const char *here, size_t len)
{
    for (size_t at = strlen(here); at >= len; at--) {
        uid_t one = 0;

        if (here[at] != '/' && here[at] != '\0')
            continue;
        if (!owner_of(here, at, "", &one) || one != uid)
            return false;
    }
    return true;
}

/* The name is that user's choice: what a shell would read as more than a name is not
 * handed to the caller to type. */
static int refuse(const char *root, uid_t owner, struct vial_error *err)
{
    bool quotable = value_is_plain(root, strlen(root)) && !strchr(root, '\'');

    (void)fail(err, VIAL_E_TRUST,
               "repository '%s' around the current directory belongs to user %u", root,
               (unsigned)owner);
    return fail_remedy(err, "if you trust it: vial trust %s%s%s", quotable ? "'" : "",
                       quotable ? root : "DIR", quotable ? "'" : "");
}

int repository_find(const char *here, const char *state, size_t *len,
                    struct vial_error *err)
{
    size_t found = path_repository(here);
    auto_free char *root = found ? strndup(here, found) : NULL;
    uid_t dir = 0;
    uid_t git = 0;

    *len = 0;
    if (found == 0)
        return 0;
    if (!root)
        return fail_memory(err);
    if (here[found] != '\0') {
        if (!owner_of(here, found, "", &dir) || !owner_of(here, found, "/.git", &git))
            return 0; /* it went meanwhile */
        if (!(is_callers(dir) && is_callers(git)) &&
            !(git == dir && all_belong_to(dir, here, found)) &&
            !trust_has_repository(state, root))
            return refuse(root, is_callers(git) ? dir : git, err);
    }
    *len = found;
    return 0;
}
