/* SPDX-License-Identifier: Apache-2.0 */

/* The driver `process`: what it leaves behind, which must be nothing, whatever
 * its programs do. */

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "driver/process/process.h"
#include "driver/process/temp_dir.h"
#include "left_behind.h"
#include "run_case.h"

/* A directory of the test's own, which is TMPDIR to the driver. */
struct home {
    char dir[32];
    int fd;
    struct vial_engine *engine;
};

static int set_up(void **state)
{
    struct home *h = calloc(1, sizeof *h);

    h->engine = case_engine(NULL);
    (void)snprintf(h->dir, sizeof h->dir, "/tmp/vial-test-XXXXXX");
    assert_non_null(mkdtemp(h->dir));
    h->fd = open(h->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)setenv("TMPDIR", h->dir, 1);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    struct home *h = *state;

    (void)close(h->fd);
    remove_tree(AT_FDCWD, h->dir + 1); /* cwd is "/" */
    vial_engine_close(h->engine);
    free(h);
    return 0;
}

static struct vial_result *run_script(const struct home *h, const char *members,
                                      const char *script)
{
    char json[256];
    struct vial_request *req;

    (void)snprintf(json, sizeof json, "{'driver':'process',%s}", members);
    req = case_request(json);
    case_set(req, "command", "sh");
    case_set(req, "command", "-c");
    case_set(req, "command", script);
    return case_run(h->engine, req, NULL);
}

static void a_result_says_that_nothing_isolates(void **state)
{
    struct vial_result *r = run_script(*state, "'timeout':'60s'", "true");

    case_verdict(r, VIAL_OK);
    assert_string_equal(r->level, "none");
    assert_string_equal(r->limits_by, "none");
    assert_true(!r->layers || !r->layers[0]);
    vial_result_free(r);
}

static void nothing_is_left_of_what_programs_made(void **state)
{
    const struct home *h = *state;
    struct vial_result *r = run_script(
        h, "'timeout':'60s'",
        "echo x > f; mkdir -p d/e; echo y > d/e/g; ln -s / l; mkfifo p; mkdir c; "
        "echo z > c/h; chmod 000 c d; mktemp >/dev/null; echo t > $TMPDIR/left");

    case_verdict(r, VIAL_OK);
    vial_result_free(r);
    assert_int_equal(count_entries(h->dir), 0);
}

