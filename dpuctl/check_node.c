/* SPDX-License-Identifier: Apache-2.0 */
/* The links of the chain that are seen on the node itself. */
#include "dpuctl/doctor.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "dpuctl/print.h"
#include "grpc/grpc_unary.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/magic.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- the record and its writer --------------------------------------------------------------- */

#define PAGE "'{record.file}': "

static const struct check_row of_user[] = {
    {"user", CHECK_SKIP, "!here.isRoot",
     "dpuctl does not run as root, so it may not be able to read some files below",
     "run dpuctl as root"},
};

static const struct check_row of_no_record[] = {
    {"record", CHECK_FAIL, "gate.reason=RecordMissing", PAGE "{record.problem}", "{here.advice}"},
    {"record", CHECK_FAIL, "!gate.reason=RecordMissing", PAGE "{record.problem}",
     "remove the file; dpu-host-agent writes a new one"},
    {"agent", CHECK_SKIP, "", "without a record, dpuctl cannot tell whether it runs", ""},
};

static const struct check_row of_record[] = {
    {"record", CHECK_FAIL, "!gate.admitsPods", "Pods are rejected ({gate.reason}): {gate.message}",
     "{here.reasonAdvice}"},
    {"record", CHECK_WARN, "gate.admitsPods gate.note", "{gate.note}", "{here.advice}"},
    {"record", CHECK_PASS, "gate.admitsPods !gate.note answer=Ready",
     "it says Ready ({gate.reason}): {record.message}", ""},
    {"record", CHECK_WARN, "gate.admitsPods !gate.note !answer=Ready",
     "it says Unknown ({gate.reason}): {record.message}", "{here.reasonAdvice}"},
    {"record", CHECK_WARN, "here.isOnDisk",
     PAGE "it is on a disk; a full disk would stop the agent",
     "put --readiness-file on a tmpfs, such as /run"},
    {"record", CHECK_WARN, "here.isOfOtherNode",
     "it is about node '{record.node}', but dpuctl looks at '{node}'",
     "give the same --node-name to dpuctl and dpu-host-agent"},
    /* The times of a record of another boot are of another clock. */
    {"agent", CHECK_FAIL, "gate.reason=RecordInvalid",
     "dpu-host-agent has not written the record since this host booted", "{here.advice}"},
    {"agent", CHECK_FAIL, "!gate.reason=RecordInvalid !record.writerSeconds>0",
     "dpu-host-agent (pid {record.writerPid}) is overdue for {record.writerSeconds}",
     "{here.advice}"},
    {"agent", CHECK_PASS, "!gate.reason=RecordInvalid record.writerSeconds>0",
     "dpu-host-agent (pid {record.writerPid}) writes the record", ""},
};

/* A probe that fails is in the verdict. */
static const struct check_row of_host_probe[] = {
    {"record", CHECK_WARN, "says=none",
     "the host probe '{probe}' has not passed since this host booted, so its failures do not count",
     "check the probe's text; dpu-host-agent's log shows its results"},
};

