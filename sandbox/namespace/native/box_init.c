/* The program that creates empty boxes, and process 1 of each of them.
 *
 * Started by a template, in the template's namespaces, as `box_init HOST_ID`, with a socket at descriptor 3. For each
 * message with one descriptor (a socket, the "line" of a new box), it clones a process into new namespaces, maps the
 * box's only user to HOST_ID, and answers with an errno and, if that is 0, a pidfd of the process.
 *
 * That process isolates itself as `sandbox/namespace/box.py` does, and is process 1 of the box from then on. It sends
 * READY on its line, with descriptors of its /proc, its tmpfs, and both ends of the worker's channel. It then carries
 * out `struct order`s from the line and reaps orphans. It exits, and the box ends with it, when the line is closed, when
 * its deadline passes, or when the program, the template or the supervisor ends.
 *
 * A worker, forked by the template into the box, runs the job and talks to the engine directly. Nothing that the job
 * writes is read here: texts of the kernel (`struct report`) are passed on unread. The only inputs are orders of the
 * template and the engine, of fixed size. No memory is allocated after the start.
 *
 * The numbers and structures must agree with `sandbox/namespace/process_one.py`.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#define CONTROL 3
#define BOX_ID 1000
#define BOX "/box"
#define DISK_BYTES (128ULL << 20) /* the default of sandbox.contract.Limits; START remounts for other sizes */
#define INODES 65536
#define LISTEN_BACKLOG 128
#define MOST_FILES 5 /* descriptors of a control group: memory limit, memory events, pids limit, CPU time, sockets */
#define F_EMPTY_PATH 4 /* MOVE_MOUNT_F_EMPTY_PATH */
#define SHOWN 4      /* descriptors that are sent when a box is ready */
#define WORKER 2     /* the worker's pid: it is the first process forked into the box */

enum { READY = 'r', FAILED = 'f', GROUP = 'g', START = 's', SIGNAL = 'n', DEADLINE = 'd', STOP = 'p', KILL = 'k' };

/* GROUP: descriptors; number is their count. START: values are disk, memory, processes and sockets (0: leave as they
 * are), then the deadline; number is a port to listen on (0: none) at the address in values[5]; a descriptor is the
 * tree to mount at /work. SIGNAL: number. DEADLINE: values[0], in ms from now; 0 for none. */
struct order {
    uint32_t kind;
    int32_t number;
    uint64_t values[6];
};

/* The answer to START, SIGNAL, STOP and KILL, and the announcement of a box (READY, FAILED, with the text in `load`).
 * Times are in microseconds. The texts are those of the kernel, followed by zeros. */
struct report {
    uint32_t kind;
    int32_t error;
    uint64_t free_blocks, free_inodes;
    int64_t user_us, system_us, max_rss_kib;
    char load[128];
    char status[3072];
    char cpu[512];
    char memory[512];
};

static struct report report;
static int files[MOST_FILES] = {-1, -1, -1, -1, -1};
static int line = -1, disk = -1;
static uint64_t deadline_ms; /* on the monotonic clock; 0 for none */

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Sends `size` bytes with up to SHOWN descriptors. */
static int send_with(int where, const void *data, size_t size, const int *descriptors, int count) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(SHOWN * sizeof(int))] = {0};
    struct iovec part = {(void *)data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = room;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(head), descriptors, count * sizeof(int));
    }
    return sendmsg(where, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Receives a message and up to `most` descriptors. Returns its size, 0 at the end, -1 on an error. */
static ssize_t receive_with(int where, void *data, size_t size, int *descriptors, int most, int *count) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(MOST_FILES * sizeof(int))];
    struct iovec part = {data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room};
    message.msg_controllen = CMSG_LEN(most * sizeof(int)); /* CMSG_SPACE may have room for one more */
    *count = 0;
    ssize_t got = recvmsg(where, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0 || message.msg_flags & MSG_CTRUNC) return got <= 0 ? got : -1;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        *count = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(descriptors, CMSG_DATA(head), *count * sizeof(int));
    }
    return got;
}

/* ---- Isolation ---- */

/* Tells the template which step failed, and ends the box. */
static void give_up(const char *step) {
    report.kind = FAILED;
    report.error = errno;
    snprintf(report.load, sizeof report.load, "%s: %s", step, strerror(errno));
    send_with(line, &report, sizeof report, NULL, 0);
    _exit(1);
}

static void need(int result, const char *step) {
    if (result < 0) give_up(step);
}

static int write_text(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return -1;
    ssize_t written = write(file, text, strlen(text));
    int problem = errno;
    close(file);
    errno = problem;
    return written < 0 ? -1 : 0;
}

