/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/image_work.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/remove_tree.h"
#include "base/state.h"
#include "base/sys.h"
#include "images/store_remove.h"

static int open_store(const char *path, struct vial_error *err)
{
    static const char *const rooms[] = { "names", "images", "layers", "locks", "tmp" };
    auto_fd int fd = -1;
    struct stat st;

    if (state_make_dir(path, err) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_sys(err, "open the image store '%s'", path);
    if (st.st_uid != geteuid() || (st.st_mode & 077)) {
        (void)fail(err, VIAL_E_FILE, "the image store '%s' is open to others", path);
        return fail_remedy(err, "chmod 700 it, or name another by VIAL_IMAGES");
    }
    for (size_t i = 0; i < sizeof(rooms) / sizeof(*rooms); i++)
        if (mkdirat(fd, rooms[i], 0700) < 0 && errno != EEXIST)
            return fail_sys(err, "make '%s/%s'", path, rooms[i]);
    return fd_take(&fd);
}

static int lock_store(int store_fd, struct vial_error *err)
{
    auto_fd int fd = openat(store_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || flock(fd, LOCK_SH) < 0)
        return fail_sys(err, "lock the image store");
    return fd_take(&fd);
}

/* A sweeper may take a directory between its making and its locking: then anew. */
static int make_tmp(struct work *w, struct vial_error *err)
{
    for (int tries = 0; tries < 100; tries++) {
        char id[24];
        struct stat held;
        struct stat named;

        sys_make_id('w', id);
        (void)snprintf(w->tmp_name, sizeof(w->tmp_name), "tmp/%s", id);
        if (mkdirat(w->store_fd, w->tmp_name, 0700) < 0)
            return fail_sys(err, "make '%s/%s'", w->job->store, w->tmp_name);
        w->tmp_fd = openat(w->store_fd, w->tmp_name,
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (w->tmp_fd >= 0 && flock(w->tmp_fd, LOCK_EX | LOCK_NB) == 0 &&
            fstat(w->tmp_fd, &held) == 0 &&
            fstatat(w->store_fd, w->tmp_name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            held.st_ino == named.st_ino)
            return 0;
        auto_fd_(&w->tmp_fd);
        w->tmp_fd = -1;
    }
    return fail(err, VIAL_E_SYSTEM, "no directory of our own in '%s'", w->job->store);
}

int work_open(const struct job *job, struct work *out, struct vial_error *err)
{
    struct work w = { .job = job, .store_fd = -1, .tmp_fd = -1, .lock_fd = -1 };

    w.store_fd = open_store(job->store, err);
    if (w.store_fd < 0)
        return -1;
    w.lock_fd = lock_store(w.store_fd, err);
    if (w.lock_fd >= 0)
        store_sweep(w.store_fd);
    if (w.lock_fd < 0 || make_tmp(&w, err) < 0) {
        work_close(&w);
        return -1;
    }
    *out = w;
    return 0;
}

void work_close(struct work *w)
{
    if (w->tmp_fd >= 0)
        remove_tree(w->store_fd, w->tmp_name);
    auto_fd_(&w->tmp_fd);
    auto_fd_(&w->lock_fd);
    auto_fd_(&w->store_fd);
}

int work_put(const struct work *w, const char *name, const void *data, size_t len,
             struct vial_error *err)
{
    auto_fd int fd = openat(
        w->tmp_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -errno : io_write_all(fd, data, len);

    return rc < 0 ? fail_sys_rc(err, rc, "write '%s' in the image store", name) : 0;
}

int work_get(const struct work *w, const char *name, size_t max, struct blob *out,
             struct vial_error *err)
{
    auto_fd int fd = openat(w->tmp_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return fail_sys(err, "open '%s' in the image store", name);
    return io_read_fd(fd, name, max, out, err);
}

void report_progress(const char *layer, const char *status, int64_t current,
                     int64_t total)
{
    auto_json json_t *event =
        json_pack("{s:s, s:s, s:I, s:I}", "layer", layer, "status", status, "current",
                  (json_int_t)current, "total", (json_int_t)total);
    auto_free char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
    auto_str struct str line = { 0 };

    str_printf(&line, "%s\n", text ? text : "");
    if (text && str_ok(&line)) /* one write: stages report by the same pipe */
        (void)io_write_all(REPORT_FD, line.data, line.len);
}

__attribute__((noreturn)) static void run_stage(const struct work *w, work_stage *stage,
                                                void *context, int answer_fd)
{
    struct vial_error err = { 0 };
    int rc;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    rc = stage(w, context, &err);
    if (rc < 0)
        (void)io_write_all(answer_fd, &err, sizeof(err));
    _exit(rc < 0);
}

/* True: the stage has ended; false: we are to end. */
static bool wait_for(int pidfd, int signal_fd)
{
    struct pollfd fds[] = { { .fd = pidfd, .events = POLLIN },
                            { .fd = signal_fd, .events = POLLIN } };

    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return false;
        if (fds[0].revents)
            return true;
        if (fds[1].revents)
            return false;
    }
}

/* The stage's own words; it is not trusted with more than words. */
static int read_answer(int fd, int status, struct vial_error *err)
{
    struct vial_error said = { 0 };

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (io_read_all(fd, &said, sizeof(said)) != (ssize_t)sizeof(said))
        return WIFSIGNALED(status)
                   ? fail(err, VIAL_E_IMAGE_BAD,
                          "what unpacks images was killed by signal %d",
                          WTERMSIG(status))
                   : fail(err, VIAL_E_INTERNAL, "a stage ended without a word");
    said.code[sizeof(said.code) - 1] = said.message[sizeof(said.message) - 1] = '\0';
    said.cause[sizeof(said.cause) - 1] = said.remedy[sizeof(said.remedy) - 1] = '\0';
    *err = said;
    return -1;
}

int work_run(const struct work *w, work_stage *stage, void *context,
             struct vial_error *err)
{
    auto_fd int signal_fd = -1;
    auto_fd int pidfd = -1;
    int answer[2];
    sigset_t set;
    bool ended;
    int status = 0;
    pid_t pid;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (signal_fd < 0 || pipe2(answer, O_CLOEXEC) < 0)
        return fail_sys(err, "make a pipe");
    pid = fork();
    if (pid == 0)
        run_stage(w, stage, context, answer[1]);
    (void)close(answer[1]);
    pidfd = pid < 0 ? -1 : sys_pidfd_open(pid);
    ended = pidfd >= 0 && wait_for(pidfd, signal_fd);
    if (pid > 0 && !ended)
        (void)kill(pid, SIGKILL);
    if (pid > 0)
        (void)waitpid(pid, &status, 0);
    if (ended)
        (void)read_answer(answer[0], status, err);
    (void)close(answer[0]);
    if (pid < 0)
        return fail_sys(err, "start a process");
    if (!ended)
        return fail(err, VIAL_E_CANCELLED, "the caller cancelled it");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}
