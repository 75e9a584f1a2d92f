/* SPDX-License-Identifier: Apache-2.0 */

/* The native driver's pure parts: scripts, names, paths; and what a failed open
 * leaves behind. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/membership.h"
#include "base/owner.h"
#include "base/path.h"
#include "base/sys.h"
#include "check.h"
#include "driver/native/cgroup.h"
#include "driver/native/confinement.h"
#include "driver/native/idmap.h"
#include "driver/native/native.h"
#include "driver/native/root.h"
#include "driver/native/vessel.h"
#include "native_plan.h"

/* A merged system with one of everything. */
static void build(struct script *s, const struct plan *plan)
{
    struct host host = { .links = { { "bin", "usr/bin" }, { "lib64", "" } },
                         .link_count = 2,
                         .localtime = "/usr/share/zoneinfo/Etc/UTC" };
    struct root_options o = { .uid = 1000, .gid = 1000, .own_devices = true };

    strv_push(&host.etc_files, "ld.so.cache");
    strv_push(&host.etc_files, "services");
    strv_push(&host.etc_dirs, "alternatives");
    strv_push(&host.masked_files, "/proc/keys");
    strv_push(&host.masked_dirs, "/proc/acpi");
    root_build(s, &host, plan, &o);
    root_detach(s, &o);
    root_mask(s, &host);
    root_seal(s, &o);
    root_attach_mounts(s, plan, &o);
    strv_done(&host.etc_files);
    strv_done(&host.etc_dirs);
    strv_done(&host.masked_files);
    strv_done(&host.masked_dirs);
}

static void describe(const struct script *s, struct str *out)
{
    for (size_t i = 0; i < s->count; i++) {
        script_describe(&s->steps[i], out);
        str_putc(out, '\n');
    }
}

static void the_root_is_the_one_that_was_agreed(void **state)
{
    const char *source = getenv("VIAL_TEST_SOURCE");
    auto_free char *path = path_join(source, "tests/golden/native-root.txt");
    auto_script struct script *s = script_new(512, 1 << 16, true);
    auto_str struct str text = { 0 };
    struct blob golden = { 0 };
    struct plan plan;

    (void)state;
    native_plan(&plan);
    build(s, &plan);
    assert_false(s->failed);
    describe(s, &text);
    assert_int_equal(io_read_file(path, 1 << 16, &golden, NULL), 0);
    assert_string_equal(text.data, golden.data);
    blob_done(&golden);
}

static const char *target_of(const struct step *step)
{
    return step->op == OP_MOUNT    ? step->mount.target
           : step->op == OP_BIND   ? step->bind.target
           : step->op == OP_ATTACH ? step->attach.target
                                   : "";
}

static size_t find(const struct script *s, enum step_op op, const char *target)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->steps[i].op == op &&
            (!target || str_eq(target_of(&s->steps[i]), target)))
            return i;
    return s->count;
}

static bool is_over_proc(const struct step *step)
{
    return step->op == OP_BIND && str_starts(step->bind.target, "/proc/");
}

/* Each is bound with what the mount it comes from allows, which is too much. */
static void whatever_lies_over_proc_is_sealed_afterwards(void **state)
{
    auto_script struct script *s = script_new(512, 1 << 16, true);
    size_t seal = 0;
    size_t bound = 0;
    struct plan plan;

    (void)state;
    native_plan(&plan);
    build(s, &plan);
    seal = find(s, OP_SEAL, NULL);
    assert_in_range(seal, 1, s->count - 1);
    assert_string_equal(s->steps[seal].attr.path, "/proc");
    assert_int_equal(s->steps[seal].attr.attributes,
                     MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                         MOUNT_ATTR_NOEXEC);
    assert_int_equal(s->steps[seal].flags, 0); /* it may not fail */
    for (size_t i = 0; i < s->count; i++) {
        assert_false(is_over_proc(&s->steps[i]) && i > seal);
        bound += is_over_proc(&s->steps[i]);
    }
    assert_int_equal(bound, 7);
}

