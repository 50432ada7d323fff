#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# CURLOPT_MAXAGE_CONN counts the whole seconds of idling up to libcurl 8.14, and milliseconds from 8.15 on: with
# 2, a connection that was idle for 2.5 s is used again by Debian 13's 8.14.1, and left by sid's 8.23.0 (and by
# 8.20 to 8.22; of 8.15 to 8.19 the source says so). A program that asks every 2 s and gives 2 there opens a new
# connection for each request with these.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the packages cannot be had. Needs root, mmdebstrap and
# a mirror of Debian.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/idle.py" <<'PYTHON'
import ctypes, http.server, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words):
        pass

URL, MAXAGE_CONN, NUM_CONNECTS = 10002, 288, 0x20001A
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
curl = ctypes.CDLL("libcurl.so.4")
for name, result in (("curl_version", ctypes.c_char_p), ("curl_easy_init", ctypes.c_void_p)):
    getattr(curl, name).restype = result
easy = ctypes.c_void_p(curl.curl_easy_init())
curl.curl_easy_setopt(easy, URL, f"http://127.0.0.1:{server.server_port}/".encode())
curl.curl_easy_setopt(easy, MAXAGE_CONN, ctypes.c_long(2))
opened = ctypes.c_long()
seen = []
for idle_s in (0, 1.5, 2.5, 3.5):
    time.sleep(idle_s)
    assert curl.curl_easy_perform(easy) == 0
    curl.curl_easy_getinfo(easy, NUM_CONNECTS, ctypes.byref(opened))
    seen.append("new" if opened.value else "used again")
print(curl.curl_version().decode().split()[0], "after 1.5, 2.5, 3.5 s:", ", ".join(seen[1:]))
PYTHON

ask() { # ask SUITE
  unshare --mount mmdebstrap --mode=root --variant=minbase --dpkgopt=force-unsafe-io \
    --aptopt='Acquire::Check-Valid-Until "false"' --include=libcurl4t64,python3-minimal,libpython3-stdlib \
    "$1" "$dir/$1" >"$dir/log" 2>&1 || { tail -n 5 "$dir/log"; exit 2; }
  cp "$dir/idle.py" "$dir/$1/"
  chroot "$dir/$1" python3 /idle.py
}

older=$(ask trixie) || exit 2
newer=$(ask sid) || exit 2
printf '%s\n%s\n' "$older" "$newer"
[[ $older == *": used again, used again, new" && $newer == *": used again, new, new" ]]
