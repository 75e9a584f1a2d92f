/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A guest that was taken over, against the host. The engine is the real one, with its
 * loop, sessions, files and contexts; its driver opens a socket pair, at whose other
 * end a thread says what the input tells it to. It can lie about the output and the end
 * of its own program, and about nothing else.
 *
 * An input: one byte of flags (a run or a session; what the request has), for a session
 * the number of calls and as many bytes, then the guest's part: frames, each of five
 * bytes (type, channel or 0 for the one last asked about, stream, u16 length) and so
 * many of payload. Type 254 is an entry of a directory. Type 255 ends an answer: what
 * follows is said when the host asks for something else, or asks for nothing for a
 * while.
 */

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "engine/engine.h"
#include "fuzz.h"
#include "fuzz_vessel.h"
#include "wire/frame.h"

#include "vial/vial.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define QUIET_MS     4 /* without a question, before the guest speaks unasked */
#define CALLS        12
#define TIMEOUT_MS   2000
#define KEPT         4096
#define NOTICE       512 /* of what was left out */
#define END_OF_REPLY 255
#define ENTRY        254
#define CHANNELS     64
#define HEARD_MAX    (512u << 10) /* more than the host says in one frame here */

enum {
    FLAG_SESSION = 1,
    FLAG_FILES = 2,
    FLAG_OUTPUTS = 4,
    FLAG_ARTIFACTS = 8,
    FLAG_STDIN = 16,
    FLAG_CODE = 32,
    FLAG_MUTE = 64,
    FLAG_RUDE = 128
};

struct guest {
    struct vessel vessel; /* first: drivers embed it */
    pthread_t thread;
    int fd;
    struct bytes says;
    uint8_t flags;
    uint32_t asked; /* the channel of the last question */
    bool execs[CHANNELS];
};

static struct {
    struct vial_engine *engine;
    char dir[64];
    struct bytes says; /* the guest's part of this input */
    uint8_t flags;
} fuzz;

/* The guest. */

static bool send_frame(struct guest *g, const struct frame *f)
{
    uint8_t header[WIRE_HEADER];

    frame_write_header(header, f);
    return send(g->fd, header, sizeof(header), MSG_NOSIGNAL) == WIRE_HEADER &&
           (f->len == 0 ||
            send(g->fd, f->payload, f->len, MSG_NOSIGNAL) == (ssize_t)f->len);
}

/* One entry of a directory as the wire has it today, so that the corpus need not know:
 * its type, its size in four bytes, its name. */
static bool send_entry(struct guest *g, struct frame f, struct bytes b)
{
    char name[256];
    struct list_entry e = { .name = name, .mode = 0644 };
    struct pack p = { 0 };
    struct bytes rest;
    bool sent;

    e.type = (uint32_t)bytes_number(&b, 1);
    e.size = bytes_number(&b, 4);
    rest = bytes_take(&b, sizeof(name) - 1);
    (void)snprintf(name, sizeof(name), "%.*s", (int)rest.len, (const char *)rest.data);
    list_entry_write(&p, &e);
    f.type = WIRE_DATA;
    f.payload = p.data;
    f.len = (uint32_t)p.len;
    sent = send_frame(g, &f);
    pack_done(&p);
    return sent;
}

/* One answer; false when there is nothing more to say, or nobody to hear it. */
static bool say_answer(struct guest *g)
{
    struct bytes *b = &g->says;

    while (b->len > 0) {
        struct frame f = { .type = (uint8_t)bytes_number(b, 1) };
        struct bytes part;

        if (f.type == END_OF_REPLY)
            return true;
        f.channel = (uint32_t)bytes_number(b, 1);
        f.channel = f.channel ? f.channel : g->asked;
        f.stream = (uint8_t)bytes_number(b, 1);
        part = bytes_take(b, bytes_number(b, 2));
        f.len = (uint32_t)part.len;
        f.payload = part.data;
        if (!(f.type == ENTRY ? send_entry(g, f, part) : send_frame(g, &f)))
            return false;
    }
    return false;
}

static bool is_question(struct guest *g, const struct frame *f)
{
    switch (f->type) {
    case WIRE_EXEC:
        g->execs[f->channel % CHANNELS] = true;
        return true;
    case WIRE_PUT:
    case WIRE_GET:
    case WIRE_LIST:
    case WIRE_NAME:
    case WIRE_WATCH:
        g->execs[f->channel % CHANNELS] = false;
        return true;
    case WIRE_DATA:
        return g->execs[f->channel % CHANNELS];
    default:
        return false;
    }
}

