/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/owner.h"
#include "base/sys.h"
#include "driver/docker/cache.h"
#include "driver/docker/container.h"
#include "driver/docker/containers.h"
#include "driver/docker/docker.h"
#include "driver/docker/image.h"
#include "driver/docker/oci.h"
#include "driver/gate_process.h"
#include "driver/native/profile.h"
#include "driver/native/seccomp.h"

struct parts { /* what container_options borrows */
    char guest[PATH_MAX];
    char owner[128];
    char host[CONTAINERS_HOST];
    char *seccomp;
    unsigned uid, gid;
    int guest_fd;
    struct image_config image;
};

static int find_guest(int guest_fd, char *out, struct vial_error *err)
{
    char link[32];
    ssize_t n = 0;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", guest_fd);
    n = readlink(link, out, PATH_MAX - 1);
    if (n <= 0 || out[0] != '/')
        return fail_sys(err, "find the guest program");
    out[n] = '\0';
    return 0;
}

static int write_seccomp(const struct plan *plan, int guest_fd, char **out,
                         struct vial_error *err)
{
    char dir[PATH_MAX];
    auto_json json_t *profile = NULL;
    auto_json json_t *oci = NULL;

    if (seccomp_find_dir(guest_fd, dir, err) < 0 ||
        profile_read(dir, plan->seccomp ? plan->seccomp : "default", &profile, err) < 0)
        return -1;
    oci = oci_profile(profile,
                      (struct oci_options){ .own_users = plan->container.nproc,
                                            .counted = plan->count_denied,
                                            .fixed = plan->fixed_addresses },
                      err);
    if (!oci)
        return -1;
    *out = json_dumps(oci, JSON_COMPACT);
    return *out ? 0 : fail_memory(err);
}

/* Chooses the program's user: the owner of what it may write to, so that it can; else
 * who the image says, or nobody else; and never root. */
static int choose_user(const char *vessel_id, const struct plan *plan, struct parts *p,
                       struct vial_error *err)
{
    /* Files that others write to as well need the same user in each container. */
    bool shared = p->image.named || plan_writes_outside(plan);
    unsigned usual = shared ? CONTAINER_USER : container_user(vessel_id);
    struct stat st;

    p->uid = p->image.uid ? p->image.uid : usual;
    p->gid = p->image.gid ? p->image.gid : usual;
    if (plan->container.uid) { /* asked for: file modes decide what it can write */
        p->uid = plan->container.uid;
        p->gid = plan->container.gid;
        return 0;
    }
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct plan_mount *m = &plan->mounts[i];

        if (!m->writable)
            continue;
        if (stat(m->source, &st) < 0)
            return fail_sys(err, "look at mount source '%s'", m->source);
        if (st.st_uid == 0 && (st.st_mode & S_IWOTH))
            continue;
        if (st.st_uid == 0) {
            (void)fail(err, VIAL_E_MOUNT,
                       "mount source '%s' belongs to root, which no container's "
                       "program is",
                       m->source);
            return fail_remedy(err, "give it to an ordinary user ('chown'), or use "
                                    "'--driver native'");
        }
        p->uid = st.st_uid;
        p->gid = st.st_gid ? st.st_gid : CONTAINER_USER;
    }
    return 0;
}

/* The guest that the engine can run. An administrator's profile is compiled for this
 * host's architecture by now. */
static int choose_guest(struct docker *d, const struct plan *plan, int guest_fd,
                        struct parts *p, struct vial_error *err)
{
    if (foreign_guest(&d->api, guest_fd, plan->image, p->image.arch, &d->foreign, err) <
        0)
        return -1;
    if (d->foreign.arch && plan->seccomp_file)
        return fail(err, VIAL_E_UNSUPPORTED,
                    "a seccomp profile of one's own holds for engines of this host's "
                    "architecture alone");
    p->guest_fd = d->foreign.arch ? d->foreign.fd : guest_fd;
    return find_guest(p->guest_fd, p->guest, err);
}

static int gather(struct docker *d, const struct plan *plan, int guest_fd,
                  struct parts *p, struct vial_error *err)
{
    if (config_read(&d->api, plan->image, &p->image, err) < 0 ||
        choose_guest(d, plan, guest_fd, p, err) < 0 ||
        choose_user(d->vessel.id, plan, p, err) < 0 ||
        write_seccomp(plan, guest_fd, &p->seccomp, err) < 0)
        return -1;
    containers_host(p->host);
    if (owner_name(d->vessel.id, p->owner, sizeof(p->owner)) < 0)
        return fail(err, VIAL_E_SYSTEM, "find our own start time");
    return 0;
}

