/* SPDX-License-Identifier: Apache-2.0 */

/* Calls that go on after their request was answered (extension "tasks"). A task has
 * a thread of its own; it stays readable for a while after it has ended. */

#include "mcp/task.h"

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/sys.h"
#include "base/thread.h"

#define TASKS_MAX 256u
#define OWN_BYTES                                                                      \
    (UINT64_C(32) << 20) /* of one owner's results, but for a larger one */
#define KEEP_MS (INT64_C(60) * 60 * 1000)
#define POLL_MS 500

static const char *const status_names[] = { "working", "input_required", "completed",
                                            "failed", "cancelled" };

bool task_is_known(const json_t *capabilities)
{
    return json_is_object(
        json_object_get(json_object_get(capabilities, "extensions"), MCP_META "tasks"));
}

int task_fail_unknown(struct rpc_error *err)
{
    return rpc_fail(err, RPC_CAPABILITY, 400,
                    json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions",
                              MCP_META "tasks"),
                    "Missing required client capability");
}

static bool is_over(enum task_status status)
{
    return status == TASK_COMPLETED || status == TASK_FAILED ||
           status == TASK_CANCELLED;
}

static void signal_fd(int fd)
{
    const uint64_t one = 1;

    (void)!write(fd, &one, sizeof one);
}

bool task_set_status(struct task *t, enum task_status status)
{
    if (is_over(t->status))
        return false;
    t->status = status;
    clock_stamp(t->updated, 3);
    if (is_over(status))
        t->ended_ns = clock_now_ns();
    (void)pthread_cond_broadcast(&t->mcp->changed);
    return true;
}

/* It has no result any more. */
static void give_back(struct task *t)
{
    budget_give(t->mcp->options.gate.budget, BUDGET_MEMORY, t->owner, t->bytes);
    t->bytes = 0;
}

static void task_free(struct task *t)
{
    give_back(t);
    work_done(&t->work);
    outbox_done(&t->outbox);
    (void)close(t->cancel_fd);
    (void)close(t->ended_fd);
    json_decref(t->result);
    json_decref(t->error);
    json_decref(t->asked);
    free(t->owner);
    free(t->correlation);
    free(t);
}

/* With the lock held: the oldest that may be forgotten, of OWNER's (NULL: of all), or
 * NULL; and how many there are. */
static struct task **find_stale(struct mcp *mcp, const char *owner, unsigned *count)
{
    struct task **oldest = NULL;

    *count = 0;
    for (struct task **at = &mcp->tasks; *at; at = &(*at)->next) {
        if (owner && strcmp((*at)->owner, owner) != 0)
            continue;
        (*count)++;
        if ((*at)->over && !(*at)->attached)
            oldest = at;
    }
    return oldest;
}

/* Where there are several owners, one may have a half of all. */
static bool has_share(struct mcp *mcp, const char *owner)
{
    unsigned own;

    (void)find_stale(mcp, owner, &own);
    return *owner && own >= TASKS_MAX / 2;
}

static struct task *take_out(struct mcp *mcp, struct task **at)
{
    struct task *t = *at;

    *at = t->next;
    mcp->task_count--;
    return t;
}

/* With the lock held: takes one out that may be forgotten, for one more of OWNER's. */
static struct task *take_stale(struct mcp *mcp, const char *owner)
{
    int64_t before_ns = clock_now_ns() - KEEP_MS * 1000000;
    bool share = has_share(mcp, owner);
    unsigned count;
    struct task **oldest = find_stale(mcp, share ? owner : NULL, &count);

    if (!oldest ||
        ((*oldest)->ended_ns > before_ns && !share && mcp->task_count < TASKS_MAX))
        return NULL;
    return take_out(mcp, oldest);
}

static bool add(struct mcp *mcp, struct task *t)
{
    struct task *stale;
    bool room;

    (void)pthread_mutex_lock(&mcp->lock);
    stale = take_stale(mcp, t->owner);
    room = mcp->task_count < TASKS_MAX && !has_share(mcp, t->owner);
    if (room) {
        t->next = mcp->tasks;
        mcp->tasks = t;
        mcp->task_count++;
        mcp->task_threads++;
    }
    (void)pthread_mutex_unlock(&mcp->lock);
    if (stale)
        task_free(stale);
    return room;
}

/* Removes it although it never ran. */
static void unadd(struct mcp *mcp, struct task *t)
{
    struct task **at = &mcp->tasks;

    (void)pthread_mutex_lock(&mcp->lock);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    mcp->task_count--;
    mcp->task_threads--;
    (void)pthread_mutex_unlock(&mcp->lock);
}

static json_t *error_json_of(const struct rpc_error *err)
{
    return json_pack("{s:i, s:s, s:O*}", "code", (int)err->code, "message",
                     err->message, "data", err->data);
}

