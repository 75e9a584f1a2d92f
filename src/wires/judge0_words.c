/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/judge0_words.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/unit.h"
#include "model/request.h"
#include "model/value.h"
#include "wires/faces.h"
#include "wires/verdict_words.h"
#include "wires/wires.h"

#define KIB           1024
#define WORDS_MOST    512u
#define COMPILE_MS    20000
#define COMPILE_CPU   15000
#define COMPILE_BYTES (INT64_C(512000) * KIB)

const struct judge0_bound judge0_bounds[JUDGE0_LIMITS] = {
    [JUDGE0_CPU] = { "cpu_time_limit", 5, 0, 15, true },
    [JUDGE0_CPU_EXTRA] = { "cpu_extra_time", 1, 0, 5, true },
    [JUDGE0_WALL] = { "wall_time_limit", 10, 1, 20, true },
    [JUDGE0_MEMORY] = { "memory_limit", 128000, 4096, 512000, false },
    [JUDGE0_STACK] = { "stack_limit", 64000, 1, 128000, false },
    [JUDGE0_PROCESSES] = { "max_processes_and_or_threads", 60, 1, 120, false },
    [JUDGE0_FILE_SIZE] = { "max_file_size", 1024, 1, 4096, false },
    [JUDGE0_RUNS] = { "number_of_runs", 1, 1, 20, false },
};

const char *judge0_status_name(int status)
{
    static const char *const names[] = {
        "",
        "In Queue",
        "Processing",
        "Accepted",
        "Wrong Answer",
        "Time Limit Exceeded",
        "Compilation Error",
        "Runtime Error (SIGSEGV)",
        "Runtime Error (SIGXFSZ)",
        "Runtime Error (SIGFPE)",
        "Runtime Error (SIGABRT)",
        "Runtime Error (NZEC)",
        "Runtime Error (Other)",
        "Internal Error",
        "Exec Format Error",
    };

    return names[status];
}

static double lower(double a, double b)
{
    return a < b ? a : b;
}

double judge0_most(const struct call *c, enum judge0_limit id)
{
    const struct policy *p = &c->gen->settings->policy;
    double most = judge0_bounds[id].most;

    switch (id) {
    case JUDGE0_CPU:
        return lower(most, (double)policy_cap(p, FIELD_ID_cpu_time) / 1000);
    case JUDGE0_WALL:
        return lower(most, (double)policy_cap(p, FIELD_ID_timeout) / 1000);
    case JUDGE0_MEMORY:
        return lower(most, (double)policy_cap(p, FIELD_ID_memory) / KIB);
    case JUDGE0_PROCESSES:
        return lower(most, (double)policy_cap(p, FIELD_ID_pids));
    case JUDGE0_CPU_EXTRA:
    case JUDGE0_STACK:
    case JUDGE0_FILE_SIZE:
    case JUDGE0_RUNS:
    case JUDGE0_LIMITS:
        break;
    }
    return most;
}

json_t *judge0_language(struct call *c, int64_t id, struct str *name)
{
    json_t *all = json_object_get(c->serve->wires->languages, face_judge0.name);

    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *entry = json_array_get(all, i);
        json_t *ids = json_object_get(entry, "ids");
        auto_str struct str version = { 0 };
        const char *label = json_string_value(json_object_get(entry, "label"));
        const char *hole = strstr(label, "{}");
        bool mine = false;

        for (size_t k = 0; k < json_array_size(ids); k++)
            mine = mine || json_integer_value(json_array_get(ids, k)) == id;
        if (!mine)
            continue;
        if (!wires_version(c, json_string_value(json_object_get(entry, "language")),
                           &version))
            return NULL;
        if (name && hole)
            str_printf(name, "%.*s%s%s", (int)(hole - label), label, version.data,
                       hole + 2);
        else if (name)
            str_puts(name, label);
        return entry;
    }
    return NULL;
}

static void complain(json_t *wrong, const char *member, const char *text)
{
    (void)json_object_set_new(wrong, member, json_pack("[s]", text));
}

/* A number, or a text that is one. */
static bool as_number(const json_t *value, double *out)
{
    char *end;

    if (json_is_number(value)) {
        *out = json_number_value(value);
        return true;
    }
    if (!json_is_string(value) || json_string_length(value) == 0)
        return false;
    *out = strtod(json_string_value(value), &end);
    return *end == '\0';
}

