/* SPDX-License-Identifier: Apache-2.0 */

/*
 * mcp-fixture: an HTTP server with the tools, resources and prompts that the
 * official conformance suite expects, on the same protocol core as the product.
 * mcp-fixture product [PRESET]: the same server around the product itself.
 * Prints its address as the only line, and ends with its stdin.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"
#include "base/sha256.h"
#include "base/sys.h"
#include "base/text.h"
#include "mcp/http_transport.h"
#include "mcp/vial_server.h"
#include "talk_back.h"

#define PNG                                                                            \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA" \
    "AABJRU5ErkJggg=="
#define WAV "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

/* JSON with ' for ". */
static json_t *json(const char *text)
{
    json_error_t error;
    char *copy = strdup(text);
    json_t *value;

    for (char *at = copy; *at; at++)
        if (*at == '\'')
            *at = '"';
    value = json_loads(copy, JSON_DECODE_ANY, &error);
    if (!value) {
        (void)fprintf(stderr, "%s: %s\n", copy, error.text);
        exit(1);
    }
    free(copy);
    return value;
}

static void say(struct mcp_answer *a, const char *text)
{
    str_puts(&a->text, text);
}

static bool is_cancelled(const struct mcp_call *call, int ms)
{
    struct pollfd p = { .fd = call->cancel_fd, .events = POLLIN };

    return poll(&p, 1, ms) > 0;
}

/* Tools whose answer is always the same: their content as JSON text. */
static void fixed(const struct mcp_tool *tool, struct mcp_call *call,
                  struct mcp_answer *a)
{
    (void)call;
    a->content = json(tool->data);
}

static void fails(const struct mcp_tool *tool, struct mcp_call *call,
                  struct mcp_answer *a)
{
    (void)tool;
    (void)call;
    a->is_error = true;
    say(a, "This tool intentionally returns an error for testing");
}

static void logs(const struct mcp_tool *tool, struct mcp_call *call,
                 struct mcp_answer *a)
{
    static const char *const texts[] = { "Tool execution started",
                                         "Tool processing data",
                                         "Tool execution completed" };

    (void)tool;
    for (int i = 0; i < 3; i++) {
        mcp_call_log(call, "info", json_string(texts[i]));
        (void)is_cancelled(call, 50);
    }
    say(a, "done");
}

static void progresses(const struct mcp_tool *tool, struct mcp_call *call,
                       struct mcp_answer *a)
{
    (void)tool;
    for (int n = 0; n <= 100; n += 50) {
        talk_progress(call, n, 100);
        (void)is_cancelled(call, 50);
    }
    say(a, "done");
}

/* Requests to the client, of the elder era. */

static bool has_capability(struct mcp_call *call, const char *name,
                           struct mcp_answer *a)
{
    if (json_object_get(talk_capabilities(call), name))
        return true;
    (void)rpc_fail(&a->error, RPC_CAPABILITY, 400,
                   json_pack("{s:{s:{}}}", "requiredCapabilities", name),
                   "Missing required client capability");
    return false;
}

static void samples(const struct mcp_tool *tool, struct mcp_call *call,
                    struct mcp_answer *a)
{
    auto_json json_t *result = NULL;
    auto_rpc_error struct rpc_error err = { 0 };
    json_t *params = json_pack(
        "{s:[{s:s, s:{s:s, s:O}}], s:i}", "messages", "role", "user", "content", "type",
        "text", "text", json_object_get(call->arguments, "prompt"), "maxTokens", 100);

    (void)tool;
    if (!has_capability(call, "sampling", a) ||
        talk_ask(call, "sampling/createMessage", params, &result, &err) < 0) {
        a->is_error = true;
        say(a, err.message);
        return;
    }
    str_printf(
        &a->text, "LLM response: %s",
        json_string_value(json_object_get(json_object_get(result, "content"), "text")));
}

/* `data` is the properties that are asked for. */
static void elicits(const struct mcp_tool *tool, struct mcp_call *call,
                    struct mcp_answer *a)
{
    const char *message =
        json_string_value(json_object_get(call->arguments, "message"));
    auto_json json_t *result = NULL;
    auto_rpc_error struct rpc_error err = { 0 };
    auto_free char *content = NULL;
    json_t *params =
        json_pack("{s:s, s:{s:s, s:o, s:[]}}", "message",
                  message ? message : "Please fill", "requestedSchema", "type",
                  "object", "properties", json(tool->data), "required");

