/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/user_packages.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/path.h"
#include "settings/sources.h"

#define MOST    4 /* versions of Python */
#define VERSION USER_PACKAGES_VERSION

static bool is_version(const char *name)
{
    size_t len = strlen(VERSION);
    size_t digits =
        strncmp(name, VERSION, len) == 0 ? strspn(name + len, "0123456789") : 0;

    return digits > 0 && digits < 4 && name[len + digits] == '\0';
}

/* A directory of the caller's or root's that does not lead out of ROOT. */
static void add_one(const char *root, const char *version, struct strv *out)
{
    auto_str struct str path = { 0 };
    auto_free char *real = NULL;
    struct stat st;

    str_printf(&path, "%s/lib/%s/site-packages", root, version);
    real = str_ok(&path) ? realpath(path.data, NULL) : NULL;
    if (!real || !path_is_beneath(real, root) || stat(real, &st) < 0 ||
        !S_ISDIR(st.st_mode) || (st.st_mode & S_IWOTH) ||
        (st.st_uid != geteuid() && st.st_uid != 0))
        return;
    if (str_eq(real, path.data)) /* its name says which version it is for */
        strv_push(out, real);
}

/* Adds the packages below PREFIX. */
static void add_prefix(const char *prefix, struct strv *out)
{
    auto_free char *root = prefix[0] == '/' ? realpath(prefix, NULL) : NULL;
    auto_free char *lib = root ? path_join(root, "lib") : NULL;
    const struct dirent *entry = NULL;
    DIR *dir = lib ? opendir(lib) : NULL;

    if (!dir)
        return;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    while ((entry = readdir(dir)) && out->count < MOST)
        if (is_version(entry->d_name))
            add_one(root, entry->d_name, out);
    (void)closedir(dir);
}

bool packages_is_environment(const char *prefix)
{
    auto_free char *mark = path_join(prefix, "pyvenv.cfg");

    return prefix[0] == '/' && mark && access(mark, F_OK) == 0;
}

/* DIR of DIR/bin, if that has a python3; NULL: it has none. */
static char *prefix_of(const char *bin)
{
    auto_free char *program = path_join(bin, "python3");
    const char *slash = strrchr(bin, '/');

    if (!program || bin[0] != '/' || !slash || access(program, X_OK) < 0)
        return NULL;
    return strndup(bin, (size_t)(slash - bin));
}

/* That of the first python3 on PATH. */
static char *first_prefix(const char *path)
{
    char *prefix = NULL;

    while (path && *path && !prefix) {
        size_t len = strcspn(path, ":");
        auto_free char *dir = strndup(path, len);

        prefix = dir ? prefix_of(dir) : NULL;
        path += len + (path[len] == ':');
    }
    return prefix;
}

/* The version that pyenv's own python3 would start: the first that it was told. */
static void add_pyenv(const char *root, const char *told, struct strv *out)
{
    auto_free char *file = path_join(root, "version");
    struct vial_error ignored = { 0 };
    auto_str struct str prefix = { 0 };
    struct blob text = { 0 };

    if (!told && file && io_read_file(file, 4096, &text, &ignored) == 0)
        told = text.data;
    if (told && told[0] && told[0] != '.' && !strchr(told, '/')) {
        str_printf(&prefix, "%s/versions/%.*s", root, (int)strcspn(told, ":\n \t"),
                   told);
        if (str_ok(&prefix))
            add_prefix(prefix.data, out);
    }
    blob_done(&text);
}

void packages_find(char *const *environ_, struct strv *out)
{
    const char *active = source_variable(environ_, "VIRTUAL_ENV");
    const char *home = source_variable(environ_, "HOME");
    const char *pyenv = source_variable(environ_, "PYENV_ROOT");
    auto_free char *first = first_prefix(source_variable(environ_, "PATH"));
    auto_free char *local = home ? path_join(home, ".local") : NULL;
    auto_free char *usual = home ? path_join(home, ".pyenv") : NULL;

    pyenv = pyenv ? pyenv : usual;
    if (active && packages_is_environment(active)) {
        add_prefix(active, out);
        return;
    }
    if (first && packages_is_environment(first)) {
        add_prefix(first, out);
        return;
    }
    if (first && pyenv && path_is_beneath(first, pyenv))
        add_pyenv(pyenv, source_variable(environ_, "PYENV_VERSION"), out);
    if (local)
        add_prefix(local, out);
}
