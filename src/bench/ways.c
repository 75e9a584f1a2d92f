/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "bench/bench.h"
#include "settings/settings.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

/* Bubblewrap as it is often used. */
#define BWRAP                                                                          \
    "bwrap", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", \
        "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc",      \
        "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/work", "--chdir", "/work",    \
        "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",           \
        "--cap-drop", "ALL"

/* Doing the same: with vial's filter, what a vessel shows of /etc and hides of /proc,
 * no user namespaces inside, and in cgroups with vial's limits. What it has not:
 * Landlock, inodes of its own, a supervisor. */
#define BWRAP_SAME                                                                     \
    BWRAP, "--unshare-user", "--disable-userns", "--seccomp", TEXT(BENCH_FILTER_FD),   \
        "--hostname", "vial", BENCH_WALLS

#define NSJAIL  "nsjail", "-Mo", "-q", "--chroot", "/", "--"
#define ISOLATE "isolate", "--silent", "--run", "--"
#define IMPORTS "import numpy, pandas"

/* Containers with the walls and limits that vial's have. */
#define CONTAINER                                                                      \
    "run", "--rm", "--network", "none", "--memory", "512m", "--memory-swap", "512m",   \
        "--cpus", "1", "--pids-limit", "129", "--read-only", "--cap-drop", "ALL",      \
        "--security-opt", "no-new-privileges", "--user", "1000:1000", "--tmpfs",       \
        "/tmp", "--tmpfs", "/work"
#define DOCKER_RUN  "docker", CONTAINER, BENCH_IMAGE
#define PODMAN_RUN  "podman", CONTAINER, "--pull", "never", BENCH_IMAGE
#define DOCKER_EXEC "docker", "exec", "{container}"

const struct way bench_ways[] = {
    { "python", "bare", .crowd = true, .argv = { "python3", "-c", "pass" } },
    { "python", "bwrap", .crowd = true, .argv = { BWRAP, "python3", "-c", "pass" } },
    { "python", "bwrap same", .crowd = true, .same = true,
      .argv = { BWRAP_SAME, "python3", "-c", "pass" } },
    { "python", "nsjail", .argv = { NSJAIL, "/usr/bin/python3", "-c", "pass" } },
    { "python", "isolate", .argv = { ISOLATE, "/usr/bin/python3", "-c", "pass" } },
    { "python", "docker run", .container = true,
      .argv = { DOCKER_RUN, "python3", "-c", "pass" } },
    { "python", "docker exec", .container = true,
      .argv = { DOCKER_EXEC, "python3", "-c", "pass" } },
    { "python", "podman run", .argv = { PODMAN_RUN, "python3", "-c", "pass" } },
    { "python", "vial run", .argv = { BENCH_SELF, "run", "python", "pass" } },
    { "python", "vial image", /* of the store, without an engine */
      .argv = { BENCH_SELF, "run", "--driver", "native", "--pull", "never", "--image",
                BENCH_IMAGE, "python", "pass" } },
    { "python", "vial image cold", BENCH_LIBRARY, "python", "pass", "native",
      .image = true },
    { "python", "vial image warm", BENCH_WARM, "python", "pass", "native",
      .image = true },
    { "python", "vial cold", BENCH_LIBRARY, "python", "pass", .crowd = true },
    { "python", "vial warm", BENCH_WARM, "python", "pass", .crowd = true },
    { "python", "vial daemon", BENCH_DAEMON, "python", "pass", .crowd = true },
    { "python", "vial mcp", BENCH_MCP, "python", "pass", .crowd = true },
    { "python", "vial docker cold", BENCH_LIBRARY, "python", "pass", "docker",
      .container = true },
    { "python", "vial docker warm", BENCH_WARM, "python", "pass", "docker",
      .container = true },
    { "python", "vial docker kept", BENCH_KEPT, "python", "pass", "docker",
      .container = true },
    { "numpy+pandas", "bare", .argv = { "python3", "-c", IMPORTS } },
    { "numpy+pandas", "vial warm", BENCH_WARM, "python", IMPORTS, .imports = true },
    { "bash", "bare", .argv = { "bash", "-c", ":" } },
    { "bash", "bwrap", .argv = { BWRAP, "bash", "-c", ":" } },
    { "bash", "docker run", .container = true,
      .argv = { DOCKER_RUN, "bash", "-c", ":" } },
    { "bash", "docker exec", .container = true,
      .argv = { DOCKER_EXEC, "bash", "-c", ":" } },
    { "bash", "vial docker cold", BENCH_LIBRARY, "bash", ":", "docker",
      .container = true },
    { "bash", "vial docker kept", BENCH_KEPT, "bash", ":", "docker",
      .container = true },
    { "bash", "vial run", .argv = { BENCH_SELF, "run", "bash", ":" } },
    { "bash", "vial warm", BENCH_WARM, "bash", ":" },
    { "node", "bare", .argv = { "node", "-e", "0" } },
    { "node", "vial run", .argv = { BENCH_SELF, "run", "node", "0" } },
    { "node", "vial warm", BENCH_WARM, "node", "0" },
};

const size_t bench_way_count = sizeof(bench_ways) / sizeof(*bench_ways);
const unsigned bench_crowds[BENCH_CROWDS] = { 1, 4, 16, 64 };

/* As posix_spawn starts a process, which cannot let it join a cgroup first. */

static bool join(const struct bench_group *g)
{
    for (size_t i = 0; g && i < BENCH_GROUPS; i++)
        if (g->join_fd[i] >= 0 && write(g->join_fd[i], "0", 1) != 1)
            return false;
    return true;
}

