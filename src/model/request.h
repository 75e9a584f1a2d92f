/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_REQUEST_H
#define VIAL_MODEL_REQUEST_H

/*
 * A request is what a caller asks, as a struct made from fields.def. The same struct
 * carries a layer of settings. `set` has a bit for each field that was given. struct
 * vial_request (public, opaque) is this struct.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/fields.h"

#include "vial/request.h"

/* A file that goes in: CONTENT as given, or read from host path SOURCE by the
 * engine when the request runs. */
struct file_in {
    char *path;   /* relative to the workdir */
    char *source; /* host path, or NULL */
    struct blob content;
    unsigned mode;
};

struct file_list {
    struct file_in *items;
    size_t count;
};

/* "SRC:DST[:ro|rw]" as asked; judged later. */
struct mount_in {
    char *source, *target;
    bool writable;
};

struct mount_list {
    struct mount_in *items;
    size_t count;
};

/* How the code's language is compiled and run, where a front end has words of its own
 * for that. No field: callers cannot give it. "{file}" and "{dir}" as in the language
 * table; what is empty is the language's. */
struct wording {
    char *file; /* the code's, below the workdir; or NULL */
    struct strv compile_argv, run_argv;
    bool interpreted; /* there is no compile step, whatever the language has */
};

typedef struct blob field_c_FIELD_TEXT;
typedef char *field_c_FIELD_NAME;
typedef int field_c_FIELD_CHOICE;
typedef bool field_c_FIELD_BOOL;
typedef int64_t field_c_FIELD_COUNT_;
typedef int64_t field_c_FIELD_MS;
typedef int64_t field_c_FIELD_BYTES;
typedef int64_t field_c_FIELD_MILLI;
typedef struct strv field_c_FIELD_LIST;
typedef struct strv field_c_FIELD_MAP;
typedef struct file_list field_c_FIELD_FILES;
typedef struct mount_list field_c_FIELD_MOUNTS;

struct vial_request {
    field_set set;
    field_set builtin; /* of those set, the ones that hold only a built-in default */
    field_set own;     /* of those set, the ones that the request itself gave, once the
                          settings have filled in the rest */
    struct wording words;
#define FIELD(name, type, ...) field_c_##type name;
#include "model/fields.def"
#undef FIELD
};

#define request_has(r, name) (((r)->set >> FIELD_ID_##name) & 1u)

/* Decodes OBJECT's members into REQ. ALLOWED says which scopes' fields may
 * appear: 0 for all, else only fields with that scope bit. WHERE is for
 * messages ("request", "/etc/vial/vial.yaml"). */
int request_decode(struct vial_request *req, json_t *object, unsigned allowed,
                   const char *where, struct vial_error *err);

/* One field from text, as the command line gives it. LEN bytes, then a NUL. */
int request_set_text(struct vial_request *req, enum field_id id, const char *text,
                     size_t len, const char *where, struct vial_error *err);

/* Copies the fields that FROM has and REQ lacks; a built-in default stays known
 * as one. */
int request_fill(struct vial_request *req, const struct vial_request *from,
                 struct vial_error *err);

/* Arguments come behind those that a command itself has. */
int request_join_args(struct vial_request *req, struct vial_error *err);

/* As if it had never been given. */
void request_unset(struct vial_request *req, enum field_id id);

/* One field's value as JSON (for `config show`); NULL: not set or no memory. */
json_t *request_field_json(const struct vial_request *req, enum field_id id);

/* The member of REQ that field ID lives in: its type is field_c_<type>. */
void *request_member(struct vial_request *req, enum field_id id);
const void *request_peek(const struct vial_request *req, enum field_id id);

/* How much of it there is: a number's value, a text's bytes, a file list's
 * bytes given inline; 0 for all else. */
int64_t request_amount(const struct vial_request *req, enum field_id id);

/* The name of a choice field's value; static storage of fields.def is not
 * split, so OUT (>= 32 bytes) receives it. "" when it is not set. */
void request_choice(const struct vial_request *req, enum field_id id, char *out);

void wording_done(struct wording *words);
void request_done(struct vial_request *req);
#define auto_request __attribute__((cleanup(request_done)))

#endif
