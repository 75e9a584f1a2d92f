/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "template/template.h"
#include "template/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What a spelling takes has a base, and steps whose words can be read. */
static void try_as(const char *name, const uint8_t *data, size_t len)
{
    struct template t = { 0 };
    struct vial_error err = { 0 };

    if (template_parse((const char *)data, len, name, &t, &err) < 0) {
        MUST(err.code[0] && err.message[0]);
        MUST(!t.from && t.count == 0);
        return;
    }
    MUST(t.from && t.count <= TEMPLATE_STEPS);
    for (size_t i = 0; i < t.count; i++) {
        struct strv words = { 0 };

        MUST(t.steps[i].text && t.steps[i].line > 0);
        (void)words_split(t.steps[i].text, &t.allow, &words, &err);
        strv_done(&words);
    }
    template_done(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    try_as("Dockerfile", data, len);
    try_as("template.yaml", data, len);
    return 0;
}
