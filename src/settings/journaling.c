/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/journaling.h"

#include <string.h>

#include "base/fail.h"
#include "model/field_type.h"
#include "model/value.h"

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
