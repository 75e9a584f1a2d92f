/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_FOREIGN_H
#define VIAL_SETTINGS_FOREIGN_H

/*
 * Values under the names that a preset's system gives them: its environment
 * variables, its block in a settings file, its language file. Each is translated as
 * the preset says, and then judged like a value of our own.
 */

#include "settings/sources.h"

/* Reads what the preset's own block says: mounts, images, keep-alive; and the variables
 * that set the policy, which must come before anything tightens it. */
int foreign_begin(struct settings *s, struct source *out, char *const *environ_,
                  struct vial_error *err);

/* All other variables. */
int foreign_environ(struct settings *s, struct source *out, char *const *environ_,
                    struct vial_error *err);

/* Reads the variables of a project's file WHERE, as "NAME=VALUE". */
int foreign_dotenv(struct settings *s, struct source *out, const char *where,
                   const struct strv *found, struct vial_error *err);

/* The name of the preset's block in a settings file, or NULL. Borrowed. */
const char *foreign_block_name(const struct settings *s);

/* That block, as file WHERE has it. PROJECT: code may have written it. */
int foreign_block(struct settings *s, struct source *out, json_t *block,
                  const char *where, bool project, struct vial_error *err);

#endif