/* A name that became a link since it was judged leads out of the overlay. */
static void whatever_is_bound_of_etc_is_sealed_itself(void **state)
{
    auto_script struct script *s = script_new(512, 1 << 16, true);
    uint64_t sealed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    size_t bound = 0;
    struct plan plan;

    (void)state;
    native_plan(&plan);
    build(s, &plan);
    for (size_t i = 0; i < s->count; i++) {
        const struct step *step = &s->steps[i];

        if (step->op != OP_BIND || !str_starts(step->bind.target, "etc/"))
            continue;
        bound++;
        assert_int_equal(step->bind.attributes & sealed, sealed);
    }
    assert_int_equal(bound, 3);
}

static void a_script_without_room_fails_and_stays_whole(void **state)
{
    auto_script struct script *few = script_new(2, 64, true);
    auto_script struct script *short_ = script_new(8, 8, false);

    (void)state;
    for (int i = 0; i < 5; i++)
        script_add(few, (struct step){ OP_SPLIT })->count = 7;
    assert_true(few->failed);
    assert_int_equal(few->count, 2);
    assert_string_equal(script_text(few, "%s", "fits"), "fits");
    assert_string_equal(script_text(short_, "%s", "seven..."), "");
    assert_true(short_->failed);
}

static void mounts_and_their_points_come_after_the_pivot_and_the_seal(void **state)
{
    static char source[] = "/srv/data", target[] = "/data/x";
    struct plan_mount mount = { .source = source, .target = target, .is_dir = true };
    auto_script struct script *s = script_new(512, 1 << 16, true);
    struct plan plan;

    (void)state;
    native_plan(&plan);
    plan.mounts = &mount;
    plan.mount_count = 1;
    build(s, &plan);
    for (size_t i = 0; i < find(s, OP_PIVOT, NULL); i++)
        assert_false(s->steps[i].op == OP_MKDIR &&
                     str_starts(s->steps[i].dir.path, "data"));
    assert_true(find(s, OP_BIND, "/proc/sys") < find(s, OP_ATTACH, target));
    assert_true(find(s, OP_BIND, "/proc/keys") < find(s, OP_ATTACH, target));
    assert_true(find(s, OP_ATTACH, target) < s->count);
    assert_true(find(s, OP_BIND, "/proc/keys") < s->count);
    assert_true(find(s, OP_BIND, "/proc/kcore") == s->count); /* not shown: no mask */
}

static void a_given_root_is_entered_by_descriptor(void **state)
{
    static char rootfs[] = "/srv/root";
    auto_script struct script *s = script_new(512, 1 << 16, true);
    struct plan plan;
    size_t at = 0;

    (void)state;
    native_plan(&plan);
    plan.rootfs = rootfs;
    build(s, &plan);
    at = find(s, OP_MOUNT, "/tmp/root");
    assert_true(at < s->count);
    assert_non_null(strstr(s->steps[at].mount.data, "lowerdir=.,"));
    assert_int_equal(s->steps[at - 1].op, OP_FCHDIR);
    assert_int_equal(s->steps[at - 1].slot, ROOT_ROOTFS_SLOT);
}

static void our_own_cgroup_is_found_by_controller(void **state)
{
    const char *text =
        "9:name=systemd:/\n4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/u.slice\n";
    char path[64];

    (void)state;
    assert_int_equal(membership_path(text, "memory", path, sizeof path), 0);
    assert_string_equal(path, "/a/b");
    assert_int_equal(membership_path(text, "cpuacct", path, sizeof path), 0);
    assert_string_equal(path, "/c");
    assert_int_equal(membership_path(text, "", path, sizeof path), 0);
    assert_string_equal(path, "/u.slice");
    assert_int_equal(membership_path(text, "acct", path, sizeof path), -1);
    assert_int_equal(membership_path(text, "memory", path, 4), -1);
}

