/* SPDX-License-Identifier: Apache-2.0 */
/* The links of the chain that are seen on the node itself. */
#include "dpuctl/doctor.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "dpuctl/print.h"
#include "grpc/grpc_unary.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- the record and its writer --------------------------------------------------------------- */

static void check_verdict(struct doctor *d)
{
    const struct node_snapshot *seen = &d->seen;
    char mend[CHECK_TEXT_BYTES];
    const struct gate_decision *g = &seen->gate;
    const char *reason = readiness_reason_name(g->reason);
    const char *said = seen->record.verdict.message;
    if (!g->admit) {
        check_add(d, CHECK_FAIL, "record", readiness_reason_fix(reason),
                  "pods are refused (%s): %s", reason, g->message);
    } else if (g->note[0] != '\0') {
        check_add(d, CHECK_WARN, "record", readiness_reason_fix("RecordStale"), "%s", g->note);
    } else if (seen->answer == NODE_READY) {
        check_add(d, CHECK_PASS, "record", "", "it says Ready (%s): %s", reason, said);
    } else {
        text_format(mend, sizeof(mend), "%s; pods go on meanwhile", readiness_reason_fix(reason));
        check_add(d, CHECK_WARN, "record", mend, "it says Unknown (%s): %s", reason, said);
    }
}

/* A probe that fails is in the verdict. */
static void check_host_probes(struct doctor *d)
{
    const struct readiness_host_probes *probes = &d->seen.record.verdict.host_probes;
    for (size_t i = 0; i < probes->count; i++) {
        if (probes->each[i].says == HOST_PROBE_NEVER_WELL) {
            check_add(d, CHECK_WARN, "record",
                      "is it written right? dpu-host-agent's log has what it saw",
                      "the host's probe '%s' has not been well since this host was started: it "
                      "proves nothing",
                      probes->each[i].probe);
        }
    }
}

static void check_agent(struct doctor *d)
{
    const struct node_snapshot *seen = &d->seen;
    char span[PRINT_SPAN_BYTES];
    int64_t left_ns = mono_since(seen->record.writer_until, seen->now);
    int pid = seen->record.pid;
    if (seen->gate.reason == REASON_RECORD_INVALID) { /* its times are of another clock */
        check_add(d, CHECK_FAIL, "agent", readiness_reason_fix("RecordStale"),
                  "dpu-host-agent has not written the record since this host started");
    } else if (left_ns <= 0) {
        check_add(d, CHECK_FAIL, "agent", readiness_reason_fix("RecordStale"),
                  "dpu-host-agent (pid %d) is overdue for %s", pid, print_span(left_ns, span));
    } else {
        check_add(d, CHECK_PASS, "agent", "", "dpu-host-agent (pid %d%s) keeps the record", pid,
                  seen->writer_exists ? "" : ", not seen here: in a pod, or just gone");
    }
}

void check_record(struct doctor *d)
{
    const struct node_snapshot *seen = &d->seen;
    const char *node = d->config.agent.node_name;
    struct statfs fs;
    if (!seen->has_record) {
        bool is_missing = seen->gate.reason == REASON_RECORD_MISSING;
        check_add(d, CHECK_FAIL, "record",
                  is_missing ? readiness_reason_fix("RecordStale")
                             : "remove the file, the agent makes it anew",
                  "'%s': %s", seen->path, seen->problem);
        check_add(d, CHECK_SKIP, "agent", "", "without a record nothing tells whether it runs");
        return;
    }
    check_verdict(d);
    check_host_probes(d);
    if (statfs(seen->path, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC) {
        check_add(d, CHECK_WARN, "record", "put --readiness-file on a tmpfs, such as /run",
                  "'%s' is on a disk: a full one stops the writer", seen->path);
    }
    if (!text_equal(seen->record.node, node)) {
        check_add(d, CHECK_WARN, "record", "give --node-name to the one that is wrong",
                  "it is of node '%s', but this looks at '%s'", seen->record.node, node);
    }
    check_agent(d);
}

/* ---- CNI: programs --------------------------------------------------------------------------- */

#define INSTALL "dpu-host-agent install-cni"
#define MULTUS_MEND                                                                                \
    "put dpu-gate in front of Multus, or give Multus its text as a delegate: docs/cni.md"
#define LOOK_AT_OVN "look at ovnkube-node's pod"

enum { PROGRAM_PATH_BYTES = 2 * PATH_MAX };

static bool is_program(const char *path)
{
    char magic[4] = "";
    struct stat found;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe */
    return fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) &&
           (found.st_mode & S_IXUSR) != 0 && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
           (memcmp(magic, "\177ELF", 4) == 0 || memcmp(magic, "#!", 2) == 0);
}

