/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/python_api.h"

#include <dlfcn.h>

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
