/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit is cut off at each of its system calls, by SIGKILL. After the recovery the
 * host's tree must be what it was, or what the commit makes of it: nothing between.
 */
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/sha256.h"
#include "check.h"
#include "workspace/apply.h"
#include "workspace/commit.h"
#include "workspace/journal.h"
#include "workspace/patch.h"
#include "workspace/tree.h"

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

struct desk {
    char dir[64], tree[80], layer[80], state[80];
};

struct row {
    char type; /* 'd', 'f', 'l', or 'w' for a whiteout, 'o' an opaque directory */
    const char *path, *text;
    unsigned mode;
};

static const struct row tree[] = {
    { 'd', "a", NULL, 0755 },
    { 'f', "a/one", "one\n", 0644 },
    { 'f', "a/two", "two\n", 0644 },
    { 'd', "b", NULL, 0755 },
    { 'f', "b/x", "x\n", 0600 },
    { 'd', "b/c", NULL, 0755 },
    { 'f', "b/c/y", "y\n", 0644 },
    { 'f', "kind", "a file\n", 0644 },
    { 'd', "place", NULL, 0755 },
    { 'f', "place/in", "in\n", 0644 },
    { 'd', "again", NULL, 0755 },
    { 'f', "again/old", "old\n", 0644 },
    { 'l', "link", "a/one", 0 },
    { 'f', "stays", "stays\n", 0644 },
    { 'f', "runs", "#!/bin/sh\n", 0644 },
};

static const struct row layer[] = {
    { 'd', "a", NULL, 0755 },
    { 'f', "a/one", "one\nand more\n", 0644 },
    { 'w', "a/two", NULL, 0 },
    { 'f', "a/new", "new\n", 06755 },
    { 'w', "b", NULL, 0 },
    { 'd', "kind", NULL, 0750 },
    { 'f', "kind/of", "directory\n", 0644 },
    { 'f', "place", "a file now\n", 0644 },
    { 'o', "again", NULL, 0755 },
    { 'f', "again/young", "young\n", 0644 },
    { 'l', "link", "a/new", 0 },
    { 'f', "runs", "#!/bin/sh\n", 0755 },
    { 'd', "n", NULL, 0755 },
    { 'd', "n/e", NULL, 0555 },
    { 'f', "n/e/w", "deep\n", 0644 },
};

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *walk)
{
    (void)st;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void clear(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_row(const char *dir, const struct row *r)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", dir, r->path);
    switch (r->type) {
    case 'f':
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(io_write_all(fd, r->text, strlen(r->text)), 0);
        assert_int_equal(fchmod(fd, r->mode), 0);
        (void)close(fd);
        break;
    case 'l':
        assert_int_equal(symlink(r->text, path), 0);
        break;
    case 'w':
        if (mknod(path, S_IFCHR, makedev(0, 0)) < 0)
            skip();
        break;
    default:
        assert_int_equal(mkdir(path, 0700), 0);
        if (r->type == 'o')
            (void)setxattr(path, CHANGES_OPAQUE, "y", 1, 0); /* before 6.6: not here */
        break;
    }
}

static void make_rows(const char *dir, const struct row *rows, size_t count)
{
    char path[256];

    assert_int_equal(mkdir(dir, 0755), 0);
    for (size_t i = 0; i < count; i++)
        make_row(dir, &rows[i]);
    for (size_t i = count; i > 0; i--) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, rows[i - 1].path);
        if (strchr("do", rows[i - 1].type))
            assert_int_equal(chmod(path, rows[i - 1].mode), 0);
    }
}

static void make_desk(struct desk *d)
{
    /* In memory: it is about the order of things, and a disk's sync takes its time. */
    (void)snprintf(d->dir, sizeof d->dir, "/dev/shm/vial-commit-XXXXXX");
    assert_non_null(mkdtemp(d->dir));
    (void)snprintf(d->tree, sizeof d->tree, "%s/tree", d->dir);
    (void)snprintf(d->layer, sizeof d->layer, "%s/layer", d->dir);
    (void)snprintf(d->state, sizeof d->state, "%s/state", d->dir);
    make_rows(d->layer, layer, COUNT(layer));
}