static void read_limit(struct call *c, json_t *given, enum judge0_limit id,
                       struct judge0_asked *a, json_t *wrong)
{
    const struct judge0_bound *b = &judge0_bounds[id];
    double most = judge0_most(c, id);
    json_t *value = json_object_get(given, b->name);
    char text[96];

    a->limits[id] = lower(b->usual, most);
    if (!value || json_is_null(value))
        return;
    if (!as_number(value, &a->limits[id])) {
        complain(wrong, b->name, "is not a number");
        return;
    }
    if (a->limits[id] >= b->least && a->limits[id] <= most)
        return;
    if (a->limits[id] > most)
        (void)snprintf(text, sizeof(text), "must be less than or equal to %.*f",
                       b->seconds ? 1 : 0, most);
    else
        (void)snprintf(text, sizeof(text), "must be greater than or equal to %.0f",
                       b->least);
    complain(wrong, b->name, text);
}

static void read_text(json_t *given, const char *name, bool base64, struct blob *out,
                      bool *there)
{
    json_t *value = json_object_get(given, name);

    *there = json_is_string(value);
    if (*there && base64)
        (void)wires_unbase64(json_string_value(value), json_string_length(value), out);
    else if (*there)
        (void)blob_set(out, json_string_value(value), json_string_length(value));
}

/* Marks that a shell would act on are dropped. */
static char *read_words(json_t *given, const char *name, json_t *wrong)
{
    const char *text = value_string(json_object_get(given, name));
    auto_str struct str out = { 0 };

    if (!text || !*text)
        return NULL;
    if (strlen(text) > WORDS_MOST) {
        complain(wrong, name, "is too long (maximum is 512 characters)");
        return NULL;
    }
    for (; *text; text++)
        if (!strchr("$&;<>|`", *text))
            str_putc(&out, *text);
    return str_take(&out);
}

static void read_language(struct call *c, json_t *given, struct judge0_asked *a,
                          json_t *wrong)
{
    json_t *value = json_object_get(given, "language_id");
    char text[64];
    double id = 0;

    if (!value || json_is_null(value)) {
        complain(wrong, "language_id", "can't be blank");
        return;
    }
    if (!as_number(value, &id) || id < 0 || id > 1e9) {
        complain(wrong, "language_id", "is not a number");
        return;
    }
    a->language_id = (int64_t)id;
    a->entry = judge0_language(c, a->language_id, NULL);
    if (a->entry)
        return;
    (void)snprintf(text, sizeof(text), "language with id %lld doesn't exist",
                   (long long)a->language_id);
    complain(wrong, "language_id", text);
}

/* What is not done here is refused, and not passed over. */
static void refuse_rest(json_t *given, const struct judge0_asked *a, json_t *wrong)
{
    static const struct {
        const char *name, *text;
    } refused[] = {
        { "enable_network", "enabling network is not allowed" },
        { "enable_per_process_and_thread_time_limit", "this option cannot be enabled" },
        { "enable_per_process_and_thread_memory_limit",
          "this option cannot be enabled" },
    };

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (json_is_true(json_object_get(given, refused[i].name)))
            complain(wrong, refused[i].name, refused[i].text);
    }
    if (a->options && a->entry && !json_object_get(a->entry, "compile"))
        complain(wrong, "compiler_options",
                 "setting compiler options is only allowed for compiled languages");
}

/* A program has its code in `source_code`, or all of it in the archive. */
static void read_source(struct call *c, json_t *given, bool base64,
                        struct judge0_asked *a, json_t *wrong)
{
    bool there;

    read_text(given, "source_code", base64, &a->source, &there);
    read_text(given, "additional_files", true, &a->archive, &a->has_archive);
    a->has_archive = a->archive.len > 0;
    a->many_files = json_is_true(json_object_get(a->entry, "many_files"));
    if (a->has_archive && !additional_files_work(c))
        complain(wrong, "additional_files", "setting additional files is not allowed");
    if (a->many_files && a->source.len > 0)
        complain(wrong, "source_code", "must be blank");
    if (a->many_files && !a->has_archive)
        complain(wrong, "additional_files", "can't be blank");
    if (!a->many_files && a->source.len == 0)
        complain(wrong, "source_code", "can't be blank");
}

static char *read_callback(struct call *c, json_t *given, json_t *wrong)
{
    const char *url = value_string(json_object_get(given, "callback_url"));
    struct callback to;

    if (!url || !*url)
        return NULL;
    if (!c->serve->callbacks.rules)
        complain(wrong, "callback_url", "setting callback is not allowed");
    else if (!callback_read(&c->serve->callbacks, url, &to))
        complain(wrong, "callback_url",
                 "its host is not among those that may be called back");
    return strdup(url);
}

