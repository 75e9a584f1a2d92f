/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/gojudge_cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "model/request.h"
#include "model/value.h"
#include "wires/verdict_words.h"
#include "wires/wire_files.h"
#include "wires/wires.h"

#define NS_PER_MS    INT64_C(1000000)
#define NAMES_MOST   1024u /* of a list, the same one twice */
#define COPY_OUT_MAX (INT64_C(256) << 20)
#define COPY_IN_MOST 10000u /* as many files as a vessel takes */
#define LINKS_MOST   256u   /* each is two words of a command line */
#define WAIT_MS      50
#define NUMBER_MOST  1e15 /* what is more is no limit at all */

static int64_t number(json_t *given, const char *name)
{
    double value = json_number_value(json_object_get(given, name));

    if (value > NUMBER_MOST)
        value = NUMBER_MOST;
    return value < -NUMBER_MOST ? -(int64_t)NUMBER_MOST : (int64_t)value;
}

/* A name below the working directory, which is /w there; without the mark of one that
 * may be missing. NULL: it lies elsewhere. malloc'ed. */
static char *plain_name(const char *name)
{
    size_t len = name ? strlen(name) : 0;
    auto_free char *copy = NULL;
    const char *path;

    if (len > 0 && name[len - 1] == '?')
        len--;
    copy = strndup(name ? name : "", len);
    if (!copy)
        return NULL;
    path = program_path(str_starts(copy, "/w/") ? copy + 3 : copy);
    return path ? strdup(path) : NULL;
}

/* The bytes of a file that the request has, or that was left here before. */
static int file_bytes(struct call *c, json_t *file, struct blob *out,
                      struct vial_error *err)
{
    json_t *content = json_object_get(file, "content");
    const char *id = value_string(json_object_get(file, "fileId"));

    /* Its own examples have it as input; it is the host's in name only. */
    if (str_eq(value_string(json_object_get(file, "src")), "/dev/null"))
        return blob_set(out, "", 0) < 0 ? fail_memory(err) : 0;
    if (json_object_get(file, "src"))
        return fail(err, VIAL_E_VALUE, "src: files of the host are not given");
    if (json_is_string(content))
        return blob_set(out, json_string_value(content), json_string_length(content)) <
                       0
                   ? fail_memory(err)
                   : 0;
    if (!id)
        return fail(err, VIAL_E_VALUE, "a file has neither content nor fileId");
    if (wire_files_get(c, id, out, NULL) < 0)
        return fail(err, VIAL_E_VALUE, "file not exists with id %.40s", id);
    return 0;
}

static uint64_t weigh(struct call *c, json_t *file)
{
    const char *id = value_string(json_object_get(file, "fileId"));

    return id ? wire_files_len(c, id) : 0;
}

/* For copies of what was left here before: the rest is part of a body, and paid. */
static int pay(struct cmd *cmd, json_t *given, struct vial_error *err)
{
    struct call *c = cmd->call;
    uint64_t bytes = weigh(c, json_array_get(json_object_get(given, "files"), 0));
    const char *name;
    json_t *file;

    if (json_object_size(json_object_get(given, "copyIn")) > COPY_IN_MOST)
        return fail(err, VIAL_E_VALUE, "copyIn: at most %u files are copied in",
                    COPY_IN_MOST);
    json_object_foreach(json_object_get(given, "copyIn"), name, file)
    {
        bytes += weigh(c, file);
    }
    if (!gate_take(&c->serve->gate, c->caller, GATE_BODIES, bytes))
        return fail(err, VIAL_E_BUSY,
                    "there is no room for copies of files, %llu bytes in all",
                    (unsigned long long)bytes);
    cmd->paid = bytes;
    return 0;
}

