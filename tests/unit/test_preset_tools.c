/* SPDX-License-Identifier: Apache-2.0 */

/* The tools of presets, called as the protocol core calls them, with real vessels of
 * the native driver. */

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "check.h"
#include "engine/session/session.h"
#include "mcp/preset.h"
#include "model/members.h"

struct world {
    struct vial_engine *engine;
    struct registry *registry;
    struct mcp_tools tools;
    size_t told;    /* bytes that came while it ran */
    bool cancelled; /* before it began */
};

/* There is no protocol core behind it. */
struct lone_call {
    struct mcp_call call;
    struct world *world;
};

static void count(struct mcp_call *call, const char *text, size_t len)
{
    (void)text;
    ((struct lone_call *)(void *)call)->world->told += len;
}

static void begin(struct world *w, const char *preset)
{
    const struct vial_engine_options options = { .preset = preset,
                                                 .config = "/dev/null" };
    struct registry_options more = { 0 };
    struct vial_error err = { 0 };

    *w = (struct world){ 0 };
    if (vial_engine_open(&options, &w->engine, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
    more.engine = w->engine;
    assert_int_equal(registry_open(&more, &w->registry, &err), 0);
    assert_int_equal(mcp_preset_tools(w->engine, preset, &w->tools, &err), 0);
}

static void end(struct world *w)
{
    mcp_tools_done(&w->tools);
    registry_close(w->registry);
    vial_engine_close(w->engine);
}

static const struct mcp_tool *tool_named(const struct world *w, const char *name)
{
    for (size_t i = 0; i < w->tools.count; i++)
        if (strcmp(w->tools.items[i].name, name) == 0)
            return &w->tools.items[i];
    fail_msg("there is no tool '%s'", name);
    return NULL;
}

/* Calls NAME with ARGUMENTS, which are taken; the structured answer fits its schema. */
static struct mcp_answer call(struct world *w, const char *name, json_t *arguments)
{
    const struct mcp_tool *tool = tool_named(w, name);
    struct mcp_answer answer = { 0 };
    struct vial_error why = { 0 };
    auto_fd int cancel_fd = eventfd(w->cancelled, EFD_CLOEXEC);
    struct lone_call c = { .call = { .arguments = arguments,
                                     .engine = w->engine,
                                     .registry = w->registry,
                                     .owner = "",
                                     .cancel_fd = cancel_fd,
                                     .progress = count },
                           .world = w };

    assert_non_null(arguments);
    if (members_judge(arguments, tool->judged ? tool->judged : tool->input, &why) < 0)
        fail_msg("%s", why.message);
    tool->call(tool, &c.call, &answer);
    if (members_judge(answer.structured, tool->output, &why) < 0)
        fail_msg("%s", why.message);
    json_decref(arguments);
    return answer;
}

static void check(struct mcp_answer answer, bool is_error, const char *text)
{
    const char *said = answer.text.data;

    if (str_starts(said, "[warning: no container engine answers here"))
        said = strchr(said, '\n') + 1; /* native stands in, and says so */
    assert_string_equal(said, text);
    assert_int_equal(answer.is_error, is_error);
    str_done(&answer.text);
    json_decref(answer.structured);
}

/* Nobody reads it over MCP, where a cancelled call has no answer, but it goes into logs
 * and to those who call tools otherwise. */
static void a_call_that_is_cancelled_says_so_under_every_preset(void **state)
{
    static const struct {
        const char *preset, *tool, *arguments, *text;
    } rows[] = {
        { "klaw", "code_execute", "{\"language\": \"bash\", \"code\": \"echo x\"}",
          "Error: the caller cancelled the run [VIAL-CANCELLED]" },
        { "antigravity", "run_python_code", "{\"code\": \"print(1)\"}",
          "Error: the caller cancelled the run" },
        { "acode", "sandbox_exec", "{\"command\": \"echo x\"}",
          "Error VIAL-CANCELLED: the caller cancelled the run" },
        { "codomyrmex", "execute_code",
          "{\"language\": \"bash\", \"code\": \"echo x\"}",
          "status: cancelled\nerror: the caller cancelled the run [VIAL-CANCELLED]" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world w;

        begin(&w, rows[i].preset);
        w.cancelled = true;
        check(call(&w, rows[i].tool, json_loads(rows[i].arguments, 0, NULL)), true,
              rows[i].text);
        end(&w);
    }
}

static void a_run_answers_in_the_presets_words(void **state)
{
    struct world w;

    (void)state;
    begin(&w, "antigravity");
    assert_int_equal(w.tools.count, 1);
    check(call(&w, "run_python_code", json_pack("{s:s}", "code", "print(6*7)")), false,
          "42\n");
    assert_int_equal(w.told, 3);
    check(call(&w, "run_python_code", json_pack("{s:s}", "code", "pass")), false,
          "(no output)");
    check(call(&w, "run_python_code",
               json_pack("{s:s, s:i}", "code", "while True: pass", "timeout", 1)),
          true, "Error: execution timed out after 1s");
    check(call(&w, "run_python_code",
               json_pack("{s:s, s:i}", "code", "1", "timeout", 7200)),
          true,
          "Error: timeout 2h exceeds the policy's max_timeout 1h\nask for less, or "
          "raise policy key 'max_timeout' in /etc/vial/vial.yaml or "
          "~/.config/vial/vial.yaml");
    end(&w);
}

/* covers: K-02 K-08 */
static void calls_that_are_kept_alive_share_a_vessel(void **state)
{
    struct world w;

    (void)state;
    begin(&w, "klaw");
    check(call(&w, "code_execute",
               json_pack("{s:s, s:s}", "language", "bash", "code",
                         "echo x > /tmp/mark; echo e >&2; exit 3")),
          false, "[stderr]\ne\n[exit code: 3]");
    check(call(&w, "code_execute",
               json_pack("{s:s, s:s}", "language", "bash", "code", "cat /tmp/mark")),
          false, "x\n");
    end(&w);
    (void)rmdir("/tmp/klaw-sandbox"); /* if it was made for this */
}

static void a_session_has_commands_and_files(void **state)
{
    struct world w;
    struct mcp_answer opened;
    const char *id = NULL;

    (void)state;
    begin(&w, "coding-agent");
    opened = call(&w, "startContainer", json_pack("{s:s}", "sessionId", "one"));
    id = json_string_value(json_object_get(opened.structured, "containerId"));
    assert_non_null(id);
    check(call(&w, "writeFileInContainer",
               json_pack("{s:s, s:s, s:s}", "containerId", id, "path", "/a/b",
                         "content", "c")),
          false, "written");
    check(call(&w, "readFileInContainer",
               json_pack("{s:s, s:s}", "containerId", id, "path", "a/b")),
          false, "c");
    check(call(&w, "listDirectoryInContainer",
               json_pack("{s:s, s:s}", "containerId", id, "path", "./a")),
          false, "- 0644          1 b\n");
    check(call(&w, "execInContainer",
               json_pack("{s:s, s:s, s:i}", "containerId", id, "command", "sleep 60",
                         "timeoutMs", 200)),
          true, "COMMAND_TIMEOUT: killed after 0.2 s");
    check(call(&w, "cleanupContainer", json_pack("{s:s}", "containerId", id)), false,
          "cleaned up");
    json_decref(opened.structured);
    str_done(&opened.text);
    end(&w);
}

static json_t *arguments_of(const char *quoted, const char *id)
{
    auto_free char *text = strdup(quoted);
    json_t *arguments = NULL;

    assert_non_null(text);
    for (char *at = text; *at; at++)
        if (*at == '\'')
            *at = '"';
    arguments = json_loads(text, 0, NULL);
    assert_int_equal(json_object_set_new(arguments, "containerId", json_string(id)), 0);
    return arguments;
}

static int64_t lease_end(struct registered *held)
{
    int64_t end_ns;

    session_lock(held->session);
    end_ns = held->session->lease_ns;
    session_unlock(held->session);
    return end_ns;
}

static void a_sessions_lease_is_renewed_by_every_use(void **state)
{
    static const char *const uses[][2] = {
        { "execInContainer", "{'command': 'true'}" },
        { "writeFileInContainer", "{'path': 'a', 'content': 'b'}" },
        { "readFileInContainer", "{'path': 'a'}" },
        { "listDirectoryInContainer", "{'path': '.'}" },
    };
    struct world w;
    struct mcp_answer opened;
    struct registered *held = NULL;
    struct vial_error err = { 0 };
    const char *id = NULL;

    (void)state;
    begin(&w, "coding-agent");
    opened = call(&w, "startContainer", json_pack("{s:s}", "sessionId", "one"));
    id = json_string_value(json_object_get(opened.structured, "containerId"));
    assert_int_equal(registry_take(w.registry, "", id, &held, &err), 0);
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        json_t *arguments = arguments_of(uses[i][1], id);
        struct mcp_answer done;
        int64_t soon_ns;

        assert_int_equal(vial_session_renew(held->session, 3600 * 1000, &err), 0);
        soon_ns = lease_end(held);
        done = call(&w, uses[i][0], arguments);
        assert_false(done.is_error);
        assert_true(lease_end(held) - soon_ns > (int64_t)10 * 3600 * 1000000000);
        str_done(&done.text);
        json_decref(done.structured);
    }
    registry_release(w.registry, held);
    json_decref(opened.structured);
    str_done(&opened.text);
    end(&w);
}

static void a_session_that_never_was_is_an_error_with_the_presets_code(void **state)
{
    struct world w;
    struct mcp_answer answer;

    (void)state;
    begin(&w, "coding-agent");
    answer = call(&w, "readFileInContainer",
                  json_pack("{s:s, s:s}", "containerId", "s-0", "path", "a"));
    assert_true(answer.is_error);
    assert_string_equal(json_string_value(json_object_get(answer.structured, "code")),
                        "EXEC_FAILED");
    str_done(&answer.text);
    json_decref(answer.structured);
    end(&w);
}

/* A schema that arguments are judged by says nothing that would be passed over. Names
 * of variables (propertyNames) are judged by the engine. */
static void check_keywords(json_t *schema)
{
    static const char *const known[] = {
        "type",      "enum",      "properties",   "required", "additionalProperties",
        "items",     "minimum",   "maximum",      "minItems", "maxItems",
        "minLength", "maxLength", "description",  "default",  "contentMediaType",
        "title",     "$schema",   "propertyNames"
    };
    json_t *properties = json_object_get(schema, "properties"), *value;
    const char *key;

    json_object_foreach(schema, key, value)
    {
        bool found = value == NULL;

        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found = found || strcmp(known[i], key) == 0;
        if (!found)
            fail_msg("'%s' is not judged", key);
    }
    json_object_foreach(properties, key, value)
    {
        check_keywords(value);
    }
    if (json_is_object(json_object_get(schema, "items")))
        check_keywords(json_object_get(schema, "items"));
}

static void every_tool_of_every_preset_has_schemas_and_texts(void **state)
{
    static const char *const presets[] = { "klaw",       "antigravity",  "acode",
                                           "codomyrmex", "coding-agent", NULL };

    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        struct world w;

        begin(&w, presets[i]);
        for (size_t t = 0; t < w.tools.count; t++) {
            const struct mcp_tool *tool = &w.tools.items[t];

            assert_true(strlen(tool->description) > 30 && tool->title[0]);
            assert_true(json_is_object(tool->input));
            /* Of vial's own tools those that print have none: text comes once. */
            assert_true(json_is_object(tool->output) || (!presets[i] && !tool->output));
            assert_true(json_is_object(tool->annotations));
            check_keywords(tool->judged ? tool->judged : tool->input);
        }
        end(&w);
    }
}

static void vessels_are_listed_and_cleaned_up(void **state)
{
    struct world w;
    struct mcp_answer answer;

    (void)state;
    begin(&w, "acode");
    answer = call(&w, "sandbox_list", json_object());
    assert_true(json_is_array(json_object_get(answer.structured, "sandboxes")));
    str_done(&answer.text);
    json_decref(answer.structured);
    answer = call(&w, "sandbox_cleanup", json_object());
    assert_true(json_is_integer(json_object_get(answer.structured, "removed")));
    str_done(&answer.text);
    json_decref(answer.structured);
    end(&w);
}

static int without_an_engine(void **state)
{
    (void)state;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread yet */
    return setenv("DOCKER_HOST", "unix:///nonexistent/sock", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_is_cancelled_says_so_under_every_preset),
        cmocka_unit_test(a_run_answers_in_the_presets_words),
        cmocka_unit_test(calls_that_are_kept_alive_share_a_vessel),
        cmocka_unit_test(a_session_has_commands_and_files),
        cmocka_unit_test(a_sessions_lease_is_renewed_by_every_use),
        cmocka_unit_test(a_session_that_never_was_is_an_error_with_the_presets_code),
        cmocka_unit_test(every_tool_of_every_preset_has_schemas_and_texts),
        cmocka_unit_test(vessels_are_listed_and_cleaned_up),
    };

    return cmocka_run_group_tests(tests, without_an_engine, NULL);
}
