/* SPDX-License-Identifier: Apache-2.0 */
/* Plans the files that go in before the run (code, files, stdin) and come out after. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "model/value.h"
#include "plan/draft.h"

#define CODE_MODE 0644u

static int check_path(const char *what, const char *path, struct vial_error *err)
{
    struct shown shown;

    if (path_is_plain_relative(path, strlen(path)))
        return 0;
    shown = value_show(path, strlen(path));
    (void)fail(err, VIAL_E_PATH,
               "%s '%s' is not a plain path below the working directory", what,
               shown.text);
    return fail_remedy(err, "use a relative path without '..', '.' or empty parts");
}

static int add_code(struct draft *d, struct vial_error *err)
{
    struct plan_file *file = &d->plan->files[d->plan->file_count];
    const struct blob *code = &d->req->code;

    if (check_path("file", plan_source_name(d), err) < 0)
        return -1;

    d->plan->file_count++;
    file->mode = CODE_MODE;
    file->path = strdup(plan_source_name(d));
    if (!file->path ||
        blob_set(&file->content, code->data ? code->data : "", code->len))
        return fail_memory(err);
    return 0;
}

/* O_NONBLOCK, so that a FIFO put there cannot hold us. */
static int open_source(const char *path, struct stat *st, struct vial_error *err)
{
    auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0 || fstat(fd, st) < 0) {
        (void)fail_sys(err, "read file '%s'", path);
        (void)fail_as(err, VIAL_E_FILE);
        return fail_remedy(err, "name a file that you may read");
    }
    if (!S_ISREG(st->st_mode)) {
        (void)fail(err, VIAL_E_FILE, "file '%s' is not a regular file", path);
        return fail_remedy(err, "name a regular file, or mount a directory");
    }
    return fd_take(&fd);
}

static int read_source(const struct draft *d, const char *source, int64_t budget,
                       struct plan_file *out, struct vial_error *err)
{
    const struct policy *policy = &d->settings->policy;
    auto_fd int fd = -1;
    struct stat st = { 0 };

    fd = open_source(source, &st, err);
    if (fd < 0)
        return -1;
    if (st.st_size > budget)
        return policy_refuse(policy, POLICY_ID_max_files, "files",
                             policy->max_files - budget + st.st_size, err);
    out->mode = (st.st_mode & S_IXUSR) ? 0755 : 0644;
    return io_read_fd(fd, source, (size_t)budget, &out->content, err);
}

static int add_file(struct draft *d, const struct file_in *from, int64_t *budget,
                    struct vial_error *err)
{
    struct plan_file *file = &d->plan->files[d->plan->file_count];

    if (check_path("file", from->path, err) < 0)
        return -1;
    d->plan->file_count++;
    file->mode = from->mode;
    file->path = strdup(from->path);
    if (!file->path)
        return fail_memory(err);
    if (from->source) {
        if (read_source(d, from->source, *budget, file, err) < 0)
            return -1;
    } else if (blob_set(&file->content, from->content.data ? from->content.data : "",
                        from->content.len) < 0) {
        return fail_memory(err);
    }
    *budget -= (int64_t)file->content.len;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_unique(const struct plan *plan, struct vial_error *err)
{
    auto_free const char **paths = calloc(plan->file_count + 1, sizeof(*paths));

    if (!paths)
        return fail_memory(err);
    for (size_t i = 0; i < plan->file_count; i++)
        paths[i] = plan->files[i].path;
    qsort(paths, plan->file_count, sizeof(*paths), by_text);
    for (size_t i = 1; i < plan->file_count; i++)
        if (strcmp(paths[i - 1], paths[i]) == 0)
            return fail(err, VIAL_E_PATH, "file '%s' is given twice", paths[i]);
    return 0;
}

static int add_files(struct draft *d, struct vial_error *err)
{
    int64_t budget = d->settings->policy.max_files;

    d->plan->files = calloc(d->req->files.count + 1, sizeof(*d->plan->files));
    if (!d->plan->files)
        return fail_memory(err);
    if (d->language && !d->plan->code.data && add_code(d, err) < 0)
        return -1;
    for (size_t i = 0; i < d->req->files.count; i++)
        if (add_file(d, &d->req->files.items[i], &budget, err) < 0)
            return -1;
    return check_unique(d->plan, err);
}

static int add_outputs(struct draft *d, struct vial_error *err)
{
    const struct strv *outputs = &d->req->outputs;

    for (size_t i = 0; i < outputs->count; i++) {
        if (check_path("output", outputs->items[i], err) < 0)
            return -1;
        strv_push(&d->plan->outputs, outputs->items[i]);
    }
    return strv_ok(&d->plan->outputs) ? 0 : fail_memory(err);
}

static int add_artifacts(struct draft *d, struct vial_error *err)
{
    const char *dir = d->req->artifacts;
    bool whole = dir && str_eq(dir, ".");

    if (!dir)
        return 0;
    if (!whole && check_path("artifacts", dir, err) < 0)
        return -1;
    d->plan->artifacts = strdup(whole ? "" : dir);
    return d->plan->artifacts ? 0 : fail_memory(err);
}

int plan_files_build(struct draft *d, struct vial_error *err)
{
    const struct blob *input = &d->req->stdin;

    if (add_files(d, err) < 0 || add_outputs(d, err) < 0 || add_artifacts(d, err) < 0)
        return -1;
    if (input->len > 0 && blob_set(&d->plan->stdin_data, input->data, input->len) < 0)
        return fail_memory(err);
    return 0;
}
