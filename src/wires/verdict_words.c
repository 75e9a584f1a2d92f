/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/verdict_words.h"

#include <stddef.h>

const struct verdict_words verdict_words[] = {
#define VERDICT(verdict, by, fusion, piston, judge0, gojudge)                          \
    [verdict] = { by, fusion, piston, judge0, gojudge },
#include "wires/verdicts.def"
#undef VERDICT
};
