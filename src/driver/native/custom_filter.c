/* SPDX-License-Identifier: Apache-2.0 */
/* Reads profiles as Docker and the OCI write them; links libseccomp. */
#include "driver/native/custom_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/sha256.h"
#include "model/members.h"

#define FILE_MAX  (256u << 10)
#define RULES_MAX 8192u
#define ARGS_MAX  6u
#define ERRNO_MAX 4095

#if defined(__x86_64__)
    #define OWN_ARCH   "amd64"
    #define OWN_TOKENS "SCMP_ARCH_X86_64"
#else
    #define OWN_ARCH   "arm64"
    #define OWN_TOKENS "SCMP_ARCH_AARCH64"
#endif

static const struct member arg_shape[] = { { "index", MEMBER_COUNT, .needed = true },
                                           { "value", MEMBER_COUNT, .needed = true },
                                           { "valueTwo", MEMBER_COUNT },
                                           { "op", MEMBER_TEXT, .needed = true },
                                           { 0 } };
static const struct member when_shape[] = { { "caps", MEMBER_TEXTS },
                                            { "arches", MEMBER_TEXTS },
                                            { "minKernel", MEMBER_TEXT },
                                            { 0 } };
static const struct member rule_shape[] = {
    { "name", MEMBER_TEXT },
    { "names", MEMBER_TEXTS },
    { "action", MEMBER_TEXT, .needed = true },
    { "errnoRet", MEMBER_ANY },
    { "args", MEMBER_ANY },
    { "comment", MEMBER_TEXT },
    { "includes", MEMBER_OBJECT, .inside = when_shape },
    { "excludes", MEMBER_OBJECT, .inside = when_shape },
    { 0 },
};
static const struct member map_shape[] = {
    { "architecture", MEMBER_TEXT, .needed = true },
    { "subArchitectures", MEMBER_ANY },
    { 0 },
};
static const struct member file_shape[] = {
    { "defaultAction", MEMBER_TEXT, .needed = true },
    { "defaultErrnoRet", MEMBER_COUNT },
    { "architectures", MEMBER_TEXTS },
    { "archMap", MEMBER_LIST, .inside = map_shape },
    { "syscalls", MEMBER_ANY },
    { 0 },
};

/* One profile on its way to a filter. */
struct work {
    scmp_filter_ctx filter;
    uint32_t fallback;
    json_t *plain; /* call -> action, of rules without conditions */
    json_t *some;  /* call -> action, of rules with them */
    size_t rules;
};

static void work_done(struct work *w)
{
    if (w->filter)
        seccomp_release(w->filter);
    json_decref(w->plain);
    json_decref(w->some);
}

static int bad(struct vial_error *err, const char *what, const char *which)
{
    (void)fail(err, VIAL_E_VALUE, "%s '%.64s' is not supported", what, which);
    return -1;
}

/* An action that only counts, logs or asks others is no refusal, and is not understood
 * here. */
