// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroup is where a process is in one hierarchy. The kernel names the hierarchies of v1 by their controllers: "cpu",
// "net_cls,net_prio", "name=systemd", which the kubelet wants too. That of v2 has no name.
type cgroup struct{ controllers, path string }

// ownCgroups are ours: of v2, or of v1, where that of v2 has no controllers.
func ownCgroups() ([]cgroup, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	isUnified := unix.Statfs("/sys/fs/cgroup", &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
	var all []cgroup
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) == 3 && (fields[1] == "") == isUnified {
			all = append(all, cgroup{fields[1], fields[2]})
		}
	}
	return all, nil
}

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
	dir := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(c.controllers, "name="), c.path, name)
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

// Remove takes the cgroups away, children first. They are empty soon after the node's pid 1 has died.
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
