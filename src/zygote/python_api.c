/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/python_api.h"

#include <dlfcn.h>
#include <stdint.h>

static int find(const char *name, void *out)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    *(void **)out = found;
    return found ? 0 : -1;
}

int api_find(struct api *out) /* NOLINT(readability-function-size): a table */
{
    int rc = 0;

#define CALL(name, result, arguments) rc |= find(#name, (void *)&out->name);
    API_CALLS
#undef CALL
    rc |= find("_Py_NoneStruct", (void *)&out->none);
    rc |= find("PyModule_Type", (void *)&out->PyModule_Type);
    rc |= find("PyUnicode_Type", (void *)&out->PyUnicode_Type);
    rc |= find("PyLong_Type", (void *)&out->PyLong_Type);
    rc |= find("PyBool_Type", (void *)&out->PyBool_Type);
    rc |= find("PyList_Type", (void *)&out->PyList_Type);
    rc |= find("PyDict_Type", (void *)&out->PyDict_Type);
    return rc;
}

/* struct PyDictObject, whose first members are the same from 3.6 on; `dict_can_swap`
 * makes sure of it. */
struct dict {
    void *refs, *type;
    long used;
    uint64_t version;
    void *keys, *values;
};

void dict_swap(void *one, void *other)
{
    struct dict *a = one, *b = other;
    const struct dict was = *a;

    a->used = b->used;
    a->version = b->version;
    a->keys = b->keys;
    a->values = b->values;
    b->used = was.used;
    b->version = was.version;
    b->keys = was.keys;
    b->values = was.values;
}

bool dict_can_swap(const struct api *api)
{
    void *a = api->PyDict_New();
    void *b = api->PyDict_New();
    bool good = false;

    if (!a || !b || api->PyDict_SetItemString(a, "x", api->none) < 0 ||
        ((struct dict *)a)->used != 1 || ((struct dict *)b)->used != 0)
        return false;
    dict_swap(a, b);
    good = api->PyDict_Size(a) == 0 && !api->PyDict_GetItemString(a, "x") &&
           api->PyDict_GetItemString(b, "x") == api->none &&
           api->PyDict_SetItemString(a, "y", api->none) == 0 &&
           api->PyDict_Size(a) == 1 && api->PyDict_Size(b) == 1;
    api->Py_DecRef(a);
    api->Py_DecRef(b);
    return good;
}

uint64_t dict_version(const void *dict)
{
    return ((const struct dict *)dict)->version;
}

bool dict_has_versions(const struct api *api)
{
    void *d = api->PyDict_New();
    uint64_t seen[3] = { 0 };

    if (!d)
        return false;
    if (api->PyDict_SetItemString(d, "x", api->none) == 0)
        seen[0] = dict_version(d);
    if (api->PyDict_SetItemString(d, "x", api->PyDict_Type) == 0)
        seen[1] = dict_version(d);
    if (api->PyDict_DelItemString(d, "x") == 0)
        seen[2] = dict_version(d);
    api->Py_DecRef(d);
    return seen[0] && seen[1] > seen[0] && seen[2] > seen[1];
}