void check_record(struct doctor *d)
{
    const struct node_snapshot *seen = &d->seen;
    const char *reason = seen->gate.word;
    const char *node = d->config.agent.node_name;
    size_t i;
    const json_t *probe;
    struct statfs fs;
    bool is_on_disk =
        statfs(seen->path, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
    print_json_put(d->doc, "here",
                   json_pack("{s:b, s:b, s:b, s:s, s:s}", "isRoot", geteuid() == 0, "isOnDisk",
                             is_on_disk, "isOfOtherNode", !text_equal(seen->record.node, node),
                             "advice", readiness_reason_fix("RecordStale"), "reasonAdvice",
                             readiness_reason_fix(reason)));
    check_rows(d, d->doc, of_user, ARRAY_LEN(of_user));
    if (!seen->has_record) {
        check_rows(d, d->doc, of_no_record, ARRAY_LEN(of_no_record));
        return;
    }
    check_rows(d, d->doc, of_record, ARRAY_LEN(of_record));
    json_array_foreach(json_object_get(json_object_get(d->doc, "record"), "hostProbes"), i, probe)
    {
        check_rows(d, probe, of_host_probe, ARRAY_LEN(of_host_probe));
    }
}

/* ---- CNI: programs --------------------------------------------------------------------------- */

#define INSTALL "dpu-host-agent install-cni"
#define MULTUS_MEND                                                                                \
    "put dpu-gate before Multus, or copy the conflist's text into Multus's delegates: docs/cni.md"
#define LIST_MEND                                                                                  \
    "for one plugin of cniVersion 1.1.0 " INSTALL                                                  \
    " writes a .conf, which Multus passes on whole; "                                              \
    "else " MULTUS_MEND
#define LOOK_AT_OVN "check ovnkube-node's Pod"

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
        check_add(d, CHECK_FAIL, "CNI", mend, "'%s' is not an executable program", path);
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

static const struct check_row of_old_plugin[] = {
    {"CNI", CHECK_FAIL, "isCertain", "'{path}' does not speak CNI 1.1.0, so it fails ADD here",
     "update that plugin"},
    {"CNI", CHECK_WARN, "!isCertain",
     "'{path}' does not speak CNI 1.1.0, so it fails ADD with any runtime but containerd 1.x",
     "update that plugin"},
};

/* A plugin behind the gate. A runtime calls all plugins of a list with the highest version of the
 * list. containerd 1.x takes 1.0.0 instead. One that gives no answer here may give it to the
 * runtime. */
static void check_plugin(struct doctor *d, const json_t *gate, const char *type, const char *mend)
{
    char path[PROGRAM_PATH_BYTES];
    struct err e = ERR_INIT;
    if (check_program(d, type, mend, path) && print_holds(gate, "speaksStatus") &&
        cni_probe_version(path, &e) == ERR_NOTFOUND) {
        CLEANUP(json)
        json_t *doc = json_pack("{s:o, s:b}", "path", print_json_text(path), "isCertain",
                                d->runtime_version[0] != '\0' &&
                                    strncmp(d->runtime_version, "containerd://1.", 15) != 0);
        check_rows(d, doc, of_old_plugin, ARRAY_LEN(of_old_plugin));
    }
}

/* ---- CNI: what stands behind the gate -------------------------------------------------------- */

#define WRITES_IT "ovn-kubernetes writes it: " LOOK_AT_OVN

static const struct check_row of_source[] = {
    {"CNI", CHECK_FAIL, "unread !beside", "the configuration behind dpu-gate: {unread}", WRITES_IT},
    {"CNI", CHECK_FAIL, "unread beside",
     "the configuration behind dpu-gate: {unread}; but '{beside}' configures the same network",
     INSTALL ", or set --cni-sync of dpu-host-agent: both take that one"},
    {"CNI", CHECK_FAIL, "problem", "'{path}': {problem}", WRITES_IT},
    {"CNI", CHECK_FAIL, "!problem isGated", "'{path}', behind dpu-gate, is dpu-gate itself",
     INSTALL " with the --cni-source of the node's own plugin"},
    {"CNI", CHECK_FAIL, "!problem count>1",
     "'{path}' lists {count} plugins, but dpu-gate calls one", INSTALL ", which chains the list"},
    {"CNI", CHECK_FAIL, "!problem isOfOtherNetwork",
     "'{path}' names network '{network}', but dpu-gate's file names '{gateNetwork}'", INSTALL},
};

/* A file that somebody made of the gate's source, or renamed; NULL: there is none. */
static const char *find_beside(const json_t *files, const char *network)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(files, i, entry)
    {
        if (!print_holds(entry, "isGated") && !print_holds(entry, "isMultus") &&
            (text_equal(json_text_get(entry, "network"), network) ||
             text_equal(json_text_get(entry, "pluginNetwork"), network))) {
            return json_text_get(entry, "file");
        }
    }
    return NULL;
}

