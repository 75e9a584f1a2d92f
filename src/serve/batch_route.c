/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "model/result.h"
#include "serve/bodies.h"
#include "serve/compiled.h"
#include "serve/job.h"
#include "serve/route.h"

#define ITEMS_MOST   100000u
#define THREADS_MOST 64u

/* Several threads take the next item each, until there is none; all write to one
 * stream, under the lock. */
struct batch {
    struct call *call;
    struct stream stream;
    json_t *base;                  /* a request that each item is laid over, or NULL */
    json_t *items;                 /* borrowed */
    struct vial_request *compiled; /* what BASE became, once for all; or NULL */
    bool keeps;                    /* for the caller's later batches */
    struct compiled *kept;         /* it has COMPILED; or NULL: that is our own */
    uint64_t compiled_bytes;       /* that the caller pays for, as for a body */
    uint64_t copy_bytes;           /* of the request that a thread makes of BASE */
    const char *name;              /* what its caller calls it, or NULL */
    int gone_fd;
    pthread_mutex_t lock;
    size_t next;
    bool stopped;
    unsigned verdicts[METRICS_VERDICTS];
    unsigned refused;
};

static bool take(struct batch *b, size_t *index)
{
    bool more;

    (void)pthread_mutex_lock(&b->lock);
    more = !b->stopped && b->next < json_array_size(b->items);
    if (more)
        *index = b->next++;
    (void)pthread_mutex_unlock(&b->lock);
    return more;
}

static void tell(struct batch *b, size_t index, const char *event, const char *name,
                 json_t *value)
{
    json_t *told = json_pack("{s:I, s:o}", "index", (json_int_t)index, name, value);

    (void)pthread_mutex_lock(&b->lock);
    if (stream_event(&b->stream, event, told) < 0)
        b->stopped = true;
    (void)pthread_mutex_unlock(&b->lock);
}

/* An item over what was compiled: before it, so that its fields count alone; or, where
 * it is kept, behind it, so that lists become longer. */