/* Every name with its kind, mode and content, as one text; malloc'ed. */
static void show_below(int root_fd, struct str *path, struct str *out)
{
    auto_strv struct strv names = { 0 };

    assert_int_equal(tree_names(root_fd, path->len ? path->data : "", &names), 0);
    for (size_t i = 0; i < names.count; i++) {
        size_t len = tree_enter(path, names.items[i]);
        auto_free char *link = tree_link(root_fd, path->data);
        auto_fd int fd = tree_open_file(root_fd, path->data, NULL);
        struct node node;
        char text[128] = "";

        assert_int_equal(tree_look(root_fd, path->data, &node), 0);
        if (fd >= 0)
            (void)io_read_all(fd, text, sizeof text - 1);
        str_printf(out, "%c %04o %s %s %s\n", node.type,
                   node.type == 'l' ? 0 : node.mode, path->data, link ? link : "",
                   text);
        if (node.type == 'd')
            show_below(root_fd, path, out);
        tree_leave(path, len);
    }
}

static char *show(const char *dir)
{
    auto_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_str struct str path = { 0 };
    struct str out = { 0 };

    assert_true(fd >= 0);
    show_below(fd, &path, &out);
    return str_take(&out);
}

/* Reads the origin, as a session does at its beginning, and commits the layer. */
static int commit(const struct desk *d, struct vial_error *err)
{
    auto_fd int root_fd = open(d->tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_fd int layer_fd = open(d->layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct origin origin = { 0 };
    struct vial_changes changes = { 0 };
    struct commit c = { .sides = { root_fd, layer_fd, &origin },
                        .root = d->tree,
                        .state = d->state };
    int rc = origin_read(root_fd, &origin, err);

    if (rc == 0)
        rc = changes_read(&c.sides, NULL, &changes, err);
    if (rc == 0)
        rc = commit_apply(&c, &changes, NULL, err);
    vial_changes_free(&changes);
    origin_done(&origin);
    return rc;
}

/* A child that stops at each system call, until it is killed at call number AT.
 * True: it was; false: it ended before that. */
static bool commit_until(const struct desk *d, unsigned at)
{
    pid_t pid = fork();
    unsigned calls = 0;
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct vial_error err = { 0 };

        (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        (void)raise(SIGSTOP);
        _exit(commit(d, &err) < 0 ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSTOPPED(status))
        fail_msg("the child cannot be traced");
    for (; calls < at; calls++) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return false;
        }
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return true;
}

static bool is_empty(const char *dir, const char *below)
{
    char path[128];
    auto_strv struct strv names = { 0 };

    (void)snprintf(path, sizeof path, "%s/%s", dir, below);
    auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || (tree_names(fd, "", &names) == 0 && names.count == 0);
}

/* A tmpfs can be told that a directory hides another since 6.6. */
static bool hides_again(const struct desk *d)
{
    auto_fd int fd = open(d->layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return changes_is_opaque(fd, "again");
}

static void renew(const struct desk *d)
{
    clear(d->tree);
    clear(d->state);
    make_rows(d->tree, tree, COUNT(tree));
}

static void a_commit_cut_off_anywhere_leaves_all_or_nothing(void **state)
{
    struct desk d;
    auto_free char *before = NULL;
    auto_free char *after = NULL;
    unsigned at = 0;
    unsigned whole = 0;
    unsigned none = 0;
    struct vial_error err = { 0 };

    (void)state;
    make_desk(&d);
    renew(&d);
    before = show(d.tree);
    if (commit(&d, &err) < 0)
        fail_msg("%s: %s (%s)", err.code, err.message, err.cause);
    after = show(d.tree);
    assert_string_not_equal(before, after);
    assert_null(strstr(after, "b/x"));
    assert_non_null(strstr(after, "again/young"));
    assert_true(hides_again(&d) == !strstr(after, "again/old"));
    assert_non_null(strstr(after, "f 0755 a/new  new\n")); /* without setuid */
    /* Each call stops twice, going in and coming out: the latter of one is as good
     * as the former of the next. */
    for (bool cut = true, begun = false; cut; at += begun ? 2 : 8) {
        auto_free char *now = NULL;

        renew(&d);
        cut = commit_until(&d, at);
        begun = begun || !is_empty(d.state, "commits"); /* before, it only looks */
        if (apply_recover(d.state, NULL, &err) < 0)
            fail_msg("call %u: %s: %s (%s)", at, err.code, err.message, err.cause);
        now = show(d.tree);
        whole += strcmp(now, after) == 0;
        none += strcmp(now, before) == 0;
        if (strcmp(now, after) != 0 && strcmp(now, before) != 0)
            fail_msg("call %u: between:\n%s", at, now);
        assert_true(is_empty(d.state, "commits"));
    }
    print_message("%u cuts: %u times before, %u times after\n", none + whole, none,
                  whole);
    assert_true(none > 10 && whole > 10);
    clear(d.dir);
}

static void a_recovery_cut_off_anywhere_is_finished_by_the_next(void **state)
{
    struct desk d;
    auto_free char *before = NULL;
    auto_free char *after = NULL;
    unsigned late = 0;
    struct vial_error err = { 0 };

    (void)state;
    make_desk(&d);
    renew(&d);
    before = show(d.tree);
    while (commit_until(&d, late)) { /* the last call at which something is left */
        renew(&d);
        late += 16;
    }
    after = show(d.tree);
    for (unsigned back = 4; back <= late && back < 240; back += 29) {
        for (unsigned at = 1; at < 400; at += 37) {
            auto_free char *now = NULL;
            pid_t pid;
            int status;
            unsigned calls = 0;

            renew(&d);
            (void)commit_until(&d, late - back);
            pid = fork();
            if (pid == 0) {
                (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
                (void)raise(SIGSTOP);
                _exit(apply_recover(d.state, NULL, &err) < 0);
            }
            (void)waitpid(pid, &status, 0);
            while (calls++ < at && !WIFEXITED(status)) {
                (void)ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
                (void)waitpid(pid, &status, 0);
            }
            if (!WIFEXITED(status)) {
                (void)kill(pid, SIGKILL);
                (void)waitpid(pid, &status, 0);
            }
            assert_int_equal(apply_recover(d.state, NULL, &err), 0);
            now = show(d.tree);
            if (strcmp(now, after) != 0 && strcmp(now, before) != 0)
                fail_msg("cut %u before the end, then at %u: between:\n%s", back, at,
                         now);
        }
    }
    clear(d.dir);
}

static void what_the_host_writes_after_a_cut_stands(void **state)
{
    struct desk d;
    unsigned at = 0;
    struct vial_error err = { 0 };

    (void)state;
    make_desk(&d);
    for (bool cut = true; cut; at += 14) {
        char path[128];
        auto_free char *now = NULL;
        FILE *f;

        renew(&d);
        cut = commit_until(&d, at);
        (void)snprintf(path, sizeof path, "%s/a/one", d.tree);
        f = fopen(path, "r");
        now = calloc(1, 64);
        assert_non_null(f);
        (void)!fread(now, 1, 63, f);
        (void)fclose(f);
        if (is_empty(d.state, "commits") || strcmp(now, "one\n") != 0)
            continue;
        f = fopen(path, "w"); /* the commit has not come to it yet */
        assert_non_null(f);
        (void)fputs("mine, later\n", f);
        (void)fclose(f);
        assert_int_equal(apply_recover(d.state, NULL, &err), 0);
        f = fopen(path, "r");
        assert_non_null(f);
        memset(now, 0, 64);
        (void)!fread(now, 1, 63, f);
        (void)fclose(f);
        assert_string_equal(now, "mine, later\n");
    }
    clear(d.dir);
}

/* The names of records that begin with START, or all. */
static size_t count_records(const struct desk *d, const char *start, struct strv *out)
{
    char path[128];
    auto_strv struct strv names = { 0 };
    size_t count = 0;

    (void)snprintf(path, sizeof path, "%s/commits", d->state);
    auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd < 0 || tree_names(fd, "", &names) == 0);
    for (size_t i = 0; i < names.count; i++) {
        if (!str_starts(names.items[i], start))
            continue;
        count++;
        if (out)
            strv_push(out, names.items[i]);
    }
    return count;
}

/* Cuts a commit off behind its seal, and gives the path of its record. */
static void leave_sealed(const struct desk *d, char path[160])
{
    char text[8192];
    ssize_t len = 0;

    for (unsigned at = 0;; at += 2) {
        auto_strv struct strv names = { 0 };

        renew(d);
        assert_true(commit_until(d, at));
        if (count_records(d, "c-", &names) == 0)
            continue;
        (void)snprintf(path, 160, "%s/commits/%s", d->state, names.items[0]);
        auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
        len = read(fd, text, sizeof text - 1);
        text[len > 0 ? len : 0] = '\0';
        if (strstr(text, "\napply "))
            return;
    }
}

static void a_record_that_was_changed_is_put_aside_and_told_once(void **state)
{
    struct desk d;
    auto_free char *before = NULL;
    auto_free char *after = NULL;
    struct vial_error err = { 0 };
    char path[160];

    (void)state;
    make_desk(&d);
    leave_sealed(&d, path);
    auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pwrite(fd, "0", 1, st.st_size - 10), 1); /* within the seal */
    assert_int_equal(pwrite(fd, "x", 1, st.st_size - 9), 1);
    before = show(d.tree);
    assert_int_equal(apply_recover(d.state, NULL, &err), -1);
    assert_string_equal(err.code, "VIAL-WORKSPACE");
    assert_non_null(strstr(err.message, "cannot be understood; it is called 'bad-c-"));
    after = show(d.tree);
    assert_string_equal(before, after); /* with all that the commit has staged */
    assert_int_equal(count_records(&d, "bad-c-", NULL), 1);
    assert_int_equal(count_records(&d, "c-", NULL), 0);
    assert_int_equal(apply_recover(d.state, NULL, &err), 0);
    assert_int_equal(count_records(&d, "bad-c-", NULL), 1);
    clear(d.dir);
}

static void few_records_are_kept_aside(void **state)
{
    struct desk d;
    struct vial_error err = { 0 };
    char path[160];

    (void)state;
    make_desk(&d);
    leave_sealed(&d, path);
    for (unsigned i = 0; i < 2 * JOURNAL_BAD_MOST; i++) {
        (void)snprintf(path, sizeof path, "%s/commits/c-%016x", d.state, i);
        auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, "nonsense\n", 9), 9);
    }
    assert_int_equal(apply_recover(d.state, d.tree, &err), 0); /* whose are they? */
    assert_int_equal(count_records(&d, "c-", NULL), 2 * JOURNAL_BAD_MOST);
    assert_int_equal(apply_recover(d.state, NULL, &err), -1);
    assert_int_equal(count_records(&d, "c-", NULL), 0);
    assert_int_equal(count_records(&d, "bad-c-", NULL), JOURNAL_BAD_MOST);
    clear(d.dir);
}

