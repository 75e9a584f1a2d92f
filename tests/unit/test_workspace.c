/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay workspace of a session: what programs write stays in a layer until it
 * is committed, whatever they write.
 */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "session_case.h"

#include "vial/workspace.h"

/* A host's tree in a temporary directory, and a session over it. */
struct desk {
    char dir[64], tree[96], state[96];
    struct vial_session *session;
};

static void write_host(const struct desk *d, const char *name, const char *text)
{
    char path[256];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", d->tree, name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    (void)fclose(f);
}

static bool host_has(const struct desk *d, const char *name)
{
    char path[256];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s", d->tree, name);
    return lstat(path, &st) == 0;
}

static void assert_host(const struct desk *d, const char *name, const char *want)
{
    char path[256];
    char text[4096];
    FILE *f;
    size_t n;

    (void)snprintf(path, sizeof path, "%s/%s", d->tree, name);
    f = fopen(path, "r");
    if (!f)
        fail_msg("there is no '%s' on the host", name);
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    (void)fclose(f);
    assert_string_equal(text, want);
}

static void make_host_dir(const struct desk *d, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", d->tree, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *walk)
{
    (void)st;
    (void)flag;
    (void)walk;
    return remove(path);
}

static bool kernel_has_overlays(void)
{
    struct utsname u;
    unsigned major = 0;
    unsigned minor = 0;

    assert_int_equal(uname(&u), 0);
    assert_int_equal(sscanf(u.release, "%u.%u", &major, &minor), 2);
    return major > 6 || (major == 6 && minor >= 6);
}

/* Before 6.6 the kernel cannot, and the vessel is refused. */
static void open_session(const struct on *on, struct desk *d, const char *members)
{
    struct vial_request *req;
    struct vial_error err = { 0 };
    char json[1024];
    int rc;

    (void)snprintf(json, sizeof json, "{'driver':'%s',%s}", on->driver, members);
    req = case_request(json);
    rc = vial_session_open(on->engine, req, NULL, &d->session, &err);
    vial_request_free(req);
    if (rc == 0)
        return;
    (void)nftw(d->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    /* A kernel that has what it takes may not be let off. */
    if (strcmp(err.code, "VIAL-UNSUPPORTED") != 0 || kernel_has_overlays())
        fail_msg("%s: %s (%s)", err.code, err.message, err.cause);
    print_message("%s\n", err.message);
    skip();
}

static void open_desk(const struct on *on, struct desk *d, const char *more)
{
    char members[512];

    (void)snprintf(d->dir, sizeof d->dir, "/tmp/vial-desk-XXXXXX");
    assert_non_null(mkdtemp(d->dir));
    (void)snprintf(d->tree, sizeof d->tree, "%s/tree", d->dir);
    (void)snprintf(d->state, sizeof d->state, "%s/state", d->dir);
    assert_int_equal(setenv("VIAL_STATE", d->state, 1), 0);
    assert_int_equal(mkdir(d->tree, 0755), 0);
    make_host_dir(d, "src");
    make_host_dir(d, "old");
    write_host(d, "README", "one\ntwo\nthree\n");
    write_host(d, "src/a.c", "int a;\n");
    write_host(d, "src/b.c", "int b;\n");
    write_host(d, "old/x", "x\n");
    write_host(d, "old/y", "y\n");
    (void)snprintf(members, sizeof members,
                   "'timeout':'60s','workspace':'%s','workspace_mode':'overlay'%s",
                   d->tree, more);
    open_session(on, d, members);
}

static void close_desk(struct desk *d)
{
    vial_session_free(d->session);
    (void)nftw(d->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(unsetenv("VIAL_STATE"), 0);
}

static struct vial_changes diff_of(const struct desk *d)
{
    struct vial_changes c = { 0 };

    good(vial_session_diff(d->session, NULL, &c, &err));
    return c;
}

static const struct vial_change *find(const struct vial_changes *c, const char *path)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->items[i].path, path) == 0)
            return &c->items[i];
    return NULL;
}

static void assert_change(const struct vial_changes *c, const char *path,
                          enum vial_change_kind kind)
{
    const struct vial_change *at = find(c, path);

    if (!at)
        fail_msg("'%s' is not among the changes", path);
    assert_string_equal(vial_change_name(at->kind), vial_change_name(kind));
}

