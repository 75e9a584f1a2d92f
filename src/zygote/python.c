/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/python.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zygote/memory.h"
#include "zygote/modules.h"
#include "zygote/shortcuts.h"

#define FILE_INPUT  257        /* Py_file_input, the same in every version */
#define PYTHON_3_14 0x030e0000 /* of sys.hexversion */

_Noreturn void python_start_over(const struct exec_message *m)
{
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
    if (m->argv[0])
        (void)execvpe(m->argv[0], m->argv, m->env);
    python_die();
}

_Noreturn void python_die(void)
{
    for (;;)
        (void)kill(getpid(), SIGKILL);
}

/* In a child that has a program: as if it had never waited. In the zygote: says why. A
 * rehearsal has no program that anybody asked for, and no walls around it. */
static _Noreturn void give_up(const struct python *py)
{
    if (py->message && !py->rehearsing)
        python_start_over(py->message);
    py->api.PyErr_Print();
    _exit(1);
}

/* Calls a function of the harness that must not fail. */
static void *ask(const struct python *py, const char *name, void *a, void *b, void *c)
{
    void *result = py->api.PyObject_CallFunctionObjArgs(python_function(py, name), a, b,
                                                        c, NULL, NULL);

    if (!result)
        give_up(py);
    return result;
}

static void import_all(struct python *py, const char *names)
{
    void *text = py->api.PyBytes_FromString(names);
    void *missing = ask(py, "prepare", text, NULL, NULL);

    (void)snprintf(py->missing, sizeof py->missing, "%s",
                   py->api.PyBytes_AsString(missing));
    python_drop(py, text);
    python_drop(py, missing);
}

/* The harness froze all there was: the collector leaves it, and its pages, alone.
 * What the program puts into __main__ must go at the end, though, and with it
 * __main__ itself, which most of it refers to. */
static void thaw(const struct python *py, void *object)
{
    if (!py->api.PyObject_GC_IsTracked(object))
        return;
    py->api.PyObject_GC_UnTrack(object);
    py->api.PyObject_GC_Track(object);
}

int python_open(struct python *py, const char *settings)
{
    const char *names = settings + strlen(settings) + 1;
    const char *shortcuts = names + strlen(names) + 1;
    void *done = NULL, *last = NULL;
    char *held = NULL;

    if (api_find(&py->api) < 0)
        return -1;
    py->shortcuts = (unsigned)strtoul(shortcuts, &held, 10);
    py->held = py->api.PyGILState_Ensure();
    py->version = py->api.PyLong_AsLong(py->api.PySys_GetObject("hexversion"));
    py->rehearsed = *held && strtol(held, NULL, 16) == py->version;
    py->globals = py->api.PyDict_New();
    if (!py->globals || py->api.PyDict_SetItemString(py->globals, "__builtins__",
                                                     py->api.PyEval_GetBuiltins()) < 0)
        give_up(py);
    done =
        py->api.PyRun_StringFlags(settings, FILE_INPUT, py->globals, py->globals, NULL);
    if (!done)
        give_up(py);
    python_drop(py, done);
    import_all(py, names);
    last = python_arm(py);
    if (!last)
        give_up(py);
    if (py->shortcuts & SHORTCUT_FREEZE)
        python_drop(py, ask(py, "freeze", NULL, NULL, NULL));
    if (py->shortcuts & SHORTCUT_HOLES)
        holes_fill();
    modules_note(&py->modules, &py->api, last, python_function(py, "kept"));
    py->draws = python_function(py, "in_child") != NULL; /* or nothing here does */
    py->ahead = python_function(py, "is_shadowed") != NULL;
    py->modules.loose = py->ahead; /* to take all of those apart would take too long */
    py->magic = py->api.PyImport_GetMagicNumber();
    py->retires = py->version >= PYTHON_3_14;
    python_drop(py, ask(py, "introduce", py->api.PyModule_GetDict(python_main(py)),
                        NULL, NULL));
    thaw(py, python_main(py));
    thaw(py, py->api.PyModule_GetDict(python_main(py)));
    return 0;
}

void python_before_fork(struct python *py)
{
    py->api.PyOS_BeforeFork();
}

void python_forked(struct python *py)
{
    py->api.PyOS_AfterFork_Parent();
}

void python_in_child(struct python *py)
{
    py->api.PyOS_AfterFork_Child();
    if (py->draws)
        python_drop(py, ask(py, "in_child", NULL, NULL, NULL));
}

static void *list_of(const struct python *py, char *const *texts)
{
    void *list = py->api.PyList_New(0);

    for (; list && *texts; texts++) {
        void *item = py->api.PyBytes_FromString(*texts);

        if (!item || py->api.PyList_Append(list, item) < 0)
            give_up(py);
        python_drop(py, item);
    }
    return list;
}

static void add_environment(char *const *env)
{
    for (; *env; env++) {
        char *value = strchr(*env, '=');

        if (!value)
            continue;
        *value = 0;
        (void)setenv(*env, value + 1, 1); /* NOLINT(concurrency-mt-unsafe) */
        *value = '=';
    }
}

/* Calls a function of the harness with a list of TEXTS. */
static void ask_with(const struct python *py, const char *name, char *const *texts)
{
    void *list = list_of(py, texts);

    python_drop(py, ask(py, name, list, NULL, NULL));
    python_drop(py, list);
}

/* How many entries at the begin of ENV are all that is there already; mostly, those of
 * a program are the zygote's. */
static size_t count_present(char *const *env)
{
    size_t n = 0;

    while (environ && environ[n] && env[n] && strcmp(environ[n], env[n]) == 0)
        n++;
    return environ && environ[n] ? 0 : n;
}

static void set_environment(const struct python *py, char *const *env)
{
    size_t present = count_present(env);

    if (!present) {
        (void)clearenv(); /* NOLINT(concurrency-mt-unsafe): before any thread */
        python_drop(py, ask(py, "clear_environ", NULL, NULL, NULL));
    }
    if (!env[present])
        return;
    add_environment(env + present);
    ask_with(py, "add_environ", env + present);
}

/* Only what differs from the zygote's own state is set. */
void python_begin(struct python *py, const struct exec_message *m)
{
    py->message = m;
    py->early_exit =
        m->early_exit && py->shortcuts & SHORTCUT_EARLY_EXIT ? getpid() : 0;
    set_environment(py, m->env);
    if (m->argv[0] && m->argv[1] && m->argv[2])
        ask_with(py, "set_argv", m->argv);
    if (!m->stdin_closed)
        python_drop(py, ask(py, "reopen_stdin", NULL, NULL, NULL));
    modules_begin(&py->modules, &py->api);
}

bool python_is_shadowed(struct python *py)
{
    void *answer = py->ahead ? ask(py, "is_shadowed", NULL, NULL, NULL) : NULL;
    bool shadowed = answer && py->api.PyObject_IsTrue(answer) == 1;

    python_drop(py, answer);
    return shadowed;
}

void python_close(struct python *py)
{
    python_drop(py, py->globals);
    py->api.PyGILState_Release(py->held);
}