    if (!has_capability(call, "elicitation", a) ||
        talk_ask(call, "elicitation/create", params, &result, &err) < 0) {
        a->is_error = true;
        say(a, err.message);
        return;
    }
    content = json_dumps(json_object_get(result, "content"), JSON_ENCODE_ANY);
    str_printf(&a->text, "Elicitation completed: action=%s, content=%s",
               json_string_value(json_object_get(result, "action")),
               content ? content : "{}");
}

/* Input that a result asks for, of the stateless era. The state that goes out and
 * comes back is sealed with a key that only this process knows. */

static void seal_of(const char *state, char out[65])
{
    static char key[65];
    struct sha256 inner, outer;
    char digest[65];

    if (!key[0]) {
        sys_make_id('k', key);
        sys_make_id('k', key + 18);
    }
    sha256_init(&inner);
    sha256_add(&inner, key, strlen(key));
    sha256_add(&inner, state, strlen(state));
    sha256_text(&inner, digest);
    sha256_init(&outer);
    sha256_add(&outer, key, strlen(key));
    sha256_add(&outer, digest, strlen(digest));
    sha256_text(&outer, out);
}

/* The state of the request: NULL when there is none, or a protocol error. */
static const char *state_of(struct mcp_call *call, struct mcp_answer *a)
{
    const char *sealed = rpc_text(talk_params(call), "requestState");
    char seal[65];

    if (!sealed)
        return NULL;
    if (strlen(sealed) > 65 && sealed[64] == '.') {
        seal_of(sealed + 65, seal);
        if (strncmp(seal, sealed, 64) == 0)
            return sealed + 65;
    }
    (void)rpc_fail(&a->error, RPC_PARAMS, 400, NULL,
                   "requestState failed integrity check");
    return NULL;
}

/* Takes REQUESTS. */
static void need(struct mcp_answer *a, json_t *requests, const char *state)
{
    char seal[65];

    a->result = json_pack("{s:s, s:o}", "resultType", "input_required", "inputRequests",
                          requests);
    if (!state)
        return;
    seal_of(state, seal);
    (void)json_object_set_new(a->result, "requestState",
                              json_sprintf("%s.%s", seal, state));
}

/* What the client answered, if it has all that REQUESTS ask for; else NULL, and A is
 * the answer. Takes REQUESTS. */
static const json_t *ask(struct mcp_call *call, struct mcp_answer *a, json_t *requests,
                         const char *state)
{
    const json_t *got = json_object_get(talk_params(call), "inputResponses");
    const char *key;
    json_t *unused;
    bool all = json_is_object(got);

    if (got && !json_is_object(got)) {
        (void)rpc_fail(&a->error, RPC_PARAMS, 400, NULL,
                       "inputResponses must be an object");
        json_decref(requests);
        return NULL;
    }
    json_object_foreach(requests, key, unused)
    {
        all = all && unused && json_is_object(json_object_get(got, key));
    }
    if (all && state) {
        const char *mine = state_of(call, a);

        all = mine && strcmp(mine, state) == 0;
        if (!all && !a->error.code)
            (void)rpc_fail(&a->error, RPC_PARAMS, 400, NULL, "bad requestState");
    }
    if (a->error.code || all)
        json_decref(requests);
    else
        need(a, requests, state);
    return all ? got : NULL;
}

#define ELICIT(message, properties, required)                                          \
    "{'method':'elicitation/create','params':{'mode':'form','message':'" message       \
    "','requestedSchema':{'type':'object','properties':" properties                    \
    ",'required':" required "}}}"
#define NAME ELICIT("What is your name?", "{'name':{'type':'string'}}", "['name']")
#define SAMPLE(text)                                                                   \
    "{'method':'sampling/createMessage','params':{'messages':[{'role':'user',"         \
    "'content':{'type':'text','text':'" text "'}}],'maxTokens':100}}"
