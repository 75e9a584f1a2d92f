/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/project.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/unit.h"
#include "model/value.h"
#include "settings/trust.h"

/* Up to which length of HERE a file of the project is looked for. */
static size_t find_root(const char *here, const char *state)
{
    size_t len = 0;

    /* Somebody else's repository is none. */
    if (repository_find(here, state, &len, NULL) < 0 || len == 0)
        return strlen(here);
    return len;
}

char *project_find(const char *dir, const char *name, const char *state)
{
    auto_free char *here = dir ? realpath(dir, NULL) : getcwd(NULL, 0);
    size_t root = here && here[0] == '/' ? find_root(here, state) : 0;

    if (root == 0) /* a directory that is gone, or that we may not read */
        return path_join(dir ? dir : ".", name);
    for (size_t len = strlen(here); len >= root; len--) {
        auto_free char *at = NULL;
        auto_free char *path = NULL;
        struct stat st;

        if (here[len] != '/' && here[len] != '\0')
            continue;
        at = strndup(here, len);
        path = at ? path_join(len ? at : "/", name) : NULL;
        if (!path || lstat(path, &st) == 0)
            return ptr_take(&path);
    }
    return path_join(here, name);
}

static bool is_limit(const struct field *f)
{
    return f->type == FIELD_MS || f->type == FIELD_BYTES || f->type == FIELD_MILLI ||
           f->type == FIELD_COUNT_;
}

/* The innermost layer outside OF that has a say; NULL: none has. */
static const struct vial_request *outer_of(const struct source *layers, size_t of,
                                           enum field_id id)
{
    while (of-- > 0)
        if ((layers[of].values.set >> id) & 1u)
            return &layers[of].values;
    return NULL;
}

/* Where nothing limits it outside, any limit is a lower one. */
static bool is_harmless(const struct vial_request *mine,
                        const struct vial_request *outer, enum field_id id)
{
    const struct field *f = &fields[id];
    auto_json json_t *given = request_field_json(mine, id);
    auto_json json_t *held = outer ? request_field_json(outer, id) : NULL;

    if (json_equal(given, held))
        return true;
    if (!(f->scope & FIELD_IN_PROJECT))
        return false;
    return !is_limit(f) || !outer || request_amount(outer, id) == 0 ||
           request_amount(mine, id) <= request_amount(outer, id);
}

/* A field's value as a person would write it; NULL: it is not set. */
static char *show_field(const struct vial_request *values, enum field_id id)
{
    auto_json json_t *value = values ? request_field_json(values, id) : NULL;

    if (!value)
        return NULL;
    return json_is_string(value) ? strdup(json_string_value(value))
                                 : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY |
                                                         JSON_REAL_PRECISION(6));
}

static int compare(struct source *layers, size_t of, struct vial_error *err)
{
    struct source *mine = &layers[of];

    for (size_t i = 0; i < FIELD_ID__COUNT; i++) {
        enum field_id id = (enum field_id)i;
        const struct vial_request *outer = outer_of(layers, of, id);
        auto_free char *from = NULL;
        auto_free char *to = NULL;

        if (!((mine->values.set >> i) & 1u) || is_harmless(&mine->values, outer, id))
            continue;
        from = show_field(outer, id);
        to = show_field(&mine->values, id);
        if (source_note(mine, fields[i].name, from, to, err) < 0)
            return -1;
    }
    return 0;
}

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void add_change(struct str *out, const char *name, const char *from,
                       const char *to)
{
    struct shown was = value_show(from ? from : "", from ? strlen(from) : 0);
    struct shown is = value_show(to ? to : "", to ? strlen(to) : 0);
    struct shown what = value_show(name, strlen(name)); /* an image's is the file's */

    str_printf(out, "%s%s", out->len ? ", " : "", what.text);
    if (from)
        str_printf(out, " from %s", was.text);
    str_printf(out, " to %s", is.text);
}

/* Adds what is new in BEYOND. KNOWN is the record of the file as it was trusted;
 * without a record everything is new. */
static void add_changes(struct str *out, json_t *beyond, json_t *known, bool all)
{
    json_t *sets = json_object_get(known, "sets");

    for (void *at = json_object_iter(beyond); at;
         at = json_object_iter_next(beyond, at)) {
        const char *name = json_object_iter_key(at);
        const char *from = text_of(json_object_iter_value(at), "from");
        const char *to = text_of(json_object_iter_value(at), "to");
        const char *was = text_of(sets, name);

        if (all || !was)
            add_change(out, name, from, to);
        else if (!str_eq(was, to))
            add_change(out, name, was, to);
    }
}

static int name_remedy(const struct settings *s, const char *path,
                       struct vial_error *err)
{
    const char *preset = s->preset ? s->preset : "";
    bool quotable = value_is_plain(path, strlen(path)) && !strchr(path, '\'');

