/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/tar_stream.h"

#include <errno.h>
#include <string.h>

#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"

#define PIECE (128u << 10)

static la_ssize_t read_outer(struct archive *inner, void *context, const void **data)
{
    struct tar_stream *t = context;
    size_t len = 0;
    la_int64_t offset = 0;
    int rc = archive_read_data_block(t->outer, data, &len, &offset);

    if (rc == ARCHIVE_EOF)
        return 0;
    if (rc != ARCHIVE_OK) {
        const char *why = archive_error_string(t->outer);

        archive_set_error(inner, EIO, "%s", why ? why : "broken");
        return ARCHIVE_FATAL;
    }
    if ((int64_t)len > t->left) {
        t->full = true;
        archive_set_error(inner, EIO, "it is too large");
        return ARCHIVE_FATAL;
    }
    t->left -= (int64_t)len;
    digest_add(&t->digest, *data, len);
    return (la_ssize_t)len;
}

/* The words are a library's, and may hold a stranger's. */
static int say(const char *why, struct vial_error *err)
{
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    text_safe(&state, &safe, why ? why : "", why ? strlen(why) : 0);
    text_safe_end(&state, &safe);
    (void)fail(err, VIAL_E_IMAGE_BAD, "a layer is not a valid archive");
    return fail_cause(err, "%.160s", safe.data ? safe.data : "");
}

int tar_stream_fail(struct tar_stream *t, struct vial_error *err)
{
    if (t->full)
        return fail(err, VIAL_E_IMAGE_BAD,
                    "a layer unpacks to more than the image may have (max_size)");
    return say(archive_error_string(t->inner), err);
}

int tar_stream_open(struct tar_stream *t, int fd, int64_t max_bytes,
                    struct vial_error *err)
{
    struct archive_entry *whole = NULL;
    int rc;

    *t = (struct tar_stream){ .outer = archive_read_new(),
                              .inner = archive_read_new(),
                              .left = max_bytes };
    if (!t->outer || !t->inner)
        return fail_memory(err);
    digest_begin(&t->digest);
    (void)archive_read_support_filter_gzip(t->outer);
    (void)archive_read_support_filter_zstd(t->outer);
    (void)archive_read_support_format_raw(t->outer);
    (void)archive_read_support_format_empty(t->outer);
    (void)archive_read_support_format_tar(t->inner);
    if (archive_read_open_fd(t->outer, fd, PIECE) != ARCHIVE_OK)
        return say(archive_error_string(t->outer), err);
    rc = archive_read_next_header(t->outer, &whole);
    if (rc != ARCHIVE_OK)
        return rc == ARCHIVE_EOF ? say("it is empty", err)
                                 : say(archive_error_string(t->outer), err);
    if (archive_read_open(t->inner, t, NULL, read_outer, NULL) != ARCHIVE_OK)
        return tar_stream_fail(t, err);
    return 0;
}

int tar_stream_next(struct tar_stream *t, struct archive_entry **entry,
                    struct vial_error *err)
{
    int rc = archive_read_next_header(t->inner, entry);

    if (rc == ARCHIVE_EOF)
        return 0;
    return rc == ARCHIVE_OK || rc == ARCHIVE_WARN ? 1 : tar_stream_fail(t, err);
}

int tar_stream_end(struct tar_stream *t, char digest[STORE_DIGEST],
                   struct vial_error *err)
{
    const void *data = NULL;
    la_ssize_t len;

    while ((len = read_outer(t->inner, t, &data)) > 0)
        ;
    if (len < 0)
        return tar_stream_fail(t, err);
    digest_end(&t->digest, digest);
    return 0;
}

void tar_stream_done(struct tar_stream *t)
{
    if (t->inner)
        (void)archive_read_free(t->inner);
    if (t->outer)
        (void)archive_read_free(t->outer);
    digest_done(&t->digest);
}