static void nothing_reaches_the_host_before_a_commit(void **state)
{
    begin(on);
    struct desk d;

    open_desk(on, &d, "");
    check_line(d.session,
               "echo 4 >> README; rm -r old; mkdir new; echo n > new/f; "
               "chmod 700 src/b.c; cat README",
               "one\ntwo\nthree\n4\n");
    assert_host(&d, "README", "one\ntwo\nthree\n");
    assert_host(&d, "old/x", "x\n");
    assert_false(host_has(&d, "new"));
    close_desk(&d);
}

static void a_diff_names_every_kind_of_change(void **state)
{
    begin(on);
    struct desk d;
    struct vial_changes c;

    open_desk(on, &d, "");
    check_line(d.session,
               "echo 4 >> README; rm -r old; mkdir new; echo n > new/f; "
               "chmod 700 src/b.c; rm src/a.c; ln -s b.c src/a.c; touch src/b.c",
               "");
    c = diff_of(&d);
    assert_change(&c, "README", VIAL_CHANGE_MODIFIED);
    assert_string_equal(find(&c, "README")->diff,
                        "--- a/README\n+++ b/README\n@@ -1,3 +1,4 @@\n one\n two\n"
                        " three\n+4\n");
    assert_change(&c, "old", VIAL_CHANGE_DELETED);
    assert_change(&c, "old/x", VIAL_CHANGE_DELETED);
    assert_change(&c, "old/y", VIAL_CHANGE_DELETED);
    assert_change(&c, "new", VIAL_CHANGE_ADDED);
    assert_change(&c, "new/f", VIAL_CHANGE_ADDED);
    assert_change(&c, "src/a.c", VIAL_CHANGE_TYPE);
    assert_change(&c, "src/b.c", VIAL_CHANGE_MODE);
    assert_int_equal(c.count, 8);
    vial_changes_free(&c);
    close_desk(&d);
}

/* Who commits what a diff shows must not be shown what a program made up. */
static void no_name_is_a_line_of_the_diff(void **state)
{
    begin(on);
    struct desk d;
    struct vial_changes c;
    char *text;

    open_desk(on, &d, "");
    check_line(d.session,
               "n=$(printf 'n\\n--- a'); mkdir \"$n\"; echo bad > \"$n/README\"; "
               "ln -s x \"$(printf 'l\\nREADME: deleted')\"",
               "");
    c = diff_of(&d);
    text = vial_changes_text(&c);
    assert_string_equal(text, "\"l\\nREADME: deleted\": added link\n"
                              "\"n\\n--- a\": added directory\n"
                              "--- /dev/null\n+++ \"b/n\\n--- a/README\"\n"
                              "@@ -0,0 +1 @@\n+bad\n");
    free(text);
    vial_changes_free(&c);
    close_desk(&d);
}

static void a_commit_brings_all_of_it_to_the_host(void **state)
{
    begin(on);
    struct desk d;
    struct vial_changes c;
    struct vial_commit_report r;
    struct stat st;
    char path[256];

    open_desk(on, &d, "");
    check_line(d.session,
               "echo 4 >> README; rm -r old; mkdir -p new/deep; echo n > new/deep/f; "
               "chmod 750 src/b.c; rm src/a.c; mkdir src/a.c; echo in > src/a.c/in; "
               "chmod 755 new/deep/f; chmod 555 new/deep",
               "");
    good(vial_session_commit(d.session, NULL, &r, &err));
    assert_host(&d, "README", "one\ntwo\nthree\n4\n");
    assert_host(&d, "new/deep/f", "n\n");
    assert_host(&d, "src/a.c/in", "in\n");
    assert_false(host_has(&d, "old"));
    (void)snprintf(path, sizeof path, "%s/new/deep/f", d.tree);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(st.st_uid, getuid());
    assert_int_equal(r.deleted, 3);
    c = diff_of(&d);
    assert_int_equal(c.count, 0);
    vial_changes_free(&c);
    /* And the session goes on from there. */
    check_line(d.session, "echo 5 >> README; cat src/a.c/in", "in\n");
    good(vial_session_commit(d.session, NULL, &r, &err));
    assert_int_equal(r.modified, 1);
    assert_host(&d, "README", "one\ntwo\nthree\n4\n5\n");
    (void)snprintf(path, sizeof path, "%s/new/deep", d.tree);
    assert_int_equal(chmod(path, 0755), 0);
    close_desk(&d);
}

