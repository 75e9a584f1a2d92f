/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"

char *path_join(const char *dir, const char *name)
{
    auto_str struct str s = { 0 };

    str_puts(&s, dir);
    if (s.len > 0 && s.data[s.len - 1] != '/')
        str_putc(&s, '/');
    while (*name == '/')
        name++;
    str_puts(&s, name);
    return str_take(&s);
}

static bool is_dots(const char *part, size_t len)
{
    return (len == 1 && part[0] == '.') ||
           (len == 2 && part[0] == '.' && part[1] == '.');
}

bool path_is_plain_relative(const char *path, size_t len)
{
    size_t start = 0;

    if (len == 0 || len >= PATH_MAX || memchr(path, '\0', len))
        return false;
    while (start <= len) {
        const char *slash = start < len ? memchr(path + start, '/', len - start) : NULL;
        size_t end = slash ? (size_t)(slash - path) : len;

        if (end == start || end - start > NAME_MAX ||
            is_dots(path + start, end - start))
            return false;
        start = end + 1;
    }
    return true;
}

bool path_is_clean_absolute(const char *path)
{
    const char *at = path;

    if (*at != '/')
        return false;
    while (*at == '/') {
        size_t len = strcspn(++at, "/");

        if (is_dots(at, len) || (len == 0 && *at == '/'))
            return false;
        at += len;
    }
    return true;
}

bool path_is_beneath(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    while (len > 0 && dir[len - 1] == '/')
        len--;
    if (strncmp(path, dir, len) != 0)
        return false;
    return path[len] == '/' || path[len] == '\0';
}

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *path_find_program(const char *name, const char *search)
{
    if (*name == '\0')
        return NULL;
    if (strchr(name, '/'))
        return is_program(name) ? strdup(name) : NULL;
    while (*search) {
        size_t len = strcspn(search, ":");
        auto_str struct str dir = { 0 };
        auto_free char *path = NULL;

        /* An empty entry would mean the current directory; it is skipped. */
        if (len > 0) {
            str_add(&dir, search, len);
            path = str_ok(&dir) ? path_join(dir.data, name) : NULL;
        }
        if (path && is_program(path))
            return ptr_take(&path);
        search += len;
        search += *search == ':';
    }
    return NULL;
}

size_t path_repository(const char *dir)
{
    for (size_t len = strlen(dir); len > 1; len--) {
        char git[PATH_MAX];
        struct stat st;

        if ((dir[len] != '/' && dir[len] != '\0') ||
            len + sizeof("/.git") > sizeof(git))
            continue;
        (void)snprintf(git, sizeof(git), "%.*s/.git", (int)len, dir);
        if (lstat(git, &st) == 0)
            return len;
    }
    return 0;
}

char *path_self_dir(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);

    if (n <= 0 || (size_t)n >= sizeof path)
        return NULL;
    while (n > 1 && path[n - 1] != '/')
        n--;
    if (n > 1)
        n--;
    return strndup(path, (size_t)n);
}

char *path_own_program(const char *name)
{
    auto_free char *self = path_self_dir();
    auto_free char *beside = self ? path_join(self, name) : NULL;

    if (beside && access(beside, X_OK) == 0)
        return ptr_take(&beside);
    return path_join(VIAL_SHARE_DIR, name);
}

const char *path_media(const char *path)
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
