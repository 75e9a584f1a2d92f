/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/image_transfer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/text.h"

#define CONNECT_S  30L
#define STALL_S    60L
#define REDIRECTS  5
#define CHALLENGES 3
#define ERROR_BODY ((size_t)8 << 10)
#define HEADER_MAX ((size_t)8 << 10)
#define PAUSE_MAX  INT64_C(30000)
#define USER_AGENT "vial/" VIAL_VERSION

/* An address that only means something near us. */
static bool is_private4(uint32_t a)
{
    return (a >> 24) == 0 || (a >> 24) == 10 || (a >> 24) == 127 ||
           (a >> 22) == (0x64400000u >> 22) || (a >> 16) == 0xa9fe ||
           (a >> 20) == 0xac1 || (a >> 16) == 0xc0a8 || (a >> 28) >= 0xe;
}

static bool is_private6(const struct in6_addr *a)
{
    uint32_t last = 0;

    memcpy(&last, &a->s6_addr[12], sizeof(last));
    if (IN6_IS_ADDR_V4MAPPED(a) || IN6_IS_ADDR_V4COMPAT(a))
        return is_private4(ntohl(last));
    return IN6_IS_ADDR_LOOPBACK(a) || IN6_IS_ADDR_UNSPECIFIED(a) ||
           IN6_IS_ADDR_LINKLOCAL(a) || IN6_IS_ADDR_MULTICAST(a) ||
           IN6_IS_ADDR_SITELOCAL(a) || (a->s6_addr[0] & 0xfe) == 0xfc;
}

static bool is_private_text(const char *text)
{
    struct in_addr a4;
    struct in6_addr a6;

    if (inet_pton(AF_INET, text, &a4) == 1)
        return is_private4(ntohl(a4.s_addr));
    if (inet_pton(AF_INET6, text, &a6) == 1)
        return is_private6(&a6);
    return false;
}

static bool is_link_local(const struct sockaddr *to)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)to;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)to;

    return to->sa_family == AF_INET6 ? IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)
                                     : (ntohl(v4->sin_addr.s_addr) >> 16) == 0xa9fe;
}

static bool is_private(const struct sockaddr *to)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)to;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)to;

    if (to->sa_family == AF_INET6)
        return is_private6(&v6->sin6_addr);
    return to->sa_family != AF_INET || is_private4(ntohl(v4->sin_addr.s_addr));
}

/* Judged here, where the address is known that the name has now. */
static curl_socket_t open_socket(void *context, curlsocktype purpose,
                                 struct curl_sockaddr *address)
{
    struct transfer *t = context;

