/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/expand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/path.h"

/* Where the working directory is. Borrowed. */
static const char *workdir_of(const struct plan *plan, const struct vessel *vessel)
{
    return vessel->jail.workdir ? vessel->jail.workdir : plan->workdir;
}

void expand_text(struct strv *out, const struct plan *plan, const struct vessel *vessel,
                 const char *text)
{
    plan_expand(out, text, workdir_of(plan, vessel));
}

static bool has_name(const struct strv *env, const char *entry)
{
    size_t len = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->items[i], entry, len) == 0)
            return true;
    return false;
}

/* Ours, where an image may know better: its programs lie where it says. All else of
 * ours tells what the vessel is like, or a language needs it. */
static bool gives_way(const char *entry, const struct strv *image)
{
    return (str_eq(entry, "PATH=" PATH_SEARCH) || str_eq(entry, "LANG=C.UTF-8")) &&
           has_name(image, entry);
}

void expand_env(const struct plan *plan, const struct vessel *vessel, struct strv *out)
{
    const struct strv *from = &plan->env;
    const char *tmpdir = vessel->tmpdir;

    for (size_t i = 0; i < from->count; i++) {
        const char *entry = from->items[i];
        const char *value = strchr(entry, '=');

        if (i >= plan->env_own)
            strv_push(out, entry);
        else if (gives_way(entry, &vessel->env))
            continue;
        else if (tmpdir && str_eq(value, "=/tmp"))
            strv_printf(out, "%.*s=%s", (int)(value - entry), entry, tmpdir);
        else
            expand_text(out, plan, vessel, entry);
    }
    for (size_t i = 0; i < vessel->env.count; i++)
        if (!has_name(out, vessel->env.items[i]))
            strv_push(out, vessel->env.items[i]);
}

char *expand_cwd(const struct plan *plan, const struct vessel *vessel, const char *cwd)
{
    struct str s = { 0 };

    if (path_is_beneath(cwd, plan->workdir)) {
        str_puts(&s, workdir_of(plan, vessel));
        cwd += strlen(plan->workdir);
    }
    str_puts(&s, cwd);
    return str_take(&s);
}

bool expand_starts_in_image(const struct plan *plan, const struct vessel *vessel)
{
    return plan->cwd_open && vessel->cwd;
}

static bool is_images_own(const struct plan *plan)
{
    return plan->argv_own == 1 && str_eq(plan->argv.items[0], PLAN_IMAGE_COMMAND);
}

const char *expand_program(const struct plan *plan, const struct vessel *vessel,
                           bool compile)
{
    if (compile)
        return plan->compile_argv.items[0];
    if (plan->entrypoint && vessel->entrypoint.count > 0)
        return vessel->entrypoint.items[0];
    return is_images_own(plan) && vessel->cmd.count > 0 ? vessel->cmd.items[0]
                                                        : plan->argv.items[0];
}

/* As container engines do: ENTRYPOINT, and behind it the command, or else CMD. */
static int make_argv(const struct plan *plan, const struct vessel *vessel, bool compile,
                     struct strv *out, struct vial_error *err)
{
    bool own = !compile && is_images_own(plan);

    if (plan->entrypoint)
        strv_copy(out, &vessel->entrypoint);
    if (own)
        strv_copy(out, &vessel->cmd);
    else
        plan_argv(plan, compile, workdir_of(plan, vessel), out);
    if (!own || out->failed || (out->count > 0 && *out->items[0]))
        return 0;
    (void)fail(err, VIAL_E_EXEC, "image '%s' has no program of its own", plan->image);
    return fail_remedy(err,
                       "give a command: its config has neither ENTRYPOINT nor CMD");
}

int expand_step(const struct plan *plan, const struct vessel *vessel, bool compile,
                struct program_step *out, struct vial_error *err)
{
    if (make_argv(plan, vessel, compile, &out->argv, err) < 0)
        return -1;
    expand_env(plan, vessel, &out->env);
    out->cwd = expand_starts_in_image(plan, vessel)
                   ? strdup(vessel->cwd)
                   : expand_cwd(plan, vessel, plan->cwd);
    if (!strv_ok(&out->argv) || !strv_ok(&out->env) || !out->cwd)
        return fail_memory(err);
    if (out->argv.count == 0 || out->env.count == 0)
        return fail(err, VIAL_E_INTERNAL, "the plan has no program or no environment");
    return 0;
}

void program_step_done(struct program_step *s)
{
    strv_done(&s->argv);
    strv_done(&s->env);
    free(s->cwd);
}

/* What lacks is not on this host. */
static int lacks_program(const char *program, const char *image, struct vial_error *err)
{
    if (image)
        return fail_remedy(err,
                           "image '%s' has no '%s' along its PATH: name another with "
                           "'--image', or build one that has it",
                           image, program);
    return fail_remedy(err, "check the name: programs are looked up along PATH "
                            "inside the vessel");
}

int start_fail(const struct plan *plan, const struct start_failure *f,
               struct vial_error *err)
{
    const char *program = f->program;
    uint32_t step = f->step;
    int error = f->error;

    if (step == STEP_CWD) {
        (void)fail_sys_rc(err, error, "enter directory '%s'", f->cwd);
        (void)fail_as(err, VIAL_E_CWD);
        if (f->cwd_of_image)
            return fail_remedy(err,
                               "it is the WORKDIR of image '%s'; name a directory "
                               "with '--cwd'",
                               plan->image);
        return fail_remedy(err, "name a directory that exists inside the vessel, or "
                                "leave 'cwd' out");
    }
    if (step == STEP_FORK && error == ETIMEDOUT) {
        (void)fail(err, VIAL_E_EXEC, "start '%s': it was stopped before it began",
                   program);
        return fail_remedy(err, "another program of this session stops new processes: "
                                "end it, or open another session");
    }
    if (step == STEP_FORK && error == ETIME) {
        (void)fail(err, VIAL_E_EXEC, "start '%s': it did not begin within 5 seconds",
                   program);
        return fail_remedy(err, "another program of this session holds it up: end it, "
                                "or open another session");
    }
    if (step == STEP_FORK && error == EAGAIN) {
        (void)fail_sys_rc(err, error, "start '%s': no process is left", program);
        (void)fail_as(err, VIAL_E_EXEC);
        return fail_remedy(err,
                           "end programs that still run there, or ask for more than "
                           "%lld 'pids'",
                           (long long)plan->limits.pids);
    }
    if (step != STEP_FIND && step != STEP_EXEC) {
        (void)fail_sys_rc(err, error, "prepare '%s': step '%s'", program,
                          exec_step_name(step));
        return fail_as(err, VIAL_E_EXEC);
    }
    (void)fail_sys_rc(err, error, "start '%s'", program);
    (void)fail_as(err, VIAL_E_EXEC);
    if (error == ENOENT)
        return lacks_program(program, plan->image, err);
    if (error == EACCES)
        return fail_remedy(err, "name a program: a file that may be executed ('chmod "
                                "+x'), inside the vessel");
    return -1;
}