/* Fills `path` of a plugin's program. */
static bool check_program(struct doctor *d, const char *type, const char *mend,
                          char path[static PROGRAM_PATH_BYTES])
{
    char dir[PATH_MAX];
    admin_path(&d->config, d->config.cni_bin_dir, dir, sizeof(dir));
    text_format(path, PROGRAM_PATH_BYTES, "%s/%s", dir, type);
    if (strchr(type, '/') || !is_program(path)) {
        check_add(d, CHECK_FAIL, "CNI", mend, "'%s' is no program that could be run", path);
        return false;
    }
    return true;
}

static void check_gate_program(struct doctor *d)
{
    char path[PROGRAM_PATH_BYTES];
    struct err e = ERR_INIT;
    if (check_program(d, "dpu-gate", INSTALL, path) && cni_probe_version(path, &e) != 0) {
        check_add(d, CHECK_FAIL, "CNI", INSTALL, "'%s': %s", path, e.msg);
    }
}

/* A plugin behind the gate. A runtime calls all plugins of a list with the highest version of the
 * list. containerd 1.x takes 1.0.0 instead. One that gives no answer here may give it to the
 * runtime. */
static void check_plugin(struct doctor *d, const struct cni_entry *gate, const char *type,
                         const char *mend)
{
    char path[PROGRAM_PATH_BYTES];
    struct err e = ERR_INIT;
    bool is_certain =
        d->runtime_version[0] != '\0' && strncmp(d->runtime_version, "containerd://1.", 15) != 0;
    if (check_program(d, type, mend, path) && gate->speaks_status &&
        cni_probe_version(path, &e) == ERR_NOTFOUND) {
        check_add(
            d, is_certain ? CHECK_FAIL : CHECK_WARN, "CNI", "update that plugin",
            "'%s' does not speak CNI 1.1.0, with which every runtime but containerd 1.x calls "
            "it behind dpu-gate: it refuses ADD there",
            path);
    }
}

/* ---- CNI: what stands behind the gate -------------------------------------------------------- */

static void check_source(struct doctor *d, const struct cni_entry *gate)
{
    static const char writes_it[] = "ovn-kubernetes writes it: " LOOK_AT_OVN;
    char path[PATH_MAX];
    struct err e = ERR_INIT;
    CLEANUP(free) struct cni_entry *source = MEM_NEW(struct cni_entry);
    CLEANUP(buf) struct buf text;
    buf_init(&text, CNI_SCAN_FILE_MAX_BYTES);
    admin_path(&d->config, gate->delegate_conf, path, sizeof(path));
    if (file_read(path, &text, &e) != 0) {
        check_add(d, CHECK_FAIL, "CNI", writes_it, "the configuration behind dpu-gate: %s", e.msg);
        return;
    }
    cni_entry_read(buf_text(&text), text.len, source);
    if (source->problem[0] != '\0') {
        check_add(d, CHECK_FAIL, "CNI", writes_it, "'%s': %s", path, source->problem);
    } else if (source->is_gated) {
        check_add(d, CHECK_FAIL, "CNI", INSTALL " with the --cni-source of the node's own plugin",
                  "'%s', behind dpu-gate, is dpu-gate itself", path);
    } else if (source->plugin_count > 1) {
        check_add(d, CHECK_FAIL, "CNI", INSTALL ": it chains a list",
                  "'%s' lists %zu plugins: dpu-gate can call one", path, source->plugin_count);
    } else if (!text_equal(source->network, gate->network)) {
        check_add(
            d, CHECK_FAIL, "CNI", INSTALL ": results of pods are kept under the network's name",
            "'%s' is of network '%s', but dpu-gate of '%s'", path, source->network, gate->network);
    } else {
        check_plugin(d, gate, source->types, "ovn-kubernetes installs it: " LOOK_AT_OVN);
    }
}

