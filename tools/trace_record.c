/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into the programs of tools/trace's own build alone. gcc calls the first of
 * these functions at the begin of every function; it notes thread and address in a file
 * that is mapped, once for each pair. It makes no system call, so it may stand in a
 * child that has its parent's memory, and behind any filter; what a process forks goes
 * on in its file. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define SLOTS (1U << 17)

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static uint64_t *table;
static uint32_t threads;
static __thread uint32_t thread;

/* The file is TRACE_DIR/PROGRAM.PID. Who cannot make it, or is none of ours (an
 * interpreter that has loaded the zygote's library), is not traced. */
static QUIET __attribute__((constructor)) void open_table(void)
{
    const char *program = program_invocation_short_name;
    char path[4096];
    int fd;
    void *map;

    if (strncmp(program, "vial", 4) != 0)
        return;
    snprintf(path, sizeof(path), TRACE_DIR "/%s.%d", program, (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (ftruncate(fd, SLOTS * sizeof(*table)) == 0) {
        map = mmap(NULL, SLOTS * sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                   0);
        table = map == MAP_FAILED ? NULL : map;
    }
    close(fd);
}

QUIET void __cyg_profile_func_enter(void *function, void *caller)
{
    uint64_t key, seen;
    uint32_t at;

    (void)caller;
    if (!table)
        return;
    if (!thread)
        thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    key = (uint64_t)thread << 32 | (uint32_t)((const char *)function - __ehdr_start);
    at = (uint32_t)(key * 0x9E3779B97F4A7C15U >> 40);
    for (uint32_t n = 0; n < SLOTS; n++) {
        uint64_t *slot = &table[(at + n) % SLOTS];

        seen = 0;
        if (*slot == key ||
            __atomic_compare_exchange_n(slot, &seen, key, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED) ||
            seen == key)
            return;
    }
}

QUIET void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
}