#define ROOTS   "{'method':'roots/list','params':{}}"
#define CONFIRM ELICIT("Please confirm", "{'ok':{'type':'boolean'}}", "['ok']")

/* `data` is what is asked for. */
static void asks(const struct mcp_tool *tool, struct mcp_call *call,
                 struct mcp_answer *a)
{
    const json_t *got = ask(call, a, json(tool->data), NULL);

    if (got)
        (void)(a->text.data = json_dumps(got, 0), a->text.len = strlen(a->text.data));
}

static void asks_with_state(const struct mcp_tool *tool, struct mcp_call *call,
                            struct mcp_answer *a)
{
    if (json_object_get(talk_params(call), "requestState") && !state_of(call, a))
        return;
    if (ask(call, a, json(tool->data), tool->name))
        say(a, "state-ok");
}

static void asks_in_rounds(const struct mcp_tool *tool, struct mcp_call *call,
                           struct mcp_answer *a)
{
    const json_t *got = json_object_get(talk_params(call), "inputResponses");
    const char *state = state_of(call, a);

    (void)tool;
    if (a->error.code)
        return;
    if (state && strcmp(state, "2") == 0 &&
        json_is_object(json_object_get(got, "step2")))
        say(a, "done");
    else if (state && json_is_object(json_object_get(got, "step1")))
        need(a,
             json("{'step2':" ELICIT("Step 2: What is your favorite color?",
                                     "{'color':{'type':'string'}}", "['color']") "}"),
             "2");
    else
        need(a,
             json("{'step1':" ELICIT("Step 1: What is your name?",
                                     "{'name':{'type':'string'}}", "['name']") "}"),
             "1");
}

/* Only what the client can do is asked for. */
static void asks_what_can_be(const struct mcp_tool *tool, struct mcp_call *call,
                             struct mcp_answer *a)
{
    static const char *const rows[][3] = { { "elicitation", "e", NAME },
                                           { "sampling", "s", SAMPLE("hi") },
                                           { "roots", "r", ROOTS } };
    json_t *requests = json_object();

    (void)tool;
    for (int i = 0; i < 3; i++)
        if (json_object_get(talk_capabilities(call), rows[i][0]))
            (void)json_object_set_new(requests, rows[i][1], json(rows[i][2]));
    if (ask(call, a, requests, NULL))
        say(a, "ok");
}

static void needs_capability(const struct mcp_tool *tool, struct mcp_call *call,
                             struct mcp_answer *a)
{
    if (has_capability(call, tool->data, a))
        say(a, "ok");
}

static void elicits_in_stream(const struct mcp_tool *tool, struct mcp_call *call,
                              struct mcp_answer *a)
{
    (void)tool;
    if (has_capability(call, "elicitation", a) &&
        ask(call, a, json("{'user_name':" NAME "}"), NULL))
        say(a, "ok");
}

static void triggers(const struct mcp_tool *tool, struct mcp_call *call,
                     struct mcp_answer *a)
{
    mcp_call_changed(call, tool->data);
    say(a, "ok");
}

static void echoes(const struct mcp_tool *tool, struct mcp_call *call,
                   struct mcp_answer *a)
{
    (void)tool;
    a->text.data = json_dumps(call->arguments, JSON_COMPACT);
    a->text.len = strlen(a->text.data);
}

/* Tasks. */

static void greets(const struct mcp_tool *tool, struct mcp_call *call,
                   struct mcp_answer *a)
{
    (void)tool;
    str_printf(&a->text, "Hello, %s!",
               json_string_value(json_object_get(call->arguments, "name")));
}

static void computes(const struct mcp_tool *tool, struct mcp_call *call,
                     struct mcp_answer *a)
{
    double seconds = json_number_value(json_object_get(call->arguments, "seconds"));

    (void)tool;
    a->is_error = is_cancelled(call, (int)(seconds * 1000));
    say(a, a->is_error ? "cancelled" : "computed");
}

static void fails_later(const struct mcp_tool *tool, struct mcp_call *call,
                        struct mcp_answer *a)
{
    (void)tool;
    if (talk_may_become_task(call)) {
        talk_become_task(call, a);
        return;
    }
    (void)is_cancelled(call, 1000);
    a->is_error = true;
    say(a, "job failed");
}