/* System calls only: the memory is its parent's, which waits. FILTER is opened anew, as
 * reading it moves on. */
static _Noreturn void be_child(const struct bench_child *c, const char *filter,
                               char *const *env)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool good = null >= 0 && join(c->group);

    for (int fd = 0; fd < 3; fd++)
        good = good &&
               dup2((fd == 1 && c->out >= 0) || (fd == 0 && c->talks) ? c->out : null,
                    fd) == fd;
    if (good && c->filter_fd >= 0) {
        int fd = open(filter, O_RDONLY | O_CLOEXEC);

        good = fd >= 0 && (fd == BENCH_FILTER_FD ? fcntl(fd, F_SETFD, 0) == 0
                                                 : dup2(fd, BENCH_FILTER_FD) >= 0);
    }
    if (good)
        (void)execve(c->program, (char *const *)(uintptr_t)c->argv, env);
    _exit(127);
}

/* The same environment for all, with the locale that a vessel has. */
int bench_spawn(const struct bench_child *c, pid_t *pid)
{
    char path[] = "PATH=" PATH_SEARCH;
    char lang[] = "LANG=C.UTF-8";
    char filter[32];
    const char *host = getenv("DOCKER_HOST"); /* NOLINT: read only */
    auto_str struct str docker = { 0 };
    char *env[] = { path, lang, NULL, NULL };

    str_printf(&docker, "DOCKER_HOST=%s", host ? host : "");
    env[2] = host && str_ok(&docker) ? docker.data : NULL;
    (void)snprintf(filter, sizeof filter, "/proc/self/fd/%d", c->filter_fd);
    *pid = vfork(); /* NOLINT: a fork would have them all pay for our memory */
    if (*pid == 0)
        be_child(c, filter, env);
    return *pid < 0 ? -errno : 0;
}

/* The filter of profile 'default', as bubblewrap takes one: by a descriptor from which
 * the bare instructions can be read. */

#define FILTER_MAX (1u << 20)

static int read_filter(struct blob *out, struct vial_error *err)
{
    const struct settings_sources from = { .environ_ = environ };
    struct settings *settings = NULL;
    auto_free char *path = NULL;
    int rc = settings_load(&from, &settings, err);

    if (rc < 0)
        return -1;
    path = path_join(settings->share_dir, "seccomp/default.bpf");
    rc = path ? io_read_file(path, FILTER_MAX, out, err) : fail_memory(err);
    settings_free(settings);
    return rc;
}

/* Before it stand the lengths of two filters, of which the second is empty once both
 * were joined. */
int bench_open_filter(struct vial_error *err)
{
    struct blob text = { 0 };
    uint32_t len[2] = { 0 };
    int fd = -1;

    if (read_filter(&text, err) < 0)
        return -1;
    if (text.len > sizeof len)
        memcpy(len, text.data, sizeof len);
    if (!len[0] || len[1] || text.len != sizeof len + len[0])
        (void)fail(err, VIAL_E_UNSUPPORTED, "the filter is not one");
    else
        fd = memfd_create("filter", MFD_CLOEXEC);
    if (fd >= 0 && io_write_all(fd, text.data + sizeof len, len[0]) < 0) {
        (void)close(fd);
        fd = -1;
    }
    blob_done(&text);
    return fd;
}

/* Makes bubblewrap's arguments, so that it shows and hides what vial does: read from
 * the mounts of a vessel, by a program in it. */

#define LOOK "print(open('/proc/self/mountinfo').read())"

/* "ID PARENT DEVICE ROOT POINT OPTIONS …": ROOT is what of its file system is shown. */
static void add_wall(struct strv *out, const char *root, const char *point)
{
    if (strncmp(point, "/etc/", 5) == 0) {
        strv_push(out, "--ro-bind");
        strv_push(out, point);
        strv_push(out, point);
    } else if (strcmp(root, "/var/none") == 0) {
        strv_push(out, "--ro-bind");
        strv_push(out, "/dev/null");
        strv_push(out, point);
    } else if (strcmp(root, "/var/empty") == 0) {
        strv_push(out, "--tmpfs");
        strv_push(out, point);
    }
}

static int look(struct vial_engine *engine, struct vial_result **out,
                struct vial_error *err)
{
    struct vial_request *request = NULL;
    int rc = vial_request_new(&request, err);

    if (rc == 0)
        rc = vial_request_set(request, "language", "python", err);
    if (rc == 0)
        rc = vial_request_set(request, "code", LOOK, err);
    if (rc == 0)
        rc = vial_run(engine, request, NULL, out, err);
    vial_request_free(request);
    return rc;
}

int bench_walls(struct vial_engine *engine, struct strv *out, struct vial_error *err)
{
    struct vial_result *seen = NULL;
    const char *line = NULL;

    if (look(engine, &seen, err) != 0)
        return -1;
    if (seen->verdict != VIAL_OK) {
        vial_result_free(seen);
        return fail(err, VIAL_E_UNSUPPORTED, "the mounts of a vessel cannot be read");
    }
    for (line = seen->out.data; line && *line; line = strchr(line, '\n')) {
        char root[128], point[128];

        line += *line == '\n';
        if (sscanf(line, "%*s %*s %*s %127s %127s", root, point) == 2)
            add_wall(out, root, point);
    }
    vial_result_free(seen);
    return strv_ok(out) ? 0 : fail_memory(err);
}
