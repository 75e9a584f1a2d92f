/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <sys/un.h>

#include "base/auto.h"
#include "model_case.h"
#include "plan/mount_hazards.h"
#include "plan/mountinfo.h"

/* A request that mounts SOURCE at TARGET, as ' JSON. */
static const char *mounting(const char *source, const char *target)
{
    static char json[8192];

    (void)snprintf(json, sizeof(json),
                   "{'command':['ls'],'mounts':[{'source':'%s','target':'%s','mode':"
                   "'rw'}]}",
                   source, target);
    return json;
}

static void assert_source_refused(struct scratch *s, const char *source,
                                  const char *why)
{
    char message[4300];

    (void)snprintf(message, sizeof(message), "mount source '%s' %s", source, why);
    assert_refused(s, mounting(source, "/data"), "VIAL-MOUNT", message);
}

static void a_mount_is_resolved_to_the_object_it_names(void **state)
{
    struct scratch *s = *state;
    char link[128];
    char real[128];
    struct plan *plan;
    struct stat st;

    (void)snprintf(real, sizeof(real), "%s", scratch_dir(s, "real"));
    (void)snprintf(link, sizeof(link), "%s", scratch_path(s, "link"));
    assert_int_equal(symlink(real, link), 0);
    assert_int_equal(stat(real, &st), 0);
    plan = plan_of(s, mounting(link, "/data"));
    assert_int_equal(plan->mount_count, 1);
    assert_string_equal(plan->mounts[0].source, real);
    assert_string_equal(plan->mounts[0].target, "/data");
    assert_true(plan->mounts[0].writable);
    assert_true(plan->mounts[0].is_dir);
    assert_true(plan->mounts[0].dev == st.st_dev);
    assert_true(plan->mounts[0].ino == st.st_ino);
    plan_free(plan);
}

static void a_source_that_does_not_exist_is_refused(void **state)
{
    assert_source_refused(*state, "/nowhere/x", "does not exist");
}

static void system_paths_are_refused_as_sources(void **state)
{
    assert_source_refused(*state, "/", "holds far more than a program may see");
    assert_source_refused(*state, "/tmp", "holds far more than a program may see");
    assert_source_refused(*state, "/root", "holds far more than a program may see");
    assert_source_refused(*state, "/etc", "belongs to the host");
    assert_source_refused(*state, "/etc/passwd", "belongs to the host");
    assert_source_refused(*state, "/usr", "belongs to the host and cannot be writable");
    assert_source_refused(*state, "/proc", "is an interface of the kernel");
    assert_source_refused(*state, "/sys", "is an interface of the kernel");
    assert_source_refused(*state, "/dev", "belongs to the host");
    assert_source_refused(*state, "/run", "belongs to the host");
}

static void a_link_to_a_system_path_is_refused_as_that_path(void **state)
{
    struct scratch *s = *state;
    char link[128];

    (void)snprintf(link, sizeof(link), "%s", scratch_path(s, "link"));
    assert_int_equal(symlink("/etc", link), 0);
    assert_refused(s, mounting(link, "/data"), "VIAL-MOUNT",
                   "mount source '/etc' belongs to the host");
}

static void a_magic_link_is_no_way_round(void **state)
{
    struct vial_error err = refused(*state, mounting("/proc/self/root", "/data"));

    assert_string_equal(err.code, "VIAL-MOUNT");
    assert_string_equal(err.message, "open mount source '/proc/self/root'");
}

