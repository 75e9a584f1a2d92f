/* SPDX-License-Identifier: Apache-2.0 */

/* Turns, quotas, idempotency keys and the history, without a daemon. */

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "check.h"
#include "engine/callers/gate.h"
#include "model/metrics.h"
#include "serve/history.h"
#include "serve/keys.h"
#include "serve/recent.h"

static const struct quota anything = { 0 };

struct visitor {
    struct gate *gate;
    struct caller *caller;
    int gone_fd;
    int rc;
    struct gate_pass pass;
    struct vial_error err;
    pthread_t thread;
};

static void *visit(void *context)
{
    struct visitor *v = context;

    v->rc = gate_enter(v->gate, v->caller, v->gone_fd, &v->pass, &v->err);
    return NULL;
}

static void bring(struct visitor *v, struct gate *g, struct caller *c)
{
    *v = (struct visitor){ .gate = g, .caller = c, .gone_fd = -1 };
    assert_int_equal(pthread_create(&v->thread, NULL, visit, v), 0);
}

static void wait_for_line(struct gate *g, unsigned length)
{
    unsigned running;
    unsigned waiting = ~0u;

    while (waiting != length) {
        gate_count(g, &running, &waiting);
        (void)poll(NULL, 0, 1);
    }
}

static void open_gate(struct gate *g, unsigned most, unsigned places)
{
    struct vial_error err = { 0 };

    assert_int_equal(gate_init(g, &err), 0);
    gate_set(g, most, places, 20000);
}

static void pass_at_once(struct gate *g, struct caller *c, struct gate_pass *pass)
{
    struct vial_error err = { 0 };

    if (gate_enter(g, c, -1, pass, &err) < 0)
        fail_msg("%s %s", err.code, err.message);
}

static void a_caller_keeps_its_name_and_takes_the_newest_quota(void **state)
{
    struct gate g;
    const struct quota few = { .concurrency = 3 };
    struct caller *c;

    (void)state;
    open_gate(&g, 1, 1);
    c = gate_caller(&g, "uid:1", &anything);
    assert_ptr_equal(gate_caller(&g, "uid:1", &few), c);
    assert_ptr_not_equal(gate_caller(&g, "uid:2", &few), c);
    assert_int_equal(c->quota.concurrency, 3);
    gate_done(&g);
}

static void a_place_that_gets_free_goes_to_the_next_caller_in_turn(void **state)
{
    struct gate_pass first;
    struct gate g;
    struct visitor many[3];
    struct visitor one;
    struct caller *a;
    struct caller *b;

    (void)state;
    open_gate(&g, 1, 10);
    a = gate_caller(&g, "a", &anything);
    b = gate_caller(&g, "b", &anything);
    pass_at_once(&g, a, &first);
    for (unsigned i = 0; i < 3; i++) {
        bring(&many[i], &g, a);
        wait_for_line(&g, i + 1);
    }
    bring(&one, &g, b);
    wait_for_line(&g, 4);
    gate_leave(&g, &first, 0);
    (void)pthread_join(one.thread, NULL);
    assert_int_equal(one.rc, 0);
    gate_leave(&g, &one.pass, 0);
    for (unsigned i = 0; i < 3; i++) {
        (void)pthread_join(many[i].thread, NULL);
        assert_int_equal(many[i].rc, 0);
        gate_leave(&g, &many[i].pass, 0);
    }
    gate_done(&g);
}

static void a_newcomer_takes_the_last_place_of_the_longest_line(void **state)
{
    struct gate_pass first;
    struct gate g;
    struct visitor many[2];
    struct visitor one;
    struct gate_pass pass;
    struct vial_error err = { 0 };
    struct caller *a;
    struct caller *b;

    (void)state;
    open_gate(&g, 1, 2);
    a = gate_caller(&g, "a", &anything);
    b = gate_caller(&g, "b", &anything);
    pass_at_once(&g, a, &first);
    for (unsigned i = 0; i < 2; i++) {
        bring(&many[i], &g, a);
        wait_for_line(&g, i + 1);
    }
    assert_int_equal(gate_enter(&g, a, -1, &pass, &err), -1);
    assert_error(&err, "VIAL-BUSY too many runs are waiting");
    assert_int_equal(pass.retry_s, 1);
    bring(&one, &g, b);
    (void)pthread_join(many[1].thread, NULL);
    assert_int_equal(many[1].rc, -1);
    assert_error(&many[1].err, "VIAL-BUSY others are waiting as well");
    gate_leave(&g, &first, 0);
    (void)pthread_join(one.thread, NULL);
    gate_leave(&g, &one.pass, 0);
    (void)pthread_join(many[0].thread, NULL);
    assert_int_equal(one.rc | many[0].rc, 0);
    gate_leave(&g, &many[0].pass, 0);
    gate_done(&g);
}

