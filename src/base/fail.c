/* SPDX-License-Identifier: Apache-2.0 */
#define VIAL_FAIL_ITSELF
#include "base/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"

struct entry {
    const char *text, *meaning;
};

static const struct entry codes[VIAL_E__COUNT] = {
#define CODE(name, text, meaning) [VIAL_E_##name] = { text, meaning },
#include "base/codes.def"
#undef CODE
};

const char *vial_error_code(unsigned index, const char **meaning)
{
    if (index >= VIAL_E__COUNT)
        return NULL;
    if (meaning)
        *meaning = codes[index].meaning;
    return codes[index].text;
}

const char *fail_code_text(enum fail_code code)
{
    return (unsigned)code < VIAL_E__COUNT ? codes[code].text
                                          : codes[VIAL_E_INTERNAL].text;
}

/* A text cut short must not end inside a UTF-8 sequence: it goes into JSON. */
static void trim_partial(char *buf)
{
    size_t len = strlen(buf), start = len;

    while (start > 0 && len - start < 3 &&
           ((unsigned char)buf[start - 1] & 0xC0) == 0x80)
        start--;
    if (start > 0 && ((unsigned char)buf[start - 1] & 0xC0) == 0xC0)
        buf[start - 1] = '\0';
}

/* Arguments may point into *ERR itself, so the text is made apart first. */
__attribute__((format(printf, 3, 0))) static void put(char *field, size_t size,
                                                      const char *format, va_list args)
{
    char text[sizeof((struct vial_error *)NULL)->message] = "";
    int n = vsnprintf(text, size, format, args);

    if (n < 0 || (size_t)n >= size)
        trim_partial(text);
    memcpy(field, text, size);
}

static void set_code(struct vial_error *err, enum fail_code code)
{
    (void)snprintf(err->code, sizeof err->code, "%s", fail_code_text(code));
}

/* Everything but the message, which may still be an argument of the caller's. */
static void restart(struct vial_error *err, enum fail_code code)
{
    set_code(err, code);
    err->cause[0] = '\0';
    err->remedy[0] = '\0';
    err->sys = 0;
}

int fail(struct vial_error *err, enum fail_code code, const char *format, ...)
{
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    put(err->message, sizeof err->message, format, args);
    va_end(args);
    restart(err, code);
    return -1;
}

/* The remedy when the system had no more to give. It is the same whatever was wanted,
 * so no caller has anything better to say. NULL for other numbers. */
static const char *shortage(int number)
{
    if (number == EMFILE)
        return "raise the limit on open files ('ulimit -n 1024')";
    if (number == ENFILE)
        return "the host has no more open files to give: raise 'sysctl fs.file-max', or "
               "try again later";
    return NULL;
}

static void set_errno(struct vial_error *err, int number)
{
    const char *text = sys_text(number);
    const char *remedy = shortage(number);

    restart(err, VIAL_E_SYSTEM);
    err->sys = number;
    if (remedy)
        (void)snprintf(err->remedy, sizeof err->remedy, "%s", remedy);
    if (text)
        (void)snprintf(err->cause, sizeof err->cause, "%s", text);
    else
        (void)snprintf(err->cause, sizeof err->cause, "error %d", number);
}

int fail_sys(struct vial_error *err, const char *format, ...)
{
    int number = errno;
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    put(err->message, sizeof err->message, format, args);
    va_end(args);
    set_errno(err, number);
    return -1;
}

int fail_sys_rc(struct vial_error *err, int rc, const char *format, ...)
{
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    put(err->message, sizeof err->message, format, args);
    va_end(args);
    set_errno(err, rc < 0 ? -rc : rc);
    return -1;
}

int fail_in(struct vial_error *err, const char *format, ...)
{
    char joined[2 * sizeof err->message + 2];
    char context[sizeof err->message];
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    put(context, sizeof context, format, args);
    va_end(args);
    (void)snprintf(joined, sizeof joined, "%s: %s", context, err->message);
    if (strlen(joined) >= sizeof err->message) {
        joined[sizeof err->message - 1] = '\0';
        trim_partial(joined);
    }
    memcpy(err->message, joined, sizeof err->message);
    return -1;
}

int fail_remedy(struct vial_error *err, const char *format, ...)
{
    va_list args;

    if (!err || shortage(err->sys))
        return -1;
    va_start(args, format);
    put(err->remedy, sizeof err->remedy, format, args);
    va_end(args);
    return -1;
}

int fail_cause(struct vial_error *err, const char *format, ...)
{
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    put(err->cause, sizeof err->cause, format, args);
    va_end(args);
    return -1;
}

int fail_as(struct vial_error *err, enum fail_code code)
{
    if (err)
        set_code(err, code);
    return -1;
}

bool fail_is(const struct vial_error *err, enum fail_code code)
{
    return strcmp(err->code, fail_code_text(code)) == 0;
}

int fail_memory(struct vial_error *err)
{
    return fail(err, VIAL_E_MEMORY, "out of memory");
}

void fail_clear(struct vial_error *err)
{
    if (err)
        memset(err, 0, sizeof *err);
}
