/* SPDX-License-Identifier: Apache-2.0 */

/* The steps of a build, one after the other, as programs of its sandbox. Nothing that
 * its files say is read outside of that: an archive is unpacked by the image's own tar,
 * which can do what every other step can. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/text.h"
#include "base/thread.h"
#include "e2b/build_scripts.h"
#include "e2b/builds.h"
#include "e2b/connect.h"
#include "e2b/control.h"

#define SHOWN_MAX 200 /* of a command, in the log */

/* Where an archive is unpacked. */
static const char stage[] = BOX_HOME "/.vial-copy";

struct building {
    struct build *b;
    struct box *box;
    struct build_plan plan;
    struct str cwd;
    struct str exports; /* lines of a shell: variables of the steps so far */
    bool root;          /* who the next ones are */
};

/* SCRIPT with arguments, the last of them NULL, by root where there is one. */
static int run_script(struct building *w, const char *const *argv, int input,
                      const char *what, const char *name, struct str *why)
{
    auto_str struct str printed = { 0 };
    auto_str struct str how = { 0 };
    const struct build_program p = { .argv = argv,
                                     .cwd = "/",
                                     .root = w->box->has_root,
                                     .input = input,
                                     .printed = &printed };

    if (build_program(w->box, &p, &how) == 0)
        return 0;
    while (printed.len > 0 && printed.data[printed.len - 1] == '\n')
        printed.data[--printed.len] = '\0';
    str_printf(why, "failed to %s '%s': %s", what, name,
               printed.len ? printed.data
               : how.data  ? how.data
                           : "out of memory");
    return -1;
}

/* Who NAME is; false: steps cannot be that. */
static bool read_user(const struct building *w, const char *name, bool *root)
{
    *root = strcmp(name, BOX_ROOT) == 0;
    return *root ? w->box->has_root : strcmp(name, BOX_USER) == 0;
}

static void say_user(const struct building *w, const char *name, struct str *why)
{
    str_printf(why, "unauthenticated: invalid username: '%s'", name);
    if (strcmp(name, BOX_ROOT) == 0 && !w->box->has_root)
        str_puts(why, ": this server's sandboxes have no root user; its operator can "
                      "set 'defaults: { sudo: nopasswd }'");
}

static int step_run(struct building *w, const struct build_step *s, struct str *why)
{
    static const char *const of_root[] = { "HOME=/" BOX_ROOT, "USER=" BOX_ROOT,
                                           "LOGNAME=" BOX_ROOT, NULL };
    static const char *const of_user[] = { NULL };
    const char *command = s->args.items[0];
    const char *user = s->args.count > 1 ? s->args.items[1] : NULL;
    auto_str struct str line = { 0 };
    auto_str struct str how = { 0 };
    bool root = w->root;

    if (user && *user && !read_user(w, user, &root)) {
        str_printf(why, "failed to run command '%s': command failed: ", command);
        say_user(w, user, why);
        return -1;
    }
    str_printf(&line, "%s%s", w->exports.data ? w->exports.data : "", command);
    if (str_ok(&line)) {
        const char *const argv[] = {
            "/bin/sh", "-c", script_run, "sh", line.data, NULL
        };
        const struct build_program p = { .argv = argv,
                                         .env = root ? of_root : of_user,
                                         .cwd = w->cwd.data,
                                         .root = root,
                                         .input = -1,
                                         .log = w->b };

        if (build_program(w->box, &p, &how) == 0)
            return 0;
    }
    str_printf(why, "failed to run command '%s': %s", command,
               how.data ? how.data : "out of memory");
    return -1;
}

/* Variables in VALUE are replaced as a shell would, and nothing else is. */
static int expand(struct building *w, const char *name, const char *value,
                  struct str *out, struct str *why)
{
    auto_str struct str line = { 0 };
    auto_str struct str how = { 0 };

