/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/python.h"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "wire/farewell.h"
#include "zygote/holes.h"
#include "zygote/modules.h"
#include "zygote/tricks.h"

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

static void drop(const struct python *py, void *object)
{
    if (object)
        py->api.Py_DecRef(object);
}

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

/* In a child that has a program: as if it had never waited. In the zygote: says why. */
static _Noreturn void give_up(const struct python *py)
{
    if (py->message)
        python_start_over(py->message);
    py->api.PyErr_Print();
    _exit(1);
}

static void *function(const struct python *py, const char *name)
{
    return py->api.PyDict_GetItemString(py->globals, name); /* borrowed */
}

/* Calls a function of the harness that must not fail. */
static void *ask(const struct python *py, const char *name, void *a, void *b, void *c)
{
    void *result =
        py->api.PyObject_CallFunctionObjArgs(function(py, name), a, b, c, NULL, NULL);

    if (!result)
        give_up(py);
    return result;
}

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
static void say_farewell(const struct python *py, int status)
{
    char name[FAREWELL_SIZE];

    if (!py->farewell || gettid() != py->farewell)
        return;
    farewell_write(name, status);
    if (prctl(PR_SET_NAME, name) == 0)
        (void)tgkill(py->farewell, py->farewell, SIGSTOP);
}

/* Exit functions are called last come, first served: when this one is, those that the
 * program's libraries have asked for are done. The rest belong to what was there
 * before, and do nothing but give memory back. */
static void leave_now(int status, void *context)
{
    const struct python *py = context;

    if (libraries() != py->libraries)
        return;
    (void)fflush(NULL);
    if (py->ending.call)
        py->ending.call(py->ending.context);
    say_farewell(py, status);
    _exit(status);
}

static int flush_stream(const struct python *py, void *stream)
{
    void *call = py->api.PyObject_GetAttrString(stream, "flush");
    void *done = call ? py->api.PyObject_CallFunctionObjArgs(call, NULL) : NULL;

    drop(py, call);
    drop(py, done);
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
        drop(py, stream);
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
    drop(py, closed);
    drop(py, stream);
    return rc < 0 ? -1 : 0;
}

/* Python lets go of this when its modules are gone and no program can run any more;
 * what it would do from there on is give its own memory back. */
