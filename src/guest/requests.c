/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>

#include "guest/guest.h"

/* Grants travel in lumps, as on the host's side. */
#define GRANT_AT (WIRE_CREDIT / 4)

static struct job *find(const struct guest *g, uint32_t channel)
{
    for (size_t i = 0; i < g->job_count; i++)
        if (g->jobs[i]->channel == channel && !g->jobs[i]->over)
            return g->jobs[i];
    return NULL;
}

static struct job *new_job(struct guest *g, const struct frame *f, enum job_kind kind)
{
    struct job *j;

    /* A number is new once: late frames of an ended channel are told apart. */
    if (!g->jailed || f->channel <= g->last_channel || f->stream)
        guest_end(g, 1);
    j = g->job_count < WIRE_MAX_CHANNELS ? malloc(sizeof *j) : NULL;
    if (!j) {
        guest_end(g, 1);
    } else {
        *j = (struct job){ .channel = f->channel,
                           .kind = kind,
                           .may_send = { 0, WIRE_CREDIT, WIRE_CREDIT },
                           .may_come = WIRE_CREDIT,
                           .status_fd = -1,
                           .fd = { -1, -1, -1 },
                           .file_fd = -1,
                           .dir_fd = -1,
                           .name_fd = -1,
                           .denied_fd = -1,
                           .deadline_ns = NEVER };
        j->root = g->root_channel == f->channel;
        g->jobs[g->job_count++] = j;
        g->last_channel = f->channel;
    }
    return j;
}

static void on_hello(struct guest *g, struct unpack *u)
{
    uint32_t version = unpack_u32(u);

    if (g->greeted || !unpack_finished(u) || version != WIRE_VERSION)
        guest_end(g, 1);
    g->greeted = true;
}

static void on_jail(struct guest *g, struct unpack *u)
{
    if (g->jailed || jail_read(u, &g->jail) < 0)
        guest_end(g, 1);
    g->jailed = true;
    jail_enter(g);
}

static void on_adopt(struct guest *g, struct unpack *u)
{
    uint32_t pid = unpack_u32(u);

    if (!g->jailed || !unpack_finished(u))
        guest_end(g, 1);
    adopt_take(g, (pid_t)pid, g->came_fd);
    g->came_fd = -1;
}

/* Before all else: its listeners are there before any program is. */
static void on_gate(struct guest *g, struct unpack *u)
{
    if (g->greeted)
        guest_end(g, 1);
    gate_start(g, u, g->came_fd);
    g->came_fd = -1;
}

static void on_exec(struct guest *g, const struct frame *f, struct unpack *u)
{
    struct job *j = new_job(g, f, JOB_EXEC);
    struct exec_message m;

    if (exec_read(u, &m) < 0)
        guest_end(g, 1);
    exec_start(g, j, &m);
    exec_done(&m);
}

static void on_put(struct guest *g, const struct frame *f, struct unpack *u)
{
    struct job *j = new_job(g, f, JOB_PUT);
    struct put_message m;

    if (put_read(u, &m) < 0)
        guest_end(g, 1);
    files_put(g, j, &m);
    free(m.path);
    free(m.attributes);
}

static void on_get(struct guest *g, const struct frame *f, struct unpack *u)
{
    struct job *j = new_job(g, f, JOB_GET);
    struct get_message m;

    if (get_read(u, &m) < 0)
        guest_end(g, 1);
    files_get(g, j, &m);
    free(m.path);
}

static void on_list(struct guest *g, const struct frame *f, struct unpack *u)
{
    struct job *j = new_job(g, f, JOB_LIST);
    char *path = unpack_text(u);

    if (!unpack_finished(u))
        guest_end(g, 1);
    files_list(g, j, path);
    free(path);
}

static void on_name(struct guest *g, const struct frame *f, struct unpack *u)
{
    struct job *j = new_job(g, f, JOB_NAME);
    struct name_message m;

    if (name_read(u, &m) < 0)
        guest_end(g, 1);
    names_do(g, j, &m);
    free(m.path);
    free(m.to);
}

static void on_watch(struct guest *g, const struct frame *f, struct unpack *u)
{
    struct job *j = new_job(g, f, JOB_WATCH);
    struct watch_message m;

    if (watch_read(u, &m) < 0)
        guest_end(g, 1);
    dir_watch_start(g, j, &m);
    free(m.path);
}

/* The vessel is about to be frozen, or was. */
static void on_hold(struct guest *g, const struct frame *f, struct unpack *u)
{
    struct job *j = new_job(g, f, JOB_NAME);
    uint32_t still = unpack_u32(u);
    uint64_t now = now_ns();

    if (!unpack_finished(u) || still > 1)
        guest_end(g, 1);
    for (size_t i = 0; !still && g->held_ns && i < g->job_count; i++)
        if (g->jobs[i]->kind == JOB_EXEC && g->jobs[i]->deadline_ns != NEVER)
            g->jobs[i]->deadline_ns += now - g->held_ns;
    if (!still || !g->held_ns)
        g->held_ns = still ? now : 0;
    files_finish(g, j, 0, "");
}