static void check_source(struct doctor *d, const json_t *gate)
{
    char path[PATH_MAX];
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *source = NULL;
    CLEANUP(buf) struct buf text;
    size_t before = json_array_size(d->checks);
    const char *network = json_text_get(gate, "network");
    text = (struct buf){.max_bytes = CNI_SCAN_FILE_MAX_BYTES};
    admin_path(&d->config, json_text_get(gate, "delegateConf"), path, sizeof(path));
    source = file_read(path, &text, &e) != 0 ? json_pack("{s:o}", "unread", print_json_text(e.msg))
                                             : cni_entry_json(buf_text(&text), text.len);
    const json_t *types = json_object_get(source, "types");
    print_json_put(source, "path", print_json_text(path));
    print_json_put(source, "count", json_integer((json_int_t)json_array_size(types)));
    print_json_put(source, "gateNetwork", print_json_text(network));
    print_json_put(source, "beside",
                   print_json_text(find_beside(json_object_get(d->cni, "files"), network)));
    print_json_put(source, "isOfOtherNetwork",
                   json_boolean(types && !text_equal(json_text_get(source, "network"), network)));
    check_rows(d, source, of_source, ARRAY_LEN(of_source));
    if (json_array_size(d->checks) == before) {
        check_plugin(d, gate, json_string_value(json_array_get(types, 0)),
                     "ovn-kubernetes installs it: " LOOK_AT_OVN);
    }
}

static const struct check_row of_gate[] = {
    {"CNI", CHECK_FAIL, "isTooNew",
     "{file} has cniVersion 1.1.0 alone, which containerd 1.x cannot use, so it fails ADD",
     "update containerd to 2.0.3 or newer, or run " INSTALL " --cni-form=list"},
    {"CNI", CHECK_WARN, "!speaksStatus",
     "{file} does not declare cniVersion 1.1.0, so no runtime calls STATUS, and only ADD is gated",
     INSTALL},
    {"CNI", CHECK_FAIL, "readsOther",
     "dpu-gate reads '{readsOther}', but the agent writes '{record}'",
     INSTALL " with the agent's --readiness-file"},
    {"CNI", CHECK_FAIL, "!delegateConf !delegateType", "{file}: dpu-gate has no plugin to call",
     INSTALL},
};

static void check_gate(struct doctor *d, json_t *gate)
{
    const char *record = json_text_get(gate, "readinessFile");
    const json_t *types = json_object_get(gate, "types");
    const char *written = d->config.readiness_file;
    record = record ? record : NAMES_READINESS_FILE;
    print_json_put(gate, "record", print_json_text(written));
    print_json_put(gate, "readsOther",
                   print_json_text(text_equal(record, written) ? NULL : record));
    print_json_put(gate, "isTooNew",
                   json_boolean(!print_holds(gate, "isList") && print_holds(gate, "speaksStatus") &&
                                strncmp(d->runtime_version, "containerd://1.", 15) == 0));
    check_rows(d, gate, of_gate, ARRAY_LEN(of_gate));
    check_gate_program(d);
    if (print_holds(gate, "delegateConf")) {
        check_source(d, gate);
    } else if (print_holds(gate, "isWrapping delegateType")) {
        check_plugin(d, gate, json_text_get(gate, "delegateType"), "install that plugin");
    }
    /* The runtime itself calls those that come after the gate in its list. */
    for (size_t i = 1; i < json_array_size(types) && i < CNI_SCAN_MAX; i++) {
        check_plugin(d, gate, json_string_value(json_array_get(types, i)), "install that plugin");
    }
}

/* ---- CNI: which comes first ------------------------------------------------------------------ */

