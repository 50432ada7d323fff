// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/containernetworking/cni/pkg/types"
)

// Handler is ovnkube's CNI server in mode dpu-host, as far as the check goes: what passes it is answered with
// nothing, and the plugin goes on.
func (s *Side) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Env map[string]string }
		err := json.NewDecoder(r.Body).Decode(&asked)
		if err == nil {
			err = s.gate(asked.Env["CNI_COMMAND"])
		}
		if refusal, is := err.(*types.Error); is {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(refusal)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
}

func (s *Side) gate(verb string) error {
	ready, reason := s.Ready()
	if ready || verb != "ADD" && verb != "STATUS" {
		return nil
	}
	text := "DPU Not Ready"
	if reason != "" {
		text += ": " + reason
	}
	if verb == "STATUS" {
		return &types.Error{Code: types.ErrPluginNotAvailable, Msg: text}
	}
	return fmt.Errorf("%s", text)
}
