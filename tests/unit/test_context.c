/* SPDX-License-Identifier: Apache-2.0 */

/* Interpreters that remember, on every driver. */

#include <jansson.h>
#include <pthread.h>

#include "session_case.h"

#include "vial/context.h"
#include "vial/files.h"

static struct vial_context *open_python(struct vial_session *s)
{
    struct vial_context *c = NULL;

    good(vial_context_open(s, "python", &c, &err));
    return c;
}

static json_t *cell(struct vial_context *c, const char *code)
{
    char *text = NULL;
    json_t *result;

    good(vial_context_run(c, code, strlen(code), 0, &text, &err));
    result = json_loads(text, 0, NULL);
    assert_non_null(result);
    free(text);
    return result;
}

/* The text at a path like "error.name". */
static const char *text_at(json_t *result, const char *key, const char *inner)
{
    json_t *value = json_object_get(result, key);

    if (inner)
        value = json_object_get(value, inner);
    return json_is_string(value) ? json_string_value(value) : "(none)";
}

static void check_cell(struct vial_context *c, const char *code, const char *status,
                       const char *out, const char *value)
{
    json_t *r = cell(c, code);

    if (strcmp(text_at(r, "status", NULL), status) != 0)
        fail_msg("'%s': %s", code, json_dumps(r, 0));
    assert_string_equal(text_at(r, "stdout", NULL), out);
    assert_string_equal(text_at(r, "value", "text/plain"), value);
    json_decref(r);
}

static void variables_stay_and_the_last_line_is_the_value(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    check_cell(c, "x = 40\ndef f(): return x + 2", "ok", "", "(none)");
    check_cell(c, "print('hé'); f()", "ok", "hé\n", "42");
    check_cell(c,
               "import os, subprocess; os.system('echo child'); "
               "subprocess.run(['sh','-c','echo e >&2']) and None",
               "ok", "child\n", "(none)");
    check_cell(c, "_", "ok", "", "42");
    check_cell(c, "input()", "error", "", "(none)");
    check_cell(c, "", "ok", "", "(none)");
    check_cell(c, "__name__", "ok", "", "'__main__'");
    vial_context_close(c);
    vial_session_free(s);
}

static void an_error_has_name_value_and_traceback(void **state)
{
    json_t *r;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    check_cell(c, "def g():\n    return 1 / 0", "ok", "", "(none)");
    r = cell(c, "print('before')\ng()");
    assert_string_equal(text_at(r, "status", NULL), "error");
    assert_string_equal(text_at(r, "stdout", NULL), "before\n");
    assert_string_equal(text_at(r, "error", "name"), "ZeroDivisionError");
    assert_string_equal(text_at(r, "error", "value"), "division by zero");
    assert_non_null(strstr(text_at(r, "error", "traceback"), "<cell 1>"));
    assert_non_null(strstr(text_at(r, "error", "traceback"), "return 1 / 0"));
    assert_null(strstr(text_at(r, "error", "traceback"), "_main"));
    json_decref(r);
    r = cell(c, "def (");
    assert_string_equal(text_at(r, "error", "name"), "SyntaxError");
    json_decref(r);
    r = cell(c, "raise SystemExit(3)");
    assert_string_equal(text_at(r, "error", "name"), "SystemExit");
    json_decref(r);
    check_cell(c, "1 + 1", "ok", "", "2");
    vial_context_close(c);
    vial_session_free(s);
}

/* What the well-known packages offer, without them. */
#define PACKAGES                                                                          \
    "import sys, types\n"                                                                 \
    "class Frame:\n"                                                                      \
    "    columns = ['a', 'b']\n"                                                          \
    "    def _repr_html_(self): return '<table>'\n"                                       \
    "    def head(self, n): return self\n"                                                \
    "    def itertuples(self, index, name): return iter([(1, 'x'), (2, float('nan'))])\n" \
    "    def __len__(self): return 2\n"                                                   \
    "class Figure:\n"                                                                     \
    "    def savefig(self, out, **kw): out.write(b'\\x89PNG')\n"                          \
    "plt = types.ModuleType('matplotlib.pyplot'); open_ = [1, 2]\n"                       \
    "plt.get_fignums = lambda: list(open_); plt.figure = lambda n: Figure()\n"            \
    "plt.close = lambda what: open_.clear()\n"                                            \
    "sys.modules['matplotlib.pyplot'] = plt\n"