static bool hear_frames(struct guest *g, uint8_t *buf, size_t *have)
{
    struct frame f;
    long size = 0;
    size_t at = 0;

    while ((size = frame_read(buf + at, *have - at, WIRE_MAX_TO_GUEST, &f)) > 0) {
        at += (size_t)size;
        if (!is_question(g, &f))
            continue;
        g->asked = f.channel;
        if (!say_answer(g))
            return false;
    }
    MUST(size == 0); /* what the host says is well-formed, whatever it has heard */
    memmove(buf, buf + at, *have - at);
    *have -= at;
    return true;
}

static void *be_guest(void *context)
{
    struct guest *g = context;
    size_t cap = HEARD_MAX;
    uint8_t *buf = malloc(cap);
    size_t have = 0;
    bool going = true;
    uint8_t version[4] = { WIRE_VERSION };
    const struct frame hello = { .type = WIRE_HELLO, .len = 4, .payload = version };

    MUST(buf);
    if (!(g->flags & FLAG_RUDE))
        going = send_frame(g, &hello);
    while (going) {
        struct pollfd ready = { .fd = g->fd, .events = POLLIN };
        ssize_t n;

        if (poll(&ready, 1, QUIET_MS) == 0) {
            going = say_answer(g);
            continue;
        }
        MUST(have < cap);
        n = read(g->fd, buf + have, cap - have);
        have += n > 0 ? (size_t)n : 0;
        going = n > 0 && hear_frames(g, buf, &have);
    }
    (void)shutdown(g->fd, SHUT_RDWR);
    free(buf);
    return NULL;
}

/* The driver. */

static const struct driver fuzz_driver;

static int open_guest(const struct plan *plan, int guest_fd, struct vessel **out,
                      struct vial_error *err)
{
    struct guest *g = calloc(1, sizeof(*g));

    (void)guest_fd;
    (void)err;
    MUST(g);
    g->fd = vessel_pair(&g->vessel, &fuzz_driver, plan);
    g->says = fuzz.says;
    g->flags = fuzz.flags;
    MUST(io_set_nonblocking(g->vessel.stream_fd) == 0);
    MUST(pthread_create(&g->thread, NULL, be_guest, g) == 0);
    *out = &g->vessel;
    return 0;
}

static void kill_guest(struct vessel *vessel)
{
    (void)shutdown(((struct guest *)vessel)->fd, SHUT_RDWR);
}

static void close_guest(struct vessel *vessel)
{
    struct guest *g = (struct guest *)vessel;

    kill_guest(vessel);
    MUST(pthread_join(g->thread, NULL) == 0);
    vessel_unpair(vessel, g->fd);
    free(g);
}

static void count_guest(struct vessel *vessel, struct vessel_usage *out)
{
    (void)vessel;
    *out = (struct vessel_usage){ .counted = true };
}

static int probe_guest(struct caps *out, struct vial_error *err)
{
    (void)err;
    *out =
        (struct caps){ .usable = true, .level = "namespaces", .limits_by = "cgroup2" };
    return 0;
}

static const struct driver fuzz_driver = {
    .name = "native",
    .probe = probe_guest,
    .open = open_guest,
    .kill = kill_guest,
    .usage = count_guest,
    .close = close_guest,
};

static const struct driver *const fuzz_drivers[] = { &fuzz_driver, NULL };

static void remove_engine(void)
{
    char config[96];

    vial_engine_close(fuzz.engine);
    (void)snprintf(config, sizeof(config), "%s/vial.yaml", fuzz.dir);
    (void)unlink(config);
    (void)rmdir(fuzz.dir);
}

