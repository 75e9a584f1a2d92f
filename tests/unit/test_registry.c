/* SPDX-License-Identifier: Apache-2.0 */

/* Sessions held for several callers. */

#include <dirent.h>
#include <pthread.h>

#include "engine/callers/registry.h"
#include "session_case.h"

static struct registry *opened(const struct on *on, unsigned sessions,
                               unsigned per_owner, int64_t keep_ended_ms)
{
    struct registry_options o = { .engine = on->engine,
                                  .sessions = sessions,
                                  .per_owner = per_owner,
                                  .keep_ended_ms = keep_ended_ms };
    struct registry *r = NULL;

    good(registry_open(&o, &r, &err));
    return r;
}

static int start_for(const struct on *on, struct registry *r, const char *owner,
                     struct registered **out, struct vial_error *err)
{
    char json[64];
    struct vial_request *req;
    int rc;

    (void)snprintf(json, sizeof json, "{'driver':'%s','timeout':'60s'}", on->driver);
    req = case_request(json);
    rc = registry_start(r, owner, req, NULL, out, err);
    vial_request_free(req);
    return rc;
}

static void a_session_is_found_by_its_owner_only(void **state)
{
    struct registered *mine, *again;

    begin(on);
    struct registry *r = opened(on, 0, 0, 0);
    good(start_for(on, r, "ann", &mine, &err));
    assert_string_equal(mine->owner, "ann");
    good(registry_take(r, "ann", mine->id, &again, &err));
    assert_ptr_equal(again, mine);
    registry_release(r, again);
    refused(registry_take(r, "bob", mine->id, &again, &err), "VIAL-SESSION");
    refused(registry_take(r, "", mine->id, &again, &err), "VIAL-SESSION");
    refused(registry_stop(r, "bob", mine->id, &err), "VIAL-SESSION");
    refused(registry_take(r, "ann", "s-none", &again, &err), "VIAL-SESSION");
    check_line(mine->session, "echo lives", "lives\n");
    registry_release(r, mine);
    registry_close(r);
}

/* What this process holds open. */
static unsigned descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count;
}

static void a_stopped_session_leaves_its_report_and_nothing_else(void **state)
{
    const struct vial_exec_options o = { .shell = "true" };
    struct vial_session_report report;
    struct registered *held, *again;
    struct vial_exec *x;
    char id[24];

    begin(on);
    struct registry *r = opened(on, 0, 0, INT64_C(3600) * 1000);
    unsigned before = descriptors();
    good(start_for(on, r, "", &held, &err));
    (void)snprintf(id, sizeof id, "%s", held->id);
    check_line(held->session, "echo kept", "kept\n");
    good(registry_stop(r, "", id, &err));
    /* Held: it is there still. */
    refused(vial_session_exec(held->session, &o, &x, &err), "VIAL-SESSION");
    refused(registry_take(r, "", id, &again, &err), "VIAL-SESSION");
    registry_release(r, held);
    assert_int_equal(descriptors(), before);
    good(registry_look(r, "", id, &report, &err));
    assert_int_equal(report.outcome, VIAL_SESSION_COMPLETED);
    assert_int_equal(report.execs, 1);
    refused(registry_look(r, "bob", id, &report, &err), "VIAL-SESSION");
    good(registry_stop(r, "", id, &err)); /* once more does no harm */
    registry_close(r);
}

static void an_owner_has_so_many_ended_sessions(void **state)
{
    struct vial_session_report report;
    struct registered *held;
    char first[24], id[24];

    begin(on);
    struct registry *r = opened(on, 0, 0, INT64_C(3600) * 1000);
    unsigned before = descriptors();
    for (int i = 0; i < 20; i++) {
        good(start_for(on, r, "ann", &held, &err));
        vial_session_close(held->session, VIAL_SESSION_FAILED); /* not by its owner */
        (void)snprintf(i ? id : first, sizeof id, "%s", held->id);
        registry_release(r, held);
        /* Sees its end at once. */
        json_decref(registry_list(r, "ann"));
    }
    good(registry_look(r, "ann", first, &report, &err));
    assert_int_equal(report.outcome, VIAL_SESSION_FAILED);
    good(registry_take(r, "ann", id, &held, &err));
    registry_release(r, held);
    registry_close(r);
    assert_int_equal(descriptors(), before);
}

static void an_ended_session_nobody_holds_is_forgotten_in_time(void **state)
{
    struct vial_session_report report;
    struct registered *held;
    char id[24];

    begin(on);
    struct registry *r = opened(on, 0, 0, 1);
    good(start_for(on, r, "", &held, &err));
    (void)snprintf(id, sizeof id, "%s", held->id);
    good(registry_stop(r, "", id, &err));
    good(registry_look(r, "", id, &report, &err)); /* held: it stays */
    registry_release(r, held);
    while (registry_look(r, "", id, &report, NULL) == 0)
        ;
    refused(registry_look(r, "", id, &report, &err), "VIAL-SESSION");
    registry_close(r);
}

#define RACERS 8

struct race {
    const struct on *on;
    struct registry *registry;
    pthread_barrier_t *line;
    struct registered *held; /* or NULL */
};

static void *start_at_once(void *context)
{
    struct race *race = context;
    struct vial_error err = { 0 };

    (void)pthread_barrier_wait(race->line);
    if (start_for(race->on, race->registry, "ann", &race->held, &err) < 0)
        race->held = NULL;
    return NULL;
}