static void only_a_dead_owner_in_our_namespace_is_dead(void **state)
{
    char mine[128], other[160];
    unsigned long long space = 0;

    (void)state;
    assert_int_equal(owner_name("v-1", mine, sizeof mine), 0);
    assert_false(owner_is_dead(mine));
    assert_int_equal(sscanf(mine, "vial-%llu-", &space), 1);
    (void)snprintf(other, sizeof other, "vial-%llu-%d-1-v-1", space, (int)getpid());
    assert_true(owner_is_dead(other)); /* our number, another process */
    (void)snprintf(other, sizeof other, "vial-%llu-%d-1-v-1", space + 1, (int)getpid());
    assert_false(owner_is_dead(other));
    assert_false(owner_is_dead("vial-"));
    assert_false(owner_is_dead("vial-1-2-3"));
    assert_false(owner_is_dead("somebody"));
    (void)snprintf(other, sizeof other, "vial-%llu-%d-1-v-1", space, INT32_MAX);
    assert_true(owner_is_dead(other)); /* no process has that number */
}

/* Else a sweep with no descriptor left would end the vessels of the living. */
static void an_owner_who_cannot_be_looked_at_is_not_dead(void **state)
{
    struct rlimit before, none = { 0 };
    char mine[128];
    bool dead = true;

    (void)state;
    assert_int_equal(owner_name("v-1", mine, sizeof mine), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    dead = owner_is_dead(mine);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(dead);
}

static void every_vessel_has_ids_of_its_own(void **state)
{
    (void)state;
    assert_true(idmap_guest_id(2) >= idmap_guest_id(1) + 2);
    assert_true(idmap_guest_id(1) >= 0x70000000);
    assert_true(idmap_guest_id((1 << 22) - 1) < 0x7fffffff);
}

static void hard_limits_are_finite(void **state)
{
    struct jail jail = { 0 };
    struct limits limits = { .open_files = 64 };

    (void)state;
    confine_rlimits_of(&jail, &limits, false);
    assert_true(jail.rlimit_count >= 6);
    for (size_t i = 0; i < jail.rlimit_count; i++)
        assert_true(jail.rlimits[i].value < UINT64_C(1) << 60);
}

/* The rest needs a host on which vessels can be opened. */

static int guest_open(void)
{
    auto_free char *path = path_join(getenv("VIAL_SHARE"), "vial-init");

    return open(path, O_RDONLY | O_CLOEXEC);
}

static size_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    while (readdir(dir))
        n++;
    (void)closedir(dir);
    return n;
}

/* Cgroups of this process in every hierarchy. */
static size_t count_cgroups(void)
{
    struct cgroup c;
    char mine[32];
    size_t n = 0;

    (void)snprintf(mine, sizeof mine, "-%d-", (int)getpid());
    (void)cgroup_open_base(&c);
    for (size_t i = 0; i < CGROUP_DIRS; i++) {
        DIR *dir =
            c.dirs[i].base_fd < 0
                ? NULL
                : fdopendir(openat(c.dirs[i].base_fd, ".", O_RDONLY | O_CLOEXEC));
        const struct dirent *entry = NULL;

        while (dir && (entry = readdir(dir)))
            n += str_starts(entry->d_name, "vial-") && strstr(entry->d_name, mine) ? 1
                                                                                   : 0;
        if (dir)
            (void)closedir(dir);
    }
    cgroup_close(&c);
    return n;
}

static bool can_open(void)
{
    struct caps caps = { 0 };
    struct vial_error err;

    return native_probe(&caps, &err) == 0 && str_eq(caps.level, "namespaces");
}

#define NEEDS_NAMESPACES()                                                             \
    do {                                                                               \
        if (!can_open()) {                                                             \
            print_message("skip: no user namespaces here\n");                          \
            skip();                                                                    \
        }                                                                              \
    } while (0)

