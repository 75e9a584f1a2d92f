/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session/cell.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/fail.h"
#include "engine/engine.h"
#include "engine/record/audit_events.h"

#define GRACE_MS     2000 /* for a cell to stop after it was interrupted */
#define INTERRUPTS   2    /* the first is lost on a cell that has not yet begun */
#define CANCEL_MS    50   /* the same for one that was cancelled */
#define LOOK_MS      10   /* how often the caller is looked after */
#define DISPLAYS_MAX 256u
#define DISPLAY_MAX  (64u << 20) /* bytes of all frames of a cell but streams */
#define PAY_STEP     (UINT64_C(64) << 10)
#define PIECE_COST   512u /* of a piece of the order, in a tree and as text */

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

/* LENGTH more of KIND came. What is beyond the bound is not lost, only its place. */
static void add_piece(struct vial_context *c, struct cell *cell, enum cell_kind kind,
                      size_t length)
{
    struct cell_piece *last = cell->pieces ? &cell->order[cell->pieces - 1] : NULL;

    if (cell->order_full || length == 0)
        return;
    if (last && last->kind == kind) {
        last->length += length;
        return;
    }
    if (cell->pieces == CELL_PIECES || !afford(c, cell, PIECE_COST)) {
        cell->order_full = true;
        return;
    }
    cell->order[cell->pieces++] = (struct cell_piece){ kind, length };
}

static size_t characters(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void add_stream(struct vial_context *c, struct cell *cell, const json_t *frame)
{
    const char *name = json_string_value(json_object_get(frame, "name"));
    const json_t *text = json_object_get(frame, "text");
    bool is_err = name && strcmp(name, "stderr") == 0;
    struct output *o = &cell->kept[is_err];
    size_t len = json_string_length(text);
    size_t fits;

    if (!json_is_string(text))
        return;
    fits = output_room_text(o, json_string_value(text), len);
    if (cell->watch && cell->watch->output && len > 0)
        (void)cell->watch->output(cell->watch->context, is_err ? 2 : 1,
                                  json_string_value(text), len);
    if (!afford(c, cell, stream_cost(json_string_value(text), fits)))
        fits = 0;
    output_add(o, json_string_value(text), fits);
    add_piece(c, cell, is_err ? CELL_STDERR : CELL_STDOUT,
              characters(json_string_value(text), fits));
    if (fits == len)
        return;
    output_close(o);
    output_add(o, json_string_value(text) + fits, len - fits); /* which counts */
}

/* Who follows the cell is told at once. */
static int keep_display(struct cell *cell, json_t *data, struct vial_error *err)
{
    const struct vial_watch *watch = cell->watch;
    auto_free char *text = NULL;

    if (json_array_append(cell->displays, data) < 0)
        return fail_memory(err);
    if (!watch || !watch->displayed)
        return 0;
    text = json_dumps(data, JSON_COMPACT);
    if (!text)
        return fail_memory(err);
    watch->displayed(watch->context, text);
    return 0;
}

static int add_display(struct vial_context *c, struct cell *cell, const json_t *frame,
                       struct vial_error *err)
{
    auto_json json_t *data = json_incref(json_object_get(frame, "data"));

    cell->display_bytes += c->frame;
    if (json_array_size(cell->displays) >= DISPLAYS_MAX ||
        cell->display_bytes > DISPLAY_MAX)
        return context_nonsense(c, "a cell displays too much", err);
    if (!json_is_object(data))
        return context_nonsense(c, "a display is no object", err);
    add_piece(c, cell, CELL_DISPLAY, 1);
    if (!afford(c, cell, 3 * (uint64_t)c->frame)) {
        json_decref(data);
        data = json_pack("{s:s}", "text/plain",
                         "[left out: there is no memory left for it]");
    }
    return keep_display(cell, data, err);
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

/* While the session was paused, no time went by for the cell. */
static void stand_still(struct vial_context *c, struct cell *cell)
{
    int64_t slept_ns = session_slept_ns(c->session);

    cell->deadline_ns += slept_ns - cell->slept_ns;
    cell->slept_ns = slept_ns;
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
            stand_still(c, cell);
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
    return judge_cell(json_string_value(json_object_get(done, "status")),
                      cell->interrupts > 0);
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

static json_t *order_of(const struct cell *cell)
{
    static const char *const kinds[] = { "stdout", "stderr", "display" };
    json_t *list = json_array();

    for (size_t i = 0; i < cell->pieces; i++)
        (void)json_array_append_new(
            list, json_pack("{s:s, s:I}", "kind", kinds[cell->order[i].kind], "length",
                            (json_int_t)cell->order[i].length));
    return list;
}

static json_t *result_tree_of(const struct cell *cell, const json_t *done)
{
    const struct output *out = &cell->kept[0], *err = &cell->kept[1];

    return json_pack("{s:s, s:s%, s:s%, s:b, s:b, s:o, s:O, s:o, s:o}", "status",
                     status_of(cell, done), "stdout", out->data ? out->data : "",
                     out->head_len, "stderr", err->data ? err->data : "", err->head_len,
                     "stdout_truncated", (int)output_is_cut(out), "stderr_truncated",
                     (int)output_is_cut(err), "value", object_of(done, "value"),
                     "displays", cell->displays, "order", order_of(cell), "error",
                     object_of(done, "error"));
}

/* Its streams are used up: the tree has a copy. */
static int make_text(struct vial_context *c, struct cell *cell, const json_t *done,
                     char **out, struct vial_error *err)
{
    struct writing w = { .c = c, .cell = cell };
    auto_json json_t *tree = result_tree_of(cell, done);

    cell->held = cell->kept[0].head_len + cell->kept[1].head_len + cell->display_bytes +
                 cell->pieces * PIECE_COST; /* the tree */
    outputs_done(cell->kept);
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
    end.out_bytes = cell->kept[0].head_len;
    end.err_bytes = cell->kept[1].head_len;
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

    for (int i = 0; i < 2; i++)
        output_init(&cell->kept[i], KEEP_HEAD,
                    (size_t)c->session->plan->limits.output_bytes, NULL);
    cell->displays = json_array();
    cell->order = calloc(CELL_PIECES, sizeof *cell->order);
    if (!cell->displays || !cell->order)
        (void)fail_memory(err);
    else if (run_recorded(c, cell, &what, &done, err) == 0)
        rc = make_text(c, cell, done, json, err);
    outputs_done(cell->kept);
    json_decref(cell->displays);
    free(cell->order);
    budget_give(c->session->engine->budget, BUDGET_MEMORY, c->session->options.caller,
                cell->paid);
    return rc;
}