static const struct check_row of_multus[] = {
    {"CNI", CHECK_FAIL, "other",
     "Multus ({file}) comes first and calls {other} instead of dpu-gate", MULTUS_MEND},
    {"CNI", CHECK_FAIL, "!other isListNamed wraps",
     "Multus ({file}) names the list '{clusterNetwork}', so dpu-gate gets no plugin to call at "
     "DEL, and Pods keep their addresses",
     LIST_MEND},
    {"CNI", CHECK_WARN, "!other isListNamed !wraps",
     "Multus ({file}) names the list '{clusterNetwork}': at STATUS and DEL its plugins get no more "
     "than their type",
     MULTUS_MEND},
    {"CNI", CHECK_FAIL, "isGone",
     "Multus ({file}) names '{clusterNetwork}', which is not there, so it fails ADD",
     "restart Multus's Pod, whose generator then takes the first file, or change that name"},
    {"CNI", CHECK_WARN, "!other !isListNamed !isGone !speaksStatus",
     "Multus ({file}) comes first without cniVersion 1.1.0, so it does not pass STATUS on",
     "set \"cniVersion\": \"1.1.0\" in Multus's configuration"},
    {"CNI", CHECK_WARN, "!other !isListNamed !isGone speaksStatus",
     "Multus ({file}) comes first and calls {calls}",
     "use Multus 4.2.4 (thin), 4.3.0 (thick) or newer: older versions do not pass STATUS on"},
};

/* By its text, or by its name where the text says nothing. */
static bool is_ours(const json_t *entry)
{
    return print_holds(entry, "isGated") || strstr(json_text_get(entry, "file"), "dpu-gate");
}

/* What Multus calls in the gate's place, as far as its file says; NULL: nothing. */
static const char *called_by(const json_t *multus, const json_t *files)
{
    const char *network = json_text_get(multus, "clusterNetwork");
    const char *first = json_text_get(multus, "firstDelegate");
    const char *slash = network ? strrchr(network, '/') : NULL;
    if (!network) { /* else its delegates do not count */
        return text_equal(first, "dpu-gate") ? NULL : first;
    }
    /* By whichever path its pod knows it. */
    const json_t *entry = slash ? json_text_find(files, "file", slash + 1) : NULL;
    return entry && !is_ours(entry) ? network : NULL;
}

static void check_multus(struct doctor *d, json_t *multus)
{
    const json_t *files = json_object_get(d->cni, "files");
    const char *network = json_text_get(multus, "clusterNetwork");
    const char *other = called_by(multus, files);
    const char *slash = network ? strrchr(network, '/') : NULL;
    const json_t *named = slash ? json_text_find(files, "file", slash + 1) : NULL;
    bool is_list = slash && text_equal(strrchr(network, '.'), ".conflist");
    bool is_gone = slash && !named && strstr(slash, "-dpu-gate.conf");
    print_json_put(multus, "isListNamed", json_boolean(is_list && !is_gone));
    print_json_put(multus, "isGone", json_boolean(is_gone));
    print_json_put(multus, "wraps", json_boolean(print_holds(named, "isWrapping")));
    print_json_put(multus, "other", print_json_text(other));
    print_json_put(multus, "calls",
                   network ? json_sprintf("its cluster network %s", network)
                   : print_holds(multus, "firstDelegate")
                       ? json_incref(json_object_get(multus, "firstDelegate"))
                       : json_string("a plugin that its file does not name"));
    check_rows(d, multus, of_multus, ARRAY_LEN(of_multus));
}

/* Those that cannot be taken: containerd gives up at the first (go-cni, loadFromConfDir), CRI-O
 * goes on. Returns whether we may read all. */
static bool check_files(struct doctor *d)
{
    static const struct check_row of_more[] = {{"CNI", CHECK_WARN, "more",
                                                "{more} more files were not checked",
                                                "remove the files that are not in use"}};
    const json_t *first = json_object_get(d->cni, "first");
    bool stops = strncmp(d->runtime_version, "containerd:", 11) == 0; /* before the first */
    bool may_read = true;
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(d->cni, "files"), i, entry)
    {
        const char *file = json_text_get(entry, "file");
        const char *problem = json_text_get(entry, "problem");
        stops = stops && entry != first;
        if (print_holds(entry, "isForbidden")) {
            may_read = false;
            check_add(d, CHECK_SKIP, "CNI", "run dpuctl as root", "%s: %s", file, problem);
        } else if (problem) {
            check_add(
                d, stops || is_ours(entry) ? CHECK_FAIL : CHECK_WARN, "CNI",
                is_ours(entry) ? INSTALL : "repair or remove that file", "%s: %s%s", file, problem,
                stops ? "; containerd uses none of the later files, so the node has no network"
                      : "");
        }
    }
    check_rows(d, d->cni, of_more, ARRAY_LEN(of_more));
    return may_read;
}

