// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"path/filepath"
)

// Addresses is where a node keeps a file for each address that a pod has.
const Addresses = "/run/cni-addresses"

// PodNetwork is the body of a configuration that has the plugin of that name, which is ptp, give a pod an interface.
func PodNetwork(name, addresses string) string {
	return fmt.Sprintf(`"type":%q,"ipam":{"type":"host-local","subnet":"10.88.0.0/24","dataDir":%q}`, name, addresses)
}

// CNI is a node's network configuration: our gate around ptp, or, without a gate, ptp alone.
type CNI struct {
	Parts string
	Gate  string // path of the gate, "" for none
}

// InstallAsOVN makes the node one of ovn-kubernetes as far as files go, without a gate.
func (c CNI) InstallAsOVN(binDir, confDir string) error {
	const name = "ovn-k8s-cni-overlay"
	if err := c.programs(binDir, name); err != nil {
		return err
	}
	conf := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"ovn-kubernetes",%s}`, PodNetwork(name, Addresses))
	return WriteFile(filepath.Join(confDir, "10-ovn-kubernetes.conf"), conf, 0o600)
}

// Install writes the configuration last: a runtime that finds it runs the programs at once.
func (c CNI) Install(binDir, confDir string) error {
	if err := c.programs(binDir, "ptp"); err != nil {
		return err
	}
	plugin := "{" + PodNetwork("ptp", Addresses) + "}"
	if c.Gate != "" {
		if err := copyFile(c.Gate, filepath.Join(binDir, "dpu-gate")); err != nil {
			return err
		}
		plugin = fmt.Sprintf(`{"type":"dpu-gate","delegate":%s}`, plugin)
	}
	list := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"e2e","plugins":[%s]}`, plugin)
	return WriteFile(filepath.Join(confDir, "10-e2e.conflist"), list, 0o644)
}

// programs installs ptp, under that name, and what it runs.
func (c CNI) programs(binDir, name string) error {
	if err := copyFile(filepath.Join(c.Parts, "host-local"), filepath.Join(binDir, "host-local")); err != nil {
		return err
	}
	return copyFile(filepath.Join(c.Parts, "ptp"), filepath.Join(binDir, name))
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return WriteFile(to, string(data), 0o755)
}

// FindOurs finds one of our programs below $DPU_BIN_DIR, a prefix, a build tree or one folder; "" if it is not there.
func FindOurs(name string) string {
	dir := os.Getenv("DPU_BIN_DIR")
	if dir == "" {
		return ""
	}
	rooms := map[string]string{"dpu-agent": "dpu-agent", "dpu-host-agent": "host-agent", "dpu-dra-driver": "dra-driver", "dpu-gate": "cni", "dpuctl": "dpuctl"}
	for _, below := range []string{"", "sbin", "bin", "libexec/cni", rooms[name]} {
		path := filepath.Join(dir, below, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
