/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"

#define CONFIG_MAX ((size_t)1 << 20)
#define ANSWER_MAX ((size_t)64 << 10)

extern char **environ;

static const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text && *text ? text : NULL;
}

static char *config_path(const char *home)
{
    const char *dir = getenv("DOCKER_CONFIG"); /* NOLINT(concurrency-mt-unsafe) */

    if (dir && dir[0] == '/')
        return path_join(dir, "config.json");
    return home ? path_join(home, ".docker/config.json") : NULL;
}

/* A key may be a host, or an address that begins with it. */
static bool is_for(const char *key, const char *host)
{
    size_t len = strlen(host);

    if (str_starts(key, "https://"))
        key += strlen("https://");
    else if (str_starts(key, "http://"))
        key += strlen("http://");
    return strncmp(key, host, len) == 0 && (key[len] == '\0' || key[len] == '/');
}

static json_t *find_for(json_t *object, const char *host)
{
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(object, key, value)
    {
        if (is_for(key, host))
            return value;
    }
    return NULL;
}

/* "user:password" in base64. */
static int read_auth(const char *text, struct credentials *out, struct vial_error *err)
{
    struct blob plain = { 0 };
    char *colon;

    if (text_unbase64(text, strlen(text), &plain) < 0 || !plain.data ||
        strlen(plain.data) != plain.len || !(colon = strchr(plain.data, ':'))) {
        blob_done(&plain);
        return fail(err, VIAL_E_VALUE,
                    "an 'auth' in docker's config.json is not valid");
    }
    *colon = '\0';
    out->user = strdup(plain.data);
    out->password = strdup(colon + 1);
    blob_done(&plain);
    return out->user && out->password ? 0 : fail_memory(err);
}

static int read_entry(json_t *entry, struct credentials *out, struct vial_error *err)
{
    const char *identity = text_at(entry, "identitytoken");
    const char *auth = text_at(entry, "auth");

    if (identity) {
        out->identity = strdup(identity);
        return out->identity ? 0 : fail_memory(err);
    }
    return auth ? read_auth(auth, out, err) : 0;
}

/* Starts `docker-credential-NAME get`, whose stdin is *IN and stdout *OUT. */
static int start_helper(const char *program, int *in, int *out, pid_t *pid)
{
    const char *const args[] = { program, "get", NULL };
    posix_spawn_file_actions_t files;
    int to[2];
    int from[2];
    int rc;

    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        return errno;
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    rc = posix_spawn_file_actions_adddup2(&files, to[0], STDIN_FILENO);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, from[1], STDOUT_FILENO);
    rc = rc ? rc
            : posix_spawnp(pid, program, &files, NULL, (char *const *)(uintptr_t)args,
                           environ);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)close(to[0]);
    (void)close(from[1]);
    *in = to[1];
    *out = from[0];
    return rc;
}

static int take_answer(const struct blob *text, struct credentials *out,
                       struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    const char *user;
    const char *secret;

    if (json_parse(text->data ? text->data : "", text->len,
                   "the credential helper's answer", &answer, err) < 0)
        return -1;
    user = text_at(answer, "Username");
    secret = text_at(answer, "Secret");
    if (!user || !secret)
        return 0;
    if (str_eq(user, "<token>"))
        out->identity = strdup(secret);
    else {
        out->user = strdup(user);
        out->password = strdup(secret);
    }
    return out->identity || (out->user && out->password) ? 0 : fail_memory(err);
}

/* A helper that knows nothing says so by its status: then there is nothing to know. */
static int ask_helper(const char *name, const char *host, struct credentials *out,
                      struct vial_error *err)
{
    auto_free char *program = NULL;
    struct blob text = { 0 };
    auto_fd int in = -1;
    auto_fd int from = -1;
    int status = 0;
    pid_t pid = 0;
    int rc;

    if (strspn(name,
               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
            strlen(name) ||
        asprintf(&program, "docker-credential-%s", name) < 0)
        return fail(err, VIAL_E_VALUE, "'%s' is not a credential helper", name);
    rc = start_helper(program, &in, &from, &pid);
    if (rc != 0)
        return fail_sys_rc(err, -rc, "start the credential helper '%s'", program);
    (void)io_write_all(in, host, strlen(host));
    (void)close(fd_take(&in));
    rc = io_read_fd(from, program, ANSWER_MAX, &text, err);
    (void)waitpid(pid, &status, 0);
    if (rc == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        rc = take_answer(&text, out, err);
    blob_done(&text);
    return rc;
}

int credentials_find(const char *home, const char *host, struct credentials *out,
                     struct vial_error *err)
{
    auto_free char *path = config_path(home);
    auto_json json_t *config = NULL;
    struct blob text = { 0 };
    const char *helper;
    json_t *entry;
    int rc;

    *out = (struct credentials){ 0 };
    if (!path || access(path, R_OK) < 0)
        return 0;
    rc = io_read_file(path, CONFIG_MAX, &text, err);
    rc = rc < 0 ? rc
                : json_parse(text.data ? text.data : "", text.len, path, &config, err);
    blob_done(&text);
    if (rc < 0)
        return -1;
    helper = json_string_value(find_for(json_object_get(config, "credHelpers"), host));
    if (!helper)
        helper = text_at(config, "credsStore");
    if (helper && ask_helper(helper, host, out, err) < 0)
        return -1;
    if (out->user || out->identity)
        return 0;
    entry = find_for(json_object_get(config, "auths"), host);
    return entry ? read_entry(entry, out, err) : 0;
}

void credentials_done(struct credentials *c)
{
    free(c->user);
    free(c->password);
    free(c->identity);
    *c = (struct credentials){ 0 };
}