static void breaks(const struct mcp_tool *tool, struct mcp_call *call,
                   struct mcp_answer *a)
{
    (void)tool;
    (void)is_cancelled(call, 200);
    (void)rpc_fail(&a->error, RPC_INTERNAL, 0, NULL, "internal failure");
}

static void wants_input(const struct mcp_tool *tool, struct mcp_call *call,
                        struct mcp_answer *a)
{
    json_t *got = NULL;

    if (talk_input(call, json(tool->data), &got) < 0)
        return;
    a->text.data = json_dumps(got, 0);
    a->text.len = strlen(a->text.data);
    json_decref(got);
}

static void says_hello(const struct mcp_tool *tool, struct mcp_call *call,
                       struct mcp_answer *a)
{
    const json_t *got = json_object_get(talk_params(call), "inputResponses");
    const json_t *user = json_object_get(json_object_get(got, "user_name"), "content");
    const char *name = rpc_text(user, "name");

    (void)tool;
    if (talk_may_become_task(call)) {
        if (ask(call, a, json("{'user_name':" NAME "}"), NULL))
            talk_become_task(call, a);
        return;
    }
    talk_await_told(call);
    str_printf(&a->text, "Hello, %s!", name ? name : "nobody");
}

#define NONE "{}"
#define ENUMS(word)                                                                    \
    "[{'const':'value1','title':'First " word                                          \
    "'},{'const':'value2','title':'Second " word                                       \
    "'},{'const':'value3','title':'Third " word "'}]"
#define OPTIONS "['option1','option2','option3']"
#define SCHEMA_2020                                                                    \
    "{'$schema':'https://json-schema.org/draft/2020-12/schema','type':'object',"       \
    "'$defs':{'address':{'$anchor':'addressDef','type':'object','properties':{"        \
    "'street':{'type':'string'},'city':{'type':'string'}}}},"                          \
    "'properties':{'name':{'type':'string'},'address':{'$ref':'#/$defs/address'},"     \
    "'contactMethod':{'type':'string','enum':['phone','email']},"                      \
    "'phone':{'type':'string'},'email':{'type':'string'}},"                            \
    "'allOf':[{'anyOf':[{'required':['phone']},{'required':['email']}]}],"             \
    "'if':{'properties':{'contactMethod':{'const':'phone'}},"                          \
    "'required':['contactMethod']},'then':{'required':['phone']},"                     \
    "'else':{'required':['email']},'additionalProperties':false}"

