/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names a run where a preset wants every run to have a name. Its session has the
 * workspace's name, its task one of its own. Names are seen by all who may list
 * containers, in logs and on other hosts. Hence only a hash of a path gets into them.
 * The hash is made with this machine's id, which stays here, so that nobody elsewhere
 * can test guesses.
 */
#include "plan/labels.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/sha256.h"
#include "plan/draft.h"

#define SESSION_LEN 12
#define NAME_PART   48 /* characters of a label that get into a name */

static void add_part(struct str *out, const char *text)
{
    str_putc(out, '-');
    for (size_t i = 0; i < NAME_PART && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        bool fits = c < 128 && (isalnum(c) || c == '_' || c == '.' || c == '-');

        str_putc(out, (char)(fits ? text[i] : '_'));
    }
}

void labels_name(struct str *out, const char *prefix, const struct plan *plan)
{
    str_puts(out, prefix ? prefix : "vial");
    if (plan->label_session)
        add_part(out, plan->label_session);
    if (plan->label_task)
        add_part(out, plan->label_task);
}

/* Of the workspace as it was judged; "none" without one. */
static void session_of(const struct draft *d, char out[65])
{
    const char *source = NULL;
    char machine[64] = "";
    struct sha256 h;

    if (d->req->workspace && d->plan->mount_count > 0)
        source = d->plan->mounts[0].source; /* of all mounts the first */
    if (!source) {
        (void)snprintf(out, 65, "none");
        return;
    }
    if (io_read_at(AT_FDCWD, "/etc/machine-id", machine, sizeof(machine)) <= 0)
        machine[0] = '\0'; /* the path alone will do */
    sha256_init(&h);
    sha256_add(&h, machine, strlen(machine) + 1);
    sha256_add(&h, source, strlen(source));
    sha256_text(&h, out);
    out[SESSION_LEN] = '\0';
}

static int put(char **out, const char *text, struct vial_error *err)
{
    *out = strdup(text);
    return *out ? 0 : fail_memory(err);
}

int labels_build(struct draft *d, struct vial_error *err)
{
    json_t *wanted = preset_get(d->settings->seed, "labels");
    struct plan *plan = d->plan;
    char session[65];

    if (!plan->label_session && json_object_get(wanted, "session")) {
        session_of(d, session);
        if (put(&plan->label_session, session, err) < 0)
            return -1;
    }
    if (!plan->label_task && json_object_get(wanted, "task"))
        return put(&plan->label_task, plan->id + strlen("r-"), err);
    return 0;
}