static void on_release(void *capsule)
{
    const struct python *py = python_of(capsule);

    if (py->ending.armed)
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
static void arm(struct python *py)
{
    static const struct method method = { "nothing", do_nothing, NO_ARGS, NULL };
    void *capsule = capsule_of(py, on_release);
    void *holder =
        capsule ? py->api.PyCMethod_New((void *)(uintptr_t)&method, capsule, NULL, NULL)
                : NULL;

    if (!holder)
        give_up(py);
    drop(py, ask(py, "hold", holder, NULL, NULL));
    drop(py, holder);
    drop(py, capsule);
}

/* Python takes modules apart last come, first gone; this one will stand before all. */
static void *last_module(struct python *py)
{
    void *capsule = capsule_of(py, on_last_module);
    void *module = capsule ? py->api.PyModule_New("") : NULL;

    if (!module || py->api.PyDict_SetItemString(py->api.PyModule_GetDict(module), "_",
                                                capsule) < 0)
        give_up(py);
    drop(py, capsule);
    return module;
}

static void import_all(struct python *py, const char *names)
{
    void *text = py->api.PyBytes_FromString(names);
    void *missing = ask(py, "prepare", text, NULL, NULL);

    (void)snprintf(py->missing, sizeof py->missing, "%s",
                   py->api.PyBytes_AsString(missing));
    drop(py, text);
    drop(py, missing);
}

static void *main_module(const struct python *py)
{
    return py->api.PyDict_GetItemString(py->api.PyImport_GetModuleDict(), "__main__");
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

/* What each child does is done here once, so that what it needs is found and loaded:
 * python looks for functions of libraries as it first calls them. */
static void practise(const struct python *py)
{
    static const char program[] = "x = [str(i) for i in range(9)]\n";
    FILE *file = fmemopen((void *)(uintptr_t)program, strlen(program), "rb");
    void *names = py->api.PyDict_New();
    void *key = py->api.PyThread_tss_alloc();

    if (!file || !names || !key)
        give_up(py);
    drop(py, py->api.PyRun_FileExFlags(file, "<practice>", FILE_INPUT, names, names, 1,
                                       NULL));
    py->api.PyErr_Clear();
    drop(py, names);
    if (py->api.PyThread_tss_create(key) == 0)
        py->api.PyThread_tss_delete(key);
    py->api.PyThread_tss_free(key);
}

int python_open(struct python *py, const char *settings)
{
    const char *names = settings + strlen(settings) + 1;
    const char *tricks = names + strlen(names) + 1;
    void *done = NULL;

    if (api_find(&py->api) < 0)
        return -1;
    py->tricks = (unsigned)strtoul(tricks, NULL, 10);
    py->held = py->api.PyGILState_Ensure();
    py->globals = py->api.PyDict_New();
    if (!py->globals || py->api.PyDict_SetItemString(py->globals, "__builtins__",
                                                     py->api.PyEval_GetBuiltins()) < 0)
        give_up(py);
    done =
        py->api.PyRun_StringFlags(settings, FILE_INPUT, py->globals, py->globals, NULL);
    if (!done)
        give_up(py);
    drop(py, done);
    arm(py);
    practise(py);
    import_all(py, names);
    (void)malloc_trim(0); /* or each child would sort what is free by itself */
    if (py->tricks & TRICK_HOLES)
        holes_fill();
    modules_note(&py->modules, &py->api, last_module(py), function(py, "kept"));
    py->libraries = libraries();
    py->draws = function(py, "hatched") != NULL; /* or nothing here does */
    py->ahead = function(py, "is_shadowed") != NULL;
    py->magic = py->api.PyImport_GetMagicNumber();
    if (on_exit(leave_now, py) != 0)
        give_up(py);
    drop(py,
         ask(py, "introduce", py->api.PyModule_GetDict(main_module(py)), NULL, NULL));
    thaw(py, main_module(py));
    thaw(py, py->api.PyModule_GetDict(main_module(py)));
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

void python_hatched(struct python *py)
{
    py->api.PyOS_AfterFork_Child();
    if (py->draws)
        drop(py, ask(py, "hatched", NULL, NULL, NULL));
}

static void *list_of(const struct python *py, char *const *texts)
{
    void *list = py->api.PyList_New(0);

    for (; list && *texts; texts++) {
        void *item = py->api.PyBytes_FromString(*texts);

        if (!item || py->api.PyList_Append(list, item) < 0)
            give_up(py);
        drop(py, item);
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

    drop(py, ask(py, name, list, NULL, NULL));
    drop(py, list);
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
        drop(py, ask(py, "clear_environ", NULL, NULL, NULL));
    }
    if (!env[present])
        return;
    add_environment(env + present);
    ask_with(py, "add_environ", env + present);
}

/* What is as the zygote has it already costs nothing. */
void python_begin(struct python *py, const struct exec_message *m)
{
    py->message = m;
    py->farewell = m->farewell && py->tricks & TRICK_FAREWELL ? getpid() : 0;
    set_environment(py, m->env);
    if (m->argv[0] && m->argv[1] && m->argv[2])
        ask_with(py, "set_argv", m->argv);
    if (!m->stdin_closed)
        drop(py, ask(py, "reopen_stdin", NULL, NULL, NULL));
    modules_begin(&py->modules, &py->api);
}

bool python_is_shadowed(struct python *py)
{
    void *answer = py->ahead ? ask(py, "is_shadowed", NULL, NULL, NULL) : NULL;
    bool shadowed = answer && py->api.PyObject_IsTrue(answer) == 1;

    drop(py, answer);
    return shadowed;
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
        drop(py, stream);
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
    drop(py, code);
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
    drop(py, type);
    drop(py, value);
    drop(py, trace);
    return result;
}

/* Called from here, so that no frame of ours stands in what they print. */
static void call_of_module(const struct python *py, const char *module,
                           const char *name)
{
    void *object =
        py->api.PyDict_GetItemString(py->api.PyImport_GetModuleDict(), module);
    void *called = object ? py->api.PyObject_GetAttrString(object, name) : NULL;
    void *result = called ? py->api.PyObject_CallFunctionObjArgs(called, NULL) : NULL;

    if (called && !result)
        py->api.PyErr_WriteUnraisable(object);
    py->api.PyErr_Clear(); /* of what is not there python speaks itself, if it does */
    drop(py, called);
    drop(py, result);
}

/* Threads and exit functions first, in python's order; then what is quick can be
 * made quick. */
static _Noreturn void finish(struct python *py)
{
    call_of_module(py, "threading", "_shutdown");
    call_of_module(py, "atexit", "_run_exitfuncs");
    py->ending.armed = flush_last(py, "stdout") == 0 && flush_last(py, "stderr") == 0;
    py->api.PyErr_Clear();
    if (py->ending.armed && py->tricks & TRICK_MODULES)
        modules_hide(&py->modules, &py->api, py->tricks & TRICK_BUILTINS);
    if (py->api.Py_FinalizeEx() < 0)
        py->ending.code = 120;
    end(py);
}

/* What python takes back of what it told __main__. */
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
                                       function(py, "unintroduced"));
}

void python_run(struct python *py, const char *path, FILE *file)
{
    void *main_dict = NULL, *result = NULL;
    void *module = main_module(py);
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
    drop(py, result);
    if (!exited) /* python leaves at once otherwise */
        retire(py, main_dict);
    drop(py, module);
    finish(py);
}

void python_close(struct python *py)
{
    drop(py, py->globals);
    py->api.PyGILState_Release(py->held);
}