static void what_the_host_changed_meanwhile_is_refused(void **state)
{
    begin(on);
    struct desk d;
    struct vial_changes c;
    const char *const other[] = { "src", NULL };
    struct vial_commit_options o = { .paths = other };

    open_desk(on, &d, "");
    check_line(d.session, "echo 4 >> README; echo c > src/c; rm -r old", "");
    write_host(&d, "README", "mine\n");
    write_host(&d, "old/z", "new here\n");
    c = diff_of(&d);
    assert_true(find(&c, "README")->conflict);
    assert_true(find(&c, "old")->conflict);
    assert_false(find(&c, "src/c")->conflict);
    vial_changes_free(&c);
    refused(vial_session_commit(d.session, NULL, NULL, &err), "VIAL-CONFLICT");
    assert_host(&d, "README", "mine\n");
    assert_host(&d, "old/x", "x\n");
    assert_false(host_has(&d, "src/c")); /* all or nothing */
    good(vial_session_commit(d.session, &o, NULL, &err));
    assert_host(&d, "src/c", "c\n");
    close_desk(&d);
}

static void hostile_layers_are_refused_and_nothing_is_followed(void **state)
{
    begin(on);
    struct desk d;

    open_desk(on, &d, "");
    check_line(d.session, "mkfifo pipe", "");
    refused(vial_session_commit(d.session, NULL, NULL, &err), "VIAL-WORKSPACE");
    check_line(d.session, "rm pipe; ln -s /etc etc", "");
    refused(vial_session_commit(d.session, NULL, NULL, &err), "VIAL-WORKSPACE");
    check_line(d.session, "rm etc; ln -s ../../outside src/up", "");
    refused(vial_session_commit(d.session, NULL, NULL, &err), "VIAL-WORKSPACE");
    check_line(d.session, "rm src/up; ln -s ../README src/up; mkdir .vial-commit-x",
               "");
    refused(vial_session_commit(d.session, NULL, NULL, &err), "VIAL-WORKSPACE");
    check_line(d.session,
               "rmdir .vial-commit-x; rm -r old; ln -s src old; "
               "ln README hard; echo $'a\\nb' > 'odd\n name'",
               "");
    good(vial_session_commit(d.session, NULL, NULL, &err));
    assert_host(&d, "src/up", "one\ntwo\nthree\n");
    assert_host(&d, "old/b.c", "int b;\n");
    assert_true(host_has(&d, "odd\n name"));
    close_desk(&d);
}

static void a_discard_brings_the_hosts_tree_back(void **state)
{
    begin(on);
    struct desk d;
    struct vial_changes c;

    open_desk(on, &d, "");
    check_line(d.session,
               "echo 4 >> README; rm -r old; mkdir -p new/deep; echo n > new/deep/f; "
               "chmod 0 new/deep; chmod 700 src/b.c; rm src/a.c; ln -s b.c src/a.c",
               "");
    good(vial_session_discard(d.session, &err));
    c = diff_of(&d);
    for (size_t i = 0; i < c.count; i++)
        print_message("%s %s\n", vial_change_name(c.items[i].kind), c.items[i].path);
    assert_int_equal(c.count, 0);
    vial_changes_free(&c);
    check_line(d.session, "cat README old/* src/*; ls",
               "one\ntwo\nthree\nx\ny\nint a;\nint b;\nREADME\nold\nsrc\n");
    close_desk(&d);
}

static void a_rollback_returns_to_its_checkpoint(void **state)
{
    begin(on);
    struct desk d;
    char *names = NULL;
    static const char look[] =
        "find . | sort; cat README; cat new/f old/* 2>/dev/null; "
        "readlink src/a.c; stat -c %a src/b.c";
    struct vial_exec *x;
    char *then;

    open_desk(on, &d, "");
    check_line(d.session,
               "echo 4 >> README; rm -r old; mkdir old; echo other > old/o; mkdir new; "
               "echo n > new/f; rm src/a.c; ln -s b.c src/a.c; chmod 711 src/b.c",
               "");
    x = start(d.session, look);
    (void)wait_for(x);
    then = read_whole(x, 1);
    good(vial_session_checkpoint(d.session, "first", &err));
    check_line(
        d.session,
        "echo 5 > README; rm -r old new src/a.c; echo file > new; mkdir src/a.c; "
        "echo q > src/a.c/q; chmod 600 src/b.c; rm src/b.c",
        "");
    good(vial_session_checkpoint(d.session, "second", &err));
    good(vial_session_checkpoints(d.session, &names, &err));
    assert_string_equal(names, "[\"first\",\"second\"]");
    free(names);
    good(vial_session_rollback(d.session, "first", &err));
    check_line(d.session, look, then);
    good(vial_session_rollback(d.session, "second", &err));
    check_line(d.session, "cat README new src/a.c/q", "5\nfile\nq\n");
    good(vial_session_rollback(d.session, "first", &err));
    check_line(d.session, look, then);
    refused(vial_session_rollback(d.session, "third", &err), "VIAL-WORKSPACE");
    refused(vial_session_checkpoint(d.session, "../x", &err), "VIAL-VALUE");
    free(then);
    close_desk(&d);
}