/* Limits, per namespace, of resources that the whole machine shares (see `_KERNEL_POOLS` in box.py). */
static void bound_kernel_pools(void) {
    need(write_text("/proc/sys/user/max_inotify_instances", "4"), "limit inotify instances");
    need(write_text("/proc/sys/user/max_inotify_watches", "8192"), "limit inotify watches");
    need(write_text("/proc/sys/net/ipv4/tcp_rmem", "4096 16384 131072"), "limit receive buffers");
    need(write_text("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 131072"), "limit send buffers");
}

static void take_the_boxs_user(void) {
    if (setgroups(0, NULL) < 0 && errno != EPERM) give_up("drop groups"); /* an ordinary user's namespace may not */
    need(setresgid(BOX_ID, BOX_ID, BOX_ID), "set the group id");
    need(setresuid(BOX_ID, BOX_ID, BOX_ID), "set the user id");
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* a change of the user resets it */
}

static void loopback_up(void) {
    int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    need(probe, "create a socket");
    struct ifreq request = {0};
    memcpy(request.ifr_name, "lo", 3);
    request.ifr_flags = IFF_UP;
    need(ioctl(probe, SIOCSIFFLAGS, &request), "set up loopback");
    close(probe);
}

static int mount_disk(uint64_t bytes, unsigned long flags) {
    char options[96];
    snprintf(options, sizeof options, "size=%llu,nr_inodes=%d,mode=0700", (unsigned long long)bytes, INODES);
    return mount("tmpfs", BOX, "tmpfs", flags | MS_NOSUID | MS_NODEV, options);
}

static void mount_all(void) {
    static const char *const folders[][2] = {{BOX "/tmp", "/tmp"}, {BOX "/work", "/work"}, {BOX "/shm", "/dev/shm"}};
    need(mount_disk(DISK_BYTES, 0), "mount the box's tmpfs");
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        need(mkdir(folders[i][0], 0700), folders[i][0]);
        need(mount(folders[i][0], folders[i][1], NULL, MS_BIND, NULL), folders[i][1]);
    }
    need(mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
               "newinstance,ptmxmode=0666,mode=0620,max=64"), "mount pseudo-terminals");
    /* Read-only, because otherwise only the user id would protect the kernel settings below /proc/sys. */
    need(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL), "mount /proc");
}

static void drop_bounding_set(void) {
    for (int capability = 0; capability < 64; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0) {
            if (errno == EINVAL) break; /* beyond the last that the kernel knows */
            give_up("drop capabilities");
        }
    need(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "drop ambient capabilities");
}

static void drop_capabilities(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_capset, &head, none) < 0) _exit(1);
}

static void isolate(void) {
    bound_kernel_pools();
    take_the_boxs_user();
    need(sethostname("box", 3), "set the host name");
    loopback_up();
    mount_all();
    /* The worker has the same user id: keep it out of /proc/1. */
    need(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "hide process 1");
    drop_bounding_set();
    umask(077);
}

/* ---- Orders ---- */

static void read_file(int file, char *text, size_t size) {
    ssize_t got = file < 0 ? 0 : pread(file, text, size - 1, 0);
    memset(text + (got > 0 ? got : 0), 0, size - (got > 0 ? (size_t)got : 0));
}

static void read_path(const char *path, char *text, size_t size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    read_file(file, text, size);
    if (file >= 0) close(file);
}

/* Fills the report with what the kernel counts. None of it is interpreted here. */
static void measure(void) {
    struct rusage used;
    struct statfs space;
    getrusage(RUSAGE_CHILDREN, &used);
    report.user_us = used.ru_utime.tv_sec * 1000000LL + used.ru_utime.tv_usec;
    report.system_us = used.ru_stime.tv_sec * 1000000LL + used.ru_stime.tv_usec;
    report.max_rss_kib = used.ru_maxrss;
    if (fstatfs(disk, &space) == 0) report.free_blocks = space.f_bfree, report.free_inodes = space.f_ffree;
    read_path("/proc/loadavg", report.load, sizeof report.load);
    read_path("/proc/2/status", report.status, sizeof report.status);
    read_file(files[3], report.cpu, sizeof report.cpu);
    read_file(files[1], report.memory, sizeof report.memory);
}

static void answer(uint32_t kind, int error, int descriptor) {
    report.kind = kind;
    report.error = error;
    if (send_with(line, &report, sizeof report, &descriptor, descriptor >= 0) < 0) _exit(0);
}