    if (!strchr(value, '$')) {
        str_puts(out, value);
        return 0;
    }
    str_printf(&line, "%sprintf %%s \"", w->exports.data ? w->exports.data : "");
    for (const char *c = value; *c; c++)
        str_printf(&line, "%s%c",
                   strchr("\\\"`", *c) || (c[0] == '$' && c[1] == '(') ? "\\" : "", *c);
    str_putc(&line, '"');
    if (str_ok(&line)) {
        const char *const argv[] = { "/bin/sh", "-c", line.data, NULL };
        const struct build_program p = {
            .argv = argv, .cwd = "/", .input = -1, .printed = out
        };

        if (build_program(w->box, &p, &how) == 0)
            return 0;
    }
    str_printf(why, "failed to evaluate environment variable %s: %s", name,
               how.data ? how.data : "out of memory");
    return -1;
}

static int step_env(struct building *w, const struct build_step *s, struct str *why)
{
    for (size_t i = 0; i + 1 < s->args.count; i += 2) {
        auto_str struct str value = { 0 };

        if (expand(w, s->args.items[i], s->args.items[i + 1], &value, why) < 0)
            return -1;
        str_printf(&w->exports, "export %s=", s->args.items[i]);
        text_shell(&w->exports, value.data ? value.data : "");
        str_putc(&w->exports, '\n');
    }
    return str_ok(&w->exports) ? 0 : -1;
}

static int step_workdir(struct building *w, const struct build_step *s, struct str *why)
{
    const char *named = s->args.items[0];
    const char *owner = !w->box->has_root ? "" : w->root ? "root:root" : "user:user";
    struct connect_error e = { 0 };
    struct str path = { 0 };

    if (box_path(*named == '~' ? BOX_HOME : w->cwd.data, named, &path, &e) < 0) {
        str_printf(why, "failed to create workdir: %s", e.message);
        str_done(&path);
        return -1;
    }
    str_done(&w->cwd);
    w->cwd = path;
    const char *const argv[] = { "/bin/sh", "-c", script_workdir, "sh", w->cwd.data,
                                 owner,     NULL };

    return run_script(w, argv, -1, "create workdir", w->cwd.data, why);
}

static int step_user(struct building *w, const struct build_step *s, struct str *why)
{
    const char *name = s->args.items[0];

    if (read_user(w, name, &w->root))
        return 0;
    str_printf(why, "failed to set user '%s': ", name);
    say_user(w, name, why);
    str_puts(why, "; steps are run by 'user' or 'root'");
    return -1;
}

/* "user:group" of the files, or "" where they are the user's anyway; false: they cannot
 * be given to that one. */
static bool owner_of(const struct building *w, const struct build_step *s,
                     struct str *out)
{
    const char *named = s->args.count > 2 ? s->args.items[2] : "";
    const char *name = *named ? named : w->root ? BOX_ROOT : BOX_USER;

    str_puts(out, name);
    if (!strchr(name, ':'))
        str_printf(out, ":%s", name);
    if (w->box->has_root || !str_ok(out))
        return str_ok(out);
    if (strcmp(out->data, BOX_USER ":" BOX_USER) != 0)
        return false;
    out->len = 0;
    out->data[0] = '\0';
    return true;
}

static bool is_gzip(int fd)
{
    unsigned char head[2];

    return pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           head[0] == 0x1f && head[1] == 0x8b;
}

static int step_copy(struct building *w, const struct build_step *s, struct str *why)
{
    auto_free char *source = build_source(s->args.items[0]);
    const char *named = s->args.items[1];
    const char *mode = s->args.count > 3 ? s->args.items[3] : "";
    auto_str struct str owner = { 0 };
    auto_str struct str to = { 0 };
    int fd = build_file(w->b, s->hash);

    str_printf(&to, "%s%s%s", *named == '/' ? "" : w->cwd.data,
               *named == '/' ? "" : "/", named);
    if (!source || fd < 0 || !str_ok(&to))
        return -1;
    if (!owner_of(w, s, &owner)) {
        str_printf(why, "failed to copy '%s' for '%s': ", s->args.items[0],
                   owner.data ? owner.data : "");
        say_user(w, BOX_ROOT, why);
        return -1;
    }
    const char *const argv[] = {
        "/bin/sh", "-c",       script_copy, "sh",  source,
        to.data,   owner.data, mode,        stage, is_gzip(fd) ? "z" : "",
        NULL
    };

    return run_script(w, argv, fd, "copy", s->args.items[0], why);
}

