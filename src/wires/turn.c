/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/turn.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/sha256.h"
#include "model/request.h"
#include "wires/wires.h"

#define OUTPUT_MOST  (INT64_C(64) << 20)
#define COMPILE_SAYS "4m"
#define RETRY_MS     250

void outcome_done(struct outcome *o)
{
    stage_done(&o->compile);
    stage_done(&o->run);
}

bool program_is_late(const struct vial_error *err)
{
    return fail_is(err, VIAL_E_BUSY) || fail_is(err, VIAL_E_RATE);
}

int program_limit(struct vial_request *req, enum field_id id, int64_t value,
                  struct vial_error *err)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%" PRId64 "%s", value,
                   fields[id].type == FIELD_MS ? "ms" : "");
    return request_set_text(req, id, text, strlen(text), "request", err);
}

int64_t program_most(const struct call *c, enum field_id id, int64_t wanted)
{
    int64_t most = policy_cap(&c->gen->settings->policy, id);

    return wanted < most ? wanted : most;
}

const char *program_path(const char *name)
{
    if (str_starts(name, "/work/"))
        name += strlen("/work/");
    while (str_starts(name, "./"))
        name += 2;
    return path_is_plain_relative(name, strlen(name)) ? name : NULL;
}

int program_file(struct vial_request *req, const char *name, const char *data,
                 size_t len, unsigned mode, struct vial_error *err)
{
    const char *path = program_path(name);
    struct file_list *files = &req->files;
    struct file_in *grown;

    if (!path)
        return fail(err, VIAL_E_PATH, "file '%.200s' lies outside /work", name);
    grown = reallocarray(files->items, files->count + 1, sizeof(*grown));
    if (!grown)
        return fail_memory(err);
    files->items = grown;
    grown += files->count;
    *grown = (struct file_in){ .path = strdup(path), .mode = mode };
    files->count++;
    req->set |= FIELD_BIT(FIELD_ID_files);
    if (!grown->path || blob_set(&grown->content, data, len) < 0)
        return fail_memory(err);
    return 0;
}

/* What the operator keeps of output is what may be printed here: nothing is cut
 * silently. */
int64_t program_output_most(const struct call *c)
{
    const struct settings *s = c->gen->settings;
    int64_t most = policy_cap(&s->policy, FIELD_ID_output_limit);
    int64_t usual = request_amount(&s->defaults, FIELD_ID_output_limit);

    if (!str_starts(s->origin[FIELD_ID_output_limit], "built-in") && usual < most)
        most = usual;
    return most < OUTPUT_MOST ? most : OUTPUT_MOST;
}

/* Waits a little before the next try. False: there is none. */
static bool try_again(const struct call *c, int cancel_fd, int64_t until_ns,
                      const struct vial_error *err)
{
    struct pollfd gone = { .fd = cancel_fd, .events = POLLIN };

    if (!program_is_late(err) || c->serve->draining || clock_now_ns() > until_ns)
        return false;
    return poll(&gone, 1, RETRY_MS) == 0;
}

/* The lower of what the settings and the client say; 0: it says nothing. */
static int64_t patience(const struct call *c, int64_t client_ms)
{
    int64_t ms = c->gen->settings->serve.queue_timeout;

    return client_ms && client_ms < ms ? client_ms : ms;
}

static int take_turn(struct call *c, int cancel_fd, int64_t patience_ms,
                     struct gate_pass *pass, struct vial_error *err)
{
    int64_t until_ns = clock_now_ns() + patience_ms * 1000000;
    int rc;

    do {
        fail_clear(err);
        rc = gate_enter_within(&c->serve->gate, c->caller, cancel_fd, patience_ms, pass,
                               err);
    } while (rc < 0 && try_again(c, cancel_fd, until_ns, err));
    c->retry_s = pass->retry_s;
    return rc;
}

int program_turn(struct call *c, int cancel_fd, struct gate_pass *pass,
                 struct vial_error *err)
{
    return take_turn(c, cancel_fd, patience(c, 0), pass, err);
}

