/* SPDX-License-Identifier: Apache-2.0 */

/* create_sandbox, list_sandboxes, delete_sandbox and list_languages. */

#include <inttypes.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "mcp/tools.h"
#include "model/doctor.h"

struct registered *tool_take(struct mcp_call *call, struct mcp_answer *answer)
{
    struct registered *held = NULL;
    struct vial_error err = { 0 };

    if (registry_take(call->registry, call->owner, tool_text(call, "sandbox_id"), &held,
                      &err) == 0)
        return held;
    tool_fail(answer, &err);
    return NULL;
}

void tool_create_sandbox(const struct mcp_tool *tool, struct mcp_call *call,
                         struct mcp_answer *answer)
{
    const struct tool_texts *own = tool->data;
    const struct vial_watch watch = { .cancel_fd = call->cancel_fd,
                                      .stdin_fd = -1,
                                      .caller = call->owner[0] ? call->owner : NULL,
                                      .pulling = mcp_tell_pull,
                                      .context = call };
    struct vial_session_options options = {
        .idle_ms = TOOL_IDLE_MS,
        .lease_ms = TOOL_LEASE_MS,
        .caller = call->owner[0] ? call->owner : NULL,
        .correlation = call->correlation,
        .watch = &watch,
    };
    struct vial_session_report report;
    auto_ask struct vial_request *req = NULL;
    struct registered *held = NULL;
    struct vial_error err = { 0 };

    /* The session's time-out is the most that a single program may have. */
    if (tool_request(call, "memory network files env",
                     json_pack("{s:s}", "timeout", own->max_timeout), &req, &err) < 0 ||
        registry_start(call->registry, call->owner, req, &options, &held, &err) < 0) {
        tool_fail(answer, &err);
        return;
    }
    vial_session_look(held->session, &report);
    str_printf(
        &answer->text,
        "Sandbox %s is ready (isolation: %s). Pass it as sandbox_id to run_code, "
        "run_command, read_file, write_file and list_files; end it with "
        "delete_sandbox. It ends by itself after %s without use.",
        held->id, report.level, tool_word(own, "idle"));
    answer->structured = json_pack("{s:s, s:s, s:s}", "sandbox_id", held->id, "driver",
                                   report.driver, "isolation", report.level);
    registry_release(call->registry, held);
    mcp_call_changed(call, "resources");
}

void tool_list_sandboxes(const struct mcp_tool *tool, struct mcp_call *call,
                         struct mcp_answer *answer)
{
    auto_free struct vial_session_report *all = NULL;
    size_t count = registry_reports(call->registry, call->owner, true, &all);
    json_t *open = json_array();

    (void)tool;
    for (size_t i = 0; i < count; i++) {
        const struct vial_session_report *r = &all[i];
        double age = r->duration_ms / 1000;

        (void)json_array_append_new(open, json_pack("{s:s, s:f, s:I}", "sandbox_id",
                                                    r->id, "age_s", age, "programs_run",
                                                    (json_int_t)r->execs));
        str_printf(&answer->text, "%s  open for %.0f s, %" PRIu64 " programs run\n",
                   r->id, age, r->execs);
    }
    if (answer->text.len == 0)
        str_puts(&answer->text, "There is no sandbox. create_sandbox makes one.");
    answer->structured = json_pack("{s:o}", "sandboxes", open);
}

void tool_delete_sandbox(const struct mcp_tool *tool, struct mcp_call *call,
                         struct mcp_answer *answer)
{
    const char *id = tool_text(call, "sandbox_id");
    struct vial_error err = { 0 };

    (void)tool;
    if (registry_stop(call->registry, call->owner, id, &err) < 0) {
        tool_fail(answer, &err);
        return;
    }
    str_printf(&answer->text,
               "Sandbox %s was ended; its programs are dead and its files are gone.",
               id);
    answer->structured = json_pack("{s:s}", "deleted", id);
    mcp_call_changed(call, "resources");
}

static void say_language(struct str *s, const struct vial_language *l)
{
    const char *version = l->version;

    if (l->usable)
        str_printf(s, "%s%s%s%s\n", l->name, version ? "  (" : "",
                   version ? version : "", version ? ")" : "");
    else
        str_printf(s, "%s%s", s->len ? ", " : "", l->name);
}

void tool_list_languages(const struct mcp_tool *tool, struct mcp_call *call,
                         struct mcp_answer *answer)
{
    auto_languages struct vial_languages all = { 0 };
    auto_str struct str missing = { 0 };
    struct vial_error err = { 0 };

    (void)tool;
    if (vial_language_list(call->engine, &all, &err) < 0) {
        tool_fail(answer, &err);
        return;
    }
    for (size_t i = 0; i < all.count; i++)
        say_language(all.items[i].usable ? &answer->text : &missing, &all.items[i]);
    if (missing.len > 0)
        str_printf(&answer->text, "Not usable here: %s.", missing.data);
    answer->structured = json_pack("{s:o}", "languages", languages_json(&all));
}