    (void)purpose;
    if (t->foreign && !t->to->proxied && is_private(&address->addr) &&
        (!t->to->local || is_link_local(&address->addr))) {
        t->trouble = TROUBLE_ADDRESS;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t take_header(char *data, size_t one, size_t len, void *context)
{
    struct transfer *t = context;
    static const char name[] = "www-authenticate:";

    len *= one;
    if (len > sizeof(name) && strncasecmp(data, name, sizeof(name) - 1) == 0 &&
        t->challenge.len + len < HEADER_MAX) {
        str_add(&t->challenge, data + sizeof(name) - 1, len - sizeof(name) + 1);
        str_putc(&t->challenge, '\n');
    }
    return len;
}

/* A server that does not know ranges begins anew. */
static int begin_again(struct transfer *t)
{
    t->got = 0;
    t->body.len = 0;
    digest_begin(&t->sum);
    return t->fd >= 0 && (ftruncate(t->fd, 0) < 0 || lseek(t->fd, 0, SEEK_SET) < 0) ? -1
                                                                                    : 0;
}

static size_t take_body(char *data, size_t one, size_t len, void *context)
{
    struct transfer *t = context;
    long status = 0;

    len *= one;
    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300) {
        if (t->fd < 0 && t->body.len + len < ERROR_BODY)
            str_add(&t->body, data, len);
        return len;
    }
    if (status == 200 && t->got > 0 && t->fresh && begin_again(t) < 0) {
        t->trouble = TROUBLE_WRITE;
        return 0;
    }
    t->fresh = false;
    if ((int64_t)len > t->max - t->got) {
        t->trouble = TROUBLE_LARGE;
        return 0;
    }
    if (t->fd >= 0 && io_write_all(t->fd, data, len) < 0) {
        t->trouble = TROUBLE_WRITE;
        return 0;
    }
    if (t->fd < 0)
        str_add(&t->body, data, len);
    t->got += (int64_t)len;
    digest_add(&t->sum, data, len);
    return len;
}

/* "https://host:port" of URL into OUT; false: it is not such an address. */
static bool origin_of(const char *url, char *out, size_t size, char *host,
                      size_t host_size)
{
    CURLU *u = curl_url();
    char *scheme = NULL;
    char *name = NULL;
    char *port = NULL;
    bool good =
        u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_HOST, &name, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
        (str_eq(scheme, "https") || str_eq(scheme, "http"));

    if (good) {
        (void)snprintf(out, size, "%s://%s:%s", scheme, name, port);
        (void)snprintf(host, host_size, "%s", name);
    }
    curl_free(scheme);
    curl_free(name);
    curl_free(port);
    curl_url_cleanup(u);
    return good;
}

/* Whether T may go to URL, and whether that is somebody else. */
static int aim(struct transfer *t, const char *url, struct vial_error *err)
{
    char there[600];
    char home[600];
    char host[300];
    char literal[300];
    char own[300];

    if (!origin_of(url, there, sizeof(there), host, sizeof(host)) ||
        !origin_of(t->to->base, home, sizeof(home), own, sizeof(own)))
        return fail(err, VIAL_E_PULL, "the registry leads to what is no web address");
    if (str_starts(there, "http:") && !t->to->plain) {
        (void)fail(err, VIAL_E_PULL, "the registry leads to plain HTTP, at '%.120s'",
                   host);
        return fail_remedy(err,
                           "if that is meant, name the registry in 'images: plain'");
    }
    t->foreign = strcasecmp(there, home) != 0;
    (void)snprintf(literal, sizeof(literal), "%s", host[0] == '[' ? host + 1 : host);
    literal[strcspn(literal, "]")] = '\0';
    if (t->foreign && t->to->proxied && is_private_text(literal) &&
        !is_private_text(own))
        return fail(err, VIAL_E_PULL,
                    "the registry leads to a private address, at '%.120s'", host);
    free(t->url);
    t->url = strdup(url);
    return t->url ? 0 : fail_memory(err);
}

int transfer_init(struct transfer *t, struct endpoint *to, const struct job *job,
                  const char *url, struct vial_error *err)
{
    *t = (struct transfer){ .to = to, .job = job, .what = "it", .fd = -1 };
    digest_begin(&t->sum);
    return aim(t, url, err);
}

static void add_header(struct transfer *t, const char *line)
{
    struct curl_slist *more = line ? curl_slist_append(t->headers, line) : t->headers;

    t->headers = more ? more : t->headers;
}

static void set_options(struct transfer *t)
{
    CURL *c = t->easy;

    (void)curl_easy_setopt(c, CURLOPT_URL, t->url);
    (void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR,
                           t->to->plain ? "http,https" : "https");
    (void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_USERAGENT, USER_AGENT);
    (void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
    (void)curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALL_S);
    (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, t);
    (void)curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->said);
    (void)curl_easy_setopt(c, CURLOPT_PRIVATE, t);
    if (t->to->ca) {
        (void)curl_easy_setopt(c, CURLOPT_CAINFO, t->to->ca);
        (void)curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
    }
    if (t->post)
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, t->post);
    if (t->got > 0) {
        char range[32];

        (void)snprintf(range, sizeof(range), "%lld-", (long long)t->got);
        (void)curl_easy_setopt(c, CURLOPT_RANGE, range);
    }
}

int transfer_start(struct transfer *t, const char *accept, struct vial_error *err)
{
    t->easy = curl_easy_init();
    if (!t->easy)
        return fail_memory(err);
    curl_slist_free_all(t->headers);
    t->headers = NULL;
    add_header(t, accept);
    if (!t->foreign && !t->anonymous)
        add_header(t, t->to->authorization);
    if (t->secret && t->redirects == 0)
        add_header(t, t->secret);
    t->fresh = true;
    t->challenge.len = 0;
    t->said[0] = '\0';
    t->trouble = TROUBLE_NONE;
    set_options(t);
    return 0;
}

static enum step give_up(struct transfer *t, enum fail_code code, const char *why,
                         struct vial_error *err)
{
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    text_safe(&state, &safe, why, strlen(why));
    text_safe_end(&state, &safe);
    (void)fail(err, code, "get %s from '%s'", t->what, t->to->host);
    (void)fail_cause(err, "%.180s", safe.data ? safe.data : "");
    return STEP_FAIL;
}

/* Another try after a while, unless there were enough. */
static enum step try_later(struct transfer *t, const char *why, struct vial_error *err)
{
    if (t->tries >= t->job->retries) {
        (void)give_up(t, VIAL_E_PULL, why, err);
        if (t->tries > 0)
            (void)fail_in(err, "after %d tries", t->tries + 1);
        (void)fail_remedy(err, "try again later, or use an image that is here: 'vial "
                               "image list'");
        return STEP_FAIL;
    }
    t->pause_ms = t->job->retry_ms << (t->tries > 10 ? 10 : t->tries);
    t->pause_ms = t->pause_ms > PAUSE_MAX ? PAUSE_MAX : t->pause_ms;
    t->tries++;
    return STEP_PAUSE;
}