static void sockets_fifos_and_devices_are_refused(void **state)
{
    struct scratch *s = *state;
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char path[128];

    (void)snprintf(path, sizeof(path), "%s", scratch_path(s, "sock"));
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/sock", s->dir);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_source_refused(s, path, "is a socket");
    (void)snprintf(path, sizeof(path), "%s", scratch_path(s, "pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_source_refused(s, path, "is a FIFO");
    assert_source_refused(s, "/dev/null", "is a device");
}

static void directories_with_keys_or_control_sockets_are_refused(void **state)
{
    struct scratch *s = *state;
    char path[128];

    (void)scratch_dir(s, "home");
    (void)snprintf(path, sizeof(path), "%s", scratch_dir(s, "home/.ssh"));
    assert_source_refused(s, path, "is where keys are kept");
    (void)snprintf(path, sizeof(path), "%s", scratch_path(s, "home"));
    assert_source_refused(s, path, "holds '.ssh'");
    (void)scratch_dir(s, "run");
    (void)scratch_write(s, "run/docker.sock", "");
    (void)snprintf(path, sizeof(path), "%s", scratch_path(s, "run"));
    assert_source_refused(s, path, "holds 'docker.sock'");
}

static void bind_socket(const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_true(strlen(path) < sizeof(at.sun_path));
    memcpy(at.sun_path, path, strlen(path));
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
}

static void a_socket_anywhere_in_a_source_is_refused(void **state)
{
    struct scratch *s = *state;

    (void)scratch_dir(s, "a");
    (void)scratch_dir(s, "a/b");
    bind_socket(scratch_path(s, "a/b/s\n"));
    assert_source_refused(s, s->dir, "holds the socket 'a/b/s\\x0a'");
}

static void sockets_are_looked_for_within_bounds(void **state)
{
    struct scratch *s = *state;
    auto_fd int fd = open(s->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_strv struct strv found = { 0 };
    size_t budget = 1;

    (void)scratch_dir(s, "a");
    bind_socket(scratch_path(s, "a/sock"));
    bind_socket(scratch_path(s, "a/other"));
    assert_int_equal(symlink("..", scratch_path(s, "a/loop")), 0);
    assert_int_equal(sockets_find(fd, &budget, 9, &found), 0);
    assert_int_equal(budget, 0);
    assert_int_equal(found.count, 0);
    budget = 100;
    assert_int_equal(sockets_find(fd, &budget, 1, &found), 0);
    assert_int_equal(found.count, 1);
    budget = 100;
    assert_int_equal(sockets_find(fd, &budget, 9, &found), 0);
    assert_int_equal(found.count, 3);
    assert_true(strv_has(&found, "./a/sock") && strv_has(&found, "./a/other"));
}

static void the_callers_home_is_refused_and_what_lies_below_is_not(void **state)
{
    struct scratch *s = *state;
    char sub[128];
    struct plan *plan;

    if (!s->settings)
        use_settings(s, "");
    s->settings->home = strdup(s->dir);
    assert_source_refused(s, s->dir, "is your home directory, or holds it");
    (void)snprintf(sub, sizeof(sub), "%s", scratch_dir(s, ".config"));
    assert_source_refused(s, sub, "holds vial's own files and cannot be writable");
    (void)snprintf(sub, sizeof(sub), "%s", scratch_dir(s, ".config/vial"));
    assert_source_refused(s, sub, "holds vial's own files and cannot be writable");
    (void)snprintf(sub, sizeof(sub), "%s", scratch_dir(s, ".cache"));
    assert_source_refused(s, sub, "holds vial's own files and cannot be writable");
    (void)scratch_dir(s, ".local");
    (void)snprintf(sub, sizeof(sub), "%s", scratch_dir(s, ".local/state"));
    assert_source_refused(s, sub, "holds vial's own files and cannot be writable");
    (void)snprintf(sub, sizeof(sub), "%s", scratch_dir(s, "work"));
    plan = plan_of(s, mounting(sub, "/data"));
    plan_free(plan);
}

static void a_mount_table_tells_all_names_of_a_place(void **state)
{
    static const char lines[] =
        "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "22 21 0:5 / /proc rw - proc proc rw\n"
        "23 21 8:1 /etc /srv/a\\040b\\134c rw shared:1 master:2 - ext4 /dev/sda1 rw\n";
    auto_mountinfo struct mount_table table = { 0 };
    auto_str struct str name = { 0 };
    struct vial_error err = { 0 };
    struct blob text = { 0 };
    const struct mount_row *row;

    (void)state;
    assert_int_equal(blob_set(&text, lines, strlen(lines)), 0);
    assert_int_equal(mountinfo_parse(&table, &text, &err), 0);
    assert_int_equal(table.count, 3);
    assert_string_equal(table.rows[1].type, "proc");
    assert_string_equal(table.rows[2].point, "/srv/a b\\c");
    row = mountinfo_of(&table, "/srv/a b\\c/ssl");
    assert_ptr_equal(row, &table.rows[2]);
    assert_true(mountinfo_alias(row, "/srv/a b\\c/ssl", &table.rows[0], &name));
    assert_string_equal(name.data, "/etc/ssl");
    assert_false(mountinfo_alias(row, "/srv/a b\\c/ssl", &table.rows[1], &name));
    row = mountinfo_of(&table, "/home");
    assert_ptr_equal(row, &table.rows[0]);
    assert_false(mountinfo_alias(row, "/home", &table.rows[2], &name));
}

static void a_mount_table_of_another_form_is_refused(void **state)
{
    auto_mountinfo struct mount_table table = { 0 };
    struct vial_error err = { 0 };
    struct blob text = { 0 };

    (void)state;
    assert_int_equal(blob_set(&text, "21 1 8:1 / / rw\n", 16), 0);
    assert_int_equal(mountinfo_parse(&table, &text, &err), -1);
    assert_string_equal(err.code, "VIAL-MOUNT");
}

static void a_deleted_source_is_refused(void **state)
{
    struct scratch *s = *state;
    char path[128];
    char link[64];
    int fd;

    /* Only reachable through a magic link, which is refused first. */
    (void)snprintf(path, sizeof(path), "%s", scratch_write(s, "gone", ""));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    assert_string_equal(refused(s, mounting(link, "/data")).code, "VIAL-MOUNT");
    (void)close(fd);
}

static void a_source_outside_the_allowed_roots_is_refused(void **state)
{
    struct scratch *s = *state;
    char yaml[256];
    char inside[128];
    char message[256];
    struct plan *plan;

    (void)scratch_dir(s, "roots");
    assert_int_equal(symlink("roots", scratch_path(s, "rootlink")), 0);
    (void)snprintf(inside, sizeof(inside), "%s", scratch_dir(s, "roots/in"));
    (void)snprintf(yaml, sizeof(yaml), "policy: {mount_roots: [/nowhere, %s/rootlink]}",
                   s->dir);
    use_settings(s, yaml);
    plan = plan_of(s, mounting(inside, "/data"));
    plan_free(plan);
    (void)snprintf(message, sizeof(message),
                   "mount source '%s' lies outside the allowed roots", s->dir);
    assert_refused(s, mounting(s->dir, "/data"), "VIAL-MOUNT-OUTSIDE", message);
}

static void a_request_narrows_where_mounts_come_from_and_never_widens(void **state)
{
    struct scratch *s = *state;
    char json[512];

    (void)scratch_dir(s, "repo");
    (void)scratch_dir(s, "repo/in");
    (void)scratch_dir(s, "repository"); /* begins like it, and is not below it */
    use_settings(s, "defaults: {mounts_from: workspace}");
    (void)snprintf(json, sizeof(json),
                   "{'command':['ls'],'workspace':'%s/repo','mounts_from':'anywhere',"
                   "'mounts':['%s/repository:/data']}",
                   s->dir, s->dir);
    assert_string_equal(refused(s, json).code, "VIAL-MOUNT-OUTSIDE");
    assert_string_equal(refused(s, mounting(s->dir, "/data")).code,
                        "VIAL-MOUNT-OUTSIDE");
    (void)snprintf(
        json, sizeof(json),
        "{'command':['ls'],'workspace':'%s/repo','mounts':['%s/repo/in:/data']}",
        s->dir, s->dir);
    plan_free(plan_of(s, json));
    use_settings(s, "defaults: {mounts_from: anywhere}");
    (void)snprintf(json, sizeof(json),
                   "{'command':['ls'],'workspace':'%s/repo','mounts_from':'workspace',"
                   "'mounts':['%s/repository:/data']}",
                   s->dir, s->dir);
    assert_string_equal(refused(s, json).code, "VIAL-MOUNT-OUTSIDE");
}

static void sockets_of_a_workspace_are_hidden(void **state)
{
    struct scratch *s = *state;
    struct plan *plan;
    char json[256];

    (void)scratch_dir(s, "a");
    bind_socket(scratch_path(s, "a/sock"));
    (void)snprintf(json, sizeof(json), "{'command':['ls'],'workspace':'%s'}", s->dir);
    plan = plan_of(s, json);
    assert_int_equal(plan->mounts[0].hidden.count, 1);
    assert_string_equal(plan->mounts[0].hidden.items[0], "/a/sock");
    plan_free(plan);
    bind_socket(scratch_path(s, "a/s\n"));
    assert_string_equal(refused(s, json).code, "VIAL-MOUNT");
}

static void a_repository_may_hold_start_files_and_no_keys(void **state)
{
    struct scratch *s = *state;
    char json[256];

    (void)snprintf(json, sizeof(json), "{'command':['ls'],'workspace':'%s'}", s->dir);
    (void)scratch_write(s, ".bashrc", "");
    assert_string_equal(refused(s, json).code, "VIAL-MOUNT");
    (void)scratch_dir(s, ".git");
    plan_free(plan_of(s, json));
    (void)scratch_write(s, ".netrc", "");
    assert_string_equal(refused(s, json).code, "VIAL-MOUNT");
}

static void targets_keep_clear_of_the_vessels_own_places(void **state)
{
    static const char *const taken[] = {
        "/proc",          "/proc/x",    "/sys",       "/dev/shm", "/usr",
        "/usr/x",         "/bin",       "/lib",       "/lib64",   "/libx32",
        "/etc/x",         "/work",      "/work/x",    "/tmp",     "/run",
        "/var/none",      "/var/empty", "/var/run/x", "/var",     "/.vial-line",
        "/tmp/.vial-init"
    };
    static const char *const unclean[] = { "/",     "data", "/a/../b",
                                           "/a//b", "/a/",  "/./a" };
    struct scratch *s = *state;
    char message[128];

    plan_free(
        plan_of(s, mounting(s->dir, "/tmp/x"))); /* beside what programs put there */
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        (void)snprintf(message, sizeof(message),
                       "mount target '%s' is taken by the vessel itself", taken[i]);
        assert_refused(s, mounting(s->dir, taken[i]), "VIAL-MOUNT", message);
    }
    for (size_t i = 0; i < sizeof(unclean) / sizeof(unclean[0]); i++) {
        (void)snprintf(message, sizeof(message),
                       "mount target '%s' is not a clean absolute path", unclean[i]);
        assert_refused(s, mounting(s->dir, unclean[i]), "VIAL-MOUNT", message);
    }
}

static void targets_do_not_overlap(void **state)
{
    struct scratch *s = *state;
    char json[512];

    (void)snprintf(json, sizeof(json),
                   "{'command':['ls'],'mounts':['%s:/data','%s:/data/x']}", s->dir,
                   s->dir);
    assert_refused(s, json, "VIAL-MOUNT",
                   "mount targets '/data' and '/data/x' overlap");
    (void)snprintf(json, sizeof(json),
                   "{'command':['ls'],'workspace':'%s','mounts':['%s:/workspace']}",
                   s->dir, s->dir);
    assert_refused(s, json, "VIAL-MOUNT",
                   "mount targets '/workspace' and '/workspace' overlap");
}

static void a_command_works_in_its_workspace(void **state)
{
    struct scratch *s = *state;
    char json[256];
    struct plan *plan;

    (void)snprintf(json, sizeof(json),
                   "{'command':['ls'],'workspace':'%s','cwd':'sub'}", s->dir);
    plan = plan_of(s, json);
    assert_string_equal(plan->workdir, "/workspace");
    assert_string_equal(plan->cwd, "/workspace/sub");
    assert_true(strv_has(&plan->env, "HOME=/tmp"));
    assert_int_equal(plan->mount_count, 1);
    assert_string_equal(plan->mounts[0].target, "/workspace");
    assert_true(plan->mounts[0].writable);
    plan_free(plan);
}

static void code_beside_a_workspace_is_not_written_into_it(void **state)
{
    struct scratch *s = *state;
    char json[256];
    struct plan *plan;

    (void)snprintf(json, sizeof(json), "{'language':'sh','code':'ls','workspace':'%s'}",
                   s->dir);
    plan = plan_of(s, json);
    assert_string_equal(plan->workdir, "/work");
    assert_string_equal(plan->cwd, "/workspace");
    assert_string_equal(plan->mounts[0].target, "/workspace");
    plan_free(plan);
}

static void a_workspace_or_rootfs_is_a_directory(void **state)
{
    struct scratch *s = *state;
    char json[256];
    char message[256];
    char path[128];
    struct plan *plan;

    (void)snprintf(path, sizeof(path), "%s", scratch_write(s, "file", ""));
    (void)snprintf(json, sizeof(json), "{'command':['ls'],'workspace':'%s'}", path);
    (void)snprintf(message, sizeof(message), "workspace '%s' is not a directory", path);
    assert_refused(s, json, "VIAL-MOUNT", message);
    (void)snprintf(json, sizeof(json), "{'command':['ls'],'rootfs':'%s'}", path);
    (void)snprintf(message, sizeof(message), "rootfs '%s' is not a directory", path);
    assert_refused(s, json, "VIAL-MOUNT", message);
    assert_refused(s, "{'command':['ls'],'rootfs':'/'}", "VIAL-MOUNT",
                   "rootfs: mount source '/' holds far more than a program may see");
    assert_refused(s, "{'command':['ls'],'workspace':'/nowhere'}", "VIAL-MOUNT",
                   "workspace: mount source '/nowhere' does not exist");
    (void)snprintf(json, sizeof(json), "{'command':['ls'],'rootfs':'%s'}", s->dir);
    plan = plan_of(s, json);
    assert_string_equal(plan->rootfs, s->dir);
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_mount_is_resolved_to_the_object_it_names),
        scratch_test(a_source_that_does_not_exist_is_refused),
        scratch_test(system_paths_are_refused_as_sources),
        scratch_test(a_link_to_a_system_path_is_refused_as_that_path),
        scratch_test(a_magic_link_is_no_way_round),
        scratch_test(sockets_fifos_and_devices_are_refused),
        scratch_test(directories_with_keys_or_control_sockets_are_refused),
        scratch_test(a_socket_anywhere_in_a_source_is_refused),
        scratch_test(sockets_are_looked_for_within_bounds),
        scratch_test(the_callers_home_is_refused_and_what_lies_below_is_not),
        scratch_test(a_mount_table_tells_all_names_of_a_place),
        scratch_test(a_mount_table_of_another_form_is_refused),
        scratch_test(a_deleted_source_is_refused),
        scratch_test(a_source_outside_the_allowed_roots_is_refused),
        scratch_test(a_request_narrows_where_mounts_come_from_and_never_widens),
        scratch_test(sockets_of_a_workspace_are_hidden),
        scratch_test(a_repository_may_hold_start_files_and_no_keys),
        scratch_test(targets_keep_clear_of_the_vessels_own_places),
        scratch_test(targets_do_not_overlap),
        scratch_test(a_command_works_in_its_workspace),
        scratch_test(code_beside_a_workspace_is_not_written_into_it),
        scratch_test(a_workspace_or_rootfs_is_a_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