static const struct check_row of_cni[] = {
    {"CNI", CHECK_WARN, "!gate first",
     "{first.file} comes first: dpu-gate is not installed, so Pods are always admitted", INSTALL},
    {"CNI", CHECK_WARN, "!gate !first", "no file here is a configuration that a runtime can use",
     INSTALL},
    {"CNI", CHECK_FAIL, "gate isGateBehind !first.isMultus",
     "{first.file} sorts before {gate.file}, so the runtime uses it and bypasses dpu-gate",
     "rename it so that it sorts after dpu-gate's file"},
};

static const struct check_row of_whole_cni[] = {
    {"CNI", CHECK_PASS, "gate.delegateConf",
     "{gate.file} comes first: dpu-gate, then {gate.delegateConf}", ""},
    {"CNI", CHECK_PASS, "!gate.delegateConf",
     "{gate.file} comes first: dpu-gate, then {gate.delegateType}", ""},
};

/* What dpu-host-agent says of one that undoes its configuration, while it yields. */
static void check_contest(struct doctor *d)
{
    enum { CONTEST_MAX_BYTES = 16 << 10 };
    static const struct check_row of_contest[] = {
        {"CNI", CHECK_FAIL, "message", "{message}",
         "turn off the other program's exclusive mode, or take the gate out: docs/cni.md, "
         "Neighbours"}};
    char file[PATH_MAX];
    char path[PATH_MAX];
    CLEANUP(buf) struct buf text = {.max_bytes = CONTEST_MAX_BYTES};
    text_format(file, sizeof(file), "%s" NAMES_CNI_CONTEST, d->config.readiness_file);
    if (file_read(admin_path(&d->config, file, path, sizeof(path)), &text, NULL) == 0) {
        CLEANUP(json) json_t *said = json_text_parse(buf_text(&text), text.len, NULL);
        check_rows(d, said, of_contest, ARRAY_LEN(of_contest));
    }
}

void check_cni(struct doctor *d)
{
    json_t *first = json_object_get(d->cni, "first");
    json_t *gate = json_object_get(d->cni, "gate");
    size_t before = json_array_size(d->checks);
    check_contest(d);
    if (print_holds(d->cni, "problem")) {
        check_add(d, CHECK_FAIL, "CNI",
                  "set --cni-conf-dir, or --root to where the node's files are mounted", "%s",
                  json_text_get(d->cni, "problem"));
        return;
    }
    if (!check_files(d)) {
        return; /* which comes first cannot be told */
    }
    if (!gate && print_holds(first, "firstDelegate=dpu-gate")) {
        check_multus(d, first); /* its text is there, in no file of its own */
        return;
    }
    print_json_put(d->cni, "isGateBehind", json_boolean(first != gate));
    check_rows(d, d->cni, of_cni, ARRAY_LEN(of_cni));
    if (gate && first != gate && print_holds(first, "isMultus")) {
        check_multus(d, first);
    }
    if (gate) {
        check_gate(d, gate);
    }
    if (gate && json_array_size(d->checks) == before) {
        check_rows(d, d->cni, of_whole_cni, ARRAY_LEN(of_whole_cni));
    }
}

/* ---- the container runtime and the pods ------------------------------------------------------ */

