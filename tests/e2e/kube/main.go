// SPDX-License-Identifier: Apache-2.0

// Command kube is the whole control plane and the kubelet in one program, so
// that the parts they share are compiled and linked once: the name it is
// called by, or else its first argument, says which of them it becomes.
//
//	kube kube-apiserver --etcd-servers=...
//	ln kube kubelet && ./kubelet --config=...
//
// Nothing is changed in the parts: each runs its own Cobra command, with its
// own flags, exactly as in its release.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts maps the name of a part to what runs it; run never returns normally
// with a failure, it exits. Each is a function because building a command
// registers feature gates and metrics of that part, process-wide.
var parts = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { runCommand(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { runCommand(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() { runCommand(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() { runCommand(kubelet.NewKubeletCommand(context.Background())) },
	"kubectl":                 func() { runCommand(kubectl.NewDefaultKubectlCommand()) },
}

func runCommand(c *cobra.Command) { os.Exit(cli.Run(c)) }

func main() {
	if run, ok := parts[filepath.Base(os.Args[0])]; ok {
		run()
		return
	}
	if len(os.Args) > 1 {
		if run, ok := parts[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: kube %s [flags]\n", strings.Join(names, "|"))
	os.Exit(2)
}