/* What was never started, as there was no room for it. */
static bool was_turned_away(const struct stage *s, struct vial_error *err)
{
    if (s->unpaid)
        (void)fail(err, VIAL_E_BUSY, "there is no memory left for its output");
    else if (s->verdict == VIAL_DENIED)
        *err = s->error;
    else
        return false;
    return true;
}

static int run_once(const struct program *p, const struct vial_request *req,
                    struct stage *out, unsigned *retry_s, struct vial_error *err)
{
    struct job job = { .call = p->call,
                       .req = req,
                       .cancel_fd = p->cancel_fd,
                       .output = stage_output,
                       .context = out,
                       .patience_ms = patience(p->call, p->patience_ms),
                       .room_fd = -1 };

    stage_done(out);
    out->budget = p->call->serve->budget;
    out->who = p->call->who.name;
    out->in_order = p->in_order;
    if (job_run(&job, &out->result, retry_s, err) < 0)
        return -1;
    stage_end(out, out->result);
    return was_turned_away(out, err) ? -1 : 0;
}

static int run_patiently(const struct program *p, const struct vial_request *req,
                         struct stage *out, struct vial_error *err)
{
    int64_t until_ns =
        clock_now_ns() + patience(p->call, p->patience_ms) * INT64_C(1000000);
    unsigned retry_s = 1;
    int rc;

    do {
        fail_clear(err);
        rc = run_once(p, req, out, &retry_s, err);
    } while (rc < 0 && try_again(p->call, p->cancel_fd, until_ns, err));
    p->call->retry_s = retry_s;
    return rc;
}

static void hash_text(struct sha256 *h, const char *text, size_t len)
{
    uint64_t size = len;

    sha256_add(h, &size, sizeof(size));
    sha256_add(h, text ? text : "", len);
}

static void hash_list(struct sha256 *h, const struct strv *list)
{
    hash_text(h, (const char *)&list->count, sizeof(list->count));
    for (size_t i = 0; i < list->count; i++)
        hash_text(h, list->items[i], strlen(list->items[i]));
}

/* Whose it is, and all that a compiler can see of it. */
static void make_key(const struct program *p, char out[65])
{
    const struct vial_request *r = p->req;
    struct sha256 h;

    sha256_init(&h);
    hash_text(&h, (const char *)&p->call->gen->number, sizeof(p->call->gen->number));
    hash_text(&h, (const char *)&p->compile, sizeof(p->compile));
    hash_text(&h, p->call->who.name, strlen(p->call->who.name));
    hash_text(&h, r->language, strlen(r->language));
    hash_text(&h, r->code.data, r->code.len);
    hash_text(&h, r->words.file, r->words.file ? strlen(r->words.file) : 0);
    hash_list(&h, &r->words.compile_argv);
    hash_list(&h, &r->words.run_argv);
    hash_list(&h, &r->env);
    for (size_t i = 0; i < r->files.count; i++) {
        hash_text(&h, r->files.items[i].path, strlen(r->files.items[i].path));
        hash_text(&h, r->files.items[i].content.data, r->files.items[i].content.len);
    }
    sha256_text(&h, out);
}

/* A request for the compiler alone, with its own limits. */
static int compiler_request(const struct program *p, struct vial_request **out,
                            struct vial_error *err)
{
    static const enum field_id of_runs[] = { FIELD_ID_stdin,    FIELD_ID_args,
                                             FIELD_ID_outputs,  FIELD_ID_timeout,
                                             FIELD_ID_cpu_time, FIELD_ID_file_size,
                                             FIELD_ID_pids };
    auto_vial_request struct vial_request *req = NULL;
    int64_t ms = p->compile.timeout_ms ? p->compile.timeout_ms : p->req->timeout;

