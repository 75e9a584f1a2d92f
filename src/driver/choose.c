/* SPDX-License-Identifier: Apache-2.0 */

/* The table of drivers, and the ladder: nothing is ever silently weaker than
 * what was asked for. */

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text.h"
#include "driver/driver.h"
#include "model/result.h"

const struct driver *const drivers[] = {
#define DRIVER(name, ...)      &driver_##name,
#define TEST_DRIVER(name, ...) &driver_##name,
#include "model/drivers.def"
    NULL
};

/* Used only when named. A keeper's driver has the name of the keeper's own. */
static bool is_optional(const struct driver *d)
{
#define DRIVER(driver, automatic)                                                      \
    if (str_eq(d->name, #driver))                                                      \
        return !(automatic);
#include "model/drivers.def"
    return true;
}

static bool is_for_tests(const struct driver *d)
{
#define TEST_DRIVER(name)                                                              \
    if (d == &driver_##name)                                                           \
        return true;
#include "model/drivers.def"
    return false;
}

/* A driver that pretends must not be found by accident. */
static bool is_hidden(const struct driver *d)
{
    const char *test = getenv("VIAL_TEST_FAKE"); /* NOLINT(concurrency-mt-unsafe) */

    return is_for_tests(d) && !str_eq(test, "1");
}

const struct driver *driver_find(const struct driver *const *table, const char *name)
{
    for (size_t i = 0; table[i]; i++)
        if (str_eq(table[i]->name, name) && !is_hidden(table[i]))
            return table[i];
    return NULL;
}

/* -1 when TEXT is no level. */
static int level_rank(const char *text)
{
    static const struct {
        const char *name;
        int rank;
    } levels[] = {
        { "none", 0 }, { "landlock", 1 }, { "namespaces", 2 }, { "container", 2 }
    };

    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (str_eq(text, levels[i].name))
            return levels[i].rank;
    return -1;
}

static int fail_missing(struct vial_error *err, enum fail_code code, const char *wanted,
                        const char *what, const char *given)
{
    (void)fail(err, code, "require '%s': the vessel would have %s '%s'", wanted, what,
               given);
    return fail_remedy(err, "run 'vial doctor' to see what this host lacks and how to "
                            "bring it, or require less");
}

/* All that can be asked for by name, but levels. */
static const char *const layer_names[] = { "user",
                                           "pid",
                                           "mount",
                                           "net",
                                           "ipc",
                                           "uts",
                                           "cgroup",
                                           "seccomp",
                                           "landlock",
                                           "overlay",
                                           "ro_root",
                                           "caps",
                                           "no_new_privs",
                                           "limits",
                                           "none",
                                           "namespaces",
                                           "container",
                                           "limits=cgroup",
                                           "limits=cgroup1",
                                           "limits=cgroup2",
                                           "limits=rlimit",
                                           NULL };

static int refuse_word(const char *wanted, struct vial_error *err)
{
    const char *near = text_suggest(wanted, layer_names);

    (void)fail(err, VIAL_E_VALUE, "require '%s' is neither a level nor a layer",
               wanted);
    return near ? fail_remedy(err, "did you mean '%s'?", near)
                : fail_remedy(err, "'vial doctor' lists the layers; the levels are "
                                   "landlock, namespaces and container");
}

static bool is_known(const char *wanted)
{
    for (size_t i = 0; layer_names[i]; i++)
        if (str_eq(layer_names[i], wanted))
            return true;
    return false;
}

/* "landlock" is a level and a layer: the layer is meant, since a stronger level may be
 * there without it. */
static int check_one(const char *wanted, const char *level, const struct strv *layers,
                     const char *limits_by, struct vial_error *err)
{
    int rank = level_rank(wanted);

    if (str_starts(wanted, "limits=")) {
        if (str_starts(limits_by, wanted + strlen("limits=")))
            return 0;
        return fail_missing(err, VIAL_E_LIMITS, wanted, "limits by", limits_by);
    }
    if (strv_has(layers, wanted) ||
        (rank >= 0 && !str_eq(wanted, "landlock") && level_rank(level) >= rank))
        return 0;
    if (rank >= 0 && !str_eq(wanted, "landlock"))
        return fail_missing(err, VIAL_E_ISOLATION, wanted, "level", level);
    if (!is_known(wanted))
        return refuse_word(wanted, err);
    (void)fail(err, VIAL_E_ISOLATION, "require '%s': the vessel would lack this layer",
               wanted);
    return fail_remedy(err, "run 'vial doctor' to see the layers of this host and how "
                            "to bring what is missing");
}

int driver_check_required(const struct strv *require, const char *level,
                          const struct strv *layers, const char *limits_by,
                          struct vial_error *err)
{
    for (size_t i = 0; i < require->count; i++)
        if (check_one(require->items[i], level, layers, limits_by, err) < 0)
            return -1;
    return 0;
}

static int check_caps(const struct strv *require, const struct caps *caps,
                      struct vial_error *err)
{
    auto_strv struct strv layers = { 0 };

    for (size_t i = 0; i < caps->layer_count; i++)
        if (caps->layers[i].available)
            strv_push(&layers, caps->layers[i].name);
    if (!strv_ok(&layers))
        return fail_memory(err);
    return driver_check_required(require, caps->level, &layers, caps->limits_by, err);
}

int driver_works(const struct driver *d, const struct strv *require,
                 struct vial_error *err)
{
    auto_free struct caps *caps = calloc(1, sizeof *caps);

    if (!caps)
        return fail_memory(err);
    if (d->probe(caps, err) < 0)
        return -1;
    if (!caps->usable) {
        if (err)
            *err = caps->why_not;
        return -1;
    }
    return check_caps(require, caps, err);
}

/* The only driver that isolates, or NULL when there is a choice. */
static const struct driver *only_candidate(const struct driver *const *table)
{
    const struct driver *only = NULL;

    for (size_t i = 0; table[i]; i++) {
        if (!is_optional(table[i]) && only)
            return NULL;
        if (!is_optional(table[i]))
            only = table[i];
    }
    return only;
}

static int choose_strongest(const struct driver *const *table,
                            const struct strv *require, const struct driver **out,
                            struct vial_error *err)
{
    struct vial_error first = { 0 };

    for (size_t i = 0; table[i]; i++) {
        struct vial_error why = { 0 };

        if (is_optional(table[i]))
            continue;
        if (driver_works(table[i], require, &why) == 0) {
            *out = table[i];
            return 0;
        }
        if (first.code[0] == '\0')
            first = why;
    }
    if (err)
        *err = first;
    return -1;
}

int driver_choose(const struct driver *const *table, const char *name,
                  const struct strv *require, const struct driver **out,
                  struct vial_error *err)
{
    bool automatic = str_eq(name, "auto");
    const struct driver *d =
        automatic ? only_candidate(table) : driver_find(table, name);

    if (!d && automatic)
        return choose_strongest(table, require, out, err);
    if (!d) {
        (void)fail(err, VIAL_E_DRIVER, "driver '%s' is not in this build", name);
        return fail_remedy(err, "run 'vial doctor' to see the drivers there are");
    }
    if (require->count > 0 && driver_works(d, require, err) < 0)
        return -1;
    *out = d;
    return 0;
}

void driver_explain(const struct driver *driver, const struct strv *require,
                    struct vial_error *err)
{
    struct vial_error why = { 0 };

    /* Who is far away has said it already, and may take its time to say it again. */
    if (str_starts(err->code, "VIAL-ENGINE-") ||
        str_starts(err->code, "VIAL-CLUSTER-") || fail_is(err, VIAL_E_REMOTE) ||
        fail_is(err, VIAL_E_BUSY))
        return;
    if (driver_works(driver, require, &why) < 0)
        *err = why;
}

const char *driver_version(const struct caps *caps)
{
    static const char word[] = "version ";

    for (size_t i = 0; i < caps->layer_count; i++)
        if (str_eq(caps->layers[i].name, "engine") &&
            str_starts(caps->layers[i].reason, word))
            return caps->layers[i].reason + strlen(word);
    return NULL;
}

bool driver_examine(const struct driver *d, struct caps *out, bool *automatic)
{
    if (is_hidden(d))
        return false;
    *out = (struct caps){ .level = "none", .limits_by = "none", .thorough = true };
    if (d->probe(out, &out->why_not) < 0)
        out->usable = false;
    *automatic = out->usable && !is_optional(d);
    return true;
}
