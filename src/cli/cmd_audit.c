/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/inside.h"
#include "audit/audit.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/unit.h"
#include "cli/cli.h"
#include "cli/print.h"

#define NEWEST          "newest: "
#define ANCHOR_FILE_MAX ((size_t)64 << 10)

/* The log that was named, or else the one that the settings name. malloc'ed. */
static int find_log(struct cli *cli, char **out, struct vial_error *err)
{
    auto_engine struct vial_engine *engine = NULL;
    const char *path = cli_operand(cli, 1);

    if (!path) {
        if (cli_engine(cli, &engine, err) < 0)
            return -1;
        path = inside_settings(engine)->audit.path;
    }
    if (!path) {
        (void)fail(err, VIAL_E_AUDIT, "no audit log is configured");
        return fail_remedy(err, "name one, or set 'audit: {path: /var/log/vial/audit}' "
                                "in /etc/vial/vial.yaml");
    }
    *out = strdup(path);
    return *out ? 0 : fail_memory(err);
}

/* A log that was removed has its head beside it, and is not whole; where there is
 * neither, there was none. */
static int check_log(const char *path, struct vial_error *err)
{
    auto_str struct str head = { 0 };

    str_printf(&head, "%s.head", path);
    if (!str_ok(&head) || !head.data)
        return fail_memory(err);
    if (access(path, F_OK) == 0 || access(head.data, F_OK) == 0)
        return 0;
    (void)fail(err, VIAL_E_AUDIT, "there is no audit log '%s'", path);
    return fail_remedy(err,
                       "name the one that 'audit: {path: …}' in the settings names");
}

/* "SEQ:HASH", and the end of a line behind it. */
static int parse_anchor(const char *text, struct audit_mark *out)
{
    int64_t seq = 0;
    const char *colon = strchr(text, ':');
    auto_free char *number = colon ? strndup(text, (size_t)(colon - text)) : NULL;

    if (!number || unit_parse_count(number, &seq) < 0 || seq < 1 ||
        strspn(colon + 1, "0123456789abcdef") != 64 ||
        (colon[65] != '\0' && colon[65] != '\n'))
        return -1;
    out->seq = (uint64_t)seq;
    memcpy(out->hash, colon + 1, sizeof(out->hash) - 1);
    return 0;
}

/* A file with the mark alone, or with all that verify printed. */
static int read_anchor_file(const char *path, struct audit_mark *out,
                            struct vial_error *err)
{
    struct blob whole = { 0 };
    const char *newest;
    int rc;

    if (io_read_file(path, ANCHOR_FILE_MAX, &whole, err) < 0)
        return -1;
    newest = strstr(whole.data, NEWEST);
    rc = parse_anchor(newest ? newest + strlen(NEWEST) : whole.data, out);
    blob_done(&whole);
    if (rc == 0)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "file '%s' has no anchor NUMBER:HASH", path);
    return fail_remedy(err, "give one into which 'vial audit verify' has printed");
}

static int read_anchor(const char *text, struct audit_mark *out, struct vial_error *err)
{
    if (parse_anchor(text, out) == 0)
        return 0;
    if (access(text, F_OK) == 0)
        return read_anchor_file(text, out, err);
    (void)fail(err, VIAL_E_VALUE,
               "anchor '%s' is neither NUMBER:HASH nor a file with one", text);
    return fail_remedy(err, "give what an earlier 'vial audit verify' printed");
}

/* ANCHOR is NULL when none was given. */
static json_t *report_json(const struct audit_report *r,
                           const struct audit_mark *anchor)
{
    return json_pack("{s:b, s:I, s:I, s:i, s:{s:I, s:s}, s:o, s:s?}", "whole", r->whole,
                     "first", (json_int_t)r->first, "records", (json_int_t)r->records,
                     "files", (int)r->files, "newest", "seq", (json_int_t)r->newest.seq,
                     "hash", r->newest.hash, "anchor",
                     anchor ? json_integer((json_int_t)anchor->seq) : json_null(),
                     "problem", r->whole ? NULL : r->problem);
}