static const struct check_row of_network[] = {
    {"network", CHECK_WARN, "network.problem",
     "the container runtime does not answer: {network.problem}",
     "start it; if its socket is elsewhere, set --cri-socket=FILE"},
    {"network", CHECK_FAIL, "!network.problem !network.isReady network.isByGate",
     "the container runtime reports no network: {network.message}",
     "dpu-gate answers so: see the record and the lease above"},
    {"network", CHECK_FAIL, "!network.problem !network.isReady !network.isByGate",
     "the container runtime reports no network: {network.message}",
     "another plugin answers so: see the CNI links above"},
    {"network", CHECK_WARN, "network.isReady !gate.admitsPods",
     "the container runtime reports that the network is ready, although dpu-gate rejects Pods",
     "see the runtime below: without STATUS, the scheduler still places Pods here"},
    {"network", CHECK_PASS, "network.isReady gate.admitsPods",
     "the container runtime reports that the network is ready", ""},
    {"pods", CHECK_SKIP, "pods.problem", "{pods.problem}", ""},
    {"pods", CHECK_FAIL, "pods.lost", "{pods.lost} of {pods.count} Pods have lost their network",
     "run 'dpuctl pods'; delete the Pods that it lists, or set --on-lost-network=restart of "
     "dpu-host-agent"},
    {"pods", CHECK_WARN, "pods.unseen !pods.lost",
     "{pods.unseen} of {pods.count} Pods could not be inspected", "run 'dpuctl pods'"},
    {"pods", CHECK_PASS, "pods !pods.problem !pods.unseen !pods.lost",
     "none of {pods.count} Pods has lost its network", ""},
};

/* In the words of the Node, which has it from the same call. */
static void ask_runtime_version(struct doctor *d, const char *socket)
{
    struct cri_version version;
    CLEANUP(buf) struct buf answer = {.max_bytes = GRPC_UNARY_REPLY_MAX_BYTES};
    if (pods_ask_runtime(&d->config, socket, CRI_VERSION, NULL, &answer, NULL) == 0 &&
        cri_read_version((const uint8_t *)buf_text(&answer), answer.len, &version, NULL) == 0) {
        text_format(d->runtime_version, sizeof(d->runtime_version), "%.24s://%.32s", version.name,
                    version.version);
    }
}

static json_t *network_json(struct doctor *d, const char *socket)
{
    struct cri_network network = {.is_ready = false};
    struct err e = ERR_INIT;
    CLEANUP(free) char *message = NULL;
    CLEANUP(buf) struct buf answer = {.max_bytes = GRPC_UNARY_REPLY_MAX_BYTES};
    if (pods_ask_runtime(&d->config, socket, CRI_STATUS, NULL, &answer, &e) != 0 ||
        cri_read_network((const uint8_t *)buf_text(&answer), answer.len, &network, &e) != 0) {
        return json_pack("{s:o}", "problem", print_json_text(e.msg));
    }
    message = mem_format("%s %s", network.reason, network.message);
    return json_pack("{s:b, s:b, s:o}", "isReady", network.is_ready, "isByGate",
                     strstr(network.message, NAMES_NOT_READY_PREFIX) != NULL, "message",
                     print_json_text(message));
}

void check_cri(struct doctor *d)
{
    char socket[PATH_MAX];
    if (!pods_find_runtime(&d->config, socket)) {
        return; /* the Node says which runtime it is */
    }
    json_t *network = network_json(d, socket);
    print_json_put(d->doc, "network", network);
    if (!json_object_get(network, "problem")) {
        if (d->runtime_version[0] == '\0') {
            ask_runtime_version(d, socket);
        }
        print_json_put(d->doc, "pods", node_pods_json(&d->config, socket));
    }
    check_rows(d, d->doc, of_network, ARRAY_LEN(of_network));
}

#define ADD_ALONE ", so only ADD is gated, and the Node stays Ready"

/* How runtimes handle STATUS, and kubelets DRA, from a version on; the newest first. */
struct habit {
    const char *since;
    enum check_outcome outcome;
    const char *habit;
    const char *mend;
};

static const struct habit of_containerd[] = {
    {"2.0.3", CHECK_PASS, "polls STATUS", ""},
    {"2.0.1", CHECK_FAIL, "can deadlock in STATUS", "update containerd to 2.0.3 or newer"},
    {"", CHECK_WARN, "never calls STATUS" ADD_ALONE, "update containerd to 2.0.3 or newer"},
};