static int do_step(struct building *w, const struct build_step *s, struct str *why)
{
    switch (s->kind) {
    case STEP_COPY:
        return step_copy(w, s, why);
    case STEP_RUN:
        return step_run(w, s, why);
    case STEP_ENV:
        return step_env(w, s, why);
    case STEP_WORKDIR:
        return step_workdir(w, s, why);
    case STEP_USER:
        break;
    }
    return step_user(w, s, why);
}

static void tell_step(struct building *w, size_t i)
{
    const struct build_step *s = &w->plan.steps[i];
    bool copies = s->kind == STEP_COPY;

    build_tell(w->b, "[%zu/%zu] %s %.*s%s%.*s", i + 1, w->plan.count,
               build_word(s->kind), SHOWN_MAX, s->args.items[0], copies ? " " : "",
               SHOWN_MAX, copies ? s->args.items[1] : "");
}

/* Reading a root is work like a run, and waits for its turn like one. */
static int save(struct building *w, struct str *why)
{
    struct gate *gate = w->b->caller->gate;
    struct gate_pass pass = { 0 };
    auto_json json_t *made = NULL;
    struct vial_error err = { 0 };
    char words[ASK_WORDS];
    int rc = gate_enter(gate, w->b->caller, -1, &pass, &err);

    build_tell(w->b, "Saving '%s'", w->b->saved.name);
    if (rc == 0) {
        rc = inside_snapshot_as(box_session(w->box), w->b->saved.image, &made, &err);
        gate_leave(gate, &pass, 0);
    }
    if (rc == 0)
        return 0;
    ask_words(&err, words);
    str_printf(why, "failed to save the template: %s", words);
    return -1;
}

static int all_steps(struct building *w, char step[24], struct str *why)
{
    for (size_t i = 0; i < w->plan.count; i++) {
        const struct build_step *s = &w->plan.steps[i];

        (void)snprintf(step, 24, "%zu", i + 1);
        tell_step(w, i);
        if (do_step(w, s, why) < 0)
            return -1;
    }
    (void)snprintf(step, 16, "finalize");
    return save(w, why);
}

static void building_free(struct building *w)
{
    build_plan_done(&w->plan);
    str_done(&w->cwd);
    str_done(&w->exports);
    free(w);
}

static void *work(void *context)
{
    struct building *w = context;
    struct caller *caller = w->b->caller;
    auto_str struct str why = { 0 };
    char step[24] = "base";
    int rc = all_steps(w, step, &why);

    build_leave(w->b);
    control_close_apart(w->box);
    ask_ended(caller);
    if (rc == 0)
        build_end(w->b, NULL, NULL);
    else
        build_end(w->b, step, str_ok(&why) && why.len ? why.data : "out of memory");
    building_free(w);
    return NULL;
}

int build_start(struct build *b, struct box *box, struct build_plan *plan,
                struct vial_error *err)
{
    struct building *w = calloc(1, sizeof(*w));

    if (!w)
        return fail_memory(err);
    w->b = b;
    w->box = box;
    w->plan = *plan;
    *plan = (struct build_plan){ 0 };
    str_puts(&w->cwd, BOX_HOME);
    if (str_ok(&w->cwd) && build_enter(b, box) &&
        thread_start_alone(THREAD_STACK, work, w) == 0)
        return 0;
    build_leave(b);
    building_free(w);
    return fail(err, VIAL_E_BUSY, "the server has no room for a build now");
}
