/* SPDX-License-Identifier: Apache-2.0 */

/* Files of any size, in and out of sessions, for our own front ends. */

#include "api/inside.h"
#include "engine/session/file_bytes.h"

int inside_put(struct vial_session *session, const char *path,
               const struct inside_source *from, const struct vial_put_options *options,
               struct vial_error *err)
{
    return files_put_from(session, path, options, from->next, from->context, err);
}

int inside_get(struct vial_session *session, const char *path, uint64_t offset,
               uint64_t len, const struct inside_sink *to, struct vial_error *err)
{
    const struct files_sink sink = { to->take, to->context, to->as_root };

    return files_get_to(session, path, offset, len, &sink, err);
}
