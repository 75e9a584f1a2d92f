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
    refused(vial_context_open(s, "bash", &c, &err), "VIAL-UNSUPPORTED");
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

#define TESTS(on)                                                                      \
    {                                                                                  \
        T(variables_stay_and_the_last_line_is_the_value, on),                          \
            T(an_error_has_name_value_and_traceback, on),                              \
            T(rich_values_come_by_media_type, on),                                     \
            T(a_plot_a_table_and_a_traceback_come_out_of_the_box, on),                 \
            T(an_interrupt_ends_the_cell_and_keeps_the_state, on),                     \
            T(a_cell_has_a_deadline, on),                                              \
            T(an_interrupt_that_is_lost_is_not_the_last, on),                          \
            T(a_cell_that_kills_its_interpreter_is_an_error_and_it_restarts, on),      \
            T(several_contexts_know_nothing_of_each_other, on),                        \
            T(much_output_is_cut_at_the_limit, on), T(node_remembers_too, on),         \
    }

run_on_driver(TESTS)