static struct container_options options_of(const struct docker *d,
                                           const struct parts *p)
{
    return (struct container_options){ .vessel_id = d->vessel.id,
                                       .owner = p->owner,
                                       /* Not NULL: without, every host would take
                                        * it for its own. */
                                       .host = p->host[0] ? p->host : "unknown",
                                       .place = d->place,
                                       .guest_path = p->guest,
                                       .guest_fd = p->guest_fd,
                                       .guest_socket_dir =
                                           d->line ? guest_socket_dir(d->line) : NULL,
                                       .seccomp = p->seccomp,
                                       .uid = p->uid,
                                       .gid = p->gid,
                                       .env = &p->image.env,
                                       .volumes = &p->image.volumes,
                                       .posing = &p->image.posing };
}

static int post_create(struct docker *d, const struct plan *plan, json_t *body,
                       bool unique, struct vial_error *err)
{
    auto_str struct str name = { 0 };
    auto_str struct str target = { 0 };
    auto_json json_t *answer = NULL;
    struct api_call call = { .method = "POST",
                             .body = body,
                             .about = "create the container",
                             .object = plan->image };
    const char *id = NULL;

    container_name(&name, plan, d->vessel.id, unique);
    str_printf(&target, "/containers/create?name=%s", str_ok(&name) ? name.data : "");
    if (!str_ok(&name) || !str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    if (api_do(&d->api, &call, &answer, err) < 0)
        return -1;
    id = json_string_value(json_object_get(answer, "Id"));
    if (!id || strlen(id) >= sizeof(d->vessel.container) ||
        strspn(id, "0123456789abcdef") != strlen(id))
        return fail(err, VIAL_E_ENGINE_API, "create the container: it has no id");
    (void)snprintf(d->vessel.container, sizeof(d->vessel.container), "%s", id);
    (void)snprintf(d->vessel.name, sizeof(d->vessel.name), "%s", name.data);
    return 0;
}

/* Two runs may have the same labels; the second gets a longer name. */
static int create(struct docker *d, const struct plan *plan, const struct parts *p,
                  struct vial_error *err)
{
    struct vial_error why = { 0 };
    const struct container_options o = options_of(d, p);
    auto_json json_t *body = container_json(plan, &o);
    int rc = 0;

    if (!body)
        return fail_memory(err);
    rc = post_create(d, plan, body, false, &why);
    if (rc < 0 && fail_is(&why, VIAL_E_NAME_TAKEN))
        rc = post_create(d, plan, body, true, &why);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* With the guest as first process this is its stream; else it keeps the container
 * alive, until its owner ends. */
static int attach(struct docker *d, struct vial_error *err)
{
    auto_str struct str early = { 0 };
    char target[192];
    struct api_call call = { .method = "POST",
                             .target = target,
                             .about = "attach to the container" };
    int fd = -1;

    (void)snprintf(target, sizeof(target),
                   "/containers/%s/attach?stream=1&stdin=1&stdout=1",
                   d->vessel.container);
    if (api_attach(&d->api, &call, &fd, &early, err) < 0) {
        auto_fd_(&fd);
        return -1;
    }
    if (d->place == ENTRY_EXEC) {
        d->hold_fd = fd;
        return 0;
    }
    d->attached_fd = fd;
    d->early = early;
    early = (struct str){ 0 };
    return 0;
}

static int bring(struct docker *d, const struct parts *p, struct vial_error *err)
{
    char user[32];
    const struct guest_entry_in in = { &d->api, d->vessel.container, user };

    if (d->place != ENTRY_EXEC)
        return 0;
    (void)snprintf(user, sizeof(user), "%u:%u", p->uid, p->gid);
    return guest_entry_exec(&in, p->guest_fd, &d->attached_fd, &d->early, err);
}

/* Before anything else is said over the line, which alone can bring a descriptor. */
static int open_gate(struct docker *d, const struct plan *plan, struct vial_error *err)
{
    struct gate_process gate = GATE_PROCESS_NONE;

    if (plan->network != NETWORK_GATE)
        return 0;
    if (d->vessel.stream_fd < 0) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "this container engine is too far away for a gate");
        return fail_remedy(err, "use an engine of this host, or '--driver native'");
    }
    if (gate_process_start(plan, d->vessel.stream_fd, &gate, err) < 0)
        return -1;
    d->gate_pidfd = gate.pidfd;
    d->vessel.gate_fd = gate.owner_fd;
    return 0;
}

/* By the line the engine's stream is of no more use. What is said over the line before
 * it is taken waits there. */
static int meet(struct docker *d, const struct plan *plan, struct vial_error *err)
{
    if (d->line)
        d->vessel.stream_fd = guest_socket_take(d->line, d->attached_fd, d->count.pid);
    guest_socket_close(d->line);
    d->line = NULL;
    if (open_gate(d, plan, err) < 0)
        return -1;
    if (d->vessel.stream_fd < 0)
        return pump_start(fd_take(&d->attached_fd), &d->early, &mux_code, &d->mux,
                          &d->pump, &d->vessel.stream_fd, err);
    auto_fd_(&d->attached_fd);
    d->attached_fd = -1;
    return 0;
}