static void rich_values_come_by_media_type(void **state)
{
    json_t *r, *value, *table;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    r = cell(c, PACKAGES "Frame()");
    value = json_object_get(r, "value");
    assert_string_equal(json_string_value(json_object_get(value, "text/html")),
                        "<table>");
    table = json_object_get(value, "application/vnd.vial.table+json");
    assert_int_equal(json_integer_value(json_object_get(table, "total_rows")), 2);
    assert_true(json_is_null(
        json_array_get(json_array_get(json_object_get(table, "rows"), 1), 1)));
    assert_int_equal(json_array_size(json_object_get(r, "displays")), 2);
    assert_string_equal(
        json_string_value(json_object_get(
            json_array_get(json_object_get(r, "displays"), 0), "image/png")),
        "iVBORw==");
    json_decref(r);
    r = cell(c, "display({'k': [1]}); {'k': 'v'}");
    assert_int_equal(json_array_size(json_object_get(r, "displays")), 1);
    assert_string_equal(
        json_string_value(json_object_get(
            json_object_get(json_object_get(r, "value"), "application/json"), "k")),
        "v");
    json_decref(r);
    vial_context_close(c);
    vial_session_free(s);
}

/* What JSON cannot say is shown as text, and the interpreter stays. */
static void values_that_json_has_no_form_for_are_shown(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    check_cell(c, "x = [float('nan'), 10**30, float('-inf')]; x", "ok", "",
               "[nan, 1000000000000000000000000000000, -inf]");
    check_cell(c, "[chr(0xd800)]", "ok", "", "['\\ud800']");
    check_cell(c, "d = 1\nfor i in range(90): d = [d]\nlen(repr(d)), d and None", "ok",
               "", "(181, None)");
    check_cell(c, "display(d); x = list(range(300000)); x[-1:]", "ok", "", "[299999]");
    check_cell(c, "print(chr(0xd800)); display(x)", "ok", "\\ud800\n", "(none)");
    check_cell(c, "raise ValueError(chr(0xd800))", "error", "", "(none)");
    check_cell(c, "x[0]", "ok", "", "0");
    vial_context_close(c);
    vial_session_free(s);
}

struct told {
    struct str all;
};

static int on_output(void *context, int stream, const void *data, size_t len)
{
    struct told *t = context;

    str_printf(&t->all, "%d:%.*s", stream, (int)len, (const char *)data);
    return 0;
}

static void on_display(void *context, const char *json)
{
    struct told *t = context;

    str_printf(&t->all, "%s\n", json);
}

static void displays_are_told_in_their_place(void **state)
{
    static const char code[] = "print('a'); display('b'); print('c'); 'd'";
    struct told t = { 0 };
    const struct vial_watch watch = { .cancel_fd = -1,
                                      .stdin_fd = -1,
                                      .output = on_output,
                                      .displayed = on_display,
                                      .context = &t };
    char *text = NULL;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);
    good(vial_context_watch(c, code, strlen(code), 0, &watch, &text, &err));
    assert_string_equal(t.all.data, "1:a\n{\"text/plain\":\"'b'\"}\n1:c\n");
    free(text);
    str_done(&t.all);
    vial_context_close(c);
    vial_session_free(s);
}

/* Not every image has everything. */
static void need(struct vial_session *s, const char *line, const char *why)
{
    struct vial_exec *x = start(s, line);
    struct vial_exec_status st = wait_for(x);

    vial_exec_free(x);
    if (st.verdict == VIAL_OK)
        return;
    vial_session_free(s);
    print_message("%s\n", why);
    skip();
}

