/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_SOURCES_H
#define VIAL_SETTINGS_SOURCES_H

/*
 * Where layers of settings are read from: one function per kind of source. Each
 * fills VALUES with what the source sets and tightens S's policy.
 */

#include "settings/settings.h"

/* A layer of settings. WHERE is for messages and provenance, or NULL: absent. The rest
 * is for a project's file (settings/project.h). */
struct source {
    struct vial_request values;
    char *where;
    char hash[65];  /* of the very bytes that were read */
    json_t *beyond; /* what a stranger's may not set: name -> "from", "to"; or NULL */
};

/* Notes that a project's file would change NAME. FROM and TO may be NULL. */
int source_note(struct source *source, const char *name, const char *from,
                const char *to, struct vial_error *err);

/* NAME=VALUE of ENVIRON; NULL when it is not there or empty. Borrowed. */
const char *source_variable(char *const *environ_, const char *name);

/* A settings file. One that is absent is no error unless REQUIRED. */
int source_read_file(struct settings *s, struct source *out, const char *path,
                     bool required, struct vial_error *err);
/* A project's own. One that is absent is no error. */
int source_read_project(struct settings *s, struct source *out, const char *path,
                        struct vial_error *err);
/* A file that belongs to the preset's system: only its block is read. PROJECT: code
 * may have written it. One that is absent is no error. */
int source_read_seed(struct settings *s, struct source *out, const char *path,
                     bool project, struct vial_error *err);
/* A project's file of the preset's variables (settings/foreign_files.h), which S's
 * environment has from then on. One that is absent is no error. */
int source_read_dotenv(struct settings *s, struct source *out, const char *path,
                       struct vial_error *err);
int source_read_preset(struct settings *s, struct source *out, const char *name,
                       struct vial_error *err);
/* Judges the file PATH as a preset, wherever it lies; S is of no use afterwards. */
int source_check_preset(struct settings *s, const char *path, struct vial_error *err);
/* The block `preset` of that preset alone. */
int source_find_preset(const char *share_dir, const char *name, struct preset **out,
                       struct vial_error *err);
int source_read_environ(struct settings *s, struct source *out, char *const *environ_,
                        struct vial_error *err);
int source_read_builtin(struct source *out, struct vial_error *err);

void source_done(struct source *source);

#endif
