/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/foreign_value.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "model/value.h"

const char *foreign_value_member(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

bool foreign_value_is_number(const char *text)
{
    size_t whole = strspn(text, "0123456789");
    size_t part = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;

    return whole > 0 && (text[whole] == '\0' || (part > 0 && !text[whole + 1 + part]));
}

static int name_it(const struct foreign_value *p, struct vial_error *err)
{
    return p->where ? fail_in(err, "%s", p->where) : -1;
}

int foreign_value_refuse(const struct foreign_value *p, const char *value,
                         const char *what, struct vial_error *err)
{
    struct shown shown = value_show(value, strlen(value));

    (void)fail(err, VIAL_E_VALUE, "%s '%s' is not %s", p->name, shown.text, what);
    return name_it(p, err);
}

static void add_keys(struct str *out, json_t *object, const char *before)
{
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        str_printf(out, "%s%s", before, json_object_iter_key(at));
        before = ", ";
    }
}

static int refuse_choice(const struct foreign_value *p, const char *value,
                         struct vial_error *err)
{
    auto_str struct str known = { 0 };

    add_keys(&known, json_object_get(p->map, "values"), "one of ");
    add_keys(&known, json_object_get(p->map, "refuses"), ", ");
    if (!str_ok(&known))
        return fail_memory(err);
    return foreign_value_refuse(p, value, known.data, err);
}

int foreign_value_translate(const struct foreign_value *p, const char *value,
                            struct str *out, struct vial_error *err)
{
    json_t *values = json_object_get(p->map, "values");
    const char *form = foreign_value_member(p->map, "form");
    const char *hole = form ? strstr(form, "{}") : NULL;
    auto_str struct str low = { 0 };
    const char *why = NULL;
    long percent = 0;

    for (const char *c = value; *c; c++)
        str_putc(&low, (char)(tolower)((unsigned char)*c));
    if (!str_ok(&low))
        return fail_memory(err);
    why = foreign_value_member(json_object_get(p->map, "refuses"),
                               low.data ? low.data : "");
    if (why) {
        (void)fail(err, VIAL_E_UNSUPPORTED, "%s '%s': %s", p->name, low.data, why);
        return name_it(p, err);
    }
    if (values && !foreign_value_member(values, low.data ? low.data : ""))
        return refuse_choice(p, value, err);
    if (values) {
        str_puts(out, foreign_value_member(values, low.data));
    } else if (json_is_true(json_object_get(p->map, "percent"))) {
        if (!foreign_value_is_number(value) || strchr(value, '.') || strlen(value) > 6)
            return foreign_value_refuse(p, value, "a whole number of percent", err);
        percent = strtol(value, NULL, 10);
        str_printf(out, "%ld.%02ld", percent / 100, percent % 100);
    } else if (hole) {
        if (!foreign_value_is_number(value))
            return foreign_value_refuse(p, value, "a number", err);
        str_printf(out, "%.*s%s%s", (int)(hole - form), form, value, hole + 2);
    } else {
        str_puts(out, value);
    }
    return str_ok(out) ? 0 : fail_memory(err);
}

int foreign_value_set_field(const struct foreign_value *p, const struct field *f,
                            const char *value, struct vial_error *err)
{
    auto_str struct str where = { 0 };

    value = value ? value : "";
    str_printf(&where, "%s%s%s", p->where ? p->where : "", p->where ? ": " : "",
               p->name);
    if (!str_ok(&where))
        return fail_memory(err);
    return request_set_text(&p->out->values, field_id_of(f), value, strlen(value),
                            where.data, err);
}

int foreign_value_scalar(const struct foreign_value *p, json_t *value, struct str *out,
                         struct vial_error *err)
{
    struct shown shown;

    if (json_is_boolean(value))
        str_puts(out, json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        str_printf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        str_printf(out, "%g", json_real_value(value));
    else if (value_string(value))
        str_puts(out, value_string(value));
    else {
        shown = value_show_json(value);
        return foreign_value_refuse(p, shown.text, "a single value", err);
    }
    return str_ok(out) ? 0 : fail_memory(err);
}