/* The runtime itself calls those that come after the gate in its list. */
static void check_chain(struct doctor *d, const struct cni_entry *gate)
{
    bool is_cut = strlen(gate->types) + 1 >= sizeof(gate->types) - 4; /* bytes of a character */
    const char *comma = strstr(gate->types, ", ");
    while (comma) {
        char type[CNI_SCAN_TEXT_BYTES];
        const char *begin = comma + 2;
        comma = strstr(begin, ", ");
        size_t len = comma ? (size_t)(comma - begin) : strlen(begin);
        if (comma || !is_cut) {
            text_sanitize(type, sizeof(type), begin, len);
            check_plugin(d, gate, type, "install that plugin");
        }
    }
}

static void check_gate(struct doctor *d, const struct cni_entry *gate)
{
    const char *record =
        gate->readiness_file[0] != '\0' ? gate->readiness_file : NAMES_READINESS_FILE;
    if (!gate->speaks_status) {
        check_add(d, CHECK_WARN, "CNI",
                  INSTALL ", or \"cniVersions\": [\"1.0.0\", \"1.1.0\"] there",
                  "%s goes up to cniVersion %s only: no runtime asks it for STATUS, ADD alone is "
                  "gated",
                  gate->file, gate->version[0] != '\0' ? gate->version : "0.1.0");
    }
    if (!text_equal(record, d->config.readiness_file)) {
        check_add(d, CHECK_FAIL, "CNI", INSTALL " with the agent's --readiness-file",
                  "dpu-gate reads '%s', but the agent writes '%s'", record,
                  d->config.readiness_file);
    }
    check_gate_program(d);
    if (gate->delegate_conf[0] != '\0') {
        check_source(d, gate);
    } else if (gate->delegate_type[0] == '\0') {
        check_add(d, CHECK_FAIL, "CNI", INSTALL, "%s: dpu-gate has no plugin to call", gate->file);
    } else if (gate->is_wrapping) {
        check_plugin(d, gate, gate->delegate_type, "install that plugin");
    }
    check_chain(d, gate);
}

/* ---- CNI: which comes first ------------------------------------------------------------------ */

/* By its text, or by its name where the text says nothing. */
static bool is_ours(const struct cni_entry *entry)
{
    return entry->is_gated || strstr(entry->file, "dpu-gate");
}

/* What Multus calls in the gate's place, as far as its file says; NULL: nothing. */
static const char *called_by(const struct cni_entry *multus, const struct cni_scan *scan)
{
    const char *network = multus->cluster_network;
    const char *slash = strrchr(network, '/');
    if (network[0] == '\0') { /* else its delegates do not count */
        bool is_gate = text_equal(multus->first_delegate, "dpu-gate");
        return is_gate || multus->first_delegate[0] == '\0' ? NULL : multus->first_delegate;
    }
    for (size_t i = 0; slash && i < scan->count; i++) { /* by whichever path its pod knows it */
        if (text_equal(scan->entries[i].file, slash + 1)) {
            return is_ours(&scan->entries[i]) ? NULL : network;
        }
    }
    return NULL;
}

static void check_multus(struct doctor *d, const struct cni_entry *multus)
{
    const char *network = multus->cluster_network;
    const char *other = called_by(multus, &d->cni);
    if (other) {
        check_add(d, CHECK_FAIL, "CNI", MULTUS_MEND,
                  "Multus (%s) comes first and calls %s, past dpu-gate", multus->file, other);
    } else if (network[0] == '/' && text_equal(strrchr(network, '.'), ".conflist")) {
        check_add(d, CHECK_FAIL, "CNI", MULTUS_MEND,
                  "Multus (%s) names the list '%s': of its plugins DEL and STATUS get no more than "
                  "the type, so dpu-gate does not know whom to call",
                  multus->file, network);
    } else if (!multus->speaks_status) {
        check_add(d, CHECK_WARN, "CNI", "set \"cniVersion\": \"1.1.0\" in Multus's configuration",
                  "Multus (%s) comes first, with cniVersion %s: STATUS does not get through it",
                  multus->file, multus->version[0] != '\0' ? multus->version : "0.1.0");
    } else {
        const char *called = network[0] != '\0'                  ? "its cluster network "
                             : multus->first_delegate[0] != '\0' ? multus->first_delegate
                                                                 : "what its file does not say";
        check_add(d, CHECK_WARN, "CNI",
                  "make sure that Multus is 4.2.4 (thin) or 4.3.0 (thick) or newer: older ones do "
                  "not pass STATUS on",
                  "Multus (%s) comes first and calls %s%s", multus->file, called, network);
    }
}