    return fail_remedy(err, "read it; if you trust it: vial trust%s%s%s%s%s",
                       *preset ? " --preset " : "", preset, quotable ? " '" : "",
                       quotable ? path : "", quotable ? "'" : "");
}

static int refuse(const struct settings *s, const struct source *mine, json_t *known,
                  struct vial_error *err)
{
    auto_str struct str news = { 0 };
    auto_str struct str all = { 0 };
    const char *state = "is not trusted, and would change ";

    add_changes(&news, mine->beyond, known, false);
    add_changes(&all, mine->beyond, NULL, true);
    if (!str_ok(&all) || news.failed)
        return fail_memory(err);
    if (known)
        state = news.len ? "has changed since you trusted it, and would now change "
                         : "has changed since you trusted it, though not in what it "
                           "changes: ";
    (void)fail(err, VIAL_E_TRUST, "project file '%s' %s%s", mine->where, state,
               news.len ? news.data : all.data);
    return name_remedy(s, mine->where, err);
}

/* For `vial trust` and `vial config`. */
static int remember(struct settings *s, const struct source *mine, bool trusted,
                    struct vial_error *err)
{
    auto_json json_t *none = json_object();
    json_t *one =
        json_pack("{s:s, s:s, s:b, s:O}", "path", mine->where, "sha256", mine->hash,
                  "trusted", trusted, "changes", mine->beyond ? mine->beyond : none);

    if (!s->projects)
        s->projects = json_array();
    return json_array_append_new(s->projects, one) < 0 ? fail_memory(err) : 0;
}

int project_judge(struct settings *s, const struct settings_sources *from,
                  struct source *layers, size_t of, struct vial_error *err)
{
    struct source *mine = &layers[of];
    auto_json json_t *known = NULL;
    const char *hash = NULL;
    bool trusted = false;

    if (!mine->where)
        return 0;
    if (compare(layers, of, err) < 0)
        return -1;
    if (!from->trusting) {
        known = trust_find(from->state, mine->where);
        hash = text_of(known, "sha256");
        trusted = hash && strcmp(hash, mine->hash) == 0;
    }
    if (json_object_size(mine->beyond) > 0 && !trusted && !from->trusting)
        return refuse(s, mine, hash ? known : NULL, err);
    return remember(s, mine, trusted, err);
}

/* SUDO_UID, for root only: nobody else could make use of it. */
static bool called_sudo(uid_t uid)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): read only */
    const char *text = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
    int64_t number = 0;

    return text && unit_parse_count(text, &number) == 0 && number == (int64_t)uid;
}

static bool is_callers(uid_t uid)
{
    return uid == geteuid() || uid == 0 || called_sudo(uid);
}

/* Gives the owner of the file that the first LEN bytes of PATH name, with SUFFIX behind
 * them. */
static bool owner_of(const char *path, size_t len, const char *suffix, uid_t *out)
{
    char name[PATH_MAX];
    struct stat st;

    if ((size_t)snprintf(name, sizeof(name), "%.*s%s", (int)len, path, suffix) >=
            sizeof(name) ||
        lstat(name, &st) < 0)
        return false;
    *out = st.st_uid;
    return true;
}

/* Every directory from HERE up to its first LEN bytes. */
static bool all_belong_to(uid_t uid, const char *here, size_t len)
{
    for (size_t at = strlen(here); at >= len; at--) {
        uid_t one = 0;

        if (here[at] != '/' && here[at] != '\0')
            continue;
        if (!owner_of(here, at, "", &one) || one != uid)
            return false;
    }
    return true;
}

/* The name is that user's choice: what a shell would read as more than a name is not
 * handed to the caller to type. */
static int refuse_repository(const char *root, uid_t owner, struct vial_error *err)
{
    bool quotable = value_is_plain(root, strlen(root)) && !strchr(root, '\'');

    (void)fail(err, VIAL_E_TRUST,
               "repository '%s' around the current directory belongs to user %u", root,
               (unsigned)owner);
    return fail_remedy(err, "if you trust it: vial trust %s%s%s", quotable ? "'" : "",
                       quotable ? root : "DIR", quotable ? "'" : "");
}

int repository_find(const char *here, const char *state, size_t *len,
                    struct vial_error *err)
{
    size_t found = path_repository(here);
    auto_free char *root = found ? strndup(here, found) : NULL;
    uid_t dir = 0;
    uid_t git = 0;

    *len = 0;
    if (found == 0)
        return 0;
    if (!root)
        return fail_memory(err);
    if (here[found] != '\0') {
        if (!owner_of(here, found, "", &dir) || !owner_of(here, found, "/.git", &git))
            return 0; /* it went meanwhile */
        if (!(is_callers(dir) && is_callers(git)) &&
            !(git == dir && all_belong_to(dir, here, found)) &&
            !trust_has_repository(state, root))
            return refuse_repository(root, is_callers(git) ? dir : git, err);
    }
    *len = found;
    return 0;
}