static const struct row {
    const char *name;
    const char *properties, *required; /* properties may be a whole schema */
    void (*call)(const struct mcp_tool *, struct mcp_call *, struct mcp_answer *);
    const char *data;
    bool runs; /* a task at once, for clients that know tasks */
} rows[] = {
    { "test_simple_text", NONE, "[]", fixed,
      "[{'type':'text','text':'This is a simple text response for testing.'}]", false },
    { "test_image_content", NONE, "[]", fixed,
      "[{'type':'image','data':'" PNG "','mimeType':'image/png'}]", false },
    { "test_audio_content", NONE, "[]", fixed,
      "[{'type':'audio','data':'" WAV "','mimeType':'audio/wav'}]", false },
    { "test_embedded_resource", NONE, "[]", fixed,
      "[{'type':'resource','resource':{'uri':'test://embedded-resource','mimeType':"
      "'text/plain','text':'This is an embedded resource content.'}}]",
      false },
    { "test_multiple_content_types", NONE, "[]", fixed,
      "[{'type':'text','text':'Multiple content types test:'},{'type':'image','data':'" PNG
      "','mimeType':'image/png'},{'type':'resource','resource':{'uri':"
      "'test://mixed-content-resource','mimeType':'application/json',"
      "'text':'{\\'test\\':\\'data\\',\\'value\\':123}'}}]",
      false },
    { "test_tool_with_logging", NONE, "[]", logs, NULL, false },
    { "test_logging_tool", NONE, "[]", logs, NULL, false },
    { "test_error_handling", NONE, "[]", fails, NULL, false },
    { "test_tool_with_progress", NONE, "[]", progresses, NULL, false },
    { "test_sampling", "{'prompt':{'type':'string'}}", "['prompt']", samples, NULL,
      false },
    { "test_elicitation", "{'message':{'type':'string'}}", "['message']", elicits,
      "{'username':{'type':'string','description':'The name'},'email':{'type':'string',"
      "'description':'The address'}}",
      false },
    { "test_elicitation_sep1034_defaults", NONE, "[]", elicits,
      "{'name':{'type':'string','default':'John Doe'},'age':{'type':'integer','default':"
      "30},'score':{'type':'number','default':95.5},'status':{'type':'string','enum':["
      "'active','inactive','pending'],'default':'active'},'verified':{'type':'boolean',"
      "'default':true}}",
      false },
    { "test_elicitation_sep1330_enums", NONE, "[]", elicits,
      "{'untitledSingle':{'type':'string','enum':" OPTIONS
      "},'titledSingle':{'type':'string','oneOf':" ENUMS(
          "Option") "},'legacyEnum':{'type':'string','enum':['opt1','opt2','opt3'],"
                    "'enumNames':['Option One','Option Two','Option Three']},"
                    "'untitledMulti':{'type':'array','items':{'type':'string','enum':" OPTIONS
                    "}},'titledMulti':{'type':'array','items':{'anyOf':" ENUMS(
                        "Choice") "}}}",
      false },
    { "json_schema_2020_12_tool", SCHEMA_2020, NULL, echoes, NULL, false },
    { "test_missing_capability", NONE, "[]", needs_capability, "sampling", false },
    { "test_streaming_elicitation", NONE, "[]", elicits_in_stream, NULL, false },
    { "test_trigger_tool_change", NONE, "[]", triggers, "tools", false },
    { "test_trigger_prompt_change", NONE, "[]", triggers, "prompts", false },
    { "test_header_param", "{'region':{'type':'string','x-mcp-header':'Region'}}", "[]",
      echoes, NULL, false },
    { "test_input_required_result_elicitation", NONE, "[]", asks,
      "{'user_name':" NAME "}", false },
    { "test_input_required_result_sampling", NONE, "[]", asks,
      "{'capital_question':" SAMPLE("What is the capital of France?") "}", false },
    { "test_input_required_result_list_roots", NONE, "[]", asks,
      "{'client_roots':" ROOTS "}", false },
    { "test_input_required_result_request_state", NONE, "[]", asks_with_state,
      "{'confirm':" CONFIRM "}", false },
    { "test_input_required_result_tampered_state", NONE, "[]", asks_with_state,
      "{'confirm':" CONFIRM "}", false },
    { "test_input_required_result_multiple_inputs", NONE, "[]", asks_with_state,
      "{'user_name':" NAME
      ",'greeting':" SAMPLE("Generate a greeting") ",'client_roots':" ROOTS "}",
      false },
    { "test_input_required_result_multi_round", NONE, "[]", asks_in_rounds, NULL,
      false },
    { "test_input_required_result_capabilities", NONE, "[]", asks_what_can_be, NULL,
      false },
    { "greet", "{'name':{'type':'string'}}", "[]", greets, NULL, false },
    { "slow_compute", "{'seconds':{'type':'number'}}", "[]", computes, NULL, true },
    { "failing_job", NONE, "[]", fails_later, NULL, false },
    { "protocol_error_job", NONE, "[]", breaks, NULL, true },
    { "confirm_delete", "{'filename':{'type':'string'}}", "[]", wants_input,
      "{'confirm':" ELICIT("Delete?", "{'confirm':{'type':'boolean'}}",
                           "['confirm']") "}",
      true },
    { "multi_input", NONE, "[]", wants_input,
      "{'a':" ELICIT("A?", "{'v':{'type':'string'}}", "['v']") ",'b':" ELICIT(
          "B?", "{'v':{'type':'string'}}", "['v']") "}",
      true },
    { "test_tool_with_task", NONE, "[]", says_hello, NULL, false },
};

#define ROWS (sizeof rows / sizeof *rows)

