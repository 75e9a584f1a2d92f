/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_VOLUME_H
#define VIAL_MODEL_VOLUME_H

/*
 * A volume is a directory that outlives vessels, and goes by a name: NAME, or
 * OWNER/NAME. Where it lies, and who uses it now, is src/volumes; this is what a
 * request may say.
 */

#include <stdbool.h>

#include "model/policy.h"

#include "vial/error.h"

#define VOLUME_NAME 132 /* two parts of 64 bytes, and a NUL */

/* Letters, digits, ".", "_" and "-", beginning with a letter or a digit; one "/" at
 * most. */
bool volume_name_ok(const char *name);

/* One entry of the field `volumes`: "NAME:DIR", and ":ro" or ":rw". */
struct volume_wish {
    char name[VOLUME_NAME];
    char *target; /* owned */
    bool writable;
};
int volume_parse(const char *text, struct volume_wish *out, struct vial_error *err);
void volume_wish_done(struct volume_wish *wish);
#define auto_volume_wish __attribute__((cleanup(volume_wish_done)))

/* Whether policy key `volumes` lets CALLER have NAME, if it is set. An entry is a name
 * or, with a "*" at its end, how names begin; "{caller}/" at its beginning stands for
 * the caller's own, ":ro" at its end for reading alone. CALLER is NULL where nobody
 * knows who it is: then it can be anybody. */
int volume_check_policy(const struct policy *p, const char *caller, const char *name,
                        bool writable, struct vial_error *err);

/* Whether a daemon's callers have any: only if that key is set. */
int volume_check_said(const struct policy *p, struct vial_error *err);

/* Whether an entry of that key allows all that another one does, whoever the caller. */
bool volume_entry_covers(const char *wide, const char *narrow);

#endif
