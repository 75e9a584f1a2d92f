/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "driver/helper.h"
#include "driver/native/launch.h"
#include "images/image_name.h"
#include "images/snapshot_name.h"
#include "images/store_remove.h"

#define OWN_FILES 1024                /* what a root has of ours */
#define OWN_BYTES (INT64_C(64) << 20) /* of archives, for their headers */
#define ENDING_MS 500

void snapshot_learn(struct snapshot *s, const struct plan *plan, const char *digest,
                    struct launch *l)
{
    s->upper_fd = fd_take(&l->upper_fd);
    s->store = strdup(plan->root.store);
    s->temporary = snapshot_name_forks(plan->image) ? strdup(plan->image) : NULL;
    (void)snprintf(s->base, sizeof(s->base), "%s", digest);
    s->first_id = l->first_id;
    s->ranged = l->ranged;
    s->bytes = plan->limits.disk_bytes + OWN_BYTES;
    s->files = plan->limits.inodes + OWN_FILES;
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            return false;
    return true;
}

static int write_job(const struct snapshot *s, const struct snapshot_order *order,
                     struct str *out, struct vial_error *err)
{
    struct image_name name;

    if (image_parse(order->name, &name, err) < 0)
        return -1;
    if (name.pinned)
        return fail(err, VIAL_E_VALUE, "a snapshot has a name, not a digest");
    if (!s->store || !is_plain(s->store) || !is_plain(order->name))
        return fail(err, VIAL_E_VALUE, "the store's name cannot be told to vial-image");
    str_printf(
        out,
        "{\"verb\":\"snapshot\",\"store\":\"%s\",\"reference\":\"%s\","
        "\"base\":\"%s\",\"first_id\":%u,\"ranged\":%s,\"max_bytes\":%lld,\"max_files\":%lld,"
        "\"config\":%s}",
        s->store, order->name, s->base, s->first_id, s->ranged ? "true" : "false",
        (long long)s->bytes, (long long)s->files, order->config ? order->config : "{}");
    return str_ok(out) ? 0 : fail_memory(err);
}

/* False: it goes on. One that has said all may still be ending. */
static bool reap_last(struct snapshot *s)
{
    struct pollfd ended = { .fd = s->pidfd, .events = POLLIN };

    if (s->pidfd >= 0 && poll(&ended, 1, ENDING_MS) == 0)
        return false;
    helper_end(&s->pidfd);
    return true;
}

static int start(struct snapshot *s, const char *path, const char *job, int report_fd,
                 struct vial_error *err)
{
    const char *const args[] = { "vial-image", job, NULL };
    auto_fd int report = fcntl(report_fd, F_DUPFD_CLOEXEC, HELPER_ABOVE);
    auto_fd int upper = fcntl(s->upper_fd, F_DUPFD_CLOEXEC, HELPER_ABOVE);
    int rc = report < 0 || upper < 0
                 ? -errno
                 : helper_start(path, args, (const int[]){ report, upper }, 2);

    if (rc < 0)
        return fail_sys_rc(err, rc, "start '%s'", path);
    s->pidfd = rc;
    return 0;
}

int snapshot_start(struct snapshot *s, const struct snapshot_order *order,
                   struct vial_error *err)
{
    auto_str struct str job = { 0 };
    char path[HELPER_PATH];

    if (s->upper_fd < 0) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "only what is written to the root of an image can be saved");
        return fail_remedy(err, "start the session with '--image NAME --root-mode rw'");
    }
    if (!reap_last(s))
        return fail(err, VIAL_E_BUSY, "another snapshot of it is under way");
    if (write_job(s, order, &job, err) < 0)
        return -1;
    if (!helper_find("vial-image", path)) {
        (void)fail(err, VIAL_E_FILE, "there is no program 'vial-image'");
        return fail_remedy(err, "install vial whole: it lies beside the guest");
    }
    return start(s, path, job.data, order->report_fd, err);
}

void snapshot_done(struct snapshot *s)
{
    struct store_removed removed = { 0 };
    struct vial_error ignored = { 0 };

    helper_end(&s->pidfd);
    auto_fd_(&s->upper_fd);
    if (s->temporary && s->store) /* else the next prune has it */
        (void)store_remove(s->store, s->temporary, &removed, &ignored);
    free(s->temporary);
    free(s->store);
    *s = (struct snapshot)SNAPSHOT_NONE;
}
