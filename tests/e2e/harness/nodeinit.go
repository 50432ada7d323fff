// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A node's pid 1 is this program again, in two stages, because only a thread
// can change its cgroup namespace and only exec makes a thread a program:
//
//  1. waits for one byte on fd 3, by which time the launcher has put it into
//     the node's cgroups; leaves the old cgroup namespace; runs stage 2
//  2. mounts what a node must not share with the machine, makes its network,
//     says so by a byte on fd 4, and then reaps orphans until it is killed

// NodeInitArg is the first argument by which the launcher asks for stage 1.
const NodeInitArg = "node-init"

const (
	nodeInitStage2Arg = "node-init-2"
	nodeNameVariable  = "DPU_E2E_NODE_NAME"
)

// NodeAddress is the node's own address, on a bridge in its namespace: the
// kubelet refuses to call a node by a loopback address.
const NodeAddress = "10.87.0.1"

// RunNodeInit becomes the node's pid 1 if args ask for it, and then does not
// return.
func RunNodeInit(args []string) {
	if len(args) < 2 {
		return
	}
	var err error
	switch args[1] {
	case NodeInitArg:
		err = enterCgroupNamespace(args)
	case nodeInitStage2Arg:
		err = serveAsPid1()
	default:
		return
	}
	fmt.Fprintln(os.Stderr, "node-init:", err)
	os.Exit(1)
}

func enterCgroupNamespace(args []string) error {
	if _, err := io.ReadFull(os.NewFile(3, "go"), make([]byte, 1)); err != nil {
		return fmt.Errorf("waiting for the launcher: %w", err)
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare cgroup namespace: %w", err)
	}
	return unix.Exec("/proc/self/exe", []string{args[0], nodeInitStage2Arg}, os.Environ())
}

func serveAsPid1() error {
	if os.Getpid() != 1 {
		return errors.New("not pid 1 of a pid namespace")
	}
	if err := unix.Sethostname([]byte(os.Getenv(nodeNameVariable))); err != nil {
		return err
	}
	if err := mountNode(); err != nil {
		return err
	}
	if err := makeNodeNetwork(); err != nil {
		return err
	}
	if _, err := os.NewFile(4, "ready").Write([]byte{1}); err != nil {
		return err
	}
	orphans := make(chan os.Signal, 64)
	signal.Notify(orphans, syscall.SIGCHLD)
	for range orphans {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
	return nil
}

// mountNode gives the node a /proc, /sys, cgroups and writable directories of
// its own. Everything it writes to them is in memory and ends with it.
func mountNode() error {
	v2 := isUnifiedCgroup()
	cgroups, err := ownCgroups()
	if err != nil {
		return err
	}
	type mount struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}
	mounts := []mount{
		// Private first: no mount of the node may reach the machine. Then shared
		// anew, among the node's own: the kubelet propagates mounts to pods.
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED, ""},
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""},
		{"tmpfs", "/run", "tmpfs", 0, "mode=755"},
		{"tmpfs", "/var/lib", "tmpfs", 0, "mode=755"},
		{"tmpfs", "/var/log", "tmpfs", 0, "mode=755"},
	}
	if v2 {
		mounts = append(mounts, mount{"cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""})
	} else {
		mounts = append(mounts, mount{"tmpfs", "/sys/fs/cgroup", "tmpfs", 0, "mode=755"})
		for _, c := range cgroups {
			mounts = append(mounts, mount{"cgroup", "/sys/fs/cgroup/" + hierarchyDir(c.controllers), "cgroup", 0, c.controllers})
		}
	}
	for _, m := range mounts {
		if strings.HasPrefix(m.target, "/sys/fs/cgroup/") {
			if err := os.Mkdir(m.target, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s (%s %s): %w", m.target, m.kind, m.data, err)
		}
	}
	if err := mountOwn("/etc", "/opt"); err != nil {
		return err
	}
	if v2 {
		return delegateControllers()
	}
	return nil
}

// mountOwn lets the node read the machine's directories and write its own: what
// an admin installs there is gone with the node. The machine's own CNI
// configuration and programs are none of the node's.
func mountOwn(dirs ...string) error {
	for _, dir := range dirs {
		upper, work := "/run/.node"+dir+"/upper", "/run/.node"+dir+"/work"
		for _, path := range []string{upper, work} {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
		}
		data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
		if err := unix.Mount("overlay", dir, "overlay", 0, data); err != nil {
			return fmt.Errorf("mount %s (overlay %s): %w", dir, data, err)
		}
		if err := os.MkdirAll(dir+"/cni", 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", dir+"/cni", "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount %s/cni: %w", dir, err)
		}
	}
	return nil
}

// delegateControllers makes cgroup v2's controllers available below the node's
// root, which must hold no process for that: pid 1 moves to a leaf.
func delegateControllers() error {
	const root = "/sys/fs/cgroup"
	if err := os.Mkdir(root+"/init", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(root+"/init/cgroup.procs", []byte("1"), 0o644); err != nil {
		return err
	}
	data, err := os.ReadFile(root + "/cgroup.controllers")
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(data)) {
		// A controller that cannot be had here is missed by the kubelet, loudly.
		_ = os.WriteFile(root+"/cgroup.subtree_control", []byte("+"+c), 0o644)
	}
	return nil
}

func makeNodeNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "node0"}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	address, err := netlink.ParseAddr(NodeAddress + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(bridge, address); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return err
	}
	// The kubelet looks for the interface of the default route.
	return netlink.RouteAdd(&netlink.Route{LinkIndex: bridge.Attrs().Index, Scope: netlink.SCOPE_LINK,
		Dst: nil, Src: address.IP})
}

