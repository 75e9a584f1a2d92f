/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/trial.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "driver/native/child_script.h"
#include "driver/native/host_tree.h"
#include "driver/native/idmap.h"
#include "driver/native/launch.h"
#include "driver/native/probe.h"

#define SPACES                                                                         \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)
#define TRIES    3 /* one failure may be a fault */
#define WAIT_MS  30000
#define TEXT_MAX 1024
#define STEPS    32

/* The steps without which a vessel cannot be made, and those without which it can. The
 * overlays lie on a directory that is no layer of any, so that one does not spoil the
 * next. */
#define MOUNT(type, target, data)                                                      \
    {                                                                                  \
        OP_MOUNT, STEP_OPTIONAL, .mount = { type, target, type, data, 0 }              \
    }
static const struct act {
    struct step step;
    unsigned lacks; /* without it; 0: there are no vessels without */
    enum trial_need need;
} acts[] = {
    { { OP_UNSHARE, STEP_OPTIONAL, .spaces = CLONE_NEWNET }, 0, NEED_NETWORK },
    { MOUNT("proc", "/tmp", NULL), 0, NEED_PROC },
    { MOUNT("tmpfs", "/tmp", NULL), 0, NEED_TMPFS },
    { MOUNT("overlay", "/dev", "lowerdir=/usr:/tmp"), LACKS_USR_OVERLAY, 0 },
    { MOUNT("overlay", "/dev", "lowerdir=/etc:/tmp"), LACKS_ETC_OVERLAY, 0 },
};

#define ACTS (sizeof(acts) / sizeof(*acts))

/* A number that is used up is no switch that is off. */
static bool is_refusal(int error)
{
    return error == EPERM || error == EACCES || error == ENOSYS || error == EINVAL ||
           error == ENODEV || error == EOPNOTSUPP ||
           ((error == ENOSPC || error == EUSERS) && fixes_forbidden());
}

static void write_script(struct script *s, const struct launch *l)
{
    script_add(s, (struct step){ OP_CLOSE, .fd = l->control[0] });
    script_add(s, (struct step){ OP_WAIT });
    child_script_ids(s, l->privileged);
    for (size_t i = 0; i < ACTS * TRIES; i++)
        script_add(s, acts[i / TRIES].step);
}

/* Which tries failed, of each act; -1: the child did not come to its end. */
static int hear(const struct launch *l, const struct script *s, unsigned failed[ACTS],
                int errors[ACTS])
{
    struct pollfd ready = { .fd = l->control[0], .events = POLLIN };
    size_t first = s->count - ACTS * TRIES;

    for (;;) {
        struct script_report report;
        int rc = poll(&ready, 1, WAIT_MS);
        ssize_t n = rc > 0 ? recv(l->control[0], &report, sizeof(report), 0) : rc - 1;

        if (n < 0 && rc != 0 && errno == EINTR)
            continue;
        if (n == 0)
            return 0;
        if (n != sizeof(report) || !report.ongoing || report.step < first ||
            report.step >= s->count)
            return -1;
        failed[(report.step - first) / TRIES]++;
        errors[(report.step - first) / TRIES] = report.error;
    }
}

static void judge(const unsigned failed[ACTS], const int errors[ACTS],
                  struct trial *out)
{
    for (size_t i = 0; i < ACTS; i++) {
        if (failed[i] < TRIES)
            continue;
        if (!is_refusal(errors[i]))
            return; /* no memory, say: the host has it, and cannot give it now */
        out->lacks |= acts[i].lacks;
        if (!acts[i].lacks && out->namespaces == 0) {
            out->namespaces = errors[i];
            out->need = acts[i].need;
        }
    }
    out->ran = true;
}

/* -errno of what the kernel refused us, the child's parent: NEED. */
static int begin(struct launch *l, struct script *s, enum trial_need *need)
{
    struct vial_error why = { 0 };

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, l->control) < 0)
        return -errno;
    write_script(s, l);
    *need = NEED_USER;
    if (launch_begin(l, s, SPACES, -1, &why) < 0)
        return why.sys ? -why.sys : -EIO;
    *need = NEED_IDS;
    if (idmap_write(l->pid, l->privileged, &why) < 0 ||
        launch_send(l, NULL, 0, &why) < 0)
        return why.sys ? -why.sys : -EIO;
    return 0;
}

/* Made by the parent, so it is no act of the child's. */
static bool lacks_devices(void)
{
    struct vial_error why = { 0 };

    for (unsigned i = 0; i < TRIES; i++) {
        auto_fd int fd = devices_open(&why);

        if (fd >= 0 || !is_refusal(why.sys))
            return false;
    }
    return true;
}

static int try_once(struct trial *out)
{
    /* Not in our memory, which its change of ids would make secret. */
    auto_script struct script *s = script_new(STEPS, TEXT_MAX, false);
    auto_launch struct launch l = LAUNCH_NONE;
    unsigned failed[ACTS] = { 0 };
    int errors[ACTS] = { 0 };
    int privileged = idmap_privileged();
    int rc = 0;

    if (!s || privileged < 0)
        return -ENOMEM;
    l.privileged = privileged;
    rc = begin(&l, s, &out->need);
    if (rc == 0 && hear(&l, s, failed, errors) == 0)
        judge(failed, errors, out);
    if (out->ran && privileged && lacks_devices())
        out->lacks |= LACKS_OWN_DEVICES;
    return rc;
}

void trial_run(struct trial *out)
{
    int rc = -EPERM;

    *out = (struct trial){ .namespaces = 0 };
    for (unsigned i = 0; i < TRIES && rc < 0 && is_refusal(-rc); i++)
        rc = try_once(out);
    if (rc < 0 && is_refusal(-rc))
        *out = (struct trial){ .namespaces = -rc, .need = out->need, .ran = true };
}
