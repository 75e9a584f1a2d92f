/* SPDX-License-Identifier: Apache-2.0 */

/* A program's run and its end. From its first line on nothing of the harness is
 * called: what a program sees is python's own. */

#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "wire/message.h"
#include "zygote/python.h"
#include "zygote/shortcuts.h"

#define FILE_INPUT 257 /* Py_file_input, the same in every version */
#define NO_ARGS    4   /* METH_NOARGS */
#define PRINT_RAW  1   /* Py_PRINT_RAW */

/* struct PyMethodDef, of the stable interface. */
struct method {
    const char *name;
    void *(*call)(void *, void *);
    int flags;
    const char *doc;
};

/* Python keeps it in a capsule, and gives that back. Whoever made it has seen that it
 * is there. */
static struct python *python_of(void *capsule)
{
    return ((void *const *)capsule)[2]; /* after ob_refcnt and ob_type */
}

static void *capsule_of(struct python *py, void (*on_end)(void *))
{
    void *capsule = py->api.PyCapsule_New(py, NULL, on_end);

    return capsule && python_of(capsule) == py ? capsule : NULL;
}

static void *do_nothing(void *self, void *args)
{
    const struct python *py = python_of(self);

    (void)args;
    py->api.Py_IncRef(py->api.none);
    return py->api.none;
}

static _Noreturn void end(const struct python *py)
{
    (void)fflush(NULL);
    if (py->ending.interrupted) {
        (void)signal(SIGINT, SIG_DFL);
        (void)kill(getpid(), SIGINT);
    }
    exit(py->ending.code); /* NOLINT(concurrency-mt-unsafe): its end */
}

static int count_libraries(struct dl_phdr_info *info, size_t size, void *out)
{
    (void)size;
    *(unsigned long long *)out = info->dlpi_adds;
    return 1; /* the first one knows */
}

static unsigned long long libraries(void)
{
    unsigned long long count = 0;

    (void)dl_iterate_phdr(count_libraries, &count);
    return count;
}

/* To the guest, which waits for nothing else. Whoever else comes here, a child that
 * the program forked or another thread of it, just exits; and so does this one, should
 * it be woken. */
static void tell_early_exit(const struct python *py, int status)
{
    char name[EARLY_EXIT_SIZE];

    if (!py->early_exit || gettid() != py->early_exit)
        return;
    early_exit_write(name, status);
    if (prctl(PR_SET_NAME, name) == 0)
        (void)tgkill(py->early_exit, py->early_exit, SIGSTOP);
}

/* Exit functions are called last come, first served: when this one is, those that the
 * program's libraries have asked for are done. The rest belong to what was there
 * before, and do nothing but give memory back. */
static void leave_now(int status, void *context)
{
    const struct python *py = context;

    if (!(py->shortcuts & SHORTCUT_EXIT) || libraries() != py->libraries)
        return;
    (void)fflush(NULL);
    if (py->ending.call)
        py->ending.call(py->ending.context);
    tell_early_exit(py, status);
    _exit(status);
}

static int flush_stream(const struct python *py, void *stream)
{
    void *call = py->api.PyObject_GetAttrString(stream, "flush");
    void *done = call ? py->api.PyObject_CallFunctionObjArgs(call, NULL) : NULL;

    python_drop(py, call);
    python_drop(py, done);
    return done ? 0 : -1;
}

/* Flushes both streams whatever happens, as python does between a program's last
 * line and its judgement. */
static void flush(const struct python *py)
{
    static const char *const names[] = { "stderr", "stdout" };
    void *type = NULL, *value = NULL, *trace = NULL;

    py->api.PyErr_Fetch(&type, &value, &trace);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *stream = py->api.PySys_GetObject(names[i]); /* borrowed */

        py->api.Py_IncRef(stream); /* which may be NULL, for it */
        if (stream)
            (void)flush_stream(py, stream);
        py->api.PyErr_Clear();
        python_drop(py, stream);
    }
    py->api.PyErr_Restore(type, value, trace);
}

/* 0 if the rest of the output could be written: python would exit with 120
 * otherwise. */
