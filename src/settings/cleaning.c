/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/cleaning.h"

#include <string.h>

#include "base/fail.h"
#include "model/field_type.h"
#include "model/value.h"

#define DAY_MS   INT64_C(86400000)
#define USUAL_MS (INT64_C(5) * 60 * 1000)
#define LEAST_MS 100 /* more often, engines would do little else */

const struct field *cleaning_row(void)
{
    static const struct field row = {
        .name = "interval",
        .type = FIELD_MS,
        .scope = FIELD_IN_SETTINGS,
        .min = 0,
        .max = DAY_MS,
        .def = "5m",
        .help = "How often 'vial serve' and 'vial mcp' remove what dead callers left; "
                "0: never.",
    };

    return &row;
}

void cleaning_init(struct cleaning *c)
{
    c->interval_ms = USUAL_MS;
}

int cleaning_read(struct cleaning *c, json_t *block, const char *where,
                  struct vial_error *err)
{
    const struct field *row = cleaning_row();
    struct shown shown;
    const char *key;
    json_t *value;

    if (!json_is_object(block))
        return fail(err, VIAL_E_VALUE, "%s: 'cleanup' is not a block of keys", where);
    json_object_foreach(block, key, value)
    {
        if (strcmp(key, row->name) != 0) {
            shown = value_show(key, strlen(key));
            (void)fail(err, VIAL_E_FIELD, "unknown key '%s' in '%s': cleanup",
                       shown.text, where);
            return fail_remedy(err, "known key: interval");
        }
        if (field_ops_of(row->type)->decode(row, &c->interval_ms, value, err) < 0)
            return fail_in(err, "%s: cleanup", where);
    }
    if (c->interval_ms == 0 || c->interval_ms >= LEAST_MS)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "%s: cleanup: an interval of %lld ms is too short",
               where, (long long)c->interval_ms);
    return fail_remedy(err, "give at least %dms, or 0 for never", LEAST_MS);
}

json_t *cleaning_json(const struct cleaning *c)
{
    return json_pack("{s:o}", "interval",
                     field_ops_of(FIELD_MS)->json(cleaning_row(), &c->interval_ms));
}
