/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/judge0_info.h"

#include <stdlib.h>
#include <string.h>

#include "base/unit.h"
#include "wires/faces.h"
#include "wires/judge0_words.h"
#include "wires/wires.h"

#define VERSION "1.13.1" /* by which clients look their languages' numbers up */
#define TEXT    "text/plain; charset=utf-8"

static json_t *words_text(json_t *words)
{
    auto_str struct str text = { 0 };

    if (!words)
        return json_null();
    for (size_t i = 0; i < json_array_size(words); i++)
        str_printf(&text, "%s%s", i ? " " : "",
                   json_string_value(json_array_get(words, i)));
    return str_ok(&text) ? json_string(text.data) : NULL;
}

void judge0_languages(struct call *c)
{
    json_t *all = json_object_get(c->serve->wires->languages, face_judge0.name);
    bool archived = strstr(web_path(c->web), "/languages/all") != NULL;
    json_t *told = json_array();

    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *ids = json_object_get(json_array_get(all, i), "ids");

        for (size_t k = 0; k < json_array_size(ids); k++) {
            json_t *id = json_array_get(ids, k);
            auto_str struct str name = { 0 };
            json_t *one;

            if (!judge0_language(c, json_integer_value(id), &name) || !str_ok(&name))
                continue;
            one = json_pack("{s:O, s:s}", "id", id, "name", name.data);
            if (archived)
                (void)json_object_set_new(one, "is_archived", json_false());
            (void)json_array_append_new(told, one);
        }
    }
    call_json(c, 200, told);
}

void judge0_one_language(struct call *c)
{
    auto_str struct str name = { 0 };
    int64_t id = -1;
    json_t *entry = NULL;
    const char *file;

    if (unit_parse_count(c->params[0], &id) == 0)
        entry = judge0_language(c, id, &name);
    if (!entry) {
        face_judge0.refuse(c, 404, NULL);
        return;
    }
    file = json_string_value(json_object_get(entry, "file"));
    call_json(c, 200,
              json_pack("{s:I, s:s, s:b, s:s?, s:o, s:o}", "id", (json_int_t)id, "name",
                        name.data, "is_archived", 0, "source_file", file, "compile_cmd",
                        words_text(json_object_get(entry, "compile")), "run_cmd",
                        words_text(json_object_get(entry, "plain"))));
}

void judge0_statuses(struct call *c)
{
    json_t *told = json_array();

    for (int i = 1; i <= JUDGE0_STATUSES; i++)
        (void)json_array_append_new(
            told,
            json_pack("{s:i, s:s}", "id", i, "description", judge0_status_name(i)));
    call_json(c, 200, told);
}

void judge0_about(struct call *c)
{
    call_json(c, 200,
              json_pack("{s:s, s:s, s:s, s:s}", "version", VERSION, "homepage", "",
                        "source_code", "", "maintainer", "vial"));
}

static void say(struct call *c, const char *text)
{
    call_text(c, 200, TEXT, text, strlen(text));
}

void judge0_version(struct call *c)
{
    say(c, VERSION);
}

void judge0_isolate(struct call *c)
{
    say(c, "vial");
}

void judge0_license(struct call *c)
{
    say(c, "Apache-2.0");
}

static void put_limit(struct call *c, json_t *told, enum judge0_limit id)
{
    const struct judge0_bound *b = &judge0_bounds[id];
    double most = judge0_most(c, id);
    auto_str struct str name = { 0 };

    str_printf(&name, "max_%s", b->name);
    if (!str_ok(&name))
        return;
    (void)json_object_set_new(told, b->name,
                              b->seconds ? json_real(b->usual)
                                         : json_integer((json_int_t)b->usual));
    (void)json_object_set_new(
        told, name.data, b->seconds ? json_real(most) : json_integer((json_int_t)most));
}

void judge0_config(struct call *c)
{
    const bool calls = c->serve->callbacks.rules != NULL;
    const struct {
        const char *name;
        bool on;
    } flags[] = {
        { "enable_wait_result", true },
        { "enable_compiler_options", true },
        { "enable_command_line_arguments", true },
        { "enable_submission_delete",
          strv_has(&c->gen->settings->serve.judge0, "delete") },
        { "enable_callbacks", calls },
        { "enable_additional_files", additional_files_work(c) },
        { "enable_batched_submissions", true },
        { "redirect_stderr_to_stdout", false },
        { "enable_per_process_and_thread_time_limit", false },
        { "allow_enable_per_process_and_thread_time_limit", false },
        { "enable_per_process_and_thread_memory_limit", false },
        { "allow_enable_per_process_and_thread_memory_limit", false },
        { "enable_network", false },
        { "allow_enable_network", false },
        { "maintenance_mode", false },
        { "use_docs_as_homepage", false },
    };
    json_t *told = json_pack(
        "{s:[], s:i, s:f, s:i, s:I, s:i, s:f}", "allowed_languages_for_compile_options",
        "callbacks_max_tries", calls ? CALLBACK_TRIES : 0, "callbacks_timeout",
        calls ? CALLBACK_TIMEOUT_MS / 1000.0 : 0.0, "max_submission_batch_size", 20,
        "max_queue_size", (json_int_t)c->gen->settings->serve.queue, "max_extract_size",
        10240, "submission_cache_duration", 0.0);

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        (void)json_object_set_new(told, flags[i].name, json_boolean(flags[i].on));
    for (int i = 0; i < JUDGE0_LIMITS; i++)
        put_limit(c, told, (enum judge0_limit)i);
    call_json(c, 200, told);
}

void judge0_workers(struct call *c)
{
    unsigned running, waiting;
    int most = (int)c->serve->gate.most;

    gate_count(&c->serve->gate, &running, &waiting);
    call_json(c, 200,
              json_pack("[{s:s, s:i, s:i, s:i, s:i, s:i}]", "queue", "default", "size",
                        (int)waiting, "available", most, "idle",
                        (int)running < most ? most - (int)running : 0, "working",
                        (int)running, "paused", 0));
}

void judge0_nothing(struct call *c)
{
    call_json(c, 200, json_object());
}