static int read_action(json_t *rule, const char *key, const char *errno_key,
                       uint32_t *out, struct vial_error *err)
{
    static const struct {
        const char *name;
        uint32_t action;
    } known[] = {
        { "SCMP_ACT_ALLOW", SCMP_ACT_ALLOW },
        { "SCMP_ACT_ERRNO", SCMP_ACT_ERRNO(EPERM) },
        { "SCMP_ACT_KILL", SCMP_ACT_KILL_THREAD },
        { "SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD },
        { "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS },
        { "SCMP_ACT_TRAP", SCMP_ACT_TRAP },
    };
    const char *name = json_string_value(json_object_get(rule, key));
    json_t *number = json_object_get(rule, errno_key);
    json_int_t value = json_is_null(number) ? EPERM : json_integer_value(number);
    size_t i = 0;

    while (i < sizeof(known) / sizeof(*known) && !str_eq(known[i].name, name))
        i++;
    if (i == sizeof(known) / sizeof(*known))
        return bad(err, "action", name);
    *out = known[i].action;
    if (!number || *out != SCMP_ACT_ERRNO(EPERM))
        return 0;
    if ((!json_is_null(number) && !json_is_integer(number)) || value < 1 ||
        value > ERRNO_MAX)
        return fail(err, VIAL_E_VALUE, "'%s' is not a number from 1 to %d", errno_key,
                    ERRNO_MAX);
    *out = SCMP_ACT_ERRNO((uint16_t)value);
    return 0;
}

static bool has_text(json_t *list, const char *text)
{
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(list, i, item)
    {
        if (str_eq(json_string_value(item), text))
            return true;
    }
    return false;
}

/* "6.1…" as one number, and where it ends; -1: it is not so. */
static long read_version(const char *text, char **end)
{
    long major = strtol(text, end, 10);
    char *dot = *end;
    long minor = *dot == '.' ? strtol(dot + 1, end, 10) : -1;

    if (dot == text || *end == dot + 1 || major < 0 || major > 9999 || minor < 0 ||
        minor > 9999)
        return -1;
    return major * 10000 + minor;
}

/* -1: TEXT is no version; else whether this kernel is as new. */
static int kernel_has(const char *text)
{
    struct utsname u;
    char *end = NULL;
    long want = read_version(text, &end);
    bool whole = want >= 0 && !*end;
    long have = uname(&u) == 0 ? read_version(u.release, &end) : -1;

    return whole && have >= 0 ? have >= want : -1;
}

/* A program has no capability: what is for those that have one is for nobody. */
static int applies(json_t *rule, bool *out, struct vial_error *err)
{
    json_t *with = json_object_get(rule, "includes");
    json_t *without = json_object_get(rule, "excludes");
    json_t *arches = json_object_get(with, "arches");
    const char *from = json_string_value(json_object_get(with, "minKernel"));
    const char *until = json_string_value(json_object_get(without, "minKernel"));
    int is_new = from ? kernel_has(from) : 1;
    int is_late = until ? kernel_has(until) : 0;

    if (is_new < 0 || is_late < 0)
        return bad(err, "minKernel", is_new < 0 ? from : until);
    *out = json_array_size(json_object_get(with, "caps")) == 0 &&
           (json_array_size(arches) == 0 || has_text(arches, OWN_ARCH)) &&
           !has_text(json_object_get(without, "arches"), OWN_ARCH) && is_new &&
           !is_late;
    return 0;
}

static int read_arg(json_t *arg, struct scmp_arg_cmp *out, struct vial_error *err)
{
    static const struct {
        const char *name;
        enum scmp_compare op;
    } ops[] = { { "SCMP_CMP_NE", SCMP_CMP_NE },
                { "SCMP_CMP_LT", SCMP_CMP_LT },
                { "SCMP_CMP_LE", SCMP_CMP_LE },
                { "SCMP_CMP_EQ", SCMP_CMP_EQ },
                { "SCMP_CMP_GE", SCMP_CMP_GE },
                { "SCMP_CMP_GT", SCMP_CMP_GT },
                { "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ } };
    const char *name = NULL;
    json_int_t index = 0;

    if (members_read(arg, arg_shape, "args", err) < 0)
        return -1;
    name = json_string_value(json_object_get(arg, "op"));
    index = json_integer_value(json_object_get(arg, "index"));
    if (index >= ARGS_MAX)
        return fail(err, VIAL_E_VALUE, "args: there is no argument %lld",
                    (long long)index);
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        if (!str_eq(ops[i].name, name))
            continue;
        *out = (struct scmp_arg_cmp){
            .arg = (unsigned)index,
            .op = ops[i].op,
            .datum_a = (scmp_datum_t)json_integer_value(json_object_get(arg, "value")),
            .datum_b =
                (scmp_datum_t)json_integer_value(json_object_get(arg, "valueTwo")),
        };
        return 0;
    }
    return bad(err, "op", name);
}

static int read_args(json_t *rule, struct scmp_arg_cmp *out, unsigned *count,
                     struct vial_error *err)
{
    json_t *args = json_object_get(rule, "args");
    json_t *arg = NULL;
    size_t i = 0;

    if (args && !json_is_null(args) && !json_is_array(args))
        return fail(err, VIAL_E_VALUE, "'args' is not a list");
    if (json_array_size(args) > ARGS_MAX)
        return fail(err, VIAL_E_VALUE, "'args' has more than %u entries", ARGS_MAX);
    *count = (unsigned)json_array_size(args);
    json_array_foreach(args, i, arg)
    {
        if (read_arg(arg, &out[i], err) < 0)
            return -1;
    }
    return 0;
}

/* In one filter, a rule without conditions swallows those that have some: a profile
 * that says both of one call would not do what it reads like. */
static int note(struct work *w, const char *call, uint32_t action, unsigned count,
                struct vial_error *err)
{
    json_t *plain = json_object_get(w->plain, call);
    json_t *other = plain ? plain : json_object_get(w->some, call);

    if (other && (plain || !count) && json_integer_value(other) != (json_int_t)action)
        return fail(err, VIAL_E_VALUE, "'%.64s' has rules that contradict each other",
                    call);
    if (json_object_set_new(count ? w->some : w->plain, call,
                            json_integer((json_int_t)action)) < 0)
        return fail_memory(err);
    return 0;
}

static int add_call(struct work *w, const char *call, uint32_t action,
                    const struct scmp_arg_cmp *args, unsigned count,
                    struct vial_error *err)
{
    int number = call ? seccomp_syscall_resolve_name(call) : __NR_SCMP_ERROR;
    int rc = 0;

    if (!call)
        return fail(err, VIAL_E_VALUE, "a call is a name");
    if (++w->rules > RULES_MAX)
        return fail(err, VIAL_E_VALUE, "it has more than %u rules", RULES_MAX);
    /* A rule may name a call that nobody knows. If the rule allows that call, nothing
     * is lost; if it refuses it, the call would be let through. */
    if (number == __NR_SCMP_ERROR && action != SCMP_ACT_ALLOW && action != w->fallback)
        return fail(err, VIAL_E_VALUE, "'%.64s' is no system call", call);
    if (note(w, call, action, count, err) < 0)
        return -1;
    if (number == __NR_SCMP_ERROR || action == w->fallback)
        return 0;
    rc = seccomp_rule_add_array(w->filter, action, number, count, args);
    return rc < 0 ? fail_sys_rc(err, rc, "add the rule for '%.64s'", call) : 0;
}

static int add_rule(struct work *w, json_t *rule, struct vial_error *err)
{
    struct scmp_arg_cmp args[ARGS_MAX];
    const char *name = NULL;
    json_t *names = NULL;
    json_t *item = NULL;
    uint32_t action = 0;
    unsigned count = 0;
    bool counts = false;
    size_t i = 0;

    if (members_read(rule, rule_shape, "syscalls", err) < 0)
        return -1;
    name = json_string_value(json_object_get(rule, "name"));
    names = json_object_get(rule, "names");
    if (!name == !names)
        return fail(err, VIAL_E_VALUE, "a rule has 'names' or 'name'");
    if (read_action(rule, "action", "errnoRet", &action, err) < 0 ||
        read_args(rule, args, &count, err) < 0 || applies(rule, &counts, err) < 0)
        return -1;
    if (!counts)
        return 0;
    if (name)
        return add_call(w, name, action, args, count, err);
    json_array_foreach(names, i, item)
    {
        if (add_call(w, json_string_value(item), action, args, count, err) < 0)
            return -1;
    }
    return 0;
}

static int check_machine(json_t *file, struct vial_error *err)
{
    json_t *plain = json_object_get(file, "architectures");
    json_t *map = json_object_get(file, "archMap");
    json_t *item = NULL;
    size_t i = 0;
    bool found = json_array_size(plain) + json_array_size(map) == 0 ||
                 has_text(plain, OWN_TOKENS);

    json_array_foreach(map, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "architecture"));

        found = found || str_eq(name, OWN_TOKENS);
    }
    return found ? 0
                 : fail(err, VIAL_E_VALUE, "it is for other machines: '%s' is missing",
                        OWN_TOKENS);
}

static int start(struct work *w, json_t *file, struct vial_error *err)
{
    if (members_read(file, file_shape, "profile", err) < 0 ||
        check_machine(file, err) < 0 ||
        read_action(file, "defaultAction", "defaultErrnoRet", &w->fallback, err) < 0)
        return -1;
    w->plain = json_object();
    w->some = json_object();
    w->filter = seccomp_init(w->fallback);
    if (!w->plain || !w->some || !w->filter ||
        seccomp_attr_set(w->filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) <
            0 ||
        seccomp_attr_set(w->filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0)
        return fail(err, VIAL_E_INTERNAL, "a seccomp filter cannot be made");
    return 0;
}

static int add_rules(struct work *w, json_t *file, struct vial_error *err)
{
    json_t *rules = json_object_get(file, "syscalls");
    json_t *rule = NULL;
    size_t i = 0;

    if (rules && !json_is_null(rules) && !json_is_array(rules))
        return fail(err, VIAL_E_VALUE, "'syscalls' is not a list");
    json_array_foreach(rules, i, rule)
    {
        if (add_rule(w, rule, err) < 0)
            return -1;
    }
    return 0;
}

static int export(const struct work *w, struct blob *out, struct vial_error *err)
{
    auto_fd int fd = memfd_create("filter", MFD_CLOEXEC);
    int rc = 0;

    if (fd < 0)
        return fail_sys(err, "make a memory file");
    rc = seccomp_export_bpf(w->filter, fd);
    if (rc < 0)
        return fail_sys_rc(err, rc, "export the filter");
    if (lseek(fd, 0, SEEK_SET) < 0)
        return fail_sys(err, "rewind the filter");
    return io_read_fd(fd, "seccomp filter", FILE_MAX, out, err);
}

/* A process that loads the filter then starts a program, or tells why not. The filter
 * must allow that. */
static int check_start(const struct blob *filter, struct vial_error *err)
{
    static const struct {
        const char *name;
        int number;
    } needed[] = { { "execve", SYS_execve },
                   { "write", SYS_write },
                   { "exit_group", SYS_exit_group } };

    if (!custom_check(filter))
        return fail(err, VIAL_E_VALUE, "it does not make a filter of use");
    for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
        if (custom_verdict(filter, needed[i].number) != SECCOMP_RET_ALLOW)
            return fail(err, VIAL_E_VALUE,
                        "it refuses '%s', without which no program starts",
                        needed[i].name);
    return 0;
}

static int compile(json_t *file, struct blob *filter, size_t *rules,
                   struct vial_error *err)
{
    __attribute__((cleanup(work_done))) struct work w = { 0 };

    if (!json_is_object(file))
        return fail(err, VIAL_E_VALUE, "it is not an object");
    if (start(&w, file, err) < 0 || add_rules(&w, file, err) < 0 ||
        export(&w, filter, err) < 0 || check_start(filter, err) < 0)
        return -1;
    *rules = w.rules;
    return 0;
}

int custom_compile(const struct blob *text, const char *path, struct blob *filter,
                   size_t *rules, struct vial_error *err)
{
    auto_json json_t *file = NULL;

    if (json_parse(text->data, text->len, path, &file, err) < 0)
        return -1;
    if (compile(file, filter, rules, err) == 0)
        return 0;
    (void)fail_in(err, "seccomp profile '%s'", path);
    return fail_remedy(err, "mend it, or name a built-in profile instead: 'default', "
                            "'strict' or 'python3'");
}

/* A file that others may write could be made to forbid nothing. */
static int open_owned(const char *path, struct vial_error *err)
{
    auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0) {
        (void)fail_sys(err, "open seccomp profile '%s'", path);
        (void)fail_remedy(err, "put the file there, or name a built-in profile "
                               "instead: 'default', 'strict' or 'python3'");
        return fail_as(err, VIAL_E_FILE);
    }
    if (fstat(fd, &st) < 0)
        return fail_sys(err, "look at '%s'", path);
    if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()) ||
        (st.st_mode & 022)) {
        (void)fail(err, VIAL_E_FILE,
                   "seccomp profile '%s' is not a file that only you and root can "
                   "write",
                   path);
        return fail_remedy(err, "chown it to yourself, and: chmod go-w '%s'", path);
    }
    return fd_take(&fd);
}

static int load(struct language *l, struct vial_error *err)
{
    auto_fd int fd = open_owned(l->seccomp_file, err);
    struct custom_profile *c = &l->custom;
    struct blob text = { 0 };
    struct sha256 h;
    int rc = 0;

    if (fd < 0 || io_read_fd(fd, l->seccomp_file, FILE_MAX, &text, err) < 0)
        return -1;
    rc = custom_compile(&text, l->seccomp_file, &c->filter, &c->rules, err);
    sha256_init(&h);
    sha256_add(&h, text.data, text.len);
    sha256_text(&h, c->sha256);
    blob_done(&text);
    return rc;
}

int custom_load(struct language_table *t, struct vial_error *err)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i].seccomp_file && !t->items[i].hidden &&
            load(&t->items[i], err) < 0)
            return fail_in(err, "language '%s'", t->items[i].name);
    return 0;
}

char *custom_call_name(uint32_t number)
{
    return seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)number);
}