static int flush_last(const struct python *py, const char *name)
{
    void *stream = py->api.PySys_GetObject(name); /* borrowed */
    void *closed = NULL;
    int rc = 0;

    if (!stream || stream == py->api.none)
        return 0;
    py->api.Py_IncRef(stream);
    closed = py->api.PyObject_GetAttrString(stream, "closed");
    rc = closed ? py->api.PyObject_IsTrue(closed) : -1;
    if (rc == 0)
        rc = flush_stream(py, stream);
    python_drop(py, closed);
    python_drop(py, stream);
    return rc < 0 ? -1 : 0;
}

/* Python lets go of this when its modules are gone and no program can run any more;
 * what it would do from there on is give its own memory back. */
static void on_release(void *capsule)
{
    const struct python *py = python_of(capsule);

    if (py->ending.armed && py->shortcuts & SHORTCUT_RELEASE)
        end(py);
}

/* The same, with sys and builtins still there: what was printed since is written as
 * its streams end with sys. */
static void on_last_module(void *capsule)
{
    const struct python *py = python_of(capsule);

    if (!py->ending.armed)
        return;
    flush(py);
    end(py);
}

/* Held by a list that python empties late, and that no program sees. */
static int arm(struct python *py)
{
    void *held = NULL;
    static const struct method method = { "nothing", do_nothing, NO_ARGS, NULL };
    void *capsule = capsule_of(py, on_release);
    void *holder =
        capsule ? py->api.PyCMethod_New((void *)(uintptr_t)&method, capsule, NULL, NULL)
                : NULL;

    if (!holder)
        return -1;
    held =
        py->api.PyObject_CallFunctionObjArgs(python_function(py, "hold"), holder, NULL);
    python_drop(py, held);
    python_drop(py, holder);
    python_drop(py, capsule);
    return held ? 0 : -1;
}

/* Python takes modules apart last come, first gone; this one will stand before all. */
static void *last_module(struct python *py)
{
    void *capsule = capsule_of(py, on_last_module);
    void *module = capsule ? py->api.PyModule_New("") : NULL;

    if (module && py->api.PyDict_SetItemString(py->api.PyModule_GetDict(module), "_",
                                               capsule) < 0)
        module = NULL;
    python_drop(py, capsule);
    return module;
}

void *python_arm(struct python *py)
{
    py->libraries = libraries();
    return arm(py) == 0 && on_exit(leave_now, py) == 0 ? last_module(py) : NULL;
}

/* Python can run a compiled file, a directory or an archive too; that is left to
 * it. */
static bool is_source(const struct python *py, FILE *file)
{
    int first = getc(file);
    int second = first == EOF ? EOF : getc(file);
    bool compiled = first == (py->magic & 0xff) && second == (py->magic >> 8 & 0xff);
    bool good = !ferror(file) && !compiled;

    /* As it was: one character can always be put back. */
    if (second == EOF || ungetc(second, file) == EOF || ungetc(first, file) == EOF)
        rewind(file);
    return good;
}

/* Words for people go where the program wants them; it may look who writes them. */
static void write_words(const struct python *py, void *words)
{
    void *stream = py->api.PySys_GetObject("stderr"); /* borrowed */

    if (stream && stream != py->api.none) {
        py->api.Py_IncRef(stream);
        (void)py->api.PyFile_WriteObject(words, stream, PRINT_RAW);
        python_drop(py, stream);
    } else {
        (void)py->api.PyObject_Print(words, stderr, PRINT_RAW);
    }
    py->api.PySys_WriteStderr("\n");
}

/* VALUE: an exception, or what one would be made of. What it means to the system. */
static int exit_code(const struct python *py, void *value)
{
    void *code = NULL;
    int result = 1;

    if (py->api.PyObject_IsInstance(value, *py->api.PyExc_SystemExit) == 1)
        code = py->api.PyObject_GetAttrString(value, "code");
    if (code)
        value = code;
    py->api.PyErr_Clear();
    if (value == py->api.none)
        result = 0;
    else if (py->api.PyObject_IsInstance(value, py->api.PyLong_Type) == 1)
        result = (int)py->api.PyLong_AsLong(value);
    else
        write_words(py, value);
    py->api.PyErr_Clear();
    python_drop(py, code);
    return result;
}