static int post_start(struct docker *d, struct vial_error *err)
{
    char target[128];
    struct api_call call = { .method = "POST",
                             .target = target,
                             .about = "start the container" };

    (void)snprintf(target, sizeof(target), "/containers/%s/start", d->vessel.container);
    if (api_do(&d->api, &call, NULL, err) < 0)
        return -1;
    d->started = true;
    return 0;
}

/* The engine mounts what a path leads to at that moment; this is whether it is
 * still what was judged. Asked of the kernel where we may look. */
static int check_mount(int root_fd, const struct plan_mount *m, struct vial_error *err)
{
    struct stat st;
    auto_fd int fd =
        sys_openat2(root_fd, m->target, O_PATH | O_CLOEXEC, 0, RESOLVE_IN_ROOT);

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == m->dev && st.st_ino == m->ino)
        return 0;
    return fail(err, VIAL_E_MOUNT, "mount source '%s' was replaced by something else",
                m->source);
}

static int check_mounts(pid_t pid, const struct plan *plan, struct vial_error *err)
{
    char path[64];
    auto_fd int root_fd = -1;

    if (plan->mount_count == 0 || pid <= 0)
        return 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
    root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return errno == EACCES || errno == EPERM ? 0 : fail_sys(err, "open '%s'", path);
    for (size_t i = 0; i < plan->mount_count; i++)
        if (check_mount(root_fd, &plan->mounts[i], err) < 0)
            return -1;
    return 0;
}

/* Podman leaves "sha256:" out. */
static bool is_same_image(const char *id, const struct image_config *image)
{
    const char *wanted = strchr(image->id, ':');

    if (!id)
        return false;
    return str_eq(id, image->id) || (wanted && str_eq(id, wanted + 1));
}

/* Where it is on this host, if it is; and that it was made of the image whose config
 * was read. */
static int look(struct docker *d, const struct plan *plan,
                const struct image_config *image, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    char target[128];
    struct api_call call = { .method = "GET",
                             .target = target,
                             .about = "look at the container" };
    json_int_t pid = 0;

    (void)snprintf(target, sizeof(target), "/containers/%s/json", d->vessel.container);
    if (api_do(&d->api, &call, &answer, err) < 0)
        return -1;
    if (!is_same_image(json_string_value(json_object_get(answer, "Image")), image))
        return fail(err, VIAL_E_IMAGE_CONFIG, "image '%s' became another one meanwhile",
                    plan->image);
    pid = json_integer_value(json_object_get(json_object_get(answer, "State"), "Pid"));
    if (pid > 1 && pid < INT_MAX)
        d->pidfd = sys_pidfd_open((pid_t)pid);
    /* In this order: a number that was given to another by now shows. */
    container_usage_find(&d->count, (pid_t)pid, d->vessel.container);
    if (d->count.pid == 0) {
        auto_fd_(&d->pidfd);
        d->pidfd = -1;
    }
    d->vessel.limits_by = d->count.cgroup.kind == CGROUP_V2   ? "cgroup2"
                          : d->count.cgroup.kind == CGROUP_V1 ? "cgroup1"
                                                              : "cgroup";
    return check_mounts(d->count.pid, plan, err);
}

static void remove_half(struct docker *d)
{
    if (d->vessel.container[0])
        (void)containers_remove(&d->api, d->vessel.container, NULL);
    d->vessel.container[0] = '\0';
}

static int open_caches(struct docker *d, const struct plan *plan, const struct parts *p,
                       struct vial_error *err)
{
    const struct container_options o = options_of(d, p);

    return cache_open(&d->api, d->vessel.container, plan, &o, err);
}

/* Podman takes the profile by its path. It reads it when the container starts, too,
 * so the file lives as long as the vessel. */
static int name_seccomp(struct docker *d, struct parts *p, struct vial_error *err)
{
    char path[48];
    char *copy = NULL;

    d->seccomp_fd = sys_memfd_sealed("seccomp", p->seccomp, strlen(p->seccomp));
    if (d->seccomp_fd < 0)
        return fail_sys_rc(err, d->seccomp_fd, "write the seccomp profile");
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), d->seccomp_fd);
    copy = strdup(path);
    if (!copy)
        return fail_memory(err);
    free(p->seccomp);
    p->seccomp = copy;
    return 0;
}

static bool wants_seccomp_file(const struct docker *d, const struct vial_error *why)
{
    return d->seccomp_fd < 0 && !d->api.remote &&
           strstr(why->cause, "opening seccomp profile failed");
}

