/* SPDX-License-Identifier: Apache-2.0 */
#include "model/volume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/str.h"
#include "model/value.h"

#define PART_MAX 64u
#define CALLER   "{caller}/"
#define LETTERS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define FORM     "NAME:DIR, NAME:DIR:ro or NAME:DIR:rw"

/* The length of a part that may stand in a name; 0: it may not. */
static size_t part_len(const char *text)
{
    size_t len = strspn(text, LETTERS);

    return len > PART_MAX || text[0] == '.' || text[0] == '_' || text[0] == '-' ? 0
                                                                                : len;
}

bool volume_name_ok(const char *name)
{
    size_t len = part_len(name);

    if (len == 0 || name[len] == '\0')
        return len > 0;
    if (name[len] != '/')
        return false;
    name += len + 1;
    len = part_len(name);
    return len > 0 && name[len] == '\0';
}

static int refuse(const char *text, struct vial_error *err)
{
    (void)value_refuse(&fields[FIELD_ID_volumes], text, strlen(text), FORM, err);
    return fail_remedy(err, "write for example 'data:/data:rw'; a name has letters, "
                            "digits, '.', '_' and '-'");
}

int volume_parse(const char *text, struct volume_wish *out, struct vial_error *err)
{
    size_t len = strcspn(text, ":");
    const char *target = text + len + 1;
    const char *mode = text[len] ? strchr(target, ':') : NULL;

    *out = (struct volume_wish){ .writable = mode && str_eq(mode, ":rw") };
    if (len >= sizeof(out->name) || text[len] != ':' || *target != '/' ||
        (mode && !out->writable && !str_eq(mode, ":ro")))
        return refuse(text, err);
    (void)snprintf(out->name, sizeof(out->name), "%.*s", (int)len, text);
    if (!volume_name_ok(out->name))
        return refuse(text, err);
    out->target = mode ? strndup(target, (size_t)(mode - target)) : strdup(target);
    return out->target ? 0 : fail_memory(err);
}

void volume_wish_done(struct volume_wish *wish)
{
    free(wish->target);
    wish->target = NULL;
}

/* What is left of NAME behind "OWNER/", if that is CALLER, or anybody where it is NULL;
 * else NULL. */
static const char *own_part(const char *name, const char *caller)
{
    size_t len = part_len(name);

    if (len == 0 || name[len] != '/' ||
        (caller && (strlen(caller) != len || strncmp(caller, name, len) != 0)))
        return NULL;
    return name + len + 1;
}

/* The length of ENTRY without ":ro", which *ONLY_READ tells. */
static size_t pattern_len(const char *entry, bool *only_read)
{
    size_t len = strlen(entry);

    *only_read = len > 3 && str_eq(entry + len - 3, ":ro");
    return *only_read ? len - 3 : len;
}

bool volume_entry_covers(const char *wide, const char *narrow)
{
    bool wide_reads, narrow_reads;
    size_t wide_len = pattern_len(wide, &wide_reads);
    size_t len = pattern_len(narrow, &narrow_reads);

    if (wide_reads && !narrow_reads)
        return false;
    if (wide_len > 0 && wide[wide_len - 1] == '*')
        return len >= wide_len - 1 && strncmp(wide, narrow, wide_len - 1) == 0 &&
               !memchr(narrow + wide_len - 1, '/', len - (wide_len - 1));
    return wide_len == len && strncmp(wide, narrow, len) == 0;
}

static bool covers(const char *entry, const char *caller, const char *name,
                   bool writable)
{
    bool only_read;
    size_t len = pattern_len(entry, &only_read);

    if (only_read && writable)
        return false;
    if (str_starts(entry, CALLER)) {
        name = own_part(name, caller);
        entry += strlen(CALLER);
        len -= strlen(CALLER);
    }
    if (!name || len == 0)
        return false;
    if (entry[len - 1] == '*') /* of one owner's, or of nobody's */
        return strncmp(entry, name, len - 1) == 0 && !strchr(name + len - 1, '/');
    return strlen(name) == len && strncmp(entry, name, len) == 0;
}

int volume_check_policy(const struct policy *p, const char *caller, const char *name,
                        bool writable, struct vial_error *err)
{
    auto_str struct str allowed = { 0 };

    if (!((p->set >> POLICY_ID_volumes) & 1u))
        return 0;
    for (size_t i = 0; i < p->volumes.count; i++) {
        if (covers(p->volumes.items[i], caller, name, writable))
            return 0;
        str_printf(&allowed, "%s%s", i ? ", " : "", p->volumes.items[i]);
    }
    (void)fail(err, VIAL_E_POLICY, "volume '%s' is not allowed by the policy%s", name,
               writable ? " for writing" : "");
    return fail_remedy(err, "choose one of: %s (policy key 'volumes' in %s)",
                       allowed.data ? allowed.data : "none at all",
                       p->origin[POLICY_ID_volumes]);
}

int volume_check_said(const struct policy *p, struct vial_error *err)
{
    if ((p->set >> POLICY_ID_volumes) & 1u)
        return 0;
    (void)fail(err, VIAL_E_POLICY,
               "a daemon's callers have volumes only if the policy says so");
    return fail_remedy(err, "set policy key 'volumes' in the daemon's settings, and "
                            "restart it");
}
