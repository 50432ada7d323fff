#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A program that has CURLOPT_CAINFO name a file, and asks again with the same handle once that file was replaced,
# is checked against the new authorities by Debian 13's libcurl 8.14.1 (and by 8.21.0 and 8.22.0), but against the old
# ones by sid's 8.23.0, on a new connection too: there the server with the new certificate fails with CURLE 60, and
# the one with the old still passes, for the 24 h that CURLOPT_CA_CACHE_TIMEOUT says by default. That option is there
# since 7.87, but no store is kept by the older ones while CURLOPT_CAPATH names something, and Debian's builds have
# it name /etc/ssl/certs. With CURLOPT_CAPATH NULL, as whoever trusts that file alone sets it, 8.14.1 keeps the old,
# too. Neither looks at the file again before the time is over.
# So a program that runs for weeks, and whose authority is renewed, reports its server as wrong for up to a day with
# 8.23. CURLOPT_CA_CACHE_TIMEOUT 0 has the file read each time.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the packages cannot be had. Needs root, mmdebstrap and
# a mirror of Debian.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/ca.py" <<'PYTHON'
import ctypes, http.server, os, shutil, ssl, subprocess, threading

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words):
        pass

class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *words):
        pass  # a client that does not trust it leaves

def serve(name):
    """An HTTPS server with a certificate that is its own authority; returns its port."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc",
                    "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", f"{name}.key", "-out", f"{name}.crt"], check=True, capture_output=True)
    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{name}.crt", f"{name}.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port

URL, CAINFO, FRESH_CONNECT, CAPATH, CA_CACHE_TIMEOUT, SESSIONID_CACHE = 10002, 10065, 74, 10097, 321, 150
UNSET = object()
old, new = serve("old"), serve("new")
curl = ctypes.CDLL("libcurl.so.4")
for name, result in (("curl_version", ctypes.c_char_p), ("curl_easy_init", ctypes.c_void_p)):
    getattr(curl, name).restype = result
print(curl.curl_version().decode().split()[0])
for words, path, timeout in (("CAPATH as built", UNSET, None), ("CAPATH /dev/null", b"/dev/null", None),
                             ("CAPATH NULL", None, None), ("CA_CACHE_TIMEOUT 0", UNSET, 0)):
    easy = ctypes.c_void_p(curl.curl_easy_init())
    curl.curl_easy_setopt(easy, CAINFO, b"ca.pem")
    curl.curl_easy_setopt(easy, FRESH_CONNECT, ctypes.c_long(1))
    curl.curl_easy_setopt(easy, SESSIONID_CACHE, ctypes.c_long(0))  # a resumed session shows no certificate
    if path is not UNSET:
        curl.curl_easy_setopt(easy, CAPATH, ctypes.c_char_p(path))
    if timeout is not None:
        curl.curl_easy_setopt(easy, CA_CACHE_TIMEOUT, ctypes.c_long(timeout))
    codes = []
    for authority, port in (("old", old), ("new", new), ("new", old)):
        shutil.copy(f"{authority}.crt", "ca.next")
        os.replace("ca.next", "ca.pem")
        curl.curl_easy_setopt(easy, URL, f"https://127.0.0.1:{port}/".encode())
        codes.append(curl.curl_easy_perform(easy))
    assert codes[0] == 0
    print(f"  {words}: with the new file, the new server {codes[1]}, the old one {codes[2]}")
PYTHON

ask() { # ask SUITE
  unshare --mount mmdebstrap --mode=root --variant=minbase --dpkgopt=force-unsafe-io \
    --aptopt='Acquire::Check-Valid-Until "false"' --include=libcurl4t64,python3-minimal,libpython3-stdlib,openssl \
    "$1" "$dir/$1" >"$dir/log" 2>&1 || { tail -n 5 "$dir/log"; exit 2; }
  cp "$dir/ca.py" "$dir/$1/"
  chroot "$dir/$1" python3 /ca.py
}

older=$(ask trixie) || exit 2
newer=$(ask sid) || exit 2
printf '%s\n%s\n' "$older" "$newer"
read_again='with the new file, the new server 0, the old one 60'
kept='with the new file, the new server 60, the old one 0'
[[ $(tail -n +2 <<<"$older") == "  CAPATH as built: $read_again
  CAPATH /dev/null: $read_again
  CAPATH NULL: $kept
  CA_CACHE_TIMEOUT 0: $read_again" ]] || exit 1
[[ $(tail -n +2 <<<"$newer") == "  CAPATH as built: $kept
  CAPATH /dev/null: $kept
  CAPATH NULL: $kept
  CA_CACHE_TIMEOUT 0: $read_again" ]] || exit 1