func isUnifiedCgroup() bool {
	var fs unix.Statfs_t
	return unix.Statfs("/sys/fs/cgroup", &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// cgroup is where a process is in one hierarchy. The kernel names the hierarchies of v1 by their controllers: "cpu",
// "net_cls,net_prio", "name=systemd", which the kubelet wants too. That of v2 has no name.
type cgroup struct{ controllers, path string }

// ownCgroups are ours: of v2, or of v1, where that of v2 has no controllers.
func ownCgroups() ([]cgroup, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var all []cgroup
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) == 3 && (fields[1] == "") == isUnifiedCgroup() {
			all = append(all, cgroup{fields[1], fields[2]})
		}
	}
	return all, nil
}

// hierarchyDir is the folder of /sys/fs/cgroup where a hierarchy is mounted.
func hierarchyDir(controllers string) string { return strings.TrimPrefix(controllers, "name=") }

// cgroupSet is one child cgroup for the node below our own in every hierarchy.
type cgroupSet struct{ dirs []string }

// newCgroupSet makes the cgroups; Remove takes them away again.
func newCgroupSet(name string) (*cgroupSet, error) {
	own, err := ownCgroups()
	if err != nil {
		return nil, err
	}
	s := &cgroupSet{}
	for _, c := range own {
		if err := s.add(c, name); err != nil {
			_ = s.Remove()
			return nil, err
		}
	}
	return s, nil
}

func (s *cgroupSet) add(c cgroup, name string) error {
	dir := filepath.Join("/sys/fs/cgroup", hierarchyDir(c.controllers), c.path, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	s.dirs = append(s.dirs, dir)
	if c.controllers != "cpuset" {
		return nil
	}
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} { // an empty cpuset admits no process
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), f))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Enter puts a process into all of them.
func (s *cgroupSet) Enter(pid int) error {
	for _, dir := range s.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Appendf(nil, "%d", pid), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Remove takes the cgroups away, children first; they must be empty of
// processes, which they are soon after the node's pid 1 has died.
func (s *cgroupSet) Remove() error {
	var failed error
	for _, dir := range s.dirs {
		var all []string
		_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, path := range slices.Backward(all) {
			if err := unix.Rmdir(path); err != nil {
				failed = fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return failed
}