/* The program raised; what python would exit with. */
static int judge(struct python *py, bool *exited)
{
    void *type = NULL, *value = NULL, *trace = NULL;
    int result = 1;

    py->api.PyErr_Fetch(&type, &value, &trace);
    py->ending.interrupted = type == *py->api.PyExc_KeyboardInterrupt;
    *exited = py->api.PyErr_GivenExceptionMatches(type, *py->api.PyExc_SystemExit);
    if (!*exited) {
        py->api.PyErr_Restore(type, value, trace);
        py->api.PyErr_Print();
        return 1;
    }
    result = exit_code(py, value ? value : py->api.none);
    python_drop(py, type);
    python_drop(py, value);
    python_drop(py, trace);
    return result;
}

/* Called from here, so that no frame of ours stands in what they print. TELLS: it has
 * told what it raises, as exit functions before 3.10 do. */
static void call_of_module(const struct python *py, const char *module,
                           const char *name, bool tells)
{
    void *object =
        py->api.PyDict_GetItemString(py->api.PyImport_GetModuleDict(), module);
    void *called = object ? py->api.PyObject_GetAttrString(object, name) : NULL;
    void *result = called ? py->api.PyObject_CallFunctionObjArgs(called, NULL) : NULL;

    if (called && !result && !tells)
        py->api.PyErr_WriteUnraisable(object);
    py->api.PyErr_Clear(); /* of what is not there python speaks itself, if it does */
    python_drop(py, called);
    python_drop(py, result);
}

/* Python's own end then, with all that its collector would find: nothing is held. */
static void let_all_go(struct python *py)
{
    python_drop(py, py->api.PyObject_CallFunctionObjArgs(
                        python_function(py, "unfreeze"), NULL));
    py->api.PyErr_Clear();
    modules_release(&py->modules, &py->api);
    python_drop(py, py->globals);
    py->globals = NULL;
}

/* Threads and exit functions first, in python's order; then what is quick can be
 * made quick. */
static _Noreturn void finish(struct python *py)
{
    call_of_module(py, "threading", "_shutdown", false);
    call_of_module(py, "atexit", "_run_exitfuncs", true);
    py->ending.armed = flush_last(py, "stdout") == 0 && flush_last(py, "stderr") == 0;
    py->api.PyErr_Clear();
    if (py->ending.armed && py->shortcuts & SHORTCUT_MODULES &&
        !modules_hide(&py->modules, &py->api, py->shortcuts & SHORTCUT_BUILTINS))
        let_all_go(py);
    if (py->api.Py_FinalizeEx() < 0)
        py->ending.code = 120;
    end(py);
}

/* Removes the names that python removes from __main__ when its program has ended. */
static void retire(const struct python *py, void *main_dict)
{
    static const char *const names[] = { "__file__", "__cached__" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (py->api.PyDict_GetItemString(main_dict, names[i]))
            (void)py->api.PyDict_DelItemString(main_dict, names[i]);
}

/* For what is no such file: python tells it otherwise, if it was told nothing. */
static void disown(const struct python *py, void *main_dict)
{
    retire(py, main_dict);
    (void)py->api.PyDict_SetItemString(main_dict, "__loader__",
                                       python_function(py, "unintroduced"));
}

void python_run(struct python *py, const char *path, FILE *file)
{
    void *main_dict = NULL, *result = NULL;
    void *module = python_main(py);
    bool exited = false;

    main_dict = py->api.PyModule_GetDict(module);
    if (!file || !is_source(py, file)) {
        disown(py, main_dict);
        return;
    }
    py->api.Py_IncRef(module); /* the program may forget it */
    (void)py->api.Py_MakePendingCalls();
    result = py->api.PyRun_FileExFlags(file, path, FILE_INPUT, main_dict, main_dict, 1,
                                       NULL);
    flush(py);
    py->ending.code = result ? 0 : judge(py, &exited);
    python_drop(py, result);
    if (!exited || py->retires)
        retire(py, main_dict);
    python_drop(py, module);
    finish(py);
}
