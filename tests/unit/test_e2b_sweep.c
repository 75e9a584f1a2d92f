/* SPDX-License-Identifier: Apache-2.0 */

/* What dead owners left at an E2B service: a service of our own, whose answers already
 * lie in each connection. */

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/owner.h"
#include "check.h"
#include "driver/docker/containers.h"
#include "driver/e2b/ask_service.h"

#define CALLS 8

struct service {
    struct str list;
    unsigned calls;
    unsigned cancels_at; /* this call; 0: none */
    int cancel_fd;       /* its other end; closed by that call */
    int ends[CALLS];
};

static struct e2b_endpoint endpoint;

static int answer(const void *context, int64_t timeout_ms, int cancel_fd,
                  struct vial_error *err)
{
    struct service *s = (struct service *)(uintptr_t)context;
    auto_str struct str text = { 0 };
    int ends[2];

    (void)timeout_ms;
    (void)cancel_fd;
    (void)err;
    assert_true(s->calls < CALLS);
    if (s->calls == 0)
        str_printf(&text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                   s->list.len, s->list.data);
    else
        str_puts(&text, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(write(ends[1], text.data, text.len), (ssize_t)text.len);
    s->ends[s->calls++] = ends[1];
    if (s->calls == s->cancels_at)
        (void)close(s->cancel_fd);
    return ends[0];
}

/* The name of an owner who has died. */
static void find_dead(char *out, size_t size)
{
    int ends[2];
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0)
        _exit(owner_name("v-1", out, size) < 0 ||
              write(ends[1], out, size) != (ssize_t)size);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    n = read(ends[0], out, size);
    assert_int_equal(n, size);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void add(struct service *s, const char *id, const char *managed,
                const char *owner, const char *more)
{
    char host[CONTAINERS_HOST];

    containers_host(host);
    str_printf(&s->list,
               "%s{\"sandboxID\":\"%s\"%s,\"metadata\":{\"vial\":\"%s\",\"vial.owner\":"
               "\"%s\",\"vial.host\":\"%s\"}}",
               s->list.len ? "," : "[", id, more, managed, owner, host);
}

/* What was asked of it, one word of an end and a target each. */
static void finish(struct service *s, struct str *seen)
{
    for (unsigned i = 1; i < s->calls; i++) {
        char head[256] = "";
        ssize_t n = read(s->ends[i], head, sizeof(head) - 1);

        assert_true(n > 0);
        head[strcspn(head, "\r")] = '\0';
        head[strcspn(head, "H")] = '\0'; /* before HTTP/1.1 */
        str_puts(seen, head);
    }
    for (unsigned i = 0; i < s->calls; i++)
        (void)close(s->ends[i]);
    str_done(&s->list);
}

static void begin(struct service *s)
{
    const struct e2b_source from = { .key = "e2b_1f", .api_url = "http://127.0.0.1:1" };
    char dead[128] = "";
    char own[128] = "";

    assert_int_equal(e2b_endpoint_init(&endpoint, &from, NULL), 0);
    endpoint.api.transport = (struct http_transport){ answer, s };
    find_dead(dead, sizeof(dead));
    assert_int_equal(owner_name("v-2", own, sizeof(own)), 0);
    add(s, "i1", "vessel", dead, "");
    add(s, "i2", "vessel", own, "");
    add(s, "i3", "other", dead, "");
    add(s, "../i4", "vessel", dead, "");
    add(s, "i5", "vessel", dead, ",\"domain\":\"a/b\"");
    str_puts(&s->list, "]");
}

static void what_the_dead_left_is_ended_and_nothing_else(void **state)
{
    struct service s = { 0 };
    auto_str struct str seen = { 0 };
    unsigned removed = 0;

    (void)state;
    begin(&s);
    assert_int_equal(e2b_sweep(&endpoint, -1, &removed, NULL), 0);
    finish(&s, &seen);
    assert_int_equal(removed, 2);
    assert_string_equal(seen.data, "DELETE /sandboxes/i1 DELETE /sandboxes/i5 ");
}

static void who_has_no_time_left_ends_nothing_more(void **state)
{
    struct service s = { .cancels_at = 2 };
    auto_str struct str seen = { 0 };
    struct vial_error err = { 0 };
    unsigned removed = 0;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    s.cancel_fd = ends[1];
    begin(&s);
    assert_int_equal(e2b_sweep(&endpoint, ends[0], &removed, &err), -1);
    finish(&s, &seen);
    assert_string_equal(err.code, "VIAL-CANCELLED");
    assert_string_equal(seen.data, "DELETE /sandboxes/i1 ");
    (void)close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_dead_left_is_ended_and_nothing_else),
        cmocka_unit_test(who_has_no_time_left_ends_nothing_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
