/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"

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
#define DOCKER_RUN                                                                     \
    "docker", "run", "--rm", "--network", "none", "--memory", "512m", "--memory-swap", \
        "512m", "--cpus", "1", "--pids-limit", "129", "--read-only", "--cap-drop",     \
        "ALL", "--security-opt", "no-new-privileges", "--user", "1000:1000",           \
        "--tmpfs", "/tmp", "--tmpfs", "/work", BENCH_IMAGE
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
    { "python", "vial run", .argv = { BENCH_SELF, "run", "python", "pass" } },
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
