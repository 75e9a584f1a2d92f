/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record/run_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/state.h"
#include "model/result.h"
#include "model/value.h"

#define DIR_NAME  "runs"
#define COUNTERS  "counters.json"
#define FILE_MAX  ((size_t)8 << 20)
#define STEPS_MAX 64
#define NAME_LEN  13 /* digits of a time in milliseconds */

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void run_log_begin(struct run_log *d, const struct settings *settings)
{
    *d = (struct run_log){ .on = settings->journal.runs > 0 };
    if (!d->on)
        return;
    d->keep_bytes = (size_t)settings->journal.output;
    d->runs = settings->journal.runs;
    d->home = settings->home;
    d->started_ms = now_ms();
    d->steps = json_array();
}

void run_log_step(struct run_log *d, const char *what, json_t *detail)
{
    char when[CLOCK_STAMP_SIZE];
    json_t *step = NULL;

    if (d->on && json_array_size(d->steps) < STEPS_MAX) {
        clock_stamp(when, 3);
        step = json_pack("{s:s, s:s}", "time", when, "event", what);
    }
    if (step && detail)
        (void)json_object_update(step, detail);
    json_decref(detail);
    if (step)
        (void)json_array_append_new(d->steps, step);
}

void run_log_output(struct run_log *d, int stream, const void *data, size_t len)
{
    struct str *s = stream == 1 ? &d->out : &d->err;

    if (!d->on)
        return;
    if (len > d->keep_bytes - s->len)
        len = d->keep_bytes - s->len;
    str_add(s, data, len);
}

static json_t *text(const struct str *s)
{
    return value_text_json(s->data && str_ok(s) ? s->data : "", str_ok(s) ? s->len : 0);
}

/* As the daemon's history tells it. */
static json_t *record_of(const struct run_log *d, const char *title,
                         const struct vial_result *r)
{
    json_t *result = result_brief(r);

    (void)json_object_del(result, "artifacts");
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:I, s:s, s:s, s:o, s:f, s:o, s:o, s:O, s:o}", "request",
        r->correlation, "id", r->id, "caller", "", "what",
        value_text_json(title, strlen(title)), "started_ms", (json_int_t)d->started_ms,
        "state", "ended", "verdict", vial_verdict_name(r->verdict), "exit_code",
        r->exit_code < 0 ? json_null() : json_integer(r->exit_code), "duration_ms",
        r->duration_ms, "stdout", text(&d->out), "stderr", text(&d->err), "steps",
        d->steps, "result", result);
}

/* Whole, or not at all. */
static int write_file(int dir_fd, const char *name, json_t *json)
{
    auto_free char *data = json ? json_dumps(json, JSON_COMPACT) : NULL;
    char temporary[80];
    auto_fd int fd = -1;

    (void)snprintf(temporary, sizeof(temporary), ".%d-%s", (int)getpid(), name);
    if (!data)
        return -1;
    fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (io_write_all(fd, data, strlen(data)) == 0 &&
        renameat(dir_fd, temporary, dir_fd, name) == 0)
        return 0;
    (void)unlinkat(dir_fd, temporary, 0);
    return -1;
}

static int read_file(int dir_fd, const char *name, json_t **out)
{
    auto_fd int fd =
        openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct blob data = { 0 };
    struct stat st;

    *out = NULL;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        io_read_fd(fd, name, FILE_MAX, &data, NULL) < 0)
        return -1;
    *out =
        json_loadb(data.data ? data.data : "", data.len, JSON_REJECT_DUPLICATES, NULL);
    blob_done(&data);
    return json_is_object(*out) ? 0 : -1;
}

static int is_run(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);

    return strspn(entry->d_name, "0123456789") == NAME_LEN &&
           str_starts(entry->d_name + NAME_LEN, "-r-") && len < 64 &&
           strcmp(entry->d_name + len - 5, ".json") == 0;
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*b)->d_name, (*a)->d_name);
}

struct names {
    struct dirent **items;
    int count;
};

static void names_done(struct names *n)
{
    for (int i = 0; i < n->count; i++)
        free(n->items[i]);
    free(n->items);
}
#define auto_names __attribute__((cleanup(names_done)))

static void read_names(int dir_fd, struct names *out)
{
    char path[64]; /* musl has no scandirat */

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", dir_fd);
    out->count = scandir(path, &out->items, is_run, newest_first);
    if (out->count < 0)
        *out = (struct names){ 0 };
}

static void prune(int dir_fd, int64_t keep)
{
    auto_names struct names names = { 0 };

    read_names(dir_fd, &names);
    for (int i = (int)(keep < names.count ? keep : names.count);
         names.items && i < names.count; i++)
        (void)unlinkat(dir_fd, names.items[i]->d_name, 0);
}

/* Counters that cannot be read are kept for a person to look at; the last such alone.
 * True: there were some. */
