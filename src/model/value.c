/* SPDX-License-Identifier: Apache-2.0 */
#include "model/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/text.h"
#include "base/unit.h"

#define SHOWN_BYTES 40
#define KNOWN_TOLD  11 /* of more names, none is told that is not near */

/* A message is one line: what a terminal may have, it may not. */
static void add_line(struct str *out, const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20)
            str_printf(out, "\\x%02x", (unsigned)*text);
        else
            str_putc(out, *text);
    }
}

struct shown value_show(const char *text, size_t len)
{
    auto_str struct str safe = { 0 };
    auto_str struct str line = { 0 };
    struct text_safe state = { 0 };
    struct shown shown = { 0 };
    bool cut = len > SHOWN_BYTES;

    text_safe(&state, &safe, text, cut ? SHOWN_BYTES : len);
    text_safe_end(&state, &safe);
    if (str_ok(&safe) && safe.data)
        add_line(&line, safe.data);
    (void)snprintf(shown.text, sizeof(shown.text), "%s%s",
                   str_ok(&line) && line.data ? line.data : "", cut ? "…" : "");
    return shown;
}

struct shown value_show_json(const json_t *json)
{
    auto_free char *text = NULL;

    if (json_is_string(json))
        return value_show(json_string_value(json), json_string_length(json));
    if (json_is_array(json) || json_is_object(json))
        return value_show(json_is_array(json) ? "[]" : "{}", 2);
    text = json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    return value_show(text ? text : "?", text ? strlen(text) : 1);
}

int value_refuse(const struct field *f, const char *text, size_t len, const char *what,
                 struct vial_error *err)
{
    struct shown shown;

    shown = value_show(text, len);
    (void)fail(err, VIAL_E_VALUE, "%s '%s' is not %s", f->name, shown.text, what);
    return fail_remedy(err, "give %s", what);
}

int value_refuse_json(const struct field *f, const json_t *json, const char *what,
                      struct vial_error *err)
{
    struct shown shown;

    shown = value_show_json(json);
    (void)fail(err, VIAL_E_VALUE, "%s '%s' is not %s", f->name, shown.text, what);
    return fail_remedy(err, "give %s", what);
}

static const char *word_of(enum field_type type)
{
    switch ((int)type) {
    case FIELD_MS:
        return "a duration";
    case FIELD_BYTES:
        return "a size";
    case FIELD_MILLI:
        return "a number";
    default:
        return "a whole number";
    }
}

static const char *advice_for(enum field_type type)
{
    switch ((int)type) {
    case FIELD_MS:
        return "give seconds, or a number with a unit: '500ms', '30s', '2m', '1h'";
    case FIELD_BYTES:
        return "give bytes, or a number with a unit: '64k', '256m', '1g'";
    case FIELD_MILLI:
        return "give a plain number, such as 0.5 or 2";
    default:
        return "give a plain whole number";
    }
}

static int refuse_number(const struct field *f, const struct shown *shown,
                         struct vial_error *err)
{
    auto_str struct str what = { 0 };

    str_puts(&what, word_of(f->type));
    str_puts(&what, " from ");
    value_write(&what, f->type, f->min);
    str_puts(&what, " to ");
    value_write(&what, f->type, f->max);
    if (!str_ok(&what))
        return fail_memory(err);
    (void)fail(err, VIAL_E_VALUE, "%s '%s' is not %s", f->name, shown->text, what.data);
    return fail_remedy(err, "%s", advice_for(f->type));
}

static int unit_parse(enum field_type type, const char *text, int64_t *out)
{
    switch ((int)type) {
    case FIELD_MS:
        return unit_parse_ms(text, out);
    case FIELD_BYTES:
        return unit_parse_bytes(text, out);
    case FIELD_MILLI:
        return unit_parse_milli(text, out);
    default:
        return unit_parse_count(text, out);
    }
}

/* JSON's unit to ours: seconds and cores come in thousandths here. */
static int from_number(enum field_type type, const json_t *json, int64_t *out)
{
    int64_t scale = type == FIELD_MS || type == FIELD_MILLI ? 1000 : 1;
    double real;

    if (json_is_integer(json))
        return __builtin_mul_overflow(json_integer_value(json), scale, out) ? -1 : 0;
    real = json_real_value(json) * (double)scale;
    if (!(real >= 0 && real < 9e15)) /* beyond: not exact in a double */
        return -1;
    *out = (int64_t)(real + 0.5);
    return scale == 1 && (double)*out != real ? -1 : 0;
}