static bool may_pass(CURLcode code)
{
    static const CURLcode codes[] = {
        CURLE_COULDNT_CONNECT, CURLE_PARTIAL_FILE, CURLE_OPERATION_TIMEDOUT,
        CURLE_GOT_NOTHING,     CURLE_SEND_ERROR,   CURLE_RECV_ERROR,
        CURLE_HTTP2,           CURLE_HTTP2_STREAM
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i] == code)
            return true;
    return false;
}

static enum step judge_broken(struct transfer *t, CURLcode code, struct vial_error *err)
{
    const char *why = t->said[0] ? t->said : curl_easy_strerror(code);

    if (t->trouble == TROUBLE_LARGE)
        return give_up(t, VIAL_E_IMAGE_BAD, "it is larger than it may be", err);
    if (t->trouble == TROUBLE_ADDRESS)
        return give_up(t, VIAL_E_PULL,
                       "the registry leads to a private address, and has none itself",
                       err);
    if (t->trouble == TROUBLE_WRITE)
        return give_up(t, VIAL_E_SYSTEM, strerror(errno), err); /* NOLINT */
    return may_pass(code) ? try_later(t, why, err) : give_up(t, VIAL_E_PULL, why, err);
}

static enum step follow(struct transfer *t, const char *url, struct vial_error *err)
{
    auto_free char *copy = url ? strdup(url) : NULL;

    if (!copy || t->post || ++t->redirects > REDIRECTS)
        return give_up(t, VIAL_E_PULL, "the registry leads from place to place", err);
    return aim(t, copy, err) < 0 ? STEP_FAIL : STEP_AGAIN;
}

static enum step refused(struct transfer *t, long status, struct vial_error *err)
{
    char why[64];

    if (status == 404) {
        (void)give_up(t, VIAL_E_PULL, "the registry has no such image", err);
        (void)fail_remedy(err, "check the name, and that the registry can be reached");
        return STEP_FAIL;
    }
    if (status == 401 || status == 403) {
        (void)give_up(t, VIAL_E_PULL, "the registry denies it", err);
        (void)fail_remedy(err, "check the name, or log in: 'docker login %.80s'",
                          t->to->host);
        return STEP_FAIL;
    }
    (void)snprintf(why, sizeof(why), "the registry answers with status %ld", status);
    return status == 429 || status == 408 || status >= 500
               ? try_later(t, why, err)
               : give_up(t, VIAL_E_PULL, why, err);
}

static enum step judge_status(struct transfer *t, long status, const char *redirect,
                              struct vial_error *err)
{
    if (status == 200 || status == 206)
        return STEP_DONE;
    if (status >= 301 && status <= 308 && redirect)
        return follow(t, redirect, err);
    if (status == 401 && !t->foreign && !t->anonymous &&
        ++t->challenges <= CHALLENGES && challenge_answer(t, err) == 0)
        return STEP_AGAIN;
    if (status == 401 && err->code[0])
        return STEP_FAIL;
    if (status == 416 && t->got > 0) {
        (void)begin_again(t);
        return try_later(t, "the registry does not go on where it stopped", err);
    }
    return refused(t, status, err);
}

enum step transfer_judge(struct transfer *t, CURLcode code, struct vial_error *err)
{
    char *redirect = NULL;
    char *address = NULL;
    long status = 0;
    enum step step;

    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &redirect);
    (void)curl_easy_getinfo(t->easy, CURLINFO_PRIMARY_IP, &address);
    if (!t->foreign && address && *address)
        t->to->local = is_private_text(address);
    if (!t->foreign && status > 0 && status != 400)
        t->to->answered = true;
    fail_clear(err);
    step = code != CURLE_OK ? judge_broken(t, code, err)
                            : judge_status(t, status, redirect, err);
    curl_easy_cleanup(t->easy);
    t->easy = NULL;
    return step;
}

int transfer_get(struct transfer *t, const char *accept, struct vial_error *err)
{
    for (;;) {
        enum step step;

        if (transfer_start(t, accept, err) < 0)
            return -1;
        step = transfer_judge(t, curl_easy_perform(t->easy), err);
        if (step == STEP_DONE)
            return str_ok(&t->body) ? 0 : fail_memory(err);
        if (step == STEP_FAIL)
            return -1;
        if (t->fd < 0)
            (void)begin_again(t);
        if (step == STEP_PAUSE)
            (void)poll(NULL, 0, (int)t->pause_ms);
    }
}

void transfer_done(struct transfer *t)
{
    if (t->easy)
        curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    free(t->url);
    free(t->post);
    str_done(&t->body);
    str_done(&t->challenge);
    digest_done(&t->sum);
    auto_fd_(&t->fd);
}
