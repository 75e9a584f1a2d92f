/* SPDX-License-Identifier: Apache-2.0 */

/* What a sandbox wrote becomes an image, of which others are opened: its files, and
 * neither its programs nor their memory (docs/adr/0101). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/unit.h"
#include "e2b/control.h"
#include "model/value.h"

#define PAGE  100
#define FORKS 100 /* that the wire knows */

static json_t *snapshot_json(const struct saved *s)
{
    return json_pack("{s:s, s:[s*], s:s}", "snapshotID", s->id, "names",
                     s->name[0] ? s->name : NULL, "sandboxID", s->sandbox);
}

static int no_image(const struct box *box, struct vial_error *err)
{
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "template '%.64s' is the host's programs, of which nothing can be saved",
               box->template_name);
    return fail_remedy(err, "have a template with an image: 'serve.e2b_templates: "
                            "[NAME=IMAGE]'");
}

int control_save(struct ask *a, struct box *box, const char *image,
                 struct vial_error *err)
{
    struct gate *gate = a->e2b->options.gate;
    struct gate_pass pass = { 0 };
    auto_json json_t *made = NULL;
    int rc = gate_enter(gate, a->caller, web_gone_fd(a->web), &pass, err);

    a->retry_s = pass.retry_s;
    if (rc < 0)
        return -1;
    rc = inside_snapshot_as(box_session(box), image, &made, err);
    gate_leave(gate, &pass, 0);
    return rc;
}

void control_refuse(struct ask *a, const struct vial_error *err)
{
    char words[ASK_WORDS];

    if (!fail_is(err, VIAL_E_UNSUPPORTED)) {
        ask_error(a, err);
        return;
    }
    ask_words(err, words);
    ask_refuse(a, 501, "%s", words);
}

static int read_name(struct ask *a, json_t **body, const char **name,
                     struct vial_error *err)
{
    json_t *given;

    if (ask_body(a, body, err) < 0)
        return -1;
    given = json_object_get(*body, "name");
    *name = value_string(given);
    return *name || !given || json_is_null(given)
               ? 0
               : fail(err, VIAL_E_VALUE, "'name' is not a text");
}

void control_snapshot(struct ask *a)
{
    auto_box struct box *box = control_own(a);
    auto_json json_t *body = NULL;
    auto_saved struct saved s = { 0 };
    struct vial_error err = { 0 };
    const char *name = NULL;

    if (!box)
        return;
    if ((!box->has_image && no_image(box, &err) < 0) ||
        read_name(a, &body, &name, &err) < 0 ||
        saved_name_snapshot(a->owner.name, box->id, name, &s, &err) < 0 ||
        control_save(a, box, s.image, &err) < 0)
        control_refuse(a, &err);
    else
        ask_json(a, 201, snapshot_json(&s));
}

static bool is_asked_for(struct ask *a, const struct saved *s)
{
    const char *sandbox = web_query(a->web, "sandboxID");
    const char *name = web_query(a->web, "name");

    return !s->template && (!sandbox || strcmp(sandbox, s->sandbox) == 0) &&
           (!name || strcmp(name, s->name) == 0 || strcmp(name, s->id) == 0);
}

/* The token is the id of the last one that was told. */
static void answer_page(struct ask *a, const struct saved_list *all, int64_t limit)
{
    const char *from = web_query(a->web, "nextToken");
    bool begun = !from || !*from;
    json_t *page = json_array();
    const char *last = NULL;

    for (size_t i = 0; i < all->count; i++) {
        const struct saved *s = &all->items[i];

        if (begun && is_asked_for(a, s) && json_array_size(page) == (size_t)limit) {
            (void)web_set_header(a->web, "X-Next-Token", last);
            break;
        }
        if (begun && is_asked_for(a, s)) {
            (void)json_array_append_new(page, snapshot_json(s));
            last = s->id;
        }
        begun = begun || strcmp(s->id, from) == 0;
    }
    if (begun) {
        ask_json(a, 200, page);
        return;
    }
    json_decref(page);
    ask_refuse(a, 400, "'nextToken' is not one of ours");
}