static void expect_refusal(struct plan *plan, const char *text)
{
    int guest = guest_open();
    size_t fds = count_fds();
    struct vessel *vessel = NULL;
    struct vial_error err = { 0 };

    assert_int_equal(driver_native.open(plan, guest, &vessel, &err), -1);
    assert_error(&err, text);
    assert_int_equal(count_fds(), fds);
    assert_int_equal(count_cgroups(), 0);
    (void)close(guest);
}

/* A line of /proc/PID/status of the process behind PIDFD, without its name. */
static void status_of(int pidfd, const char *name, char *out, size_t size)
{
    char path[64], line[256];
    FILE *file;
    long pid = 0;

    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "Pid:", 4) == 0)
            pid = strtol(line + 4, NULL, 10);
    (void)fclose(file);
    (void)snprintf(path, sizeof path, "/proc/%ld/status", pid);
    file = fopen(path, "re");
    assert_non_null(file);
    out[0] = 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            (void)snprintf(out, size, "%.*s", (int)strcspn(line + strlen(name), "\n"),
                           line + strlen(name));
    (void)fclose(file);
}

static void a_guest_has_few_capabilities_and_no_exec_gives_it_more(void **state)
{
    int guest = guest_open();
    struct vessel *vessel = NULL;
    struct vial_error err = { 0 };
    struct plan plan;
    struct pollfd heard;
    char text[64];
    unsigned long long held;

    (void)state;
    NEEDS_NAMESPACES();
    native_plan(&plan);
    if (driver_native.open(&plan, guest, &vessel, &err) < 0)
        fail_msg("%s %s", check_text(&err), err.cause);
    heard = (struct pollfd){ .fd = vessel->stream_fd, .events = POLLIN };
    assert_int_equal(poll(&heard, 1, 10000), 1);
    status_of(vessel->death_fd, "CapPrm:\t", text, sizeof text);
    held = strtoull(text, NULL, 16);
    /* To change ids, drop, kill and see processes: nothing about files or networks. */
    assert_int_equal(held & ~(1ull << CAP_SETUID | 1ull << CAP_SETGID |
                              1ull << CAP_SETPCAP | 1ull << CAP_KILL |
                              1ull << CAP_SYS_PTRACE),
                     0);
    status_of(vessel->death_fd, "CapInh:\t", text, sizeof text);
    assert_string_equal(text, "0000000000000000");
    status_of(vessel->death_fd, "CapAmb:\t", text, sizeof text);
    assert_string_equal(text, "0000000000000000");
    status_of(vessel->death_fd, "NoNewPrivs:\t", text, sizeof text);
    assert_string_equal(text, "1");
    driver_native.kill(vessel);
    driver_native.close(vessel);
    (void)close(guest);
}

static void a_vessel_greets_is_killed_and_leaves_nothing(void **state)
{
    int guest = guest_open();
    size_t fds = count_fds();
    struct vessel *vessel = NULL;
    struct vial_error err = { 0 };
    struct vessel_usage used;
    struct plan plan;
    struct pollfd heard;
    char hello[16];

    (void)state;
    NEEDS_NAMESPACES();
    native_plan(&plan);
    if (driver_native.open(&plan, guest, &vessel, &err) < 0)
        fail_msg("%s %s", check_text(&err), err.cause);
    assert_true(strv_has(&vessel->layers, "user") &&
                strv_has(&vessel->layers, "seccomp"));
    assert_true(vessel->jail.filters[0].len > 0);
    heard = (struct pollfd){ .fd = vessel->stream_fd, .events = POLLIN };
    assert_int_equal(poll(&heard, 1, 10000), 1);
    assert_int_equal(read(vessel->stream_fd, hello, sizeof hello), 16);
    assert_int_equal(hello[4], 1); /* HELLO */
    driver_native.usage(vessel, &used);
    assert_true(used.net_counted);
    driver_native.kill(vessel);
    driver_native.kill(vessel);
    heard = (struct pollfd){ .fd = vessel->death_fd, .events = POLLIN };
    assert_int_equal(poll(&heard, 1, 10000), 1);
    driver_native.close(vessel);
    assert_int_equal(count_fds(), fds);
    assert_int_equal(count_cgroups(), 0);
    (void)close(guest);
}

