/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/fake/fake.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/sys.h"

struct fake {
    struct vessel vessel;
    pid_t pid;
    const struct plan *plan;
};

static int probe(struct caps *out, struct vial_error *err)
{
    (void)err;
    *out = (struct caps){ .usable = true, .level = "none", .limits_by = "none" };
    return 0;
}

/* The number after PREFIX in the program's arguments; 0 when there is none. */
static uint64_t counter(const struct fake *f, const char *prefix)
{
    for (size_t i = 0; i < f->plan->argv.count; i++)
        if (str_starts(f->plan->argv.items[i], prefix))
            return strtoull(f->plan->argv.items[i] + strlen(prefix), NULL, 10);
    return 0;
}

static int start(struct fake *f, struct vial_error *err)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    f->vessel.stream_fd = ends[0];
    f->pid = fork();
    if (f->pid == 0) {
        (void)close(ends[0]);
        fake_guest(ends[1]);
    }
    (void)close(ends[1]);
    if (f->pid < 0)
        return fail_sys(err, "start the fake guest");
    f->vessel.death_fd = sys_pidfd_open(f->pid);
    if (io_set_nonblocking(ends[0]) < 0 || f->vessel.death_fd < 0)
        return fail(err, VIAL_E_OPEN, "watch the fake guest");
    if (counter(f, "event:") > 0)
        f->vessel.event_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    return 0;
}

static void kill_guest(struct vessel *vessel)
{
    struct fake *f = (struct fake *)vessel;

    if (f->pid <= 0)
        return;
    (void)kill(f->pid, SIGKILL);
    while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    f->pid = 0;
}

static void close_vessel(struct vessel *vessel)
{
    kill_guest(vessel);
    auto_fd_(&vessel->stream_fd);
    auto_fd_(&vessel->death_fd);
    auto_fd_(&vessel->event_fd);
    jail_done(&vessel->jail);
    strv_done(&vessel->layers);
    free(vessel);
}

static int open_vessel(const struct plan *plan, int guest_fd, struct vessel **out,
                       struct vial_error *err)
{
    struct fake *f = calloc(1, sizeof *f);

    (void)guest_fd;
    if (!f)
        return fail_memory(err);
    f->plan = plan;
    f->vessel = (struct vessel){ .driver = &driver_fake,
                                 .stream_fd = -1,
                                 .death_fd = -1,
                                 .event_fd = -1,
                                 .gate_fd = -1,
                                 .level = "none",
                                 .limits_by = "none",
                                 .path = PATH_SEARCH };
    sys_make_id('v', f->vessel.id);
    f->vessel.jail.workdir = strdup(plan->workdir);
    if (start(f, err) < 0) {
        close_vessel(&f->vessel);
        return -1;
    }
    *out = &f->vessel;
    return 0;
}

static void usage(struct vessel *vessel, struct vessel_usage *out)
{
    const struct fake *f = (const struct fake *)vessel;

    *out = (struct vessel_usage){
        .counted = counter(f, "cpu:") > 0,
        .oom_kills = counter(f, "oom:"),
        .pids_events = counter(f, "pids:"),
        .usage = { .cpu_user_ms = (double)counter(f, "cpu:"),
                   .memory_peak_bytes = counter(f, "memory:") },
    };
}

const struct driver driver_fake = {
    .name = "fake",
    .probe = probe,
    .open = open_vessel,
    .kill = kill_guest,
    .usage = usage,
    .close = close_vessel,
    .waits = true,
};
