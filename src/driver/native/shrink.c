/* SPDX-License-Identifier: Apache-2.0 */

/* Rewrites a filter into the smallest form we know: a search among ranges of call
 * numbers, and behind it only those tests of arguments that can still differ. The
 * kernel's work at loading is proportional to a filter's length, and every program of
 * every vessel loads one. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "driver/native/profile.h"

#define NODES_MAX  4096
#define RANGES_MAX 2048
#define FACTS_MAX  64
#define EFFORT_MAX 1000000u
/* Less than the 8 bits of a jump hold: room for what is put between. */
#define JUMP_MAX 250u
#define WHOLE    UINT32_MAX
#define NOWHERE  UINT32_MAX

/* What a filter says once the call is known: a verdict, or a test of an argument's
 * word (LOAD & MASK against K) and what is said after it. Equal ones are one. */
struct node {
    uint16_t op; /* BPF_RET, or the jump's */
    uint32_t load, mask, k;
    uint32_t yes, no;     /* nodes */
    uint32_t entry, test; /* where it was written, with its load and behind that */
};

/* What is known of an argument's word on the way to a place. */
struct fact {
    uint32_t load, mask, k;
    bool equal;
};

struct program {
    const struct sock_filter *f;
    size_t count;
};

struct shrinker {
    struct node nodes[NODES_MAX];
    size_t node_count;
    uint32_t starts[RANGES_MAX]; /* of ranges of calls, ascending */
    uint32_t said[RANGES_MAX];   /* node of each */
    size_t range_count;
    struct fact facts[FACTS_MAX];
    size_t fact_count;
    struct sock_filter code[BPF_MAXINSNS]; /* last instruction first */
    size_t code_count;
    uint32_t arch;
    unsigned effort;
    bool failed; /* not understood, or no room: the filter stays as it is */
};

/* The accumulator on a walk: a value, or an argument's word. */
struct held {
    bool known;
    bool is_call;
    uint32_t value;
    uint32_t load, mask;
};

static uint32_t give_up(struct shrinker *s)
{
    s->failed = true;
    return 0;
}

static uint32_t intern(struct shrinker *s, struct node n)
{
    n.entry = n.test = NOWHERE;
    for (uint32_t i = 0; i < s->node_count; i++) {
        const struct node *o = &s->nodes[i];

        if (o->op == n.op && o->load == n.load && o->mask == n.mask && o->k == n.k &&
            o->yes == n.yes && o->no == n.no)
            return i;
    }
    if (s->node_count == NODES_MAX)
        return give_up(s);
    s->nodes[s->node_count] = n;
    return (uint32_t)s->node_count++;
}

static bool meets(unsigned op, uint32_t value, uint32_t k)
{
    switch (op) {
    case BPF_JEQ:
        return value == k;
    case BPF_JGT:
        return value > k;
    case BPF_JGE:
        return value >= k;
    default:
        return value & k; /* JSET */
    }
}

/* 1, 0: how the test ends here for certain; -1: it depends. */
static int foresee(const struct shrinker *s, unsigned op, const struct held *a,
                   uint32_t k)
{
    for (size_t i = 0; i < s->fact_count; i++) {
        const struct fact *f = &s->facts[i];

        if (f->load != a->load)
            continue;
        if (f->equal && (f->mask & a->mask) == a->mask)
            return meets(op, f->k & a->mask, k);
        if (!f->equal && op == BPF_JEQ && f->mask == a->mask && f->k == k)
            return 0;
    }
    return -1;
}

static uint32_t specialise(struct shrinker *s, const struct program *p, size_t at,
                           struct held a, uint32_t call);

/* NOLINTNEXTLINE(misc-no-recursion) */
static uint32_t branch(struct shrinker *s, const struct program *p, size_t at,
                       struct held a, uint32_t call, bool taken)
{
    const struct sock_filter *f = &p->f[at];
    bool learns = BPF_OP(f->code) == BPF_JEQ;
    uint32_t node = 0;

    if (learns && s->fact_count == FACTS_MAX)
        return give_up(s);
    if (learns)
        s->facts[s->fact_count++] = (struct fact){ a.load, a.mask, f->k, taken };
    node = specialise(s, p, at + 1 + (taken ? f->jt : f->jf), a, call);
    s->fact_count -= learns ? 1 : 0;
    return node;
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static uint32_t jump(struct shrinker *s, const struct program *p, size_t at,
                     struct held a, uint32_t call)
{
    const struct sock_filter *f = &p->f[at];
    unsigned op = BPF_OP(f->code);
    int sure = -1;
    struct node n = { .op = (uint16_t)op, .load = a.load, .mask = a.mask, .k = f->k };