int judge0_read(struct call *c, json_t *given, bool base64, struct judge0_asked *out,
                json_t **wrong)
{
    json_t *bad = json_object();

    *out = (struct judge0_asked){ 0 };
    read_language(c, given, out, bad);
    read_source(c, given, base64, out, bad);
    read_text(given, "stdin", base64, &out->stdin_data, &out->has_stdin);
    read_text(given, "expected_output", base64, &out->expected, &out->has_expected);
    for (int i = 0; i < JUDGE0_LIMITS; i++)
        read_limit(c, given, (enum judge0_limit)i, out, bad);
    out->own_stack = json_is_number(json_object_get(given, "stack_limit"));
    out->merged = json_is_true(json_object_get(given, "redirect_stderr_to_stdout"));
    out->options = read_words(given, "compiler_options", bad);
    out->arguments = read_words(given, "command_line_arguments", bad);
    out->callback_url = read_callback(c, given, bad);
    refuse_rest(given, out, bad);
    if (json_object_size(bad) > 0) {
        *wrong = bad;
        return -1;
    }
    json_decref(bad);
    return 0;
}

void judge0_asked_done(struct judge0_asked *a)
{
    blob_done(&a->source);
    blob_done(&a->stdin_data);
    blob_done(&a->expected);
    blob_done(&a->archive);
    free(a->options);
    free(a->arguments);
    free(a->callback_url);
}

/* As bash does: words, quotes, and backslashes. */
static void split(const char *text, struct strv *out)
{
    auto_str struct str word = { 0 };
    bool in_word = false;
    char quote = '\0';

    for (; text && *text; text++) {
        bool space = !quote && isspace((unsigned char)*text);

        if (*text == '\\' && quote != '\'' && text[1])
            str_putc(&word, *++text);
        else if (quote ? *text == quote : *text == '"' || *text == '\'')
            quote = (char)(quote ? 0 : *text);
        else if (!space)
            str_putc(&word, *text);
        if (space && in_word) {
            strv_push(out, word.data ? word.data : "");
            str_done(&word);
            word = (struct str){ 0 };
        }
        in_word = !space;
    }
    if (in_word)
        strv_push(out, word.data ? word.data : "");
}

static void push_all(struct strv *to, json_t *words)
{
    for (size_t i = 0; i < json_array_size(words); i++)
        strv_push(to, json_string_value(json_array_get(words, i)));
}

/* The compiler's words, with the options before the file. */
static int put_options(const struct judge0_asked *a, struct wording *words)
{
    auto_strv struct strv options = { 0 };
    json_t *compile = json_object_get(a->entry, "compile");

    strv_done(&words->compile_argv);
    words->compile_argv = (struct strv){ 0 };
    split(a->options, &options);
    for (size_t i = 0; i < json_array_size(compile); i++) {
        const char *word = json_string_value(json_array_get(compile, i));

        if (str_eq(word, "{file}"))
            strv_copy(&words->compile_argv, &options);
        strv_push(&words->compile_argv, word);
    }
    return words->compile_argv.failed || options.failed ? -1 : 0;
}

/* A shell does before the program what vial's requests cannot say. */
static int put_prefix(const struct judge0_asked *a, struct wording *words)
{
    char line[96];

    if (!a->own_stack && !a->merged)
        return 0;
    (void)snprintf(line, sizeof(line), "ulimit -s %.0f || exit 126; exec \"$@\"%s",
                   a->limits[JUDGE0_STACK], a->merged ? " 2>&1" : "");
    strv_done(&words->run_argv);
    words->run_argv = (struct strv){ 0 };
    strv_push(&words->run_argv, "/bin/sh");
    strv_push(&words->run_argv, "-c");
    strv_push(&words->run_argv, line);
    strv_push(&words->run_argv, "sh");
    push_all(&words->run_argv, json_object_get(a->entry, "plain"));
    return words->run_argv.failed ? -1 : 0;
}

static int64_t at_least_one(double value)
{
    return value < 1 ? 1 : (int64_t)value;
}

static int put_limits(const struct judge0_asked *a, struct vial_request *req,
                      struct vial_error *err)
{
    const double *l = a->limits;
    int64_t file_bytes = at_least_one(l[JUDGE0_FILE_SIZE] * KIB);

