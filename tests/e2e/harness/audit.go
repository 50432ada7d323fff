// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// AuditEvent is what the tests need of one line of the API server's audit log.
type AuditEvent struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	URI   string `json:"requestURI"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time       `json:"requestReceivedTimestamp"`
	Request  json.RawMessage `json:"requestObject"`
}

// Audit returns what user asked for in [since, until), in the order in which
// the server answered. A watch counts from the moment at which it was answered,
// every other request once it is done, so that each is here exactly once.
func (c *ControlPlane) Audit(user string, since, until time.Time) ([]AuditEvent, error) {
	f, err := os.Open(c.AuditLog())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var events []AuditEvent
	name := fmt.Appendf(nil, "%q", user)
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return events, nil // what follows the last newline is still being written
		}
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(line, name) {
			continue // the file is that of every test: to parse it whole takes seconds
		}
		var e AuditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		counted := "ResponseComplete"
		if e.Verb == "watch" && e.Response.Code == 200 {
			counted = "ResponseStarted"
		}
		if e.User.Username == user && e.Stage == counted &&
			!e.Received.Before(since) && e.Received.Before(until) {
			events = append(events, e)
		}
	}
}
