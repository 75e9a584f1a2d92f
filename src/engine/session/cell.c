/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session/cell.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/fail.h"
#include "engine/engine.h"
#include "engine/record/audit_session.h"

#define GRACE_MS     2000 /* for a cell to stop after it was interrupted */
#define INTERRUPTS   2    /* the first is lost on a cell that has not yet begun */
#define CANCEL_MS    50   /* the same for one that was cancelled */
#define LOOK_MS      10   /* how often the caller is looked after */
#define DISPLAYS_MAX 256u
#define DISPLAY_MAX  (64u << 20) /* bytes of all frames of a cell but streams */
#define PAY_STEP     (UINT64_C(64) << 10)

/* Memory for so many bytes more. */
static bool afford(struct vial_context *c, struct cell *cell, uint64_t more)
{
    uint64_t need = cell->held + more;
    uint64_t step = 0;

    if (need > cell->paid)
        step = (need - cell->paid + PAY_STEP - 1) / PAY_STEP * PAY_STEP;
    if (!budget_take(c->session->engine->budget, BUDGET_MEMORY,
                     c->session->options.caller, step))
        return false;
    cell->paid += step;
    cell->held = need;
    return true;
}

/* The memory that LEN bytes of a stream take in the end: once in a tree, and in a text
 * that grows by doubling, where some are written with six letters. */
static uint64_t stream_cost(const char *text, size_t len)
{
    uint64_t cost = 3 * (uint64_t)len;

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == '"' || text[i] == '\\')
            cost += UINT64_C(2) * 5;
    return cost;
}

static int fail_afford(struct vial_error *err)
{
    (void)fail(err, VIAL_E_BUSY,
               "there is no memory left for the answer of this cell beside others'");
    return fail_remedy(err, "try again when other answers were read, or print less");
}

static void add_stream(struct vial_context *c, struct cell *cell, const json_t *frame)
{
    const char *name = json_string_value(json_object_get(frame, "name"));
    const json_t *text = json_object_get(frame, "text");
    bool is_err = name && strcmp(name, "stderr") == 0;
    struct str *s = is_err ? &cell->err : &cell->out;
    size_t len = json_string_length(text), room = cell->limit - s->len;

    if (cell->watch && cell->watch->output && len > 0)
        (void)cell->watch->output(cell->watch->context, is_err ? 2 : 1,
                                  json_string_value(text), len);
    if (cell->cut[is_err] || len == 0)
        return;
    if (len > room) {
        cell->cut[is_err] = true;
        len = room; /* but not in the middle of a letter */
        while (len > 0 && ((unsigned char)json_string_value(text)[len] & 0xc0) == 0x80)
            len--;
    }
    if (!afford(c, cell, stream_cost(json_string_value(text), len))) {
        cell->cut[is_err] = true;
        return;
    }
    str_add(s, json_string_value(text), len);
}

static int add_display(struct vial_context *c, struct cell *cell, const json_t *frame,
                       struct vial_error *err)
{
    static const char left_out[] = "[left out: there is no memory left for it]";
    json_t *data = json_object_get(frame, "data");

    cell->display_bytes += c->frame;
    if (json_array_size(cell->displays) >= DISPLAYS_MAX ||
        cell->display_bytes > DISPLAY_MAX)
        return context_nonsense(c, "a cell displays too much", err);
    if (!json_is_object(data))
        return context_nonsense(c, "a display is no object", err);
    if (!afford(c, cell, 3 * (uint64_t)c->frame)) {
        data = json_pack("{s:s}", "text/plain", left_out);
        return json_array_append_new(cell->displays, data) < 0 ? fail_memory(err) : 0;
    }
    return json_array_append(cell->displays, data) < 0 ? fail_memory(err) : 0;
}

/* The deadline has come: first politely, then not. The interpreter ignores what comes
 * between cells, and may take up this one only now. */
static int press(struct vial_context *c, struct cell *cell, struct vial_error *err)
{
    if (cell->interrupts < INTERRUPTS && !cell->cancelled) {
        cell->interrupts++;
        cell->deadline_ns = clock_now_ns() + (int64_t)GRACE_MS * 1000000;
        return vial_exec_signal(c->exec, SIGINT, false, err);
    }
    (void)!vial_exec_signal(c->exec, SIGKILL, true, NULL);
    return context_nonsense(c, "the cell did not stop at its deadline", err);
}

/* A caller that gave up is like a deadline, only sooner. */
static int look_after_caller(struct vial_context *c, struct cell *cell,
                             struct vial_error *err)
{
    struct pollfd p = { .fd = cell->watch->cancel_fd, .events = POLLIN };

    if (cell->cancelled || poll(&p, 1, 0) <= 0)
        return 0;
    cell->cancelled = true;
    cell->deadline_ns = clock_now_ns() + (int64_t)CANCEL_MS * 1000000;
    return vial_exec_signal(c->exec, SIGINT, false, err);
}

/* The next frame, or 0 when it is time to look around. */
static int next_or_look(struct vial_context *c, struct cell *cell, json_t **frame,
                        struct vial_error *err)
{
    int64_t look_ns = clock_now_ns() + (int64_t)LOOK_MS * 1000000;
    bool watched = cell->watch && cell->watch->cancel_fd >= 0;
    int rc;

    if (!watched || look_ns > cell->deadline_ns)
        look_ns = cell->deadline_ns;
    rc = context_next(c, look_ns, frame, err);
    if (rc < 0 || !watched)
        return rc;
    return look_after_caller(c, cell, err) < 0 ? -1 : rc;
}

