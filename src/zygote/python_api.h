/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_PYTHON_API_H
#define VIAL_ZYGOTE_PYTHON_API_H

#include <stdbool.h>
#include <stdint.h>

/* Python's own functions, of its stable interface where there is a choice. CALL(name,
 * result, arguments) */
#define API_CALLS                                                                      \
    CALL(PyGILState_Ensure, int, (void))                                               \
    CALL(PyGILState_Release, void, (int))                                              \
    CALL(PyOS_BeforeFork, void, (void))                                                \
    CALL(PyOS_AfterFork_Parent, void, (void))                                          \
    CALL(PyOS_AfterFork_Child, void, (void))                                           \
    CALL(PyDict_New, void *, (void))                                                   \
    CALL(PyDict_Size, long, (void *))                                                  \
    CALL(PyDict_Next, int, (void *, long *, void **, void **))                         \
    CALL(PyDict_SetItemString, int, (void *, const char *, void *))                    \
    CALL(PyDict_GetItemString, void *, (void *, const char *))                         \
    CALL(PyDict_DelItemString, int, (void *, const char *))                            \
    CALL(PyDict_GetItem, void *, (void *, void *))                                     \
    CALL(PyDict_SetItem, int, (void *, void *, void *))                                \
    CALL(PyDict_DelItem, int, (void *, void *))                                        \
    CALL(PyEval_GetBuiltins, void *, (void))                                           \
    CALL(PyRun_StringFlags, void *, (const char *, int, void *, void *, void *))       \
    CALL(PyRun_FileExFlags, void *,                                                    \
         (void *, const char *, int, void *, void *, int, void *))                     \
    CALL(PyErr_Print, void, (void))                                                    \
    CALL(PyErr_Clear, void, (void))                                                    \
    CALL(PyErr_Fetch, void, (void **, void **, void **))                               \
    CALL(PyErr_WriteUnraisable, void, (void *))                                        \
    CALL(PyObject_GetAttrString, void *, (void *, const char *))                       \
    CALL(PyErr_Restore, void, (void *, void *, void *))                                \
    CALL(PyObject_IsInstance, int, (void *, void *))                                   \
    CALL(PyFile_WriteObject, int, (void *, void *, int))                               \
    CALL(PyObject_Print, int, (void *, void *, int))                                   \
    CALL(PySys_WriteStderr, void, (const char *, ...))                                 \
    CALL(PyErr_GivenExceptionMatches, int, (void *, void *))                           \
    CALL(PyBytes_FromString, void *, (const char *))                                   \
    CALL(PyBytes_AsString, char *, (void *))                                           \
    CALL(PyCapsule_New, void *, (void *, const char *, void (*)(void *)))              \
    CALL(PyCMethod_New, void *, (void *, void *, void *, void *))                      \
    CALL(PyImport_GetModuleDict, void *, (void))                                       \
    CALL(PyImport_GetMagicNumber, long, (void))                                        \
    CALL(PyModule_GetDict, void *, (void *))                                           \
    CALL(PyModule_New, void *, (const char *))                                         \
    CALL(PyUnicode_CompareWithASCIIString, int, (void *, const char *))                \
    CALL(PyList_New, void *, (long))                                                   \
    CALL(PyList_Size, long, (void *))                                                  \
    CALL(PyList_GetItem, void *, (void *, long))                                       \
    CALL(PyList_Append, int, (void *, void *))                                         \
    CALL(PyLong_AsLong, long, (void *))                                                \
    CALL(PyObject_GC_IsTracked, int, (void *))                                         \
    CALL(PyObject_GC_Track, void, (void *))                                            \
    CALL(PyObject_GC_UnTrack, void, (void *))                                          \
    CALL(PyObject_CallFunctionObjArgs, void *, (void *, ...))                          \
    CALL(PyObject_IsTrue, int, (void *))                                               \
    CALL(PySys_GetObject, void *, (const char *))                                      \
    CALL(Py_MakePendingCalls, int, (void))                                             \
    CALL(Py_FinalizeEx, int, (void))                                                   \
    CALL(Py_IncRef, void, (void *))                                                    \
    CALL(Py_DecRef, void, (void *))                                                    \
    CALL(PyExc_SystemExit, void *, )                                                   \
    CALL(PyExc_KeyboardInterrupt, void *, )

struct api {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define CALL(name, result, arguments) result(*name) arguments;
    API_CALLS
#undef CALL
    void *none; /* Py_None */
    void *PyModule_Type, *PyUnicode_Type, *PyLong_Type, *PyBool_Type, *PyList_Type,
        *PyDict_Type;
};

/* 0, or -1 when this is no python that we know. */
int api_find(struct api *out);

/*
 * The inside of python's dicts, as far as it must be known: two can change places
 * without a word to what they hold, so that none of it is written to.
 */

/* Tries it on two of its own. Before anything else. */
bool dict_can_swap(const struct api *api);
void dict_swap(void *one, void *other);
/* A number that grows with each change of the dict; up to 3.13. Whether it does is
 * tried, too. */
bool dict_has_versions(const struct api *api);
uint64_t dict_version(const void *dict);

#endif