/* Those that cannot be taken: containerd gives up at the first (go-cni, loadFromConfDir), CRI-O
 * goes on. Returns whether we may read all. */
static bool check_files(struct doctor *d)
{
    const struct cni_scan *scan = &d->cni;
    const struct cni_entry *first = cni_scan_first(scan);
    bool is_containerd = strncmp(d->runtime_version, "containerd:", 11) == 0;
    bool may_read = true;
    for (size_t i = 0; i < scan->count; i++) {
        const struct cni_entry *entry = &scan->entries[i];
        bool stops = is_containerd && (!first || entry < first);
        if (entry->is_forbidden) {
            may_read = false;
            check_add(d, CHECK_SKIP, "CNI", "run it as root", "%s: %s", entry->file,
                      entry->problem);
        } else if (entry->problem[0] != '\0') {
            check_add(d, stops || is_ours(entry) ? CHECK_FAIL : CHECK_WARN, "CNI",
                      is_ours(entry) ? INSTALL : "mend or remove that file", "%s: %s%s",
                      entry->file, entry->problem,
                      stops ? "; containerd takes no later one, so there is no network" : "");
        }
    }
    if (scan->more > 0) {
        check_add(d, CHECK_WARN, "CNI", "remove what is not in use",
                  "%zu more files were not looked at", scan->more);
    }
    return may_read;
}

void check_cni(struct doctor *d)
{
    const struct cni_scan *scan = &d->cni;
    const struct cni_entry *first = cni_scan_first(scan);
    const struct cni_entry *gate = cni_scan_gated(scan);
    size_t before = d->count;
    if (scan->problem[0] != '\0') {
        check_add(d, CHECK_FAIL, "CNI", "give --cni-conf-dir, or --root where the node is mounted",
                  "%s", scan->problem);
        return;
    }
    if (!check_files(d)) {
        return; /* which comes first cannot be told */
    }
    if (!gate && first && text_equal(first->first_delegate, "dpu-gate")) {
        check_multus(d, first); /* its text is there, in no file of its own */
        return;
    }
    if (!gate) {
        check_add(d, CHECK_WARN, "CNI", INSTALL,
                  "%s%s: dpu-gate is not installed, pods are let "
                  "through whatever the DPU does",
                  first ? first->file : "there is no configuration", first ? " comes first" : "");
        return;
    }
    if (first != gate && !first->is_multus) {
        check_add(d, CHECK_FAIL, "CNI", "rename it, so that it sorts behind dpu-gate's",
                  "%s sorts before %s: the runtime takes it, past dpu-gate", first->file,
                  gate->file);
    } else if (first != gate) {
        check_multus(d, first);
    }
    check_gate(d, gate);
    if (d->count == before) {
        check_add(d, CHECK_PASS, "CNI", "", "%s comes first: dpu-gate, then %s", gate->file,
                  gate->delegate_conf[0] != '\0' ? gate->delegate_conf : gate->delegate_type);
    }
}

/* ---- the container runtime and the pods ------------------------------------------------------ */

static void check_network(struct doctor *d, const struct cri_network *network)
{
    bool is_gates = strstr(network->message, NAMES_NOT_READY_PREFIX) != NULL;
    if (!network->is_ready) {
        check_add(d, CHECK_FAIL, "network",
                  is_gates ? "this is dpu-gate's answer: see the record and the lease above"
                           : "this is not dpu-gate's answer: see the CNI configuration, and the "
                             "plugin behind the gate",
                  "the container runtime says that the network is not ready: %s %s",
                  network->reason, network->message);
    } else if (!d->seen.gate.admit) {
        check_add(
            d, CHECK_WARN, "network",
            "see the runtime below; until then ADD alone is gated: the scheduler still sends "
            "pods here",
            "the container runtime says that the network is ready, although dpu-gate refuses: "
            "it does not ask STATUS, or has not since");
    } else {
        check_add(d, CHECK_PASS, "network", "",
                  "the container runtime says that the network is ready");
    }
}