/* The anchor decides what "whole" means. */
static void add_anchor(struct str *out, const struct audit_report *r,
                       const struct audit_mark *anchor)
{
    if (anchor)
        str_printf(out, "anchor: record %" PRIu64 " is as it was\n", anchor->seq);
    else
        str_puts(out, "anchor: none given: whoever can write both log and head could "
                      "have replaced both\n");
    if (r->newest.seq)
        str_printf(out, NEWEST "%" PRIu64 ":%s\n", r->newest.seq, r->newest.hash);
}

static int say_report(struct cli *cli, const struct audit_report *r,
                      const struct audit_mark *anchor)
{
    auto_str struct str out = { 0 };
    int status = r->whole ? STATUS_OK : STATUS_UNFIT;
    int rc;

    if (cli_flag(cli, "json")) {
        rc = print_json(report_json(r, anchor));
        return rc ? rc : status;
    }
    if (r->whole)
        str_printf(&out, "whole: %" PRIu64 " records in %u file%s\n", r->records,
                   r->files, r->files == 1 ? "" : "s");
    else
        str_printf(&out, "NOT whole: %s\n", r->problem);
    if (r->whole)
        add_anchor(&out, r, anchor);
    rc = print_text(&out);
    return rc ? rc : status;
}

static int verify(struct cli *cli, const char *path, struct vial_error *err)
{
    const char *anchor = cli_flag(cli, "anchor");
    struct audit_mark mark = { 0 };
    struct audit_report report;

    if (anchor && read_anchor(anchor, &mark, err) < 0)
        return -1;
    if (audit_verify(path, anchor ? &mark : NULL, &report, err) < 0)
        return -1;
    return say_report(cli, &report, anchor ? &mark : NULL);
}

struct showing {
    const char *run, *event; /* or NULL: all */
    bool json;
    struct str out;
    int rc; /* of printing */
};

static const char *text_of(json_t *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record, key));

    return text ? text : "-";
}

/* A cell may be a caller's words, and must not look like a row of its own. */
static void put_cell(struct str *out, const char *text, int width)
{
    int put = 0;

    for (; *text; text++, put++)
        str_putc(out, (char)((unsigned char)*text < ' ' ? '?' : *text));
    str_printf(out, "%*s", put < width ? width - put + 1 : 1, "");
}

/* Names the caller: by its name, or by the address of a stranger; else the user of this
 * process. */
static const char *caller_of(json_t *record, char *room, size_t size)
{
    json_t *caller = json_object_get(record, "caller");
    const char *name = json_string_value(json_object_get(caller, "name"));
    const char *address = json_string_value(json_object_get(caller, "address"));

    if (name && *name)
        return name;
    if (address && *address)
        return address;
    (void)snprintf(room, size, "uid %lld",
                   (long long)json_integer_value(json_object_get(caller, "uid")));
    return room;
}

/* Returns the subject of a record: a run, else its session, its image, or what was
 * swept. */
static const char *subject_of(json_t *record)
{
    static const char *const keys[] = { "run", "session", "image", "volume", "driver" };
    const char *text = "-";

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && text[0] == '-'; i++)
        text = text_of(record, keys[i]);
    return text;
}

/* "ok", or how many were refused together, or removed. */
static const char *verdict_of(json_t *record, char *room, size_t size)
{
    json_t *count = json_object_get(record, "count");
    json_t *removed = json_object_get(record, "removed");

    if (!count && !removed)
        return text_of(record,
                       json_object_get(record, "verdict") ? "verdict" : "outcome");
    (void)snprintf(room, size, count ? "%lld times" : "%lld removed",
                   (long long)json_integer_value(count ? count : removed));
    return room;
}

