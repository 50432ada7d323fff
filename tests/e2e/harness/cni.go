// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"path/filepath"
)

// DelegateState is where veth-cni keeps its addresses and its log, in the node.
const DelegateState = "/run/veth-cni"

// InstallAsOVN makes the node one of ovn-kubernetes, as far as files go: its
// plugin's name and its configuration, without a gate.
func (c CNI) InstallAsOVN(binDir, confDir string) error {
	if err := copyFile(filepath.Join(c.Parts, "veth-cni"), filepath.Join(binDir, "ovn-k8s-cni-overlay")); err != nil {
		return err
	}
	conf := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","ipam":{},"dns":{},"stateDir":%q}`, DelegateState)
	return WriteFile(filepath.Join(confDir, "10-ovn-kubernetes.conf"), conf, 0o600)
}

// CNI is a node's network configuration: our gate around veth-cni, or, without
// a gate, veth-cni alone.
type CNI struct {
	Parts string
	Gate  string // path of the gate, "" for none
}

// Install is what NodeOptions.CNI wants: programs first, configuration last,
// because a runtime that finds the configuration runs them at once.
func (c CNI) Install(binDir, confDir string) error {
	if err := copyFile(filepath.Join(c.Parts, "veth-cni"), filepath.Join(binDir, "veth-cni")); err != nil {
		return err
	}
	delegate := fmt.Sprintf(`{"type":"veth-cni","stateDir":%q}`, DelegateState)
	plugin := delegate
	if c.Gate != "" {
		if err := copyFile(c.Gate, filepath.Join(binDir, "dpu-gate")); err != nil {
			return err
		}
		plugin = fmt.Sprintf(`{"type":"dpu-gate","delegate":%s}`, delegate)
	}
	list := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"e2e","plugins":[%s]}`, plugin)
	return WriteFile(filepath.Join(confDir, "10-e2e.conflist"), list, 0o644)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return WriteFile(to, string(data), 0o755)
}

// FindOurs returns the path of one of our programs below $DPU_BIN_DIR, which
// may be an installation's prefix, a build tree or one flat folder; "" if it is
// not there.
func FindOurs(name string) string {
	dir := os.Getenv("DPU_BIN_DIR")
	if dir == "" {
		return ""
	}
	rooms := map[string]string{"dpu-agent": "dpu-agent", "dpu-host-agent": "host-agent", "dpu-gate": "cni", "dpuctl": "dpuctl"}
	for _, below := range []string{"", "sbin", "bin", "libexec/cni", rooms[name]} {
		path := filepath.Join(dir, below, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