static void who_goes_away_leaves_the_line(void **state)
{
    struct gate_pass first;
    struct gate g;
    struct gate_pass pass;
    struct vial_error err = { 0 };
    struct caller *a;
    int gone = eventfd(1, EFD_CLOEXEC);
    unsigned running;
    unsigned waiting;

    (void)state;
    open_gate(&g, 1, 2);
    a = gate_caller(&g, "a", &anything);
    pass_at_once(&g, a, &first);
    assert_int_equal(gate_enter(&g, a, gone, &pass, &err), -1);
    assert_error(&err, "VIAL-CANCELLED the caller went away");
    gate_set(&g, 1, 2, 1);
    assert_int_equal(gate_enter(&g, a, -1, &pass, &err), -1);
    assert_error(&err, "VIAL-BUSY it waited too long for its turn");
    gate_count(&g, &running, &waiting);
    assert_int_equal(running, 1);
    assert_int_equal(waiting, 0);
    gate_leave(&g, &first, 0);
    (void)close(gone);
    gate_done(&g);
}

static void a_quota_is_used_up_and_says_when_it_is_not(void **state)
{
    const struct quota two = { .runs_per_minute = 2 };
    const struct quota cpu = { .cpu_per_minute_ms = 60000 };
    struct gate_pass first[3];
    struct gate g;
    struct gate_pass pass;
    struct vial_error err = { 0 };
    struct caller *a;
    struct caller *b;

    (void)state;
    open_gate(&g, 10, 0);
    a = gate_caller(&g, "a", &two);
    pass_at_once(&g, a, &first[0]);
    pass_at_once(&g, a, &first[1]);
    assert_int_equal(gate_enter(&g, a, -1, &pass, &err), -1);
    assert_error(&err, "VIAL-RATE 'a' may start 2 runs in a minute");
    assert_in_range(pass.retry_s, 1, 31);
    b = gate_caller(&g, "b", &cpu);
    pass_at_once(&g, b, &first[2]);
    gate_leave(&g, &first[2], 120000);
    assert_int_equal(gate_enter(&g, b, -1, &pass, &err), -1);
    assert_error(&err, "VIAL-RATE 'b' may use 60000 ms of cpu time in a minute");
    assert_in_range(pass.retry_s, 50, 61);
    gate_done(&g);
}

static void a_callers_own_limit_leaves_room_for_others(void **state)
{
    const struct quota one = { .concurrency = 1 };
    struct gate_pass first;
    struct gate_pass others;
    struct gate g;
    struct visitor second;
    struct caller *a;
    struct caller *b;

    (void)state;
    open_gate(&g, 5, 5);
    a = gate_caller(&g, "a", &one);
    b = gate_caller(&g, "b", &anything);
    pass_at_once(&g, a, &first);
    bring(&second, &g, a);
    wait_for_line(&g, 1);
    pass_at_once(&g, b, &others);
    gate_leave(&g, &others, 0);
    wait_for_line(&g, 1);
    gate_leave(&g, &first, 0);
    (void)pthread_join(second.thread, NULL);
    assert_int_equal(second.rc, 0);
    gate_leave(&g, &second.pass, 0);
    gate_done(&g);
}

/* One took all of them, and the next waited for its runs to end. */
static void a_caller_without_a_limit_leaves_a_place(void **state)
{
    struct gate_pass first[7];
    struct gate_pass others;
    struct gate g;
    struct visitor eighth;
    struct caller *a;
    struct caller *b;

    (void)state;
    open_gate(&g, 8, 5);
    a = gate_caller(&g, "a", &anything);
    b = gate_caller(&g, "b", &anything);
    for (int i = 0; i < 7; i++)
        pass_at_once(&g, a, &first[i]);
    bring(&eighth, &g, a);
    wait_for_line(&g, 1);
    pass_at_once(&g, b, &others);
    gate_leave(&g, &first[0], 0);
    (void)pthread_join(eighth.thread, NULL);
    assert_int_equal(eighth.rc, 0);
    gate_done(&g);
    assert_true(gate_leaves_some(1, 0, 0));
    assert_true(gate_leaves_some(2, 1, 1));
    assert_false(gate_leaves_some(2, 2, 0));
    assert_true(gate_leaves_some(1024, 909, 909));
    assert_false(gate_leaves_some(1024, 911, 911));
}

