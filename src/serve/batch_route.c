/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/thread.h"
#include "model/members.h"
#include "model/result.h"
#include "serve/compile_once.h"
#include "serve/job.h"
#include "serve/route.h"

#define ITEMS_MOST   100000u
#define THREADS_MOST 64u

/* Several threads take the next item each, until there is none; all write to one
 * stream, under the lock. */
struct batch {
    struct call *call;
    struct stream stream;
    json_t *base;  /* a request that each item is laid over, or NULL */
    json_t *items; /* borrowed */
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

/* Arguments of the item come behind those that the program itself has. */
static void lay_args(json_t *req)
{
    json_t *command = json_object_get(req, "command");
    json_t *args = json_object_get(req, "args");

    if (!command || !args)
        return;
    (void)json_array_extend(command, args);
    (void)json_object_del(req, "args");
}

static char *request_of(struct batch *b, size_t index)
{
    json_t *item = json_array_get(b->items, index);
    auto_json json_t *req = b->base ? json_deep_copy(b->base) : json_incref(item);

    if (b->base && json_is_object(item)) {
        (void)json_object_update(req, item);
        lay_args(req);
    }
    return json_dumps(req, JSON_COMPACT | JSON_ENCODE_ANY);
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

    if (strcmp(err->code, fail_code_text(VIAL_E_BUSY)) != 0 || b->call->serve->draining)
        return false;
    return poll(&gone, 1, (int)retry_s * 1000) == 0;
}

static int run_item(struct batch *b, const struct vial_request *req,
                    struct vial_result **out, struct vial_error *err)
{
    struct job job = { .call = b->call, .req = req, .cancel_fd = b->gone_fd };
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
    auto_free char *text = request_of(b, index);
    struct vial_error err = { 0 };

    if (!text)
        (void)fail_memory(&err);
    if (!text || job_request(b->call, text, strlen(text), &req, &err) < 0 ||
        run_item(b, req, &result, &err) < 0) {
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

/* Each thread is one of the caller's requests under way. */
static unsigned start(struct batch *b, pthread_t *threads, unsigned wanted)
{
    unsigned count = 0;

    struct gate *gate = &b->call->serve->gate;

    while (count < wanted && gate_take(gate, b->call->caller, GATE_REQUESTS, 1)) {
        if (thread_start(&threads[count], THREAD_STACK, work, b) != 0) {
            gate_give(gate, b->call->caller, GATE_REQUESTS, 1);
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
    unsigned count;

    if (parallel > 0 && parallel < wanted)
        wanted = (unsigned)parallel;
    if (wanted > json_array_size(b->items))
        wanted = (unsigned)json_array_size(b->items);
    if (wanted > THREADS_MOST)
        wanted = THREADS_MOST;
    /* The handler's own thread is one of them. */
    count = wanted > 1 ? start(b, threads, wanted - 1) : 0;
    (void)work(b);
    for (unsigned i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    gate_give(&b->call->serve->gate, b->call->caller, GATE_REQUESTS, count);
    conclude(b);
}

/* Inputs that change the program itself need their own compilation. */
static bool same_program(json_t *items)
{
    static const char *const own[] = { "language", "code",  "command",         "files",
                                       "driver",   "image", "compile_timeout", "rootfs",
                                       "seccomp",  "mounts" };

    for (size_t i = 0; i < json_array_size(items); i++)
        for (size_t n = 0; n < sizeof(own) / sizeof(own[0]); n++)
            if (json_object_get(json_array_get(items, i), own[n]))
                return false;
    return true;
}

static int read_batch(struct call *c, json_t *body, struct batch *b, int64_t *parallel,
                      struct vial_error *err)
{
    json_t *requests = NULL;
    json_t *inputs = NULL;
    const struct member table[] = { { "requests", MEMBER_LIST, &requests },
                                    { "request", MEMBER_MAP, &b->base },
                                    { "inputs", MEMBER_LIST, &inputs },
                                    { "parallel", MEMBER_COUNT, parallel },
                                    { 0 } };

    if (members_read(body, table, NULL, err) < 0)
        return -1;
    if ((requests != NULL) == (inputs != NULL) || (b->base != NULL) != (inputs != NULL))
        return fail(err, VIAL_E_VALUE,
                    "give either 'requests', or 'request' and 'inputs'");
    b->items = requests ? requests : inputs;
    b->call = c;
    if (json_array_size(b->items) > ITEMS_MOST)
        return fail(err, VIAL_E_VALUE, "a batch has at most %u runs", ITEMS_MOST);
    return 0;
}

void batch_run(struct call *c)
{
    auto_json json_t *body = NULL;
    auto_json json_t *compiled = NULL;
    struct batch b = { .gone_fd = web_gone_fd(c->web) };
    struct vial_error err = { 0 };
    enum stream_form form;
    int64_t parallel = 0;

    if (stream_wanted(c, &form, &err) < 0 || call_body(c, &body, &err) < 0 ||
        read_batch(c, body, &b, &parallel, &err) < 0 ||
        (b.base && same_program(b.items) &&
         compile_once(c, b.base, &compiled, &err) < 0)) {
        call_error(c, &err);
        return;
    }
    if (compiled)
        b.base = compiled;
    if (pthread_mutex_init(&b.lock, NULL) != 0 ||
        stream_start(&b.stream, c, form == STREAM_NONE ? STREAM_NDJSON : form) < 0)
        return;
    (void)stream_event(&b.stream, "start",
                       json_pack("{s:s, s:I, s:b}", "request", c->id, "count",
                                 (json_int_t)json_array_size(b.items), "compiled",
                                 compiled != NULL));
    run_all(&b, parallel);
    (void)pthread_mutex_destroy(&b.lock);
}
