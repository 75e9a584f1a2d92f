/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/root.h"

#include <linux/mount.h>
#include <string.h>

#include "base/path.h"
#include "driver/gate_process.h"
#include "driver/native/host_tree.h"
#include "driver/native/idmap.h"
#include "plan/secret_rules.h"

/* linux/mount.h and sys/mount.h exclude each other; these are mount(2)'s. */
#define NOSUID 2ul
#define NODEV  4ul
#define NOEXEC 8ul
#define RDONLY 1ul

#define ATTR_SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define ATTR_SEAL                                                                      \
    (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* Where the new root is put together. What the host has there stays hidden from
 * then on, which is why mount sources are opened before. */
#define STAGE "/tmp"

#define OWN_INODES 1024 /* what a root has of ours */

#define COPY_MAX (1u << 20) /* bytes of a file of /etc */

/* By number: whatever the image calls it. */
#define SUDOERS "#1000 ALL=(ALL:ALL) NOPASSWD: ALL\n"

struct dir_row {
    const char *path;
    unsigned mode;
};

static const struct dir_row dirs[] = {
    { "etc", 0755 },  { "dev", 0755 }, { "proc", 0555 },
    { "tmp", 0755 },  { "var", 0755 }, { "run", 0755 },
    { "work", 0755 }, { "usr", 0755 }, { "var/empty", 0555 },
};

struct file_row {
    const char *path, *content;
};

static const struct file_row host_files[] = {
    { "etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\n"
                    "vial:x:1000:1000:vial:/work:/bin/sh\n"
                    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
    { "etc/group", "root:x:0:\nvial:x:1000:\nnogroup:x:65534:\n" },
    { "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"
                           "services: files\nprotocols: files\n" },
};

/* The guest's own name server (guest/gate_inside.c); without a gate, names lead
 * nowhere. */
#define GATE_RESOLVER "nameserver " GATE_DNS "\noptions timeout:5 attempts:2\n"

static const struct file_row files[] = {
    { "etc/hosts", "127.0.0.1 localhost\n::1 localhost\n" },
    { "var/none", "" },
};

struct link_row {
    const char *to, *path;
};

static const struct link_row links[] = {
    { "/tmp", "var/tmp" },
    { "/run", "var/run" },
    { "/proc/self/mounts", "etc/mtab" },
    { "../usr/lib/os-release", "etc/os-release" },
};

static const struct link_row dev_links[] = {
    { "/proc/self/fd", "dev/fd" },       { "/proc/self/fd/0", "dev/stdin" },
    { "/proc/self/fd/1", "dev/stdout" }, { "/proc/self/fd/2", "dev/stderr" },
    { "pts/ptmx", "dev/ptmx" },
};

/* Read-only, whole subtrees: some knobs there are writable by anyone. */
static const char *const proc_sealed[] = { "/proc/sys", "/proc/bus", "/proc/irq",
                                           "/proc/fs", "/proc/sysrq-trigger" };

/* Nobody inside makes namespaces; seccomp says so too. */
static const char *const namespace_limits[] = {
    "/proc/sys/user/max_user_namespaces",   "/proc/sys/user/max_mnt_namespaces",
    "/proc/sys/user/max_pid_namespaces",    "/proc/sys/user/max_net_namespaces",
    "/proc/sys/user/max_ipc_namespaces",    "/proc/sys/user/max_uts_namespaces",
    "/proc/sys/user/max_cgroup_namespaces", "/proc/sys/user/max_time_namespaces",
};

/* Tables of the kernel that all of a user's processes share, on the whole host. */
static const struct file_row user_limits[] = {
    { "/proc/sys/user/max_inotify_instances", "16" },
    { "/proc/sys/user/max_inotify_watches", "8192" },
};

/* How far a connection's buffers grow by themselves: where no cgroup counts them,
 * this and the number of descriptors bound them. */
static const struct file_row net_limits[] = {
    { "/proc/sys/net/ipv4/tcp_rmem", "4096 131072 262144" },
    { "/proc/sys/net/ipv4/tcp_wmem", "4096 16384 262144" },
};

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

/* Not of the host's system directories. */
static bool is_foreign(const struct plan *plan)
{
    return plan->rootfs || plan_has_root(plan);
}

static struct step *add_mount(struct script *s, const char *type, const char *target,
                              unsigned long flags, const char *data)
{
    return script_add(
        s, (struct step){ OP_MOUNT, .mount = { type, target, type, data, flags } });
}

static struct step *add_bind(struct script *s, const char *source, const char *target,
                             uint64_t attributes)
{
    return script_add(
        s, (struct step){ OP_BIND, .bind = { source, target, attributes, false } });
}

static struct step *add_dir(struct script *s, const char *path, unsigned mode)
{
    return script_add(s, (struct step){ OP_MKDIR, .dir = { path, mode } });
}

static struct step *add_link(struct script *s, const char *to, const char *path)
{
    return script_add(s, (struct step){ OP_SYMLINK, .link = { to, path } });
}

static void add_path(struct script *s, enum step_op op, const char *path)
{
    script_add(s, (struct step){ (uint8_t)op, .path = path });
}

static void add_attributes(struct script *s, enum step_op op, const char *path,
                           uint64_t attributes)
{
    script_add(s, (struct step){ (uint8_t)op, .attr = { path, attributes } });
}

/* Of the caller's mount number I. */
static unsigned slot_of(size_t i)
{
    return ROOT_MOUNT_SLOT + (unsigned)i;
}

static void add_file(struct script *s, const char *prefix, const char *path,
                     const char *content)
{
    const char *text = content[0] ? content : NULL;

    path = script_text(s, "%s%s", prefix, path);
    script_add(s,
               (struct step){ OP_FILE, STEP_EXIST_OK, .file = { path, text, 0444 } });
}

static void add_text(struct script *s, const char *path, const char *content,
                     unsigned mode)
{
    script_add(s, (struct step){ OP_FILE, .file = { path, content, mode } });
}

/* Whom programs believe: the vessel's own authority, alone and beside the host's. */
static void add_certificates(struct script *s, const char *prefix,
                             const struct root_options *o)
{
    static const char *const places[] = { "etc/vial", "etc/ssl", "etc/ssl/certs" };

    for (size_t i = 0; i < COUNT(places); i++)
        add_dir(s, script_text(s, "%s%s", prefix, places[i]), 0755);
    add_file(s, prefix, SECRET_CA + 1, o->authority);
    add_file(s, prefix, SECRET_BUNDLE + 1, o->bundle);
    add_link(s, "certs/ca-certificates.crt",
             script_text(s, "%setc/ssl/cert.pem", prefix));
}

/* Directories and files of our own. In front of a rootfs they form the overlay's
 * upper layer, so that a link of the same name in it loses. */
static void add_skeleton(struct script *s, const char *prefix, const struct plan *plan,
                         const struct root_options *o)
{
    for (size_t i = 0; i < COUNT(dirs); i++) {
        const char *path = script_text(s, "%s%s", prefix, dirs[i].path);

        add_dir(s, path, dirs[i].mode);
    }
    if (plan->root.writable) /* before the usual one: sudo looks for its host's name */
        add_file(
            s, prefix, "etc/hosts",
            script_text(s, "127.0.0.1 localhost %s\n::1 localhost\n", plan->hostname));
    for (size_t i = 0; i < COUNT(files); i++)
        add_file(s, prefix, files[i].path, files[i].content);
    add_file(s, prefix, "etc/resolv.conf",
             plan->network == NETWORK_GATE ? GATE_RESOLVER : "");
    add_file(s, prefix, "etc/hostname", script_text(s, "%s\n", plan->hostname));
    if (o->authority)
        add_certificates(s, prefix, o);
}

/* DIR of the host at TARGET, with inodes of its own: two vessels on one bind
 * would see each other's locks and inotify events. Where something is mounted below it,
 * the kernel gives ordinary users no part of it, only all. */
static void add_system_dir(struct script *s, const char *dir, const char *target,
                           const struct root_options *o)
{
    const char *lower = script_text(s, "lowerdir=%s:var/empty", dir);

    if (o->no_usr_overlay)
        add_bind(s, dir, target, ATTR_SAFE | (o->weak_ro ? 0 : MOUNT_ATTR_RDONLY))
            ->bind.recursive = true;
    else
        add_mount(s, "overlay", target, RDONLY | NOSUID | NODEV, lower)->flags =
            strcmp(dir, "/usr") == 0 ? STEP_TRIED : 0;
}

static void add_links_beside_usr(struct script *s, const struct host *host,
                                 const struct root_options *o)
{
    for (size_t i = 0; i < host->link_count; i++) {
        const struct host_link *link = &host->links[i];

        if (link->to[0]) {
            add_link(s, script_text(s, "%s", link->to), link->name);
            continue;
        }
        add_dir(s, link->name, 0755);
        add_system_dir(s, script_text(s, "/%s", link->name), link->name, o);
    }
}

/* Empty files below DIR to bind on, which nobody ever sees: it is one file under all
 * these names. */
static void add_points(struct script *s, const char *dir, const char *const *names,
                       size_t count)
{
    const char *first = count > 0 ? script_text(s, "%s/%s", dir, names[0]) : NULL;

    for (size_t i = 0; i < count; i++) {
        const char *path = i ? script_text(s, "%s/%s", dir, names[i]) : NULL;

        if (i == 0)
            script_add(s, (struct step){ OP_FILE, .file = { first, NULL, 0444 } });
        else
            script_add(s, (struct step){ OP_LINK, .link = { first, path } });
    }
}

/* Files of the host's /etc: bound where an overlay lies over that, so that their inodes
 * are the vessel's own; copied where there is none. Each is sealed, though the overlay
 * is: a name that became a link meanwhile leads elsewhere. */
static void add_etc_files(struct script *s, const struct strv *names, bool no_overlay)
{
    if (!no_overlay)
        add_points(s, "etc", (const char *const *)names->items, names->count);
    for (size_t i = 0; i < names->count; i++) {
        const char *from = script_text(s, "/etc/%s", names->items[i]);

        if (no_overlay)
            script_add(s, (struct step){ OP_COPY, STEP_MISSING_OK,
                                         .copy = { from, from + 1, COPY_MAX } });
        else
            add_bind(s, from, from + 1, ATTR_SAFE | MOUNT_ATTR_RDONLY)->flags =
                STEP_MISSING_OK;
    }
}

static void add_etc(struct script *s, const struct host *host, bool no_overlay)
{
    for (size_t i = 0; i < COUNT(host_files); i++)
        add_file(s, "", host_files[i].path, host_files[i].content);
    for (size_t i = 0; i < COUNT(links); i++)
        add_link(s, links[i].to, links[i].path)->flags = STEP_EXIST_OK;
    if (host->localtime[0])
        add_link(s, script_text(s, "%s", host->localtime), "etc/localtime");
    /* One overlay over the host's own /etc, which goes with the old root, and what
     * is shown of it is bound from there: an overlay each would cost more. */
    if (!no_overlay)
        add_mount(s, "overlay", "/etc", RDONLY | NOSUID | NODEV,
                  "lowerdir=/etc:var/empty")
            ->flags = STEP_TRIED;
    add_etc_files(s, &host->etc_files, no_overlay);
    for (size_t i = 0; i < host->etc_dirs.count; i++) {
        const char *from = script_text(s, "/etc/%s", host->etc_dirs.items[i]);

        add_dir(s, from + 1, 0755);
        add_bind(s, from, from + 1, ATTR_SAFE | MOUNT_ATTR_RDONLY)->bind.recursive =
            true;
    }
}

/* Test builds only: what a careless jail would show of the host. */
static void add_weak_root(struct script *s)
{
    static const char *const shown[] = { "/home", "/root", "/srv", "/boot", "/opt" };

    for (size_t i = 0; i < COUNT(shown); i++) {
        add_dir(s, shown[i] + 1, 0755);
        add_bind(s, shown[i], shown[i] + 1, ATTR_SAFE)->flags = STEP_MISSING_OK;
    }
}

static void add_host_root(struct script *s, const struct host *host,
                          const struct plan *plan, const struct root_options *o)
{
    add_skeleton(s, "", plan, o);
    add_system_dir(s, "/usr", "usr", o);
    add_links_beside_usr(s, host, o);
    add_etc(s, host, o->no_etc_overlay);
    if (o->weak_root)
        add_weak_root(s);
}

/* The judged directory is entered by descriptor and named ".", so that nothing
 * between the judging and here can put another in its place. */
static void add_given_root(struct script *s, const struct plan *plan,
                           const struct root_options *o)
{
    add_dir(s, "upper", 0755);
    add_dir(s, "index", 0755);
    add_dir(s, "root", 0755);
    add_skeleton(s, "upper/", plan, o);
    script_add(s, (struct step){ OP_FCHDIR, .slot = ROOT_ROOTFS_SLOT });
    add_mount(s, "overlay", STAGE "/root", NOSUID | NODEV,
              "lowerdir=.,upperdir=" STAGE "/upper,workdir=" STAGE "/index,userxattr");
    add_path(s, OP_CHDIR, STAGE "/root");
}

/* PATH becomes the user's, and group's, ID. */
static void add_owner(struct script *s, const char *path, unsigned id)
{
    script_add(s, (struct step){ OP_OWN, .owner = { path, id } });
}

static void add_layer_dir(struct script *s, const char *path, unsigned mode,
                          unsigned id)
{
    add_dir(s, path, mode);
    add_owner(s, path, id);
}

/* The working directory in a layer of our own, or a link of that name would be
 * followed. The skeleton has /work. */
static const char *add_scratch(struct script *s, const struct plan *plan)
{
    const char *path = script_text(s, "upper%s", plan_scratch(plan));

    if (str_starts(path, "upper/home/"))
        add_dir(s, "upper/home", 0755);
    add_dir(s, path, 0755)->flags = STEP_EXIST_OK;
    return path;
}

/* Who may write where in a root that is writable as a whole: there is no file system
 * for the working directory, SCRATCH, alone. */
static void add_homes(struct script *s, const struct plan *plan, const char *scratch,
                      const struct root_options *o)
{
    add_dir(s, "upper/home", 0755)->flags = STEP_EXIST_OK;
    add_dir(s, "upper/home/user", 0755)->flags = STEP_EXIST_OK;
    add_owner(s, "upper/home/user", IDMAP_PROGRAM);
    add_owner(s, scratch, o->uid);
    add_text(s, "upper/etc/passwd", o->image->passwd, 0644);
    add_text(s, "upper/etc/group", o->image->group, 0644);
    if (!plan->root.sudo)
        return;
    add_dir(s, "upper/etc/sudoers.d", 0755);
    add_text(s, "upper/etc/sudoers.d/vial", SUDOERS, 0440);
}

/* Layers by short names: all of theirs would be too long for a mount's options. */
static const char *add_layer_links(struct script *s, const struct image_layers *image)
{
    const char *lowers = "lowerdir=";

    for (size_t i = 0; i < image->names.count; i++) {
        const char *name = script_text(s, "%zu", i);

        add_link(s, script_text(s, "store/%s", image->names.items[i]), name);
        lowers = script_text(s, "%s%s%s", lowers, i ? ":" : "", name);
    }
    return lowers;
}

/* The image's layers below one of our own. Until the pivot hides them, the others in
 * the store are there too. */
static void add_image_root(struct script *s, const struct plan *plan,
                           const struct root_options *o)
{
    const char *scratch = NULL;
    const char *lowers = NULL;

    add_dir(s, "upper", 0755);
    add_dir(s, "index", 0755);
    add_dir(s, "root", 0755);
    add_dir(s, "store", 0700);
    add_skeleton(s, "upper/", plan, o);
    scratch = add_scratch(s, plan);
    if (plan->root.writable)
        add_homes(s, plan, scratch, o);
    script_add(s, (struct step){ OP_COVER, .attach = { "store", o->image_slot } });
    lowers = add_layer_links(s, o->image);
    add_mount(s, "overlay", "root", plan->root.sudo ? NODEV : NOSUID | NODEV,
              script_text(s, "%s,upperdir=upper,workdir=index,userxattr", lowers));
    if (plan->root.writable) /* for snapshots: it has no name inside after the pivot */
        add_path(s, OP_GIVE, ROOT_UPPER);
    add_path(s, OP_CHDIR, "root");
}

static void add_dev(struct script *s, const struct plan *plan,
                    const struct root_options *o)
{
    if (is_foreign(plan)) /* which may have a /dev of its own */
        add_mount(s, "tmpfs", "dev", NOSUID | NOEXEC, "mode=755,size=64k,nr_inodes=64");
    if (o->own_devices)
        script_add(s, (struct step){
                          OP_COVER, .attach = { "/dev", slot_of(plan->mount_count) } });
    add_points(s, "dev", devices_shown, DEVICES);
    for (size_t i = 0; i < DEVICES; i++) {
        const char *node = script_text(s, "/dev/%s", devices_shown[i]);

        /* Read-only is the inode, its times and mode, which may be the host's; a
         * device is written all the same. */
        add_bind(s, node, node + 1,
                 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    }
    for (size_t i = 0; i < COUNT(dev_links); i++)
        add_link(s, dev_links[i].to, dev_links[i].path);
    add_dir(s, "dev/pts", 0755);
    add_dir(s, "dev/shm", 0755);
    add_mount(s, "devpts", "dev/pts", NOSUID | NOEXEC,
              "newinstance,ptmxmode=0666,mode=620,max=64");
    if (o->weak_shm)
        add_bind(s, "/dev/shm", "dev/shm", ATTR_SAFE);
    else
        add_mount(s, "tmpfs", "dev/shm", NOSUID | NODEV,
                  script_text(s, "mode=1777,size=%lld,nr_inodes=%lld",
                              (long long)plan->limits.tmp_bytes,
                              (long long)plan->limits.inodes));
    if (is_foreign(plan))
        add_attributes(s, OP_ATTR, "dev", MOUNT_ATTR_RDONLY);
}

static void add_writable(struct script *s, const struct plan *plan,
                         const struct root_options *o)
{
    const struct limits *l = &plan->limits;
    const char *scratch = plan_scratch(plan) + 1;
    unsigned long flags = o->weak_nosuid ? NODEV : NOSUID | NODEV;

    if (str_starts(scratch, "home/"))
        add_dir(s, "home", 0755)->flags = STEP_EXIST_OK;
    if (!str_eq(scratch, "work"))
        add_dir(s, scratch, 0755)->flags = STEP_EXIST_OK;
    if (o->weak_disk) {
        add_mount(s, "tmpfs", "tmp", NOSUID | NODEV, "mode=1777");
        add_mount(s, "tmpfs", scratch, NOSUID | NODEV, "mode=1777");
        return;
    }
    add_mount(s, "tmpfs", "tmp", flags,
              script_text(s, "mode=1777,size=%lld,nr_inodes=%lld",
                          (long long)l->tmp_bytes, (long long)l->inodes));
    if (o->weak_work || plan->root.writable)
        return;
    add_mount(s, "tmpfs", scratch, flags,
              script_text(s, "mode=700,uid=%u,gid=%u,size=%lld,nr_inodes=%lld", o->uid,
                          o->gid, (long long)l->disk_bytes, (long long)l->inodes));
}

/* Mount points for what the caller shows, one step per missing directory. They
 * are ours: in the root's tmpfs, never in a user's tree. After the pivot, as a link
 * of a given root's would lead to the host before; attaching follows none. */
static void add_mount_points(struct script *s, const struct plan *plan)
{
    const uint8_t there = STEP_EXIST_OK | STEP_READ_ONLY_OK;

    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct plan_mount *m = &plan->mounts[i];
        const char *path = m->target + 1;

        for (size_t at = 0; path[at]; at++)
            if (path[at] == '/')
                add_dir(s, script_text(s, "%.*s", (int)at, path), 0755)->flags = there;
        if (m->is_dir)
            add_dir(s, path, 0755)->flags = there;
        else
            script_add(s,
                       (struct step){ OP_FILE, there, .file = { path, NULL, 0444 } });
    }
}

/* An ordinary user's own child opens his store, before the stage can hide it. */
static void add_store(struct script *s, const struct plan *plan,
                      const struct root_options *o)
{
    const uint64_t attr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV |
                          (plan->root.sudo ? 0 : MOUNT_ATTR_NOSUID);

    script_add(s, (struct step){ OP_OPEN, .open = { plan->root.store, o->image->dev,
                                                    o->image->ino, o->image_slot } });
    script_add(
        s, (struct step){ OP_TREE, .tree = { plan->root.store, attr, o->image_slot } });
}

/* What is written to a writable root is written there. */
static void add_stage(struct script *s, const struct plan *plan,
                      const struct root_options *o)
{
    unsigned long flags = plan->root.sudo ? NODEV : NOSUID | NODEV;

    if (!plan->root.writable)
        add_mount(s, "tmpfs", STAGE, NOSUID | NODEV, "mode=755,size=8m,nr_inodes=1024");
    else if (o->weak_disk)
        add_mount(s, "tmpfs", STAGE, flags, "mode=755");
    else
        add_mount(s, "tmpfs", STAGE, flags,
                  script_text(s, "mode=755,size=%lld,nr_inodes=%lld",
                              (long long)plan->limits.disk_bytes,
                              (long long)plan->limits.inodes + OWN_INODES));
}

void root_build(struct script *s, const struct host *host, const struct plan *plan,
                const struct root_options *options)
{
    script_add(s, (struct step){ OP_PRIVATE });
    if (plan->rootfs)
        script_add(s, (struct step){
                          OP_OPEN, .open = { plan->rootfs, options->rootfs_dev,
                                             options->rootfs_ino, ROOT_ROOTFS_SLOT } });
    if (options->image && !options->image_mounted)
        add_store(s, plan, options);
    add_stage(s, plan, options);
    add_path(s, OP_CHDIR, STAGE);
    if (plan->rootfs)
        add_given_root(s, plan, options);
    else if (options->image)
        add_image_root(s, plan, options);
    else
        add_host_root(s, host, plan, options);
    if (options->weak_pid) /* a fresh one cannot be had without the namespace */
        add_bind(s, "/proc", "proc", ATTR_SAFE)->bind.recursive = true;
    else
        add_mount(s, "proc", "proc", NOSUID | NODEV | NOEXEC, NULL);
    if (options->weak_dev)
        add_bind(s, "/dev", "dev", MOUNT_ATTR_NOSUID)->bind.recursive = true;
    else
        add_dev(s, plan, options);
    add_writable(s, plan, options);
    script_add(s, (struct step){ OP_PIVOT });
    add_mount_points(s, plan);
}

/* Over the workspace that is attached already, with a layer in a tmpfs that has no
 * name inside once the overlay is there: only the parent holds it. */
static void add_overlay(struct script *s, const struct plan *plan, const char *target,
                        const struct root_options *o)
{
    const struct limits *l = &plan->limits;

    add_mount(s, "tmpfs", "/run", NOSUID | NODEV,
              script_text(s, "mode=700,uid=%u,gid=%u,size=%lld,nr_inodes=%lld", o->uid,
                          o->gid, (long long)l->disk_bytes, (long long)l->inodes));
    add_layer_dir(s, "/run/upper", 0755, o->uid);
    add_layer_dir(s, "/run/work", 0700, o->uid);
    add_layer_dir(s, "/run/points", 0700, o->uid);
    /* A workspace's target has no letter that means something here. */
    add_mount(s, "overlay", target, NOSUID | NODEV,
              script_text(s,
                          "lowerdir=%s,upperdir=/run/upper,workdir=/run/work,userxattr",
                          target));
    add_path(s, OP_GIVE, "/run");
    add_path(s, OP_GIVE, target);
    add_path(s, OP_DETACH, "/run");
}

/* An empty file over each socket. One that went meanwhile needs none; but that the file
 * itself is missing is not forgiven. */
static void add_covers(struct script *s, const struct plan_mount *m)
{
    if (m->hidden.count > 0)
        add_bind(s, "/var/none", "/var/none", 0);
    for (size_t i = 0; i < m->hidden.count; i++)
        add_bind(s, "/var/none", script_text(s, "%s%s", m->target, m->hidden.items[i]),
                 ATTR_SAFE | MOUNT_ATTR_RDONLY)
            ->flags = STEP_MISSING_OK;
}

void root_attach_mounts(struct script *s, const struct plan *plan,
                        const struct root_options *options)
{
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct plan_mount *m = &plan->mounts[i];

        script_add(s, (struct step){ OP_ATTACH, .attach = { m->target, slot_of(i) } });
        add_covers(s, m);
        if (m->overlay)
            add_overlay(s, plan, m->target, options);
    }
}

static void add_knob(struct script *s, const char *path, const char *value)
{
    script_add(s, (struct step){ OP_WRITE, STEP_MISSING_OK, .file = { path, value } });
}

void root_detach(struct script *s, const struct root_options *options)
{
    add_path(s, OP_DETACH, ".");
    /* Without a user namespace they would be the host's own. */
    for (size_t i = 0; i < COUNT(namespace_limits) && !options->weak_user; i++)
        add_knob(s, namespace_limits[i], "0");
    for (size_t i = 0; i < COUNT(user_limits) && !options->weak_user; i++)
        add_knob(s, user_limits[i].path, user_limits[i].content);
}

static void add_masks(struct script *s, const char *with, const struct strv *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        add_bind(s, with, script_text(s, "%s", paths->items[i]), 0)->flags =
            STEP_MISSING_OK;
}

void root_mask(struct script *s, const struct host *host)
{
    add_masks(s, "/var/none", &host->masked_files);
    add_masks(s, "/var/empty", &host->masked_dirs);
}

/* All that lies over parts of /proc by now, at once. */
static void add_seal(struct script *s)
{
    for (size_t i = 0; i < COUNT(proc_sealed); i++)
        add_bind(s, proc_sealed[i], proc_sealed[i], 0)->flags = STEP_MISSING_OK;
    add_attributes(s, OP_SEAL, "/proc", ATTR_SEAL);
}

void root_seal(struct script *s, const struct root_options *options)
{
    add_path(s, OP_CHDIR, "/");
    for (size_t i = 0; i < COUNT(net_limits) && !options->weak_net; i++)
        add_knob(s, net_limits[i].path, net_limits[i].content);
    if (options->gate && !options->weak_net)
        add_knob(s, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    if (!options->weak_procmask)
        add_seal(s);
    if (!options->weak_ro && !options->writable)
        add_attributes(s, OP_ATTR, "/", MOUNT_ATTR_RDONLY);
}
