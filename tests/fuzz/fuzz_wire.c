/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "wire/frame.h"
#include "wire/link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define FUZZ_CHANNELS 4

/* What a guest has made the host believe. */
struct fuzz_host {
    struct link *link;
    size_t unread[FUZZ_CHANNELS + 1][3];
    bool over[FUZZ_CHANNELS + 1];
    unsigned calls;
};

static void fuzz_known(const struct fuzz_host *h, uint32_t channel)
{
    MUST(channel >= 1 && channel <= FUZZ_CHANNELS && !h->over[channel]);
}

static void fuzz_started(void *context, uint32_t channel, uint32_t pid)
{
    (void)pid;
    fuzz_known(context, channel);
}

/* Gives credit back for every other chunk only, so that credit runs out too. */
static void fuzz_data(void *context, uint32_t channel, int stream, const uint8_t *data,
                      size_t len)
{
    struct fuzz_host *h = context;
    size_t *unread;

    fuzz_known(h, channel);
    MUST(stream == 1 || stream == 2);
    MUST(len <= WIRE_MAX_TO_HOST && (len == 0 || data));
    unread = &h->unread[channel][stream];
    *unread += len;
    MUST(*unread <= WIRE_CREDIT);
    if (h->calls++ % 2) {
        link_consumed(h->link, channel, stream, *unread);
        *unread = 0;
    }
}

static void fuzz_eof(void *context, uint32_t channel, int stream)
{
    fuzz_known(context, channel);
    MUST(stream == 1 || stream == 2);
}

static void fuzz_exited(void *context, uint32_t channel,
                        const struct exit_message *exit)
{
    struct fuzz_host *h = context;

    fuzz_known(h, channel);
    MUST(exit->kind == EXIT_CODE ? exit->value <= 255 : exit->value <= 64);
    h->over[channel] = true;
}

static void fuzz_failed(void *context, uint32_t channel, uint32_t step, int error)
{
    struct fuzz_host *h = context;

    (void)error;
    fuzz_known(h, channel);
    MUST(exec_step_name(step));
    h->over[channel] = true;
}

static void fuzz_done(void *context, uint32_t channel, int error, const char *text)
{
    struct fuzz_host *h = context;

    fuzz_known(h, channel);
    MUST(error >= 0 && text);
    h->over[channel] = true;
}

static void fuzz_writable(void *context, uint32_t channel)
{
    struct fuzz_host *h = context;

    if (link_writable(h->link, channel) > 0)
        link_send(h->link, channel, "x", 1);
}

static const struct link_events fuzz_events = {
    .started = fuzz_started,
    .data = fuzz_data,
    .eof = fuzz_eof,
    .exited = fuzz_exited,
    .failed = fuzz_failed,
    .done = fuzz_done,
    .writable = fuzz_writable,
};

/* One channel of each kind: exec 1, put 2, get 3, list 4. */
static void fuzz_open_channels(struct link *l)
{
    char arg[] = "true", cwd[] = "/", path[] = "f", dir[] = ".";
    char *argv[] = { arg, NULL }, *env[] = { NULL };
    struct jail jail = { .workdir = cwd };
    struct exec_message exec = { .argv = argv, .env = env, .cwd = cwd };
    struct put_message put = { .path = path, .mode = 0600 };
    struct get_message get = { .path = path };
    uint32_t channel = 0;

    MUST(link_jail(l, &jail, NULL) == 0);
    MUST(link_exec(l, &exec, &channel, NULL) == 0 && channel == 1);
    MUST(link_put(l, &put, &channel, NULL) == 0 && channel == 2);
    MUST(link_get(l, &get, &channel, NULL) == 0 && channel == 3);
    MUST(link_list(l, dir, &channel, NULL) == 0 && channel == FUZZ_CHANNELS);
    link_send(l, 1, "12345678", 8); /* so that the guest may grant as much again */
    link_send(l, 2, "12345678", 8);
    link_send_eof(l, 2);
}

static void fuzz_flush(struct link *l)
{
    size_t len = 0;

    (void)link_pending(l, &len);
    link_sent(l, len);
}

/* The first byte says in pieces of which size the rest arrives. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_host h = { .link = NULL };
    size_t step = len > 0 ? (size_t)data[0] + 1 : 1;
    struct vial_error err = { 0 };
    int rc = 0;

    h.link = link_new(&fuzz_events, &h);
    MUST(h.link);
    fuzz_open_channels(h.link);
    for (size_t at = 1; at < len && rc == 0; at += step) {
        rc = link_feed(h.link, data + at, len - at < step ? len - at : step, &err);
        fuzz_flush(h.link);
    }
    if (rc < 0) {
        MUST(strncmp(err.code, "VIAL-", 5) == 0 && err.message[0]);
        MUST(link_feed(h.link, data, 1, &err) < 0); /* dead stays dead */
    }
    link_free(h.link);
    return 0;
}