/* Of CODE's first figure, what PART of its chart is, as text. */
static void check_chart(struct vial_context *c, const char *code, const char *part,
                        const char *want)
{
    json_t *r = cell(c, code);
    const json_t *chart =
        json_object_get(json_array_get(json_object_get(r, "displays"), 0),
                        "application/vnd.vial.chart+json");
    char *text = json_dumps(json_object_get(chart, part),
                            JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);

    if (!text)
        fail_msg("no '%s' in %s", part, json_dumps(r, 0));
    assert_string_equal(text, want);
    free(text);
    json_decref(r);
}

static void check_charts(struct vial_context *c)
{
    check_chart(c, "plt.plot([1, 2], [3, 4], label='up'); plt.xlabel('t (s)')",
                "elements", "[{\"label\":\"up\",\"points\":[[1,3],[2,4]]}]");
    check_chart(c, "plt.plot([1, 2]); plt.xlabel('t (s)')", "x_unit", "\"s\"");
    check_chart(c, "plt.scatter([1, 2], [5, float('nan')])", "elements",
                "[{\"label\":\"Group 0\",\"points\":[[1.0,5.0],[null,null]]}]");
    check_chart(c, "plt.bar(['a', 'b'], [3, 4])", "elements",
                "[{\"group\":\"Group 0\",\"label\":\"a\",\"value\":3},"
                "{\"group\":\"Group 0\",\"label\":\"b\",\"value\":4}]");
    check_chart(c, "plt.pie([1, 3], labels=['x', 'y']); plt.show()", "elements",
                "[{\"angle\":90.0,\"label\":\"x\",\"radius\":1},"
                "{\"angle\":270.0,\"label\":\"y\",\"radius\":1}]");
    check_chart(c, "plt.boxplot([[1, 2, 3, 4, 20]], patch_artist=True)", "elements",
                "[{\"first_quartile\":2.0,\"label\":\"1\",\"max\":4.0,\"median\":3.0,"
                "\"min\":1.0,\"outliers\":[20],\"third_quartile\":4.0}]");
    check_chart(c, "f, (a, b) = plt.subplots(1, 2); a.plot([1]); b.bar([1], [2])",
                "type", "\"superchart\"");
    check_chart(c, "plt.imshow([[1, 2]])", "type", "\"unknown\"");
}

/* The real packages, as a user has them: nothing is set, configured or cached. */
static void a_plot_a_table_and_a_traceback_come_out_of_the_box(void **state)
{
    json_t *r;
    json_t *table;
    json_t *rows;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c;

    need(s, "python3 -c 'import matplotlib, pandas'",
         "matplotlib and pandas are not installed");
    c = open_python(s);
    r = cell(c, "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.title('x')");
    if (strcmp(text_at(r, "status", NULL), "ok") != 0)
        fail_msg("%s", json_dumps(r, 0));
    assert_string_equal(text_at(r, "stderr", NULL), "");
    assert_int_equal(json_array_size(json_object_get(r, "displays")), 1);
    assert_true(str_starts(
        text_at(json_array_get(json_object_get(r, "displays"), 0), "image/png", NULL),
        "iVBORw0KGgo")); /* the signature of PNG, in base64 */
    json_decref(r);
    check_charts(c);
    r = cell(c, "import pandas as pd\n"
                "df = pd.DataFrame({'name': ['a', None], 'n': [1, 2.5]})\ndf");
    table =
        json_object_get(json_object_get(r, "value"), "application/vnd.vial.table+json");
    rows = json_object_get(table, "rows");
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(table, "columns"), 0)),
        "name");
    assert_int_equal(json_integer_value(json_object_get(table, "total_rows")), 2);
    assert_true(json_real_value(json_array_get(json_array_get(rows, 1), 1)) == 2.5);
    assert_true(json_is_null(json_array_get(json_array_get(rows, 1), 0)));
    assert_non_null(strstr(text_at(r, "value", "text/html"), "<table"));
    json_decref(r);
    r = cell(c, "df['missing']");
    assert_string_equal(text_at(r, "error", "name"), "KeyError");
    assert_string_equal(text_at(r, "error", "value"), "'missing'");
    assert_non_null(strstr(text_at(r, "error", "traceback"), "df['missing']"));
    json_decref(r);
    vial_context_close(c);
    vial_session_free(s);
}

