/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/modules.h"

#include <stdint.h>
#include <stdlib.h>

#include "zygote/python_api.h"

struct module {
    void *name, *object, *dict;
    long size;
    void **values;
    uint64_t version; /* of the dict, or 0: they have none here */
};

struct list {
    long size;
    void *items[];
};

static const void *type_of(const void *object)
{
    return ((void *const *)object)[1]; /* ob_type */
}

static bool is_module(const struct api *api, const void *object)
{
    return type_of(object) == api->PyModule_Type;
}

/* Borrowed references all along: counting them would write to their pages. */
static bool note(struct module *m, const struct api *api, bool versions)
{
    void *key = NULL, *value = NULL;
    long at = 0, i = 0;

    m->dict = api->PyModule_GetDict(m->object);
    m->version = versions ? dict_version(m->dict) : 0;
    m->size = api->PyDict_Size(m->dict);
    m->values = calloc((size_t)m->size + 1, sizeof(void *));
    if (!m->values)
        return false;
    while (i < m->size && api->PyDict_Next(m->dict, &at, &key, &value))
        m->values[i++] = value;
    api->Py_IncRef(m->object);
    api->Py_IncRef(m->name);
    return true;
}

/* The three that python itself treats apart at its end. */
static bool is_special(const struct api *api, void *modules, const void *object)
{
    static const char *const names[] = { "sys", "builtins", "__main__" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (api->PyDict_GetItemString(modules, names[i]) == object)
            return true;
    return false;
}

static struct module *note_named(const struct api *api, const char *name)
{
    struct module *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->name = api->none;
    m->object = api->PyDict_GetItemString(api->PyImport_GetModuleDict(), name);
    return m->object && note(m, api, false) ? m : NULL;
}

static struct list *note_list(const struct api *api, const struct module *sys,
                              const char *name)
{
    void *list = api->PyDict_GetItemString(sys->dict, name);
    long size = list && type_of(list) == api->PyList_Type ? api->PyList_Size(list) : 0;
    struct list *l = calloc(1, sizeof *l + (size_t)size * sizeof(void *));

    if (!l)
        return NULL;
    l->size = size;
    for (long i = 0; i < size; i++)
        l->items[i] = api->PyList_GetItem(list, i);
    return l;
}

static bool is_same_list(const struct api *api, const struct module *sys,
                         const char *name, const struct list *l)
{
    void *list = api->PyDict_GetItemString(sys->dict, name);

    if (!l || !list || type_of(list) != api->PyList_Type ||
        api->PyList_Size(list) != l->size)
        return false;
    for (long i = 0; i < l->size; i++)
        if (api->PyList_GetItem(list, i) != l->items[i])
            return false;
    return true;
}

/* One of those kinds whose end is nothing to see. */
static bool is_known_type(const struct modules *m, const void *type)
{
    for (size_t i = 0; i < MODULES_FINDERS; i++)
        if (m->finder_types[i] == type)
            return true;
    return false;
}

/* The finders of modules know whole directories. Python lets go of them at its end, and
 * would free all that; we hold them. */
static void keep_finders(struct modules *m, const struct api *api)
{
    void *finders = api->PyDict_GetItemString(m->sys->dict, "path_importer_cache");
    void *key = NULL, *value = NULL;
    size_t count = 0;
    long at = 0;

    m->finders = note_list(api, m->sys, "meta_path");
    m->hooks = note_list(api, m->sys, "path_hooks");
    m->finder_types[count++] = type_of(api->none);
    while (finders && api->PyDict_Next(finders, &at, &key, &value)) {
        api->Py_IncRef(value);
        if (count < MODULES_FINDERS && !is_known_type(m, type_of(value)))
            m->finder_types[count++] = type_of(value);
    }
}

/* The program has put nothing of its own where modules are looked for. */
static bool are_finders_tame(const struct modules *m, const struct api *api)
{
    void *finders = api->PyDict_GetItemString(m->sys->dict, "path_importer_cache");
    void *key = NULL, *value = NULL;
    long at = 0;

    if (!is_same_list(api, m->sys, "meta_path", m->finders) ||
        !is_same_list(api, m->sys, "path_hooks", m->hooks) || !finders ||
        type_of(finders) != api->PyDict_Type)
        return false;
    while (api->PyDict_Next(finders, &at, &key, &value))
        if (!is_known_type(m, type_of(value)))
            return false;
    return true;
}

void modules_note(struct modules *m, const struct api *api, void *last, void *first)
{
    void *all = api->PyImport_GetModuleDict();
    void *key = NULL, *value = NULL;
    bool versions = dict_has_versions(api);
    long at = 0;

    *m = (struct modules){ .last = dict_can_swap(api) ? last : NULL };
    m->at = calloc((size_t)api->PyDict_Size(all), sizeof *m->at);
    while (m->at && api->PyDict_Next(all, &at, &key, &value)) {
        struct module *one = &m->at[m->count];

        if (!is_module(api, value) || is_special(api, all, value))
            continue;
        one->name = key;
        one->object = value;
        m->count += note(one, api, versions);
    }
    m->sys = note_named(api, "sys");
    m->builtins = note_named(api, "builtins");
    if (m->sys)
        keep_finders(m, api);
    if (m->builtins && first)
        builtins_note(&m->names, api, first);
}

void modules_begin(struct modules *m, const struct api *api)
{
    if (m->sys)
        m->input = api->PyDict_GetItemString(m->sys->dict, "__stdin__");
}

static bool is_unchanged(const struct module *m, const struct api *api)
{
    void *key = NULL, *value = NULL;
    long at = 0, i = 0;

    if (m->version && dict_version(m->dict) == m->version)
        return true; /* to look at each name of each module takes a tenth of a run */
    if (api->PyDict_Size(m->dict) != m->size)
        return false;
    while (i < m->size && api->PyDict_Next(m->dict, &at, &key, &value))
        if (m->values[i++] != value)
            return false;
    return true;
}

/* Such a value has no end that could be seen. */
static bool is_plain(const struct api *api, const void *value)
{
    const void *type = type_of(value);

    return value == api->none || type == api->PyUnicode_Type ||
           type == api->PyLong_Type || type == api->PyBool_Type;
}

/* Python itself gives these up first of all. */
static bool goes_early(const struct api *api, void *key)
{
    static const char *const names[] = {
        "path",           "argv",  "ps1",    "ps2",    "last_type", "last_value",
        "last_traceback", "stdin", "stdout", "stderr", "_",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (api->PyUnicode_CompareWithASCIIString(key, names[i]) == 0)
            return true;
    return false;
}

static bool is_known(const struct module *m, long place, const void *value)
{
    if (place < m->size && m->values[place] == value)
        return true;
    for (long i = 0; i < m->size; i++)
        if (m->values[i] == value)
            return true;
    return false;
}

/* All that hangs on it was there before the program. */
static bool is_tame(const struct modules *m, const struct module *one,
                    const struct api *api)
{
    void *key = NULL, *value = NULL;
    long at = 0;

    if (!one)
        return false;
    for (long i = 0; api->PyDict_Next(one->dict, &at, &key, &value); i++)
        if (value != m->input && !is_known(one, i, value) && !is_plain(api, value) &&
            !goes_early(api, key))
            return false;
    return true;
}

/* Python lets go of these lists early; what is in them would go one by one. */
static void keep_words(const struct modules *m, const struct api *api, const char *name)
{
    void *list = api->PyDict_GetItemString(m->sys->dict, name);
    long size = list && type_of(list) == api->PyList_Type ? api->PyList_Size(list) : 0;

    for (long i = 0; i < size; i++)
        if (!is_plain(api, api->PyList_GetItem(list, i)))
            return;
    if (size > 0)
        api->Py_IncRef(list);
}

/* Nor is any of what has just been seen to be tame. */
static void keep_early(const struct modules *m, const struct api *api)
{
    static const char *const names[] = { "path_hooks", "path_importer_cache",
                                         "meta_path" };

    keep_words(m, api, "path");
    keep_words(m, api, "argv");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        api->Py_IncRef(api->PyDict_GetItemString(m->sys->dict, names[i]));
}

/* Most stand where they stood; *NEXT is where that would be. */
static const struct module *find(const struct modules *m, void *key, const void *object,
                                 size_t *next)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct module *one = &m->at[(*next + i) % m->count];

        if (one->object != object || one->name != key)
            continue;
        *next = (*next + i + 1) % m->count;
        return one;
    }
    return NULL;
}