/* How much one gets that takes one after the other. */
static unsigned take_all(struct gate *g, struct caller *c, enum gate_kind kind)
{
    unsigned got = 0;

    while (gate_take(g, c, kind, 1))
        got++;
    return got;
}

static void whoever_takes_all_it_can_leaves_room_for_the_next(void **state)
{
    struct gate g;
    struct caller *callers[11];
    char name[] = "a";

    (void)state;
    open_gate(&g, 1, 1);
    gate_share(&g, GATE_BODIES, 1000);
    for (int i = 0; i < 11; i++, name[0]++)
        callers[i] = gate_caller(&g, name, &anything);
    assert_int_equal(take_all(&g, callers[0], GATE_BODIES), 500);
    for (int i = 1; i < 10; i++)
        assert_true(take_all(&g, callers[i], GATE_BODIES) > 0);
    /* What is larger than all there is does not wrap round. */
    assert_false(gate_take(&g, callers[10], GATE_BODIES, UINT64_MAX));
    gate_give(&g, callers[0], GATE_BODIES, 500);
    assert_true(take_all(&g, callers[10], GATE_BODIES) > 200);
    /* Without an end, at first. */
    assert_true(gate_take(&g, callers[0], GATE_REQUESTS, 1000000));
    gate_done(&g);
}

#define TAKERS 8

struct taker {
    struct gate *gate;
    struct caller *caller;
    _Atomic int64_t *held; /* of all */
    int64_t most;          /* that was ever seen */
    pthread_t thread;
};

static void *take_and_give(void *context)
{
    struct taker *t = context;
    struct gate_pass pass;
    struct vial_error err;

    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t amount = i * 7 % 13 + 1;
        int64_t held;

        if (gate_take(t->gate, t->caller, GATE_BODIES, amount)) {
            held = atomic_fetch_add(t->held, (int64_t)amount) + (int64_t)amount;
            t->most = held > t->most ? held : t->most;
            *t->held -= (int64_t)amount;
            gate_give(t->gate, t->caller, GATE_BODIES, amount);
        }
        if (gate_start(t->gate, t->caller, &pass, &err) == 0)
            gate_end(t->gate, t->caller);
        if (i % 100 == 0 && gate_enter(t->gate, t->caller, -1, &pass, &err) == 0)
            gate_leave(t->gate, &pass, 0);
    }
    return NULL;
}