    if (vial_request_new(&req, err) < 0 || request_fill(req, p->req, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(of_runs) / sizeof(of_runs[0]); i++)
        request_unset(req, of_runs[i]);
    if (program_limit(req, FIELD_ID_timeout, ms, err) < 0 ||
        program_limit(req, FIELD_ID_compile_timeout, ms, err) < 0 ||
        vial_request_set(req, "output_limit", COMPILE_SAYS, err) < 0 ||
        vial_request_set(req, "output_max", COMPILE_SAYS, err) < 0)
        return -1;
    if (p->compile.memory_bytes &&
        program_limit(req, FIELD_ID_memory, p->compile.memory_bytes, err) < 0)
        return -1;
    if (p->compile.cpu_ms &&
        program_limit(req, FIELD_ID_cpu_time, p->compile.cpu_ms, err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

static int compile(const struct program *p, struct compiled *to, struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;
    auto_vial_result struct vial_result *told = NULL;
    struct call *c = p->call;
    const struct vial_watch watch = { .cancel_fd = p->cancel_fd, .stdin_fd = -1 };
    const struct vial_session_options options = { .caller = c->who.name,
                                                  .correlation = c->id,
                                                  .watch = &watch };
    struct gate_pass pass;
    int rc;

    if (compiler_request(p, &req, err) < 0 ||
        take_turn(c, p->cancel_fd, patience(c, p->patience_ms), &pass, err) < 0)
        return -1;
    rc = inside_compile_told(c->gen->engine, req, &options, &to->made, &told, err);
    gate_leave(&c->serve->gate, &pass,
               told ? told->usage.cpu_user_ms + told->usage.cpu_system_ms : 0);
    if (rc < 0 || !told || told->verdict == VIAL_FAILED)
        return rc;
    return stage_copy(&to->told, told) < 0 ? fail_memory(err) : 0;
}

/* The compiler's limits are not the run's. */
static void drop_compile_limits(const struct program *p, struct vial_request *made)
{
    static const enum field_id of_compiler[] = {
        FIELD_ID_timeout, FIELD_ID_output_limit, FIELD_ID_output_max, FIELD_ID_cpu_time
    };

    for (size_t i = 0; i < sizeof(of_compiler) / sizeof(of_compiler[0]); i++)
        request_unset(made, of_compiler[i]);
    if (p->compile.memory_bytes)
        request_unset(made, FIELD_ID_memory);
}

/* The program, compiled, from whoever did it. A program that does not compile is kept
 * as well; what did not go well for another reason is tried again. */
static int find_compiled(const struct program *p, struct compiled **out,
                         struct vial_error *err)
{
    struct compiled_cache *cache = &p->call->serve->compiled;
    struct compiled *found;
    char key[65];
    int rc = 0;

    make_key(p, key);
    found = compiled_take(cache, key, p->cancel_fd);
    if (!found)
        return fail(err, VIAL_E_CANCELLED, "the client has gone");
    if (found->state == COMPILED_IN_WORK) {
        rc = compile(p, found, err);
        if (found->made)
            drop_compile_limits(p, found->made);
        compiled_made(cache, found,
                      found->made ||
                          (found->told.there && found->told.verdict == VIAL_NONZERO));
    }
    if (rc < 0)
        compiled_release(cache, found);
    else
        *out = found;
    return rc;
}

/* What was compiled, with what this run has of its own. */
static int lay_over(const struct program *p, const struct vial_request *made,
                    struct vial_request **out, struct vial_error *err)
{
    static const enum field_id of_source[] = { FIELD_ID_language, FIELD_ID_code,
                                               FIELD_ID_files, FIELD_ID_env,
                                               FIELD_ID_compile_timeout };
    auto_vial_request struct vial_request *req = NULL;

    if (vial_request_new(&req, err) < 0 || request_fill(req, p->req, err) < 0)
        return -1;
    wording_done(&req->words);
    for (size_t i = 0; i < sizeof(of_source) / sizeof(of_source[0]); i++)
        request_unset(req, of_source[i]);
    if (request_fill(req, made, err) < 0 || request_join_args(req, err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

static int copy_stage(const struct program *p, struct stage *to,
                      const struct stage *from, struct vial_error *err)
{
    struct vial_result as = { .verdict = from->verdict,
                              .exit_code = from->exit_code,
                              .signal = from->signal,
                              .out = { from->out.data, from->out.len, 0, false },
                              .err = { from->err.data, from->err.len, 0, false },
                              .timing.run_ms = from->wall_ms,
                              .usage.cpu_user_ms = from->cpu_ms,
                              .usage.memory_peak_bytes = from->memory_bytes,
                              .error = from->error };

    to->budget = p->call->serve->budget;
    to->who = p->call->who.name;
    if (!from->there || stage_copy(to, &as) == 0)
        return 0;
    return was_turned_away(to, err) ? -1 : fail_memory(err);
}

static int run_compiled(const struct program *p, const struct compiled *compiled,
                        struct outcome *out, struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;

    if (copy_stage(p, &out->compile, &compiled->told, err) < 0)
        return -1;
    if (!compiled->made)
        return 0;
    if (lay_over(p, compiled->made, &req, err) < 0)
        return -1;
    return run_patiently(p, req, &out->run, err);
}

/* Both steps in one vessel: where the policy has no plain commands, or what was made is
 * too large to be moved. */
static int run_whole(const struct program *p, struct outcome *out,
                     struct vial_error *err)
{
    bool compiles = inside_compiles(p->call->gen->engine, p->req);

    if (p->compile.timeout_ms &&
        program_limit(p->req, FIELD_ID_compile_timeout, p->compile.timeout_ms, err) < 0)
        return -1;
    if (run_patiently(p, p->req, &out->run, err) < 0)
        return -1;
    if (str_eq(out->run.result->stage, "compile")) {
        out->compile = out->run;
        out->run = (struct stage){ 0 };
    } else if (compiles) {
        out->compile.there = true; /* and has said nothing */
    }
    return 0;
}

/* A wire may have a bound of its own, below ours. */
static int bound_output(const struct program *p, struct vial_error *err)
{
    int64_t most = program_output_most(p->call);

    if (request_has(p->req, output_max) && p->req->output_max <= most)
        return 0;
    return program_limit(p->req, FIELD_ID_output_max, most, err);
}

int program_run(struct program *p, struct outcome *out, struct vial_error *err)
{
    struct compiled_cache *cache = &p->call->serve->compiled;
    struct compiled *compiled = NULL;
    int rc;

    if (bound_output(p, err) < 0 || job_check(p->call, p->req, err) < 0)
        return -1;
    if (!inside_compiles(p->call->gen->engine, p->req))
        return run_whole(p, out, err);
    if (find_compiled(p, &compiled, err) < 0)
        return -1;
    if (compiled->made || (compiled->told.there && compiled->told.verdict != VIAL_OK))
        rc = run_compiled(p, compiled, out, err);
    else
        rc = run_whole(p, out, err);
    compiled_release(cache, compiled);
    return rc;
}

int program_compile(struct program *p, struct vial_request **made, struct stage *told,
                    struct vial_error *err)
{
    struct compiled *compiled = NULL;
    int rc = 0;

    *made = NULL;
    if (job_check(p->call, p->req, err) < 0)
        return -1;
    if (!inside_compiles(p->call->gen->engine, p->req))
        return 0;
    if (find_compiled(p, &compiled, err) < 0)
        return -1;
    if (!compiled->made && (!compiled->told.there || compiled->told.verdict == VIAL_OK))
        rc = fail(err, VIAL_E_INTERNAL, "what was compiled cannot be moved");
    if (rc == 0)
        rc = copy_stage(p, told, &compiled->told, err);
    if (rc == 0 && compiled->made)
        rc = lay_over(p, compiled->made, made, err);
    compiled_release(&p->call->serve->compiled, compiled);
    return rc;
}
