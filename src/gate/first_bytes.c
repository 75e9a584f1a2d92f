/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A name leads to an address, and many names may share one. Which of them a client
 * means it says itself, in its first bytes: TLS in the ClientHello, HTTP in Host. That
 * must be the name it asked the gate for; else an allowed name would open the door to
 * all of its neighbours.
 *
 * Ports of TLS and of plain HTTP have to speak so. On any other port, what looks like
 * either is judged, and what does not passes by its name alone.
 */

#include "gate/first_bytes.h"

#include <string.h>

#define FIRST_MAX     (16u << 10) /* bytes in which a name must have been said */
#define TLS_HANDSHAKE 0x16
#define CLIENT_HELLO  1
#define EXT_NAME      0
#define EXT_PROTOCOLS 16
#define EXT_ENCRYPTED 0xfe0d /* Encrypted Client Hello: the real name is hidden */
#define RECORD_HEADER 5
#define METHOD_MAX    16

static const uint16_t tls_ports[] = { 443, 8443 };
static const uint16_t http_ports[] = { 80, 8080 };

static bool is_among(const uint16_t ports[2], uint16_t port)
{
    return ports[0] == port || ports[1] == port;
}

bool first_bytes_wait(uint16_t port)
{
    return is_among(tls_ports, port) || is_among(http_ports, port);
}