static void *interrupt_later(void *context)
{
    struct vial_entry e;
    void **both = context;

    /* The cell tells by a file that it is running. */
    while (vial_session_stat(both[0], "running", &e, NULL) < 0)
        ;
    return vial_context_interrupt(both[1], NULL) < 0 ? context : NULL;
}

static void an_interrupt_ends_the_cell_and_keeps_the_state(void **state)
{
    pthread_t thread;
    void *bad;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);
    void *both[] = { s, c };

    check_cell(c, "kept = 7", "ok", "", "(none)");
    assert_int_equal(pthread_create(&thread, NULL, interrupt_later, both), 0);
    check_cell(c, "open('running', 'w').close()\nwhile True: pass", "interrupted", "",
               "(none)");
    assert_int_equal(pthread_join(thread, &bad), 0);
    assert_null(bad);
    good(vial_context_interrupt(c, &err)); /* between cells: nothing */
    check_cell(c, "kept", "ok", "", "7");
    vial_context_close(c);
    vial_session_free(s);
}

static void a_cell_has_a_deadline(void **state)
{
    static const char loop[] = "while True: pass";
    char *text = NULL;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    refused(vial_context_run(c, loop, strlen(loop), 60001, &text, &err), "VIAL-CAP");
    good(vial_context_run(c, loop, strlen(loop), 300, &text, &err));
    assert_non_null(strstr(text, "\"status\":\"timeout\""));
    free(text);
    check_cell(c, "'still here'", "ok", "", "'still here'");
    check_cell(c,
               "import signal\n"
               "signal.signal(signal.SIGINT, signal.SIG_IGN) and None",
               "ok", "", "(none)"); /* deaf from now on */
    refused(vial_context_run(c, loop, strlen(loop), 100, &text, &err), "VIAL-CONTEXT");
    refused(vial_context_run(c, "1", 1, 0, &text, &err), "VIAL-CONTEXT");
    good(vial_context_restart(c, &err));
    check_cell(c, "2", "ok", "", "2");
    vial_context_close(c);
    vial_session_free(s);
}

/* It is late, whatever it makes of the interrupt. */
static void a_cell_cannot_talk_its_deadline_away(void **state)
{
    static const char *const cells[] = {
        "import time\n"
        "try: time.sleep(600)\n"
        "except KeyboardInterrupt: pass",
        "try: time.sleep(600)\n"
        "except KeyboardInterrupt: raise ValueError('x')",
    };
    char *text = NULL;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    for (size_t i = 0; i < sizeof(cells) / sizeof(*cells); i++) {
        good(vial_context_run(c, cells[i], strlen(cells[i]), 300, &text, &err));
        assert_non_null(strstr(text, "\"status\":\"timeout\""));
        free(text);
    }
    check_cell(c, "'still here'", "ok", "", "'still here'");
    vial_context_close(c);
    vial_session_free(s);
}

/* It came before the cell had begun: here the interpreter only behaves as if. */
static void an_interrupt_that_is_lost_is_not_the_last(void **state)
{
    static const char loop[] = "while True: pass";
    char *text = NULL;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    check_cell(c,
               "import signal\n"
               "usual = signal.getsignal(signal.SIGINT)\n"
               "lose = lambda *_: signal.signal(signal.SIGINT, usual)\n"
               "signal.signal(signal.SIGINT, lose) and None",
               "ok", "", "(none)");
    good(vial_context_run(c, loop, strlen(loop), 100, &text, &err));
    assert_non_null(strstr(text, "\"status\":\"timeout\""));
    free(text);
    check_cell(c, "'still here'", "ok", "", "'still here'");
    vial_context_close(c);
    vial_session_free(s);
}