    if (program_limit(req, FIELD_ID_timeout, at_least_one(l[JUDGE0_WALL] * 1000), err) <
            0 ||
        program_limit(req, FIELD_ID_cpu_time, at_least_one(l[JUDGE0_CPU] * 1000), err) <
            0 ||
        program_limit(req, FIELD_ID_memory, at_least_one(l[JUDGE0_MEMORY] * KIB), err) <
            0 ||
        program_limit(req, FIELD_ID_pids, at_least_one(l[JUDGE0_PROCESSES]), err) < 0 ||
        program_limit(req, FIELD_ID_file_size, file_bytes, err) < 0)
        return -1;
    return program_limit(req, FIELD_ID_output_max, file_bytes, err);
}

static int put_files(const struct judge0_asked *a, const struct additional_files *files,
                     struct program *out, struct vial_error *err)
{
    if (a->many_files && additional_files_lead(files, out->req, err) < 0)
        return -1;
    return additional_files_put(out->call, files, out->req, err);
}

int judge0_program(const struct judge0_asked *a, const struct additional_files *files,
                   struct program *out, struct vial_error *err)
{
    auto_strv struct strv arguments = { 0 };

    if (wires_request(a->entry, a->source.data, a->source.len, &out->req, err) < 0 ||
        put_limits(a, out->req, err) < 0)
        return -1;
    if (a->has_stdin &&
        vial_request_set_bytes(out->req, "stdin",
                               a->stdin_data.data ? a->stdin_data.data : "",
                               a->stdin_data.len, err) < 0)
        return -1;
    split(a->arguments, &arguments);
    for (size_t i = 0; i < arguments.count; i++)
        if (vial_request_set(out->req, "args", arguments.items[i], err) < 0)
            return -1;
    out->compile.timeout_ms = program_most(out->call, FIELD_ID_timeout, COMPILE_MS);
    out->compile.cpu_ms = program_most(out->call, FIELD_ID_cpu_time, COMPILE_CPU);
    out->compile.memory_bytes = program_most(out->call, FIELD_ID_memory, COMPILE_BYTES);
    if (put_options(a, &out->req->words) < 0 || put_prefix(a, &out->req->words) < 0)
        return fail_memory(err);
    return put_files(a, files, out, err);
}

/* One line of TEXT, without the space at its end; *AT moves behind it. */
static size_t line_at(const struct blob *text, size_t *at)
{
    const char *begin = text->data + *at;
    const char *end = memchr(begin, '\n', text->len - *at);
    size_t len = end ? (size_t)(end - begin) : text->len - *at;

    *at += len + (end != NULL);
    while (len > 0 && isspace((unsigned char)begin[len - 1]))
        len--;
    return len;
}

static size_t stripped(const struct blob *text)
{
    size_t len = text->len;

    while (len > 0 && isspace((unsigned char)text->data[len - 1]))
        len--;
    return len;
}

/* Line by line, each stripped at its right, and the whole as well. */
static bool is_expected(const struct judge0_asked *a, const struct str *printed)
{
    struct blob x = { printed->data, printed->len };
    struct blob y = a->expected;
    size_t i = 0, k = 0;

    x.len = stripped(&x);
    y.len = stripped(&y);
    while (i < x.len && k < y.len) {
        const char *left = x.data + i, *right = y.data + k;
        size_t left_len = line_at(&x, &i), right_len = line_at(&y, &k);

        if (left_len != right_len || memcmp(left, right, left_len) != 0)
            return false;
    }
    return i >= x.len && k >= y.len;
}

int judge0_judge(const struct judge0_asked *a, const struct outcome *o)
{
    const struct stage *run = &o->run;

    if (!run->there)
        return verdict_words[o->compile.verdict].by == BY_OTHERS ? JUDGE0_INTERNAL
                                                                 : JUDGE0_NO_COMPILE;
    if (run->verdict == VIAL_OK && a->has_expected && !is_expected(a, &run->out))
        return JUDGE0_WRONG;
    if (run->verdict != VIAL_SIGNAL)
        return verdict_words[run->verdict].judge0;
    switch (run->signal) {
    case SIGSEGV:
        return JUDGE0_SEGV;
    case SIGXFSZ:
        return JUDGE0_XFSZ;
    case SIGFPE:
        return JUDGE0_FPE;
    case SIGABRT:
        return JUDGE0_ABRT;
    default:
        return verdict_words[VIAL_SIGNAL].judge0;
    }
}