static void what_threads_take_at_once_is_bounded_and_comes_back(void **state)
{
    const struct quota few = { .concurrency = 3 };
    struct gate g;
    struct taker takers[TAKERS];
    _Atomic int64_t held = 0;
    char name[] = "a";

    (void)state;
    open_gate(&g, 2, TAKERS);
    gate_share(&g, GATE_BODIES, 40);
    for (int i = 0; i < TAKERS; i++) {
        name[0] = (char)('a' + i % 2);
        takers[i] = (struct taker){ .gate = &g,
                                    .caller = gate_caller(&g, name, &few),
                                    .held = &held };
        assert_int_equal(
            pthread_create(&takers[i].thread, NULL, take_and_give, &takers[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++) {
        (void)pthread_join(takers[i].thread, NULL);
        assert_in_range(takers[i].most, 1, 40);
    }
    assert_int_equal(g.taken[GATE_BODIES], 0);
    for (struct caller *c = g.callers; c; c = c->next)
        assert_int_equal(c->has[GATE_BODIES] + c->programs + c->running + c->waiting,
                         0);
    gate_done(&g);
}

static void programs_count_with_runs_and_for_the_rate(void **state)
{
    const struct quota two = { .concurrency = 2, .runs_per_minute = 4 };
    struct vial_error err = { 0 };
    struct gate_pass pass;
    struct gate_pass run;
    struct gate g;
    struct caller *a;

    (void)state;
    open_gate(&g, 5, 5);
    a = gate_caller(&g, "a", &two);
    pass_at_once(&g, a, &run);
    assert_int_equal(gate_start(&g, a, &pass, &err), 0);
    assert_int_equal(gate_start(&g, a, &pass, &err), -1);
    assert_string_equal(err.code, "VIAL-BUSY");
    gate_end(&g, a);
    gate_leave(&g, &run, 0);
    assert_int_equal(gate_start(&g, a, &pass, &err), 0);
    gate_end(&g, a);
    pass_at_once(&g, a, &run);
    gate_leave(&g, &run, 0);
    assert_int_equal(gate_start(&g, a, &pass, &err), -1);
    assert_string_equal(err.code, "VIAL-RATE");
    assert_in_range(pass.retry_s, 1, 61);
    gate_done(&g);
}

/* One held all that it could have with runs that slept, and others had one turn. */
static void a_run_that_lasts_gives_its_turn_on(void **state)
{
    struct gate_pass first[7];
    struct gate_pass others[8];
    struct gate g;
    struct visitor eighth;
    struct caller *a;
    struct caller *b;
    unsigned running;
    unsigned waiting;

    (void)state;
    open_gate(&g, 8, 5);
    a = gate_caller(&g, "a", &anything);
    b = gate_caller(&g, "b", &anything);
    for (int i = 0; i < 7; i++)
        pass_at_once(&g, a, &first[i]);
    bring(&eighth, &g, a);
    wait_for_line(&g, 1);
    gate_last(&g, 32, 0);
    for (int i = 0; i < 7; i++)
        pass_at_once(&g, b, &others[i]);
    /* It has no more than before, and others no fewer than all. */
    gate_count(&g, &running, &waiting);
    assert_int_equal(running, 14);
    assert_int_equal(waiting, 1);
    gate_leave(&g, &first[3], 0);
    (void)pthread_join(eighth.thread, NULL);
    assert_int_equal(eighth.rc, 0);
    first[3] = (struct gate_pass){ 0 };
    for (int i = 0; i < 7; i++) {
        gate_leave(&g, i == 3 ? &eighth.pass : &first[i], 0);
        gate_leave(&g, &others[i], 0);
    }
    assert_int_equal(g.running + g.lasting + a->lasting + b->lasting, 0);
    assert_null(g.turns);
    gate_done(&g);
}

static void who_waits_has_a_turn_once_another_has_lasted(void **state)
{
    struct gate_pass first;
    struct gate g;
    struct visitor second;
    struct caller *a;
    struct caller *b;

    (void)state;
    open_gate(&g, 1, 5);
    gate_last(&g, 4, 50);
    a = gate_caller(&g, "a", &anything);
    b = gate_caller(&g, "b", &anything);
    pass_at_once(&g, a, &first);
    bring(&second, &g, b);
    (void)pthread_join(second.thread, NULL); /* though the first goes on */
    assert_int_equal(second.rc, 0);
    assert_true(first.lasts && !second.pass.lasts);
    gate_leave(&g, &first, 0);
    gate_leave(&g, &second.pass, 0);
    assert_int_equal(g.running + g.lasting, 0);
    gate_done(&g);
}

static void those_that_last_are_bounded_and_shared(void **state)
{
    struct gate_pass passes[8];
    struct gate g;
    struct caller *a;
    struct caller *b;

    (void)state;
    open_gate(&g, 8, 0);
    gate_last(&g, 4, 0);
    a = gate_caller(&g, "a", &anything);
    b = gate_caller(&g, "b", &anything);
    for (int i = 0; i < 6; i++)
        pass_at_once(&g, a, &passes[i]);
    pass_at_once(&g, b, &passes[6]);
    pass_at_once(&g, b, &passes[7]);
    /* A half for one, a half of the rest for the next. */
    assert_int_equal(a->lasting, 2);
    assert_int_equal(b->lasting, 1);
    assert_int_equal(g.running, 5);
    for (int i = 0; i < 8; i++)
        gate_leave(&g, &passes[i], 0);
    assert_int_equal(g.running + g.lasting + a->running + b->running, 0);
    gate_done(&g);
}

static void a_shut_gate_lets_nobody_in(void **state)
{
    struct gate_pass first;
    struct gate g;
    struct visitor second;
    struct gate_pass pass;
    struct vial_error err = { 0 };
    struct caller *a;

    (void)state;
    open_gate(&g, 1, 5);
    a = gate_caller(&g, "a", &anything);
    pass_at_once(&g, a, &first);
    bring(&second, &g, a);
    wait_for_line(&g, 1);
    gate_shut(&g);
    (void)pthread_join(second.thread, NULL);
    assert_error(&second.err, "VIAL-BUSY the daemon is going down");
    assert_int_equal(gate_enter(&g, a, -1, &pass, &err), -1);
    assert_error(&err, "VIAL-BUSY the daemon is going down");
    gate_leave(&g, &first, 0);
    gate_done(&g);
}

static void a_key_gives_the_first_answer_to_its_caller_alone(void **state)
{
    struct keys k;
    struct keys_answer answer = { 0 };
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(keys_init(&k), 0);
    assert_int_equal(keys_begin(&k, "a", "k", "h1", &answer, &err), KEYS_NEW);
    assert_int_equal(keys_begin(&k, "a", "k", "h1", &answer, &err), KEYS_REFUSED);
    assert_error(&err, "VIAL-IDEMPOTENCY the run of this key goes on");
    keys_end(&k, "a", "k", 200, "answer", 6);
    assert_int_equal(keys_begin(&k, "a", "k", "h1", &answer, &err), KEYS_KNOWN);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body.data, "answer");
    assert_int_equal(keys_begin(&k, "a", "k", "h2", &answer, &err), KEYS_REFUSED);
    assert_error(&err, "VIAL-IDEMPOTENCY the key was used for another request");
    assert_int_equal(keys_begin(&k, "b", "k", "h1", &answer, &err), KEYS_NEW);
    keys_drop(&k, "b", "k");
    assert_int_equal(keys_begin(&k, "b", "k", "h9", &answer, &err), KEYS_NEW);
    assert_int_equal(keys_begin(&k, "b", "", "h", &answer, &err), KEYS_REFUSED);
    assert_int_equal(keys_begin(&k, "b", "a\nb", "h", &answer, &err), KEYS_REFUSED);
    blob_done(&answer.body);
    keys_done(&k);
}

static void keys_are_bounded_in_number(void **state)
{
    struct keys k;
    struct keys_answer answer = { 0 };
    struct vial_error err = { 0 };
    char key[16];

    (void)state;
    assert_int_equal(keys_init(&k), 0);
    assert_int_equal(keys_begin(&k, "b", "0", "h", &answer, &err), KEYS_NEW);
    keys_end(&k, "b", "0", 200, "b", 1);
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(keys_begin(&k, "a", key, "h", &answer, &err), KEYS_NEW);
        keys_end(&k, "a", key, 200, key, strlen(key));
    }
    assert_true(k.count <= 4097);
    assert_int_equal(keys_begin(&k, "a", "0", "h", &answer, &err), KEYS_NEW);
    /* Another's is not forgotten for all these. */
    assert_int_equal(keys_begin(&k, "b", "0", "h", &answer, &err), KEYS_KNOWN);
    blob_done(&answer.body);
    keys_done(&k);
}

static void end_one(struct history *h, struct record *r, const char *id)
{
    struct vial_result result = { .verdict = VIAL_OK, .stage = "run" };
    char text[] = "printed";

    (void)snprintf(result.id, sizeof(result.id), "%s", id);
    result.out = (struct vial_stream){ .data = text, .len = 7, .total_bytes = 7 };
    history_end(h, r, &result);
}

static json_t *find(struct history *h, const char *caller, bool others, const char *id)
{
    const struct history_wish wish = { .caller = caller, .others = others, .id = id };
    struct vial_error err = { 0 };

    return history_find(h, &wish, &err);
}

/* What it was refused with, or "". */
static const char *cancel(struct history *h, const char *caller, bool others,
                          const char *id)
{
    const struct history_wish wish = { .caller = caller, .others = others, .id = id };
    static struct vial_error err;

    err = (struct vial_error){ 0 };
    (void)history_cancel(h, &wish, &err);
    return err.code;
}

static double at(json_t *object, const char *name, size_t index)
{
    return json_number_value(json_array_get(json_object_get(object, name), index));
}

static double of_all(json_t *object, const char *name)
{
    return json_number_value(json_object_get(json_object_get(object, "all"), name));
}

static void recent_times_are_exact_and_go_after_five_minutes(void **state)
{
    const int64_t start = INT64_C(1000) * RECENT_SLOT_MS;
    const size_t last = RECENT_SLOTS - 1;
    struct recent r;
    json_t *json;

    (void)state;
    assert_int_equal(recent_init(&r), 0);
    for (int i = 100; i >= 1; i--)
        recent_add(&r, start, i);
    recent_add(&r, start + RECENT_SLOT_MS, 1090);
    /* A slot is told once it is over. */
    json = recent_json(&r, start + RECENT_SLOT_MS + 1);
    assert_int_equal(json_array_size(json_object_get(json, "ended")), RECENT_SLOTS);
    assert_true(at(json, "ended", last) == 100 && of_all(json, "ended") == 100);
    assert_true(at(json, "median_ms", last) == 50 && at(json, "p95_ms", last) == 95);
    assert_true(json_is_null(json_array_get(json_object_get(json, "p95_ms"), 0)));
    json_decref(json);
    json = recent_json(&r, start + 2 * RECENT_SLOT_MS);
    assert_true(at(json, "ended", last - 1) == 100 && at(json, "ended", last) == 1);
    /* One run alone is told with those before it. */
    assert_true(at(json, "median_ms", last) == 51 && at(json, "p95_ms", last) == 96);
    assert_true(of_all(json, "median_ms") == 51 && of_all(json, "p95_ms") == 96);
    json_decref(json);
    json = recent_json(&r, start + (RECENT_SLOTS + 1) * (int64_t)RECENT_SLOT_MS);
    assert_true(of_all(json, "ended") == 1 && at(json, "ended", 0) == 1);
    json_decref(json);
    json = recent_json(&r, start + (RECENT_SLOTS + 2) * (int64_t)RECENT_SLOT_MS);
    assert_true(of_all(json, "ended") == 0);
    json_decref(json);
    recent_done(&r);
}

static void one_slow_run_is_no_spike_and_few_runs_last_half_a_minute(void **state)
{
    const int64_t start = INT64_C(1000) * RECENT_SLOT_MS;
    const size_t last = RECENT_SLOTS - 1;
    struct recent r;
    json_t *json;

    (void)state;
    assert_int_equal(recent_init(&r), 0);
    /* Two in each slot; the newest but one has the slow one. */
    for (int i = 0; i < 40; i++)
        recent_add(&r, start + i / 2 * (int64_t)RECENT_SLOT_MS, i == 36 ? 3400 : 20);
    json = recent_json(&r, start + 20 * (int64_t)RECENT_SLOT_MS);
    for (size_t i = last - 19; i <= last; i++)
        assert_true(at(json, "median_ms", i) == 20 && at(json, "p95_ms", i) == 20);
    json_decref(json);
    json = recent_json(&r, start + 60 * (int64_t)RECENT_SLOT_MS);
    /* Slot 19 was the last with runs; it and the 14 after it tell of them. */
    assert_true(at(json, "median_ms", last - 40 + RECENT_SPAN - 1) == 20);
    assert_true(json_is_null(
        json_array_get(json_object_get(json, "median_ms"), last - 40 + RECENT_SPAN)));
    json_decref(json);
    recent_done(&r);
}

static void more_runs_than_are_kept_are_counted_all_the_same(void **state)
{
    struct recent r;
    json_t *json;

    (void)state;
    assert_int_equal(recent_init(&r), 0);
    /* The first slot has more than fit, and is told without times. */
    for (unsigned i = 0; i < RECENT_RUNS; i++)
        recent_add(&r, INT64_C(700) * RECENT_SLOT_MS, 1);
    for (unsigned i = 0; i < 10; i++)
        recent_add(&r, INT64_C(701) * RECENT_SLOT_MS, 2);
    json = recent_json(&r, INT64_C(702) * RECENT_SLOT_MS);
    assert_true(of_all(json, "ended") == RECENT_RUNS + 10);
    assert_true(at(json, "ended", RECENT_SLOTS - 2) == RECENT_RUNS);
    assert_true(json_is_null(
        json_array_get(json_object_get(json, "median_ms"), RECENT_SLOTS - 2)));
    assert_true(of_all(json, "median_ms") == 2 && of_all(json, "p95_ms") == 2);
    json_decref(json);
    recent_done(&r);
}

static void the_history_shows_what_was_asked(void **state)
{
    struct history h;
    struct vial_error err = { 0 };
    struct record *r;
    json_t *one;

    (void)state;
    assert_int_equal(history_init(&h, &err), 0);
    history_asked(&h, NULL, json_object()); /* a run that is not recorded */
    r = history_begin(&h, "q-1", "a", "bash", -1);
    one = find(&h, "a", false, "q-1");
    assert_true(json_is_null(json_object_get(one, "asked")));
    json_decref(one);
    history_asked(&h, r, json_pack("{s:s}", "program", "echo 1"));
    end_one(&h, r, "r-1");
    one = find(&h, "a", false, "r-1");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(one, "asked"), "program")),
        "echo 1");
    json_decref(one);
    history_done(&h);
}