static uint64_t bytes_of(const struct mcp *mcp, const char *owner)
{
    uint64_t bytes = 0;

    for (const struct task *t = mcp->tasks; t; t = t->next)
        if (strcmp(t->owner, owner) == 0)
            bytes += t->bytes;
    return bytes;
}

/* With the lock held: the owner's older results make room for T's. */
static bool pay(struct task *t, uint64_t bytes)
{
    struct vial_budget *budget = t->mcp->options.gate.budget;
    unsigned count;
    bool good;

    for (;;) {
        struct task **oldest = find_stale(t->mcp, t->owner, &count);

        good = (!oldest || bytes_of(t->mcp, t->owner) + bytes <= OWN_BYTES) &&
               budget_take(budget, BUDGET_MEMORY, t->owner, bytes);
        if (good || !oldest)
            break;
        task_free(take_out(t->mcp, oldest));
    }
    t->bytes = good ? bytes : 0;
    return good;
}

static void finish(struct task *t, struct mcp_answer *answer)
{
    auto_rpc_error struct rpc_error err = { 0 };
    json_t *result = NULL;
    int rc = answer_result(answer, &result, &err);
    size_t bytes;

    if (rc == 0 && !json_object_get(result, "resultType"))
        (void)json_object_set_new(result, "resultType", json_string("complete"));
    if (rc < 0 && err.code == 0)
        (void)rpc_fail(&err, RPC_INTERNAL, 0, NULL, "Internal error: no memory");
    bytes = rc == 0 ? json_dumpb(result, NULL, 0, JSON_COMPACT) : 0;
    (void)pthread_mutex_lock(&t->mcp->lock);
    if (!is_over(t->status) && !pay(t, bytes))
        rc = rpc_fail(&err, RPC_INTERNAL, 503, json_pack("{s:s}", "code", "VIAL-BUSY"),
                      "there is no memory left for this result");
    if (task_set_status(t, rc == 0 ? TASK_COMPLETED : TASK_FAILED)) {
        t->result = rc == 0 ? ptr_take(&result) : NULL;
        t->error = rc == 0 ? NULL : error_json_of(&err);
    }
    json_decref(result);
    signal_fd(t->ended_fd);
    t->over = true;
    t->mcp->task_threads--;
    (void)pthread_cond_broadcast(&t->mcp->changed);
    (void)pthread_mutex_unlock(&t->mcp->lock);
}

static void *run_thread(void *context)
{
    struct task *t = context;
    struct mcp_answer answer = { 0 };

    work_call(&t->work, &answer);
    finish(t, &answer);
    answer_done(&answer);
    return NULL;
}

static void make_id(char out[40])
{
    char low[20], high[20];

    sys_make_id('t', low);
    sys_make_id('t', high);
    (void)snprintf(out, 40, "t-%s%s", low + 2, high + 2);
}

/* Takes what W has. */
static struct task *task_new(struct work *w)
{
    struct task *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->mcp = w->mcp;
    t->owner = strdup(w->public.owner);
    t->correlation = w->public.correlation ? strdup(w->public.correlation) : NULL;
    t->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (outbox_init(&t->outbox) < 0 || !t->owner || t->cancel_fd < 0 ||
        t->ended_fd < 0) {
        task_free(t);
        return NULL;
    }
    t->attached = true;
    make_id(t->id);
    clock_stamp(t->created, 3);
    clock_stamp(t->updated, 3);
    t->work = *w;
    w->params = w->capabilities = w->token = NULL;
    w->held = (struct str){ 0 };
    t->work.public.core = &t->work;
    t->work.public.owner = t->owner;
    t->work.public.correlation = t->correlation;
    t->work.public.cancel_fd = t->cancel_fd;
    t->work.x = NULL;
    t->work.task = t;
    return t;
}

static bool start(struct task *t)
{
    if (!add(t->mcp, t))
        return false;
    if (thread_start_alone(THREAD_STACK, run_thread, t) == 0)
        return true;
    unadd(t->mcp, t);
    return false;
}

/* With the lock held. */
static json_t *view(const struct task *t)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:i}", "taskId", t->id, "status",
                     status_names[t->status], "createdAt", t->created, "lastUpdatedAt",
                     t->updated, "ttlMs", (json_int_t)KEEP_MS, "pollIntervalMs",
                     POLL_MS);
}

/* The request that began it goes its own way: with the result if it is there
 * already, else with the task. */
static json_t *detach(struct task *t)
{
    json_t *result = NULL;

    (void)pthread_mutex_lock(&t->mcp->lock);
    t->attached = false;
    if (t->status == TASK_COMPLETED) { /* nobody knows of it, to ask for it again */
        result = ptr_take(&t->result);
        give_back(t);
    } else {
        result = view(t);
        if (result)
            (void)json_object_set_new(result, "resultType", json_string("task"));
    }
    (void)pthread_mutex_unlock(&t->mcp->lock);
    return result;
}

