/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/python.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_INPUT 257 /* Py_file_input, the same in every version */

/* CALL(name, result, arguments) */
#define CALLS                                                                          \
    CALL(PyGILState_Ensure, int, (void))                                               \
    CALL(PyGILState_Release, void, (int))                                              \
    CALL(PyOS_BeforeFork, void, (void))                                                \
    CALL(PyOS_AfterFork_Parent, void, (void))                                          \
    CALL(PyOS_AfterFork_Child, void, (void))                                           \
    CALL(PyDict_New, void *, (void))                                                   \
    CALL(PyDict_SetItemString, int, (void *, const char *, void *))                    \
    CALL(PyDict_GetItemString, void *, (void *, const char *))                         \
    CALL(PyEval_GetBuiltins, void *, (void))                                           \
    CALL(PyRun_StringFlags, void *, (const char *, int, void *, void *, void *))       \
    CALL(PyErr_Print, void, (void))                                                    \
    CALL(PyErr_Clear, void, (void))                                                    \
    CALL(PyBytes_FromString, void *, (const char *))                                   \
    CALL(PyBytes_AsString, char *, (void *))                                           \
    CALL(PyList_New, void *, (long))                                                   \
    CALL(PyList_Append, int, (void *, void *))                                         \
    CALL(PyLong_FromLong, void *, (long))                                              \
    CALL(PyObject_CallFunctionObjArgs, void *, (void *, ...))                          \
    CALL(Py_DecRef, void, (void *))

static struct {
#define CALL(name, result, arguments) result(*name) arguments;
    CALLS
#undef CALL
} api;

static int find_all(void)
{
#define CALL(name, result, arguments)                                                  \
    *(void **)&api.name = dlsym(RTLD_DEFAULT, #name);                                  \
    if (!api.name)                                                                     \
        return -1;
    CALLS
#undef CALL
    return 0;
}

static void drop(void *object)
{
    if (object)
        api.Py_DecRef(object);
}

static void *function(const struct python *py, const char *name)
{
    return api.PyDict_GetItemString(py->globals, name); /* borrowed */
}

static _Noreturn void give_up(void)
{
    api.PyErr_Print();
    _exit(127);
}

static void import_all(struct python *py, const char *names)
{
    void *text = api.PyBytes_FromString(names);
    void *missing =
        api.PyObject_CallFunctionObjArgs(function(py, "prepare"), text, NULL);

    if (!missing)
        give_up();
    (void)snprintf(py->missing, sizeof py->missing, "%s",
                   api.PyBytes_AsString(missing));
    drop(text);
    drop(missing);
}

int python_open(struct python *py, const char *settings)
{
    const char *names = settings + strlen(settings) + 1;
    void *done = NULL;

    *py = (struct python){ 0 };
    if (find_all() < 0)
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
    import_all(py, names);
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
    void *done = NULL;

    api.PyOS_AfterFork_Child();
    done = api.PyObject_CallFunctionObjArgs(function(py, "hatched"), NULL);
    if (!done)
        give_up();
    drop(done);
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
        const char *value = strchr(*env, '=');
        char name[256];

        if (!value || (size_t)(value - *env) >= sizeof name)
            continue;
        memcpy(name, *env, (size_t)(value - *env));
        name[value - *env] = 0;
        (void)setenv(name, value + 1, 1);
    }
}

void python_begin(struct python *py, const struct exec_message *m)
{
    void *argv = list_of(m->argv);
    void *env = list_of(m->env);
    void *piped = api.PyLong_FromLong(!m->stdin_closed);
    void *done = NULL;

    set_environment(m->env);
    done =
        api.PyObject_CallFunctionObjArgs(function(py, "begin"), argv, env, piped, NULL);
    if (!done)
        give_up();
    drop(argv);
    drop(env);
    drop(piped);
    drop(done);
}

void python_close(struct python *py)
{
    drop(py->globals);
    api.PyGILState_Release(py->held);
}