static void a_network_is_refused_with_the_driver_that_has_one(void **state)
{
    struct plan plan;

    (void)state;
    native_plan(&plan);
    plan.network = NETWORK_BRIDGE;
    expect_refusal(
        &plan, "VIAL-UNSUPPORTED driver 'native' cannot give the program a network");
}

static void an_unknown_profile_is_named(void **state)
{
    static char unknown[] = "nope", path[] = "../default";
    struct plan plan;

    (void)state;
    NEEDS_NAMESPACES();
    native_plan(&plan);
    plan.seccomp = unknown;
    expect_refusal(&plan, "VIAL-VALUE seccomp profile 'nope' is unknown");
    plan.seccomp = path;
    expect_refusal(&plan, "VIAL-VALUE seccomp profile '../default' is not a name");
}

static void a_replaced_mount_source_is_refused(void **state)
{
    char dir[] = "/tmp/vial-test-XXXXXX", target[] = "/data";
    struct plan_mount mount = { .source = dir, .target = target, .is_dir = true };
    struct plan plan;
    struct stat st;
    char text[128];

    (void)state;
    NEEDS_NAMESPACES();
    assert_non_null(mkdtemp(dir));
    assert_int_equal(stat(dir, &st), 0);
    mount.dev = st.st_dev;
    mount.ino = st.st_ino + 1;
    native_plan(&plan);
    plan.mounts = &mount;
    plan.mount_count = 1;
    (void)snprintf(text, sizeof text,
                   "VIAL-MOUNT mount source '%s' was replaced by something else", dir);
    expect_refusal(&plan, text);
    (void)rmdir(dir);
}

static void a_root_with_a_link_for_proc_is_refused(void **state)
{
    char dir[] = "/tmp/vial-test-XXXXXX", link[64], text[128];
    struct plan plan;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(link, sizeof link, "%s/proc", dir);
    assert_int_equal(symlink("/etc", link), 0);
    native_plan(&plan);
    plan.rootfs = dir;
    (void)snprintf(text, sizeof text,
                   "VIAL-MOUNT rootfs '%s': '/proc' is not a directory", dir);
    expect_refusal(&plan, text);
    (void)unlink(link);
    (void)rmdir(dir);
}

static void a_limit_the_kernel_refuses_leaves_no_cgroup_behind(void **state)
{
    struct limits limits = { .memory_bytes = -5 };
    struct vial_error err = { 0 };
    struct cgroup c;
    char why[160];

    (void)state;
    if (cgroup_probe(why) == CGROUP_NONE) {
        print_message("skip: %s\n", why);
        skip();
    }
    assert_int_equal(cgroup_find("v-test", &c, &err), 0);
    assert_int_equal(cgroup_create(&c, &limits, &err), -1);
    assert_string_equal(err.code, "VIAL-SYSTEM");
    assert_int_equal(count_cgroups(), 0);
}

/* The first process of a pid namespace, that makes an empty group there, says so and
 * waits to be killed. */
static _Noreturn void own_a_group(int told)
{
    const struct limits none = { 0 };
    struct cgroup c;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (cgroup_find("v-test", &c, NULL) < 0 || cgroup_create(&c, &none, NULL) < 0 ||
        write(told, c.name, sizeof c.name) < 0)
        _exit(1);
    for (;;)
        (void)pause();
}

/* In a child, so that ours goes on in our namespace; says its pid here before. */
static _Noreturn void own_elsewhere(int told)
{
    pid_t pid = -1;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWPID) == 0)
        pid = fork();
    if (pid == 0)
        own_a_group(told);
    if (write(told, &pid, sizeof pid) < 0)
        _exit(1);
    for (;;)
        (void)pause();
}