static void make_tools(struct mcp_tools *tools)
{
    tools->items = calloc(ROWS, sizeof *tools->items);
    tools->count = ROWS;
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];

        tools->items[i] = (struct mcp_tool){
            .name = r->name,
            .description = r->name,
            .input = r->required
                         ? json_pack("{s:s, s:o, s:o}", "type", "object", "properties",
                                     json(r->properties), "required", json(r->required))
                         : json(r->properties),
            .call = r->call,
            .data = r->data,
            .runs = r->runs,
        };
    }
}

/* Resources. */

static json_t *list_resources(void *context, const char *owner)
{
    (void)context;
    (void)owner;
    return json("[{'uri':'test://static-text','name':'static-text','description':"
                "'text','mimeType':'text/plain'},{'uri':'test://static-binary','name':"
                "'static-binary','description':'an image','mimeType':'image/png'},"
                "{'uri':'test://watched-resource','name':'watched-resource',"
                "'description':'watched','mimeType':'text/plain'}]");
}

static json_t *list_templates(void *context)
{
    (void)context;
    return json("[{'uriTemplate':'test://template/{id}/data','name':'template',"
                "'description':'template','mimeType':'application/json'}]");
}

static int read_template(const char *uri, json_t **out)
{
    char id[64] = "";
    int end = 0;

    if (sscanf(uri, "test://template/%63[^/]/data%n", id, &end) != 1 || uri[end])
        return -1;
    *out = json_pack(
        "[{s:s, s:s, s:o}]", "uri", uri, "mimeType", "application/json", "text",
        json_sprintf("{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: "
                     "%s\"}",
                     id, id));
    return 0;
}

static int read_resource(void *context, const char *owner, const char *uri,
                         json_t **out, uint64_t *paid, struct rpc_error *err)
{
    (void)context;
    (void)owner;
    (void)paid;
    if (strcmp(uri, "test://static-text") == 0)
        *out = json_pack("[{s:s, s:s, s:s}]", "uri", uri, "mimeType", "text/plain",
                         "text", "This is the content of the static text resource.");
    else if (strcmp(uri, "test://watched-resource") == 0)
        *out = json_pack("[{s:s, s:s, s:s}]", "uri", uri, "mimeType", "text/plain",
                         "text", "watched");
    else if (strcmp(uri, "test://static-binary") == 0)
        *out = json_pack("[{s:s, s:s, s:s}]", "uri", uri, "mimeType", "image/png",
                         "blob", PNG);
    else if (read_template(uri, out) < 0)
        return rpc_fail(err, RPC_NO_RESOURCE, 0, NULL, "Resource not found");
    return 0;
}

static json_t *complete_city(void *context, const char *owner, const json_t *params)
{
    static const char *const values[] = { "paris", "park", "party" };
    const char *begun = rpc_text(json_object_get(params, "argument"), "value");
    json_t *found = json_array();

    (void)context;
    (void)owner;
    for (int i = 0; i < 3; i++)
        if (str_starts(values[i], begun))
            (void)json_array_append_new(found, json_string(values[i]));
    return found;
}

/* Prompts. */

static void simple_prompt(struct mcp_call *call, struct mcp_answer *a)
{
    (void)call;
    a->content =
        json("[{'type':'text','text':'This is a simple prompt for testing.'}]");
}

static void argument_prompt(struct mcp_call *call, struct mcp_answer *a)
{
    a->content = json_pack(
        "[{s:s, s:o}]", "type", "text", "text",
        json_sprintf("Prompt with arguments: arg1='%s', arg2='%s'",
                     json_string_value(json_object_get(call->arguments, "arg1")),
                     json_string_value(json_object_get(call->arguments, "arg2"))));
}

static void resource_prompt(struct mcp_call *call, struct mcp_answer *a)
{
    a->content = json_pack(
        "[{s:s, s:{s:O, s:s, s:s}}, {s:s, s:s}]", "type", "resource", "resource", "uri",
        json_object_get(call->arguments, "resourceUri"), "mimeType", "text/plain",
        "text", "Embedded resource content for testing.", "type", "text", "text",
        "Please process the embedded resource above.");
}

