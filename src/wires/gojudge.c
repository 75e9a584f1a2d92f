/* SPDX-License-Identifier: Apache-2.0 */

/* go-judge's routes. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/thread.h"
#include "model/value.h"
#include "web/multipart.h"
#include "wires/faces.h"
#include "wires/gojudge_cmd.h"
#include "wires/gojudge_stream.h"
#include "wires/gojudge_ws.h"
#include "wires/verdict_words.h"
#include "wires/wire_files.h"
#include "wires/wires.h"

#define CMDS_MOST        16u
#define CGROUPS          "/sys/fs/cgroup"
#define CONTROLLERS      CGROUPS "/cgroup.controllers"
#define CONTROLLERS_MOST 4096u

#if defined(__x86_64__)
    #define OWN_ARCH "amd64"
#else
    #define OWN_ARCH "arm64"
#endif

static void say(struct call *c, unsigned status, const char *text)
{
    auto_json json_t *said = json_string(text);

    call_given(c, status, said ? json_dumps(said, JSON_ENCODE_ANY) : NULL);
}

static void refuse(struct call *c, unsigned status, const struct vial_error *err)
{
    if (status == 401) {
        call_text(c, status, NULL, "", 0);
        return;
    }
    if (status == 429)
        status = 503;
    if (status == 503)
        wires_try_later(c);
    if (status == 403 || status == 422)
        status = 400; /* what the request is at fault for */
    say(c, status, err->message);
}

struct request {
    struct call *call;
    int cancel_fd;
    const struct cmd_live *live;
    struct cmd cmds[CMDS_MOST];
    size_t count;
};

/* One end of a pipe: which command, which stream. -1: there is no such. */
static int read_end(const struct request *r, json_t *given, int64_t *index, int64_t *fd)
{
    *index = json_integer_value(json_object_get(given, "index"));
    *fd = json_integer_value(json_object_get(given, "fd"));
    return json_is_object(given) && *index >= 0 && (size_t)*index < r->count ? 0 : -1;
}

static int open_proxy(struct cmd_stream *s, const struct call *c, json_t *given,
                      struct vial_error *err)
{
    const char *name = value_string(json_object_get(given, "name"));

    if (!json_is_true(json_object_get(given, "proxy")) || !name)
        return 0;
    free(s->name);
    s->name = strdup(name);
    s->proxy = true;
    s->most = json_integer_value(json_object_get(given, "max"));
    if (s->most <= 0 || s->most > program_output_most(c))
        s->most = program_output_most(c);
    return s->name ? 0 : fail_memory(err);
}

static int open_pipe(struct request *r, json_t *given, struct vial_error *err)
{
    int64_t from, from_fd, to, to_fd;
    struct cmd_stream *s;
    int ends[2];

    if (read_end(r, json_object_get(given, "in"), &from, &from_fd) < 0 ||
        read_end(r, json_object_get(given, "out"), &to, &to_fd) < 0)
        return fail(err, VIAL_E_VALUE, "pipeMapping: no such command");
    if ((from_fd != 1 && from_fd != 2) || to_fd != 0)
        return fail(err, VIAL_E_VALUE,
                    "pipeMapping: only from 1 or 2 to 0 is supported");
    s = &r->cmds[from].streams[from_fd];
    if (s->pipe_fd >= 0 || r->cmds[to].stdin_fd >= 0)
        return fail(err, VIAL_E_VALUE, "pipeMapping: an end is used twice");
    if (cmd_pipe(ends, err) < 0)
        return -1;
    r->cmds[to].stdin_fd = ends[0];
    s->pipe_fd = ends[1];
    return open_proxy(s, r->call, given, err);
}