static void a_layer_is_bounded_by_the_disk_limit(void **state)
{
    begin(on);
    struct desk d;
    struct vial_changes c;

    open_desk(on, &d, ",'disk':'1m'");
    check_line(d.session,
               "head -c 3000000 /dev/zero > big 2>/dev/null; stat -c %s big; "
               "rm big; head -c 700000 /dev/zero > half",
               "1048576\n");
    refused(vial_session_checkpoint(d.session, "no-room", &err), "VIAL-QUOTA");
    c = diff_of(&d);
    assert_change(&c, "half", VIAL_CHANGE_ADDED);
    vial_changes_free(&c);
    close_desk(&d);
}

static void an_ended_session_can_still_be_committed(void **state)
{
    begin(on);
    struct desk d;

    open_desk(on, &d, "");
    check_line(d.session, "echo late > late", "");
    vial_session_close(d.session, VIAL_SESSION_COMPLETED);
    refused(vial_session_discard(d.session, &err), "VIAL-SESSION");
    good(vial_session_commit(d.session, NULL, NULL, &err));
    assert_host(&d, "late", "late\n");
    close_desk(&d);
}

static void a_commit_while_programs_write_takes_no_link_for_a_file(void **state)
{
    begin(on);
    struct desk d;
    struct vial_exec *x;
    char path[256];
    char text[512];

    open_desk(on, &d, "");
    x = start(d.session, "mkdir swap; while :; do echo f > swap/f; rm swap/f; "
                         "ln -s /etc/hostname swap/f; rm swap/f; mv swap swop; "
                         "ln -s /etc swap; rm swap; mv swop swap; done");
    for (int i = 0; i < 40; i++) {
        struct vial_error err = { 0 };
        int rc = vial_session_commit(d.session, NULL, NULL, &err);

        if (rc < 0 && strcmp(err.code, "VIAL-BUSY") != 0 &&
            strcmp(err.code, "VIAL-WORKSPACE") != 0 &&
            strcmp(err.code, "VIAL-CONFLICT") != 0)
            fail_msg("%s: %s (%s)", err.code, err.message, err.cause);
        (void)snprintf(path, sizeof path, "%s/swap", d.tree);
        assert_true(readlink(path, text, sizeof text) < 0);
        (void)snprintf(path, sizeof path, "%s/swap/f", d.tree);
        assert_true(readlink(path, text, sizeof text) < 0);
    }
    vial_exec_free(x);
    close_desk(&d);
}

static void a_session_without_an_overlay_says_so(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_changes c;

    refused(vial_session_diff(s, NULL, &c, &err), "VIAL-WORKSPACE");
    refused(vial_session_commit(s, NULL, NULL, &err), "VIAL-WORKSPACE");
    refused(vial_session_rollback(s, "x", &err), "VIAL-WORKSPACE");
    vial_session_free(s);
}

static void a_driver_that_cannot_says_so(void **state)
{
    begin(on);
    struct vial_request *req = case_request(
        "{'driver':'process','workspace':'/usr/share','workspace_mode':'overlay'}");
    struct vial_session *s = NULL;

    refused(vial_session_open(on->engine, req, NULL, &s, &err), "VIAL-UNSUPPORTED");
    vial_request_free(req);
}

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(nothing_reaches_the_host_before_a_commit, on),                               \
            T(a_diff_names_every_kind_of_change, on),                                  \
            T(no_name_is_a_line_of_the_diff, on),                                      \
            T(a_commit_brings_all_of_it_to_the_host, on),                              \
            T(what_the_host_changed_meanwhile_is_refused, on),                         \
            T(hostile_layers_are_refused_and_nothing_is_followed, on),                 \
            T(a_discard_brings_the_hosts_tree_back, on),                               \
            T(a_rollback_returns_to_its_checkpoint, on),                               \
            T(a_layer_is_bounded_by_the_disk_limit, on),                               \
            T(an_ended_session_can_still_be_committed, on),                            \
            T(a_commit_while_programs_write_takes_no_link_for_a_file, on),             \
            T(a_driver_that_cannot_says_so, on),                                       \
            T(a_session_without_an_overlay_says_so, on),                               \
    }

run_on_driver(TESTS)
