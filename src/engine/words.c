/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/words.h"

#include <errno.h>
#include <string.h>

#include "base/fail.h"
#include "base/path.h"

/* Where the working directory is. Borrowed. */
static const char *workdir_of(const struct plan *plan, const struct vessel *vessel)
{
    return vessel->jail.workdir ? vessel->jail.workdir : plan->workdir;
}

void words_expand(struct strv *out, const struct plan *plan,
                  const struct vessel *vessel, const char *text)
{
    auto_str struct str s = { 0 };
    const char *at;

    while ((at = strstr(text, "{dir}")) != NULL) {
        str_add(&s, text, (size_t)(at - text));
        str_puts(&s, workdir_of(plan, vessel));
        text = at + strlen("{dir}");
    }
    str_puts(&s, text);
    if (str_ok(&s))
        strv_push(out, s.data);
    else
        out->failed = true;
}

void words_env(const struct plan *plan, const struct vessel *vessel, struct strv *out)
{
    const struct strv *from = &plan->env;
    const char *tmpdir = vessel->tmpdir;

    for (size_t i = 0; i < from->count; i++) {
        const char *entry = from->items[i];
        const char *value = strchr(entry, '=');

        if (i >= plan->env_own)
            strv_push(out, entry);
        else if (tmpdir && str_eq(value, "=/tmp"))
            strv_printf(out, "%.*s=%s", (int)(value - entry), entry, tmpdir);
        else
            words_expand(out, plan, vessel, entry);
    }
}

char *words_cwd(const struct plan *plan, const struct vessel *vessel, const char *cwd)
{
    struct str s = { 0 };

    if (path_is_beneath(cwd, plan->workdir)) {
        str_puts(&s, workdir_of(plan, vessel));
        cwd += strlen(plan->workdir);
    }
    str_puts(&s, cwd);
    return str_take(&s);
}

int words_fail(const char *program, const char *cwd, uint32_t step, int error,
               struct vial_error *err)
{
    if (step == STEP_CWD) {
        (void)fail_sys_rc(err, error, "enter directory '%s'", cwd);
        (void)fail_as(err, VIAL_E_CWD);
        return fail_remedy(err, "name a directory that exists inside the vessel, or "
                                "leave 'cwd' out");
    }
    if (step != STEP_FIND && step != STEP_EXEC) {
        (void)fail_sys_rc(err, error, "prepare '%s': step '%s'", program,
                          exec_step_name(step));
        return fail_as(err, VIAL_E_EXEC);
    }
    (void)fail_sys_rc(err, error, "start '%s'", program);
    (void)fail_as(err, VIAL_E_EXEC);
    if (error == ENOENT)
        return fail_remedy(err, "check the name: programs are looked up along PATH "
                                "inside the vessel");
    if (error == EACCES)
        return fail_remedy(err, "name a program: a file that may be executed ('chmod "
                                "+x'), inside the vessel");
    return -1;
}
