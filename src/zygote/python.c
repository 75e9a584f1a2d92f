/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/python.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zygote/api.h"
#include "zygote/modules.h"

#define FILE_INPUT 257 /* Py_file_input, the same in every version */
#define NO_ARGS    4   /* METH_NOARGS */

/* struct PyMethodDef, of the stable interface. */
struct method {
    const char *name;
    void *(*call)(void *, void *);
    int flags;
    const char *doc;
};

/* An interpreter has one of each, and so has its process. NOLINTBEGIN */
static struct api api;
static struct modules modules;
static struct {
    bool armed, interrupted;
    int code;
    python_end_fn *call;
} ending;
/* NOLINTEND */

static void drop(void *object)
{
    if (object)
        api.Py_DecRef(object);
}

static _Noreturn void give_up(void)
{
    api.PyErr_Print();
    _exit(127);
}

static void *function(const struct python *py, const char *name)
{
    return api.PyDict_GetItemString(py->globals, name); /* borrowed */
}

/* Calls a function of the harness that must not fail. */
static void *ask(const struct python *py, const char *name, void *a, void *b, void *c)
{
    void *result =
        api.PyObject_CallFunctionObjArgs(function(py, name), a, b, c, NULL, NULL);

    if (!result)
        give_up();
    return result;
}

static void *do_nothing(void *self, void *args)
{
    (void)self;
    (void)args;
    api.Py_IncRef(api.none);
    return api.none;
}

void python_at_end(python_end_fn *call)
{
    ending.call = call;
}

static _Noreturn void end(void)
{
    if (ending.call)
        ending.call();
    (void)fflush(NULL);
    if (ending.interrupted) {
        (void)signal(SIGINT, SIG_DFL);
        (void)kill(getpid(), SIGINT);
    }
    exit(ending.code);
}

/* Python lets go of this when its modules are gone and no program can run any more;
 * what it would do from there on is give its own memory back. */
static void on_release(void *capsule)
{
    (void)capsule;
    if (ending.armed)
        end();
}

/* Held by a list that python empties late, and that no program sees. */
static void arm(const struct python *py)
{
    static const struct method method = { "nothing", do_nothing, NO_ARGS, NULL };
    void *capsule = api.PyCapsule_New(&ending, NULL, on_release);
    void *holder =
        capsule ? api.PyCMethod_New((void *)(uintptr_t)&method, capsule, NULL, NULL)
                : NULL;

    if (!holder)
        give_up();
    drop(ask(py, "hold", holder, NULL, NULL));
    drop(holder);
    drop(capsule);
}

static void import_all(struct python *py, const char *names)
{
    void *text = api.PyBytes_FromString(names);
    void *missing = ask(py, "prepare", text, NULL, NULL);

    (void)snprintf(py->missing, sizeof py->missing, "%s",
                   api.PyBytes_AsString(missing));
    drop(text);
    drop(missing);
}

static void *main_module(void)
{
    return api.PyDict_GetItemString(api.PyImport_GetModuleDict(), "__main__");
}

/* The harness froze all there was: the collector leaves it, and its pages, alone.
 * What the program puts into __main__ must go at the end, though, and with it
 * __main__ itself, which most of it refers to. */
static void thaw(void *object)
{
    if (!api.PyObject_GC_IsTracked(object))
        return;
    api.PyObject_GC_UnTrack(object);
    api.PyObject_GC_Track(object);
}

int python_open(struct python *py, const char *settings)
{
    const char *names = settings + strlen(settings) + 1;
    void *done = NULL;

    *py = (struct python){ 0 };
    if (api_find(&api) < 0)
        return -1;
    py->held = api.PyGILState_Ensure();
    py->globals = api.PyDict_New();
    if (!py->globals || api.PyDict_SetItemString(py->globals, "__builtins__",
                                                 api.PyEval_GetBuiltins()) < 0)
        give_up();
    done = api.PyRun_StringFlags(settings, FILE_INPUT, py->globals, py->globals, NULL);
    if (!done)
        give_up();
    drop(done);
    arm(py);
    import_all(py, names);
    modules_note(&modules, &api);
    thaw(main_module());
    thaw(api.PyModule_GetDict(main_module()));
    return 0;
}

void python_before_fork(struct python *py)
{
    (void)py;
    api.PyOS_BeforeFork();
}

void python_forked(struct python *py)
{
    (void)py;
    api.PyOS_AfterFork_Parent();
}

