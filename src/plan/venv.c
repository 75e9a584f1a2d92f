/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A Python environment of the host's: a virtual one, or the prefix of any Python, such
 * as one of pyenv's. It is shown read-only where it lies on the host, since the first
 * lines of its scripts say so; and so is the Python that it was made from, unless that
 * is one of /usr's. Code is run by its own interpreter, named by its whole path, so
 * that none of the vessel's takes its place.
 *
 * An environment may be a stranger's, who says by a link which Python that is. So what
 * is no Python is refused, and of one, whose prefix may be a ~/.local, only the
 * interpreter and its library are shown.
 */

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "model/field_type.h"
#include "plan/draft.h"

#define ELSEWHERE "/opt/venv" /* where its own place is taken inside */
#define BIN       "/bin"

/* A Python of the host's that is not /usr's. */
struct python {
    const char *prefix; /* where it lies */
    const char *target; /* and where inside */
    const char *real;   /* its interpreter, PREFIX/bin/python3… */
    bool has_library;   /* was shown */
};

static bool runs_python(const struct draft *d)
{
    return d->language && str_starts(d->plan->argv.items[0], "python");
}

/* One that the settings have, or an active one, is for what can use it; one that a
 * request names must not be ignored. */
static int check_use(const struct draft *d, bool *use, struct vial_error *err)
{
    bool own = (d->req->own >> FIELD_ID_venv) & 1u;
    bool native = str_eq(d->driver->name, "native") && !d->plan->rootfs &&
                  !plan_has_root(d->plan);

    *use = native && (runs_python(d) || (own && !d->language));
    if (*use || !own)
        return 0;
    if (native) {
        (void)fail(err, VIAL_E_VALUE, "language '%s' has no virtual environments",
                   d->language->name);
        return fail_remedy(err, "leave out venv");
    }
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver '%s'%s shows no virtual environment",
               d->driver->name, d->plan->rootfs ? " with a rootfs" : "");
    return fail_remedy(err, "use an image that has the packages, or the driver native");
}

static int fail_python(const char *root, const char *name, struct vial_error *err)
{
    (void)fail(err, VIAL_E_INTERPRETER, "virtual environment '%s' has no '%s'", root,
               name);
    return fail_remedy(err, "make one (python3 -m venv %s), name another, or give none",
                       root);
}

/* Where the interpreter NAME of ROOT really lies. */
static char *find_python(const char *root, const char *name)
{
    auto_free char *bin = path_join(root, "bin");
    auto_free char *program = bin ? path_join(bin, name) : NULL;

    return program ? realpath(program, NULL) : NULL;
}

/* PREFIX of PREFIX/bin/python3…; NULL: that is not its name. */
static char *prefix_of(const char *program)
{
    const char *name = strrchr(program, '/');
    size_t len = name ? (size_t)(name - program) : 0;

    if (len <= strlen(BIN) || !str_starts(name - strlen(BIN), BIN "/python"))
        return NULL;
    return strndup(program, len - strlen(BIN));
}

static bool has(const char *dir, const char *name)
{
    auto_free char *path = path_join(dir, name);

    return path && access(path, F_OK) == 0;
}

/* Others who can write there could choose what is shown. */
static int check_owner(const char *dir, struct vial_error *err)
{
    struct stat st;

    if (stat(dir, &st) < 0)
        return fail_sys(err, "look at '%s'", dir);
    if ((st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & S_IWOTH))
        return 0;
    (void)fail(err, VIAL_E_MOUNT,
               "'%s' is somebody else's, or can be written by others", dir);
    return fail_remedy(err,
                       "use one of your own, which others cannot write (chmod o-w)");
}

static int fail_no_python(const char *real, struct vial_error *err)
{
    (void)fail(err, VIAL_E_INTERPRETER, "'%s' is not the interpreter of a Python",
               real);
    return fail_remedy(err, "make the environment anew (python3 -m venv), or name the "
                            "prefix of a Python: PREFIX/bin/python3 with its library "
                            "PREFIX/lib/python3.N");
}

/* The interpreter, by each name that it has there. */
static bool fits_bin(struct python *p, int dir_fd, const char *name)
{
    struct stat st;
    struct stat own;

    return str_starts(name, "python") && fstatat(dir_fd, name, &st, 0) == 0 &&
           stat(p->real, &own) == 0 && st.st_dev == own.st_dev &&
           st.st_ino == own.st_ino;
}