/* patch(1) judges: the old text with our hunks must become the new one. */
static void hunks_make_the_new_text_of_the_old(void **state)
{
    unsigned seed = 20;

    (void)state;
    for (int round = 0; round < 60; round++) {
        auto_str struct str old = { 0 };
        auto_str struct str new = { 0 };
        auto_str struct str out = { 0 };
        struct blob a;
        struct blob b;
        FILE *f;

        str_puts(&old, "");
        for (int i = 0; i < round; i++) {
            unsigned pick = (seed = seed * 1103515245u + 12345u) >> 16;

            if (pick % 4 != 0)
                str_printf(&old, "line %u\n", pick % 7);
            if (pick % 5 != 0)
                str_printf(&new, "line %u\n", pick % 7);
        }
        if (round % 3 == 0)
            str_puts(&new, "no newline");
        str_puts(&old, "end\n");
        a = (struct blob){ old.data, old.len };
        b = (struct blob){ new.data, new.len };
        str_puts(&out, "--- a/t\n+++ b/t\n");
        patch_hunks(&out, &a, &b);
        assert_true(str_ok(&out));
        f = fopen("t.old", "w");
        assert_non_null(f);
        (void)fwrite(old.data, 1, old.len, f);
        (void)fclose(f);
        f = fopen("t.new", "w");
        assert_non_null(f);
        (void)fwrite(new.data ? new.data : "", 1, new.len, f);
        (void)fclose(f);
        f = fopen("t.patch", "w");
        assert_non_null(f);
        (void)fwrite(out.data, 1, out.len, f);
        (void)fclose(f);
        if (strstr(out.data, "@@"))
            assert_int_equal(
                system("patch -s -o t.got t.old t.patch && cmp t.got t.new"), 0);
        else
            assert_int_equal(system("cmp t.old t.new"), 0);
    }
    assert_int_equal(system("rm -f t.old t.new t.got t.patch"), 0);
}

