/* SPDX-License-Identifier: Apache-2.0 */

/* COPY: files of the context are put into a session by its own file calls. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "template/build_state.h"
#include "template/words.h"

#include "vial/files.h"

#define LINKS_AT_ONCE 200 /* so that their names fit a command */

static int read_words(const struct build *b, const struct template_step *step,
                      struct strv *out, struct vial_error *err)
{
    auto_strv struct strv variables = { 0 };

    build_variables(b, &variables);
    if (step->words.count == 0)
        return words_split(step->text, &variables, out, err);
    for (size_t i = 0; i < step->words.count; i++) {
        auto_free char *word = words_expand(step->words.items[i], &variables, err);

        if (!word)
            return -1;
        strv_push(out, word);
    }
    return out->failed ? fail_memory(err) : 0;
}

static bool says_directory(const char *to)
{
    size_t len = strlen(to);

    return strcmp(to, ".") == 0 || to[len - 1] == '/' ||
           (len > 1 && strcmp(to + len - 2, "/.") == 0);
}

int copy_read(struct build *b, const struct template_step *step, struct copy *out,
              struct vial_error *err)
{
    auto_strv struct strv words = { 0 };
    const char *to = NULL;

    if (read_words(b, step, &words, err) < 0)
        return -1;
    if (words.count < 2 || !words.items[words.count - 1][0])
        return fail(err, VIAL_E_TEMPLATE, "it needs what to copy, and where to");
    if (b->context.fd < 0 && context_open(b->order->dir, &b->context, err) < 0)
        return -1;
    to = words.items[words.count - 1];
    out->into = says_directory(to) || words.count > 2;
    for (size_t i = 0; i + 1 < words.count; i++)
        if (context_pick(&b->context, words.items[i], &out->picks, err) < 0)
            return -1;
    out->to = build_path(b, to, err);
    return out->to ? 0 : -1;
}

void copy_done(struct copy *c)
{
    picks_done(&c->picks);
    free(c->to);
    c->to = NULL;
}

static bool is_directory(struct vial_session *s, const char *path)
{
    struct vial_error ignored = { 0 };
    struct vial_entry e = { 0 };
    bool is = vial_session_stat_followed(s, path, &e, &ignored) == 0 && e.type == 'd';

    vial_entry_done(&e);
    return is;
}

static char *target_of(const struct copy *c, bool into, const struct picked *p,
                       struct vial_error *err)
{
    char *to = NULL;

    if (!into)
        to = strdup(c->to);
    else if (asprintf(&to, "%s/%s", strcmp(c->to, "/") == 0 ? "" : c->to, p->below) < 0)
        to = NULL;
    if (!to)
        (void)fail_memory(err);
    return to;
}

static int put_file(const struct build *b, const struct context_entry *e,
                    struct vial_session *s, const char *to, struct vial_error *err)
{
    auto_fd int fd = context_read(&b->context, e, err);

    if (fd < 0 || vial_session_put_fd(s, to, fd, e->mode, err) < 0)
        return -1;
    return context_check(e, fd, err);
}

static int make_links(const struct build *b, struct vial_session *s, struct strv *links,
                      struct vial_error *err)
{
    auto_strv struct strv argv = { 0 };
    int rc;

    if (links->count == 0)
        return 0;
    strv_push(&argv, "/bin/sh");
    strv_push(&argv, "-c");
    strv_push(&argv,
              "while [ $# -gt 0 ]; do ln -sfn -- \"$1\" \"$2\" || exit; shift 2; done");
    strv_push(&argv, "sh");
    strv_copy(&argv, links);
    strv_done(links);
    *links = (struct strv){ 0 };
    if (!strv_ok(&argv))
        return fail_memory(err);
    rc = step_run(b, s, (const char *const *)argv.items, "", NULL, err);
    return rc < 0 ? fail_in(err, "make links") : 0;
}

static int copy_one(const struct build *b, const struct picked *p, const char *to,
                    struct vial_session *s, struct strv *links, struct vial_error *err)
{
    switch (p->entry->type) {
    case 'd':
        return vial_session_mkdir(s, to, err);
    case 'l':
        strv_push(links, p->entry->target);
        strv_push(links, to);
        return links->count / 2 < LINKS_AT_ONCE ? 0 : make_links(b, s, links, err);
    default:
        return put_file(b, p->entry, s, to, err);
    }
}

int copy_do(const struct build *b, const struct copy *c, struct vial_session *s,
            struct vial_error *err)
{
    bool into = c->into || c->picks.tree || is_directory(s, c->to);
    auto_strv struct strv links = { 0 };

    if (into && strcmp(c->to, "/") != 0 && vial_session_mkdir(s, c->to, err) < 0)
        return -1;
    for (size_t i = 0; i < c->picks.count; i++) {
        auto_free char *to = target_of(c, into, &c->picks.items[i], err);

        if (!to || copy_one(b, &c->picks.items[i], to, s, &links, err) < 0)
            return -1;
    }
    return make_links(b, s, &links, err);
}
