/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of the MCP core that need no sandbox; the whole is tested by tests/mcp. */

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/json.h"
#include "check.h"
#include "mcp/long_outputs.h"
#include "mcp/mcp.h"
#include "mcp/remedies.h"
#include "model/members.h"

/* JSON with ' for ". */
static json_t *json(const char *text)
{
    char *copy = strdup(text);
    json_t *value;

    for (char *at = copy; *at; at++)
        if (*at == '\'')
            *at = '"';
    value = json_loads(copy, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!value)
        fail_msg("not JSON: %s", copy);
    free(copy);
    return value;
}

static void arguments_are_judged_by_their_schema(void **state)
{
    static const char *const rows[][3] = {
        /* schema and value of the argument 'v' */
        { "{'type':'string'}", "'a'", NULL },
        { "{'type':'string'}", "1", "'v' must be of type string" },
        { "{'type':'integer'}", "1.0", NULL },
        { "{'type':'integer'}", "1.5", "'v' must be of type integer" },
        { "{'type':['string','null']}", "null", NULL },
        { "{'type':['string','null']}", "1", "'v' must be of type string" },
        { "{'enum':['a','b']}", "'c'", "'v' must be one of: a, b" },
        { "{'minimum':2}", "1", "'v' must be at least 2" },
        { "{'maximum':2}", "3", "'v' must be at most 2" },
        { "{'maxLength':2}", "'äöü'", "'v' must be at most 2 characters" },
        { "{'maxLength':3}", "'äöü'", NULL },
        { "{'type':'string'}", "'a\\u0000b'", "'v' holds a NUL byte" },
        { "{'type':'string','contentMediaType':'text/x'}", "'a\\u0000b'", NULL },
        { "{'type':'array','items':{'type':'integer'}}", "[1,2]", NULL },
        { "{'type':'array','items':{'type':'integer'}}", "[1,'x']",
          "'v[1]' must be of type integer" },
        { "{'maxItems':1}", "[1,2]", "'v' must be at most 1 entries" },
        { "{'type':'object','required':['a']}", "{}",
          "'v' lacks the required member 'a'" },
        { "{'type':'object','properties':{'a':{'type':'array','items':{'type':'object',"
          "'properties':{'b':{'type':'string'}}}}}}",
          "{'a':[{'b':1}]}", "'v.a[0].b' must be of type string" },
        { "{'type':'object','properties':{'timeout':{}},'additionalProperties':false}",
          "{'timout':1}", "'v' has no member 'timout'; did you mean 'timeout'?" },
        { "{'type':'object'}", "{'x':1}", NULL },
        { "{'type':'object','additionalProperties':{'type':'string'}}", "{'x':1}",
          "'v.x' must be of type string" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        auto_json json_t *schema = json_pack("{s:s, s:{s:o}}", "type", "object",
                                             "properties", "v", json(rows[i][0]));
        auto_json json_t *value = json_pack("{s:o}", "v", json(rows[i][1]));
        struct vial_error err = { 0 };
        bool fit = members_judge(value, schema, &err) == 0;
        char why[700];

        (void)snprintf(why, sizeof why, "%s%s%s", err.message,
                       err.remedy[0] ? "; " : "", err.remedy);
        if (fit != !rows[i][2] || (!fit && strcmp(why, rows[i][2]) != 0))
            fail_msg("%s, %s: %s", rows[i][0], rows[i][1], fit ? "fits" : why);
    }
}

static void kept_outputs_are_their_owners_and_the_oldest_go(void **state)
{
    struct mcp_runs *runs = mcp_runs_new();
    struct blob data = { 0 };
    char id[24];
    uint64_t total;

    (void)state;
    assert_true(mcp_runs_keep(runs, "ann", "r-1", "stdout", "0123456789", 10));
    assert_true(
        mcp_runs_read(runs, "ann", "vial://runs/r-1/stdout", 2, 3, &data, &total));
    assert_int_equal(total, 10);
    assert_string_equal(data.data, "234");
    blob_done(&data);
    assert_true(
        mcp_runs_read(runs, "ann", "vial://runs/r-1/stdout", 99, 0, &data, &total));
    assert_int_equal(data.len, 0);
    blob_done(&data);
    assert_false(
        mcp_runs_read(runs, "bob", "vial://runs/r-1/stdout", 0, 0, &data, &total));
    assert_false(
        mcp_runs_read(runs, "ann", "vial://runs/r-1/stderr", 0, 0, &data, &total));
    for (int i = 0; i < 512; i++) {
        (void)snprintf(id, sizeof id, "r-x%d", i);
        assert_true(mcp_runs_keep(runs, "bob", id, "stdout", "x", 1));
    }
    assert_false(
        mcp_runs_read(runs, "ann", "vial://runs/r-1/stdout", 0, 0, &data, &total));
    mcp_runs_free(runs);
}

/* A server with COUNT tools that wait until they are let go. */
struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned inside;
    bool go;
};

