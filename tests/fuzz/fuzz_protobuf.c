/* SPDX-License-Identifier: Apache-2.0 */
/* What a client of E2B's wire sends in protobuf, as any of its messages. */
#include "e2b/protobuf.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static json_t *rewrite(const struct proto_message *m, const json_t *value)
{
    auto_str struct str bytes = { 0 };

    proto_write(m, value, &bytes);
    MUST(!bytes.failed);
    return proto_read(m, bytes.data ? bytes.data : "", bytes.len);
}

/* What is taken can be written, and what is written stays as it is. */
static void take_as(const struct proto_message *m, const uint8_t *data, size_t len)
{
    json_t *value = proto_read(m, data, len);
    json_t *once = NULL;
    json_t *twice = NULL;

    if (!value)
        return;
    MUST(json_is_object(value));
    once = rewrite(m, value);
    MUST(once);
    twice = rewrite(m, once);
    MUST(json_equal(once, twice));
    json_decref(value);
    json_decref(once);
    json_decref(twice);
}

/* The first byte says which call it is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const paths[] = {
        "/process.Process/List",
        "/process.Process/Start",
        "/process.Process/Update",
        "/process.Process/SendInput",
        "/process.Process/StreamInput",
        "/process.Process/SendSignal",
        "/filesystem.Filesystem/Stat",
        "/filesystem.Filesystem/Move",
        "/filesystem.Filesystem/ListDir",
        "/filesystem.Filesystem/WatchDir",
        "/filesystem.Filesystem/GetWatcherEvents",
    };
    const struct proto_message *takes, *gives;

    if (len == 0)
        return 0;
    MUST(proto_method(paths[data[0] % (sizeof(paths) / sizeof(*paths))], &takes,
                      &gives));
    take_as(takes, data + 1, len - 1);
    take_as(gives, data + 1, len - 1);
    return 0;
}
