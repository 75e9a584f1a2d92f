/* SPDX-License-Identifier: Apache-2.0 */

/* Files into the vessel before the run, and out of it afterwards. */

#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/fail.h"
#include "engine/run/run.h"
#include "model/result.h"

#define PUTS_OPEN    64         /* unanswered at once */
#define PUTS_PENDING (1u << 20) /* bytes unwritten before the next file waits */

static int announce(struct run *r, struct vial_error *err)
{
    const struct plan_file *file = &r->plan->files[r->next_file];
    const struct put_message m = { .path = file->path, .mode = file->mode };

    if (link_put(r->talk.link, &m, &r->put_channel, err) < 0)
        return -1;
    r->put_sent = 0;
    r->puts_open++;
    return 0;
}

/* True when the whole content has been sent. */
static bool send_content(struct run *r)
{
    const struct blob *content = &r->plan->files[r->next_file].content;

    if (!link_send_whole(r->talk.link, r->put_channel, content->data, content->len,
                         &r->put_sent))
        return false;
    r->put_channel = 0;
    r->next_file++;
    return true;
}

static bool may_announce(const struct run *r)
{
    size_t pending;

    (void)link_pending(r->talk.link, &pending);
    return r->puts_open < PUTS_OPEN && pending < PUTS_PENDING;
}

/* The guest does everything in order, so that the program can be queued behind
 * the last byte of the last file, unanswered though it is. */
void transfer_put(struct run *r)
{
    struct vial_error err = { 0 };

    while (r->end == RUN_GOING && r->next_file < r->plan->file_count) {
        if (r->put_channel == 0 && !may_announce(r))
            return;
        if (r->put_channel == 0 && announce(r, &err) < 0) {
            run_fail(r, RUN_FAILED, &err);
            return;
        }
        if (!send_content(r))
            return;
    }
    if (r->end == RUN_GOING)
        run_go_on(r);
}

/* Answers come in the order of the files; a guest that lies about it misnames. */
static const char *answered_path(const struct run *r)
{
    size_t announced = r->next_file + (r->put_channel != 0);

    return r->plan->files[announced - r->puts_open].path;
}

static void put_failed(struct run *r, int error)
{
    struct vial_error err = { 0 };

    (void)fail_sys_rc(&err, error, "put '%s' into the vessel", answered_path(r));
    (void)fail_as(&err, VIAL_E_FILE);
    if (error == ENOSPC || error == EDQUOT)
        (void)fail_remedy(&err, "raise 'disk', or bring less");
    run_fail(r, RUN_FAILED, &err);
}

static void ask(struct run *r)
{
    struct vial_error err = { 0 };
    const struct get_message m = {
        .path = r->plan->outputs.items[r->next_output],
        .len = (uint64_t)(RUN_FETCH_MAX - r->fetched_total) + 1,
    };

    r->fetched = (struct str){ 0 };
    if (link_get(r->talk.link, &m, &r->get_channel, &err) < 0)
        run_fail(r, RUN_FAILED, &err);
}

void transfer_get(struct run *r)
{
    (void)run_set_due(r, RUN_FETCH_MS);
    ask(r);
}

static struct vial_file *current(struct run *r)
{
    return &r->files[r->next_output];
}

static void next(struct run *r)
{
    r->get_channel = 0;
    r->next_output++;
    if (r->next_output == r->plan->outputs.count)
        run_go_on(r);
    else
        ask(r);
}

int transfer_pay(struct vial_result *result, const char *path, int64_t total,
                 size_t bytes, struct vial_error *err)
{
    if (total > RUN_FETCH_MAX)
        return fail(err, VIAL_E_FILE,
                    "fetch '%s': all outputs together are larger than %" PRId64
                    " bytes",
                    path, RUN_FETCH_MAX);
    if (result_charge(result, bytes))
        return 0;
    (void)fail(err, VIAL_E_BUSY,
               "fetch '%s': there is no memory left for it beside what others hold",
               path);
    return fail_remedy(err, "try again when other answers were read");
}

void transfer_data(struct run *r, const uint8_t *data, size_t len)
{
    const char *path = r->plan->outputs.items[r->next_output];

    r->fetched_total += (int64_t)len;
    if (transfer_pay(r->result, path, r->fetched_total, len, &current(r)->error) == 0) {
        str_add(&r->fetched, data, len);
        return;
    }
    r->fetched_total -= (int64_t)(len + r->fetched.len);
    str_done(&r->fetched);
    link_close_channel(r->talk.link, r->get_channel);
    next(r);
}

static void get_failed(const char *path, int error, struct vial_error *err)
{
    (void)fail_sys_rc(err, error, "fetch '%s'", path);
    if (error == ENOENT) {
        (void)fail_as(err, VIAL_E_NO_FILE);
        (void)fail_remedy(err, "write it below the working directory");
    } else if (error == ELOOP || error == EXDEV) {
        (void)fail_as(err, VIAL_E_PATH);
        (void)fail_remedy(err, "symbolic links are not followed; write a plain file");
    } else {
        (void)fail_as(err, VIAL_E_FILE);
    }
}

static void get_done(struct run *r, int error)
{
    struct vial_file *file = current(r);

    file->len = r->fetched.len;
    if (error == 0 && !r->fetched.failed)
        file->data = str_take(&r->fetched);
    if (error == 0 && !file->data)
        (void)fail_memory(&file->error);
    if (error != 0)
        get_failed(r->plan->outputs.items[r->next_output], error, &file->error);
    if (!file->data)
        file->len = 0;
    str_done(&r->fetched);
    next(r);
}

void transfer_done(struct run *r, uint32_t channel, int error)
{
    if (channel == r->get_channel) {
        get_done(r, error);
        return;
    }
    if (error != 0) {
        put_failed(r, error);
        return;
    }
    r->puts_open--;
}

void transfer_give_up(struct run *r)
{
    for (; r->next_output < r->plan->outputs.count; r->next_output++) {
        struct vial_error *err = &current(r)->error;

        (void)fail(err, VIAL_E_FILE, "fetch '%s': the run was over before it could be",
                   r->plan->outputs.items[r->next_output]);
    }
}