/* Takes frames until the cell is done; *DONE is the last one. */
static int follow(struct vial_context *c, struct cell *cell, json_t **done,
                  struct vial_error *err)
{
    for (;;) {
        auto_json json_t *frame = NULL;
        int rc = next_or_look(c, cell, &frame, err);

        if (rc < 0)
            return -1;
        if (rc == 0) {
            if (clock_now_ns() >= cell->deadline_ns && press(c, cell, err) < 0)
                return -1;
            continue;
        }
        if (context_is_kind(frame, "done")) {
            *done = json_incref(frame);
            cell->display_bytes += c->frame;
            return afford(c, cell, 3 * (uint64_t)c->frame) ? 0 : fail_afford(err);
        }
        if (context_is_kind(frame, "stream")) {
            add_stream(c, cell, frame);
            continue;
        }
        if (add_display(c, cell, frame, err) < 0)
            return -1;
    }
}

static int send_cell(struct vial_context *c, const char *code, size_t len,
                     struct vial_error *err)
{
    auto_json json_t *request =
        json_pack("{s:I, s:s%}", "id", (json_int_t)++c->cell, "code", code, len);
    auto_free char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    struct str frame = { 0 };
    size_t size, taken;
    int rc;

    if (!text)
        return fail(err, VIAL_E_VALUE,
                    "run a cell: its code is not UTF-8, or holds NUL");
    size = strlen(text);
    for (int shift = 24; shift >= 0; shift -= 8)
        str_putc(&frame, (char)(size >> shift));
    str_add(&frame, text, size);
    if (!str_ok(&frame))
        return fail_memory(err);
    rc = vial_exec_write(c->exec, frame.data, frame.len, CONTEXT_WAIT_MS, &taken, err);
    if (rc == 0 && taken < frame.len)
        rc = context_nonsense(c, "it does not take its code", err);
    str_done(&frame);
    return rc;
}

static const char *status_of(const struct cell *cell, const json_t *done)
{
    const char *status = json_string_value(json_object_get(done, "status"));

    if (!status || (strcmp(status, "ok") != 0 && strcmp(status, "interrupted") != 0))
        status = "error";
    if (cell->interrupts > 0 && strcmp(status, "interrupted") == 0)
        status = "timeout";
    return status;
}

/* An object, or null. */
static json_t *object_of(const json_t *done, const char *key)
{
    json_t *value = json_object_get(done, key);

    return json_is_object(value) ? json_incref(value) : json_null();
}

/* An answer that is being written, and paid for. */
struct writing {
    struct vial_context *c;
    struct cell *cell;
    struct str text;
};

static int write_on(const char *data, size_t len, void *context)
{
    struct writing *w = context;

    if (!afford(w->c, w->cell, 2 * (uint64_t)len))
        return -1;
    str_add(&w->text, data, len);
    return str_ok(&w->text) ? 0 : -1;
}

static json_t *result_tree_of(const struct cell *cell, const json_t *done)
{
    return json_pack("{s:s, s:s%, s:s%, s:b, s:b, s:o, s:O, s:o}", "status",
                     status_of(cell, done), "stdout",
                     cell->out.data ? cell->out.data : "", cell->out.len, "stderr",
                     cell->err.data ? cell->err.data : "", cell->err.len,
                     "stdout_truncated", (int)cell->cut[0], "stderr_truncated",
                     (int)cell->cut[1], "value", object_of(done, "value"), "displays",
                     cell->displays, "error", object_of(done, "error"));
}

/* Its streams are used up: the tree has a copy. */
static int make_text(struct vial_context *c, struct cell *cell, const json_t *done,
                     char **out, struct vial_error *err)
{
    struct writing w = { .c = c, .cell = cell };
    auto_json json_t *tree = result_tree_of(cell, done);

    cell->held = cell->out.len + cell->err.len + cell->display_bytes; /* the tree */
    str_done(&cell->out);
    str_done(&cell->err);
    if (!tree)
        return fail_memory(err);
    if (json_dump_callback(tree, write_on, &w, JSON_COMPACT) < 0) {
        str_done(&w.text);
        return fail_afford(err);
    }
    *out = str_take(&w.text);
    return *out ? 0 : fail_memory(err);
}

/* 0: it has ended, and *DONE says how. */
static int run_recorded(struct vial_context *c, struct cell *cell,
                        const struct recorded_cell *what, json_t **done,
                        struct vial_error *err)
{
    struct cell_end end = { .outcome = "failed", .error = err };
    int64_t begun_ns = clock_now_ns();
    int rc;

    if (record_cell_begin(what, err) < 0)
        return -1;
    rc = send_cell(c, what->code, what->len, err);
    if (rc == 0)
        rc = follow(c, cell, done, err);
    if (rc == 0) {
        end.outcome = status_of(cell, *done);
        end.error = NULL;
    }
    end.duration_ms = clock_ms_between(begun_ns, clock_now_ns());
    end.out_bytes = cell->out.len;
    end.err_bytes = cell->err.len;
    record_cell_end(what, &end);
    return rc;
}

int cell_run(struct vial_context *c, struct cell *cell, const char *code, size_t len,
             char **json, struct vial_error *err)
{
    const struct recorded_cell what = {
        .exec = c->exec,
        .number = c->cell + 1,
        .language = c->language->name,
        .code = code,
        .len = len,
        .correlation = cell->watch ? cell->watch->correlation : NULL,
    };
    auto_json json_t *done = NULL;
    int rc = -1;

    cell->limit = (size_t)c->session->plan->limits.output_bytes;
    cell->displays = json_array();
    if (!cell->displays)
        (void)fail_memory(err);
    else if (run_recorded(c, cell, &what, &done, err) == 0)
        rc = make_text(c, cell, done, json, err);
    str_done(&cell->out);
    str_done(&cell->err);
    json_decref(cell->displays);
    budget_give(c->session->engine->budget, BUDGET_MEMORY, c->session->options.caller,
                cell->paid);
    return rc;
}
