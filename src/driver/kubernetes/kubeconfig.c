/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/kubeconfig.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "http/http.h"

/* The files, in kubectl's order: what an earlier one says, a later one does not change.
 */
struct files {
    json_t *items[CLUSTER_FILES_MAX];
    char *dirs[CLUSTER_FILES_MAX]; /* names in a file are relative to it */
    size_t count;
};

/* An entry of one of its lists, and where the file lies that has it. */
struct entry {
    json_t *value;
    const char *dir;
};

void cluster_done(struct cluster *c)
{
    blob_done(&c->ca);
    blob_done(&c->cert);
    blob_done(&c->key);
    free(c->cert_file);
    free(c->key_file);
    free(c->token);
    free(c->token_file);
    strv_done(&c->exec);
    strv_done(&c->exec_env);
    free(c->exec_version);
    *c = (struct cluster){ 0 };
}

static void files_done(struct files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        json_decref(f->items[i]);
        free(f->dirs[i]);
    }
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text && *text ? text : NULL;
}

static int no_cluster(struct vial_error *err)
{
    (void)fail(err, VIAL_E_CLUSTER_CONFIG, "no Kubernetes cluster is configured");
    return fail_remedy(err, "name a file of kubectl's by KUBECONFIG, or put it at "
                            "~/.kube/config");
}

static int not_right(const char *what, const char *name, struct vial_error *err)
{
    (void)fail(err, VIAL_E_CLUSTER_CONFIG, "the kubeconfig has no %s '%s'", what, name);
    return fail_remedy(err, "see 'kubectl config view', or choose another context by "
                            "VIAL_KUBERNETES_CONTEXT");
}

static int not_carried(const char *what, const char *remedy, struct vial_error *err)
{
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "driver 'kubernetes' does not support %s in a kubeconfig", what);
    return fail_remedy(err, "%s", remedy);
}

static int add_file(struct files *f, const char *path, struct vial_error *err)
{
    const char *slash = strrchr(path, '/');
    json_t *value = NULL;
    char *dir;

    if (f->count >= CLUSTER_FILES_MAX) {
        (void)fail(err, VIAL_E_CLUSTER_CONFIG, "KUBECONFIG names more than %d files",
                   CLUSTER_FILES_MAX);
        return fail_remedy(err, "merge them: 'kubectl config view --flatten'");
    }
    if (yaml_read(path, &value, err) < 0)
        return fail_as(err, VIAL_E_CLUSTER_CONFIG);
    dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("");
    if (!dir) {
        json_decref(value);
        return fail_memory(err);
    }
    f->items[f->count] = value;
    f->dirs[f->count++] = dir;
    return 0;
}

/* Files that are not there are passed over, as kubectl does. */
static int add_files(struct files *f, const char *list, struct vial_error *err)
{
    while (*list) {
        size_t len = strcspn(list, ":");
        auto_free char *path = strndup(list, len);

        if (!path)
            return fail_memory(err);
        if (len > 0 && access(path, F_OK) == 0 && add_file(f, path, err) < 0)
            return -1;
        list += len + (list[len] == ':');
    }
    return 0;
}

static const char *current_context(const struct files *f)
{
    const char *found = NULL;

    for (size_t i = 0; !found && i < f->count; i++)
        found = text_of(f->items[i], "current-context");
    return found;
}

/* From the list LIST its entry NAME, whose content is under KEY. */
static struct entry find(const struct files *f, const char *list, const char *key,
                         const char *name)
{
    json_t *item = NULL;
    size_t n = 0;

    for (size_t i = 0; name && i < f->count; i++) {
        json_array_foreach(json_object_get(f->items[i], list), n, item)
        {
            json_t *value = json_object_get(item, key);

            if (str_eq(text_of(item, "name"), name) && json_is_object(value))
                return (struct entry){ value, f->dirs[i] };
        }
    }
    return (struct entry){ NULL, "" };
}

static int read_secret_file(const char *path, struct blob *out, struct vial_error *err)
{
    if (io_read_file(path, CLUSTER_SECRET_MAX, out, err) < 0)
        return fail_as(err, VIAL_E_CLUSTER_CONFIG);
    if (out->len > 0)
        return 0;
    (void)fail(err, VIAL_E_CLUSTER_CONFIG, "the file '%s' is empty", path);
    return fail_remedy(err, "write it anew, or name another one in the kubeconfig");
}

static char *beside(const char *dir, const char *path)
{
    auto_str struct str whole = { 0 };

    str_printf(&whole, "%s%s", path[0] == '/' ? "" : dir, path);
    return str_take(&whole);
}

/* KEY names a file; KEY-data has its content in base64, and counts more. *FILE is that
 * file, if it was read; FILE may be NULL. */