static void image_prompt(struct mcp_call *call, struct mcp_answer *a)
{
    (void)call;
    a->content = json("[{'type':'image','data':'" PNG "','mimeType':'image/png'},"
                      "{'type':'text','text':'Please analyze the image above.'}]");
}

static void asking_prompt(struct mcp_call *call, struct mcp_answer *a)
{
    if (ask(call, a,
            json("{'user_context':" ELICIT("What context should the prompt use?",
                                           "{'context':{'type':'string'}}",
                                           "['context']") "}"),
            NULL))
        a->content = json("[{'type':'text','text':'in context'}]");
}

static const char *const two_arguments[] = { "arg1", "arg2", NULL };
static const char *const one_argument[] = { "resourceUri", NULL };

static const struct mcp_prompt prompts[] = {
    { "test_simple_prompt", "simple", NULL, simple_prompt },
    { "test_prompt_with_arguments", "arguments", two_arguments, argument_prompt },
    { "test_prompt_with_embedded_resource", "resource", one_argument, resource_prompt },
    { "test_prompt_with_image", "image", NULL, image_prompt },
    { "test_input_required_result_prompt", "asks", NULL, asking_prompt },
    { 0 },
};

struct served {
    struct mcp *mcp;
    struct mcp_http *http;
};

static void handle(void *context, struct web_request *req)
{
    const struct served *s = context;

    if (talk_look(s->mcp, req))
        mcp_http_handle(s->http, req, &(struct mcp_asker){ .owner = "" });
}

static int listen_somewhere(unsigned short *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, 128) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0) {
        perror("listen");
        exit(1);
    }
    *port = ntohs(address.sin_port);
    return fd;
}

static void or_die(int rc, const struct vial_error *err)
{
    if (rc == 0)
        return;
    (void)fprintf(stderr, "%s: %s\n", err->code, err->message);
    exit(1);
}

/* Serves MCP until our stdin ends. */
static void serve(struct mcp *mcp)
{
    const char *beat = getenv("MCP_HEARTBEAT_MS");
    struct mcp_http_options http_options = {
        .mcp = mcp, .heartbeat_ms = beat ? (unsigned)strtoul(beat, NULL, 10) : 0
    };
    struct web_options web_options = { .handler = handle };
    struct vial_error err = { 0 };
    struct served s = { .mcp = mcp };
    struct web *web;
    unsigned short port;
    char byte;

    or_die(mcp_http_open(&http_options, &s.http, &err), &err);
    web_options.context = &s;
    web_options.listen_fd = listen_somewhere(&port);
    or_die(web_open(&web_options, &web, &err), &err);
    (void)printf("http://127.0.0.1:%u/mcp\n", port);
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    web_close(web);
    mcp_http_close(s.http);
}

static void serve_fixture(void)
{
    struct mcp_tools tools = { 0 };
    const struct mcp_resources resources = { .list = list_resources,
                                             .templates = list_templates,
                                             .read = read_resource,
                                             .complete = complete_city };
    const struct mcp_options options = { .tools = &tools,
                                         .resources = &resources,
                                         .prompts = prompts,
                                         .name = "vial-fixture",
                                         .instructions = "for tests",
                                         .lists_change = true };
    struct vial_error err = { 0 };
    struct mcp *mcp;

    make_tools(&tools);
    or_die(mcp_open(&options, &mcp, &err), &err);
    serve(mcp);
    mcp_close(mcp);
    mcp_tools_done(&tools);
}

static void serve_product(const char *preset)
{
    const struct vial_engine_options options = { .preset = preset };
    struct registry_options registry_options = { 0 };
    struct vial_error err = { 0 };
    struct registry *registry;
    struct mcp_vial *server;

    or_die(vial_engine_open(&options, &registry_options.engine, &err), &err);
    or_die(registry_open(&registry_options, &registry, &err), &err);
    or_die(
        mcp_vial_open(registry_options.engine, registry, preset, NULL, &server, &err),
        &err);
    serve(mcp_vial_core(server));
    mcp_vial_close(server);
    registry_close(registry);
    vial_engine_close(registry_options.engine);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        serve_product(argc > 2 ? argv[2] : NULL);
    else
        serve_fixture();
    return 0;
}
