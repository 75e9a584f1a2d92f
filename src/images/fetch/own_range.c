/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/own_range.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "images/fetch/confine.h"
#include "images/store_ids.h"

/* Maps its parent's ids, once that has its namespace: who is in there cannot. */
__attribute__((noreturn)) static void map_parent(pid_t parent, const struct subids *ids,
                                                 int go_fd, int answer_fd)
{
    struct vial_error err = { 0 };
    char go = 0;

    if (io_read_all(go_fd, &go, 1) == 1 && subids_map(parent, ids, &err) < 0)
        (void)io_write_all(answer_fd, &err, sizeof(err));
    _exit(go && !err.code[0] ? 0 : 1);
}

static int wait_for_map(pid_t pid, int answer_fd, struct vial_error *err)
{
    struct vial_error said = { 0 };
    ssize_t n = io_read_all(answer_fd, &said, sizeof(said));
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (n != (ssize_t)sizeof(said))
        return fail(err, VIAL_E_OPEN, "nobody mapped the range of ids");
    if (err)
        *err = said;
    return -1;
}

/* 1: it is in; 0: there are no user namespaces here. */
static int enter(const struct subids *ids, struct vial_error *err)
{
    int go[2];
    int answer[2];
    int left = 0;
    pid_t pid;
    int rc;

    if (pipe2(go, O_CLOEXEC) < 0 || pipe2(answer, O_CLOEXEC) < 0)
        return fail_sys(err, "make a pipe");
    pid = fork();
    if (pid < 0)
        return fail_sys(err, "start a process");
    if (pid == 0) {
        (void)close(go[1]);
        map_parent(getppid(), ids, go[0], answer[1]);
    }
    (void)close(go[0]);
    (void)close(answer[1]);
    left = unshare(CLONE_NEWUSER);
    if (left == 0)
        (void)io_write_all(go[1], "g", 1);
    (void)close(go[1]);
    rc = wait_for_map(pid, answer[0], left == 0 ? err : NULL);
    (void)close(answer[0]);
    return left < 0 ? 0 : rc < 0 ? -1 : 1;
}

static int enter_and_be_root(const struct subids *ids, struct vial_error *err)
{
    int rc = enter(ids, err);

    if (rc <= 0)
        return rc;
    if (geteuid() != 0 || getegid() != 0)
        return fail(err, VIAL_E_OPEN, "the range of ids has no root");
    return confine_rights(true, err) < 0 ? -1 : 1;
}

int own_range_enter(const char *store_dir, struct vial_error *err)
{
    struct subids ids;
    int kind = store_ids_look(store_dir, &ids, err);
    int rc;

    if (kind < 0 || kind == STORE_ONE)
        return kind < 0 ? -1 : 0;
    rc = enter_and_be_root(&ids, err);
    if (rc == 0 && kind == STORE_RANGED)
        return fail(err, VIAL_E_OPEN,
                    "the image store's files are of a range of ids, and there are no "
                    "user namespaces here");
    if (rc <= 0 || kind == STORE_RANGED)
        return rc < 0 ? -1 : 0;
    return store_ids_mark(store_dir, &ids, err);
}