/* Which channel comes next is not known here: some numbers are passed over. */
static void on_root(struct guest *g, const struct frame *f)
{
    if (!g->jailed || f->channel <= g->last_channel || f->stream || f->len)
        guest_end(g, 1);
    g->root_channel = f->channel;
}

static void on_stop(struct guest *g, const struct frame *f)
{
    if (!g->jailed || f->channel || f->len)
        guest_end(g, 1);
    if (!g->stopping)
        kill_tree_ask(g);
    g->stopping = true;
}

void host_used(struct guest *g, struct job *j, size_t len)
{
    struct pack p = { 0 };

    j->owed += (uint32_t)len;
    if (j->owed < GRANT_AT)
        return;
    pack_u32(&p, j->owed);
    stream_put(g, j, WIRE_CREDIT_, 0, &p);
    pack_done(&p);
    j->may_come += j->owed;
    j->owed = 0;
}

static void on_data(struct guest *g, struct job *j, const struct frame *f)
{
    bool takes = j->kind == JOB_EXEC || j->kind == JOB_PUT;

    if (!takes || f->stream || f->len > j->may_come || j->input_ended)
        guest_end(g, 1);
    j->may_come -= f->len;
    if (j->kind == JOB_EXEC)
        exec_input(g, j, f->payload, f->len);
    else
        files_put_data(g, j, f->payload, f->len);
}

static void on_eof(struct guest *g, struct job *j, const struct frame *f)
{
    bool takes = j->kind == JOB_EXEC || j->kind == JOB_PUT;

    if (!takes || f->stream || f->len || j->input_ended)
        guest_end(g, 1);
    j->input_ended = true;
    if (j->kind == JOB_EXEC)
        exec_input_end(g, j);
    else
        files_put_end(g, j);
}

static void on_credit(struct guest *g, struct job *j, const struct frame *f,
                      struct unpack *u)
{
    uint32_t more = unpack_u32(u);

    if (!unpack_finished(u) || f->stream < 1 ||
        more > WIRE_CREDIT - j->may_send[f->stream])
        guest_end(g, 1);
    j->may_send[f->stream] += more;
}

static void on_signal(struct guest *g, struct job *j, struct unpack *u)
{
    uint32_t signal = unpack_u32(u);
    uint32_t whole_tree = unpack_u32(u);

    if (!unpack_finished(u) || j->kind != JOB_EXEC || signal < 1 || signal > 64 ||
        whole_tree > 1)
        guest_end(g, 1);
    if (whole_tree)
        exec_kill(g, j, (int)signal);
    else if (j->pid > 0 && !j->exited)
        (void)kill(j->pid, (int)signal);
}

static void on_resize(struct guest *g, struct job *j, struct unpack *u)
{
    uint32_t size = unpack_u32(u);

    if (!unpack_finished(u) || j->kind != JOB_EXEC)
        guest_end(g, 1);
    exec_resize(j, size);
}

static void on_close(struct guest *g, struct job *j)
{
    if (j->kind == JOB_EXEC)
        exec_close(g, j);
    else
        files_close(g, j);
}

static void on_channel(struct guest *g, const struct frame *f, struct unpack *u)
{
    struct job *j = find(g, f->channel);

    if (!j && (!f->channel || f->channel > g->last_channel))
        guest_end(g, 1);
    if (!j)
        return; /* it ended while this was under way */
    switch (f->type) {
    case WIRE_DATA:
        on_data(g, j, f);
        break;
    case WIRE_EOF:
        on_eof(g, j, f);
        break;
    case WIRE_CREDIT_:
        on_credit(g, j, f, u);
        break;
    case WIRE_SIGNAL:
        on_signal(g, j, u);
        break;
    case WIRE_RESIZE:
        on_resize(g, j, u);
        break;
    case WIRE_CLOSE:
        on_close(g, j);
        break;
    default:
        guest_end(g, 1);
    }
}

void host_frame(struct guest *g, const struct frame *f)
{
    struct unpack u = { .data = f->payload, .len = f->len };

    if (!g->greeted && f->type != WIRE_HELLO && f->type != WIRE_GATE)
        guest_end(g, 1);
    switch (f->type) {
    case WIRE_HELLO:
        on_hello(g, &u);
        break;
    case WIRE_JAIL:
        on_jail(g, &u);
        break;
    case WIRE_ADOPT:
        on_adopt(g, &u);
        break;
    case WIRE_GATE:
        on_gate(g, &u);
        break;
    case WIRE_EXEC:
        on_exec(g, f, &u);
        break;
    case WIRE_PUT:
        on_put(g, f, &u);
        break;
    case WIRE_GET:
        on_get(g, f, &u);
        break;
    case WIRE_LIST:
        on_list(g, f, &u);
        break;
    case WIRE_NAME:
        on_name(g, f, &u);
        break;
    case WIRE_WATCH:
        on_watch(g, f, &u);
        break;
    case WIRE_STOP:
        on_stop(g, f);
        break;
    case WIRE_ROOT:
        on_root(g, f);
        break;
    case WIRE_HOLD:
        on_hold(g, f, &u);
        break;
    default:
        on_channel(g, f, &u);
    }
}