static void check_pods(struct doctor *d, const char *socket)
{
    struct pods_snapshot seen = {.count = 0};
    struct err e = ERR_INIT;
    if (pods_snapshot_take(&d->config, socket, &seen, &e) != 0) {
        check_add(d, CHECK_SKIP, "pods", "", "%s", e.msg);
    } else if (seen.lost > 0) {
        check_add(d, CHECK_FAIL, "pods",
                  "'dpuctl pods' names them: delete them, or give dpu-host-agent "
                  "--on-lost-network=restart",
                  "%zu of %zu pods have lost their network", seen.lost, seen.count);
    } else if (seen.unseen > 0) {
        check_add(d, CHECK_WARN, "pods", "'dpuctl pods' says why",
                  "whether %zu of %zu pods have their network cannot be told", seen.unseen,
                  seen.count);
    } else {
        check_add(d, CHECK_PASS, "pods", "", "none of %zu pods has lost its network", seen.count);
    }
    pods_snapshot_fini(&seen);
}

void check_cri(struct doctor *d)
{
    char socket[PATH_MAX];
    struct cri_request request;
    struct cri_version version;
    struct cri_network network = {.is_ready = false};
    struct err e = ERR_INIT;
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, GRPC_UNARY_REPLY_MAX_BYTES);
    if (!pods_find_runtime(&d->config, socket)) {
        return; /* the Node says which runtime it is */
    }
    cri_ask(CRI_STATUS, NULL, &request);
    int rc = pods_ask_runtime(&d->config, socket, &request, &answer, &e);
    if (rc == 0) {
        rc = cri_read_network((const uint8_t *)buf_text(&answer), answer.len, &network, &e);
    }
    if (rc != 0) {
        check_add(d, CHECK_WARN, "network", "is it running? if it is elsewhere: --cri-socket=FILE",
                  "the container runtime cannot be asked: %s", e.msg);
        return;
    }
    check_network(d, &network);
    cri_ask(CRI_VERSION, NULL,
            &request); /* in the words of the Node, which has it from the same call */
    if (d->runtime_version[0] == '\0' &&
        pods_ask_runtime(&d->config, socket, &request, &answer, NULL) == 0 &&
        cri_read_version((const uint8_t *)buf_text(&answer), answer.len, &version, NULL) == 0) {
        text_format(d->runtime_version, sizeof(d->runtime_version), "%.24s://%.32s", version.name,
                    version.version);
    }
    check_pods(d, socket);
}

#define ADD_ALONE ": the Node stays Ready, ADD alone is gated"

/* What a runtime does with STATUS, and a kubelet with DRA, from a version on; the newest first. */
struct habit {
    const char *since;
    enum check_outcome outcome;
    const char *habit;
    const char *mend;
};

static const struct habit of_containerd[] = {
    {"2.0.3", CHECK_PASS, "asks STATUS at each look", ""},
    {"2.0.1", CHECK_FAIL, "asks STATUS, but can deadlock over it",
     "update containerd to 2.0.3 or newer"},
    {"0.0.0", CHECK_WARN, "never asks STATUS" ADD_ALONE, "update containerd to 2.0.3 or newer"},
};

static const struct habit of_kubelets[] = {
    {"1.36.0", CHECK_PASS, "has all that the DRA device needs", ""},
    {"1.34.0", CHECK_WARN, "shows the DPU's health in pods only if its feature gate is on",
     "the feature gate ResourceHealthStatus in API server and kubelet, or Kubernetes 1.36"},
    {"0.0.0", CHECK_WARN, "has DRA off unless its feature gate is on",
     "its feature gate DynamicResourceAllocation, or Kubernetes 1.34"},
};

/* Its first rows are one version's, by what is known of its setting. */
enum { GRACE_UNSEEN, GRACE_UNSET, GRACE_SET };