static void who_starts_many_at_once_gets_no_more_than_one_by_one(void **state)
{
    pthread_barrier_t line;
    pthread_t threads[RACERS];
    struct race races[RACERS];
    unsigned got = 0;

    begin(on);
    struct registry *r = opened(on, 0, 2, 0);
    (void)pthread_barrier_init(&line, NULL, RACERS);
    for (int i = 0; i < RACERS; i++) {
        races[i] = (struct race){ .on = on, .registry = r, .line = &line };
        assert_int_equal(pthread_create(&threads[i], NULL, start_at_once, &races[i]),
                         0);
    }
    for (int i = 0; i < RACERS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < RACERS; i++) {
        got += races[i].held != NULL;
        registry_release(r, races[i].held);
    }
    assert_int_equal(got, 2);
    (void)pthread_barrier_destroy(&line);
    registry_close(r);
}

static void as_many_are_open_as_may_be(void **state)
{
    struct registered *held[3], *more;

    begin(on);
    struct registry *r = opened(on, 3, 2, 0);
    good(start_for(on, r, "ann", &held[0], &err));
    good(start_for(on, r, "ann", &held[1], &err));
    refused(start_for(on, r, "ann", &more, &err), "VIAL-BUSY");
    good(start_for(on, r, "bob", &held[2], &err));
    refused(start_for(on, r, "bob", &more, &err), "VIAL-BUSY");
    good(registry_stop(r, "ann", held[0]->id, &err));
    good(start_for(on, r, "bob", &more, &err));
    registry_release(r, more);
    for (int i = 0; i < 3; i++)
        registry_release(r, held[i]);
    registry_close(r);
}

static void a_list_shows_the_owners_sessions_oldest_first(void **state)
{
    struct registered *one, *two, *other;
    json_t *list;

    begin(on);
    struct registry *r = opened(on, 0, 0, 0);
    good(start_for(on, r, "ann", &one, &err));
    good(start_for(on, r, "bob", &other, &err));
    good(start_for(on, r, "ann", &two, &err));
    good(registry_stop(r, "bob", other->id, &err));
    list = registry_list(r, "ann");
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(list, 0), "id")), one->id);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(list, 1), "id")), two->id);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(list, 1), "outcome")), "open");
    json_decref(list);
    list = registry_list(r, NULL);
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(list, 1), "outcome")),
        "completed");
    json_decref(list);
    registry_release(r, one);
    registry_release(r, two);
    registry_release(r, other);
    registry_close(r);
}

static void old_execs_make_room_and_used_ones_do_not(void **state)
{
    struct registered *held;
    unsigned first, number = 0;

    begin(on);
    struct registry *r = opened(on, 0, 0, 0);
    good(start_for(on, r, "", &held, &err));
    for (int i = 0; i < 258; i++) {
        struct vial_exec *x = start(held->session, ":");

        (void)wait_for(x);
        good(registered_add_exec(held, x, &number, &err));
        if (i == 0)
            first = number; /* stays in use */
        else
            registered_exec_done(held, number);
    }
    assert_non_null(registered_exec(held, first));
    assert_null(registered_exec(held, first + 1));
    assert_non_null(registered_exec(held, number));
    registry_release(r, held);
    registry_close(r);
}

static void a_context_is_opened_once_and_remembers(void **state)
{
    struct vial_context *one, *again, *other;
    struct registered *held;
    char *json = NULL;

    begin(on);
    struct registry *r = opened(on, 0, 0, 0);
    good(start_for(on, r, "", &held, &err));
    good(registered_context(held, "python", "", &one, &err));
    good(registered_context(held, "python", "", &again, &err));
    good(registered_context(held, "python", "b", &other, &err));
    assert_ptr_equal(one, again);
    assert_ptr_not_equal(one, other);
    good(vial_context_run(one, "x = 6", 5, 0, &json, &err));
    free(json);
    good(vial_context_run(again, "x * 7", 5, 0, &json, &err));
    assert_non_null(strstr(json, "\"42\""));
    free(json);
    refused(registered_context(held, "perl", "", &one, &err), "VIAL-UNSUPPORTED");
    registry_release(r, held);
    registry_close(r);
}

struct late {
    struct registry *registry;
    struct registered *held;
    struct vial_exec *exec;
    struct vial_exec_status status;
};

static void *wait_then_release(void *context)
{
    struct late *late = context;

    vial_exec_wait(late->exec, -1, &late->status);
    registry_release(late->registry, late->held);
    return NULL;
}

static void closing_ends_what_runs_and_waits_for_who_holds(void **state)
{
    struct late late;
    pthread_t thread;

    begin(on);
    late.registry = opened(on, 0, 0, 0);
    good(start_for(on, late.registry, "", &late.held, &err));
    late.exec = start(late.held->session, "sleep 600");
    assert_int_equal(pthread_create(&thread, NULL, wait_then_release, &late), 0);
    registry_close(late.registry);
    (void)pthread_join(thread, NULL);
    assert_false(late.status.running);
}

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(a_session_is_found_by_its_owner_only, on),                                   \
            T(a_stopped_session_leaves_its_report_and_nothing_else, on),               \
            T(an_owner_has_so_many_ended_sessions, on),                                \
            T(who_starts_many_at_once_gets_no_more_than_one_by_one, on),               \
            T(an_ended_session_nobody_holds_is_forgotten_in_time, on),                 \
            T(as_many_are_open_as_may_be, on),                                         \
            T(a_list_shows_the_owners_sessions_oldest_first, on),                      \
            T(old_execs_make_room_and_used_ones_do_not, on),                           \
            T(a_context_is_opened_once_and_remembers, on),                             \
            T(closing_ends_what_runs_and_waits_for_who_holds, on),                     \
    }

run_on_driver(TESTS)