static void a_cell_that_kills_its_interpreter_is_an_error_and_it_restarts(void **state)
{
    static const char die[] = "import os; os._exit(9)";
    static const char lie[] = "import os\n"
                              "for fd in range(3, 20):\n"
                              "    try: os.write(fd, b'\\xff' * 64)\n"
                              "    except OSError: pass\n";
    char *text = NULL;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    refused(vial_context_run(c, die, strlen(die), 0, &text, &err), "VIAL-CONTEXT");
    good(vial_context_restart(c, &err));
    refused(vial_context_run(c, "\xff", 1, 0, &text, &err), "VIAL-VALUE");
    check_cell(c, "3", "ok", "", "3");
    refused(vial_context_run(c, lie, strlen(lie), 0, &text, &err), "VIAL-CONTEXT");
    good(vial_context_restart(c, &err));
    check_cell(c, "4", "ok", "", "4");
    check_line(s, "echo session lives", "session lives\n");
    vial_context_close(c);
    vial_session_free(s);
}

static void several_contexts_know_nothing_of_each_other(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *a = open_python(s), *b = open_python(s), *c = NULL;

    check_cell(a, "x = 'a'", "ok", "", "(none)");
    check_cell(b, "x = 'b'", "ok", "", "(none)");
    check_cell(a, "x", "ok", "", "'a'");
    check_cell(b, "x", "ok", "", "'b'");
    refused(vial_context_open(s, "no-such", &c, &err), "VIAL-LANGUAGE");
    refused(vial_context_open(s, "perl", &c, &err), "VIAL-UNSUPPORTED");
    vial_context_close(a);
    vial_context_close(b);
    vial_context_close(NULL);
    vial_session_free(s);
}

static void much_output_is_cut_at_the_limit(void **state)
{
    json_t *r;

    begin(on);
    struct vial_session *s = open_with(on, "'timeout':'60s','output_limit':'1k'", NULL);
    struct vial_context *c = open_python(s);

    r = cell(c, "print('é' * 100000)");
    assert_true(json_is_true(json_object_get(r, "stdout_truncated")));
    assert_int_equal(json_string_length(json_object_get(r, "stdout")), 1024);
    assert_true(json_is_false(json_object_get(r, "stderr_truncated")));
    json_decref(r);
    check_cell(c, "5", "ok", "", "5");
    vial_context_close(c);
    vial_session_free(s);
}

static void node_remembers_too(void **state)
{
    struct vial_context *c = NULL;
    static const char loop[] = "for (;;);";
    char *text = NULL;
    json_t *r;

    begin(on);
    struct vial_session *s =
        open_with(on, "'timeout':'60s','memory':'1g','pids':256", NULL);
    need(s, "command -v node", "there is no node");
    good(vial_context_open(s, "node", &c, &err));
    check_cell(c, "var x = 40; function f() { return x + 2 }", "ok", "", "(none)");
    check_cell(c, "console.log('hé'); f()", "ok", "hé\n", "42");
    check_cell(c, "Promise.resolve(7)", "ok", "", "7");
    r = cell(c, "null.x");
    assert_string_equal(text_at(r, "error", "name"), "TypeError");
    json_decref(r);
    r = cell(c, "[{a: 1}, {a: 2, b: 'x'}]");
    assert_non_null(json_object_get(json_object_get(r, "value"),
                                    "application/vnd.vial.table+json"));
    json_decref(r);
    good(vial_context_run(c, loop, strlen(loop), 300, &text, &err));
    assert_non_null(strstr(text, "\"status\":\"timeout\""));
    free(text);
    check_cell(c, "x", "ok", "", "40");
    vial_context_close(c);
    vial_session_free(s);
}

/* "stdout:2 display:1" */
static void check_order(struct vial_context *c, const char *code, const char *want)
{
    json_t *r = cell(c, code);
    struct str order = { 0 };
    json_t *piece;
    size_t i;

    str_puts(&order, "");
    json_array_foreach(json_object_get(r, "order"), i, piece)
        str_printf(&order, "%s%s:%lld", i ? " " : "", text_at(piece, "kind", NULL),
                   (long long)json_integer_value(json_object_get(piece, "length")));
    assert_string_equal(order.data ? order.data : "", want);
    str_done(&order);
    json_decref(r);
}