static void links_are_removed_and_not_what_they_point_to(void **state)
{
    const struct home *h = *state;
    char script[256], path[64];
    struct vial_result *r;

    (void)snprintf(path, sizeof path, "%s/canary", h->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/canary/file", h->dir);
    assert_true(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    (void)snprintf(script, sizeof script,
                   "ln -s %s/canary x; mkdir -p y/z; ln -s %s/canary y/z/q; chmod 0 y",
                   h->dir, h->dir);
    r = run_script(h, "'timeout':'60s'", script);
    case_verdict(r, VIAL_OK);
    vial_result_free(r);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(count_entries(h->dir), 1);
    remove_tree(h->fd, "canary");
}

static void a_tree_of_any_depth_is_removed(void **state)
{
    const struct home *h = *state;
    int fd = dup(h->fd);

    for (int i = 0; i < 5000; i++) {
        int next;

        assert_int_equal(mkdirat(fd, i == 0 ? "deep" : "1.up", 0700), 0);
        next = openat(fd, i == 0 ? "deep" : "1.up", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(fd);
        fd = next;
    }
    (void)close(fd);
    remove_tree(h->fd, "deep");
    assert_int_equal(count_entries(h->dir), 0);
}

static void names_that_are_taken_do_not_stop_the_removal(void **state)
{
    const struct home *h = *state;
    char name[64];

    assert_int_equal(mkdirat(h->fd, "taken", 0700), 0);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof name, "taken/%d.up", i);
        assert_int_equal(mkdirat(h->fd, name, 0700), 0);
        (void)snprintf(name, sizeof name, "taken/%d.up/%d.up", i, i);
        assert_int_equal(mkdirat(h->fd, name, 0700), 0);
        (void)snprintf(name, sizeof name, "taken/%d.up/%d.up/x", i, i);
        assert_int_equal(mkdirat(h->fd, name, 0), 0);
    }
    remove_tree(h->fd, "taken");
    assert_int_equal(count_entries(h->dir), 0);
}

static void what_is_mounted_inside_stays_whole(void **state)
{
    const struct home *h = *state;
    char inside[64], outside[64], file[80];

    (void)snprintf(outside, sizeof outside, "%s/outside", h->dir);
    (void)snprintf(inside, sizeof inside, "%s/tree", h->dir);
    assert_int_equal(mkdir(outside, 0700), 0);
    assert_int_equal(mkdir(inside, 0700), 0);
    (void)snprintf(file, sizeof file, "%s/outside/file", h->dir);
    assert_true(close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    (void)snprintf(inside, sizeof inside, "%s/tree/mount", h->dir);
    assert_int_equal(mkdir(inside, 0700), 0);
    if (mount(outside, inside, NULL, MS_BIND, NULL) < 0) {
        remove_tree(h->fd, "tree");
        remove_tree(h->fd, "outside");
        print_message("no right to mount\n");
        skip();
    }
    remove_tree(h->fd, "tree");
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(umount2(inside, MNT_DETACH), 0);
    remove_tree(h->fd, "tree");
    remove_tree(h->fd, "outside");
    assert_int_equal(count_entries(h->dir), 0);
}

/* Whether a process that sleeps for MARK seconds exists. */
static void check_attack(const struct home *h, const char *timeout, const char *attack,
                         enum vial_verdict verdict)
{
    char script[128], mark[32];
    struct vial_result *r;

    (void)snprintf(mark, sizeof mark, "97%d.25", getpid());
    (void)snprintf(script, sizeof script, "setsid sleep %s & %s; sleep %s", mark,
                   attack, mark);
    r = run_script(h, timeout, script);
    case_verdict(r, verdict);
    assert_true(r->duration_ms < 50000);
    vial_result_free(r);
    assert_false(is_running(mark));
    assert_int_equal(count_entries(h->dir), 0);
}

static void a_program_that_stops_the_guest_dies_all_the_same(void **state)
{
    check_attack(*state, "'timeout':'500ms'", "kill -STOP $PPID", VIAL_TIMEOUT);
}

static void a_program_that_kills_the_guest_dies_all_the_same(void **state)
{
    check_attack(*state, "'timeout':'60s'", "kill -KILL $PPID", VIAL_FAILED);
}

static void a_workspace_is_worked_in_where_it_lies(void **state)
{
    const struct home *h = *state;
    char members[128], path[64];
    struct vial_result *r;

    (void)snprintf(path, sizeof path, "%s/repo", h->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(members, sizeof members, "'timeout':'60s','workspace':'%s'", path);
    r = run_script(h, members, "pwd; echo made > here");
    case_verdict(r, VIAL_OK);
    assert_int_equal(strncmp(r->out.data, path, strlen(path)), 0);
    vial_result_free(r);
    assert_int_equal(count_entries(path), 1);
    remove_tree(h->fd, "repo");
    assert_int_equal(count_entries(h->dir), 0);
}

static void what_it_cannot_do_is_denied(void **state)
{
    struct vial_result *r =
        run_script(*state, "'timeout':'60s','mounts':['/usr/share:/data:ro']", "true");

    case_verdict(r, VIAL_DENIED);
    assert_error(&r->error,
                 "VIAL-UNSUPPORTED driver 'process' cannot give the program mounts");
    vial_result_free(r);
}

static void a_cpu_limit_is_kept_by_the_kernel(void **state)
{
    struct vial_result *r =
        run_script(*state, "'timeout':'60s','cpu_time':'1s'", "while :; do :; done");

    case_verdict(r, VIAL_CPU_TIMEOUT);
    assert_int_equal(r->limits_hit, VIAL_LIMIT_CPU);
    vial_result_free(r);
}

static void what_a_killed_caller_left_is_removed_by_the_next(void **state)
{
    const struct home *h = *state;
    struct place place = PLACE_NONE;
    pid_t pid = fork();

    if (pid == 0) {
        (void)temp_dir_create(&place, NULL);
        _exit(0); /* without removing it; the lock ends with the process */
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(count_entries(h->dir), 1);
    assert_int_equal(temp_dir_create(&place, NULL), 0);
    temp_dir_remove(&place);
    assert_int_equal(count_entries(h->dir), 0);
}

/* TURN as in temp_dir.c: the first has no number. */
static void put_open_dir(const struct home *h, unsigned turn, char path[64])
{
    char number[16] = "";

    if (turn > 0)
        (void)snprintf(number, sizeof number, "-%u", turn);
    (void)snprintf(path, 64, "%.40s/vial-%u%s", h->dir, (unsigned)geteuid(), number);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(chmod(path, 0777), 0);
}

static void a_directory_of_someone_else_is_passed_by(void **state)
{
    struct place place = PLACE_NONE;
    char path[64];

    put_open_dir(*state, 0, path);
    assert_int_equal(temp_dir_create(&place, NULL), 0);
    assert_int_equal(count_entries(path), 0);
    assert_non_null(strstr(place.dir, "-1/"));
    temp_dir_remove(&place);
    assert_int_equal(rmdir(path), 0);
}

/* Whoever put it there could hold its lock for ever. */
static void the_lock_of_someone_elses_directory_is_not_waited_for(void **state)
{
    struct place place = PLACE_NONE;
    char path[64];
    int fd = -1;

    put_open_dir(*state, 0, path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    (void)alarm(60); /* else it would wait without end */
    assert_int_equal(temp_dir_create(&place, NULL), 0);
    assert_int_equal(temp_dir_sweep(), 0);
    (void)alarm(0);
    temp_dir_remove(&place);
    (void)close(fd);
    assert_int_equal(rmdir(path), 0);
}

static void where_all_are_someone_elses_none_is_used(void **state)
{
    struct place place = PLACE_NONE;
    struct vial_error err = { 0 };
    char paths[16][64];

    for (unsigned i = 0; i < 16; i++)
        put_open_dir(*state, i, paths[i]);
    assert_int_equal(temp_dir_create(&place, &err), -1);
    assert_string_equal(err.code, "VIAL-OPEN");
    assert_non_null(strstr(err.message, "is not private to this user"));
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(rmdir(paths[i]), 0);
}

static void a_guest_that_cannot_be_executed_is_told(void **state)
{
    int bad = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    int stream = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct vial_error err = { 0 };
    pid_t pid = 0;
    int pidfd = -1;

    (void)state;
    assert_int_equal(spawn_guest(bad, stream, &pid, &pidfd, &err), -1);
    assert_error(&err, "VIAL-OPEN execute the guest");
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(pidfd);
    (void)close(bad);
    (void)close(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_says_that_nothing_isolates),
        cmocka_unit_test(nothing_is_left_of_what_programs_made),
        cmocka_unit_test(links_are_removed_and_not_what_they_point_to),
        cmocka_unit_test(a_tree_of_any_depth_is_removed),
        cmocka_unit_test(names_that_are_taken_do_not_stop_the_removal),
        cmocka_unit_test(what_is_mounted_inside_stays_whole),
        cmocka_unit_test(a_program_that_stops_the_guest_dies_all_the_same),
        cmocka_unit_test(a_program_that_kills_the_guest_dies_all_the_same),
        cmocka_unit_test(a_workspace_is_worked_in_where_it_lies),
        cmocka_unit_test(what_it_cannot_do_is_denied),
        cmocka_unit_test(a_cpu_limit_is_kept_by_the_kernel),
        cmocka_unit_test(what_a_killed_caller_left_is_removed_by_the_next),
        cmocka_unit_test(a_directory_of_someone_else_is_passed_by),
        cmocka_unit_test(the_lock_of_someone_elses_directory_is_not_waited_for),
        cmocka_unit_test(where_all_are_someone_elses_none_is_used),
        cmocka_unit_test(a_guest_that_cannot_be_executed_is_told),
    };

    if (chdir("/") < 0)
        return 1;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