    if (op == BPF_JA)
        return specialise(s, p, at + 1 + f->k, a, call);
    if (BPF_SRC(f->code) != BPF_K || (a.is_call && op == BPF_JSET))
        return give_up(s);
    sure = a.known ? meets(op, a.value, f->k) : foresee(s, op, &a, f->k);
    if (sure >= 0)
        return specialise(s, p, at + 1 + (sure ? f->jt : f->jf), a, call);
    n.yes = branch(s, p, at, a, call, true);
    n.no = branch(s, p, at, a, call, false);
    return n.yes == n.no ? n.yes : intern(s, n);
}

static struct held load(const struct shrinker *s, uint32_t from, uint32_t call)
{
    if (from == offsetof(struct seccomp_data, nr))
        return (struct held){ .known = true, .is_call = true, .value = call };
    if (from == offsetof(struct seccomp_data, arch))
        return (struct held){ .known = true, .value = s->arch };
    return (struct held){ .load = from, .mask = WHOLE };
}

/* What P says about CALL from AT on. Jumps lead forward only, so this ends. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static uint32_t specialise(struct shrinker *s, const struct program *p, size_t at,
                           struct held a, uint32_t call)
{
    const struct sock_filter *f = &p->f[at];

    if (s->failed || at >= p->count || ++s->effort > EFFORT_MAX)
        return give_up(s);
    switch (f->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        return specialise(s, p, at + 1, load(s, f->k, call), call);
    case BPF_ALU | BPF_AND | BPF_K:
        if (a.is_call)
            return give_up(s);
        a.value &= f->k;
        a.mask &= f->k;
        if (!a.known && a.mask == 0)
            a = (struct held){ .known = true };
        return specialise(s, p, at + 1, a, call);
    case BPF_RET | BPF_K:
        return intern(s, (struct node){ .op = BPF_RET, .k = f->k });
    default:
        return BPF_CLASS(f->code) == BPF_JMP ? jump(s, p, at, a, call) : give_up(s);
    }
}

static void add_start(struct shrinker *s, uint32_t start)
{
    size_t at = 0;

    while (at < s->range_count && s->starts[at] < start)
        at++;
    if (at < s->range_count && s->starts[at] == start)
        return;
    if (s->range_count == RANGES_MAX) {
        s->failed = true;
        return;
    }
    memmove(&s->starts[at + 1], &s->starts[at], (s->range_count - at) * sizeof(start));
    s->starts[at] = start;
    s->range_count++;
}

/* Between two neighbouring constants no comparison can tell calls apart, and whatever
 * is compared, a call or not, is taken for such a constant. What does more to a call
 * than compare it is not understood. */
static void find_ranges(struct shrinker *s, const struct program *p)
{
    add_start(s, 0);
    for (size_t i = 0; i < p->count; i++) {
        const struct sock_filter *f = &p->f[i];

        if (BPF_CLASS(f->code) != BPF_JMP || BPF_OP(f->code) == BPF_JA)
            continue;
        add_start(s, f->k);
        if (f->k != UINT32_MAX)
            add_start(s, f->k + 1);
    }
}

static uint32_t say(struct shrinker *s, const struct program *p, uint32_t call)
{
    return specialise(s, p, 0, (struct held){ .known = true }, call);
}

/* Neighbours of which the same is said become one. */
static void merge_ranges(struct shrinker *s, const struct program *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->range_count && !s->failed; i++) {
        uint32_t node = say(s, p, s->starts[i]);

        if (kept && s->said[kept - 1] == node)
            continue;
        s->starts[kept] = s->starts[i];
        s->said[kept++] = node;
    }
    s->range_count = kept;
}

/* Code is written from its end, as jumps lead forward. Returns where it stands. */
static uint32_t put(struct shrinker *s, uint16_t code, uint32_t k, uint32_t yes,
                    uint32_t no)
{
    struct sock_filter f = { .code = code, .k = k };
    uint32_t here = (uint32_t)s->code_count;

    if (here == BPF_MAXINSNS || s->failed)
        return give_up(s);
    if (BPF_CLASS(code) == BPF_JMP && BPF_OP(code) != BPF_JA) {
        f.jt = (uint8_t)(here - 1 - yes);
        f.jf = (uint8_t)(here - 1 - no);
    }
    s->code[s->code_count++] = f;
    return here;
}

/* A place from where TARGET is reached that a jump written next can reach. */
static uint32_t near(struct shrinker *s, uint32_t target)
{
    size_t here = s->code_count;

    if (here - 1 - target <= JUMP_MAX)
        return target;
    return put(s, BPF_JMP | BPF_JA, (uint32_t)(here - 1 - target), 0, 0);
}

static uint32_t write_jump(struct shrinker *s, unsigned op, uint32_t k, uint32_t yes,
                           uint32_t no)
{
    uint32_t far_yes = near(s, yes);
    uint32_t far_no = near(s, no);

    return put(s, (uint16_t)(BPF_JMP | op | BPF_K), k, far_yes, far_no);
}