/* Two words of one pipe, in either order. */
static bool hear_owner(int fd, char name[128], pid_t *pid)
{
    char word[128];

    *pid = 0;
    name[0] = '\0';
    while (!*pid || !name[0]) {
        ssize_t n = read(fd, word, sizeof word);

        if (n == (ssize_t)sizeof *pid)
            memcpy(pid, word, sizeof *pid);
        else if (n == (ssize_t)sizeof word)
            memcpy(name, word, sizeof word);
        else
            return false;
    }
    return *pid > 0;
}

/* A whole pid namespace ends at once, the janitors in it too. */
static void a_group_of_another_pid_namespace_is_swept_when_its_owner_is_gone(
    void **state)
{
    int told[2];
    char why[160], name[128];
    struct cgroup c;
    pid_t child = 0, owner = 0;
    struct pollfd dead;
    bool heard = false;

    (void)state;
    if (cgroup_probe(why) == CGROUP_NONE || geteuid() != 0) {
        print_message("skip: needs root, and cgroups\n");
        skip();
    }
    /* Packets: two words are never read as one. */
    assert_int_equal(pipe2(told, O_CLOEXEC | O_DIRECT), 0);
    child = fork();
    if (child == 0)
        own_elsewhere(told[1]);
    (void)close(told[1]);
    heard = hear_owner(told[0], name, &owner);
    assert_int_equal(cgroup_open_base(&c), 0);
    (void)cgroup_sweep(&c, ~0u);
    assert_true(heard && owner > 1);
    assert_int_equal(faccessat(c.dirs[0].base_fd, name, F_OK, 0), 0);
    dead = (struct pollfd){ .fd = sys_pidfd_open(owner), .events = POLLIN };
    (void)kill(owner, SIGKILL);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(poll(&dead, 1, -1), 1); /* it has closed all it had */
    (void)close(dead.fd);
    (void)cgroup_sweep(&c, ~0u);
    assert_int_equal(faccessat(c.dirs[0].base_fd, name, F_OK, 0), -1);
    (void)close(told[0]);
    cgroup_close(&c);
}

/* In a child that may make no namespace, as in a container: 0, or what was wrong. */
static int open_without_namespaces(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    struct vessel *vessel = NULL;
    struct vial_error err = { 0 };
    struct plan plan;
    int guest = guest_open();
    int rc = 0;

    if (seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone3), 0) < 0 ||
        seccomp_load(filter) < 0)
        return 1;
    native_plan(&plan);
    if (driver_native.open(&plan, guest, &vessel, &err) < 0)
        return 2;
    if (!str_eq(vessel->level, "landlock") || !str_eq(vessel->limits_by, "rlimit"))
        rc = 3;
    if (strv_has(&vessel->layers, "user") || !strv_has(&vessel->layers, "seccomp"))
        rc = 4;
    driver_native.kill(vessel);
    driver_native.close(vessel);
    return rc;
}

