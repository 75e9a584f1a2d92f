/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/samples.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/sha256.h"

/* The rows are counted part by part, each with the tasks of a share of all hashes. */
#define PART_TASKS 8192u
#define PARTS_MOST 256u
#define KS         3u

static const unsigned ks[KS] = { 1, 10, 100 };

/* A task: its hash, with a bit that is always set, and its rows. */
struct slot {
    uint64_t key;
    uint32_t rows, passed;
};

struct table {
    struct slot *slots;
    size_t cap, used;
};

struct sums {
    size_t tasks;
    uint32_t fewest, most; /* rows of any task */
    double rates[KS];
};

int samples_open(struct samples *s)
{
    int fd = io_temp_file();

    *s = (struct samples){ .file = fd < 0 ? NULL : fdopen(fd, "w+e") };
    if (!s->file && fd >= 0)
        (void)close(fd);
    return s->file ? 0 : -1;
}

void samples_close(struct samples *s)
{
    if (s->file)
        (void)fclose(s->file);
    *s = (struct samples){ 0 };
}

/* A text and a number of the same digits are one task. */
static uint64_t hash_of(const json_t *id)
{
    const char *text = json_string_value(id);
    size_t len = json_string_length(id);
    char number[32];
    char hex[65];
    struct sha256 h;

    if (!text) {
        len = (size_t)snprintf(number, sizeof(number), "%lld",
                               (long long)json_integer_value(id));
        text = number;
    }
    sha256_init(&h);
    sha256_add(&h, text, len);
    sha256_text(&h, hex);
    hex[16] = '\0';
    return strtoull(hex, NULL, 16);
}

void samples_add(struct samples *s, const json_t *id, bool passed)
{
    uint64_t word = (hash_of(id) & ~UINT64_C(1)) | passed;

    s->count++;
    s->broken = s->broken || fwrite(&word, sizeof(word), 1, s->file) != 1;
}

/* False: more tasks than there are places for, which chance alone does not bring. */
static bool count_word(struct table *t, uint64_t word)
{
    uint64_t key = word | 1;
    size_t at = (size_t)(key >> 32) % t->cap;

    while (t->slots[at].key && t->slots[at].key != key)
        at = (at + 1) % t->cap;
    t->used += !t->slots[at].key;
    t->slots[at].key = key;
    t->slots[at].rows++;
    t->slots[at].passed += word & 1;
    return t->used < t->cap - t->cap / 4;
}

static bool count_part(struct samples *s, struct table *t, size_t part, size_t parts)
{
    uint64_t word;
    bool fits = true;

    memset(t->slots, 0, t->cap * sizeof(*t->slots));
    t->used = 0;
    rewind(s->file);
    for (size_t i = 0; fits && i < s->count; i++) {
        if (fread(&word, sizeof(word), 1, s->file) != 1)
            return false;
        if ((word >> 1) % parts == part)
            fits = count_word(t, word);
    }
    return fits;
}

/* The chance that K samples out of N, of which C are right, have a right one. */
static double pass_at(uint32_t n, uint32_t c, unsigned k)
{
    double wrong = 1;

    if (n - c < k)
        return 1;
    for (uint32_t i = n - c + 1; i <= n; i++)
        wrong *= 1 - k / (double)i;
    return 1 - wrong;
}

static void sum_up(const struct table *t, struct sums *sums)
{
    for (size_t i = 0; i < t->cap; i++) {
        const struct slot *task = &t->slots[i];

        if (!task->key)
            continue;
        sums->tasks++;
        sums->fewest = task->rows < sums->fewest ? task->rows : sums->fewest;
        sums->most = task->rows > sums->most ? task->rows : sums->most;
        for (size_t k = 0; k < KS; k++)
            sums->rates[k] += pass_at(task->rows, task->passed, ks[k]);
    }
}

static bool count_all(struct samples *s, struct sums *sums)
{
    size_t parts = s->count / PART_TASKS + 1;
    struct table t = { 0 };
    bool fits;

    parts = parts < PARTS_MOST ? parts : PARTS_MOST;
    t.cap = 4 * (s->count / parts + 1);
    t.slots = calloc(t.cap, sizeof(*t.slots));
    fits = t.slots && fflush(s->file) == 0;
    for (size_t part = 0; fits && part < parts; part++) {
        fits = count_part(s, &t, part, parts);
        sum_up(&t, sums);
    }
    free(t.slots);
    return fits;
}

json_t *samples_rates(struct samples *s, json_t **tasks)
{
    struct sums sums = { .fewest = UINT32_MAX };
    json_t *rates = json_object();
    bool known = !s->broken && s->count > 0 && count_all(s, &sums);

    *tasks =
        known ? json_pack("{s:I, s:I, s:I}", "count", (json_int_t)sums.tasks, "fewest",
                          (json_int_t)sums.fewest, "most", (json_int_t)sums.most)
              : json_null();
    for (size_t k = 0; known && k < KS; k++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "pass@%u", ks[k]);
        if (sums.fewest >= ks[k])
            (void)json_object_set_new(rates, name,
                                      json_real(sums.rates[k] / (double)sums.tasks));
    }
    return rates;
}
