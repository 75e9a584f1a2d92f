/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/fusion_tmp.h"

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "model/language.h"
#include "model/request.h"

#define THERE "/tmp/"
#define HERE  ".vial-tmp/"

bool fusion_tmp_path(const char *name, struct str *out)
{
    const char *rest = str_starts(name, THERE) ? name + strlen(THERE) : "";

    if (!path_is_plain_relative(rest, strlen(rest)))
        return false;
    str_printf(out, HERE "%s", rest);
    return true;
}

static bool has_any(const struct file_list *files)
{
    for (size_t i = 0; i < files->count; i++)
        if (str_starts(files->items[i].path, HERE))
            return true;
    return false;
}

/* WORDS, or the USUAL ones, behind a shell's. */
static int put_shell(struct strv *words, const struct strv *usual,
                     struct vial_error *err)
{
    static const char line[] = "cp -R \"$1/" HERE ".\" " THERE " && rm -rf \"$1/" HERE
                               "\" || exit 126; shift; "
                               "exec \"$@\"";
    const struct strv *rest = words->count > 0 ? words : usual;
    auto_strv struct strv all = { 0 };

    if (rest->count == 0)
        return 0;
    strv_push(&all, "/bin/sh");
    strv_push(&all, "-c");
    strv_push(&all, line);
    strv_push(&all, "sh");
    strv_push(&all, "{dir}");
    strv_copy(&all, rest);
    if (!strv_ok(&all))
        return fail_memory(err);
    strv_done(words);
    *words = all;
    all = (struct strv){ 0 };
    return 0;
}

int fusion_tmp_lead(const struct call *c, struct vial_request *req,
                    struct vial_error *err)
{
    const struct language *language;

    if (!has_any(&req->files))
        return 0;
    if (language_find(&c->gen->settings->languages, req->language, &language, err) <
            0 ||
        put_shell(&req->words.run_argv, &language->run_argv, err) < 0)
        return -1;
    return req->words.interpreted
               ? 0
               : put_shell(&req->words.compile_argv, &language->compile_argv, err);
}