static void output_and_displays_have_an_order(void **state)
{
    json_t *r;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    check_order(c, "1", "");
    check_order(c,
                "import sys\n"
                "for i in range(3):\n"
                "    print('hé', end=''); print('e', file=sys.stderr)\n",
                "stdout:2 stderr:2 stdout:2 stderr:2 stdout:2 stderr:2");
    check_order(c, "print('a')\ndisplay(1, 2)\n!echo child\nprint('b')\ndisplay(3)",
                "stdout:2 display:2 stdout:8 display:1");
    r = cell(c, "for i in range(3000):\n    print('o'); print('e', file=sys.stderr)");
    assert_int_equal(json_array_size(json_object_get(r, "order")), 4096);
    assert_int_equal(json_string_length(json_object_get(r, "stdout")), 6000);
    json_decref(r);
    vial_context_close(c);
    vial_session_free(s);
}

static void check_timeout(struct vial_context *c, const char *code)
{
    char *text = NULL;

    good(vial_context_run(c, code, strlen(code), 300, &text, &err));
    assert_non_null(strstr(text, "\"status\":\"timeout\""));
    free(text);
}

static void check_error(struct vial_context *c, const char *code, const char *name)
{
    json_t *r = cell(c, code);

    assert_string_equal(text_at(r, "error", "name"), name);
    json_decref(r);
}

static void await_stands_anywhere_in_python(void **state)
{
    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    check_cell(c,
               "import asyncio\nasync def f(v):\n    await asyncio.sleep(0)\n"
               "    return v\nx = await f(4)\nawait f(x + 1)",
               "ok", "", "5");
    check_cell(c, "asyncio.run(f(6))", "ok", "", "6");
    check_cell(c, "t = asyncio.ensure_future(f(7)) if await f(1) else 0", "ok", "",
               "(none)");
    check_cell(c, "await t", "ok", "", "7"); /* the loop is still the same */
    check_error(c, "await f(1 / 0)", "ZeroDivisionError");
    check_timeout(c, "await asyncio.sleep(600)");
    check_cell(c, "x", "ok", "", "4");
    vial_context_close(c);
    vial_session_free(s);
}

static void python_has_the_magics_of_notebooks(void **state)
{
    json_t *r;

    begin(on);
    struct vial_session *s = open_on(on);
    struct vial_context *c = open_python(s);

    check_cell(c, "x = 4\n!echo {x} $x; exit 3\n_exit_code", "ok", "4 4\n", "3");
    check_cell(c, "for i in range(2):\n    !echo \\\n      {i}", "ok", "0\n1\n",
               "(none)");
    check_cell(c, "a = !printf 'a\\nb'\na", "ok", "", "['a', 'b']");
    check_cell(c, "'''\n!no\n%no'''", "ok", "", "'\\n!no\\n%no'"); /* it is Python */
    check_cell(c, "7 \\\n%3", "ok", "", "1");
    check_cell(c, "x;", "ok", "", "(none)");
    check_cell(c, "%cd /\n%pwd", "ok", "/\n", "'/'");
    check_cell(c, "%env A=1\n!echo $A\n%env A", "ok", "env: A=1\n1\n", "'1'");
    check_cell(c, "%matplotlib inline", "ok", "", "(none)");
    check_cell(c, "%%bash\nn=2\necho $((n + 2))", "ok", "4\n", "(none)");
    check_error(c, "%%bash\nexit 4", "CalledProcessError");
    check_cell(c, "del a, i\n%who", "ok", "x\n", "(none)");
    r = cell(c, "%%time\ny = {x}\ny");
    assert_string_equal(text_at(r, "value", "text/plain"), "{4}");
    assert_non_null(strstr(text_at(r, "stdout", NULL), "Wall time: "));
    json_decref(r);
    r = cell(c, "%timeit -n 1 -r 2 x");
    assert_non_null(strstr(text_at(r, "stdout", NULL), " per loop "));
    json_decref(r);
    r = cell(c, "%no such");
    assert_true(str_starts(text_at(r, "error", "value"),
                           "there is no magic '%no' here; there are %cd, "));
    json_decref(r);
    check_timeout(c, "!sleep 600");
    check_cell(c, "x", "ok", "", "4");
    vial_context_close(c);
    vial_session_free(s);
}