static void without_namespaces_a_vessel_is_named_landlock(void **state)
{
    int status = 0;
    pid_t pid = 0;

    (void)state;
    if (native_landlock_abi() <= 0) {
        print_message("skip: no Landlock here\n");
        skip();
    }
    pid = fork();
    if (pid == 0)
        _exit(open_without_namespaces());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_failing_step_is_told_by_name(void **state)
{
    static char source[] = "/tmp", target[] = "/proc/nothing/here";
    struct plan_mount mount = { .source = source, .target = target, .is_dir = true };
    struct plan plan;
    struct stat st;

    (void)state;
    NEEDS_NAMESPACES();
    assert_int_equal(stat(source, &st), 0);
    mount.dev = st.st_dev;
    mount.ino = st.st_ino;
    native_plan(&plan);
    plan.mounts = &mount;
    plan.mount_count = 1;
    expect_refusal(&plan, "VIAL-OPEN open the vessel: step 'mkdir proc/nothing'");
}

/* A process in a mount namespace of its own, with a file system at /tmp that it alone
 * sees. Returns it, and a watch that tells of that file system's end. */
static pid_t make_mounts(int *pidfd, int *watch_fd)
{
    char path[64], ready = 0;
    int told[2];
    pid_t pid;

    assert_int_equal(pipe(told), 0);
    pid = fork();
    if (pid == 0) {
        bool made = unshare(CLONE_NEWNS) == 0 &&
                    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                    mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0;

        (void)!write(told[1], &made, 1);
        for (;;)
            (void)pause();
    }
    assert_true(pid > 0);
    assert_int_equal(read(told[0], &ready, 1), 1);
    assert_int_equal(ready, true);
    (void)close(told[0]);
    (void)close(told[1]);
    *pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    *watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    (void)snprintf(path, sizeof path, "/proc/%d/root/tmp", (int)pid);
    assert_true(*pidfd >= 0 && inotify_add_watch(*watch_fd, path, IN_DELETE_SELF) >= 0);
    return pid;
}

static void mounts_that_are_left_to_the_kernel_go(void **state)
{
    int pidfd = -1, watch_fd = -1, remains = -1;
    struct inotify_event event = { 0 };
    struct pollfd over = { .events = POLLIN };
    pid_t pid = 0;

    (void)state;
    NEEDS_NAMESPACES();
    if (geteuid() != 0)
        skip();
    pid = make_mounts(&pidfd, &watch_fd);
    over.fd = watch_fd;
    remains = native_take_mounts(pidfd);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (remains >= 0) /* the kernel can tell; then they are still there */
        assert_int_equal(poll(&over, 1, 0), 0);
    native_leave_mounts(&remains);
    assert_int_equal(remains, -1);
    assert_int_equal(poll(&over, 1, 30000), 1);
    assert_int_equal(read(watch_fd, &event, sizeof event), sizeof event);
    assert_true(event.mask & IN_UNMOUNT);
    (void)close(pidfd);
    (void)close(watch_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_is_the_one_that_was_agreed),
        cmocka_unit_test(whatever_lies_over_proc_is_sealed_afterwards),
        cmocka_unit_test(whatever_is_bound_of_etc_is_sealed_itself),
        cmocka_unit_test(a_script_without_room_fails_and_stays_whole),
        cmocka_unit_test(mounts_and_their_points_come_after_the_pivot_and_the_seal),
        cmocka_unit_test(a_given_root_is_entered_by_descriptor),
        cmocka_unit_test(our_own_cgroup_is_found_by_controller),
        cmocka_unit_test(only_a_dead_owner_in_our_namespace_is_dead),
        cmocka_unit_test(
            a_group_of_another_pid_namespace_is_swept_when_its_owner_is_gone),
        cmocka_unit_test(an_owner_who_cannot_be_looked_at_is_not_dead),
        cmocka_unit_test(every_vessel_has_ids_of_its_own),
        cmocka_unit_test(hard_limits_are_finite),
        cmocka_unit_test(a_vessel_greets_is_killed_and_leaves_nothing),
        cmocka_unit_test(a_guest_has_few_capabilities_and_no_exec_gives_it_more),
        cmocka_unit_test(a_network_is_refused_with_the_driver_that_has_one),
        cmocka_unit_test(an_unknown_profile_is_named),
        cmocka_unit_test(a_replaced_mount_source_is_refused),
        cmocka_unit_test(a_root_with_a_link_for_proc_is_refused),
        cmocka_unit_test(a_limit_the_kernel_refuses_leaves_no_cgroup_behind),
        cmocka_unit_test(a_failing_step_is_told_by_name),
        cmocka_unit_test(mounts_that_are_left_to_the_kernel_go),
        cmocka_unit_test(without_namespaces_a_vessel_is_named_landlock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
