/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/foreign_guest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"

#if defined(__x86_64__)
    #define OWN_ARCH "amd64"
#else
    #define OWN_ARCH "arm64"
#endif

/* What an engine says is compared with these, and never becomes part of a path. */
static const char *const known[] = { "amd64", "arm64" };

static int ask_arch(const struct api *api, const char **out, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    struct api_call call = { .method = "GET",
                             .target = "/version",
                             .about = "ask the engine for its architecture" };
    const char *arch = NULL;

    *out = NULL;
    if (api_do(api, &call, &answer, err) < 0)
        return -1;
    arch = json_string_value(json_object_get(answer, "Arch"));
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (str_eq(arch, known[i]))
            *out = known[i];
    if (*out)
        return 0;
    return fail(err, VIAL_E_UNSUPPORTED,
                "the engine's architecture is neither amd64 nor arm64");
}

static int open_beside(int guest_fd, const char *image, const char *arch,
                       struct vial_error *err)
{
    char link[32];
    char path[PATH_MAX];
    char file[PATH_MAX + 16];
    ssize_t n = 0;
    int fd = -1;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", guest_fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0 || path[0] != '/')
        return fail_sys(err, "find the guest program");
    path[n] = '\0';
    (void)snprintf(file, sizeof(file), "%s-%s", path, arch);
    fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        return fd;
    if (errno != ENOENT)
        return fail_sys(err, "open '%s'", file);
    (void)fail(err, VIAL_E_GUEST,
               "image '%s' needs a guest for %s, and this vial has one for " OWN_ARCH
               " alone",
               image, arch);
    return fail_remedy(err,
                       "install the package 'vial-foreign', or build vial where the "
                       "cross compiler for %s is",
                       arch);
}

int foreign_guest(const struct api *api, int guest_fd, const char *image,
                  const char *image_arch, struct foreign *out, struct vial_error *err)
{
    struct foreign found = FOREIGN_NONE;

    *out = found;
    if (!*image_arch || str_eq(image_arch, OWN_ARCH))
        return 0;
    if (ask_arch(api, &found.arch, err) < 0)
        return -1;
    if (str_eq(found.arch, OWN_ARCH))
        return 0;
    found.fd = open_beside(guest_fd, image, found.arch, err);
    if (found.fd < 0)
        return -1;
    *out = found;
    return 0;
}
