// SPDX-License-Identifier: Apache-2.0

// Command veth-cni is the delegate of the gate under test: the smallest CNI
// plugin that really gives a pod a network interface, a veth pair with one
// address, and really takes it away again. It keeps one file per attachment in
// the folder "stateDir" of its configuration, named by the address, so that a
// test can see what is attached, and appends each call to "log" there. With
// "ovnkube" in its configuration, the socket of a CNI server, it asks that
// first, as ovn-kubernetes' plugin does.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type config struct {
	types.NetConf
	StateDir string `json:"stateDir"`
	OVNKube  string `json:"ovnkube"`
}

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: logged("ADD", add), Del: logged("DEL", del), Check: logged("CHECK", check),
		GC: logged("GC", nothing), Status: logged("STATUS", nothing),
	}, version.All, "veth pair with one address, for tests")
}

func load(args *skel.CmdArgs) (*config, error) {
	c := &config{}
	if err := json.Unmarshal(args.StdinData, c); err != nil {
		return nil, err
	}
	if c.StateDir == "" {
		return nil, errors.New("stateDir is not set")
	}
	return c, os.MkdirAll(c.StateDir, 0o755)
}

type verb func(*skel.CmdArgs, *config) error

func logged(name string, run verb) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		c, err := load(args)
		if err != nil {
			return err
		}
		log, err := os.OpenFile(filepath.Join(c.StateDir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		defer log.Close()
		fmt.Fprintf(log, "%s %s %s\n", name, args.ContainerID, args.IfName)
		if c.OVNKube != "" {
			if err := askOVNKube(c.OVNKube, name); err != nil {
				return err
			}
		}
		return run(args, c)
	}
}

func nothing(*skel.CmdArgs, *config) error { return nil }

// add makes the pair in the pod's namespace and gives its other end to ours,
// so that a kill between two steps leaves nothing outside the pod.
func add(args *skel.CmdArgs, c *config) error {
	address, err := takeAddress(c.StateDir, args.ContainerID)
	if err != nil {
		return err
	}
	host, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	ours, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var mac string
	hostName := fmt.Sprintf("v%s", address[strings.LastIndex(address, ".")+1:])
	err = inNamespace(args.Netns, func() error {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: args.IfName}, PeerName: hostName,
			PeerNamespace: netlink.NsFd(ours)}
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("veth pair: %w", err)
		}
		link, err := netlink.LinkByName(args.IfName)
		if err != nil {
			return err
		}
		mac = link.Attrs().HardwareAddr.String()
		ip, err := netlink.ParseAddr(address + "/32")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, ip); err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	})
	if err != nil {
		releaseAddresses(c.StateDir, args.ContainerID)
		return err
	}
	link, err := host.LinkByName(hostName)
	if err != nil {
		return err
	}
	if err := host.LinkSetUp(link); err != nil {
		return err
	}
	first := 0
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion,
		Interfaces: []*current.Interface{{Name: args.IfName, Mac: mac, Sandbox: args.Netns}},
		IPs: []*current.IPConfig{{Interface: &first,
			Address: net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(32, 32)}}},
	}
	return types.PrintResult(result, c.CNIVersion)
}

// del succeeds for what is not there, as the specification wants.
func del(args *skel.CmdArgs, c *config) error {
	releaseAddresses(c.StateDir, args.ContainerID)
	if args.Netns == "" {
		return nil
	}
	err := inNamespace(args.Netns, func() error {
		link, err := netlink.LinkByName(args.IfName)
		if err != nil {
			return nil
		}
		return netlink.LinkDel(link)
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func check(args *skel.CmdArgs, _ *config) error {
	return inNamespace(args.Netns, func() error {
		_, err := netlink.LinkByName(args.IfName)
		return err
	})
}

func inNamespace(path string, run func() error) error {
	fd, err := os.Open(path)
	if err != nil {
		return err
	}
	defer fd.Close()
	own, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setns(int(fd.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	defer func() { _ = unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) }()
	return run()
}

// takeAddress claims an address by creating its file, which only one can.
func takeAddress(dir, container string) (string, error) {
	for i := 2; i < 250; i++ {
		address := fmt.Sprintf("10.88.0.%d", i)
		f, err := os.OpenFile(filepath.Join(dir, address), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.WriteString(container)
		return address, errors.Join(err, f.Close())
	}
	return "", errors.New("no free address")
}

func releaseAddresses(dir, container string) {
	files, _ := filepath.Glob(filepath.Join(dir, "10.88.0.*"))
	for _, file := range files {
		if owner, err := os.ReadFile(file); err == nil && string(owner) == container {
			_ = os.Remove(file)
		}
	}
}
