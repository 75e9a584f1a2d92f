/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/dict.h"

#include <stdint.h>

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