static void make_engine(void)
{
    char config[96];
    const struct vial_engine_options options = { .config = config,
                                                 .project_dir = "/",
                                                 .share_dir = getenv("VIAL_SHARE") };
    int fd;

    if (fuzz.engine)
        return;
    (void)snprintf(fuzz.dir, sizeof(fuzz.dir), "/tmp/vial-fuzz-XXXXXX");
    MUST(mkdtemp(fuzz.dir));
    (void)snprintf(config, sizeof(config), "%s/vial.yaml", fuzz.dir);
    fd = open(config, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    MUST(fd >= 0 && close(fd) == 0);
    MUST(vial_engine_open(&options, &fuzz.engine, NULL) == 0);
    fuzz.engine->drivers = fuzz_drivers;
    MUST(atexit(remove_engine) == 0);
}

/* What must hold for the caller. */

static bool is_relative(const char *path)
{
    if (path[0] == '/' || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0)
        return false;
    for (const char *at = path; (at = strstr(at, "/..")); at += 3)
        if (!at[3] || at[3] == '/')
            return false;
    return true;
}

static void check_json(char *text)
{
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

    MUST(value);
    json_decref(value);
    free(text);
}

/* What kernel and timers say is not the guest's to say. */
static void check_verdict(const struct vial_result *r)
{
    MUST(r->verdict != VIAL_OOM && r->verdict != VIAL_PIDS &&
         r->verdict != VIAL_CPU_TIMEOUT && r->verdict != VIAL_DENIED);
    MUST(r->verdict != VIAL_TIMEOUT || r->duration_ms >= TIMEOUT_MS);
    MUST(!(r->limits_hit & (VIAL_LIMIT_MEMORY | VIAL_LIMIT_PIDS | VIAL_LIMIT_CPU)));
    MUST(r->verdict != VIAL_CANCELLED || (fuzz.flags & FLAG_MUTE));
    MUST(r->verdict != VIAL_OK || r->exit_code == 0);
    MUST(r->verdict != VIAL_FAILED || r->error.code[0]);
}

static void check_result(struct vial_result *r)
{
    char *json = NULL;

    check_verdict(r);
    MUST(r->out.len <= KEPT + NOTICE && r->err.len <= KEPT + NOTICE);
    for (size_t i = 0; i < r->file_count; i++)
        MUST(strcmp(r->files[i].path, i ? "b" : "a/b") == 0 &&
             !r->files[i].data == (r->files[i].error.code[0] != 0));
    for (size_t i = 0; i < r->artifact_count; i++)
        MUST(is_relative(r->artifacts[i].path));
    json = vial_result_json(r, fuzz.flags & FLAG_STDIN);
    MUST(json);
    check_json(json);
    vial_result_free(r);
}

static void check_entries(struct vial_entries *list)
{
    for (size_t i = 0; i < list->count; i++)
        MUST(is_relative(list->items[i].path) && list->items[i].path[0]);
    vial_entries_free(list);
}

/* The caller. */

static struct vial_request *make_request(uint8_t flags)
{
    char text[512];
    struct vial_request *req = NULL;

    (void)snprintf(
        text, sizeof(text),
        "{\"driver\":\"native\",\"timeout\":\"2s\",\"output_limit\":%d%s%s%s%s%s}",
        KEPT,
        flags & FLAG_CODE ? ",\"language\":\"c\",\"code\":\"int main(){}\""
                          : ",\"command\":[\"true\"]",
        flags & FLAG_FILES ? ",\"files\":[{\"path\":\"f\",\"content\":\"1\"},{\"path\":"
                             "\"g\",\"content\":\"2\"}]"
                           : "",
        flags & FLAG_OUTPUTS ? ",\"outputs\":[\"a/b\",\"b\"]" : "",
        flags & FLAG_ARTIFACTS ? ",\"artifacts\":\".\"" : "",
        flags & FLAG_STDIN ? ",\"stdin\":\"abc\"" : "");
    MUST(vial_request_parse(text, strlen(text), &req, NULL) == 0);
    return req;
}

static int take_output(void *context, int stream, const void *data, size_t len)
{
    uint64_t *total = context;

    MUST((stream == 1 || stream == 2) && (data || len == 0));
    *total += len;
    return *total > KEPT;
}

static void run_once(const struct vial_request *req)
{
    uint64_t total = 0;
    const struct vial_watch watch = { .cancel_fd = -1,
                                      .stdin_fd = -1,
                                      .output =
                                          fuzz.flags & FLAG_MUTE ? take_output : NULL,
                                      .context = &total };
    struct vial_result *result = NULL;

    MUST(vial_run(fuzz.engine, req, &watch, &result, NULL) == 0);
    check_result(result);
}

static void read_exec(struct vial_exec *x)
{
    struct vial_exec_status st;
    struct vial_chunk chunk;
    char buf[512];

    vial_exec_wait(x, -1, &st);
    MUST(!st.running && st.verdict != VIAL_OOM && st.verdict != VIAL_CPU_TIMEOUT);
    MUST(st.verdict != VIAL_TIMEOUT || st.duration_ms >= TIMEOUT_MS);
    for (int stream = 1; stream <= 2; stream++)
        if (vial_exec_read(x, stream, 0, buf, sizeof(buf), 0, &chunk, NULL) == 0)
            MUST(chunk.len <= sizeof(buf) && chunk.offset >= chunk.gap);
    vial_exec_free(x);
}

static void call_exec(struct vial_session *s, bool live)
{
    const struct vial_exec_options o = { .shell = "true",
                                         .stdin_live = live,
                                         .rows = live ? 24 : 0,
                                         .columns = live ? 80 : 0 };
    struct vial_exec *x = NULL;
    size_t taken = 0;

    if (vial_session_exec(s, &o, &x, NULL) < 0)
        return;
    if (live) {
        (void)!vial_exec_write(x, "hello", 5, 5, &taken, NULL);
        (void)!vial_exec_resize(x, 10, 10, NULL);
        (void)!vial_exec_signal(x, 15, true, NULL);
        (void)!vial_exec_close_stdin(x, NULL);
    }
    read_exec(x);
}

static void call_get(struct vial_session *s)
{
    char *data = NULL;
    size_t got = 0;

    if (vial_session_get(s, "f", 1, 7, &data, &got, NULL) == 0)
        MUST(got <= 7);
    free(data);
    data = NULL;
    if (vial_session_get(s, "f", 0, 0, &data, &got, NULL) == 0)
        MUST(data);
    free(data);
}

static void call_list(struct vial_session *s, bool deep)
{
    struct vial_entries list = { 0 };

    if (vial_session_list(s, "d", deep, &list, NULL) == 0)
        check_entries(&list);
}

static void call_names(struct vial_session *s)
{
    struct vial_entry e = { 0 };

    if (vial_session_stat(s, "f", &e, NULL) == 0)
        MUST(e.type && strchr("fdlo", e.type));
    (void)!vial_session_mkdir(s, "d", NULL);
    (void)!vial_session_move(s, "f", "g", NULL);
    (void)!vial_session_remove(s, "g", true, NULL);
}

static void call_context(struct vial_session *s)
{
    struct vial_context *c = NULL;
    char *json = NULL;

    if (vial_context_open(s, "python", &c, NULL) < 0)
        return;
    for (int i = 0; i < 2; i++)
        if (vial_context_run(c, "1", 1, 500, &json, NULL) == 0)
            check_json(json);
    vial_context_close(c);
}

static void call_watch(struct vial_session *s)
{
    static struct vial_event event;
    struct vial_watcher *w = NULL;

    if (vial_session_watch(s, "", VIAL_WATCH_DEEP, &w, NULL) < 0)
        return;
    for (int i = 0; i < 3; i++)
        if (vial_watcher_next(w, 2, &event, NULL) == 1)
            MUST(is_relative(event.path) && is_relative(event.from));
    vial_watcher_free(w);
}

static void call_changes(struct vial_session *s)
{
    struct vial_entries none = { 0 }, list = { 0 };
    char *json = NULL;

    if (vial_session_changes(s, "", &none, &list, NULL) == 0)
        check_entries(&list);
    if (vial_session_artifacts(s, "", &none, &json, NULL) == 0)
        check_json(json);
}

static void call_export(struct vial_session *s)
{
    size_t left_out = 0;
    auto_fd int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)!vial_session_export(s, "", null, &left_out, NULL);
}