static const struct habit of_kubelets[] = {
    {"1.36.0", CHECK_PASS, "has all that the DRA device needs", ""},
    {"1.34.0", CHECK_WARN, "shows the DPU's health in Pods only behind a feature gate",
     "turn on ResourceHealthStatus in API server and kubelet, or update to Kubernetes 1.36"},
    {"", CHECK_WARN, "is not supported", "update to Kubernetes 1.34 or newer"},
};

/* Its first rows are one version's, by what is known of its setting. */
enum { GRACE_UNSEEN, GRACE_UNSET, GRACE_SET };

static const struct habit of_crio[] = {
    [GRACE_UNSEEN] =
        {"1.36.3", CHECK_SKIP,
         "polls STATUS only with cni_status_grace_period: run dpuctl on the node to see that", ""},
    [GRACE_UNSET] = {"1.36.3", CHECK_WARN, "calls STATUS only until it first succeeds" ADD_ALONE,
                     "set cni_status_grace_period = \"5s\" in [crio.network], and restart CRI-O"},
    [GRACE_SET] = {"1.36.0", CHECK_PASS, "polls STATUS, and holds new Pods while it fails", ""},
    {"", CHECK_WARN, "calls STATUS only at its start" ADD_ALONE,
     "update CRI-O to 1.36.3 or newer and set cni_status_grace_period"},
};

static void judge_version(struct doctor *d, const char *link, const char *name, const char *version,
                          const struct habit *habits)
{
    if (!version_reaches(version, "")) {
        check_add(d, CHECK_SKIP, link, "", "version '%s' is unknown", version);
        return;
    }
    while (!version_reaches(version, habits->since)) {
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
        check_add(d, CHECK_SKIP, "runtime", "", "runtime '%s' is unknown", version);
    }
}

static const struct check_row of_libcurl[] = {
    {"API", CHECK_WARN, "",
     "libcurl {version} waits without a limit for a name server, so at their start agents reject "
     "a kubeconfig whose server or proxy has a name",
     "use addresses, and tls-server-name for the server's name, or run the image, whose libcurl is "
     "newer"},
};

void check_judge_libcurl(struct doctor *d, const char *version)
{
    if (!version_reaches(version, "7.87.0")) {
        CLEANUP(json) json_t *doc = json_pack("{s:s}", "version", version);
        check_rows(d, doc, of_libcurl, ARRAY_LEN(of_libcurl));
    }
}

/* ---- the runtime's own settings -------------------------------------------------------------- */

bool check_find_setting(const char *text, const char *key, char *out, size_t out_bytes)
{
    char pattern[128];
    regex_t line;
    regmatch_t found[3];
    bool is_set = false;
    text_format(pattern, sizeof(pattern),
                "^[ \t]*%s[ \t]*=[ \t\"']*(([^\"'#\r\n]*[^\"'#[:space:]])?)", key);
    if (regcomp(&line, pattern, REG_EXTENDED | REG_NEWLINE) != 0) {
        return false;
    }
    for (int flags = 0; regexec(&line, text, ARRAY_LEN(found), found, flags) == 0;) {
        text_sanitize(out, out_bytes, text + found[1].rm_so,
                      (size_t)(found[1].rm_eo - found[1].rm_so));
        is_set = true;
        text += found[0].rm_eo;
        flags = REG_NOTBOL;
    }
    regfree(&line);
    return is_set;
}