static void node_cells_import_and_await_and_declare_again(void **state)
{
    struct vial_context *c = NULL;
    json_t *r;

    begin(on);
    struct vial_session *s =
        open_with(on, "'timeout':'60s','memory':'1g','pids':256", NULL);
    need(s, "command -v node", "there is no node");
    good(vial_context_open(s, "node", &c, &err));
    check_cell(c, "const a = 1; let b = 2; class C {}", "ok", "", "(none)");
    check_cell(c, "const a = 3; let b; class C { x() { return [a, b] } }\nnew C().x()",
               "ok", "", "[ 3, undefined ]");
    check_cell(c, "import os, { EOL as end } from 'os'\nimport * as path from 'path'",
               "ok", "", "(none)");
    check_cell(c, "[os.EOL === end, path.sep]", "ok", "", "[ true, '/' ]");
    check_cell(c,
               "const { x, y: [z = 2] } = await Promise.resolve({ x: 1, y: [] })\n"
               "let n = 0; const up = () => ++n\nfunction f() { return x + z }\n"
               "for (var i = 0; i < 2; i++) await null;\n(f())",
               "ok", "", "3");
    check_cell(c, "up(); [n, i, z, f()]", "ok", "", "[ 1, 2, 2, 3 ]");
    check_cell(c, "(await import('path')).sep", "ok", "", "'/'");
    check_cell(c, "for await (const v of [1]) console.log(v)", "ok", "1\n", "(none)");
    check_cell(c, "require('child_process').execSync('echo c', { stdio: 'inherit' })",
               "ok", "c\n", "null");
    check_order(c, "console.log('a'); console.error('b'); display(1); console.log('c')",
                "stdout:2 stderr:2 display:1 stdout:2");
    check_error(c, "import { nothing } from 'os'", "SyntaxError");
    check_error(c, "const d = 1; const d = 2", "SyntaxError");
    r = cell(c, "\nawait null; null.x");
    assert_non_null(strstr(text_at(r, "error", "traceback"), "<cell 13>:2:"));
    assert_null(strstr(text_at(r, "error", "traceback"), "[eval]"));
    json_decref(r);
    /* What is wrong is said, though a plain script could not import or wait either. */
    r = cell(c, "import fs from 'fs'\nawait null\nconst e = 1; const e = 2");
    assert_non_null(strstr(text_at(r, "error", "value"), "already been declared"));
    assert_non_null(strstr(text_at(r, "error", "traceback"), "<cell 14>:3"));
    json_decref(r);
    check_timeout(c, "await new Promise(() => {})");
    check_cell(c, "a", "ok", "", "3");
    vial_context_close(c);
    vial_session_free(s);
}

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(variables_stay_and_the_last_line_is_the_value, on),                          \
            T(an_error_has_name_value_and_traceback, on),                              \
            T(rich_values_come_by_media_type, on),                                     \
            T(values_that_json_has_no_form_for_are_shown, on),                         \
            T(displays_are_told_in_their_place, on),                                   \
            T(a_plot_a_table_and_a_traceback_come_out_of_the_box, on),                 \
            T(an_interrupt_ends_the_cell_and_keeps_the_state, on),                     \
            T(a_cell_has_a_deadline, on), T(a_cell_cannot_talk_its_deadline_away, on), \
            T(an_interrupt_that_is_lost_is_not_the_last, on),                          \
            T(a_cell_that_kills_its_interpreter_is_an_error_and_it_restarts, on),      \
            T(several_contexts_know_nothing_of_each_other, on),                        \
            T(much_output_is_cut_at_the_limit, on), T(node_remembers_too, on),         \
            T(output_and_displays_have_an_order, on),                                  \
            T(await_stands_anywhere_in_python, on),                                    \
            T(python_has_the_magics_of_notebooks, on),                                 \
            T(node_cells_import_and_await_and_declare_again, on),                      \
    }

run_on_driver(TESTS)
