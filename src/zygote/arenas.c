/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/arenas.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE ((uintptr_t)2 << 20)
#define SIZE ((uintptr_t)128 << 20) /* of addresses; what is not used costs nothing */

/* PyObjectArenaAllocator, the same since 3.4. */
struct allocator {
    void *context;
    void *(*get)(void *context, size_t size);
    void (*put)(void *context, void *at, size_t size);
};

struct piece {
    struct allocator before;
    uintptr_t next, end;
};

typedef void allocator_fn(struct allocator *a);

static void *get(void *context, size_t size)
{
    struct piece *p = context;
    uintptr_t at = p->next;

    if (size > p->end - at)
        return p->before.get(p->before.context, size);
    p->next = at + size;
    return (void *)at;
}

static void put(void *context, void *at, size_t size)
{
    struct piece *p = context;

    p->before.put(p->before.context, at, size); /* an munmap, wherever it lies */
}

static allocator_fn *find(const char *name)
{
    allocator_fn *found = NULL;

    *(void **)(void *)&found = dlsym(RTLD_DEFAULT, name);
    return found;
}

void arenas_gather(void)
{
    allocator_fn *ask = find("PyObject_GetArenaAllocator");
    allocator_fn *set = find("PyObject_SetArenaAllocator");
    struct piece *p = calloc(1, sizeof *p);
    void *at = mmap(NULL, SIZE + HUGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!ask || !set || !p || at == MAP_FAILED)
        return;
    p->next = ((uintptr_t)at + HUGE - 1) / HUGE * HUGE;
    p->end = p->next + SIZE;
    (void)munmap(at, p->next - (uintptr_t)at);
    (void)munmap((void *)p->end, (uintptr_t)at + HUGE - p->next);
    ask(&p->before);
    set(&(struct allocator){ p, get, put });
}

void arenas_settle(void)
{
    allocator_fn *ask = find("PyObject_GetArenaAllocator");
    allocator_fn *set = find("PyObject_SetArenaAllocator");
    struct allocator now = { 0 };
    struct piece *p = NULL;

    if (!ask || !set)
        return;
    ask(&now);
    if (now.get != get)
        return;
    p = now.context;
    (void)munmap((void *)p->next, p->end - p->next);
    set(&p->before);
    free(p);
}
