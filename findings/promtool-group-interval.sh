#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `promtool test rules` of Prometheus 3.5.3 (Debian sid) passes over the `interval` of a group of rules, and evaluates
# every group at the evaluation_interval of the test, while Prometheus evaluates the group at its own. So a test can
# prove that an alert fires which never can: of a rule that is recorded every 4 s, count_over_time(recorded[4s]) is 1
# in Prometheus, and 4 in the test at 1 s; an alert on "> 1" passes its test, and stays silent for good.
# `promtool check rules` finds nothing, either. Whoever gives a group a longer interval, to spare the server, has
# tests that go on to pass: the test's evaluation_interval must be that of the group.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the package cannot be had. Needs root, mmdebstrap and
# a mirror of Debian. Runs Prometheus for half a minute.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

unshare --mount mmdebstrap --mode=root --variant=minbase --dpkgopt=force-unsafe-io \
  --aptopt='Acquire::Check-Valid-Until "false"' --include=prometheus,python3-minimal,libpython3-stdlib sid "$dir/sid" \
  >"$dir/log" 2>&1 || { tail -n 5 "$dir/log"; exit 2; }
cat >"$dir/sid/rules.yaml" <<'YAML'
groups:
  - name: slow
    interval: 4s
    rules:
      - {record: recorded, expr: vector(1)}
      - {alert: TwoRecorded, expr: 'count_over_time(recorded[4s]) > 1'}
      - {alert: OneRecorded, expr: 'count_over_time(recorded[4s]) > 0'}
YAML
cat >"$dir/sid/test.yaml" <<'YAML'
rule_files: [rules.yaml]
evaluation_interval: 1s
tests:
  - interval: 1s
    input_series: []
    alert_rule_test:
      - {alertname: TwoRecorded, eval_time: 20s, exp_alerts: [{}]}
      - {alertname: OneRecorded, eval_time: 20s, exp_alerts: [{}]}
YAML
echo '{global: {evaluation_interval: 1s}, rule_files: [/rules.yaml]}' >"$dir/sid/prometheus.yaml"
cat >"$dir/sid/ask.py" <<'PYTHON'
import http.client, json, socket, subprocess, time, urllib.parse

with socket.socket() as any_port:
    any_port.bind(("127.0.0.1", 0))
    port = any_port.getsockname()[1]

def query(text):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/api/v1/query?" + urllib.parse.urlencode({"query": text}))
    return [(one["metric"].get("alertname", ""), one["value"][1])
            for one in json.load(connection.getresponse())["data"]["result"]]

server = subprocess.Popen(["prometheus", "--config.file=/prometheus.yaml", "--storage.tsdb.path=/data",
                           f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
try:
    for _ in range(60):  # until the rule was recorded five times
        time.sleep(1)
        try:
            recorded = query("count_over_time(recorded[1h])")
        except OSError:
            continue
        if recorded and int(recorded[0][1]) >= 5:
            break
    print("Prometheus, most of 4 s:", query("max_over_time(count_over_time(recorded[4s])[1h:500ms])")[0][1])
    fired = query('last_over_time(ALERTS{alertstate="firing"}[1h])')
    print("Prometheus, alerts:", " ".join(sorted(name for name, _ in fired)))
finally:
    server.terminate()
    server.wait()
PYTHON
chroot "$dir/sid" promtool --version | head -n 1
seen=$(chroot "$dir/sid" promtool test rules /test.yaml 2>&1 | tr -d '\n ' | sed 's/^/promtool test rules: /'
  echo
  chroot "$dir/sid" promtool check rules /rules.yaml 2>&1 | grep -v '^$' | tail -n 1 | sed 's/^ */promtool check rules: /'
  chroot "$dir/sid" python3 /ask.py)
printf '%s\n' "$seen"
[[ $seen == 'promtool test rules: SUCCESS
promtool check rules: SUCCESS: 3 rules found
Prometheus, most of 4 s: 1
Prometheus, alerts: OneRecorded' ]]
