/* SPDX-License-Identifier: Apache-2.0 */

/* create_sandbox, list_sandboxes, delete_sandbox and list_languages. */

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "mcp/tools.h"

static const char *argument(const struct mcp_call *call, const char *key)
{
    return json_string_value(json_object_get(call->arguments, key));
}

struct registered *tool_take(struct mcp_call *call, struct mcp_answer *answer)
{
    struct registered *held = NULL;
    struct vial_error err = { 0 };

    if (registry_take(call->registry, call->owner, argument(call, "sandbox_id"), &held,
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

static bool is_open(const json_t *session)
{
    const char *outcome = json_string_value(json_object_get(session, "outcome"));

    return outcome && strcmp(outcome, "open") == 0;
}

void tool_list_sandboxes(const struct mcp_tool *tool, struct mcp_call *call,
                         struct mcp_answer *answer)
{
    auto_json json_t *all = registry_list(call->registry, call->owner);
    json_t *open = json_array();

    (void)tool;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *s = json_array_get(all, i);
        const char *id = json_string_value(json_object_get(s, "id"));
        double age = json_number_value(json_object_get(s, "age_ms")) / 1000;
        json_int_t execs = json_integer_value(json_object_get(s, "execs"));

        if (!is_open(s))
            continue;
        (void)json_array_append_new(open,
                                    json_pack("{s:s, s:f, s:I}", "sandbox_id", id,
                                              "age_s", age, "programs_run", execs));
        str_printf(&answer->text, "%s  open for %.0f s, %lld programs run\n", id, age,
                   (long long)execs);
    }
    if (answer->text.len == 0)
        str_puts(&answer->text, "There is no sandbox. create_sandbox makes one.");
    answer->structured = json_pack("{s:o}", "sandboxes", open);
}

void tool_delete_sandbox(const struct mcp_tool *tool, struct mcp_call *call,
                         struct mcp_answer *answer)
{
    const char *id = argument(call, "sandbox_id");
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

static void say_language(struct str *s, const json_t *language, bool usable)
{
    const char *name = json_string_value(json_object_get(language, "name"));
    const char *version = json_string_value(json_object_get(language, "version"));

    if (usable)
        str_printf(s, "%s%s%s%s\n", name, version ? "  (" : "", version ? version : "",
                   version ? ")" : "");
    else
        str_printf(s, "%s%s", s->len ? ", " : "", name);
}

void tool_list_languages(const struct mcp_tool *tool, struct mcp_call *call,
                         struct mcp_answer *answer)
{
    auto_free char *text = NULL;
    auto_json json_t *all = NULL;
    auto_str struct str missing = { 0 };
    struct vial_error err = { 0 };

    (void)tool;
    if (vial_languages(call->engine, &text, &err) < 0) {
        tool_fail(answer, &err);
        return;
    }
    all = json_loads(text, 0, NULL);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *language = json_array_get(all, i);
        bool usable = json_is_true(json_object_get(language, "usable"));

        say_language(usable ? &answer->text : &missing, language, usable);
    }
    if (missing.len > 0)
        str_printf(&answer->text, "Not usable here: %s.", missing.data);
    answer->structured = json_pack("{s:O}", "languages", all);
}