static bool is_near(const struct shrinker *s, uint32_t place)
{
    return place != NOWHERE && s->code_count - place <= JUMP_MAX;
}

static uint32_t write_node(struct shrinker *s, uint32_t index);

/* Where to go on for NEXT after a test of N: behind its load if that is the same. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static uint32_t follow(struct shrinker *s, const struct node *n, uint32_t next)
{
    const struct node *o = &s->nodes[next];
    uint32_t entry = write_node(s, next);

    return o->op != BPF_RET && o->load == n->load && o->mask == n->mask ? o->test
                                                                        : entry;
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static uint32_t write_node(struct shrinker *s, uint32_t index)
{
    struct node *n = &s->nodes[index];
    uint32_t yes = 0;
    uint32_t no = 0;

    if (n->op == BPF_RET && !is_near(s, n->entry)) /* no longer than a jump to it */
        n->entry = put(s, BPF_RET | BPF_K, n->k, 0, 0);
    if (n->entry != NOWHERE || s->failed)
        return n->entry;
    no = follow(s, n, n->no);
    yes = follow(s, n, n->yes);
    n->test = n->entry = write_jump(s, n->op, n->k, yes, no);
    if (n->mask != WHOLE)
        n->entry = put(s, BPF_ALU | BPF_AND | BPF_K, n->mask, 0, 0);
    n->entry = put(s, BPF_LD | BPF_W | BPF_ABS, n->load, 0, 0);
    return n->entry;
}

/* A search among the ranges from FIRST to before END. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static uint32_t write_search(struct shrinker *s, size_t first, size_t end)
{
    size_t middle = first + (end - first) / 2;
    uint32_t above = 0;
    uint32_t below = 0;

    if (end - first == 1)
        return write_node(s, s->said[first]);
    above = write_search(s, middle, end);
    below = write_search(s, first, middle);
    return write_jump(s, BPF_JGE, s->starts[middle], above, below);
}

/* Any foreign architecture gets one answer, at once; which is what makes the rest of
 * the filter ours alone to read. */
static bool foreign_answer(const struct program *p, uint32_t arch, uint32_t *out)
{
    const struct sock_filter *f = p->f;
    size_t at = 2 + (p->count > 2 ? f[1].jf : 0);

    if (p->count < 3 || f[0].code != (BPF_LD | BPF_W | BPF_ABS) ||
        f[0].k != offsetof(struct seccomp_data, arch) ||
        f[1].code != (BPF_JMP | BPF_JEQ | BPF_K) || f[1].k != arch)
        return false;
    while (at < p->count && f[at].code == (BPF_JMP | BPF_JA))
        at += 1 + f[at].k;
    if (at >= p->count || f[at].code != (BPF_RET | BPF_K))
        return false;
    *out = f[at].k;
    return true;
}

static void write_filter(struct shrinker *s, uint32_t foreign)
{
    uint32_t search = write_search(s, 0, s->range_count);

    search = near(s, search);
    if (search + 1 != s->code_count)
        (void)put(s, BPF_JMP | BPF_JA, (uint32_t)(s->code_count - 1 - search), 0, 0);
    (void)put(s, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    search = (uint32_t)s->code_count - 1;
    foreign = put(s, BPF_RET | BPF_K, foreign, 0, 0);
    (void)put(s, BPF_JMP | BPF_JEQ | BPF_K, s->arch, search, foreign);
    (void)put(s, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    for (size_t i = 0; i < s->code_count / 2; i++) {
        struct sock_filter f = s->code[i];

        s->code[i] = s->code[s->code_count - 1 - i];
        s->code[s->code_count - 1 - i] = f;
    }
}

/* Of no call that either filter can tell from its neighbours is anything else said. */
static bool says_the_same(struct shrinker *s, const struct program *before)
{
    struct program after = { s->code, s->code_count };

    find_ranges(s, before);
    find_ranges(s, &after);
    for (size_t i = 0; i < s->range_count && !s->failed; i++) {
        if (say(s, before, s->starts[i]) != say(s, &after, s->starts[i]))
            return false;
    }
    return !s->failed;
}

int profile_shrink(struct blob *filter, struct vial_error *err)
{
    struct shrinker *s = calloc(1, sizeof(*s));
    struct program p = { (const void *)filter->data,
                         filter->len / sizeof(struct sock_filter) };
    uint32_t foreign = 0;
    int rc = 0;

    if (!s)
        return fail_memory(err);
    s->arch = seccomp_arch_native();
    s->failed = !foreign_answer(&p, s->arch, &foreign);
    if (!s->failed)
        find_ranges(s, &p);
    merge_ranges(s, &p);
    if (!s->failed)
        write_filter(s, foreign);
    if (!s->failed && s->code_count < p.count && says_the_same(s, &p))
        rc = blob_set(filter, s->code, s->code_count * sizeof(struct sock_filter));
    free(s);
    return rc < 0 ? fail_memory(err) : 0;
}
