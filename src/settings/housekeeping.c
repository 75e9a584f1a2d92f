/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/housekeeping.h"

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

#define USUAL_OUTPUT (INT64_C(16) << 10)

const struct field *journaling_rows(void)
{
    static const struct field rows[] = {
        { .name = "runs",
          .type = FIELD_COUNT_,
          .scope = FIELD_IN_SETTINGS,
          .min = 0,
          .max = 100000,
          .def = "0",
          .help = "How many of the caller's runs 'vial logs' remembers without a "
                  "daemon." },
        { .name = "output",
          .type = FIELD_BYTES,
          .scope = FIELD_IN_SETTINGS,
          .min = 0,
          .max = INT64_C(1) << 20,
          .def = "16k",
          .help = "How much of each stream of such a run is remembered." },
    };

    return rows;
}

void journaling_init(struct journaling *j)
{
    *j = (struct journaling){ .runs = 0, .output = USUAL_OUTPUT };
}

int journaling_read(struct journaling *j, json_t *block, const char *where,
                    struct vial_error *err)
{
    const struct field *rows = journaling_rows();
    int64_t *const places[] = { &j->runs, &j->output };
    struct shown shown;
    const char *key;
    json_t *value;

    if (!json_is_object(block))
        return fail(err, VIAL_E_VALUE, "%s: 'journal' is not a block of keys", where);
    json_object_foreach(block, key, value)
    {
        size_t i = strcmp(key, rows[1].name) == 0;

        if (strcmp(key, rows[i].name) != 0) {
            shown = value_show(key, strlen(key));
            (void)fail(err, VIAL_E_FIELD, "unknown key '%s' in '%s': journal",
                       shown.text, where);
            return fail_remedy(err, "known keys: runs, output");
        }
        if (field_ops_of(rows[i].type)->decode(&rows[i], places[i], value, err) < 0)
            return fail_in(err, "%s: journal", where);
    }
    return 0;
}

json_t *journaling_json(const struct journaling *j)
{
    const struct field *rows = journaling_rows();

    return json_pack("{s:o, s:o}", rows[0].name,
                     field_ops_of(rows[0].type)->json(&rows[0], &j->runs), rows[1].name,
                     field_ops_of(rows[1].type)->json(&rows[1], &j->output));
}