static int lay_over(struct batch *b, json_t *item, struct vial_request **out,
                    struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;

    if (vial_request_new(&req, err) < 0 ||
        (b->keeps && b->compiled && request_fill(req, b->compiled, err) < 0) ||
        (b->keeps && !b->compiled &&
         request_decode(req, b->base, 0, "request", err) < 0) ||
        (json_is_object(item) && request_decode(req, item, 0, "request", err) < 0) ||
        (!b->keeps && request_fill(req, b->compiled, err) < 0) ||
        request_join_args(req, err) < 0 || job_check(b->call, req, err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

static int request_of(struct batch *b, size_t index, struct vial_request **out,
                      struct vial_error *err)
{
    json_t *item = json_array_get(b->items, index);
    auto_json json_t *whole = NULL;

    if (b->compiled || b->keeps)
        return lay_over(b, item, out, err);
    if (!b->base)
        return job_decode(b->call, item, out, err);
    whole = json_copy(b->base);
    if (!whole)
        return fail_memory(err);
    if (json_is_object(item))
        (void)json_object_update(whole, item);
    return job_decode(b->call, whole, out, err) < 0 ? -1 : request_join_args(*out, err);
}

/* It never started, as too much is under way. */
static bool was_turned_away(struct vial_result *result, struct vial_error *err)
{
    if (result->verdict != VIAL_DENIED || job_status(result) != 503)
        return false;
    *err = result->error;
    return true;
}

/* True: once more. A batch is patient where a single run is refused. */
static bool wait_for_room(struct batch *b, const struct vial_error *err,
                          unsigned retry_s)
{
    struct pollfd gone = { .fd = b->gone_fd, .events = POLLIN };

    if (!fail_is(err, VIAL_E_BUSY) || b->call->serve->draining)
        return false;
    return poll(&gone, 1, (int)retry_s * 1000) == 0;
}

static int run_item(struct batch *b, const struct vial_request *req,
                    struct vial_result **out, struct vial_error *err)
{
    struct job job = {
        .call = b->call, .req = req, .batch = b->name, .cancel_fd = b->gone_fd
    };
    unsigned retry_s = 1;
    int rc;

    do {
        vial_result_free(ptr_take(out));
        fail_clear(err);
        retry_s = 1;
        rc = job_run(&job, out, &retry_s, err);
    } while ((rc < 0 || was_turned_away(*out, err)) && wait_for_room(b, err, retry_s));
    return rc;
}

static void do_item(struct batch *b, size_t index)
{
    auto_vial_request struct vial_request *req = NULL;
    auto_vial_result struct vial_result *result = NULL;
    struct vial_error err = { 0 };

    if (request_of(b, index, &req, &err) < 0 || run_item(b, req, &result, &err) < 0) {
        (void)pthread_mutex_lock(&b->lock);
        b->refused++;
        (void)pthread_mutex_unlock(&b->lock);
        call_refused(b->call, &err);
        tell(b, index, "error", "error", error_json(&err));
        return;
    }
    (void)pthread_mutex_lock(&b->lock);
    b->verdicts[result->verdict]++;
    (void)pthread_mutex_unlock(&b->lock);
    (void)pthread_mutex_lock(&b->lock);
    if (stream_result(&b->stream, json_pack("{s:I}", "index", (json_int_t)index),
                      result) < 0)
        b->stopped = true;
    (void)pthread_mutex_unlock(&b->lock);
}

static void *work(void *context)
{
    struct batch *b = context;
    size_t index;

    while (take(b, &index))
        do_item(b, index);
    return NULL;
}

static void give_places(struct batch *b, unsigned count)
{
    struct gate *gate = &b->call->serve->gate;

    gate_give(gate, b->call->caller, GATE_REQUESTS, count);
    gate_give(gate, b->call->caller, GATE_BODIES, count * b->copy_bytes);
}

/* Each thread is one of the caller's requests under way, and has a copy of what all
 * items have in common, while it waits for its turn as well. */
static bool take_place(struct batch *b)
{
    struct gate *gate = &b->call->serve->gate;

    if (!gate_take(gate, b->call->caller, GATE_REQUESTS, 1))
        return false;
    if (gate_take(gate, b->call->caller, GATE_BODIES, b->copy_bytes))
        return true;
    gate_give(gate, b->call->caller, GATE_REQUESTS, 1);
    return false;
}

static unsigned start(struct batch *b, pthread_t *threads, unsigned wanted)
{
    unsigned count = 0;

    while (count < wanted && take_place(b)) {
        if (thread_start(&threads[count], THREAD_STACK, work, b) != 0) {
            give_places(b, 1);
            break;
        }
        count++;
    }
    return count;
}

static void conclude(struct batch *b)
{
    json_t *verdicts = json_object();

    for (size_t i = 0; result_verdicts[i]; i++)
        if (b->verdicts[i])
            (void)json_object_set_new(verdicts, result_verdicts[i],
                                      json_integer(b->verdicts[i]));
    (void)stream_last(&b->stream, "end",
                      json_pack("{s:I, s:i, s:o}", "count",
                                (json_int_t)json_array_size(b->items), "refused",
                                (int)b->refused, "verdicts", verdicts));
}

static void run_all(struct batch *b, int64_t parallel)
{
    pthread_t threads[THREADS_MOST];
    unsigned wanted = b->call->serve->gate.most;
    size_t body_bytes = 0;
    unsigned count;

    (void)web_body(b->call->web, &body_bytes);
    b->copy_bytes = b->base ? body_bytes + b->compiled_bytes : 0;
    if (parallel > 0 && parallel < wanted)
        wanted = (unsigned)parallel;
    if (wanted > json_array_size(b->items))
        wanted = (unsigned)json_array_size(b->items);
    if (wanted > THREADS_MOST)
        wanted = THREADS_MOST;
    /* The handler's own thread is one of them; it has paid for the body. */
    count = wanted > 1 ? start(b, threads, wanted - 1) : 0;
    (void)work(b);
    for (unsigned i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    give_places(b, count);
    conclude(b);
}

/* Inputs that change the program itself need their own compilation. What is kept was
 * asked to be compiled without their files. */
static bool same_program(const struct batch *b)
{
    static const char *const own[] = { "files",   "language", "code",
                                       "command", "driver",   "image",
                                       "rootfs",  "seccomp",  "compile_timeout",
                                       "mounts",  "volumes" };
    size_t first = b->keeps ? 1 : 0;

    for (size_t i = 0; i < json_array_size(b->items); i++)
        for (size_t n = first; n < sizeof(own) / sizeof(own[0]); n++)
            if (json_object_get(json_array_get(b->items, i), own[n]))
                return false;
    return true;
}

static int read_batch(struct call *c, struct batch *b, int64_t *parallel,
                      struct vial_error *err)
{
    struct batch_body body = { 0 };

    if (job_batch(c, &b->name, err) < 0 || body_read(c, BODY_batch, &body, err) < 0)
        return -1;
    if ((body.requests != NULL) == (body.inputs != NULL) ||
        (body.request != NULL) != (body.inputs != NULL))
        return fail(err, VIAL_E_VALUE,
                    "give either 'requests', or 'request' and 'inputs'");
    if (body.keep && !body.request)
        return fail(err, VIAL_E_VALUE, "'keep' goes with 'request' and 'inputs'");
    b->keeps = body.keep;
    b->base = body.request;
    b->items = body.requests ? body.requests : body.inputs;
    b->call = c;
    *parallel = body.parallel;
    if (json_array_size(b->items) > ITEMS_MOST)
        return fail(err, VIAL_E_VALUE, "a batch has at most %u runs", ITEMS_MOST);
    return 0;
}

static void drop_compiled(struct batch *b)
{
    if (b->kept)
        compiled_release(&b->call->serve->compiled, ptr_take(&b->kept));
    else
        vial_request_free(b->compiled);
    b->compiled = NULL;
    gate_give(&b->call->serve->gate, b->call->caller, GATE_BODIES, b->compiled_bytes);
    b->compiled_bytes = 0;
}

/* What was compiled stays until the last item has ended. A caller who has no room for
 * it has each item compiled instead. */
static void pay_for_compiled(struct batch *b)
{
    struct gate *gate = &b->call->serve->gate;
    uint64_t bytes =
        b->compiled ? (uint64_t)request_amount(b->compiled, FIELD_ID_files) : 0;

    if (gate_take(gate, b->call->caller, GATE_BODIES, bytes))
        b->compiled_bytes = bytes;
    else
        drop_compiled(b);
}

/* As a run of its caller's. */
static int compile_now(struct batch *b, const struct vial_request *req,
                       struct vial_request **out, struct vial_error *err)
{
    struct call *c = b->call;
    const struct vial_session_options options = { .caller = c->who.name,
                                                  .correlation = c->id };
    struct gate_pass pass;
    double cpu_ms = 0;
    int rc;

    if (gate_enter(&c->serve->gate, c->caller, b->gone_fd, &pass, err) < 0)
        return -1;
    rc = inside_compile(c->gen->engine, req, &options, out, &cpu_ms, err);
    gate_leave(&c->serve->gate, &pass, cpu_ms);
    return rc;
}

static int add_to_hash(const char *text, size_t len, void *hash)
{
    sha256_add(hash, text, len);
    return 0;
}

/* Whose it is, under which settings, and all of the request. */
static int make_key(const struct batch *b, char out[65])
{
    static const char what[] = "batch";
    const struct call *c = b->call;
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, what, sizeof(what));
    sha256_add(&h, &c->gen->number, sizeof(c->gen->number));
    sha256_add(&h, c->who.name, strlen(c->who.name) + 1);
    if (json_dump_callback(b->base, add_to_hash, &h, JSON_SORT_KEYS | JSON_COMPACT) < 0)
        return -1;
    sha256_text(&h, out);
    return 0;
}

/* By whoever asks for it first. What could not be compiled is tried again. */
static int find_kept(struct batch *b, struct vial_request *req, struct vial_error *err)
{
    struct compiled_cache *cache = &b->call->serve->compiled;
    char key[65];
    int rc = 0;

    /* Later runs have an id of their own. */
    if (!json_object_get(b->base, "session"))
        request_unset(req, FIELD_ID_session);
    if (make_key(b, key) < 0)
        return fail_memory(err);
    b->kept = compiled_take(cache, key, b->gone_fd);
    if (!b->kept)
        return fail(err, VIAL_E_CANCELLED, "the client has gone");
    if (b->kept->state == COMPILED_IN_WORK) {
        rc = compile_now(b, req, &b->kept->made, err);
        compiled_made(cache, b->kept, b->kept->made != NULL);
    }
    b->compiled = b->kept->made;
    return rc;
}

/* Once for all items. */
static int compile(struct batch *b, struct vial_error *err)
{
    struct call *c = b->call;
    auto_vial_request struct vial_request *req = NULL;
    struct vial_error why = { 0 };
    int rc;

    /* Whatever is wrong with it, the runs will say. */
    if (!b->base || !same_program(b) || job_decode(c, b->base, &req, &why) < 0 ||
        !inside_compiles(c->gen->engine, req))
        return 0;
    rc = b->keeps ? find_kept(b, req, err) : compile_now(b, req, &b->compiled, err);
    if (rc == 0)
        pay_for_compiled(b);
    else
        drop_compiled(b);
    return rc;
}

void batch_run(struct call *c)
{
    struct batch b = { .gone_fd = web_gone_fd(c->web) };
    struct vial_error err = { 0 };
    enum stream_form form;
    int64_t parallel = 0;

    if (stream_wanted(c, &form, &err) < 0 || read_batch(c, &b, &parallel, &err) < 0 ||
        compile(&b, &err) < 0) {
        call_error(c, &err);
        return;
    }
    if (pthread_mutex_init(&b.lock, NULL) != 0 ||
        stream_start(&b.stream, c, form == STREAM_NONE ? STREAM_NDJSON : form) < 0) {
        drop_compiled(&b);
        return;
    }
    (void)stream_event(&b.stream, "start",
                       json_pack("{s:s, s:I, s:b}", "request", c->id, "count",
                                 (json_int_t)json_array_size(b.items), "compiled",
                                 b.compiled != NULL));
    run_all(&b, parallel);
    drop_compiled(&b);
    (void)pthread_mutex_destroy(&b.lock);
}
