/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

#define SIZE_OCTAL_MAX ((UINT64_C(1) << 33) - 1) /* eleven octal digits */
#define NAME_LEN       100u
#define PREFIX_LEN     155u

/* POSIX.1-1988 ustar, byte by byte. */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type,
        link[100], magic[6], version[2], user[32], group[32], major[8], minor[8],
        prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == TAR_BLOCK, "a header is one block");

static unsigned sum_of(const char *block)
{
    unsigned sum = 8u * ' '; /* the sum's own field counts as blanks */

    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (i < offsetof(struct header, sum) || i >= offsetof(struct header, type))
            sum += (unsigned char)block[i];
    return sum;
}

static void put_octal(char *field, size_t size, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%0*" PRIo64, (int)size - 1, value);
    memcpy(field, text, size - 1);
}

static void put_block(struct str *out, const struct tar_entry *e, const char *name,
                      char type, uint64_t size)
{
    struct header h = { .magic = "ustar", .version = { '0', '0' }, .type = type };

    memcpy(h.name, name, strnlen(name, NAME_LEN));
    put_octal(h.mode, sizeof h.mode, e->mode & 07777);
    put_octal(h.uid, sizeof h.uid, 0);
    put_octal(h.gid, sizeof h.gid, 0);
    put_octal(h.size, sizeof h.size, size > SIZE_OCTAL_MAX ? 0 : size);
    put_octal(h.mtime, sizeof h.mtime, e->mtime > 0 ? (uint64_t)e->mtime : 0);
    memset(h.sum, ' ', sizeof h.sum);
    put_octal(h.sum, 7, sum_of((const char *)&h));
    str_add(out, &h, sizeof h);
}

static void pad(struct str *out, size_t len)
{
    static const char zeros[TAR_BLOCK];

    if (len % TAR_BLOCK)
        str_add(out, zeros, TAR_BLOCK - len % TAR_BLOCK);
}

/* "LEN key=value\n", where LEN counts itself. */
static void put_record(struct str *out, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3;
    size_t len = rest + 1;
    char digits[24];

    while (rest + (size_t)snprintf(digits, sizeof digits, "%zu", len) != len)
        len = rest + strlen(digits);
    str_printf(out, "%s %s=", digits, key);
    str_puts(out, value);
    str_putc(out, '\n');
}

void tar_write(struct str *out, const struct tar_entry *e)
{
    struct str records = { 0 };
    char size[24];

    if (strlen(e->path) > NAME_LEN - 1)
        put_record(&records, "path", e->path);
    if (e->size > SIZE_OCTAL_MAX) {
        (void)snprintf(size, sizeof size, "%" PRIu64, e->size);
        put_record(&records, "size", size);
    }
    if (records.len > 0) {
        put_block(out, e, "pax", 'x', records.len);
        str_add(out, records.data, records.len);
        pad(out, records.len);
    }
    out->failed |= records.failed;
    str_done(&records);
    put_block(out, e, e->path, e->type, e->size);
}

void tar_write_end(struct str *out)
{
    static const char zeros[TAR_BLOCK];

    str_add(out, zeros, sizeof zeros);
    str_add(out, zeros, sizeof zeros);
}

static bool get_octal(const char *field, size_t size, uint64_t *out)
{
    uint64_t value = 0;
    size_t i = 0;

    while (i < size && field[i] == ' ')
        i++;
    for (; i < size && field[i] && field[i] != ' '; i++) {
        if (field[i] < '0' || field[i] > '7' || value >> 60)
            return false;
        value = value * 8 + (uint64_t)(field[i] - '0');
    }
    *out = value;
    return value <= INT64_MAX;
}

/* Numbers that octal digits cannot hold come as big-endian binary (GNU). */
static bool get_size(const char *field, size_t size, uint64_t *out)
{
    if (((unsigned char)field[0] & 0x80) == 0)
        return get_octal(field, size, out);
    *out = (unsigned char)field[0] & 0x7f;
    for (size_t i = 1; i < size; i++) {
        if (*out >> 55)
            return false;
        *out = *out << 8 | (unsigned char)field[i];
    }
    return *out <= INT64_MAX;
}