void control_snapshots(struct ask *a)
{
    auto_saved_list struct saved_list all = { 0 };
    const char *text = web_query(a->web, "limit");
    struct vial_error err = { 0 };
    int64_t limit = PAGE;

    if (text && (unit_parse_count(text, &limit) < 0 || limit < 1 || limit > PAGE))
        (void)fail(&err, VIAL_E_VALUE, "'limit' is not from 1 to %d", PAGE);
    if (err.code[0] || saved_read(a->turn->engine, a->owner.name, &all, &err) < 0)
        ask_error(a, &err);
    else
        answer_page(a, &all, limit);
}

/* A fork has its sandbox's files. Whoever has a program or an interpreter running there
 * expects it to go on in the fork, too, and it would not. */
static int check_fork(struct box *box, struct vial_error *err)
{
    bool busy = false;

    if (!box->has_image)
        return no_image(box, err);
    (void)pthread_mutex_lock(&box->lock);
    busy = procs_run(box) || notebooks_run(box);
    (void)pthread_mutex_unlock(&box->lock);
    if (!busy)
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "sandbox '%s' has programs or code contexts that run, and a fork has "
               "files only",
               box->id);
    return fail_remedy(err, "end them before, or create sandboxes from a snapshot");
}

static int read_fork(struct ask *a, int64_t *count, int64_t *seconds,
                     struct vial_error *err)
{
    auto_json json_t *body = NULL;
    const char *name;
    json_t *value;

    if (ask_body(a, &body, err) < 0)
        return -1;
    json_object_foreach(body, name, value)
    {
        if (json_is_null(value))
            continue;
        if (strcmp(name, "timeout") == 0) {
            if (control_seconds(value, 1, seconds, err) < 0)
                return -1;
        } else if (strcmp(name, "count") != 0) {
            return fail(err, VIAL_E_UNSUPPORTED,
                        "'%.60s' is not supported by this server", name);
        } else if (!json_is_integer(value) || json_integer_value(value) < 1 ||
                   json_integer_value(value) > FORKS) {
            return fail(err, VIAL_E_VALUE, "'count' is not from 1 to %d", FORKS);
        } else {
            *count = json_integer_value(value);
        }
    }
    return 0;
}

/* Each has an image of its own, which goes with it. */
static struct box *fork_one(struct ask *a, struct box *from, struct wish *w,
                            struct vial_error *err)
{
    auto_str struct str image = { 0 };
    struct vial_error ignored = { 0 };
    struct box *made = NULL;

    if (inside_snapshot_name(true, a->owner.name, "e2b", &image, err) < 0 ||
        control_save(a, from, image.data, err) < 0)
        return NULL;
    w->image = image.data;
    made = control_open(a, w, err);
    if (!made)
        (void)inside_snapshot_remove(a->turn->engine, a->owner.name, image.data,
                                     &ignored);
    return made;
}

static json_t *forked(struct ask *a, struct box *from, struct wish *w)
{
    struct vial_error err = { 0 };
    auto_box struct box *made = fork_one(a, from, w, &err);
    char words[ASK_WORDS];

    if (made)
        return json_pack("{s:o}", "sandbox", control_sandbox(a, made));
    ask_words(&err, words);
    return json_pack("{s:{s:i, s:s}}", "error", "code", (int)ask_status_of(&err),
                     "message", words);
}

void control_fork(struct ask *a)
{
    auto_box struct box *box = control_own(a);
    auto_json json_t *all = NULL;
    auto_json json_t *volumes = NULL;
    auto_control_egress struct control_egress egress = { 0 };
    struct vial_error err = { 0 };
    int64_t count = 1;
    struct wish w = { .fork = true, .seconds = CONTROL_USUAL_S };

    if (!box)
        return;
    if (read_fork(a, &count, &w.seconds, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    w.template_name = box->template_name;
    w.metadata = box->metadata;
    w.env = box->asked_env;
    w.mounts = box->mounts;
    w.open = !box->token[0];
    w.auto_pause = box->auto_pause;
    w.auto_resume = box->auto_resume;
    egress = control_egress(box);
    w.network = (struct network_wish){ .closed = egress.closed };
    if (check_fork(box, &err) < 0 || control_mounts(a, &w, &volumes, &err) < 0 ||
        (egress.network && network_read(&w.network, egress.network, &err) < 0)) {
        control_refuse(a, &err);
        return;
    }
    all = json_array();
    for (int64_t i = 0; all && i < count && !ask_is_gone(a); i++)
        (void)json_array_append_new(all, forked(a, box, &w));
    ask_json(a, 201, json_incref(all));
}