static const struct habit of_crio[] = {
    [GRACE_UNSEEN] =
        {"1.36.3", CHECK_SKIP,
         "asks STATUS after its start only with cni_status_grace_period, which is seen on the node",
         ""},
    [GRACE_UNSET] = {"1.36.3", CHECK_WARN,
                     "asks STATUS only until it has once been ready" ADD_ALONE,
                     "set cni_status_grace_period = \"5s\" in the [crio.network] part of its "
                     "configuration, and restart it"},
    [GRACE_SET] =
        {"1.36.0", CHECK_PASS,
         "asks STATUS all the time: while it is refused new pods wait, and ADD is not called", ""},
    {"0.0.0", CHECK_WARN, "asks STATUS only at its start" ADD_ALONE,
     "update CRI-O to 1.36.3 or newer and set cni_status_grace_period"},
};

static void judge_version(struct doctor *d, const char *link, const char *name, const char *version,
                          const struct habit *habits)
{
    int64_t number = version_number(version);
    if (number == 0 && version[0] == '\0') {
        check_add(d, CHECK_SKIP, link, "", "its version is not known");
        return;
    }
    if (number == 0) {
        check_add(d, CHECK_SKIP, link, "", "'%s' is no version that we know", version);
        return;
    }
    while (number < version_number(habits->since)) {
        habits++; /* the last is of every version */
    }
    check_add(d, habits->outcome, link, habits->mend, "%s%s %s", name, version, habits->habit);
}

void check_judge_runtime(struct doctor *d, const char *version, const char *grace)
{
    int known = GRACE_UNSEEN;
    if (grace) { /* is it more than a span of zero? */
        known = strspn(grace, "0.hmsuµn") < strlen(grace) ? GRACE_SET : GRACE_UNSET;
    }
    if (strncmp(version, "containerd://", 13) == 0) {
        judge_version(d, "runtime", "containerd ", version + 13, of_containerd);
    } else if (strncmp(version, "cri-o://", 8) == 0) {
        judge_version(d, "runtime", "CRI-O ", version + 8, of_crio + known);
    } else {
        check_add(d, CHECK_SKIP, "runtime", "", "'%s' is no runtime that we know", version);
    }
}

/* ---- the runtime's own settings -------------------------------------------------------------- */

/* The value of `line` if it sets `key`, from its first character to `*out_len`; NULL if not. */
static const char *value_of(const char *line, const char *key, size_t *out_len)
{
    const char *at = line + strspn(line, " \t");
    if (strncmp(at, key, strlen(key)) != 0) {
        return NULL;
    }
    const char *value = at + strlen(key);
    value += strspn(value, " \t");
    if (*value != '=') {
        return NULL;
    }
    value += 1 + strspn(value + 1, " \t\"'");
    *out_len = strcspn(value, "\"'#\r\n");
    while (*out_len > 0 && isspace((unsigned char)value[*out_len - 1])) {
        --*out_len;
    }
    return value;
}

bool check_find_setting(const char *text, const char *key, char *out, size_t out_bytes)
{
    bool is_set = false;
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        size_t value_len;
        const char *value = value_of(line, key, &value_len);
        if (value) {
            text_sanitize(out, out_bytes, value, value_len);
            is_set = true;
        }
        line += len + (line[len] == '\n');
    }
    return is_set;
}

static void find_in(const char *path, const char *key, char *out, size_t out_bytes)
{
    enum { CONFIG_MAX_BYTES = 256 << 10 };
    CLEANUP(buf) struct buf text;
    buf_init(&text, CONFIG_MAX_BYTES);
    if (file_read(path, &text, NULL) == 0) { /* not set there: what was found before stays */
        (void)check_find_setting(buf_text(&text), key, out, out_bytes);
    }
}

/* A runtime's file, then those of its directory by name; the last one wins. "" if not set. */
static void find_setting(const struct admin_config *config, const char *main_file, const char *key,
                         char *out, size_t out_bytes)
{
    char path[PATH_MAX];
    char file[PATH_MAX + 260];
    struct dirent **found = NULL;
    out[0] = '\0';
    find_in(admin_path(config, main_file, path, sizeof(path)), key, out, out_bytes);
    text_format(file, sizeof(file), "%s.d", path);
    int count = scandir(file, &found, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        text_format(file, sizeof(file), "%s.d/%s", path, found[i]->d_name);
        find_in(file, key, out, out_bytes);
        free(found[i]);
    }
    free(found);
}

