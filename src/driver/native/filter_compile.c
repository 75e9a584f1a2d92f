/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "driver/native/profile.h"

#define FILTER_MAX 32768u /* BPF_MAXINSNS of 8 bytes */
#define ARGS_MAX   6u

struct compiler {
    scmp_filter_ctx filters[PROFILE_FILTERS];
    uint32_t fallback; /* action of the first filter for what it does not name */
};

static void compiler_done(struct compiler *c)
{
    for (size_t i = 0; i < PROFILE_FILTERS; i++) {
        if (c->filters[i])
            seccomp_release(c->filters[i]);
    }
}

static int parse_action(const char *text, uint32_t *out)
{
    static const struct {
        const char *name;
        uint32_t action;
    } actions[] = {
        { "allow", SCMP_ACT_ALLOW },
        { "OK", SCMP_ACT_ERRNO(0) },
        { "EPERM", SCMP_ACT_ERRNO(EPERM) },
        { "EACCES", SCMP_ACT_ERRNO(EACCES) },
        { "EINVAL", SCMP_ACT_ERRNO(EINVAL) },
        { "ENOMEM", SCMP_ACT_ERRNO(ENOMEM) },
        { "ENOSYS", SCMP_ACT_ERRNO(ENOSYS) },
        { "EAFNOSUPPORT", SCMP_ACT_ERRNO(EAFNOSUPPORT) },
        { "EPROTONOSUPPORT", SCMP_ACT_ERRNO(EPROTONOSUPPORT) },
        { "kill", SCMP_ACT_KILL_PROCESS },
    };

    for (size_t i = 0; text && i < sizeof(actions) / sizeof(*actions); i++) {
        if (strcmp(actions[i].name, text) == 0) {
            *out = actions[i].action;
            return 0;
        }
    }
    return -1;
}

static bool parse_number(const char **at, uint64_t *out)
{
    char *end = NULL;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *out = strtoull(*at, &end, 0);
    *at = end;
    return errno == 0;
}

/* "N=V", "N&M=V" or "N>V". Equality looks at the low 32 bits: the kernel's int
 * arguments are no wider, and a caller may set the rest at will. */
static int parse_condition(const char *text, struct scmp_arg_cmp *out)
{
    uint64_t arg = 0;
    uint64_t mask = UINT32_MAX;
    uint64_t value = 0;

    if (!text || !parse_number(&text, &arg) || arg >= ARGS_MAX)
        return -1;
    if (*text == '>') {
        text++;
        if (!parse_number(&text, &value) || *text)
            return -1;
        *out = SCMP_CMP64((unsigned)arg, SCMP_CMP_GT, value);
        return 0;
    }
    if (*text == '&') {
        text++;
        if (!parse_number(&text, &mask))
            return -1;
    }
    if (*text != '=')
        return -1;
    text++;
    if (!parse_number(&text, &value) || *text || (value & ~mask))
        return -1;
    *out = SCMP_CMP64((unsigned)arg, SCMP_CMP_MASKED_EQ, mask, value);
    return 0;
}

static int add(const struct compiler *c, json_t *rule, struct vial_error *err)
{
    const char *call = json_string_value(json_object_get(rule, "call"));
    json_t *args = json_object_get(rule, "args");
    struct scmp_arg_cmp cmp[ARGS_MAX];
    unsigned count = (unsigned)json_array_size(args);
    uint32_t action = 0;
    int number = call ? seccomp_syscall_resolve_name(call) : __NR_SCMP_ERROR;
    int rc = 0;

    if (!call || count > ARGS_MAX ||
        parse_action(json_string_value(json_object_get(rule, "action")), &action) < 0)
        return fail(err, VIAL_E_YAML, "seccomp rule for '%s' is not understood",
                    call ? call : "?");
    for (unsigned i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(args, i));

        if (parse_condition(text, &cmp[i]) < 0)
            return fail(err, VIAL_E_YAML, "seccomp rule for '%s': condition '%s'", call,
                        text ? text : "?");
    }
    if (number == __NR_SCMP_ERROR || (!count && action == c->fallback))
        return 0;
    rc = seccomp_rule_add_array(c->filters[action == SCMP_ACT_ALLOW || !count ? 0 : 1],
                                action, number, count, cmp);
    if (rc < 0)
        return fail_sys_rc(err, rc, "add seccomp rule for '%s'", call);
    return 0;
}

/* Numbers of calls stay the own machine's here: libseccomp puts others in their place.
 */