/* Its library, and itself where it is shared; a link could lead anywhere. */
static bool fits_lib(struct python *p, int dir_fd, const char *name)
{
    auto_free char *mark = path_join(name, "os.py");
    struct stat st;

    if (!mark || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (str_starts(name, "libpython"))
        return S_ISREG(st.st_mode);
    if (!str_starts(name, "python3.") || !S_ISDIR(st.st_mode) ||
        faccessat(dir_fd, mark, F_OK, 0) < 0)
        return false;
    p->has_library = true;
    return true;
}

/* Conda's needs more of lib/. */
static bool fits_conda(struct python *p, int dir_fd, const char *name)
{
    struct stat st;

    if (!str_eq(name, "lib") || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISDIR(st.st_mode))
        return false;
    p->has_library = true;
    return true;
}

static int show_below(struct draft *d, const struct python *p, const char *name,
                      struct vial_error *err)
{
    auto_free char *source = path_join(p->prefix, name);
    auto_free char *target = path_join(p->target, name);

    return source && target ? mount_show(d, source, target, false, err)
                            : fail_memory(err);
}

/* Shows what FITS of SUB. */
static int show_some(struct draft *d, struct python *p, const char *sub,
                     bool (*fits)(struct python *, int, const char *),
                     struct vial_error *err)
{
    auto_free char *path = path_join(p->prefix, sub);
    DIR *dir = path ? opendir(path) : NULL;
    const struct dirent *entry = NULL;
    int rc = 0;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    while (dir && rc == 0 && (entry = readdir(dir)))
        if (fits(p, dirfd(dir), entry->d_name)) {
            auto_free char *name = path_join(sub, entry->d_name);

            rc = name ? show_below(d, p, name, err) : fail_memory(err);
        }
    if (dir)
        (void)closedir(dir);
    return rc;
}

/* What P needs; with its other programs, where it is NAMED itself. */
static int show_python(struct draft *d, struct python *p, bool named,
                       struct vial_error *err)
{
    int rc = check_owner(p->prefix, err);

    if (rc == 0)
        rc = named ? show_below(d, p, "bin", err)
                   : show_some(d, p, "bin", fits_bin, err);
    if (rc == 0)
        rc = has(p->prefix, "conda-meta") ? show_some(d, p, "", fits_conda, err)
                                          : show_some(d, p, "lib", fits_lib, err);
    return rc == 0 && !p->has_library ? fail_no_python(p->real, err) : rc;
}

/* Shows the Python that the environment ROOT was made from, if the vessel does not have
 * it already. */
static int show_base(struct draft *d, const char *root, const char *real,
                     struct vial_error *err)
{
    auto_free char *prefix = prefix_of(real);
    struct python p = { .prefix = prefix, .target = prefix, .real = real };

    if (path_is_beneath(real, root) || path_is_beneath(real, "/usr"))
        return 0;
    if ((prefix ? show_python(d, &p, false, err) : fail_no_python(real, err)) < 0)
        return fail_in(err, "the Python of virtual environment '%s'", root);
    return 0;
}

/* ROOT is no environment, but may be the prefix of REAL. */
static int show_named(struct draft *d, const char *root, const char *real,
                      const char *target, struct vial_error *err)
{
    auto_free char *prefix = prefix_of(real);
    struct python p = { .prefix = root, .target = target, .real = real };

    if (!prefix || !str_eq(prefix, root))
        return fail_no_python(real, err);
    return show_python(d, &p, true, err);
}

/* *TARGET is where it is inside. */
static int show(struct draft *d, const char *root, const char *real,
                const char **target, struct vial_error *err)
{
    struct vial_error taken = { 0 };
    bool whole = has(root, "pyvenv.cfg") || has(root, "conda-meta");

    *target = root;
    if (!whole && path_is_beneath(root, "/usr")) /* it is there */
        return 0;
    if (mount_check_target(d->plan, root, &taken) < 0)
        *target = ELSEWHERE;
    if (!whole)
        return show_named(d, root, real, *target, err);
    if (show_base(d, root, real, err) < 0)
        return -1;
    if (check_owner(root, err) < 0 || mount_show(d, root, *target, true, err) < 0)
        return fail_in(err, "virtual environment");
    return 0;
}

static int put(struct plan *plan, const char *name, const char *value,
               struct vial_error *err)
{
    return field_put_env(&plan->env, name, strlen(name), value) < 0 ? fail_memory(err)
                                                                    : 0;
}

/* The program and its environment, for what lies at TARGET. */
static int use(struct draft *d, const char *target, const char *name,
               struct vial_error *err)
{
    auto_str struct str path = { 0 };
    auto_str struct str program = { 0 };

    str_printf(&path, "%s/bin:" PATH_SEARCH, target);
    str_printf(&program, "%s/bin/%s", target, name);
    if (!str_ok(&path) || !str_ok(&program))
        return fail_memory(err);
    if (runs_python(d)) {
        free(d->plan->argv.items[0]);
        d->plan->argv.items[0] = ptr_take(&program.data);
    }
    if (put(d->plan, "VIRTUAL_ENV", target, err) < 0)
        return -1;
    for (size_t i = 0; i < d->req->env.count; i++)
        if (str_starts(d->req->env.items[i], "PATH="))
            return 0; /* the caller has other plans */
    return put(d->plan, "PATH", path.data, err);
}

int venv_build(struct draft *d, struct vial_error *err)
{
    const char *name = runs_python(d) ? d->plan->argv.items[0] : "python3";
    const char *target = NULL;
    auto_free char *root = NULL;
    auto_free char *real = NULL;
    auto_free char *own_name = NULL;
    bool used = false;

    if (!d->req->venv || str_eq(d->req->venv, "none"))
        return 0;
    if (check_use(d, &used, err) < 0)
        return -1;
    if (!used)
        return 0;
    root = realpath(d->req->venv, NULL);
    if (!root)
        return fail_sys(err, "virtual environment '%s'", d->req->venv);
    own_name = strdup(name); /* the list's own is replaced */
    real = find_python(root, name);
    if (!real || !own_name)
        return fail_python(root, name, err);
    if (show(d, root, real, &target, err) < 0)
        return -1;
    return use(d, target, own_name, err);
}
