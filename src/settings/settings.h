/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_SETTINGS_H
#define VIAL_SETTINGS_SETTINGS_H

/*
 * Layered settings with provenance:
 *
 *   built-in < preset < /etc/vial/vial.yaml < ~/.config/vial/vial.yaml
 *   < the preset's own file < the project's vial.yaml < variables < the request itself
 *
 * A settings file has the keys `defaults` (request fields), `policy`, `audit`,
 * `cleanup`, `journal`, `images`, `kubernetes`, `secrets`, `serve` (for the daemon),
 * and `languages` (path of a language file). Each layer fills what inner ones left
 * unset; policies only tighten. A preset file has the same keys and its own block
 * `preset` (settings/preset.h); under a preset, a settings file may also have the block
 * that the preset names, and the variables that it names count.
 *
 * A variable VIAL_<FIELD> sets a field; several values are separated by commas.
 * VIAL_SHARE, VIAL_CONFIG, VIAL_PRESET, VIAL_IMAGES and VIAL_LANGUAGES (a language
 * file) say where to look; VIAL_TEST_* belongs to tests; any other VIAL_* is an error.
 * A variable that is set but empty counts as unset.
 */

#include "model/language.h"
#include "model/pod_settings.h"
#include "model/policy.h"
#include "model/request.h"
#include "settings/auditing.h"
#include "settings/blocks.h"
#include "settings/preset.h"

/* Keep-alive: one vessel for many calls, and when it is made anew. */
struct keep_rules {
    bool alive;
    int64_t executions, idle_ms;
};

struct settings {
    struct vial_request defaults;
    char *origin[FIELD_ID__COUNT]; /* where each came from, or NULL */
    struct policy policy;
    struct auditing audit;
    struct cleaning cleanup;
    struct journaling journal;
    struct image_settings image_store;
    struct pod_settings pods;
    struct volume_settings volumes;
    struct language_table languages;
    struct serve_settings serve; /* for the daemon */
    struct strv files;           /* those that were read, outermost first */
    char *share_dir;             /* runtimes/, presets/, seccomp/, vial-init */
    char *preset;                /* or NULL */
    struct preset *seed;         /* its own block; NULL without a preset */
    struct strv images;      /* "NAME=IMAGE", by language or a program of the command */
    struct strv places;      /* directories to make before they are mounted */
    struct strv packages;    /* the caller's own of Python (plan/mount.c) */
    struct strv variables;   /* the environment with a project's file of variables */
    struct keep_rules keep;  /* of the preset */
    struct strv secrets;     /* lines (model/secret.h) */
    uint8_t secret_seed[32]; /* of their placeholders */
    bool serves;             /* callers who are others: nothing of our own is theirs */
    char *engine;            /* address of the container engine, or NULL */
    char *const *environ_;   /* borrowed while the settings are read */
    char *home;              /* the caller's, as the environment says, or NULL */
    char *state;             /* vial's own directory (base/state.h), or NULL */
    json_t *projects; /* files of the project that were read (settings/project.h): their
                         "path", "sha256", "trusted", and "changes" (a setting's
                         name -> "from", "to"); or NULL */
};

struct settings_sources {
    const char *preset;      /* or NULL */
    const char *config;      /* one file instead of /etc and ~/.config, or NULL */
    const char *project_dir; /* or NULL: the current directory */
    const char *share_dir;   /* or NULL: found by itself */
    char *const *environ_;   /* borrowed; NULL: none */
    const char *home;        /* or NULL */
    const char *state;       /* where the caller's trust is recorded, or NULL */
    bool serves;             /* as in the settings */
    bool trusting;           /* take files of the project as if they were trusted, to
                                tell what they would change */
};

/* A default above a cap of the policy is lowered to it, as no request has asked for
 * that value; what a request or a VIAL_<FIELD> says is judged by policy_check. */
int settings_load(const struct settings_sources *from, struct settings **out,
                  struct vial_error *err);

/* The preset that FROM names, without the settings; NULL when it names none. */
int settings_find_preset(const struct settings_sources *from, struct preset **out,
                         struct vial_error *err);

json_t *settings_json(const struct settings *s);           /* for `config show` */
json_t *settings_languages_json(const struct settings *s); /* names that are shown */
void settings_free(struct settings *s);

#endif
