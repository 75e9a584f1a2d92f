/* SPDX-License-Identifier: Apache-2.0 */

/* What lies in a volume, for who has its key. Each call has a vessel of its own that
 * shows the volume, and ends with it (docs/adr/0127): a volume's files are reached as
 * programs reach them, and by nothing else. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/unit.h"
#include "e2b/builds.h"
#include "e2b/control.h"
#include "e2b/filesystem.h"
#include "e2b/volume_seen.h"
#include "model/value.h"

#define TOP       "/volume"
#define SECONDS   3600
#define MODE_MOST 07777
#define OWNER     1000 /* whose all files are that calls make */

struct content {
    struct ask *ask;
    struct str path; /* as the client has it, plain: "/a" */
    struct str at;   /* in the vessel */
    int64_t mode;    /* or -1 */
    int64_t uid, gid;
    int64_t depth;
    bool force;
    bool told; /* it was answered already */
    unsigned status;
    json_t *answer;
};

typedef int content_act(struct content *c, struct vial_error *err);

/* "/a" and "a" are the same; a volume has nothing above its top. */
static int read_path(struct content *c, const char *given, struct vial_error *err)
{
    auto_str struct str below = { 0 };
    struct connect_error e;

    if (!given || !*given)
        return fail(err, VIAL_E_VALUE, "'path' is missing");
    str_printf(&below, "./%s", given);
    if (!str_ok(&below))
        return fail_memory(err);
    if (box_path("/", below.data, &c->path, &e) < 0)
        return fail(err, VIAL_E_VALUE, "%s", e.message);
    str_printf(&c->at, "%s%s", TOP, strcmp(c->path.data, "/") == 0 ? "" : c->path.data);
    return str_ok(&c->at) ? 0 : fail_memory(err);
}

static int read_number(struct content *c, const char *name, int64_t most, int64_t *out,
                       struct vial_error *err)
{
    const char *text = web_query(c->ask->web, name);

    if (text && (unit_parse_count(text, out) < 0 || *out > most))
        return fail(err, VIAL_E_VALUE, "'%s' is not a number up to %" PRId64, name,
                    most);
    return 0;
}

static int read_member(const json_t *body, const char *name, int64_t most, int64_t *out,
                       struct vial_error *err)
{
    const json_t *value = json_object_get(body, name);

    if (!value || json_is_null(value))
        return 0;
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0 && *out <= most
               ? 0
               : fail(err, VIAL_E_VALUE, "'%s' is not a number up to %" PRId64, name,
                      most);
}

static int read_change(struct content *c, struct vial_error *err)
{
    static const char *const known[] = { "uid", "gid", "mode" };
    auto_json json_t *body = NULL;

    return ask_body(c->ask, &body, err) < 0 ||
                   ask_check_members(body, known, 3, "", err) < 0 ||
                   read_member(body, "uid", UINT32_MAX, &c->uid, err) < 0 ||
                   read_member(body, "gid", UINT32_MAX, &c->gid, err) < 0 ||
                   read_member(body, "mode", MODE_MOST, &c->mode, err) < 0
               ? -1
               : 0;
}

/* All of it is judged before a vessel is opened. */
static int read_wanted(struct content *c, struct vial_error *err)
{
    const char *force = web_query(c->ask->web, "force");

    c->force = force && strcmp(force, "true") == 0;
    if (read_path(c, web_query(c->ask->web, "path"), err) < 0 ||
        read_number(c, "depth", UINT32_MAX, &c->depth, err) < 0 ||
        read_number(c, "mode", MODE_MOST, &c->mode, err) < 0 ||
        read_number(c, "uid", UINT32_MAX, &c->uid, err) < 0 ||
        read_number(c, "gid", UINT32_MAX, &c->gid, err) < 0)
        return -1;
    return strcmp(web_method(c->ask->web), "PATCH") == 0 ? read_change(c, err) : 0;
}

static int check_owner(const struct content *c, int64_t uid, int64_t gid,
                       struct vial_error *err)
{
    if ((c->uid < 0 || c->uid == uid) && (c->gid < 0 || c->gid == gid))
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "another owner ('uid', 'gid') is not supported by this server: "
               "files of these calls are those of %d:%d",
               OWNER, OWNER);
    return fail_remedy(err, "change it by a command of a sandbox that has the volume");
}

static int missing(const struct content *c, struct vial_error *err)
{
    fail_clear(err);
    return fail(err, VIAL_E_NO_FILE, "path '%.256s' not found", c->path.data);
}

static struct vial_session *session(const struct content *c)
{
    return box_session(c->ask->box);
}

/* 1; 0: it is not there; -1. */
static int look(struct content *c, const char *at, struct vial_entry *out,
                struct vial_error *err)
{
    if (vial_session_stat(session(c), at, out, err) == 0)
        return 1;
    if (!fail_is(err, VIAL_E_NO_FILE))
        return -1;
    fail_clear(err);
    return 0;
}