static int read_request(struct request *r, json_t *body, struct vial_error *err)
{
    json_t *cmds = json_object_get(body, "cmd");
    json_t *pipes = json_object_get(body, "pipeMapping");

    if (json_array_size(cmds) == 0)
        return fail(err, VIAL_E_VALUE, "no cmd provided");
    if (json_array_size(cmds) > CMDS_MOST)
        return fail(err, VIAL_E_VALUE, "at most %u cmd are run at once", CMDS_MOST);
    for (size_t i = 0; i < json_array_size(cmds); i++) {
        struct cmd *cmd = &r->cmds[r->count++];

        *cmd = (struct cmd){
            .live = r->live, .index = i, .stdin_fd = -1, .cancel_fd = r->cancel_fd
        };
        cmd->streams[1].pipe_fd = cmd->streams[2].pipe_fd = -1;
        if (cmd_read(r->call, json_array_get(cmds, i), cmd, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < json_array_size(pipes); i++)
        if (open_pipe(r, json_array_get(pipes, i), err) < 0)
            return -1;
    return 0;
}

static void *work(void *cmd)
{
    cmd_run(cmd);
    return NULL;
}

/* All at once; the last in our own thread. */
static void run_cmds(struct request *r)
{
    pthread_t threads[CMDS_MOST];
    bool started[CMDS_MOST] = { false };

    for (size_t i = 0; i + 1 < r->count; i++) {
        started[i] = thread_start(&threads[i], THREAD_STACK, work, &r->cmds[i]) == 0;
        if (!started[i])
            (void)fail(&r->cmds[i].error, VIAL_E_BUSY, "there is no thread left");
    }
    cmd_run(&r->cmds[r->count - 1]);
    for (size_t i = 0; i + 1 < r->count; i++)
        if (started[i])
            (void)pthread_join(threads[i], NULL);
}

static double cpu_of(const struct request *r)
{
    double ms = 0;

    for (size_t i = 0; i < r->count; i++)
        ms += r->cmds[i].stage.cpu_ms;
    return ms;
}

/* A command that was refused is the request's fault. What is told are the commands' own
 * bytes: they stay until it is written. */
static int tell_results(struct request *r, const struct gojudge_teller *to,
                        struct vial_error *err)
{
    auto_larges struct json_larges larges = { 0 };
    auto_json json_t *told = NULL;
    uint64_t bytes = 0;

    for (size_t i = 0; i < r->count; i++)
        if (r->cmds[i].stage.there && r->cmds[i].stage.verdict == VIAL_DENIED) {
            *err = r->cmds[i].stage.error;
            return -1;
        }
    told = json_array();
    for (size_t i = 0; i < r->count; i++)
        (void)json_array_append_new(told, cmd_result(&r->cmds[i], &larges, &bytes));
    if (!told)
        return fail_memory(err);
    to->tell(to->context, told, &larges, bytes);
    return 0;
}

/* Its commands, with the turn of PASS: one of them is the run that it was given for,
 * the others count as programs do. */
static int run_in_turn(struct request *r, struct gate_pass *pass,
                       struct vial_error *err)
{
    struct call *c = r->call;
    unsigned others = (unsigned)r->count - 1;
    struct gate_pass more = { 0 };
    int rc = 0;

    if (others)
        rc = gate_start_several(&c->serve->gate, c->caller, others, &more, err);
    if (rc == 0)
        run_cmds(r);
    for (unsigned i = 0; rc == 0 && i < others; i++)
        gate_end(&c->serve->gate, c->caller);
    gate_leave(&c->serve->gate, pass, cpu_of(r));
    return rc;
}

int gojudge_run(struct call *c, json_t *body, int cancel_fd,
                const struct cmd_live *live, const struct gojudge_teller *to,
                struct vial_error *err)
{
    auto_free struct request *r = calloc(1, sizeof(*r));
    struct gate_pass pass;
    int rc;

    if (!r)
        return fail_memory(err);
    r->call = c;
    r->cancel_fd = cancel_fd;
    r->live = live;
    rc = read_request(r, body, err);
    if (live)
        live->begun(live->context);
    if (rc == 0)
        rc = program_turn(c, cancel_fd, &pass, err);
    if (rc == 0)
        rc = run_in_turn(r, &pass, err);
    if (rc == 0)
        rc = tell_results(r, to, err);
    for (size_t i = 0; i < r->count; i++)
        cmd_done(&r->cmds[i]);
    return rc;
}

static void answer(void *context, json_t *results, const struct json_larges *larges,
                   uint64_t bytes)
{
    const struct call_tree tree = {
        .json = results, .larges = larges, .bytes = bytes, .style = JSON_STYLE_COMPACT
    };

    call_tree(context, 200, &tree, NULL);
}

static void run(struct call *c)
{
    const struct gojudge_teller to = { answer, c };
    struct vial_error err = { 0 };

    if (call_body(c, &err) < 0 ||
        gojudge_run(c, c->body, web_gone_fd(c->web), NULL, &to, &err) < 0)
        face_refuse(c, &face_gojudge, &err);
}

static void list_files(struct call *c)
{
    call_json(c, 200, wire_files_list(c));
}

static void keep_file(struct call *c, const struct part *p)
{
    char id[24];

    if (wire_files_add(c, p->filename, p->data, p->len, id) == 0)
        say(c, 200, id);
    else
        say(c, 413, "there is no room for more files");
}

/* A form with a part `file`. */
static void put_file(struct call *c)
{
    const char *type = web_header(c->web, "Content-Type");
    struct multipart form;
    struct part part;
    size_t len;
    const char *body = web_body(c->web, &len);

    if (type && multipart_begin(&form, type, body, len))
        while (multipart_next(&form, &part) > 0)
            if (strcmp(part.name, "file") == 0) {
                keep_file(c, &part);
                return;
            }
    say(c, 400, "http: no such file");
}

static void get_file(struct call *c)
{
    struct blob content = { 0 };
    auto_free char *name = NULL;

    if (wire_files_get(c, c->params[0], &content, &name) < 0) {
        call_text(c, 404, NULL, "", 0);
        return;
    }
    (void)web_set_header(c->web, "Content-Disposition", "attachment");
    (void)web_set_header(c->web, "X-Content-Type-Options", "nosniff");
    call_text(c, 200, "application/octet-stream", content.data, content.len);
    blob_done(&content);
}

static void delete_file(struct call *c)
{
    call_text(c, wire_files_remove(c, c->params[0]) ? 200 : 404, NULL, "", 0);
}

/* What this one can do: its clients look at these. */
static json_t *abilities(void)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b}",
        "buildVersion", "v1.12.2", "goVersion", "vial", "platform", OWN_ARCH, "os",
        "linux", "copyOutOptional", 1, "pipeProxy", 1, "symlink", 1,
        "addressSpaceLimit", 0, "stream", 1, "procPeak", 1, "copyOutTruncate", 1,
        "pipeProxyZeroCopy", 0, "fixSymlinkEscape", 1);
}