void python_hatched(struct python *py)
{
    api.PyOS_AfterFork_Child();
    drop(ask(py, "hatched", NULL, NULL, NULL));
}

static void *list_of(char *const *texts)
{
    void *list = api.PyList_New(0);

    for (; list && *texts; texts++) {
        void *item = api.PyBytes_FromString(*texts);

        if (!item || api.PyList_Append(list, item) < 0)
            give_up();
        drop(item);
    }
    return list;
}

static void set_environment(char *const *env)
{
    (void)clearenv();
    for (; *env; env++) {
        char *value = strchr(*env, '=');

        if (!value)
            continue;
        *value = 0;
        (void)setenv(*env, value + 1, 1);
        *value = '=';
    }
}

void python_begin(struct python *py, const struct exec_message *m)
{
    void *argv = list_of(m->argv);
    void *env = list_of(m->env);
    void *piped = api.PyLong_FromLong(!m->stdin_closed);

    set_environment(m->env);
    drop(ask(py, "begin", argv, env, piped));
    drop(argv);
    drop(env);
    drop(piped);
}

/* Python can run a compiled file, a directory or an archive too; that is left to
 * it. */
static bool is_source(FILE *file)
{
    long magic = api.PyImport_GetMagicNumber();
    int first = getc(file);
    int second = first == EOF ? EOF : getc(file);

    rewind(file);
    return !ferror(file) && !(first == (magic & 0xff) && second == (magic >> 8 & 0xff));
}

/* Flushes both streams whatever happens, as python does between a program's last
 * line and its judgement. */
static void flush(const struct python *py)
{
    void *type = NULL, *value = NULL, *trace = NULL;

    api.PyErr_Fetch(&type, &value, &trace);
    drop(api.PyObject_CallFunctionObjArgs(function(py, "flush"), NULL));
    api.PyErr_Clear();
    api.PyErr_Restore(type, value, trace);
}

/* The program raised; what python would exit with. */
static int judge(const struct python *py, bool *exited)
{
    void *type = NULL, *value = NULL, *trace = NULL, *code = NULL;
    int result = 1;

    api.PyErr_Fetch(&type, &value, &trace);
    ending.interrupted = type == *api.PyExc_KeyboardInterrupt;
    *exited = api.PyErr_GivenExceptionMatches(type, *api.PyExc_SystemExit);
    if (!*exited) {
        api.PyErr_Restore(type, value, trace);
        api.PyErr_Print();
        return 1;
    }
    code = ask(py, "exit_code", value ? value : api.none, NULL, NULL);
    result = (int)api.PyLong_AsLong(code);
    drop(code);
    drop(type);
    drop(value);
    drop(trace);
    return result;
}

/* Called from here, so that no frame of ours stands in what they print. */
static void call_of_module(const char *module, const char *name)
{
    void *object = api.PyDict_GetItemString(api.PyImport_GetModuleDict(), module);
    void *called = object ? api.PyObject_GetAttrString(object, name) : NULL;
    void *result = called ? api.PyObject_CallFunctionObjArgs(called, NULL) : NULL;

    if (object && !result)
        api.PyErr_WriteUnraisable(object);
    drop(called);
    drop(result);
}

/* Threads and exit functions first, in python's order; then what is quick can be
 * made quick. */
static _Noreturn void finish(const struct python *py)
{
    void *good = NULL;

    call_of_module("threading", "_shutdown");
    call_of_module("atexit", "_run_exitfuncs");
    good = ask(py, "finish", NULL, NULL, NULL);
    ending.armed = good != api.none;
    drop(good);
    if (ending.armed)
        modules_hide(&modules, &api);
    if (api.Py_FinalizeEx() < 0)
        ending.code = 120;
    end();
}

void python_run(struct python *py, const char *path, FILE *file)
{
    void *main_dict = NULL, *result = NULL;
    bool exited = false;

    if (!file || !is_source(file))
        return;
    main_dict = api.PyModule_GetDict(main_module());
    drop(ask(py, "introduce", NULL, NULL, NULL));
    (void)api.Py_MakePendingCalls();
    result =
        api.PyRun_FileExFlags(file, path, FILE_INPUT, main_dict, main_dict, 1, NULL);
    flush(py);
    ending.code = result ? 0 : judge(py, &exited);
    drop(result);
    if (!exited) /* python leaves at once otherwise */
        drop(ask(py, "retire", NULL, NULL, NULL));
    finish(py);
}

void python_close(struct python *py)
{
    drop(py->globals);
    api.PyGILState_Release(py->held);
}