static bool in_range(const struct field *f, int64_t value)
{
    return value >= f->min && value <= f->max;
}

int value_parse(const struct field *f, const char *text, size_t len, int64_t *out,
                struct vial_error *err)
{
    struct shown shown;
    int64_t value;

    if (strlen(text) == len && unit_parse(f->type, text, &value) == 0 &&
        in_range(f, value)) {
        *out = value;
        return 0;
    }
    shown = value_show(text, len);
    return refuse_number(f, &shown, err);
}

int value_decode(const struct field *f, json_t *json, int64_t *out,
                 struct vial_error *err)
{
    struct shown shown;
    int64_t value;

    if (json_is_string(json) && f->type != FIELD_COUNT_)
        return value_parse(f, json_string_value(json), json_string_length(json), out,
                           err);
    if (json_is_number(json) && from_number(f->type, json, &value) == 0 &&
        in_range(f, value)) {
        *out = value;
        return 0;
    }
    shown = value_show_json(json);
    return refuse_number(f, &shown, err);
}

void value_write(struct str *out, enum field_type type, int64_t value)
{
    switch ((int)type) {
    case FIELD_MS:
        unit_write_ms(out, value);
        break;
    case FIELD_BYTES:
        unit_write_bytes(out, value);
        break;
    case FIELD_MILLI:
        unit_write_milli(out, value);
        break;
    default:
        str_printf(out, "%lld", (long long)value);
        break;
    }
}

json_t *value_json(enum field_type type, int64_t value)
{
    auto_str struct str text = { 0 };

    if (type == FIELD_COUNT_)
        return json_integer(value);
    if (type == FIELD_MILLI)
        return value % 1000 ? json_real((double)value / 1000)
                            : json_integer(value / 1000);
    value_write(&text, type, value);
    return str_ok(&text) ? json_string(text.data) : NULL;
}

int value_choice(const char *choices, const char *text, size_t len)
{
    for (int i = 0;; i++) {
        size_t part = strcspn(choices, "|");

        if (part > 0 && part == len && memcmp(choices, text, len) == 0)
            return i;
        if (choices[part] == '\0')
            return -1;
        choices += part + 1;
    }
}

size_t value_choices_told(const char *choices)
{
    const char *hidden = strstr(choices, "||");

    return hidden ? (size_t)(hidden - choices) : strlen(choices);
}

void value_choice_name(struct str *out, const char *choices, int index)
{
    while (index-- > 0)
        choices += strcspn(choices, "|") + 1;
    str_add(out, choices, strcspn(choices, "|"));
}

bool value_is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool c1 = c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0;

        if (c < 0x20 || c == 0x7f || c1)
            return false;
    }
    return text_is_utf8(text, len);
}

const char *value_string(const json_t *json)
{
    const char *text = json_string_value(json);

    return text && strlen(text) == json_string_length(json) ? text : NULL;
}

json_t *value_text_json(const char *data, size_t len)
{
    auto_str struct str text = { 0 };

    if (text_is_utf8(data, len))
        return json_stringn(data, len);
    text_repair(&text, data, len);
    return str_ok(&text) ? json_stringn(text.data ? text.data : "", text.len) : NULL;
}

static int tell_known(struct vial_error *err, const char *what,
                      const char *const *known)
{
    auto_str struct str list = { 0 };
    size_t count = 0;

    for (; count <= KNOWN_TOLD && known[count]; count++)
        str_printf(&list, "%s%s", count > 0 ? ", " : "", known[count]);
    if (count == 0 || count > KNOWN_TOLD || !str_ok(&list))
        return -1;
    return fail_remedy(err, "known %s%s: %s", what, count > 1 ? "s" : "", list.data);
}

int value_unknown(struct vial_error *err, const char *what, const char *name,
                  const char *const *known, const char *rest, ...)
{
    const char *near = text_suggest(name, known);
    struct shown shown = value_show(name, strlen(name));
    auto_str struct str text = { 0 };
    va_list args;

    va_start(args, rest);
    str_vprintf(&text, rest, args);
    va_end(args);
    (void)fail(err, VIAL_E_FIELD, "unknown %s '%s'%s", what, shown.text,
               str_ok(&text) && text.data ? text.data : "");
    return near ? fail_remedy(err, "did you mean '%s'?", near)
                : tell_known(err, what, known);
}