static void the_history_forgets_the_oldest_but_none_that_runs(void **state)
{
    struct history h;
    struct vial_error err = { 0 };
    struct record *running;
    json_t *list;
    json_t *one;

    (void)state;
    assert_int_equal(history_init(&h, &err), 0);
    history_set(&h, 2, 4);
    running = history_begin(&h, "q-0", "a", "bash", -1);
    for (int i = 1; i <= 4; i++) {
        char id[8];

        (void)snprintf(id, sizeof(id), "r-%d", i);
        end_one(&h, history_begin(&h, id, "a", "bash", -1), id);
    }
    list = history_list(&h, NULL, 10);
    assert_int_equal(json_array_size(list), 3);
    json_decref(list);
    one = find(&h, "a", false, "r-4");
    assert_string_equal(json_string_value(json_object_get(one, "stdout")), "prin");
    json_decref(one);
    assert_null(find(&h, "b", false, "r-4"));
    assert_null(find(&h, "a", false, "r-1"));
    one = find(&h, "a", false, "q-0");
    assert_string_equal(json_string_value(json_object_get(one, "state")), "running");
    json_decref(one);
    end_one(&h, running, "r-0");
    history_done(&h);
}

static void cancelling_makes_the_runs_descriptor_readable(void **state)
{
    struct history h;
    struct vial_error err = { 0 };
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct pollfd ready = { .fd = set, .events = POLLIN };
    struct record *r;

    (void)state;
    assert_int_equal(history_init(&h, &err), 0);
    r = history_begin(&h, "q-1", "a", "bash", set);
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_string_equal(cancel(&h, "b", false, "q-1"), "VIAL-ROUTE");
    assert_string_equal(cancel(&h, "a", false, "q-1"), "");
    assert_int_equal(poll(&ready, 1, 0), 1);
    history_cancel_all(&h);
    end_one(&h, r, "r-1");
    assert_string_equal(cancel(&h, "a", false, "q-1"), "VIAL-ROUTE");
    history_done(&h);
    (void)close(set);
}