static char lower(uint8_t c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static bool is_same(const uint8_t *said, size_t len, const char *name)
{
    if (len && said[len - 1] == '.')
        len--;
    if (len != strlen(name))
        return false;
    for (size_t i = 0; i < len; i++)
        if (lower(said[i]) != name[i])
            return false;
    return true;
}

/* A view that can be read from the front; reading past its end makes it bad. */
struct view {
    const uint8_t *data;
    size_t len;
    bool bad;
};

static uint32_t take(struct view *v, unsigned bytes)
{
    uint32_t n = 0;

    if (v->bad || v->len < bytes) {
        v->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        n = n << 8 | v->data[i];
    v->data += bytes;
    v->len -= bytes;
    return n;
}

static struct view take_view(struct view *v, size_t len)
{
    struct view part = { v->data, len, false };

    if (v->bad || v->len < len) {
        v->bad = true;
        return (struct view){ .bad = true };
    }
    v->data += len;
    v->len -= len;
    return part;
}

/* The one name of a server_name extension. */
static enum first_verdict judge_names(struct view ext, const char *name)
{
    struct view list = take_view(&ext, take(&ext, 2));
    uint32_t type = take(&list, 1);
    struct view said = take_view(&list, take(&list, 2));

    if (said.bad || ext.len || list.len || type != 0 || !said.len)
        return FIRST_NO_NAME;
    return is_same(said.data, said.len, name) ? FIRST_GOOD : FIRST_OTHER_NAME;
}

static enum first_verdict judge_extensions(struct view v, const char *name)
{
    enum first_verdict verdict = FIRST_NO_NAME;
    bool seen = false;

    while (v.len && !v.bad) {
        uint32_t type = take(&v, 2);
        struct view ext = take_view(&v, take(&v, 2));

        if (ext.bad || type == EXT_ENCRYPTED || (type == EXT_NAME && seen))
            return FIRST_NO_NAME;
        if (type != EXT_NAME)
            continue;
        seen = true;
        verdict = judge_names(ext, name);
    }
    return v.bad ? FIRST_NO_NAME : verdict;
}

/* What a ClientHello offers besides (RFC 8446, 4.1.2): all that stands before is passed
 * over. */
static struct view extensions_of(struct view v)
{
    struct view extensions;

    (void)take_view(&v, 2 + 32);      /* version, random */
    (void)take_view(&v, take(&v, 1)); /* session */
    (void)take_view(&v, take(&v, 2)); /* ciphers */
    (void)take_view(&v, take(&v, 1)); /* compression */
    extensions = take_view(&v, take(&v, 2));
    extensions.bad = extensions.bad || v.len;
    return extensions;
}

/* A ClientHello may come in several records: their contents, one behind the other.
 * Returns how many bytes of them are there, or -1: this is no TLS. */
static long join_records(const uint8_t *data, size_t len, uint8_t out[FIRST_MAX])
{
    size_t at = 0, used = 0;

    while (at + RECORD_HEADER <= len) {
        size_t size = (size_t)data[at + 3] << 8 | data[at + 4];
        size_t there = len - at - RECORD_HEADER;

        if (data[at] != TLS_HANDSHAKE || data[at + 1] != 3 || !size)
            return used ? (long)used : -1;
        there = there < size ? there : size;
        if (used + there > FIRST_MAX)
            there = FIRST_MAX - used;
        memcpy(out + used, data + at + RECORD_HEADER, there);
        used += there;
        at += RECORD_HEADER + size;
    }
    return (long)used;
}

/* The body of the ClientHello that DATA begins with, as it is in JOINED. */
static enum first_verdict open_hello(const uint8_t *data, size_t len,
                                     uint8_t joined[FIRST_MAX], struct view *body)
{
    long used = join_records(data, len, joined);
    struct view v = { joined, used < 0 ? 0 : (size_t)used, false };
    uint32_t type, size;

    if (used < 0)
        return FIRST_NO_NAME;
    if (used < 4)
        return FIRST_MORE;
    type = take(&v, 1);
    size = take(&v, 3);
    if (type != CLIENT_HELLO || size > FIRST_MAX - 4)
        return FIRST_NO_NAME;
    if (v.len < size)
        return FIRST_MORE;
    v.len = size;
    *body = v;
    return FIRST_GOOD;
}

static enum first_verdict judge_tls(const uint8_t *data, size_t len, const char *name)
{
    uint8_t joined[FIRST_MAX];
    struct view v = { .bad = true };
    enum first_verdict opened = open_hello(data, len, joined, &v);

    if (opened != FIRST_GOOD)
        return opened;
    v = extensions_of(v);
    return v.bad ? FIRST_NO_NAME : judge_extensions(v, name);
}

/* Whether a list of protocols has one (RFC 7301). */
static bool has_protocol(struct view ext, const char *protocol)
{
    struct view list = take_view(&ext, take(&ext, 2));

    while (list.len && !list.bad) {
        struct view one = take_view(&list, take(&list, 1));

        if (!one.bad && one.len == strlen(protocol) &&
            memcmp(one.data, protocol, one.len) == 0)
            return true;
    }
    return false;
}

enum first_offer first_bytes_offer(const uint8_t *data, size_t len,
                                   const char *protocol)
{
    uint8_t joined[FIRST_MAX];
    struct view v = { .bad = true };
    enum first_verdict opened = len ? open_hello(data, len, joined, &v) : FIRST_MORE;

    if (opened == FIRST_MORE && len < FIRST_MAX)
        return OFFER_MORE;
    v = extensions_of(v);
    while (v.len && !v.bad) {
        uint32_t type = take(&v, 2);
        struct view ext = take_view(&v, take(&v, 2));

        if (!ext.bad && type == EXT_PROTOCOLS)
            return has_protocol(ext, protocol) ? OFFER_YES : OFFER_NO;
    }
    return OFFER_NO;
}

static bool begins_with(const uint8_t *line, size_t len, const char *with)
{
    size_t n = strlen(with);

    for (size_t i = 0; i < n && i < len; i++)
        if (lower(line[i]) != with[i])
            return false;
    return len >= n;
}

/* "NAME" or "NAME:PORT", between spaces. */
static bool is_host(const uint8_t *value, size_t len, const char *name, uint16_t port)
{
    size_t host = 0;
    uint32_t n = 0;

    while (len && (*value == ' ' || *value == '\t')) {
        value++;
        len--;
    }
    while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    while (host < len && value[host] != ':')
        host++;
    for (size_t i = host + 1; i < len; i++) {
        if (value[i] < '0' || value[i] > '9' || n > UINT16_MAX)
            return false;
        n = n * 10 + (uint32_t)(value[i] - '0');
    }
    return is_same(value, host, name) && (host == len || n == port);
}

/* The request line's target must be a path: a whole address could name another host. */
static bool has_path(const uint8_t *line, size_t len)
{
    const uint8_t *space = memchr(line, ' ', len);

    return space && space + 1 < line + len && (space[1] == '/' || space[1] == '*');
}

/* "Name: value", as everybody reads it: servers differ about a name with a space behind
 * it, a line that goes on with the one before, and a CR or NUL within it. */
static bool is_field(const uint8_t *line, size_t len)
{
    const uint8_t *colon = memchr(line, ':', len);

    if (!colon || colon == line || memchr(line, '\r', len) || memchr(line, 0, len))
        return false;
    for (const uint8_t *at = line; at < colon; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return true;
}

static enum first_verdict judge_head(const uint8_t *data, size_t len, const char *name,
                                     uint16_t port)
{
    enum first_verdict verdict = FIRST_NO_NAME;
    const uint8_t *end = NULL;
    bool first = true;

    for (; len; first = false) {
        size_t line;

        end = memchr(data, '\n', len);
        if (!end || end == data || end[-1] != '\r')
            return FIRST_NO_NAME;
        line = (size_t)(end - data) - 1;
        if (first ? !has_path(data, line) : !is_field(data, line))
            return FIRST_NO_NAME;
        if (!first && begins_with(data, line, "host:")) {
            if (verdict != FIRST_NO_NAME) /* a second one */
                return FIRST_NO_NAME;
            verdict =
                is_host(data + 5, line - 5, name, port) ? FIRST_GOOD : FIRST_OTHER_NAME;
        }
        len -= line + 2;
        data += line + 2;
    }
    return verdict;
}

static enum first_verdict judge_http(const uint8_t *data, size_t len, const char *name,
                                     uint16_t port)
{
    const uint8_t *end = memmem(data, len, "\r\n\r\n", 4);

    if (!end)
        return len < FIRST_MAX ? FIRST_MORE : FIRST_NO_NAME;
    return judge_head(data, (size_t)(end - data) + 2, name, port);
}

/* On a port of neither. "GET / HTTP/1.1" and its like: letters, a space, and a version
 * before the line ends. Before that, it may become one: who sends it byte by byte is
 * judged like anybody. */
static enum first_verdict judge_any(const uint8_t *data, size_t len, bool ended,
                                    const char *name, uint16_t port)
{
    const uint8_t *end;
    size_t n = 0;

    for (; len && (*data == '\r' || *data == '\n'); len--) /* which servers pass over */
        data++;
    if (len == 0)
        return ended ? FIRST_GOOD : FIRST_MORE;
    end = memchr(data, '\n', len);
    while (n < len && data[n] >= 'A' && data[n] <= 'Z')
        n++;
    if (n == 0 || n > METHOD_MAX || (n < len && data[n] != ' '))
        return FIRST_GOOD;
    if (!end)
        return ended ? FIRST_GOOD : FIRST_MORE;
    return memmem(data, (size_t)(end - data), " HTTP/", 6)
               ? judge_http(data, len, name, port)
               : FIRST_GOOD;
}

enum first_verdict first_bytes_judge(const uint8_t *data, size_t len, bool ended,
                                     const char *name, uint16_t port)
{
    enum first_verdict verdict = FIRST_GOOD;

    if (!len)
        return ended ? FIRST_NO_NAME : FIRST_MORE;
    if (data[0] == TLS_HANDSHAKE)
        verdict = judge_tls(data, len, name);
    else if (is_among(tls_ports, port))
        verdict = FIRST_NO_NAME;
    else if (is_among(http_ports, port))
        verdict = judge_http(data, len, name, port);
    else
        verdict = judge_any(data, len, ended, name, port);
    if (verdict == FIRST_MORE && (ended || len >= FIRST_MAX))
        return FIRST_NO_NAME;
    return verdict;
}