static int create_either(struct docker *d, const struct plan *plan, struct parts *p,
                         struct vial_error *err)
{
    int rc = create(d, plan, p, err);

    if (rc == 0 || !wants_seccomp_file(d, err))
        return rc;
    return name_seccomp(d, p, err) < 0 ? -1 : create(d, plan, p, err);
}

/* Without one, the engine's streams will do. */
static void open_line(struct docker *d)
{
    if (d->place == ENTRY_BIND && !d->api.remote &&
        guest_socket_open(&d->line, NULL) < 0)
        d->line = NULL;
}

/* An engine that does not see our directories sees the guest perhaps. */
static int create_with_line(struct docker *d, const struct plan *plan, struct parts *p,
                            struct vial_error *err)
{
    int rc = create_either(d, plan, p, err);

    if (rc == 0 || !d->line || !strstr(err->cause, guest_socket_dir(d->line)))
        return rc;
    guest_socket_close(d->line);
    d->line = NULL;
    remove_half(d);
    return create_either(d, plan, p, err);
}

/* The next best place where the first does not work. */
static int create_somewhere(struct docker *d, const struct plan *plan, struct parts *p,
                            struct vial_error *err)
{
    struct vial_error why = { 0 };
    bool only = false;
    int rc = -1;

    if (guest_entry_choose(&d->api, &d->place, &only, err) < 0)
        return -1;
    open_line(d);
    for (; d->place < ENTRY_COUNT_; d->place++) {
        rc = create_with_line(d, plan, p, &why);
        if (rc == 0 && d->place == ENTRY_COPY)
            rc = guest_entry_copy(&d->api, d->vessel.container, p->guest_fd, &why);
        if (rc == 0 || only || !guest_entry_is_refused(&why))
            break;
        remove_half(d);
        guest_socket_close(d->line);
        d->line = NULL;
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* Not the first process there: it must not think that everything is its own. */
static void fit_jail(struct docker *d)
{
    if (d->place == ENTRY_EXEC)
        d->vessel.jail.flags &= ~(uint32_t)JAIL_PID1;
}

/* Its programs start in the image's own environment, as far as nobody says otherwise.
 */
static int take_config(struct docker *d, struct image_config *image,
                       struct vial_error *err)
{
    config_variables(image, &d->vessel.env);
    d->vessel.cwd = ptr_take(&image->cwd);
    strv_copy(&d->vessel.entrypoint, &image->entrypoint);
    strv_copy(&d->vessel.cmd, &image->args);
    return strv_ok(&d->vessel.env) && !d->vessel.entrypoint.failed &&
                   !d->vessel.cmd.failed
               ? 0
               : fail_memory(err);
}

/*
 * As many as may be, and no more, whoever comes: counted before a container is made, so
 * that nothing is made in vain while there is no place, and again when ours is in the
 * list. Of too many that come at the same moment the last to be listed sees all others,
 * so that the bound holds; each who sees too many gives way.
 */
static int check_room(struct docker *d, const struct plan *plan, int64_t own,
                      struct vial_error *err)
{
    const struct plan_container *c = &plan->container;
    int64_t mine = 0;
    int64_t all = 0;

    if (!c->most && !c->most_all)
        return 0;
    if (containers_count(&d->api, c->prefix, &mine, &all, err) < 0)
        return -1;
    if ((!c->most || mine + 1 - own <= c->most) &&
        (!c->most_all || all + 1 - own <= c->most_all))
        return 0;
    (void)fail(err, VIAL_E_BUSY,
               "open a container: %lld are open already, as many as may be at once",
               (long long)((c->most && mine + 1 - own > c->most ? mine : all) - own));
    return fail_remedy(err, "wait until one has ended ('vial ps' lists them), or allow "
                            "more with '--containers'");
}

int start_container(struct docker *d, const struct plan *plan, int guest_fd,
                    struct vial_error *err)
{
    struct parts parts = { .seccomp = NULL, .guest_fd = -1 };
    int rc = -1;

    if (gather(d, plan, guest_fd, &parts, err) == 0 &&
        docker_jail(d, plan, parts.guest_fd, parts.uid, err) == 0 &&
        docker_check_network(&d->api, plan, err) == 0 &&
        check_room(d, plan, 0, err) == 0 &&
        create_somewhere(d, plan, &parts, err) == 0 &&
        check_room(d, plan, 1, err) == 0 && open_caches(d, plan, &parts, err) == 0 &&
        attach(d, err) == 0 && post_start(d, err) == 0 && bring(d, &parts, err) == 0) {
        fit_jail(d);
        rc = look(d, plan, &parts.image, err) < 0 ? -1 : meet(d, plan, err);
    }
    if (rc == 0)
        rc = take_config(d, &parts.image, err);
    config_done(&parts.image);
    free(parts.seccomp);
    return rc;
}