static bool is_readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return poll(&p, 1, 0) > 0;
}

int task_run(struct work *w, json_t **result, struct rpc_error *err)
{
    struct mcp_exchange *x = w->x;
    struct task *t = task_new(w);

    if (t && !start(t)) {
        task_free(t);
        t = NULL;
    }
    if (!t)
        return rpc_fail(err, RPC_INTERNAL, 503, NULL, "too many tasks");
    outbox_pass_on(&t->outbox, x, t->ended_fd, t->mcp->options.task_after_ms);
    /* Given up before it became a task: nobody will ever ask for it. */
    if (is_readable(x->cancel_fd)) {
        signal_fd(t->cancel_fd);
        (void)pthread_mutex_lock(&t->mcp->lock);
        while (!t->over)
            (void)pthread_cond_wait(&t->mcp->changed, &t->mcp->lock);
        (void)pthread_mutex_unlock(&t->mcp->lock);
    }
    *result = detach(t);
    return *result ? 0 : -1;
}

void task_send(struct task *task, json_t *message)
{
    bool attached;

    (void)pthread_mutex_lock(&task->mcp->lock);
    attached = task->attached;
    (void)pthread_mutex_unlock(&task->mcp->lock);
    if (attached)
        outbox_put(&task->outbox, message);
    else
        json_decref(message);
}

/* With the lock held: the task a request is about, if it is its owner's. */
static struct task *find(struct mcp_exchange *x, struct rpc_error *err)
{
    const char *id = rpc_text(x->message->params, "taskId");

    for (struct task *t = x->mcp->tasks; id && t; t = t->next)
        if (strcmp(t->id, id) == 0 && strcmp(t->owner, x->owner) == 0)
            return t;
    (void)rpc_fail(err, RPC_PARAMS, 0, json_pack("{s:s*}", "taskId", id),
                   "Unknown taskId");
    return NULL;
}

/* With the lock held: how it stands, and what it asks for or has come to. */
static json_t *whole_view(const struct task *t)
{
    json_t *whole = view(t);

    if (whole && t->status == TASK_INPUT)
        (void)json_object_set(whole, "inputRequests", t->asked);
    if (whole && t->status == TASK_COMPLETED)
        (void)json_object_set(whole, "result", t->result);
    if (whole && t->status == TASK_FAILED)
        (void)json_object_set(whole, "error", t->error);
    return whole;
}

int task_get(struct mcp_exchange *x, const struct era *era, json_t **result,
             struct rpc_error *err)
{
    const struct task *t;

    (void)era;
    (void)pthread_mutex_lock(&x->mcp->lock);
    t = find(x, err);
    *result = t ? whole_view(t) : NULL;
    (void)pthread_mutex_unlock(&x->mcp->lock);
    return *result ? 0 : -1;
}

/* No tool of ours asks for input: there is nothing to do with it. */
int task_update(struct mcp_exchange *x, const struct era *era, json_t **result,
                struct rpc_error *err)
{
    const json_t *responses = json_object_get(x->message->params, "inputResponses");
    bool found;

    (void)era;
    if (!json_is_object(responses))
        return rpc_fail(err, RPC_PARAMS, 400, NULL,
                        "Invalid params: inputResponses is not an object");
    (void)pthread_mutex_lock(&x->mcp->lock);
    found = find(x, err) != NULL;
    (void)pthread_mutex_unlock(&x->mcp->lock);
    *result = found ? json_object() : NULL;
    return found ? 0 : -1;
}

int task_cancel(struct mcp_exchange *x, const struct era *era, json_t **result,
                struct rpc_error *err)
{
    struct task *t;

    (void)era;
    (void)pthread_mutex_lock(&x->mcp->lock);
    t = find(x, err);
    if (t && task_set_status(t, TASK_CANCELLED))
        signal_fd(t->cancel_fd);
    (void)pthread_mutex_unlock(&x->mcp->lock);
    if (!t)
        return -1;
    *result = json_object();
    return 0;
}

void task_end_all(struct mcp *mcp)
{
    (void)pthread_mutex_lock(&mcp->lock);
    for (struct task *t = mcp->tasks; t; t = t->next) {
        (void)task_set_status(t, TASK_CANCELLED);
        signal_fd(t->cancel_fd);
    }
    while (mcp->task_threads > 0)
        (void)pthread_cond_wait(&mcp->changed, &mcp->lock);
    (void)pthread_mutex_unlock(&mcp->lock);
    while (mcp->tasks) {
        struct task *next = mcp->tasks->next;

        task_free(mcp->tasks);
        mcp->tasks = next;
    }
}
