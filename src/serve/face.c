/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/face.h"

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"

/* What is left of PATH behind PREFIX, without a slash at its end; NULL: it does not
 * lie there. malloc'ed. */
static char *below(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);
    size_t rest = 0;

    if (strncmp(path, prefix, len) != 0 || (path[len] != '\0' && path[len] != '/'))
        return NULL;
    rest = strlen(path + len);
    while (rest > 0 && path[len + rest - 1] == '/')
        rest--;
    return strndup(path + len, rest);
}

/* The face's route, or NULL with *KNOWN telling whether the path is one of its own. */
static const struct face_route *find_below(const struct face *f, struct call *c,
                                           const char *method, const char *path,
                                           bool *known)
{
    for (size_t i = 0; f->bases[i]; i++) {
        auto_free char *rest = below(path, f->bases[i]);

        for (const struct face_route *r = f->routes; rest && r->path; r++) {
            if (!route_matches(c, r->path, rest))
                continue;
            *known = true;
            if (strcmp(r->method, method) == 0)
                return r;
        }
        *known = *known || (rest && f->bases[i][0]);
    }
    return NULL;
}

static bool is_on(const struct serve_settings *s, const struct face *f)
{
    return strv_has(&s->wires, f->name);
}

static const struct face_route *find(const struct serve_settings *s, struct call *c,
                                     const char *method, const char *path,
                                     const struct face **face)
{
    for (size_t i = 0; faces[i]; i++) {
        char prefix[32] = "/";
        auto_free char *rest = NULL;
        bool known = false;

        if (!is_on(s, faces[i]))
            continue;
        (void)strncat(prefix, faces[i]->name, sizeof(prefix) - 2);
        rest = below(path, prefix);
        if (rest) {
            *face = faces[i];
            return find_below(faces[i], c, method, rest, &known);
        }
    }
    for (size_t i = 0; faces[i]; i++) {
        const struct face_route *r;
        bool known = false;

        if (!is_on(s, faces[i]))
            continue;
        r = find_below(faces[i], c, method, path, &known);
        if (known && (r || !*face))
            *face = faces[i];
        if (r)
            return r;
    }
    return NULL;
}

bool face_has(const struct serve_settings *s, const char *path)
{
    const struct face *face = NULL;
    struct call probe = { 0 };

    if (s->wires.count == 0)
        return false;
    (void)find(s, &probe, "", path, &face);
    route_forget(&probe);
    return face != NULL;
}

void face_refuse(struct call *c, const struct face *face, const struct vial_error *err)
{
    unsigned status = call_turned_away(c, err);

    face->refuse(c, status, err);
}

bool face_answer(struct call *c)
{
    const struct serve_settings *s = &c->gen->settings->serve;
    const char *method = web_method(c->web);
    const struct face *face = NULL;
    const struct face_route *r;
    struct vial_error err = { 0 };

    if (s->wires.count == 0)
        return false;
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    r = find(s, c, method, web_path(c->web), &face);
    if (!face)
        return false;
    /* A stranger does not learn which paths there are, either. */
    if (!r && auth_check(&c->gen->auth, c->web, &c->who, &err) == 0)
        (void)fail(&err, VIAL_E_ROUTE, "Not Found");
    if (!r || route_admit(c, r->scope, r->method, r->path, &err) < 0)
        face_refuse(c, face, &err);
    else
        r->handler(c);
    return true;
}
