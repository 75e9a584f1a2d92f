/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "model/value.h"
#include "settings/foreign_parts.h"

/* "$NAME" and "${NAME}" at the beginning of TEXT. False: the variable is unset. */
static bool expand(char *const *environ_, const char *text, struct str *out)
{
    bool brace = text[0] == '$' && text[1] == '{';
    const char *name = text + (brace ? 2 : 1);
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    auto_free char *copy = NULL;
    const char *value = NULL;

    if (text[0] != '$') {
        str_puts(out, text);
        return true;
    }
    copy = strndup(name, len);
    value = copy ? source_variable(environ_, copy) : NULL;
    if (!value)
        return false;
    str_printf(out, "%s%s", value, name + len + (brace && name[len] == '}'));
    return true;
}

/* "SRC:DST[:MODE]", or an object as container engines' clients have it. Writable
 * unless it says otherwise: that is what those clients do. */
static int mount_text(const struct foreign_value *p, json_t *item, struct str *out,
                      struct vial_error *err)
{
    const char *text = value_string(item);
    const char *host = foreign_value_member(item, "hostPath");
    const char *inside = foreign_value_member(item, "containerPath");
    size_t colons = 0;
    struct shown shown;

    for (const char *c = text; c && *c; c++)
        colons += *c == ':';
    if ((!text || colons < 1) && (!host || !inside)) {
        shown = value_show_json(item);
        return foreign_value_refuse(p, shown.text, "a mount as HOST:CONTAINER[:ro]",
                                    err);
    }
    if (!expand(p->environ_, text ? text : host, out))
        return foreign_value_refuse(p, text ? text : host,
                                    "known: the variable is not set", err);
    if (!text)
        str_printf(out, ":%s:%s", inside,
                   json_is_true(json_object_get(item, "readOnly")) ? "ro" : "rw");
    else if (colons == 1)
        str_puts(out, ":rw");
    return str_ok(out) ? 0 : fail_memory(err);
}

int foreign_begin_mounts(struct settings *s, struct source *out, char *const *environ_,
                         struct vial_error *err)
{
    const struct foreign_value p = { .s = s, .out = out, .name = "mounts" };
    json_t *list = preset_get(s->seed, "mounts");
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(list, i, item)
    {
        bool writable = json_is_true(json_object_get(item, "writable"));
        auto_str struct str text = { 0 };

        if (!expand(environ_, foreign_value_member(item, "source"), &text))
            continue;
        if (json_is_true(json_object_get(item, "optional")) && str_ok(&text) &&
            access(text.data, F_OK) < 0)
            continue;
        if (json_is_true(json_object_get(item, "create")) &&
            !strv_has(&s->places, text.data))
            strv_push(&s->places, text.data);
        str_printf(&text, ":%s:%s", foreign_value_member(item, "target"),
                   writable ? "rw" : "ro");
        if (!str_ok(&text) || !strv_ok(&s->places))
            return fail_memory(err);
        if (foreign_value_set_field(&p, &fields[FIELD_ID_mounts], text.data, err) < 0)
            return -1;
    }
    return 0;
}

int foreign_mounts(const struct foreign_value *p, json_t *list, struct vial_error *err)
{
    json_t *item = NULL;
    size_t i = 0;

    /* They come on top. */
    if (!request_has(&p->out->values, mounts) &&
        foreign_begin_mounts(p->s, p->out, p->environ_, err) < 0)
        return -1;
    json_array_foreach(list, i, item)
    {
        auto_str struct str text = { 0 };

        if (mount_text(p, item, &text, err) < 0 ||
            foreign_value_set_field(p, &fields[FIELD_ID_mounts], text.data, err) < 0)
            return -1;
    }
    return 0;
}
