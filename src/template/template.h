/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TEMPLATE_TEMPLATE_H
#define VIAL_TEMPLATE_TEMPLATE_H

/*
 * How an image is made, as a list of instructions (docs/adr/0083). Two files say it: a
 * Dockerfile's common subset, and a YAML file whose keys become the same instructions.
 * Parsing judges the form; variables are replaced when the template is built, since the
 * base image has some.
 *
 *   template_parse -> template_build (template/template_build.h) -> template_done
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#include "vial/error.h"

#define TEMPLATE_BYTES ((size_t)64 << 10)
#define TEMPLATE_STEPS 128

enum template_kind {
    TEMPLATE_ARG,
    TEMPLATE_RUN,
    TEMPLATE_COPY,
    TEMPLATE_ENV,
    TEMPLATE_WORKDIR,
    TEMPLATE_USER,
    TEMPLATE_CMD,
    TEMPLATE_ENTRYPOINT,
    TEMPLATE_LABEL,
    TEMPLATE_EXPOSE
};

struct template_step {
    enum template_kind kind;
    unsigned line;
    char *text;        /* what follows the instruction's name, on one line */
    struct strv words; /* of the exec form; empty in the shell form */
};

struct template
{
    char *from; /* may have variables in it */
    unsigned from_line;
    struct template_step *steps; /* COUNT of them */
    size_t count;
    struct strv allow;   /* lists that its package managers must reach */
    struct strv wanted;  /* what it wants to reach besides, if the caller lets it */
    struct strv imports; /* modules that a waiting Python has imported */
    unsigned pool;       /* how many vessels are to wait; 0: it says not */
};

/* NAME is for messages; it ends in ".yaml" or ".yml" where the file is YAML. OUT is
 * filled on success, and given to template_done then. */
int template_parse(const char *text, size_t len, const char *name, struct template *out,
                   struct vial_error *err);
void template_done(struct template *t);
#define auto_template __attribute__((cleanup(template_done)))

/* "RUN", "COPY" …. Static storage. */
const char *template_word(enum template_kind kind);

/* For the two spellings: adds an instruction, or FROM, and judges its form. */
int template_add(struct template *t, const char *word, const char *text, unsigned line,
                 struct vial_error *err);
int template_parse_yaml(const char *text, size_t len, const char *name,
                        struct template *out, struct vial_error *err);

#endif