/* The same of what is at AT by its type alone. */
static int look_type(struct content *c, const char *at, char *type,
                     struct vial_error *err)
{
    struct vial_entry entry = { 0 };
    int rc = look(c, at, &entry, err);

    *type = entry.type;
    vial_entry_done(&entry);
    return rc;
}

static const char *type_of(char type)
{
    return type == 'f'   ? "file"
           : type == 'd' ? "directory"
           : type == 'l' ? "symlink"
                         : "unknown";
}

/* A file's other times are not known here: all are the one of its last change. */
static json_t *stat_json(const struct ask *a, const char *path,
                         const struct vial_entry *entry)
{
    const char *name = strrchr(path, '/') + 1;
    char time[CONTROL_STAMP];
    json_t *json;

    (void)a;
    control_stamp((int64_t)(entry->mtime_ns / 1000000), time);
    json =
        json_pack("{s:o, s:s, s:o, s:I, s:i, s:I, s:I, s:s, s:s, s:s}", "name",
                  value_text_json(*name ? name : "/", *name ? strlen(name) : 1), "type",
                  type_of(entry->type), "path", value_text_json(path, strlen(path)),
                  "size", (json_int_t)entry->size, "mode",
                  (int)(entry->mode & MODE_MOST), "uid", (json_int_t)entry->uid, "gid",
                  (json_int_t)entry->gid, "atime", time, "mtime", time, "ctime", time);
    if (json && entry->target)
        (void)json_object_set_new(
            json, "target", value_text_json(entry->target, strlen(entry->target)));
    return json;
}

static int tell(struct content *c, unsigned status, struct vial_error *err)
{
    struct vial_entry entry = { 0 };
    int rc = look(c, c->at.data, &entry, err);

    if (rc == 0)
        rc = missing(c, err);
    if (rc < 0)
        return -1;
    c->status = status;
    c->answer = stat_json(c->ask, c->path.data, &entry);
    vial_entry_done(&entry);
    return 0;
}

static int act_stat(struct content *c, struct vial_error *err)
{
    return tell(c, 200, err);
}

static int act_list(struct content *c, struct vial_error *err)
{
    struct vial_entries all = { 0 };
    char type;
    int rc = look_type(c, c->at.data, &type, err);

    if (rc <= 0)
        return rc < 0 ? -1 : missing(c, err);
    if (type != 'd')
        return fail(err, VIAL_E_VALUE, "path '%.256s' is not a directory",
                    c->path.data);
    if (vial_session_list(session(c), c->at.data, c->depth > 1, &all, err) < 0)
        return -1;
    c->status = 200;
    c->answer = entries_json(c->ask, c->path.data, &all, (size_t)c->depth, stat_json);
    vial_entries_free(&all);
    return 0;
}

/* By a program: nothing else changes the mode of what is there. */
static int set_mode(struct content *c, struct vial_error *err)
{
    char mode[8];
    const char *const argv[] = { "/bin/chmod", mode, "--", c->at.data, NULL };
    auto_str struct str why = { 0 };
    const struct build_program p = { .argv = argv, .input = -1 };

    (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)c->mode & MODE_MOST);
    if (c->mode < 0 || build_program(c->ask->box, &p, &why) == 0)
        return 0;
    return fail(err, VIAL_E_POLICY, "the mode of '%.256s' cannot be changed: %s",
                c->path.data, str_ok(&why) && why.data ? why.data : "");
}

/* What a new name lies in has to be there. */
static int check_parent(struct content *c, struct vial_error *err)
{
    auto_str struct str parent = { 0 };
    char type;
    int rc;

    str_add(&parent, c->at.data, (size_t)(strrchr(c->at.data, '/') - c->at.data));
    if (!str_ok(&parent))
        return fail_memory(err);
    rc = look_type(c, parent.data, &type, err);
    if (rc <= 0)
        return rc < 0 ? -1 : missing(c, err);
    return type == 'd' || type == 'l'
               ? 0
               : fail(err, VIAL_E_NAME_TAKEN,
                      "what '%.256s' would lie in is not a directory", c->path.data);
}

static int taken(const struct content *c, struct vial_error *err)
{
    return fail(err, VIAL_E_NAME_TAKEN, "path '%.256s' already exists", c->path.data);
}

static int act_make_dir(struct content *c, struct vial_error *err)
{
    int there;
    char type;

    if (check_owner(c, OWNER, OWNER, err) < 0)
        return -1;
    there = look_type(c, c->at.data, &type, err);
    if (there > 0)
        return c->force && type == 'd' ? tell(c, 201, err) : taken(c, err);
    if (there < 0 || (!c->force && check_parent(c, err) < 0) ||
        vial_session_mkdir(session(c), c->at.data, err) < 0 || set_mode(c, err) < 0)
        return -1;
    return tell(c, 201, err);
}