static int choose_arch(scmp_filter_ctx filter, const char *arch)
{
    static const struct {
        const char *name;
        uint32_t token;
    } known[] = { { "amd64", SCMP_ARCH_X86_64 }, { "arm64", SCMP_ARCH_AARCH64 } };

    if (!arch)
        return 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (strcmp(known[i].name, arch) != 0)
            continue;
        if (known[i].token == seccomp_arch_native())
            return 0;
        return seccomp_arch_add(filter, known[i].token) < 0
                   ? -1
                   : seccomp_arch_remove(filter, seccomp_arch_native());
    }
    return -1;
}

static int start(struct compiler *c, json_t *profile, const char *arch,
                 struct vial_error *err)
{
    const char *text = json_string_value(json_object_get(profile, "default"));

    if (parse_action(text, &c->fallback) < 0 || c->fallback == SCMP_ACT_ALLOW)
        return fail(err, VIAL_E_YAML, "seccomp default '%s' is no refusal",
                    text ? text : "?");
    c->filters[0] = seccomp_init(c->fallback);
    c->filters[1] = seccomp_init(SCMP_ACT_ALLOW);
    for (size_t i = 0; i < PROFILE_FILTERS; i++) {
        if (!c->filters[i] ||
            seccomp_attr_set(c->filters[i], SCMP_FLTATR_ACT_BADARCH,
                             SCMP_ACT_KILL_PROCESS) < 0 ||
            choose_arch(c->filters[i], arch) < 0 ||
            seccomp_attr_set(c->filters[i], SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0)
            return fail(err, VIAL_E_INTERNAL, "seccomp filter cannot be made");
    }
    return 0;
}

static int export(scmp_filter_ctx filter, struct blob *out, struct vial_error *err)
{
    auto_fd int fd = memfd_create("filter", MFD_CLOEXEC);
    int rc = 0;

    if (fd < 0)
        return fail_sys(err, "make a memory file");
    rc = seccomp_export_bpf(filter, fd);
    if (rc < 0)
        return fail_sys_rc(err, rc, "export seccomp filter");
    if (lseek(fd, 0, SEEK_SET) < 0)
        return fail_sys(err, "rewind seccomp filter");
    return io_read_fd(fd, "seccomp filter", FILTER_MAX, out, err);
}

int profile_compile(json_t *profile, const char *arch, struct blob out[PROFILE_FILTERS],
                    struct vial_error *err)
{
    __attribute__((cleanup(compiler_done))) struct compiler c = { 0 };
    struct blob blobs[PROFILE_FILTERS] = { 0 };
    json_t *rule = NULL;
    size_t i = 0;

    if (start(&c, profile, arch, err) < 0)
        return -1;
    json_array_foreach(json_object_get(profile, "rules"), i, rule)
    {
        if (add(&c, rule, err) < 0)
            return -1;
    }
    if (export(c.filters[0], &blobs[0], err) < 0 ||
        export(c.filters[1], &blobs[1], err) < 0) {
        blob_done(&blobs[0]);
        return -1;
    }
    memcpy(out, blobs, sizeof(blobs));
    return 0;
}

/* The first filter kills foreign architectures, as the second does, and nothing else.
 */
static bool never_kills(json_t *profile)
{
    json_t *rule = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(profile, "rules"), i, rule)
    {
        if (!json_object_get(rule, "args") &&
            str_eq(json_string_value(json_object_get(rule, "action")), "kill"))
            return false;
    }
    return !str_eq(json_string_value(json_object_get(profile, "default")), "kill");
}

/* The kernel takes the strictest word of all filters, and of equal ones the last
 * filter's. So if the first never kills a call, asking the second, and the first only
 * when the second allows, is the same. */
int profile_join(json_t *profile, struct blob filters[PROFILE_FILTERS],
                 struct vial_error *err)
{
    size_t len = filters[0].len + filters[1].len;
    size_t count = filters[1].len / sizeof(struct sock_filter);
    struct sock_filter *joined = NULL;

    if (len > BPF_MAXINSNS * sizeof(*joined) || !never_kills(profile))
        return 0;
    joined = malloc(len);
    if (!joined)
        return fail_memory(err);
    memcpy(joined, filters[1].data, filters[1].len);
    memcpy(joined + count, filters[0].data, filters[0].len);
    for (size_t i = 0; i < count; i++) {
        if (joined[i].code == (BPF_RET | BPF_K) && joined[i].k == SECCOMP_RET_ALLOW)
            joined[i] = (struct sock_filter){ .code = BPF_JMP | BPF_JA,
                                              .k = (uint32_t)(count - i - 1) };
    }
    blob_done(&filters[0]);
    blob_done(&filters[1]);
    filters[0] = (struct blob){ (char *)joined, len };
    return 0;
}