static int copy_in(struct cmd *cmd, json_t *files, struct vial_error *err)
{
    const char *name;
    json_t *file;

    json_object_foreach(files, name, file)
    {
        auto_free char *path = plain_name(name);
        struct blob content = { 0 };
        int rc;

        if (!path)
            return fail(err, VIAL_E_PATH, "copyIn: '%.200s' lies outside /w", name);
        if (json_object_get(file, "symlink"))
            continue; /* the shell makes it */
        if (file_bytes(cmd->call, file, &content, err) < 0)
            return -1;
        rc = program_file(cmd->req, path, content.data, content.len, 0755, err);
        blob_done(&content);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int cmd_pipe(int ends[2], struct vial_error *err)
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return fail_sys(err, "make a pipe");
    (void)fcntl(ends[1], F_SETPIPE_SZ, CMD_PIPE_BYTES);
    return 0;
}

static bool is_asked(json_t *file, const char *name)
{
    json_t *value = json_object_get(file, name);

    return value && !json_is_null(value) && !json_is_false(value);
}

static int refuse_live(size_t fd, const char *name, struct vial_error *err)
{
    return fail(err, VIAL_E_VALUE, "files[%zu]: %s is for /stream", fd, name);
}

static int read_stream(struct cmd *cmd, json_t *file, size_t fd, struct vial_error *err)
{
    struct cmd_stream *s = &cmd->streams[fd];
    const char *name = value_string(json_object_get(file, "name"));

    if (!file || json_is_null(file))
        return 0;
    s->live = is_asked(file, "streamOut");
    if (s->live)
        return cmd->live ? 0 : refuse_live(fd, "streamOut", err);
    if (!name)
        return fail(err, VIAL_E_VALUE, "files[%zu] is not a collector", fd);
    s->name = strdup(name);
    s->most = number(file, "max");
    if (s->most <= 0 || s->most > program_output_most(cmd->call))
        s->most = program_output_most(cmd->call);
    return s->name ? 0 : fail_memory(err);
}

static int open_input(struct cmd *cmd, struct vial_error *err)
{
    int ends[2];

    if (!cmd->live)
        return refuse_live(0, "streamIn", err);
    if (cmd_pipe(ends, err) < 0)
        return -1;
    cmd->stdin_fd = ends[0];
    cmd->live->input(cmd->live->context, cmd->index, ends[1]);
    return 0;
}

static int read_files(struct cmd *cmd, json_t *files, struct vial_error *err)
{
    json_t *input = json_array_get(files, 0);
    struct blob content = { 0 };
    int rc;

    for (size_t fd = 3; fd < json_array_size(files); fd++)
        if (!json_is_null(json_array_get(files, fd)))
            return fail(err, VIAL_E_VALUE, "files[%zu]: only 0, 1 and 2 are supported",
                        fd);
    if (read_stream(cmd, json_array_get(files, 1), 1, err) < 0 ||
        read_stream(cmd, json_array_get(files, 2), 2, err) < 0)
        return -1;
    if (!input || json_is_null(input))
        return 0;
    if (is_asked(input, "streamIn"))
        return open_input(cmd, err);
    if (file_bytes(cmd->call, input, &content, err) < 0)
        return -1;
    rc = vial_request_set_bytes(cmd->req, "stdin", content.data ? content.data : "",
                                content.len, err);
    blob_done(&content);
    return rc;
}

static int limit_ms(struct vial_request *req, enum field_id id, int64_t ns,
                    struct vial_error *err)
{
    if (ns <= 0)
        return 0;
    return program_limit(req, id, (ns + NS_PER_MS - 1) / NS_PER_MS, err);
}

static int limit(struct vial_request *req, enum field_id id, int64_t value,
                 struct vial_error *err)
{
    return value > 0 ? program_limit(req, id, value, err) : 0;
}

static int read_limits(struct vial_request *req, json_t *given, struct vial_error *err)
{
    int64_t cpu_ns = number(given, "cpuLimit");
    int64_t clock_ns = number(given, "clockLimit");
    int64_t rate = number(given, "cpuRateLimit");
    char cores[32];

    if (!clock_ns)
        clock_ns = number(given, "realCpuLimit");
    if (limit_ms(req, FIELD_ID_cpu_time, cpu_ns, err) < 0 ||
        limit_ms(req, FIELD_ID_timeout, clock_ns ? clock_ns : cpu_ns, err) < 0 ||
        limit(req, FIELD_ID_memory, number(given, "memoryLimit"), err) < 0 ||
        limit(req, FIELD_ID_pids, number(given, "procLimit"), err) < 0)
        return -1;
    (void)snprintf(cores, sizeof(cores), "%.3f", (double)rate / 1000);
    return rate > 0 ? vial_request_set(req, "cpus", cores, err) : 0;
}

static int refuse_rest(json_t *given, struct vial_error *err)
{
    static const char *const flags[] = { "tty", "strictMemoryLimit", "dataSegmentLimit",
                                         "addressSpaceLimit" };
    const char *set = json_string_value(json_object_get(given, "cpuSetLimit"));

    if (set && *set)
        return fail(err, VIAL_E_VALUE, "cpuSetLimit is not supported");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (json_is_true(json_object_get(given, flags[i])))
            return fail(err, VIAL_E_VALUE, "%s is not supported", flags[i]);
    return 0;
}

/* Whether a file of that NAME is copied in: such a program comes before others. */
static bool brings(json_t *given, const char *name)
{
    return !strchr(name, '/') &&
           json_object_get(json_object_get(given, "copyIn"), name);
}

static int put_word(struct vial_request *req, const char *word, struct vial_error *err)
{
    return vial_request_set(req, "command", word, err);
}

static size_t count_links(json_t *files)
{
    size_t count = 0;
    const char *name;
    json_t *file;

    json_object_foreach(files, name, file)
    {
        count += json_object_get(file, "symlink") != NULL;
    }
    return count;
}

/* Two words: where it leads, and its name. */
static int put_link(struct vial_request *req, const char *name, json_t *link,
                    struct vial_error *err)
{
    const char *target = value_string(link);
    auto_free char *path = plain_name(name);
    auto_str struct str place = { 0 };

    if (!target || !*target)
        return fail(err, VIAL_E_VALUE, "copyIn: symlink of '%.200s' is no text", name);
    if (!path)
        return fail(err, VIAL_E_PATH, "copyIn: '%.200s' lies outside /w", name);
    if (str_starts(target, "/w/"))
        str_printf(&place, "/work/%s", target + 3);
    else
        str_puts(&place, target);
    if (!str_ok(&place))
        return fail_memory(err);
    return put_word(req, place.data, err) < 0 ? -1 : put_word(req, path, err);
}

static int put_links(struct vial_request *req, json_t *files, struct vial_error *err)
{
    const char *name;
    json_t *file;

    json_object_foreach(files, name, file)
    {
        json_t *link = json_object_get(file, "symlink");

        if (link && put_link(req, name, link, err) < 0)
            return -1;
    }
    return 0;
}

/* A shell sets the stack's size, makes links, and becomes the program. */
static int put_shell(struct vial_request *req, json_t *given, struct vial_error *err)
{
    static const char make[] = "mkdir -p -- \"$(dirname -- \"$2\")\" && "
                               "ln -s -- \"$1\" \"$2\" || exit 126; shift 2; ";
    int64_t stack = number(given, "stackLimit");
    size_t links = count_links(json_object_get(given, "copyIn"));
    auto_str struct str line = { 0 };

    if (stack <= 0 && links == 0)
        return 0;
    if (links > LINKS_MOST)
        return fail(err, VIAL_E_VALUE, "copyIn: more than %u symlinks", LINKS_MOST);
    if (stack > 0)
        str_printf(&line, "ulimit -s %lld || exit 126; ",
                   (long long)((stack + 1023) / 1024));
    /* The shell's own loop would need a variable, and that may be the program's. */
    for (size_t i = 0; i < links; i++)
        str_puts(&line, make);
    str_puts(&line, "exec \"$@\"");
    if (!str_ok(&line))
        return fail_memory(err);
    if (put_word(req, "/bin/sh", err) < 0 || put_word(req, "-c", err) < 0 ||
        put_word(req, line.data, err) < 0 || put_word(req, "sh", err) < 0)
        return -1;
    return put_links(req, json_object_get(given, "copyIn"), err);
}

static int read_args(struct vial_request *req, json_t *given, struct vial_error *err)
{
    json_t *args = json_object_get(given, "args");
    json_t *env = json_object_get(given, "env");

    if (json_array_size(args) == 0)
        return fail(err, VIAL_E_VALUE, "no args provided");
    if (put_shell(req, given, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *word = value_string(json_array_get(args, i));
        auto_str struct str local = { 0 };

        if (!word)
            return fail(err, VIAL_E_VALUE, "args are not texts");
        str_printf(&local, "%s%s", i == 0 && brings(given, word) ? "./" : "", word);
        if (!str_ok(&local) || put_word(req, local.data, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < json_array_size(env); i++) {
        const char *entry = value_string(json_array_get(env, i));

        if (entry && vial_request_set(req, "env", entry, err) < 0)
            return -1;
    }
    return 0;
}

static int put_outputs(struct cmd *cmd, json_t *names, struct vial_error *err)
{
    if (json_array_size(names) > NAMES_MOST)
        return fail(err, VIAL_E_VALUE, "copyOut: more than %u names", NAMES_MOST);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = value_string(json_array_get(names, i));
        auto_free char *path = plain_name(name);

        if (!path)
            return fail(err, VIAL_E_PATH, "copyOut: '%.200s' lies outside /w",
                        name ? name : "");
        if (str_eq(path, cmd->streams[1].name) || str_eq(path, cmd->streams[2].name) ||
            strv_has(&cmd->req->outputs, path))
            continue;
        if (vial_request_set(cmd->req, "outputs", path, err) < 0)
            return -1;
    }
    return 0;
}

int cmd_read(struct call *c, json_t *given, struct cmd *out, struct vial_error *err)
{
    out->call = c;
    out->copy_out = json_object_get(given, "copyOut");
    out->copy_out_cached = json_object_get(given, "copyOutCached");
    out->copy_out_max = number(given, "copyOutMax");
    if (out->copy_out_max <= 0)
        out->copy_out_max = COPY_OUT_MAX;
    out->truncate = json_is_true(json_object_get(given, "copyOutTruncate"));
    if (vial_request_new(&out->req, err) < 0 || refuse_rest(given, err) < 0 ||
        read_args(out->req, given, err) < 0 || read_limits(out->req, given, err) < 0 ||
        pay(out, given, err) < 0 ||
        read_files(out, json_object_get(given, "files"), err) < 0 ||
        copy_in(out, json_object_get(given, "copyIn"), err) < 0 ||
        put_outputs(out, out->copy_out, err) < 0 ||
        put_outputs(out, out->copy_out_cached, err) < 0)
        return -1;
    return job_check(c, out->req, err);
}

/* To the other command, at its pace; one that has ended takes nothing. The guest holds
 * the deadline meanwhile. */
static int pass_on(struct cmd *cmd, struct cmd_stream *s, const char *data, size_t len)
{
    struct pollfd fds[] = { { .fd = s->pipe_fd, .events = POLLOUT },
                            { .fd = cmd->cancel_fd, .events = POLLIN } };
    int64_t left_ms = cmd->req->timeout;

    while (len > 0 && left_ms > 0) {
        ssize_t sent = write(s->pipe_fd, data, len);

        if (sent > 0) {
            data += sent;
            len -= (size_t)sent;
        } else if (errno != EAGAIN) {
            return 0;
        } else if (poll(fds, 2, WAIT_MS) > 0 && fds[1].revents) {
            return -1;
        } else {
            left_ms -= fds[0].revents ? 0 : WAIT_MS;
        }
    }
    return 0;
}

static int take_output(void *context, int stream, const void *data, size_t len)
{
    struct cmd *cmd = context;
    struct cmd_stream *s = &cmd->streams[stream];
    const struct str *kept = stream == 2 ? &cmd->stage.err : &cmd->stage.out;
    size_t most = (size_t)s->most + (s->proxy ? 0 : 1);
    size_t part = 0;

    if (s->name && kept->len < most)
        part = len < most - kept->len ? len : most - kept->len;
    if (part > 0 && stage_output(&cmd->stage, stream, data, part) < 0)
        return -1;
    if (s->name && !s->proxy && kept->len == most) {
        cmd->over = true;
        return -1;
    }
    if (s->live &&
        cmd->live->output(cmd->live->context, cmd->index, stream, data, len) < 0)
        return -1;
    return s->pipe_fd >= 0 ? pass_on(cmd, s, data, len) : 0;
}

static void close_streams(struct cmd *cmd)
{
    for (size_t i = 1; i < 3; i++)
        if (cmd->streams[i].pipe_fd >= 0)
            (void)close(fd_take(&cmd->streams[i].pipe_fd));
    if (cmd->stdin_fd >= 0)
        (void)close(fd_take(&cmd->stdin_fd));
}

void cmd_run(struct cmd *cmd)
{
    struct stage *s = &cmd->stage;
    struct job job = { .call = cmd->call,
                       .req = cmd->req,
                       .cancel_fd = cmd->cancel_fd,
                       .output = take_output,
                       .context = cmd,
                       .room_fd = -1,
                       .in_turn = true,
                       .piped = cmd->stdin_fd >= 0,
                       .stdin_fd = cmd->stdin_fd };
    unsigned retry_s;

    s->budget = cmd->call->serve->budget;
    s->who = cmd->call->who.name;
    if (job_run(&job, &s->result, &retry_s, &cmd->error) == 0)
        stage_end(s, s->result);
    close_streams(cmd);
}

static const char *status_of(const struct cmd *cmd)
{
    const struct stage *s = &cmd->stage;

    if (!s->there)
        return "Internal Error";
    if (cmd->over || (s->verdict == VIAL_SIGNAL && s->signal == 25))
        return "Output Limit Exceeded";
    if (s->verdict == VIAL_SIGNAL && s->signal == 31)
        return "Dangerous Syscall";
    return verdict_words[s->verdict].gojudge;
}

static int exit_of(const struct stage *s)
{
    switch (verdict_words[s->verdict].by) {
    case BY_EXIT:
        return s->exit_code;
    case BY_SIGNAL:
        return s->signal;
    case BY_DEADLINE:
    case BY_KILL:
    case BY_OTHERS:
        break;
    }
    return 9;
}

/* What became of the files that were asked for. */
struct telling {
    json_t *files, *ids, *errors;
    struct json_larges *larges;
    uint64_t bytes;
};

static void complain(struct telling *t, const char *name, const char *type,
                     const char *message)
{
    (void)json_array_append_new(t->errors, json_pack("{s:s, s:s, s:s}", "name", name,
                                                     "type", type, "message", message));
}

static const struct vial_file *find_file(const struct stage *s, const char *path)
{
    for (size_t i = 0; s->result && i < s->result->file_count; i++)
        if (str_eq(s->result->files[i].path, path))
            return &s->result->files[i];
    return NULL;
}

/* Whether there is something of that name which is no plain file. */
static bool is_odd(const struct vial_file *file)
{
    return file && fail_is(&file->error, VIAL_E_FILE) && file->error.cause[0];
}

static void complain_of(struct telling *t, const char *path,
                        const struct vial_file *file)
{
    char text[sizeof(file->error.message) + sizeof(file->error.cause) + 2];

    if (!file) {
        complain(t, path, "CopyOutOpen", "not run");
        return;
    }
    if (is_odd(file)) {
        complain(t, path, "CopyOutNotRegularFile", "it is not a regular file");
        return;
    }
    (void)snprintf(text, sizeof(text), "%s%s%s", file->error.message,
                   file->error.cause[0] ? ": " : "", file->error.cause);
    complain(t, path, "CopyOutOpen", text);
}

/* Its bytes: of a collected stream, or of a file; false: they are not to be had, which
 * was told if it matters. */
static bool find_bytes(struct cmd *cmd, struct telling *t, const char *name,
                       const char **data, size_t *len)
{
    auto_free char *path = plain_name(name);
    const struct vial_file *file = path ? find_file(&cmd->stage, path) : NULL;

    for (size_t i = 1; i < 3; i++)
        if (path && str_eq(cmd->streams[i].name, path)) {
            const struct str *kept = i == 2 ? &cmd->stage.err : &cmd->stage.out;

            *data = kept->data ? kept->data : "";
            *len = kept->len;
            return true;
        }
    if (file && file->data) {
        *data = file->data;
        *len = file->len;
        if (*len <= (size_t)cmd->copy_out_max)
            return true;
        *len = (size_t)cmd->copy_out_max;
        complain(t, path, "CopyOutSizeExceeded", "the file is larger than copyOutMax");
        return cmd->truncate;
    }
    if (path && (is_odd(file) || name[strlen(name) - 1] != '?'))
        complain_of(t, path, file);
    return false;
}

/* Whether PATH is kept here instead of being sent. */
static bool is_cached(const struct cmd *cmd, const char *path)
{
    bool found = false;

    for (size_t i = 0; i < json_array_size(cmd->copy_out_cached); i++) {
        auto_free char *other =
            plain_name(json_string_value(json_array_get(cmd->copy_out_cached, i)));

        found = found || str_eq(other, path);
    }
    return found;
}

/* Once under each name: a stand-in has to stay in its tree. */
static void put_file(struct telling *t, const char *path, const char *data, size_t len)
{
    if (json_object_get(t->files, path) ||
        json_object_set_new(t->files, path, json_large(t->larges, data, len, false)) <
            0)
        return;
    t->bytes += len;
}

/* A copy of a pipe ends at its most, and the program goes on. */
static bool is_exceeded(const struct cmd_stream *s, const struct str *kept)
{
    return s->name && !s->proxy && kept->len > (size_t)s->most;
}

static void tell_outputs(struct cmd *cmd, struct telling *t)
{
    const char *data;
    size_t len;

    for (size_t i = 2; i > 0; i--) {
        const struct str *kept = i == 2 ? &cmd->stage.err : &cmd->stage.out;

        if (is_exceeded(&cmd->streams[i], kept))
            complain(t, cmd->streams[i].name, "CollectSizeExceeded",
                     "Output Limit Exceeded");
        if (cmd->streams[i].name && !is_cached(cmd, cmd->streams[i].name))
            put_file(t, cmd->streams[i].name, kept->data ? kept->data : "", kept->len);
    }
    for (size_t i = 0; i < json_array_size(cmd->copy_out); i++) {
        const char *name = json_string_value(json_array_get(cmd->copy_out, i));
        auto_free char *path = plain_name(name);

        if (path && !is_cached(cmd, path) && find_bytes(cmd, t, name, &data, &len))
            put_file(t, path, data, len);
    }
}

static void tell_cached(struct cmd *cmd, struct telling *t)
{
    for (size_t i = 0; i < json_array_size(cmd->copy_out_cached); i++) {
        const char *name = json_string_value(json_array_get(cmd->copy_out_cached, i));
        auto_free char *path = plain_name(name);
        const char *data;
        char id[24];
        size_t len;

        if (!path || !find_bytes(cmd, t, name, &data, &len))
            continue;
        if (wire_files_add(cmd->call, path, data, len, id) == 0)
            (void)json_object_set_new(t->ids, path, json_string(id));
        else
            complain(t, path, "CopyOutCreateFile", "there is no room for more files");
    }
}

/* What is empty is left out. */
static void put_rest(json_t *told, const char *name, json_t *value)
{
    if (json_is_array(value) ? json_array_size(value) > 0 : json_object_size(value) > 0)
        (void)json_object_set(told, name, value);
    json_decref(value);
}

json_t *cmd_result(struct cmd *cmd, struct json_larges *larges, uint64_t *bytes)
{
    struct telling t = { json_object(), json_object(), json_array(), larges, 0 };
    const struct stage *s = &cmd->stage;
    const char *status = status_of(cmd);
    const char *error = s->there ? s->error.message : cmd->error.message;
    json_t *told;

    tell_outputs(cmd, &t);
    tell_cached(cmd, &t);
    if (s->there && s->verdict == VIAL_OK && !cmd->over &&
        json_array_size(t.errors) > 0) {
        status = "File Error";
        error =
            json_string_value(json_object_get(json_array_get(t.errors, 0), "message"));
    }
    told = json_pack("{s:s, s:i, s:I, s:I, s:I, s:I}", "status", status, "exitStatus",
                     s->there ? exit_of(s) : 0, "time", (json_int_t)(s->cpu_ms * 1e6),
                     "memory", (json_int_t)s->memory_bytes, "procPeak",
                     (json_int_t)s->pids, "runTime", (json_int_t)(s->wall_ms * 1e6));
    if (error[0] && !cmd->over) /* that it was ended is our doing */
        (void)json_object_set_new(told, "error", json_string(error));
    put_rest(told, "files", t.files);
    put_rest(told, "fileIds", t.ids);
    put_rest(told, "fileError", t.errors);
    *bytes += t.bytes;
    return told;
}

void cmd_done(struct cmd *cmd)
{
    close_streams(cmd);
    gate_give(&cmd->call->serve->gate, cmd->call->caller, GATE_BODIES, cmd->paid);
    free(cmd->streams[1].name);
    free(cmd->streams[2].name);
    vial_request_free(cmd->req);
    stage_done(&cmd->stage);
}