static void reap(void) {
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

/* Kills every other process, and waits until none is left. The template reaps the worker. */
static void kill_all(int child_events) {
    while (kill(-1, SIGKILL) == 0 || errno != ESRCH) {
        struct pollfd wait = {child_events, POLLIN, 0};
        struct signalfd_siginfo event;
        reap();
        if (poll(&wait, 1, 1) > 0 && read(child_events, &event, sizeof event) < 0 && errno != EAGAIN) _exit(1);
    }
    reap();
}

static int write_limit(int file, uint64_t limit) {
    char text[24];
    if (file < 0 || limit == 0) return 0;
    return write(file, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)limit)) < 0 ? -1 : 0;
}

static int listen_at(uint32_t address, uint16_t port) {
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = address};
    int one = 1, end = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (end < 0) return -1;
    if (setsockopt(end, IPPROTO_IP, IP_FREEBIND, &one, sizeof one) < 0 ||
        bind(end, (struct sockaddr *)&where, sizeof where) < 0 || listen(end, LISTEN_BACKLOG) < 0) {
        close(end);
        return -1;
    }
    return end;
}

/* Prepares the box for its job, then gives up every capability. */
static void start(const struct order *order, int tree) {
    int end = -1, error = 0;
    const uint64_t *limits = order->values;
    if (limits[0] && mount_disk(limits[0], MS_REMOUNT) < 0) error = errno;
    if (!error && tree >= 0 && syscall(SYS_move_mount, tree, "", AT_FDCWD, "/work", F_EMPTY_PATH) < 0) error = errno;
    if (!error && (write_limit(files[4], limits[3]) < 0 || write_limit(files[0], limits[1]) < 0 ||
                   write_limit(files[2], limits[2]) < 0))
        error = errno;
    if (!error && order->number && (end = listen_at((uint32_t)limits[5], (uint16_t)order->number)) < 0) error = errno;
    drop_capabilities();
    deadline_ms = limits[4] ? now_ms() + limits[4] : 0;
    read_file(files[3], report.cpu, sizeof report.cpu);
    answer(START, error, end);
    if (end >= 0) close(end);
}

static void carry_out(const struct order *order, int *descriptors, int count, int child_events) {
    switch (order->kind) {
    case GROUP:
        for (int i = 0; i < count && i < MOST_FILES; i++) files[i] = descriptors[i], descriptors[i] = -1;
        break;
    case START:
        start(order, count > 0 ? descriptors[0] : -1);
        break;
    case SIGNAL:
        answer(SIGNAL, kill(-WORKER, order->number) < 0 ? errno : 0, -1);
        break;
    case DEADLINE:
        deadline_ms = order->values[0] ? now_ms() + order->values[0] : 0;
        break;
    case STOP:
    case KILL:
        if (order->kind == STOP)
            kill(-1, SIGSTOP);
        else
            kill_all(child_events);
        measure();
        answer(order->kind, 0, -1);
        break;
    default:
        _exit(1);
    }
    for (int i = 0; i < count; i++)
        if (descriptors[i] >= 0) close(descriptors[i]);
}

static void serve(int child_events) {
    struct pollfd wait[] = {{line, POLLIN, 0}, {child_events, POLLIN, 0}};
    for (;;) {
        uint64_t now = deadline_ms ? now_ms() : 0;
        if (deadline_ms && now >= deadline_ms) _exit(0);
        uint64_t left = deadline_ms ? deadline_ms - now : 0;
        int ready = poll(wait, 2, !deadline_ms ? -1 : left > 60000 ? 60000 : (int)left);
        if (ready < 0 && errno != EINTR) _exit(1);
        if (ready > 0 && wait[1].revents) {
            struct signalfd_siginfo event;
            if (read(child_events, &event, sizeof event) < 0 && errno != EAGAIN) _exit(1);
            reap();
        }
        if (ready > 0 && wait[0].revents) {
            struct order order;
            int descriptors[MOST_FILES], count;
            ssize_t got = receive_with(line, &order, sizeof order, descriptors, MOST_FILES, &count);
            if (got != sizeof order) _exit(0); /* nobody holds the other end any more */
            carry_out(&order, descriptors, count, child_events);
        }
    }
}

/* ---- The two processes ---- */

