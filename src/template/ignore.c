/* SPDX-License-Identifier: Apache-2.0 */
#include "template/ignore.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"

#define IGNORE_BYTES ((size_t)64 << 10)
#define ANYWHERE     "**/"

/* Without blanks around it, "./" and "/" before it, and "/" behind it. */
static void add_pattern(struct ignore *i, char *line)
{
    bool back;
    size_t len;

    line += strspn(line, " \t");
    len = strlen(line);
    while (len > 0 && strchr(" \t\r/", line[len - 1]))
        line[--len] = '\0';
    back = line[0] == '!';
    line += back;
    while (line[0] == '/' || (line[0] == '.' && line[1] == '/'))
        line += line[0] == '/' ? 1 : 2;
    if (!*line || *line == '#')
        return;
    i->takes_back = i->takes_back || back;
    strv_printf(&i->patterns, "%s%s", back ? "!" : "", line);
}

static int read_patterns(struct ignore *i, char *text, const char *name,
                         struct vial_error *err)
{
    char *rest = text;
    unsigned number = 0;

    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        const char *stars = strstr(line, "**");

        number++;
        if (stars && (strncmp(stars, ANYWHERE, 3) != 0 || strstr(stars + 2, "**") ||
                      (stars > line && stars[-1] != '!' && stars[-1] != ' '))) {
            (void)fail(err, VIAL_E_TEMPLATE,
                       "line %u of '%s': '**' stands at the begin of a pattern alone",
                       number, name);
            return fail_remedy(err, "write '**/name'");
        }
        add_pattern(i, line);
    }
    return i->patterns.failed ? fail_memory(err) : 0;
}

int ignore_read(int dir_fd, struct ignore *out, struct vial_error *err)
{
    static const char *const names[] = { ".vialignore", ".dockerignore" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        auto_fd int fd =
            openat(dir_fd, names[i], O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        auto_blob struct blob text = { 0 };

        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0)
            return fail_sys(err, "open '%s'", names[i]);
        if (io_read_fd(fd, names[i], IGNORE_BYTES, &text, err) < 0)
            return -1;
        if (text.len > 0 && memchr(text.data, '\0', text.len))
            return fail(err, VIAL_E_TEMPLATE, "'%s' has a NUL in it: it is not text",
                        names[i]);
        return text.data ? read_patterns(out, text.data, names[i], err) : 0;
    }
    return 0;
}

/* Whether PATTERN means PATH, or a directory that PATH lies in. */
static bool means(const char *pattern, const char *path)
{
    return fnmatch(pattern, path, FNM_PATHNAME | FNM_LEADING_DIR) == 0;
}

static bool means_anywhere(const char *pattern, const char *path)
{
    if (strncmp(pattern, ANYWHERE, 3) != 0)
        return means(pattern, path);
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (means(pattern + 3, at))
            return true;
    }
    return false;
}

bool ignore_matches(const struct ignore *i, const char *path)
{
    bool ignored = false;

    for (size_t n = 0; n < i->patterns.count; n++) {
        const char *pattern = i->patterns.items[n];
        bool back = pattern[0] == '!';

        if (means_anywhere(pattern + back, path))
            ignored = !back;
    }
    return ignored;
}

void ignore_done(struct ignore *i)
{
    strv_done(&i->patterns);
}
