/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "engine/session/session.h"
#include "model/result.h"

#include "vial/files.h"

#define COUNT_MAX   256u
#define IMAGE_MAX   (UINT64_C(4) << 20)
#define INLINED_MAX (UINT64_C(16) << 20) /* of all images together */

/* The content of an image, unless it is too large or has changed since. */
static void add_image(struct vial_session *s, const char *dir, const char *name,
                      struct vial_artifact *a, uint64_t *inlined)
{
    auto_str struct str path = { 0 };
    size_t got = 0;
    char *data = NULL;

    if (!str_starts(a->media, "image/") || a->size > IMAGE_MAX ||
        *inlined + a->size > INLINED_MAX)
        return;
    str_puts(&path, str_eq(dir, ".") ? "" : dir);
    str_puts(&path, path.len ? "/" : "");
    str_puts(&path, name);
    if (!str_ok(&path) || vial_session_get(s, path.data, 0, 0, &data, &got, NULL) < 0)
        return;
    if (got != a->size) {
        free(data);
        return;
    }
    a->data = data;
    *inlined += a->size;
}

int vial_session_artifacts(struct vial_session *session, const char *path,
                           const struct vial_entries *before, char **json,
                           struct vial_error *err)
{
    struct vial_entries found = { 0 };
    auto_json json_t *list = NULL;
    uint64_t inlined = 0;

    if (vial_session_changes(session, path, before, &found, err) < 0)
        return -1;
    list = json_array();
    for (size_t i = 0; i < found.count && i < COUNT_MAX; i++) {
        struct vial_entry *e = &found.items[i];
        struct vial_artifact a = { .path = e->path,
                                   .media = e->media,
                                   .size = e->size };

        memcpy(a.sha256, e->sha256, sizeof a.sha256);
        add_image(session, path, e->path, &a, &inlined);
        (void)json_array_append_new(list, artifact_json(&a));
        free(a.data);
    }
    *json = json_array_size(list) == (found.count < COUNT_MAX ? found.count : COUNT_MAX)
                ? json_dumps(list, JSON_COMPACT)
                : NULL;
    vial_entries_free(&found);
    return *json ? 0 : fail_memory(err);
}