static void wait_inside(const struct mcp_tool *tool, struct mcp_call *call,
                        struct mcp_answer *answer)
{
    struct waiting *w = *(struct waiting *const *)tool->data;

    (void)call;
    (void)pthread_mutex_lock(&w->lock);
    w->inside++;
    (void)pthread_cond_broadcast(&w->changed);
    while (!w->go)
        (void)pthread_cond_wait(&w->changed, &w->lock);
    (void)pthread_mutex_unlock(&w->lock);
    str_puts(&answer->text, "went");
}

static void drop(void *transport, json_t *message)
{
    (void)transport;
    json_decref(message);
}

static void drop_meanwhile(struct mcp_exchange *x, json_t *message)
{
    (void)x;
    json_decref(message);
}

struct server {
    struct waiting waiting;
    struct waiting *data;
    struct mcp_tools tools;
    struct mcp *mcp;
    struct mcp_peer *peer;
    int cancel_fd;
    char names[250][8];
};

static void open_server(struct server *s, size_t count, unsigned calls)
{
    struct mcp_options options = { .tools = &s->tools, .name = "t", .calls = calls };

    *s = (struct server){ .cancel_fd = eventfd(0, EFD_CLOEXEC) };
    (void)pthread_mutex_init(&s->waiting.lock, NULL);
    (void)pthread_cond_init(&s->waiting.changed, NULL);
    s->data = &s->waiting;
    s->tools.items = calloc(count, sizeof *s->tools.items);
    s->tools.count = count;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(s->names[i], sizeof s->names[i], "t%zu", i);
        s->tools.items[i] = (struct mcp_tool){ .name = s->names[i],
                                               .description = "waits",
                                               .input = json("{'type':'object'}"),
                                               .call = wait_inside,
                                               .data = &s->data };
    }
    assert_int_equal(mcp_open(&options, &s->mcp, NULL), 0);
    s->peer = mcp_peer_new(s->mcp, drop, NULL);
}

static void close_server(struct server *s)
{
    mcp_peer_free(s->peer);
    mcp_close(s->mcp);
    mcp_tools_done(&s->tools);
    (void)close(s->cancel_fd);
}

/* The result of a request, given with ' for "; the error if there is none. */
static json_t *ask(struct server *s, const char *text)
{
    auto_rpc_message struct rpc_message m = { 0 };
    auto_rpc_error struct rpc_error err = { 0 };
    struct mcp_exchange x = { .mcp = s->mcp,
                              .peer = s->peer,
                              .owner = "",
                              .message = &m,
                              .cancel_fd = s->cancel_fd,
                              .send = drop_meanwhile };
    auto_json json_t *value = json(text), *id = NULL;
    auto_json json_t *answer = NULL;
    auto_free char *dumped = json_dumps(value, 0);
    unsigned status;
    json_t *result;

    assert_int_equal(rpc_read(dumped, strlen(dumped), &m, &id, &err), 0);
    answer = mcp_answer(&x, mcp_is_modern(&m, NULL), &status);
    result = json_object_get(answer, "result");
    return json_incref(result ? result : json_object_get(answer, "error"));
}

#define INITIALIZE                                                                     \
    "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{'protocolVersion':"       \
    "'2025-11-25','capabilities':{}}}"

static void a_long_list_comes_in_pages_that_are_each_entry_once(void **state)
{
    struct server s;
    char text[256], cursor[64] = "";
    size_t seen = 0, pages = 0;

    (void)state;
    open_server(&s, 250, 0);
    json_decref(ask(&s, INITIALIZE));
    do {
        (void)snprintf(text, sizeof text,
                       "{'jsonrpc':'2.0','id':2,'method':'tools/list','params':{%s}}",
                       cursor);
        auto_json json_t *result = ask(&s, text);
        const json_t *tools = json_object_get(result, "tools");
        const char *next = rpc_text(result, "nextCursor");

        for (size_t i = 0; i < json_array_size(tools); i++)
            assert_string_equal(rpc_text(json_array_get(tools, i), "name"),
                                s.names[seen++]);
        (void)snprintf(cursor, sizeof cursor, next ? "'cursor':'%s'" : "%s",
                       next ? next : "");
        pages++;
    } while (cursor[0]);
    assert_int_equal(seen, 250);
    assert_int_equal(pages, 3);
    close_server(&s);
}

#define CALL "{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{'name':'t0'}}"

static void *call_in_thread(void *context)
{
    return ask(context, CALL);
}

