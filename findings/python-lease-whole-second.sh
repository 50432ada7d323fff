#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The Python client kubernetes 37.0.2 cannot write back a Lease that it has just read, if a time in it is a whole
# second: it reads the API server's "2026-01-01T00:00:00.000000Z", and writes "2026-01-01T00:00:00+00:00", which
# k8s.io/api 0.37.2, thus the API server, refuses: a MicroTime must have exactly six digits ("cannot parse "+00:00"
# as ".000000""). All other times of day pass, so tests pass. A program that renews with datetime.now(utc) fails once
# in a million writes: a thousand nodes that renew every ten seconds see that eight times a day. Where the times are
# whole seconds, as acquireTime and renewTime of a Lease written by hand or by a coarse clock, each
# read-modify-write fails, even if it only adds a label, until somebody else renews. Events of events.k8s.io have
# the same in eventTime. A creationTimestamp, which is a Time, is taken in both spellings.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the packages cannot be had. Needs Python with venv, PyPI,
# Go and the Go module proxy.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
cd "$dir"
python3 -m venv venv && venv/bin/pip -q --disable-pip-version-check install kubernetes==37.0.2 >/dev/null 2>&1 || exit 2
cat >go.mod <<'MOD'
module finding

go 1.26.0

require k8s.io/api v0.37.2
MOD
cat >main.go <<'GO'
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	coordination "k8s.io/api/coordination/v1"
	events "k8s.io/api/events/v1"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var kind struct{ Kind string }
		var object any = &coordination.Lease{}
		if err := json.Unmarshal(lines.Bytes(), &kind); err != nil {
			panic(err)
		}
		if kind.Kind == "Event" {
			object = &events.Event{}
		}
		fmt.Printf("%s\n  %v\n", lines.Text(), json.Unmarshal(lines.Bytes(), object))
	}
}
GO
cat >write_back.py <<'PYTHON'
import http.server, json, threading
from kubernetes import client

stored = {}

class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(stored).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        self.do_GET()

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
api = client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{server.server_port}"))
leases, events = client.CoordinationV1Api(api), client.EventsV1Api(api)

for member, time in (("renewTime", "01.123456"), ("renewTime", "01.000001"), ("renewTime", "01.000000"), ("acquireTime", "01.000000")):
    stored = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
              "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {member: f"2026-01-01T00:00:{time}Z"}}
    leases.replace_namespaced_lease("a", "b", leases.read_namespaced_lease("a", "b"))
stored = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "eventTime": "2026-01-01T00:00:01.000000Z"}
events.replace_namespaced_event("a", "b", events.read_namespaced_event("a", "b"))
PYTHON
go mod tidy >/dev/null 2>&1 && go build -o decode . || exit 2
seen=$(venv/bin/python write_back.py | ./decode)
printf '%s\n' "$seen"
outcomes=$(sed -n 'n;p' <<<"$seen")
[[ $(sed -n 1,2p <<<"$outcomes" | grep -c '^  <nil>$') == 2 ]] || exit 1
[[ $(sed -n 3,5p <<<"$outcomes" | grep -c 'cannot parse "+00:00" as ".000000"') == 3 ]] || exit 1
