# SPDX-License-Identifier: Apache-2.0
"""Certificates for a server and its clients, and a server that has one."""

import http.server
import os
import ssl
import subprocess
import threading


class Authority:
    """A certificate authority made with openssl."""

    def __init__(self, directory, name="ca"):
        self.directory = directory
        self.name = name
        self._openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
            f" -subj /CN={name} -keyout {name}.key -out {name}.crt"
            " -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign"
        )
        self.file = os.path.join(directory, f"{name}.crt")

    def _openssl(self, words):
        subprocess.run(
            ["openssl", *words.split()], cwd=self.directory, check=True, capture_output=True
        )

    def issue(self, name, subject, names="DNS:kubernetes,IP:127.0.0.1"):
        """(certificate, key) files."""
        with open(os.path.join(self.directory, "san.cnf"), "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
        self._openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
            f" -subj /CN={subject} -keyout {name}.key -out {name}.csr"
        )
        self._openssl(
            f"x509 -req -in {name}.csr -CA {self.name}.crt -CAkey {self.name}.key -CAcreateserial"
            f" -days 2 -extfile san.cnf -out {name}.crt"
        )
        return tuple(os.path.join(self.directory, f"{name}.{ext}") for ext in ("crt", "key"))


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.resumed.append(self.connection.session_reused)
        self.send_response(self.server.code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


class HttpsServer(http.server.ThreadingHTTPServer):
    """Answers GET on the loopback with `code`, and ends the connection."""

    def __init__(self, authority, code):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        self.code = code
        self.resumed = []  # of each connection: whether its TLS session was
        self.use(authority)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def use(self, authority):
        """As restarted with a certificate of this authority: it knows no session of before."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("https", "https"))
        self._context = context  # a whole one: connections come meanwhile

    def get_request(self):
        connection, address = self.socket.accept()
        return self._context.wrap_socket(connection, server_side=True), address

    def close(self):
        self.shutdown()
        self.server_close()