static const char *text_of(const json_t *result)
{
    return rpc_text(json_array_get(json_object_get(result, "content"), 0), "text");
}

static void a_call_too_many_is_told_so_and_the_others_go_on(void **state)
{
    struct server s;
    pthread_t thread;
    void *first;
    json_t *second;

    (void)state;
    open_server(&s, 1, 1);
    json_decref(ask(&s, INITIALIZE));
    assert_int_equal(pthread_create(&thread, NULL, call_in_thread, &s), 0);
    (void)pthread_mutex_lock(&s.waiting.lock);
    while (s.waiting.inside == 0)
        (void)pthread_cond_wait(&s.waiting.changed, &s.waiting.lock);
    (void)pthread_mutex_unlock(&s.waiting.lock);
    second = ask(&s, CALL);
    assert_true(json_is_true(json_object_get(second, "isError")));
    assert_int_equal(strncmp(text_of(second), "Error VIAL-BUSY: 1 calls", 24), 0);
    (void)pthread_mutex_lock(&s.waiting.lock);
    s.waiting.go = true;
    (void)pthread_cond_broadcast(&s.waiting.changed);
    (void)pthread_mutex_unlock(&s.waiting.lock);
    (void)pthread_join(thread, &first);
    assert_string_equal(text_of(first), "went");
    json_decref(first);
    json_decref(second);
    close_server(&s);
}

static void a_flight_is_cancelled_by_its_id_only(void **state)
{
    auto_rpc_error struct rpc_error err = { 0 };
    struct server s;
    struct mcp_flight *one, *two, *again;
    struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };
    auto_json json_t *number = json("7"), *text = json("'7'");
    auto_json json_t *whole = json("{'requestId':'8'}");
    struct rpc_message m = { .kind = RPC_NOTIFICATION,
                             .method = "notifications/cancelled",
                             .params = whole };

    (void)state;
    open_server(&s, 1, 0);
    assert_int_equal(mcp_flight_begin(s.peer, number, &one, &p[0].fd, &err), 0);
    assert_int_equal(mcp_flight_begin(s.peer, text, &two, &p[1].fd, &err), 0);
    assert_int_equal(mcp_flight_begin(s.peer, text, &again, &p[1].fd, &err), -1);
    assert_int_equal(err.code, RPC_INVALID);
    mcp_take(s.peer, &m); /* no such id: nothing happens */
    assert_int_equal(poll(p, 2, 0), 0);
    assert_false(mcp_flight_end(s.peer, one));
    assert_false(mcp_flight_end(s.peer, two));
    close_server(&s);
}

/* Whatever an error proposes to people, and whichever it is. */
static void no_remedy_for_a_model_names_a_flag(void **state)
{
    static const char *const own[] = { "use '--driver docker', or leave it out",
                                       "'vial languages' lists them",
                                       "`vial languages` lists them",
                                       "set VIAL_STATE to a directory of your own" };

    (void)state;
    for (unsigned code = 0; code < VIAL_E__COUNT; code++)
        for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
            struct vial_error err = { 0 };
            const char *remedy;

            (void)fail(&err, (enum fail_code)code, "x");
            (void)fail_remedy(&err, "%s", own[i]);
            remedy = mcp_remedy(&err);
            assert_null(strstr(remedy, "--"));
            assert_null(strstr(remedy, "languages`"));
            assert_null(strstr(remedy, "'vial languages"));
            assert_null(strstr(remedy, "VIAL_"));
        }
}

static void a_session_is_called_a_sandbox_but_not_in_quotes(void **state)
{
    static const char *const rows[][2] = {
        { "there is no session 's-1'", "there is no sandbox 's-1'" },
        { "end it, or open another session", "end it, or open another sandbox" },
        { "the vessel's limit, of vessels", "the sandbox's limit, of sandboxes" },
        { "no file 'session vessel' here", "no file 'session vessel' here" },
        { "sessionless obsession", "sessionless obsession" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct str said = { 0 };

        mcp_say_sandbox(&said, rows[i][0]);
        assert_string_equal(said.data, rows[i][1]);
        str_done(&said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_judged_by_their_schema),
        cmocka_unit_test(kept_outputs_are_their_owners_and_the_oldest_go),
        cmocka_unit_test(a_long_list_comes_in_pages_that_are_each_entry_once),
        cmocka_unit_test(a_call_too_many_is_told_so_and_the_others_go_on),
        cmocka_unit_test(a_flight_is_cancelled_by_its_id_only),
        cmocka_unit_test(no_remedy_for_a_model_names_a_flag),
        cmocka_unit_test(a_session_is_called_a_sandbox_but_not_in_quotes),
    };

    return cmocka_run_group_tests_name("mcp", tests, NULL, NULL);
}
