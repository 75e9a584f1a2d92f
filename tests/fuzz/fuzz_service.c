/* SPDX-License-Identifier: Apache-2.0 */
/* What a service that speaks E2B's wire answers to the driver. */
#include <jansson.h>

#include "driver/e2b/answers.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int note_event(void *context, const struct e2b_event *event,
                      struct vial_error *err)
{
    (void)err;
    MUST(event->kind != EVENT_START || event->pid > 0);
    MUST(memchr(event->status, '\0', sizeof(event->status)));
    str_printf(context, "%d %u %zu %s;", (int)event->kind, event->pid, event->data.len,
               event->status);
    str_add(context, event->data.data ? event->data.data : "", event->data.len);
    return 0;
}

/* What a stream comes to that arrives in pieces of STEP bytes. */
static int take_stream(const char *data, size_t len, size_t step, struct str *seen)
{
    struct e2b_frames frames = { 0 };
    struct vial_error err = { 0 };
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < len; at += step)
        rc = e2b_feed(&frames, data + at, len - at < step ? len - at : step, note_event,
                      seen, &err);
    MUST(rc == 0 || (err.code[0] && err.message[0]));
    MUST(frames.held.len <= len);
    str_done(&frames.held);
    return rc;
}

static void take_answer(const char *data, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    json_t *answer = json_loadb(data, len, JSON_DECODE_ANY, NULL);
    struct e2b_box box;
    char home[E2B_PATH];

    if (!answer)
        return;
    MUST(e2b_read_box(answer, &box, NULL) < 0 || box.id[0]);
    MUST(strspn(box.id, letters) == strlen(box.id));
    if (e2b_read_home(answer, ".f", home, NULL) == 0)
        MUST(home[0] == '/' && !strchr(home, '\n') && !strstr(home, "/../"));
    json_decref(answer);
}

/* However a stream is cut, the same comes out. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_str struct str whole = { 0 };
    auto_str struct str cut = { 0 };
    const char *text = (const char *)data;
    int rc = take_stream(text, len, len + 1, &whole);

    MUST(take_stream(text, len, 1, &cut) == rc);
    MUST(cut.len == whole.len);
    MUST(cut.len == 0 || memcmp(cut.data, whole.data, cut.len) == 0);
    take_answer(text, len);
    return 0;
}