/* A runtime's file, then those of its directory by name; the last one wins. "" if not set. */
static void find_setting(const struct admin_config *config, const char *main_file, const char *key,
                         char *out, size_t out_bytes)
{
    enum { CONFIG_MAX_BYTES = 256 << 10 };
    char path[PATH_MAX];
    char more[PATH_MAX + 8];
    glob_t files;
    out[0] = '\0';
    admin_path(config, main_file, path, sizeof(path));
    text_format(more, sizeof(more), "%s.d/*", path);
    (void)glob(path, GLOB_NOSORT | GLOB_NOCHECK, NULL, &files); /* this one first */
    (void)glob(more, GLOB_APPEND, NULL, &files); /* none of them is as good as none that sets it */
    for (size_t i = 0; i < files.gl_pathc; i++) {
        CLEANUP(buf) struct buf text = {.max_bytes = CONFIG_MAX_BYTES};
        if (file_read(files.gl_pathv[i], &text, NULL) == 0) { /* else what was found stays */
            (void)check_find_setting(buf_text(&text), key, out, out_bytes);
        }
    }
    globfree(&files);
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
        char theirs[256];
        char mend[PRINT_TEXT_BYTES];
        const char *ours = places[i].ours;
        if (strncmp(d->runtime_version, places[i].runtime, strlen(places[i].runtime)) != 0) {
            continue;
        }
        find_setting(config, places[i].file, places[i].key, theirs, sizeof(theirs));
        size_t len = strlen(theirs);
        while (len > 1 && theirs[len - 1] == '/') {
            theirs[--len] = '\0';
        }
        if (theirs[0] != '/' ||
            (strncmp(theirs, ours, len) == 0 && strspn(ours + len, "/") == strlen(ours + len))) {
            continue;
        }
        text_format(mend, sizeof(mend), "set --%s=%s for dpuctl and for install-cni",
                    places[i].option, theirs);
        check_add(d, CHECK_WARN, "runtime", mend, "%s says %s = '%s', but dpuctl looked in '%s'",
                  places[i].file, places[i].key, theirs, ours);
    }
}

void check_runtime(struct doctor *d)
{
    char grace[64];
    if (d->runtime_version[0] == '\0') {
        check_add(d, CHECK_SKIP, "runtime", "set --kubeconfig: the Node's status names the runtime",
                  "dpuctl does not know which runtime runs here");
        return;
    }
    find_setting(&d->config, "/etc/crio/crio.conf", "cni_status_grace_period", grace,
                 sizeof(grace));
    check_judge_runtime(d, d->runtime_version, grace);
    check_directories(d);
}

/* ---- the kubelet ----------------------------------------------------------------------------- */

#define NEW_SOCKET "dpu-dra-driver recreates a missing socket within 10 s, or its log says why not"

static const struct check_row of_kubelet[] = {
    {"kubelet", CHECK_SKIP, "!kubelet.isThere", "there is no '{kubelet.directory}'",
     "set --kubelet-root-dir if it is elsewhere; of our Pods, only dpu-dra-driver's sees it"},
    {"kubelet", CHECK_PASS, "kubelet.isThere !kubelet.sockets",
     "the DPU is not offered as a DRA device", ""},
    {"kubelet", CHECK_WARN, "kubelet.sockets kubelet.unheard",
     "nobody listens on {kubelet.unheard} of {kubelet.sockets} sockets of driver '{dra.driver}'",
     "restart dpu-dra-driver; if it is gone for good, remove the sockets"},
    {"kubelet", CHECK_WARN, "kubelet.sockets !kubelet.offered",
     "the registration socket of driver '{dra.driver}' is missing", NEW_SOCKET},
    {"kubelet", CHECK_WARN, "kubelet.sockets kubelet.offered !kubelet.serving",
     "the service socket of driver '{dra.driver}' is missing", NEW_SOCKET},
    {"kubelet", CHECK_WARN, "kubelet.offered kubelet.serving !kubelet.unheard !kubelet.registered",
     "no kubelet has registered driver '{dra.driver}', which waits in '{kubelet.directory}'",
     "give the kubelet's --root-dir to dpu-dra-driver as --kubelet-root-dir (chart: "
     "dra.kubeletRoot), and mount it there"},
};

void check_kubelet(struct doctor *d)
{
    json_t *found = dra_sockets_json(&d->config);
    print_json_put(d->doc, "kubelet", found);
    check_rows(d, d->doc, of_kubelet, ARRAY_LEN(of_kubelet));
    if (print_holds(found, "sockets")) {
        judge_version(d, "kubelet", "", d->kubelet_version, of_kubelets);
    }
}
