/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_FUZZ_VALUE_H
#define VIAL_TESTS_FUZZ_VALUE_H

/* For parsers whose product is a JSON value. */

#include "base/json.h"
#include "fuzz.h"

typedef int value_parser(const char *text, size_t len, const char *name, json_t **out,
                         struct vial_error *err);

/* What is accepted can be written, and json_parse reads it back as the same value. */
static inline int fuzz_value(value_parser *parse, const uint8_t *data, size_t len)
{
    auto_json json_t *value = NULL, *again = NULL;
    auto_free char *text = NULL;
    struct vial_error err = { 0 };

    if (parse((const char *)data, len, "input", &value, &err) < 0) {
        MUST(!value && strncmp(err.code, "VIAL-", 5) == 0 && err.message[0]);
        return 0;
    }
    text = json_dumps(value, JSON_ENCODE_ANY);
    MUST(text);
    MUST(json_parse(text, strlen(text), "output", &again, &err) == 0);
    MUST(json_equal(value, again));
    return 0;
}

#endif