static int read_pem(struct entry e, const char *key, struct blob *out, char **file,
                    struct vial_error *err)
{
    auto_str struct str data_key = { 0 };
    auto_free char *path = NULL;
    const char *data;

    str_printf(&data_key, "%s-data", key);
    if (!str_ok(&data_key))
        return fail_memory(err);
    data = text_of(e.value, data_key.data);
    if (data && (strlen(data) > (size_t)2 * CLUSTER_SECRET_MAX ||
                 text_unbase64(data, strlen(data), out) < 0 || out->len == 0)) {
        (void)fail(err, VIAL_E_CLUSTER_CONFIG, "'%s' of the kubeconfig is not base64",
                   data_key.data);
        return fail_remedy(err, "look at it with 'kubectl config view --raw'");
    }
    if (data || !text_of(e.value, key))
        return 0;
    path = beside(e.dir, text_of(e.value, key));
    if (!path)
        return fail_memory(err);
    if (read_secret_file(path, out, err) < 0)
        return -1;
    if (file)
        *file = ptr_take(&path);
    return 0;
}

static int put(char *out, size_t size, const char *text, const char *what,
               struct vial_error *err)
{
    if (snprintf(out, size, "%s", text) < (int)size)
        return 0;
    return fail(err, VIAL_E_CLUSTER_CONFIG,
                "%s of the kubeconfig is longer than %zu bytes", what, size - 1);
}

