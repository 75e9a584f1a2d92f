/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/str.h"

#define CODE_MAX ((size_t)64 << 20)

/* The language whose programs end in ENDING (".py"), or NULL. */
static const char *language_of(const struct settings *s, const char *ending)
{
    for (size_t i = 0; i < s->languages.count; i++) {
        const struct language *l = &s->languages.items[i];
        const char *dot = l->file ? strrchr(l->file, '.') : NULL;

        if (dot && strcmp(dot, ending) == 0)
            return l->name;
    }
    return NULL;
}

static int add_program(FILE *rows, const char *dir, const char *name,
                       const char *language, struct vial_error *err)
{
    auto_str struct str path = { 0 };
    auto_json json_t *row = NULL;
    struct blob code = { 0 };
    int rc;

    str_printf(&path, "%s/%s", dir, name);
    if (!str_ok(&path))
        return fail_memory(err);
    if (io_read_file(path.data, CODE_MAX, &code, err) < 0)
        return -1;
    row = json_pack("{s:s, s:s, s:o}", "id", name, "language", language, "code",
                    json_stringn(code.data ? code.data : "", code.len));
    blob_done(&code);
    if (!row)
        return fail(err, VIAL_E_VALUE, "'%s' is not text in UTF-8", path.data);
    rc = json_dumpf(row, rows, JSON_COMPACT) < 0 || fputc('\n', rows) == EOF;
    return rc ? fail_sys(err, "gather the programs") : 0;
}

/* A directory's programs, as rows of a file that has no name. */
static int open_directory(struct batch_files *f, const char *path,
                          const struct settings *settings, struct vial_error *err)
{
    struct dirent **names = NULL;
    int count = scandir(path, &names, NULL, alphasort);
    int rc = count < 0 ? fail_sys(err, "read '%s'", path) : 0;

    f->in = rc == 0 ? tmpfile() : NULL;
    if (rc == 0 && !f->in)
        rc = fail_sys(err, "make a temporary file");
    for (int i = 0; i < count; i++) {
        const char *dot = strrchr(names[i]->d_name, '.');
        const char *language = dot && settings ? language_of(settings, dot) : NULL;

        if (rc == 0 && language)
            rc = add_program(f->in, path, names[i]->d_name, language, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

static bool is_packed(const char *path)
{
    size_t len = strlen(path);

    return len > 3 && strcmp(path + len - 3, ".gz") == 0;
}

/* The host's gzip, from FROM to TO. It has a process group of its own: Ctrl-C shall not
 * end it before what was written is packed. */
static int start_gzip(const char *how, int from, int to, pid_t *out,
                      struct vial_error *err)
{
    char *const argv[] = { (char *)(uintptr_t) "gzip", (char *)(uintptr_t)how, NULL };
    posix_spawn_file_actions_t moves;
    posix_spawnattr_t attr;
    int rc;

    if (posix_spawn_file_actions_init(&moves) != 0)
        return fail_memory(err);
    if (posix_spawnattr_init(&attr) != 0) {
        (void)posix_spawn_file_actions_destroy(&moves);
        return fail_memory(err);
    }
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    (void)posix_spawn_file_actions_adddup2(&moves, from, STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&moves, to, STDOUT_FILENO);
    rc = posix_spawnp(out, "gzip", &moves, &attr, argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&moves);
    errno = rc;
    if (rc == 0)
        return 0;
    *out = 0;
    (void)fail_sys(err, "start gzip");
    return fail_remedy(err, "install gzip, or name files that do not end in .gz");
}

static int unpack(struct batch_files *f, struct vial_error *err)
{
    int ends[2];
    int rc;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail_sys(err, "open a pipe");
    rc = start_gzip("-dc", fileno(f->in), ends[1], &f->unpacker, err);
    (void)close(ends[1]);
    (void)fclose(f->in);
    f->in = fdopen(ends[0], "r");
    if (!f->in)
        (void)close(ends[0]);
    return rc < 0 || f->in ? rc : fail_sys(err, "open a pipe");
}

static int pack(struct batch_files *f, struct vial_error *err)
{
    int ends[2];
    int rc;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail_sys(err, "open a pipe");
    rc = start_gzip("-c", ends[0], f->out_fd, &f->packer, err);
    (void)close(ends[0]);
    (void)close(f->out_fd);
    f->out_fd = ends[1];
    return rc;
}

int batch_files_in(struct batch_files *f, const char *path,
                   const struct settings *settings, struct vial_error *err)
{
    struct stat st;

    if (!path || strcmp(path, "-") == 0) {
        f->in = stdin;
        return 0;
    }
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_directory(f, path, settings, err);
    f->in = fopen(path, "re");
    if (f->in)
        return is_packed(path) ? unpack(f, err) : 0;
    (void)fail_sys(err, "open '%s'", path);
    return fail_remedy(err, "name a file with one JSON object a line, or a directory "
                            "of programs");
}

int batch_files_out(struct batch_files *f, const char *path, bool resume,
                    struct vial_error *err)
{
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | (resume ? 0 : O_EXCL);
    bool is_there;

    if (path && resume && is_packed(path)) {
        (void)fail(err, VIAL_E_USAGE,
                   "--resume cannot go on with a file that is packed, as '%s' is",
                   path);
        return fail_remedy(err, "unpack it first: 'gunzip %s'", path);
    }
    f->out_fd = path ? open(path, flags, 0666) : STDOUT_FILENO;
    if (f->out_fd >= 0)
        return path && is_packed(path) ? pack(f, err) : 0;
    is_there = errno == EEXIST;
    (void)fail_sys(err, "make '%s'", path);
    return fail_remedy(err, "%s",
                       is_there ? "--resume goes on with it; or name another file"
                                : "name a file in a directory that you can write to");
}

static int wait_for_gzip(pid_t *pid, const char *what, struct vial_error *err)
{
    int status = 0;
    pid_t child = *pid;

    *pid = 0;
    if (child <= 0 || (waitpid(child, &status, 0) == child && status == 0))
        return 0;
    return fail(err, VIAL_E_FILE, "gzip could not %s", what);
}

int batch_files_close(struct batch_files *f, struct vial_error *err)
{
    int rc;

    if (f->in && f->in != stdin)
        (void)fclose(f->in);
    if (f->out_fd > STDERR_FILENO)
        (void)close(f->out_fd);
    f->in = NULL;
    f->out_fd = -1;
    rc = wait_for_gzip(&f->packer, "pack the output", err);
    return f->unpacker && wait_for_gzip(&f->unpacker, "unpack the input", err) < 0 ? -1
                                                                                   : rc;
}
