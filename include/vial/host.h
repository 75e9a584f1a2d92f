/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_HOST_H
#define VIAL_HOST_H

/*
 * These functions tell what this host can do, as values: its languages, and what each
 * driver enforces. vial_languages and vial_doctor give the same as JSON.
 */

#include "vial/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Members that are const belong to the engine. */
struct vial_language {
    const char *name;
    const char *const *aliases; /* NULL-terminated, or NULL: none */
    bool usable;                /* it can run here, now */
    const char *program;        /* the compiler, or the interpreter */
    char *path;                 /* where this host has it, or NULL */
    char *version;              /* what it says of itself, or NULL */
};

struct vial_languages {
    struct vial_language *items; /* in the table's order */
    size_t count;
};

/* The language table with what is usable here. To ask a program for its version, it is
 * run in a vessel. */
VIAL_API VIAL_MUST_CHECK int vial_language_list(struct vial_engine *engine,
                                                struct vial_languages *out,
                                                struct vial_error *err);

/* Lists only the languages that can run at this moment, without path and version. */
VIAL_API VIAL_MUST_CHECK int vial_language_list_offered(struct vial_engine *engine,
                                                        struct vial_languages *out,
                                                        struct vial_error *err);

/* Zero-initialised languages are allowed. */
VIAL_API void vial_languages_free(struct vial_languages *languages);

/* One layer of protection. */
struct vial_layer {
    const char *name; /* "user", "seccomp", "cgroup" … */
    bool available;
    const char *reason; /* why not, or a detail ("ABI 7"); or "" */
    const char *fix;    /* commands that would bring it, or "" */
};

struct vial_driver {
    const char *name;
    bool usable;
    bool automatic;      /* usable, and taken without being asked for by name */
    const char *version; /* of the container engine behind it, or NULL */
    const char *level;   /* as in struct vial_result, like the next */
    const char *limits_by;
    struct vial_layer *layers; /* LAYER_COUNT of them */
    size_t layer_count;
    struct vial_error error; /* why it is not usable; code "" when it is */
};

/* Read-only; it may outlive the engine. */
struct vial_doctor {
    const char *version;   /* of vial */
    const char *share_dir; /* where its own files are */
    bool guest;            /* vial-init is among them */
    const char *automatic; /* the driver that "auto" means here, or NULL: … */
    struct vial_error no_automatic; /* … why there is none; else code "" */
    const char *wanted;             /* the driver that the settings ask for */
    const char *fallback;           /* who may stand in for it, or NULL */
    const char *takes;           /* who a request gets that names none; NULL: nobody */
    struct vial_driver *drivers; /* DRIVER_COUNT of them, strongest first */
    size_t driver_count;
};

/* Tells what each driver can enforce on this host. Asks container engines, which may
 * take a while. *OUT is given back with vial_doctor_free. */
VIAL_API VIAL_MUST_CHECK int vial_doctor_look(struct vial_engine *engine,
                                              struct vial_doctor **out,
                                              struct vial_error *err);

/* NULL is allowed. */
VIAL_API void vial_doctor_free(struct vial_doctor *doctor);

#ifdef __cplusplus
}
#endif
#endif