static bool is_path(const char *text)
{
    return !*text ||
           (*text == '/' && path_is_clean_absolute(text) &&
            strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789-._~/%:") == strlen(text));
}

int cluster_read_server(struct cluster *out, const char *text, struct vial_error *err)
{
    static const char secure[] = "https://", plain[] = "http://";
    struct http_peer peer = { .tls = str_starts(text, secure) };
    const char *rest = peer.tls                  ? text + strlen(secure)
                       : str_starts(text, plain) ? text + strlen(plain)
                                                 : "";
    char place[300];
    size_t len;

    len = strcspn(rest, "/");
    (void)snprintf(place, sizeof(place), "%.*s", (int)(len < 300 ? len : 299), rest);
    if (strlen(rest + len) >= sizeof(out->prefix))
        place[0] = '\0';
    (void)snprintf(out->prefix, sizeof(out->prefix), "%s", rest + len);
    len = strlen(out->prefix);
    if (len > 0 && out->prefix[len - 1] == '/')
        out->prefix[len - 1] = '\0';
    if (!place[0] || !is_path(out->prefix) ||
        http_peer_parse(&peer, place, peer.tls ? "443" : "80") < 0) {
        (void)fail(err, VIAL_E_CLUSTER_CONFIG,
                   "the cluster's server '%.100s' is not https://HOST[:PORT][/PATH]",
                   text);
        return fail_remedy(err, "see 'kubectl config view'");
    }
    if (!peer.tls && !http_is_loopback(peer.host))
        return not_carried("a server without TLS on another host",
                           "use its https:// address", err);
    memcpy(out->host, peer.host, sizeof(out->host));
    memcpy(out->port, peer.port, sizeof(out->port));
    memcpy(out->name, peer.host, sizeof(out->name));
    out->tls = peer.tls;
    return 0;
}

static int read_cluster(struct cluster *out, struct entry e, struct vial_error *err)
{
    const char *server = text_of(e.value, "server");
    const char *name = text_of(e.value, "tls-server-name");

    if (json_is_true(json_object_get(e.value, "insecure-skip-tls-verify")))
        return not_carried("'insecure-skip-tls-verify'",
                           "name the authority that signed the server's certificate as "
                           "'certificate-authority'",
                           err);
    if (text_of(e.value, "proxy-url"))
        return not_carried("'proxy-url'", "use a cluster that is reached directly",
                           err);
    if (!server)
        return not_right("server of the cluster", "", err);
    if (cluster_read_server(out, server, err) < 0 ||
        read_pem(e, "certificate-authority", &out->ca, NULL, err) < 0)
        return -1;
    return name ? put(out->name, sizeof(out->name), name, "tls-server-name", err) : 0;
}

/* It stands in a line of an HTTP head. */
static bool is_token(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if (!isgraph((unsigned char)text[i]))
            return false;
    return len > 0 && len < CLUSTER_SECRET_MAX;
}

static int set_token(struct cluster *out, const char *text, struct vial_error *err)
{
    if (!is_token(text)) {
        (void)fail(err, VIAL_E_CLUSTER_CONFIG, "the cluster's token is not valid text");
        return fail_remedy(err, "renew the credentials of the kubeconfig's user");
    }
    free(out->token);
    out->token = strdup(text);
    return out->token ? 0 : fail_memory(err);
}

int cluster_read_token(struct cluster *c, struct vial_error *err)
{
    auto_blob struct blob text = { 0 };

    if (read_secret_file(c->token_file, &text, err) < 0)
        return -1;
    text.data[strcspn(text.data, "\r\n")] = '\0';
    return set_token(c, text.data, err);
}

static bool is_same(const struct blob *a, const struct blob *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static void replace(struct blob *old, struct blob *new)
{
    const struct blob was = *old;

    *old = *new;
    *new = was;
}

int cluster_read_certificate(struct cluster *c, struct vial_error *err)
{
    auto_blob struct blob cert = { 0 };
    auto_blob struct blob key = { 0 };

    if (!c->cert_file || !c->key_file)
        return 0;
    if (read_secret_file(c->cert_file, &cert, err) < 0 ||
        read_secret_file(c->key_file, &key, err) < 0)
        return -1;
    if (is_same(&cert, &c->cert) && is_same(&key, &c->key))
        return 0;
    replace(&c->cert, &cert);
    replace(&c->key, &key);
    return 1;
}

static int read_token_file(struct cluster *out, const char *path,
                           struct vial_error *err)
{
    out->token_file = strdup(path);
    return out->token_file ? cluster_read_token(out, err) : fail_memory(err);
}

static int refuse_user(json_t *user, struct vial_error *err)
{
    static const struct {
        const char *key, *remedy;
    } rows[] = {
        { "username", "use a certificate, a token or an exec plugin" },
        { "password", "use a certificate, a token or an exec plugin" },
        { "auth-provider", "use the provider's exec plugin" },
        { "as", "use credentials of that user's own" },
        { "as-uid", "use credentials of that user's own" },
        { "as-groups", "use credentials of that user's own" },
        { "as-user-extra", "use credentials of that user's own" },
    };
    char what[40];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        if (!json_object_get(user, rows[i].key))
            continue;
        (void)snprintf(what, sizeof(what), "'%s'", rows[i].key);
        return not_carried(what, rows[i].remedy, err);
    }
    return 0;
}

static int read_exec(struct cluster *out, struct entry e, struct vial_error *err)
{
    json_t *exec = json_object_get(e.value, "exec");
    const char *command = text_of(exec, "command");
    const char *version = text_of(exec, "apiVersion");
    auto_free char *path = NULL;
    json_t *item = NULL;
    size_t i = 0;

    if (!exec)
        return 0;
    if (!command || !version || !str_starts(version, "client.authentication.k8s.io/v1"))
        return not_right("exec plugin with", "command and apiVersion", err);
    /* With a slash in it the name is a path, and relative to the file. */
    path = strchr(command, '/') ? beside(e.dir, command) : strdup(command);
    if (!path)
        return fail_memory(err);
    strv_push(&out->exec, path);
    json_array_foreach(json_object_get(exec, "args"), i, item)
    {
        if (json_is_string(item))
            strv_push(&out->exec, json_string_value(item));
    }
    json_array_foreach(json_object_get(exec, "env"), i, item)
    {
        const char *value = json_string_value(json_object_get(item, "value"));

        if (text_of(item, "name"))
            strv_printf(&out->exec_env, "%s=%s", text_of(item, "name"),
                        value ? value : "");
    }
    out->exec_version = strdup(version);
    return out->exec_version && strv_ok(&out->exec) && !out->exec_env.failed
               ? 0
               : fail_memory(err);
}

static int read_user(struct cluster *out, struct entry e, struct vial_error *err)
{
    const char *token = text_of(e.value, "token");
    const char *token_file = text_of(e.value, "tokenFile");
    auto_free char *path = token_file ? beside(e.dir, token_file) : NULL;

    if (refuse_user(e.value, err) < 0 ||
        read_pem(e, "client-certificate", &out->cert, &out->cert_file, err) < 0 ||
        read_pem(e, "client-key", &out->key, &out->key_file, err) < 0)
        return -1;
    if ((out->cert.len > 0) != (out->key.len > 0))
        return not_right("client-key, or client-certificate, beside", "the other", err);
    if (path && read_token_file(out, path, err) < 0)
        return -1;
    if (!path && token && set_token(out, token, err) < 0)
        return -1;
    return read_exec(out, e, err);
}

static int bad_namespace(const char *text, struct vial_error *err)
{
    (void)fail(err, VIAL_E_CLUSTER_CONFIG, "'%.80s' is not a namespace's name", text);
    return fail_remedy(err, "write small letters, digits and '-': see "
                            "VIAL_KUBERNETES_NAMESPACE and the kubeconfig's context");
}

/* A DNS label. */
static int set_namespace(struct cluster *out, const char *text, struct vial_error *err)
{
    size_t len = strlen(text);

    if (len == 0 || len >= sizeof(out->namespace) || text[0] == '-' ||
        text[len - 1] == '-' ||
        strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
        return bad_namespace(text, err);
    memcpy(out->namespace, text, len + 1);
    return 0;
}

static int read_context(struct cluster *out, const struct files *f,
                        const struct cluster_source *from, struct vial_error *err)
{
    const char *name = from->context ? from->context : current_context(f);
    struct entry context = find(f, "contexts", "context", name);
    const char *of = text_of(context.value, "cluster");
    const char *as = text_of(context.value, "user");
    const char *namespace = text_of(context.value, "namespace");
    struct entry cluster = find(f, "clusters", "cluster", of);
    struct entry user = find(f, "users", "user", as);

    if (!context.value)
        return not_right("context", name ? name : "", err);
    if (!cluster.value)
        return not_right("cluster", of ? of : "", err);
    if (as && !user.value)
        return not_right("user", as, err);
    if (read_cluster(out, cluster, err) < 0 || (as && read_user(out, user, err) < 0))
        return -1;
    if (!out->tls && (out->token || out->cert.len || out->exec.count))
        return not_carried("credentials for a server without TLS",
                           "use its https:// address", err);
    namespace = from->namespace ? from->namespace : namespace;
    return set_namespace(out, namespace ? namespace : "default", err);
}

/* As Kubernetes has it in each pod that has an account: three files. */
static int read_account(struct cluster *out, const struct cluster_source *from,
                        struct vial_error *err)
{
    auto_free char *ca = path_join(from->account_dir, "ca.crt");
    auto_free char *token = path_join(from->account_dir, "token");
    auto_free char *space = path_join(from->account_dir, "namespace");
    auto_blob struct blob name = { 0 };
    auto_str struct str server = { 0 };

    str_printf(&server, strchr(from->host, ':') ? "https://[%s]:%s" : "https://%s:%s",
               from->host, from->port ? from->port : "443");
    if (!ca || !token || !space || !str_ok(&server))
        return fail_memory(err);
    if (cluster_read_server(out, server.data, err) < 0 ||
        read_secret_file(ca, &out->ca, err) < 0 || read_token_file(out, token, err) < 0)
        return -1;
    if (read_secret_file(space, &name, err) < 0)
        return -1;
    name.data[strcspn(name.data, "\r\n")] = '\0';
    if (set_namespace(out, from->namespace ? from->namespace : name.data, err) < 0)
        return -1;
    out->at_home = str_eq(out->namespace, name.data);
    return 0;
}

static int list_files(struct files *f, const struct cluster_source *from,
                      struct vial_error *err)
{
    auto_free char *usual = NULL;

    if (from->kubeconfig && from->kubeconfig[0])
        return add_files(f, from->kubeconfig, err);
    usual = from->home ? path_join(from->home, ".kube/config") : NULL;
    return usual ? add_files(f, usual, err) : 0;
}

int cluster_read(struct cluster *out, const struct cluster_source *from,
                 struct vial_error *err)
{
    struct files f = { .count = 0 };
    int rc = list_files(&f, from, err);

    if (rc == 0 && f.count > 0)
        rc = read_context(out, &f, from, err);
    else if (rc == 0 && from->account_dir && from->host)
        rc = read_account(out, from, err);
    else if (rc == 0)
        rc = no_cluster(err);
    files_done(&f);
    return rc;
}

int64_t cluster_time(const char *text)
{
    struct tm t = { 0 };
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &t) : NULL;

    return end && !*end ? (int64_t)timegm(&t) : 0;
}

static int bad_credential(const struct cluster *c, struct vial_error *err)
{
    (void)fail(err, VIAL_E_CLUSTER_CONFIG,
               "the exec plugin '%s' gave no credential of version '%s'",
               c->exec.items[0], c->exec_version);
    return fail_remedy(err, "let the kubeconfig name the version that it gives");
}

int cluster_take_credential(struct cluster *out, const char *text, size_t len,
                            struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    json_t *status;
    const char *token, *cert, *key;

    /* Words about it could quote what is secret in it. */
    if (json_parse(text, len, "the exec plugin's answer", &answer, NULL) < 0)
        return bad_credential(out, err);
    status = json_object_get(answer, "status");
    token = text_of(status, "token");
    cert = text_of(status, "clientCertificateData");
    key = text_of(status, "clientKeyData");
    if (!str_eq(text_of(answer, "apiVersion"), out->exec_version) ||
        !str_eq(text_of(answer, "kind"), "ExecCredential") || (!token && !cert) ||
        !cert != !key)
        return bad_credential(out, err);
    if (token && set_token(out, token, err) < 0)
        return -1;
    out->ends_s = cluster_time(text_of(status, "expirationTimestamp"));
    if (!cert)
        return 0;
    blob_done(&out->cert);
    blob_done(&out->key);
    return blob_set(&out->cert, cert, strlen(cert)) < 0 ||
                   blob_set(&out->key, key, strlen(key)) < 0
               ? fail_memory(err)
               : 0;
}
