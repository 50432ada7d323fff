// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/containernetworking/cni/pkg/types"
)

// askOVNKube is what ovnkube's plugin does with ADD, DEL and STATUS: it asks the server at the socket, and waits for it
// without a limit. CHECK and GC it answers itself.
func askOVNKube(socket, verb string) error {
	if verb == "CHECK" || verb == "GC" {
		return nil
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}
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
