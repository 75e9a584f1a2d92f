/* SPDX-License-Identifier: Apache-2.0 */
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "keeper/front/start_keeper.h"

static int find_user(const char *name, uid_t *uid, gid_t *gid, struct vial_error *err)
{
    char room[4096];
    struct passwd entry;
    struct passwd *found = NULL;

    if (getpwnam_r(name, &entry, room, sizeof(room), &found) != 0 || !found) {
        (void)fail(err, VIAL_E_VALUE, "user '%s' does not exist", name);
        return fail_remedy(err,
                           "make a system user of that name ('useradd --system "
                           "--no-create-home --shell /usr/sbin/nologin %s'), or "
                           "name another",
                           name);
    }
    if (entry.pw_uid == 0 || entry.pw_gid == 0)
        return fail(err, VIAL_E_VALUE, "user '%s' is root by another name", name);
    *uid = entry.pw_uid;
    *gid = entry.pw_gid;
    return 0;
}

/* While we still may: then no program of a file with capabilities can bring any
 * back, should one ever be executed. */
static int empty_bounds(void)
{
    for (unsigned cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 &&
            prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return -1;
    return 0;
}

static bool has_nothing(uid_t uid, gid_t gid)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct now[2] = { { 0 } };
    uid_t ids[3];
    gid_t groups[3];

    if (syscall(SYS_capget, &header, now) < 0 ||
        getresuid(&ids[0], &ids[1], &ids[2]) < 0 ||
        getresgid(&groups[0], &groups[1], &groups[2]) < 0)
        return false;
    for (size_t i = 0; i < 3; i++)
        if (ids[i] != uid || groups[i] != gid)
            return false;
    for (size_t i = 0; i < 2; i++)
        if (now[i].permitted || now[i].effective || now[i].inheritable)
            return false;
    return setuid(0) < 0; /* and there is no way back */
}

int keeper_drop(const char *user, struct vial_error *err)
{
    uid_t uid = 0;
    gid_t gid = 0;

    if (geteuid() != 0)
        return 0;
    if (find_user(user, &uid, &gid, err) < 0)
        return -1;
    if (empty_bounds() < 0 || setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
        setresuid(uid, uid, uid) < 0)
        return fail_sys(err, "become user '%s'", user);
    if (!has_nothing(uid, gid))
        return fail(err, VIAL_E_INTERNAL, "some privilege is left after becoming '%s'",
                    user);
    return 0;
}
