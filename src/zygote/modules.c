/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/modules.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct module {
    void *name, *object, *dict;
    long size;
    void **values;
};

/* The three that python itself treats apart at its end. */
static bool is_special(const struct api *api, void *modules, const void *object)
{
    static const char *const names[] = { "sys", "builtins", "__main__" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (api->PyDict_GetItemString(modules, names[i]) == object)
            return true;
    return false;
}

static bool is_module(const struct api *api, const void *object)
{
    return ((void *const *)object)[1] == api->module_type; /* ob_type */
}

/* Borrowed references all along: counting them would write to their pages. */
static bool note(struct module *m, const struct api *api)
{
    void *key = NULL, *value = NULL;
    long at = 0, i = 0;

    m->dict = api->PyModule_GetDict(m->object);
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

void modules_note(struct modules *m, const struct api *api)
{
    void *all = api->PyImport_GetModuleDict();
    void *key = NULL, *value = NULL;
    long at = 0;

    *m = (struct modules){ 0 };
    m->at = calloc((size_t)api->PyDict_Size(all), sizeof *m->at);
    while (m->at && api->PyDict_Next(all, &at, &key, &value)) {
        struct module *one = &m->at[m->count];

        if (!is_module(api, value) || is_special(api, all, value))
            continue;
        one->name = key;
        one->object = value;
        m->count += note(one, api);
    }
}

static bool is_unchanged(const struct module *m, const struct api *api)
{
    void *key = NULL, *value = NULL;
    long at = 0, i = 0;

    if (api->PyDict_Size(m->dict) != m->size)
        return false;
    while (i < m->size && api->PyDict_Next(m->dict, &at, &key, &value))
        if (m->values[i++] != value)
            return false;
    return true;
}

void modules_hide(const struct modules *m, const struct api *api)
{
    void *all = api->PyImport_GetModuleDict();

    for (size_t i = 0; i < m->count; i++) {
        const struct module *one = &m->at[i];

        if (api->PyDict_GetItem(all, one->name) == one->object &&
            is_unchanged(one, api))
            (void)api->PyDict_DelItem(all, one->name);
    }
}
