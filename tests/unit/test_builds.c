/* SPDX-License-Identifier: Apache-2.0 */

/* Builds of templates that E2B's clients begin: those that nobody goes on with, and
 * programs that do not read. */

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "e2b/box.h"
#include "e2b/builds.h"
#include "e2b/control.h"
#include "e2b/lease.h"
#include "session_case.h"

#define MINUTE_MS INT64_C(60000)
#define BYTES     1000

struct fixture {
    struct gate gate;
    struct caller *caller;
    struct e2b *e2b;
};

static void set_up(struct fixture *f)
{
    const struct e2b_options options = { .gate = &f->gate };
    const struct quota none = { 0 };

    good(gate_init(&f->gate, &err));
    f->caller = gate_caller(&f->gate, "token:me", &none);
    assert_non_null(f->caller);
    good(e2b_open(&options, &f->e2b, &err));
}

static void tear_down(struct fixture *f)
{
    e2b_close(f->e2b);
    gate_done(&f->gate);
}

/* One that has been in STATE for so long, with an archive; the archive's descriptor. */
static int add(struct fixture *f, enum build_state state, int64_t minutes)
{
    struct builds *all = f->e2b->builds;
    struct build *b = calloc(1, sizeof(*b));
    struct build_files *file = calloc(1, sizeof(*file));

    assert_non_null(b);
    assert_non_null(file);
    file->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    file->bytes = BYTES;
    assert_true(file->fd >= 0);
    assert_true(gate_take(&f->gate, f->caller, GATE_BODIES, BYTES));
    *b = (struct build){ .builds = all,
                         .e2b = f->e2b,
                         .users = 1,
                         .caller = f->caller,
                         .state = state,
                         .since_ms = control_now_ms() - minutes * MINUTE_MS,
                         .files = file };
    (void)pthread_mutex_lock(&all->lock);
    b->next = all->list;
    all->list = b;
    (void)pthread_mutex_unlock(&all->lock);
    return file->fd;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static unsigned count(struct builds *all)
{
    unsigned found = 0;

    (void)pthread_mutex_lock(&all->lock);
    for (const struct build *b = all->list; b; b = b->next)
        found++;
    (void)pthread_mutex_unlock(&all->lock);
    return found;
}

/* No call of a client's is there to do it: the thread that ends leases does. */
static void what_nobody_goes_on_with_is_forgotten_by_itself(void **state)
{
    struct fixture f;
    int left, young, over, told, runs;

    (void)state;
    set_up(&f);
    left = add(&f, BUILD_WAITS, 61);
    young = add(&f, BUILD_WAITS, 30);
    over = add(&f, BUILD_FAILED, 11);
    told = add(&f, BUILD_READY, 5);
    runs = add(&f, BUILD_RUNS, 59);
    while (count(f.e2b->builds) > 3) {
        good(leases_watch(f.e2b, &err)); /* which wakes the thread */
        (void)usleep(1000);
    }
    assert_false(is_open(left));
    assert_false(is_open(over));
    assert_true(is_open(young) && is_open(told) && is_open(runs));
    assert_int_equal(f.caller->has[GATE_BODIES], 3 * BYTES);
    tear_down(&f);
}

/* The clock of the machine may have been set. */
static void what_began_in_the_future_stays(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    (void)add(&f, BUILD_WAITS, -600);
    builds_forget(f.e2b->builds);
    assert_int_equal(count(f.e2b->builds), 1);
    tear_down(&f);
}

/* A file of a megabyte, more than waits on the way to a program. */
static int large_file(void)
{
    char path[] = "/tmp/vial-build-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    (void)unlink(path);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    return fd;
}

/* 0, or -1 and WHY. */
static int feed_to(const struct on *on, const char *line, int64_t patience_ms,
                   struct str *why)
{
    const char *const argv[] = { "/bin/sh", "-c", line, NULL };
    struct registered held = { .session = open_on(on) };
    struct box box = { .held = &held };
    struct build_program p = {
        .argv = argv, .cwd = "/", .input = large_file(), .patience_ms = patience_ms
    };
    int rc = build_program(&box, &p, why);

    (void)close(p.input);
    vial_session_free(held.session);
    return rc;
}

static void a_program_that_never_reads_what_is_copied_is_ended(void **state)
{
    static const char *const lines[] = { "while :; do echo much; sleep 0.1; done",
                                         "sleep 1000" };

    begin(on);
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        struct str why = { 0 };

        assert_int_equal(feed_to(on, lines[i], 100, &why), -1);
        assert_non_null(strstr(why.data, "it does not read what is copied"));
        str_done(&why);
    }
}

static void a_program_has_all_that_is_copied(void **state)
{
    struct str why = { 0 };

    begin(on);
    if (feed_to(on, "echo first; test $(wc -c) = 1048576", 0, &why) < 0)
        fail_msg("%s", why.data);
    assert_int_equal(feed_to(on, "exit 3", 0, &why), -1);
    assert_string_equal(why.data, "exit status 3");
    str_done(&why);
}

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(what_nobody_goes_on_with_is_forgotten_by_itself, on),                        \
            T(what_began_in_the_future_stays, on),                                     \
            T(a_program_that_never_reads_what_is_copied_is_ended, on),                 \
            T(a_program_has_all_that_is_copied, on),                                   \
    }

run_on_driver(TESTS)