static void links_that_lead_out_are_known(void **state)
{
    (void)state;
    assert_true(changes_leads_out("a", "/etc/passwd"));
    assert_true(changes_leads_out("a", ".."));
    assert_true(changes_leads_out("a", "../x"));
    assert_true(changes_leads_out("a/b", "../../x"));
    assert_true(changes_leads_out("a/b", "c/../../../x"));
    assert_true(changes_leads_out("a/b/c", "d/.."));
    assert_true(changes_leads_out("a", "./../x"));
    assert_false(changes_leads_out("a", "b"));
    assert_false(changes_leads_out("a", "b/c/./d"));
    assert_false(changes_leads_out("a/b", "../x"));
    assert_false(changes_leads_out("a/b/c", "../../x"));
    assert_false(changes_leads_out("a/b", "..x/y"));
}

/* A hole costs a layer nothing, so a copy of it must not cost the host's disk. */
static void a_hole_is_copied_as_a_hole(void **state)
{
    static const char word[] = "word";
    const off_t far = (off_t)200 << 20;
    const off_t size = (off_t)1 << 30;
    auto_fd int from = memfd_create("from", MFD_CLOEXEC);
    auto_fd int to = memfd_create("to", MFD_CLOEXEC);
    char text[sizeof word] = "";
    struct stat st;

    (void)state;
    assert_int_equal(pwrite(from, word, sizeof word, 0), sizeof word);
    assert_int_equal(pwrite(from, word, sizeof word, far), sizeof word);
    assert_int_equal(ftruncate(from, size), 0);
    assert_int_equal(copy_bytes(from, to, (uint64_t)size), 0);
    assert_int_equal(fstat(to, &st), 0);
    assert_int_equal(st.st_size, size);
    assert_true((off_t)st.st_blocks * 512 < (off_t)16 << 20);
    assert_int_equal(pread(to, text, sizeof text, far), sizeof word);
    assert_string_equal(text, word);
    assert_int_equal(pread(to, text, sizeof text, 0), sizeof word);
    assert_string_equal(text, word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_cut_off_anywhere_leaves_all_or_nothing),
        cmocka_unit_test(a_recovery_cut_off_anywhere_is_finished_by_the_next),
        cmocka_unit_test(what_the_host_writes_after_a_cut_stands),
        cmocka_unit_test(a_record_that_was_changed_is_put_aside_and_told_once),
        cmocka_unit_test(few_records_are_kept_aside),
        cmocka_unit_test(hunks_make_the_new_text_of_the_old),
        cmocka_unit_test(a_hole_is_copied_as_a_hole),
        cmocka_unit_test(links_that_lead_out_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