static bool put_aside(int dir_fd)
{
    return renameat(dir_fd, COUNTERS, dir_fd, "bad-" COUNTERS) == 0;
}

/* One after the other, by a lock on the directory. */
static void count(int dir_fd, const struct vial_result *result)
{
    auto_json json_t *before = NULL;
    auto_json json_t *after = NULL;
    struct metrics m;

    if (metrics_init(&m) < 0)
        return;
    if (flock(dir_fd, LOCK_EX) == 0) {
        if (read_file(dir_fd, COUNTERS, &before) == 0)
            metrics_add_json(&m, before);
        else
            (void)put_aside(dir_fd);
        metrics_run(&m, result);
        after = metrics_json(&m);
        (void)write_file(dir_fd, COUNTERS, after);
        (void)flock(dir_fd, LOCK_UN);
    }
    metrics_done(&m);
}

static int open_dir(const char *home, bool make, struct vial_error *err)
{
    auto_free char *path = state_path(home);

    return path ? state_open(path, DIR_NAME, make, err) : -1;
}

static void write_down(struct run_log *d, const char *title,
                       const struct vial_result *result)
{
    struct vial_error err = { 0 };
    auto_fd int dir_fd = open_dir(d->home, true, &err);
    auto_json json_t *record = NULL;
    char name[64];

    if (dir_fd < 0)
        return;
    if (!d->out.len && !d->err.len) {
        run_log_output(d, 1, result->out.data ? result->out.data : "", result->out.len);
        run_log_output(d, 2, result->err.data ? result->err.data : "", result->err.len);
    }
    record = record_of(d, title, result);
    (void)snprintf(name, sizeof(name), "%0*lld-%s.json", NAME_LEN,
                   (long long)d->started_ms, result->id);
    (void)write_file(dir_fd, name, record);
    prune(dir_fd, d->runs);
    count(dir_fd, result);
}

void run_log_end(struct run_log *d, const char *title, const struct vial_result *result)
{
    if (d->on)
        write_down(d, title, result);
    json_decref(d->steps);
    str_done(&d->out);
    str_done(&d->err);
    *d = (struct run_log){ 0 };
}

static int nothing(const char *id, struct vial_error *err)
{
    if (id)
        (void)fail(err, VIAL_E_ROUTE, "there is no run '%s' in the journal", id);
    else
        (void)fail(err, VIAL_E_ROUTE, "there is no journal of runs");
    return fail_remedy(err,
                       "settings with 'journal: {runs: 200}' keep one, as the preset "
                       "acode does; '--daemon' asks the daemon");
}

int run_log_list(const char *home, json_t **out, struct vial_error *err)
{
    static const char *const left_out[] = { "stdout", "stderr", "steps", "result" };
    auto_fd int dir_fd = open_dir(home, false, err);
    auto_names struct names names = { 0 };
    auto_json json_t *list = json_array();

    if (dir_fd < 0)
        return err->code[0] ? -1 : nothing(NULL, err);
    read_names(dir_fd, &names);
    for (int i = 0; i < names.count; i++) {
        json_t *run = NULL;

        if (read_file(dir_fd, names.items[i]->d_name, &run) < 0) {
            json_decref(run);
            continue;
        }
        for (size_t k = 0; k < sizeof(left_out) / sizeof(*left_out); k++)
            (void)json_object_del(run, left_out[k]);
        (void)json_array_append_new(list, run);
    }
    *out = ptr_take(&list);
    return 0;
}

static bool is_named(json_t *run, const char *id)
{
    return str_eq(json_string_value(json_object_get(run, "id")), id) ||
           str_eq(json_string_value(json_object_get(run, "request")), id);
}

int run_log_find(const char *home, const char *id, json_t **out, struct vial_error *err)
{
    auto_fd int dir_fd = open_dir(home, false, err);
    auto_names struct names names = { 0 };

    if (dir_fd < 0)
        return err->code[0] ? -1 : nothing(id, err);
    read_names(dir_fd, &names);
    for (int i = 0; i < names.count; i++) {
        json_t *run = NULL;

        if (read_file(dir_fd, names.items[i]->d_name, &run) == 0 && is_named(run, id)) {
            *out = run;
            return 0;
        }
        json_decref(run);
    }
    return nothing(id, err);
}

int run_log_count(const char *home, struct metrics *m, struct vial_error *err)
{
    auto_fd int dir_fd = open_dir(home, false, err);
    auto_json json_t *counters = NULL;

    if (dir_fd < 0)
        return err->code[0] ? -1 : nothing(NULL, err);
    if (read_file(dir_fd, COUNTERS, &counters) == 0)
        metrics_add_json(m, counters);
    else if (put_aside(dir_fd))
        return fail(err, VIAL_E_INTERNAL,
                    "the counters of runs cannot be understood; they are called "
                    "'bad-" COUNTERS "' now, and begin anew");
    return 0;
}