/* Becomes process 1 of a box, in the new process. Never returns. */
static void become_process_1(int mapped) {
    char go;
    sigset_t children;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (read(mapped, &go, 1) != 1) _exit(0);
    close(mapped);
    isolate();
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    signal(SIGCHLD, SIG_DFL);
    int child_events = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    int shown[SHOWN] = {open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), open(BOX, O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (child_events < 0 || shown[0] < 0 || shown[1] < 0) give_up("open the box's folders");
    disk = shown[1];
    /* Created here, because a socket shows its network namespace, and who created it, to the job that holds it. */
    int names_senders = 1;
    need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, shown + 2), "create the worker's channel");
    need(setsockopt(shown[2], SOL_SOCKET, SO_PASSCRED, &names_senders, sizeof names_senders), "name senders");
    /* The engine would have to close descriptors that a job sends along. Linux before 6.16 cannot refuse them. */
    int no_descriptors = 0;
    setsockopt(shown[2], SOL_SOCKET, SO_PASSRIGHTS, &no_descriptors, sizeof no_descriptors);
    report.kind = READY;
    if (send_with(line, &report, sizeof report, shown, SHOWN) < 0) _exit(0);
    close(shown[0]);
    close(shown[2]);
    close(shown[3]);
    serve(child_events);
}

static int map_ids(long pid, const char *host_id) {
    char path[64], map[64];
    snprintf(map, sizeof map, "%d %s 1", BOX_ID, host_id);
    snprintf(path, sizeof path, "/proc/%ld/uid_map", pid);
    if (write_text(path, map) < 0) return -1;
    snprintf(path, sizeof path, "/proc/%ld/gid_map", pid);
    return write_text(path, map);
}

/* Creates a process in new namespaces. Returns its pidfd, or -1. */
static int create(int given, const char *host_id) {
    int mapped[2], pidfd = -1;
    if (pipe2(mapped, O_CLOEXEC) < 0) return -1;
    struct clone_args wanted = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid = syscall(SYS_clone3, &wanted, sizeof wanted);
    if (pid == 0) {
        line = given;
        close(CONTROL);
        close(mapped[1]);
        become_process_1(mapped[0]);
    }
    int problem = errno;
    if (pid > 0 && (map_ids(pid, host_id) < 0 || write(mapped[1], "m", 1) != 1)) { /* without the byte, it ends */
        problem = errno;
        close(pidfd);
        pidfd = -1;
    }
    close(mapped[0]);
    close(mapped[1]);
    errno = problem;
    return pidfd;
}

/* A process that is not dumpable belongs to the root of the user namespace in which its program was started. In that of
 * an ordinary user's template, root is the box's user, who could list the descriptors of process 1. So the program starts
 * again, in a namespace that has no root. Returns if that is impossible. */
static void start_without_root(void) {
    static char *again[] = {"box_init", "1000", NULL}, *nothing[] = {NULL};
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct held[2];
    if (unshare(CLONE_NEWUSER) < 0 || write_text("/proc/self/setgroups", "deny") < 0 ||
        write_text("/proc/self/uid_map", "1000 0 1") < 0 || write_text("/proc/self/gid_map", "1000 0 1") < 0)
        return;
    if (syscall(SYS_capget, &head, held) < 0) return;
    held[0].inheritable = held[0].permitted, held[1].inheritable = held[1].permitted;
    if (syscall(SYS_capset, &head, held) < 0) return;
    for (int capability = 0; capability < 64; capability++)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0); /* fails beyond the last that the kernel knows */
    execve("/proc/self/exe", again, nothing);
}

int main(int count, char **arguments) {
    static char host_id[24];
    if (count != 2 || strlen(arguments[1]) >= sizeof host_id) return 2;
    if (strcmp(arguments[1], "0") == 0) {
        start_without_root();
        return 3;
    }
    strcpy(host_id, arguments[1]);
    memset(arguments[1], 0, strlen(arguments[1])); /* a job can read the command line of process 1 */
    prctl(PR_SET_NAME, "box_init", 0, 0, 0); /* it was started by the number of a descriptor */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    syscall(SYS_close_range, CONTROL + 1, ~0U, 0);
    /* The kernel refuses to send descriptors while more than this limit are in flight for the user. */
    struct rlimit files_open;
    if (getrlimit(RLIMIT_NOFILE, &files_open) == 0) {
        files_open.rlim_cur = files_open.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files_open);
    }
    signal(SIGCHLD, SIG_IGN); /* the kernel reaps the boxes' processes */
    for (;;) {
        char wanted[8];
        int given, received, pidfd, error = 0;
        ssize_t got = receive_with(CONTROL, wanted, sizeof wanted, &given, 1, &received);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0 || received != 1) return 0;
        pidfd = create(given, host_id);
        if (pidfd < 0) error = errno ? errno : EIO;
        close(given);
        if (send_with(CONTROL, &error, sizeof error, &pidfd, pidfd >= 0) < 0) return 0;
        if (pidfd >= 0) close(pidfd);
    }
}
