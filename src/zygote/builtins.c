/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/builtins.h"

#include <stddef.h>

#include "zygote/python_api.h"

#define NAME " "

/* Made by `hold`, which has seen that it is there. */
static struct builtins *builtins_of(void *capsule)
{
    return ((void *const *)capsule)[2]; /* after ob_refcnt and ob_type */
}

/* Python has copied, cleared and filled what it was shown. Had it filled it with
 * anything, this would be another python than we know, and be left so. */
static void on_restored(void *capsule)
{
    struct builtins *b = builtins_of(capsule);

    if (b->api->PyDict_Size(b->now) != 0)
        return;
    dict_swap(b->now, b->none);
}

static bool is_held(const struct builtins *b, const void *value)
{
    for (size_t i = 0; i < BUILTINS_OTHERS; i++)
        if (b->others[i] == value)
            return true;
    return value == b->api->none;
}

/* Of python's modules none is left, and no value whose end could be seen. */
static bool is_bare(const struct builtins *b)
{
    void *key = NULL, *value = NULL;
    long at = 0;

    while (b->api->PyDict_Next(b->api->PyImport_GetModuleDict(), &at, &key, &value))
        if (!is_held(b, value) || ((void **)key)[1] != b->api->PyUnicode_Type)
            return false;
    return true;
}

/* Such as typing.io, which is a class. */
static void hold_others(struct builtins *b)
{
    void *key = NULL, *value = NULL;
    size_t count = 0;
    long at = 0;

    while (b->api->PyDict_Next(b->api->PyImport_GetModuleDict(), &at, &key, &value)) {
        if (((void **)value)[1] == b->api->PyModule_Type || count == BUILTINS_OTHERS)
            continue;
        b->api->Py_IncRef(value);
        b->others[count++] = value;
    }
}

static void on_last(void *capsule)
{
    const struct builtins *b = builtins_of(capsule);

    if (!is_bare(b))
        return;
    dict_swap(b->now, b->stand_in);
    dict_swap(b->first, b->none);
}

/* DICT alone holds it then. */
static int hold(struct builtins *b, void *dict, void (*on_end)(void *))
{
    void *capsule = b->api->PyCapsule_New(b, NULL, on_end);
    int rc = -1;

    if (capsule && builtins_of(capsule) == b)
        rc = b->api->PyDict_SetItemString(dict, NAME, capsule);
    if (capsule)
        b->api->Py_DecRef(capsule);
    return rc;
}

void builtins_note(struct builtins *b, const struct api *api, void *first)
{
    void *module = api->PyDict_GetItemString(api->PyImport_GetModuleDict(), "builtins");
    void *sign = NULL;

    *b = (struct builtins){ .api = api, .first = first };
    if (!module || ((void **)first)[1] != api->PyDict_Type || !dict_can_swap(api))
        return;
    b->now = api->PyModule_GetDict(module);
    b->stand_in = api->PyDict_New();
    b->none = api->PyDict_New();
    sign = api->PyModule_New("");
    if (sign && b->stand_in && b->none && hold(b, b->stand_in, on_restored) == 0 &&
        hold(b, api->PyModule_GetDict(sign), on_last) == 0) {
        api->Py_IncRef(first);
        b->sign = sign;
        hold_others(b);
    }
    api->PyErr_Clear();
}

void builtins_hide(struct builtins *b, void *modules)
{
    if (!b->sign || b->api->PyDict_SetItemString(modules, NAME, b->sign) < 0)
        return;
    b->api->Py_DecRef(b->sign);
    b->sign = NULL;
}
