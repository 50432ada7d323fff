#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ovsdb-server 3.1.0 (Debian 12) that is a backup, thus read-only, still answers a transaction that only
# selects, but refuses one that also has the operation "commit" (RFC 7047, section 5.2.7), although there is
# nothing to commit: "commit operation not allowed when database server is in read only mode". On a server
# that takes writes the same transaction passes, and its file does not grow. So a client can ask whether a
# server takes writes without writing.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the packages cannot be had. Needs Debian 12.
set -euo pipefail
dir=$(mktemp -d)
server=
end() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -rf "$dir"
}
trap end EXIT
cd "$dir"
version=3.1.0-2+deb12u1
apt-get download -q "openvswitch-common=$version" "openvswitch-switch=$version" >/dev/null 2>&1 || exit 2
for package in ./*.deb; do dpkg -x "$package" root; done
PATH=$dir/root/usr/bin:$dir/root/usr/sbin:$PATH
export OVS_RUNDIR=$dir
ovsdb-server --version >version 2>/dev/null || exit 2
head -n 1 version
cat >schema <<'JSON'
{"name": "Notes", "version": "1.0.0", "tables": {"Note": {"columns": {"text": {"type": "string"}}}}}
JSON
ovsdb-tool create db schema
ovsdb-server db --remote="punix:$dir/sock" --unixctl="$dir/ctl" -vconsole:off -vsyslog:off &
server=$!
for _ in $(seq 100); do
  ovs-appctl -t "$dir/ctl" version >/dev/null 2>&1 && break
  sleep 0.1
done

select='{"op": "select", "table": "Note", "where": []}'
commit='{"op": "commit", "durable": false}'
ask() { ovsdb-client transact "unix:$dir/sock" "[\"Notes\", $1]"; }

before=$(stat -c %s db)
writable=$(ask "$select, $commit")
grown=$(($(stat -c %s db) - before))
ovs-appctl -t "$dir/ctl" ovsdb-server/set-active-ovsdb-server tcp:127.0.0.1:9
ovs-appctl -t "$dir/ctl" ovsdb-server/connect-active-ovsdb-server
reading=$(ask "$select")
committing=$(ask "$select, $commit")
printf 'writable:             %s, file grown by %d\nread-only, select:    %s\nread-only, commit:    %s\n' \
  "$writable" "$grown" "$reading" "$committing"
[[ $writable == '[{"rows":[]},{}]' && $grown == 0 ]] || exit 1
[[ $reading == '[{"rows":[]}]' ]] || exit 1
[[ $committing == *'commit operation not allowed'* ]] || exit 1