static void nobody_makes_anothers_runs_be_forgotten(void **state)
{
    struct history h;
    struct vial_error err = { 0 };
    struct record *r;
    json_t *one;

    (void)state;
    assert_int_equal(history_init(&h, &err), 0);
    history_set(&h, 8, 16);
    end_one(&h, history_begin(&h, "q-a", "a", "bash", -1), "r-a");
    for (int i = 0; i < 50; i++) {
        r = history_begin(&h, "q-b", "b", "bash", -1);
        end_one(&h, r, "r-b");
    }
    assert_int_equal(h.count, 8);
    one = find(&h, "a", false, "q-a");
    assert_non_null(one);
    json_decref(one);
    history_done(&h);
}

static void a_request_is_named_among_its_callers_own(void **state)
{
    struct history h;
    struct vial_error err = { 0 };
    struct pollfd sets[3];
    struct record *runs[3];
    const char *const callers[] = { "a", "b", "boss" };

    (void)state;
    assert_int_equal(history_init(&h, &err), 0);
    for (int i = 0; i < 3; i++) {
        sets[i] = (struct pollfd){ epoll_create1(EPOLL_CLOEXEC), POLLIN, 0 };
        if (i < 2)
            runs[i] = history_begin(&h, "same", callers[i], "bash", sets[i].fd);
    }
    assert_string_equal(cancel(&h, "boss", true, "same"), "VIAL-CONFLICT");
    assert_null(find(&h, "boss", true, "same"));
    assert_int_equal(poll(sets, 2, 0), 0);
    /* The administrator's own name is its own. */
    runs[2] = history_begin(&h, "same", "boss", "bash", sets[2].fd);
    assert_string_equal(cancel(&h, "boss", true, "same"), "");
    assert_int_equal(poll(sets, 2, 0), 0);
    assert_int_equal(poll(&sets[2], 1, 0), 1);
    end_one(&h, runs[2], "r-2");
    /* One that has ended is not meant any more. */
    end_one(&h, runs[1], "r-1");
    assert_string_equal(cancel(&h, "boss", true, "same"), "");
    assert_int_equal(poll(&sets[0], 1, 0), 1);
    end_one(&h, runs[0], "r-0");
    history_done(&h);
    for (int i = 0; i < 3; i++)
        (void)close(sets[i].fd);
}