static void version(struct call *c)
{
    call_json(c, 200, abilities());
}

static bool has_word(const struct blob *list, const char *word)
{
    size_t len = 0;

    for (const char *at = list->data; at && *at; at += len + (at[len] != '\0')) {
        len = strcspn(at, " \n");
        if (len == strlen(word) && strncmp(at, word, len) == 0)
            return true;
    }
    return false;
}

/* Of this host: v2 has a list of them, "cpu memory pids", v1 a directory for each. What
 * a vessel's limits are held by is in vial's own results. */
static json_t *controllers(bool v2)
{
    static const char *const names[] = { "cpu", "cpuset", "cpuacct", "memory", "pids" };
    struct blob list = { 0 };
    struct vial_error none = { 0 };
    json_t *told = json_array();

    if (v2)
        (void)io_read_file(CONTROLLERS, CONTROLLERS_MOST, &list, &none);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), CGROUPS "/%s", names[i]);
        if (v2 ? has_word(&list, names[i]) : access(path, F_OK) == 0)
            (void)json_array_append_new(told, json_string(names[i]));
    }
    blob_done(&list);
    return told;
}

static void config(struct call *c)
{
    bool v2 = access(CONTROLLERS, F_OK) == 0;
    json_t *told = abilities();

    (void)json_object_set_new(told, "fileStorePath", json_string(""));
    (void)json_object_set_new(told, "runnerConfig",
                              json_pack("{s:i, s:o}", "cgroupType", v2 ? 2 : 1,
                                        "cgroupControllers", controllers(v2)));
    call_json(c, 200, told);
}

static const struct face_route routes_here[] = {
    { "POST", "/run", SCOPE_RUN, run },
    { "GET", "/ws", SCOPE_RUN, gojudge_ws },
    { "GET", "/stream", SCOPE_RUN, gojudge_stream },
    { "GET", "/file", SCOPE_RUN, list_files },
    { "POST", "/file", SCOPE_RUN, put_file },
    { "GET", "/file/{}", SCOPE_RUN, get_file },
    { "DELETE", "/file/{}", SCOPE_RUN, delete_file },
    { "GET", "/version", SCOPE_NONE, version },
    { "GET", "/config", SCOPE_NONE, config },
    { 0 },
};

static const char *const bases[] = { "", NULL };

const struct face face_gojudge = {
    .name = "gojudge",
    .bases = bases,
    .routes = routes_here,
    .refuse = refuse,
};