/* Removes from FROM the keys that TAKE has. */
static void take_out(const struct api *api, void *from, void *take)
{
    void *key = NULL, *value = NULL;
    long at = 0;

    while (api->PyDict_Next(take, &at, &key, &value))
        if (api->PyDict_GetItem(from, key))
            (void)api->PyDict_DelItem(from, key);
}

/* Into REST, an empty dict, goes what python will look at; LAST of that, if it is set.
 */
static bool pick_rest(const struct modules *m, const struct api *api, void *rest,
                      bool last)
{
    void *key = NULL, *value = NULL;
    bool good = !last || api->PyDict_SetItemString(rest, "", m->last) == 0;
    size_t next = 0;
    long at = 0;

    while (good && api->PyDict_Next(api->PyImport_GetModuleDict(), &at, &key, &value)) {
        const struct module *one = find(m, key, value, &next);

        if (one && is_unchanged(one, api))
            continue;
        good = (!one || m->loose) && api->PyDict_SetItem(rest, key, value) == 0;
    }
    return good;
}

/* Reads all and writes to next to nothing, since what is written to must be copied. */
bool modules_hide(struct modules *m, const struct api *api, bool builtins)
{
    void *all = api->PyImport_GetModuleDict();
    void *rest = m->last && m->count > 0 ? api->PyDict_New() : NULL;
    bool last = rest && is_tame(m, m->sys, api) && is_tame(m, m->builtins, api) &&
                are_finders_tame(m, api);

    if (!rest || !pick_rest(m, api, rest, last)) {
        api->PyErr_Clear();
        if (rest)
            api->Py_DecRef(rest);
        return false;
    }
    if (last)
        keep_early(m, api);
    if (builtins && m->builtins && is_unchanged(m->builtins, api))
        builtins_hide(&m->names, rest);
    dict_swap(all, rest);
    take_out(api, rest, all); /* REST, of all others now, is never given back */
    return true;
}

void modules_release(struct modules *m, const struct api *api)
{
    for (; m->count > 0; m->count--) {
        api->Py_DecRef(m->at[m->count - 1].object);
        api->Py_DecRef(m->at[m->count - 1].name);
    }
}