static void put_row(struct str *out, json_t *record)
{
    json_t *error = json_object_get(record, "error");
    char uid[32];
    char count[32];

    str_printf(out, "%6lld ",
               (long long)json_integer_value(json_object_get(record, "seq")));
    put_cell(out, text_of(record, "time"), 27);
    put_cell(out, text_of(record, "event"), 15);
    put_cell(out, subject_of(record), 18);
    put_cell(out, caller_of(record, uid, sizeof(uid)), 12);
    put_cell(out, text_of(record, "language"), 10);
    put_cell(out, verdict_of(record, count, sizeof(count)), 12);
    put_cell(out, text_of(error ? error : record, "code"), 1);
    str_putc(out, '\n');
}

static int show_line(void *context, const char *line, size_t len)
{
    struct showing *s = context;
    auto_json json_t *record = json_loadb(line, len, 0, NULL);

    if ((s->run && strcmp(text_of(record, "run"), s->run) != 0) ||
        (s->event && strcmp(text_of(record, "event"), s->event) != 0))
        return 0;
    if (s->json) {
        str_add(&s->out, line, len);
        str_putc(&s->out, '\n');
    } else {
        put_row(&s->out, record);
    }
    if (s->out.len < 65536)
        return 0;
    s->rc = print_text(&s->out);
    str_done(&s->out);
    s->out = (struct str){ 0 };
    return s->rc;
}

static int show(struct cli *cli, const char *path, struct vial_error *err)
{
    struct showing s = {
        .run = cli_flag(cli, "run"),
        .event = cli_flag(cli, "event"),
        .json = cli_flag(cli, "json") != NULL,
    };
    int rc = audit_read(path, show_line, &s, err);

    if (rc == 0 && s.rc == 0 && s.out.len)
        s.rc = print_text(&s.out);
    str_done(&s.out);
    return rc < 0 ? -1 : s.rc;
}

static int run(struct cli *cli)
{
    const char *what = cli_operand(cli, 0);
    struct vial_error err = { 0 };
    auto_free char *path = NULL;
    int status = -1;
    bool verifying = what && strcmp(what, "verify") == 0;

    if (!verifying && !(what && strcmp(what, "show") == 0)) {
        (void)fail(&err, VIAL_E_USAGE, "what to do is missing: verify or show");
        (void)fail_remedy(&err, "usage: vial audit verify|show [LOG]");
        return cli_fail(cli, &err);
    }
    if (find_log(cli, &path, &err) == 0 && check_log(path, &err) == 0)
        status = verifying ? verify(cli, path, &err) : show(cli, path, &err);
    return status < 0 ? cli_fail(cli, &err) : status;
}

static const struct flag flags[] = {
    { "anchor", "NUMBER:HASH|FILE",
      "A record that must still be there, as printed before." },
    { "run", "ID", "Show the records of one run only." },
    { "event", "NAME", "Show one kind of record only: begin, run, denied …" },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_audit;
const struct command command_audit = {
    .name = "audit",
    .operands = "verify|show [LOG]",
    .words = "verify|show",
    .summary = "check or read the log of all runs",
    .text =
        "Every line of the log has the hash of the one before it. verify finds an\n"
        "edit, a removal, a changed order and a cut-off end, and then exits with 1.\n"
        "It prints the newest record's number and hash. Kept where the log's writers\n"
        "cannot write, and given as --anchor later, they show that not even log and\n"
        "head were replaced together; without one, verify says that it had none.\n"
        "A log is kept when the settings name one: 'audit: {path: /var/log/vial/audit}'.",
    .examples = "vial audit verify\n"
                "vial audit verify > /mnt/elsewhere/anchor\n"
                "vial audit verify --anchor /mnt/elsewhere/anchor\n"
                "vial audit show --run r-7f3a51c09d2e4b68\n"
                "vial audit show --json /var/log/vial/audit",
    .flags = flags,
    .max_operands = 2,
    .run = run,
};