static size_t len_without_slashes(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    return len;
}

/* Only plain paths: lists and what an import brings cannot be told from lines. */
static void check_directories(struct doctor *d)
{
    const struct admin_config *config = &d->config;
    const struct {
        const char *runtime;
        const char *file;
        const char *key;
        const char *option;
        const char *ours;
    } places[] = {
        {"containerd:", "/etc/containerd/config.toml", "conf_dir", "cni-conf-dir",
         config->cni_conf_dir},
        {"containerd:", "/etc/containerd/config.toml", "bin_dir", "cni-bin-dir",
         config->cni_bin_dir},
        {"cri-o:", "/etc/crio/crio.conf", "network_dir", "cni-conf-dir", config->cni_conf_dir},
    };
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char theirs[CNI_SCAN_TEXT_BYTES];
        char mend[CHECK_TEXT_BYTES + 64];
        const char *ours = places[i].ours;
        if (strncmp(d->runtime_version, places[i].runtime, strlen(places[i].runtime)) != 0) {
            continue;
        }
        find_setting(config, places[i].file, places[i].key, theirs, sizeof(theirs));
        size_t len = len_without_slashes(theirs);
        if (theirs[0] != '/' ||
            (len == len_without_slashes(ours) && memcmp(theirs, ours, len) == 0)) {
            continue;
        }
        text_format(mend, sizeof(mend), "give --%s=%s, here and to install-cni", places[i].option,
                    theirs);
        check_add(d, CHECK_WARN, "runtime", mend,
                  "%s says %s = '%s', but this looked in '%s' (if several are there, see which one "
                  "counts)",
                  places[i].file, places[i].key, theirs, ours);
    }
}

void check_runtime(struct doctor *d)
{
    char grace[64];
    if (d->runtime_version[0] == '\0') {
        check_add(
            d, CHECK_SKIP, "runtime",
            "the Node says which, once its kubelet has, to whoever may read it (--kubeconfig)",
            "which one it is, and whether it asks STATUS, is not known");
        return;
    }
    find_setting(&d->config, "/etc/crio/crio.conf", "cni_status_grace_period", grace,
                 sizeof(grace));
    check_judge_runtime(d, d->runtime_version, grace);
    check_directories(d);
}

/* ---- the kubelet ----------------------------------------------------------------------------- */

void check_rolling_names(struct doctor *d)
{
    int64_t number = version_number(d->kubelet_version);
    if (number > 0 && number < version_number("1.33.0")) {
        check_add(
            d, CHECK_WARN, "kubelet",
            "take --dra-rolling-update-uid away (Helm: dra.rollingUpdate=false)",
            "the DRA driver's sockets have names for a rolling update: %s knows one socket of "
            "a driver, 1.33 is the first that knows two",
            d->kubelet_version);
    }
}

void check_kubelet(struct doctor *d)
{
    const char *driver = d->config.driver;
    char dir[PATH_MAX];
    struct dra_sockets found;
    if (access(dra_sockets_find(&d->config, dir, &found), F_OK) != 0) {
        check_add(d, CHECK_SKIP, "kubelet", "give --kubelet-root-dir if it is elsewhere",
                  "there is no '%s'", dir);
        return;
    }
    size_t present = found.offered + found.serving;
    if (present == 0) {
        check_add(d, CHECK_PASS, "kubelet", "", "the DPU is not offered as a DRA device");
        return;
    }
    if (found.unheard > 0) {
        check_add(d, CHECK_WARN, "kubelet",
                  "start the agent again; with --dra=off, remove the sockets of an earlier run",
                  "%zu of %zu sockets of the DRA driver '%s' are left over: nobody listens",
                  found.unheard, present, driver);
    }
    if (found.offered == 0 || found.serving == 0) {
        check_add(d, CHECK_WARN, "kubelet", "the agent makes its sockets anew within 10 s: its log",
                  "of the DRA driver '%s' %s socket is missing", driver,
                  found.offered == 0 ? "the registration" : "the service");
    }
    if (found.rolling > 0) {
        check_rolling_names(d);
    }
    judge_version(d, "kubelet", "", d->kubelet_version, of_kubelets);
}