static void make_call(struct vial_session *s, uint8_t which)
{
    switch (which % CALLS) {
    case 0:
        call_exec(s, false);
        break;
    case 1:
        call_exec(s, true);
        break;
    case 2:
        call_get(s);
        break;
    case 3:
        (void)!vial_session_put(s, "f", "content", 7, 0644, NULL);
        break;
    case 4:
        call_list(s, false);
        break;
    case 5:
        call_list(s, true);
        break;
    case 6:
        call_names(s);
        break;
    case 7:
        call_context(s);
        break;
    case 8:
        call_watch(s);
        break;
    case 9:
        call_changes(s);
        break;
    case 10:
        call_export(s);
        break;
    default:
        (void)!vial_session_renew(s, 0, NULL);
    }
}

static void hold_session(const struct vial_request *req, struct bytes calls)
{
    const struct vial_session_options options = { .ring_bytes = 4096,
                                                  .spill_bytes = 16384 };
    struct vial_session *s = NULL;
    struct vial_session_report report;

    if (vial_session_open(fuzz.engine, req, &options, &s, NULL) < 0)
        return;
    for (size_t i = 0; i < calls.len; i++)
        make_call(s, calls.data[i]);
    vial_session_kill(s, VIAL_SESSION_COMPLETED);
    vial_session_look(s, &report);
    MUST(report.outcome == VIAL_SESSION_COMPLETED ||
         (report.outcome == VIAL_SESSION_FAILED && report.error.code[0]));
    vial_session_free(s);
}

static unsigned count_descriptors(void)
{
    DIR *list = opendir("/proc/self/fd");
    unsigned count = 0;

    MUST(list);
    while (readdir(list))
        count++;
    (void)closedir(list);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes input = { data, len };
    struct bytes calls = { 0 };
    struct vial_request *req;
    unsigned before;

    make_engine();
    before = count_descriptors();
    fuzz.flags = (uint8_t)bytes_number(&input, 1);
    if (fuzz.flags & FLAG_SESSION)
        calls = bytes_take(&input, bytes_number(&input, 1) % CALLS);
    fuzz.says = input;
    req = make_request(fuzz.flags);
    if (fuzz.flags & FLAG_SESSION)
        hold_session(req, calls);
    else
        run_once(req);
    vial_request_free(req);
    MUST(count_descriptors() == before);
    return 0;
}
