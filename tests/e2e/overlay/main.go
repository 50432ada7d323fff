// SPDX-License-Identifier: Apache-2.0

// Command ovn-k8s-cni-overlay is ovn-kubernetes' plugin as far as the check goes: for ADD, DEL and STATUS it asks
// ovnkube's CNI server at the socket that its configuration names, and waits for that without a limit. It makes no
// interface.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: ask("DEL"), Status: ask("STATUS")}, version.All, "asks ovnkube, for tests")
}

func add(args *skel.CmdArgs) error {
	if err := ask("ADD")(args); err != nil {
		return err
	}
	return types.PrintResult(&current.Result{}, current.ImplementedSpecVersion)
}

func ask(verb string) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		var config struct{ OVNKube string }
		if err := json.Unmarshal(args.StdinData, &config); err != nil {
			return err
		}
		client := &http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", config.OVNKube) }}}
		text, err := json.Marshal(map[string]any{"Env": map[string]string{"CNI_COMMAND": verb}})
		if err != nil {
			return err
		}
		answer, err := client.Post("http://dummy/", "application/json", bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("failed to send CNI request: %w", err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return fmt.Errorf("failed to read CNI result: %w", err)
		}
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		var refusal types.Error
		if json.Unmarshal(body, &refusal) == nil && refusal.Code != 0 {
			return &refusal
		}
		return fmt.Errorf("CNI request failed with status %d: '%s'", answer.StatusCode, body)
	}
}