static void metrics_put_a_run_into_the_right_buckets(void **state)
{
    struct metrics m;
    struct metrics_gauges g = { .running = 3, .version = "1" };
    struct vial_result r = { .verdict = VIAL_OOM, .limits_hit = VIAL_LIMIT_MEMORY };
    struct str out = { 0 };

    (void)state;
    assert_int_equal(metrics_init(&m), 0);
    (void)snprintf(r.vessel_id, sizeof(r.vessel_id), "v-1");
    r.timing = (struct vial_timing){ 0, 0.7, 30, 400000 };
    metrics_run(&m, &r);
    metrics_http(&m, 503);
    metrics_write(&m, &g, &out);
    assert_non_null(strstr(out.data, "vial_runs_total{verdict=\"oom\"} 1\n"));
    assert_non_null(strstr(out.data, "vial_limits_hit_total{limit=\"memory\"} 1\n"));
    assert_non_null(strstr(out.data, "vial_open_seconds_bucket{le=\"0.0005\"} 0\n"));
    assert_non_null(strstr(out.data, "vial_open_seconds_bucket{le=\"0.001\"} 1\n"));
    assert_non_null(strstr(out.data, "vial_close_seconds_bucket{le=\"300\"} 0\n"));
    assert_non_null(strstr(out.data, "vial_close_seconds_bucket{le=\"+Inf\"} 1\n"));
    assert_non_null(strstr(out.data, "vial_http_responses_total{code=\"5xx\"} 1\n"));
    assert_non_null(strstr(out.data, "vial_runs_active 3\n"));
    str_done(&out);
    metrics_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_caller_keeps_its_name_and_takes_the_newest_quota),
        cmocka_unit_test(a_place_that_gets_free_goes_to_the_next_caller_in_turn),
        cmocka_unit_test(a_newcomer_takes_the_last_place_of_the_longest_line),
        cmocka_unit_test(who_goes_away_leaves_the_line),
        cmocka_unit_test(a_quota_is_used_up_and_says_when_it_is_not),
        cmocka_unit_test(a_callers_own_limit_leaves_room_for_others),
        cmocka_unit_test(a_caller_without_a_limit_leaves_a_place),
        cmocka_unit_test(whoever_takes_all_it_can_leaves_room_for_the_next),
        cmocka_unit_test(what_threads_take_at_once_is_bounded_and_comes_back),
        cmocka_unit_test(programs_count_with_runs_and_for_the_rate),
        cmocka_unit_test(a_run_that_lasts_gives_its_turn_on),
        cmocka_unit_test(who_waits_has_a_turn_once_another_has_lasted),
        cmocka_unit_test(those_that_last_are_bounded_and_shared),
        cmocka_unit_test(a_shut_gate_lets_nobody_in),
        cmocka_unit_test(a_key_gives_the_first_answer_to_its_caller_alone),
        cmocka_unit_test(keys_are_bounded_in_number),
        cmocka_unit_test(recent_times_are_exact_and_go_after_five_minutes),
        cmocka_unit_test(one_slow_run_is_no_spike_and_few_runs_last_half_a_minute),
        cmocka_unit_test(more_runs_than_are_kept_are_counted_all_the_same),
        cmocka_unit_test(the_history_shows_what_was_asked),
        cmocka_unit_test(the_history_forgets_the_oldest_but_none_that_runs),
        cmocka_unit_test(nobody_makes_anothers_runs_be_forgotten),
        cmocka_unit_test(a_request_is_named_among_its_callers_own),
        cmocka_unit_test(cancelling_makes_the_runs_descriptor_readable),
        cmocka_unit_test(metrics_put_a_run_into_the_right_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