static int act_write(struct content *c, struct vial_error *err)
{
    const char *data;
    size_t len;
    int there;
    char type;

    if (check_owner(c, OWNER, OWNER, err) < 0)
        return -1;
    there = look_type(c, c->at.data, &type, err);
    if (there > 0 && (!c->force || type == 'd'))
        return taken(c, err);
    if (there < 0 || check_parent(c, err) < 0)
        return -1;
    data = web_body(c->ask->web, &len);
    if (vial_session_put(session(c), c->at.data, data, len,
                         c->mode > 0 ? (unsigned)c->mode : 0, err) < 0 ||
        (c->mode == 0 && set_mode(c, err) < 0))
        return -1;
    return tell(c, 201, err);
}

static int act_read(struct content *c, struct vial_error *err)
{
    (void)err;
    files_send(c->ask, c->at.data);
    c->told = true;
    return 0;
}

static int act_change(struct content *c, struct vial_error *err)
{
    struct vial_entry entry = { 0 };
    int rc = look(c, c->at.data, &entry, err);

    if (rc == 0)
        rc = missing(c, err);
    else if (rc > 0)
        rc = check_owner(c, entry.uid, entry.gid, err);
    vial_entry_done(&entry);
    if (rc < 0 || set_mode(c, err) < 0)
        return -1;
    return tell(c, 200, err);
}

static int act_remove(struct content *c, struct vial_error *err)
{
    if (strcmp(c->path.data, "/") == 0) {
        (void)fail(err, VIAL_E_VALUE, "a volume's top cannot be removed");
        return fail_remedy(err, "destroy the volume");
    }
    if (vial_session_remove(session(c), c->at.data, true, err) < 0)
        return fail_is(err, VIAL_E_NO_FILE) ? missing(c, err) : -1;
    c->status = 204;
    return 0;
}

static const struct call {
    const char *method, *what;
    content_act *act;
} calls[] = {
    { "GET", "path", act_stat },      { "PATCH", "path", act_change },
    { "DELETE", "path", act_remove }, { "GET", "dir", act_list },
    { "POST", "dir", act_make_dir },  { "GET", "file", act_read },
    { "PUT", "file", act_write },
};

static const struct call *call_of(struct ask *a)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].method, web_method(a->web)) == 0 &&
            strcmp(calls[i].what, a->arg2) == 0)
            return &calls[i];
    return NULL;
}

/* A vessel with the volume alone, and no network. */
static struct box *open_vessel(struct ask *a, struct volume_seen *v, bool writes,
                               struct vial_error *err)
{
    struct wish w = { .template_name = "volume", .image = "", .seconds = SECONDS };
    auto_json json_t *volumes = json_array();

    if (writes && !v->writable) {
        (void)fail(err, VIAL_E_POLICY, "volume '%s' is there to be read alone",
                   volume_shown(a, v->name));
        return NULL;
    }
    v->writable = writes;
    w.network.closed = true;
    w.volumes = volumes;
    if (json_array_append_new(volumes, volume_mount(v, TOP, err)) < 0) {
        (void)fail_memory(err);
        return NULL;
    }
    return control_open_apart(a, &w, err);
}

static int do_call(struct content *c, const struct call *call, struct vial_error *err)
{
    struct ask *a = c->ask;
    struct volume_seen v = { 0 };
    int rc;

    if (volume_by_id(a, a->arg, &v, err) < 0 || read_wanted(c, err) < 0)
        return -1;
    a->box = open_vessel(a, &v, strcmp(call->method, "GET") != 0, err);
    if (!a->box)
        return -1;
    rc = call->act(c, err);
    control_close_apart(a->box);
    a->box = NULL;
    return rc;
}

static void refuse(struct ask *a, const struct vial_error *err)
{
    struct connect_error e;

    if (ask_status_of(err) != 500) {
        ask_error(a, err);
        return;
    }
    (void)connect_from(&e, err); /* it tells who may not from what failed */
    files_refuse(a, &e);
}

void volume_content(struct ask *a, const struct volume_key *key)
{
    struct content c = { .ask = a, .mode = -1, .uid = -1, .gid = -1, .depth = 1 };
    struct vial_error err = { 0 };
    char args[2][ASK_ARG];
    char id[VOLUME_NAME];
    const struct call *call = NULL;

    volume_id(key->name, id);
    if (ask_matches(a, "/volumecontent/{}/{}", args))
        call = call_of(a);
    if (!call)
        ask_refuse(a, 501, "this call is not supported by this server");
    else if (strcmp(a->arg, id) != 0)
        ask_refuse(a, 401, "the token is not this volume's");
    else if (do_call(&c, call, &err) < 0)
        refuse(a, &err);
    else if (c.status == 204)
        ask_done(a);
    else if (!c.told)
        ask_json(a, c.status, c.answer);
    str_done(&c.path);
    str_done(&c.at);
}
