/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_VERDICT_WORDS_H
#define VIAL_WIRES_VERDICT_WORDS_H

/* Verdicts in other services' words: verdicts.def. */

#include "vial/result.h"

enum ended_by { BY_EXIT, BY_SIGNAL, BY_DEADLINE, BY_KILL, BY_OTHERS };

struct verdict_words {
    enum ended_by by;
    const char *fusion, *piston; /* Piston's: or NULL */
    int judge0;
    const char *gojudge;
};

/* By enum vial_verdict. */
extern const struct verdict_words verdict_words[];

#endif
