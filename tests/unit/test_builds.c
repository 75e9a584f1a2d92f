/* SPDX-License-Identifier: Apache-2.0 */

/* Builds of templates that E2B's clients began, and did not go on with. */

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "e2b/box.h"
#include "e2b/builds.h"
#include "e2b/control.h"
#include "e2b/lease.h"

#define MINUTE_MS INT64_C(60000)
#define BYTES     1000

struct fixture {
    struct gate gate;
    struct caller *caller;
    struct e2b *e2b;
};

static int setup(void **state)
{
    static struct fixture f;
    struct vial_error err = { 0 };
    const struct e2b_options options = { .gate = &f.gate };
    const struct quota none = { 0 };

    assert_int_equal(gate_init(&f.gate, &err), 0);
    f.caller = gate_caller(&f.gate, "token:me", &none);
    assert_non_null(f.caller);
    assert_int_equal(e2b_open(&options, &f.e2b, &err), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    e2b_close(f->e2b);
    gate_done(&f->gate);
    return 0;
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
    struct fixture *f = *state;
    struct vial_error err = { 0 };
    int left = add(f, BUILD_WAITS, 61);
    int young = add(f, BUILD_WAITS, 30);
    int over = add(f, BUILD_FAILED, 11);
    int told = add(f, BUILD_READY, 5);
    int runs = add(f, BUILD_RUNS, 59);

    while (count(f->e2b->builds) > 3) {
        assert_int_equal(leases_watch(f->e2b, &err), 0); /* which wakes the thread */
        (void)usleep(1000);
    }
    assert_false(is_open(left));
    assert_false(is_open(over));
    assert_true(is_open(young) && is_open(told) && is_open(runs));
    assert_int_equal(f->caller->has[GATE_BODIES], 3 * BYTES);
}

/* The clock of the machine may have been set. */
static void what_began_in_the_future_stays(void **state)
{
    struct fixture *f = *state;

    (void)add(f, BUILD_WAITS, -600);
    builds_forget(f->e2b->builds);
    assert_int_equal(count(f->e2b->builds), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_nobody_goes_on_with_is_forgotten_by_itself,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(what_began_in_the_future_stays, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
