/* SPDX-License-Identifier: Apache-2.0 */
#include "base/media.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

const char *media_of(const char *path)
{
    static const struct {
        const char *ending, *media;
    } kinds[] = { { "png", "image/png" },        { "jpg", "image/jpeg" },
                  { "jpeg", "image/jpeg" },      { "gif", "image/gif" },
                  { "svg", "image/svg+xml" },    { "webp", "image/webp" },
                  { "pdf", "application/pdf" },  { "json", "application/json" },
                  { "csv", "text/csv" },         { "html", "text/html" },
                  { "md", "text/markdown" },     { "txt", "text/plain" },
                  { "log", "text/plain" },       { "py", "text/x-python" },
                  { "js", "text/javascript" },   { "xml", "application/xml" },
                  { "zip", "application/zip" },  { "gz", "application/gzip" },
                  { "tar", "application/x-tar" } };
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++)
        if (strcasecmp(dot + 1, kinds[i].ending) == 0)
            return kinds[i].media;
    return "application/octet-stream";
}
