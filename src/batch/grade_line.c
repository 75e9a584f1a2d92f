/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/grade_line.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "model/result.h"

void grade_line_result(const struct grader *g, const struct vial_result *r,
                       json_t *into)
{
    static const char *const always[] = { "verdict",
                                          "stage",
                                          "exit_code",
                                          "signal",
                                          "stdout",
                                          "stderr",
                                          "stdout_base64",
                                          "stderr_base64",
                                          "stdout_truncated",
                                          "stderr_truncated",
                                          "limits_hit",
                                          "error",
                                          "files",
                                          NULL };
    static const char *const times[] = { "duration_ms", "usage", NULL };
    auto_json json_t *all = result_tree(r, false, NULL);

    for (size_t i = 0; always[i]; i++)
        (void)json_object_set(into, always[i], json_object_get(all, always[i]));
    for (size_t i = 0; times[i] && !g->no_times; i++)
        (void)json_object_set(into, times[i], json_object_get(all, times[i]));
    if (json_array_size(json_object_get(into, "files")) == 0)
        (void)json_object_del(into, "files");
}

void grade_line_vessel(const struct vial_result *r, json_t *line)
{
    auto_json json_t *all = result_brief(r);

    if (!r->vessel_id[0])
        return;
    (void)json_object_set(line, "driver", json_object_get(all, "driver"));
    (void)json_object_set(line, "isolation", json_object_get(all, "isolation"));
}

void grade_line_humaneval(struct grade *out)
{
    const char *verdict = vial_verdict_name(out->verdict);
    bool late = out->verdict == VIAL_TIMEOUT || out->verdict == VIAL_CPU_TIMEOUT;
    json_t *said;

    if (out->passed)
        said = json_string("passed");
    else if (late)
        said = json_string("timed out");
    else
        said = json_sprintf("failed: %s",
                            out->verdict == VIAL_OK ? "wrong answer" : verdict);
    (void)json_object_set_new(out->line, "result", said);
}

/* Whether NAME is ASKED, or the exact bytes of it. */
static bool is_member(const char *name, const char *asked)
{
    size_t len = strlen(asked);

    return strncmp(name, asked, len) == 0 &&
           (name[len] == '\0' || strcmp(name + len, "_base64") == 0);
}

void grade_line_leave_out(const struct grader *g, json_t *line)
{
    static const char *const needed[] = { "index",  "id",   "verdict",
                                          "passed", "hash", NULL };
    void *at = json_object_iter(line);

    while (at) {
        const char *name = json_object_iter_key(at);
        void *next = json_object_iter_next(line, at);
        bool wanted = false;

        for (size_t i = 0; needed[i]; i++)
            wanted = wanted || strcmp(needed[i], name) == 0;
        for (size_t i = 0; g->members[i]; i++)
            wanted = wanted || is_member(name, g->members[i]);
        if (!wanted)
            (void)json_object_del(line, name);
        at = next;
    }
}