static char *header_path(const struct header *h)
{
    struct str s = { 0 };
    bool ustar = memcmp(h->magic, "ustar\0", 6) == 0;

    if (ustar && h->prefix[0]) {
        str_add(&s, h->prefix, strnlen(h->prefix, PREFIX_LEN));
        str_putc(&s, '/');
    }
    str_add(&s, h->name, strnlen(h->name, NAME_LEN));
    return str_take(&s);
}

static bool is_zero(const char *block)
{
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

static enum tar_kind bad(struct vial_error *err, const char *why)
{
    (void)fail(err, VIAL_E_TAR, "read the archive: %s", why);
    return TAR_BAD;
}

static enum tar_kind take_entry(struct tar_reader *r, const struct header *h,
                                struct vial_error *err)
{
    r->entry.path = r->next_path ? r->next_path : header_path(h);
    r->next_path = NULL;
    if (!r->entry.path) {
        (void)fail_memory(err);
        return TAR_BAD;
    }
    if (r->has_size)
        r->entry.size = r->next_size;
    r->has_size = false;
    if (r->entry.type == '\0' || r->entry.type == '7')
        r->entry.type = '0';
    return TAR_ENTRY;
}

enum tar_kind tar_step(struct tar_reader *r, const char *block, struct vial_error *err)
{
    struct header h;
    uint64_t mode, mtime, sum;

    memcpy(&h, block, sizeof h);
    free(r->entry.path);
    r->entry = (struct tar_entry){ .type = h.type };
    if (is_zero(block))
        return TAR_END;
    if (!get_octal(h.sum, sizeof h.sum, &sum) || sum != sum_of(block))
        return bad(err, "a header's checksum is wrong");
    if (!get_octal(h.mode, sizeof h.mode, &mode) ||
        !get_size(h.size, sizeof h.size, &r->entry.size) ||
        !get_size(h.mtime, sizeof h.mtime, &mtime))
        return bad(err, "a header holds what is no number");
    r->entry.mode = (unsigned)(mode & 07777);
    r->entry.mtime = (int64_t)mtime;
    if (h.type == 'x' || h.type == 'L') {
        if (r->entry.size > TAR_EXTRA)
            return bad(err, "a record is too long");
        r->extra = h.type;
        return TAR_MORE;
    }
    if (h.type == 'g')
        return TAR_SKIP;
    return take_entry(r, &h, err);
}

static int set_path(struct tar_reader *r, const char *path, size_t len,
                    struct vial_error *err)
{
    free(r->next_path);
    r->next_path = NULL;
    if (memchr(path, 0, len))
        return fail(err, VIAL_E_TAR, "read the archive: a path holds NUL");
    r->next_path = strndup(path, len);
    return r->next_path ? 0 : fail_memory(err);
}

static int take_record(struct tar_reader *r, const char *key, size_t len,
                       struct vial_error *err)
{
    char number[24] = "";
    char *end;

    if (len > 5 && memcmp(key, "path=", 5) == 0)
        return set_path(r, key + 5, len - 5, err);
    if (len <= 5 || len - 5 >= sizeof number || memcmp(key, "size=", 5) != 0)
        return 0;
    memcpy(number, key + 5, len - 5);
    r->next_size = strtoull(number, &end, 10);
    r->has_size = true;
    if (*end || number[0] == '-' || r->next_size > INT64_MAX)
        return fail(err, VIAL_E_TAR, "read the archive: size '%s' is no number",
                    number);
    return 0;
}

int tar_extra(struct tar_reader *r, const char *data, size_t len,
              struct vial_error *err)
{
    if (r->extra == 'L')
        return set_path(r, data, strnlen(data, len), err);
    while (len > 0) {
        size_t digits = 0, size = 0, head;

        while (digits < len && digits < 6 && data[digits] >= '0' && data[digits] <= '9')
            size = size * 10 + (size_t)(data[digits++] - '0');
        head = digits + 1;
        if (digits == 0 || size > len || size < head + 1 || data[digits] != ' ' ||
            data[size - 1] != '\n')
            return fail(err, VIAL_E_TAR, "read the archive: a pax record is malformed");
        if (take_record(r, data + head, size - head - 1, err) < 0)
            return -1;
        data += size;
        len -= size;
    }
    return 0;
}

void tar_done(struct tar_reader *r)
{
    free(r->entry.path);
    free(r->next_path);
    *r = (struct tar_reader){ 0 };
}
