# SPDX-License-Identifier: Apache-2.0
"""Certificates for a server and its clients."""

import os
import subprocess


class Authority:
    """A certificate authority made with openssl."""

    def __init__(self, directory, name="ca"):
        self.directory = directory
        self.name = name
        self._openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
            f" -subj /CN={name} -keyout {name}.key -out {name}.crt"
            " -addext basicConstraints=critical,CA:TRUE"
        )
        self.file = os.path.join(directory, f"{name}.crt")

    def _openssl(self, words):
        subprocess.run(
            ["openssl", *words.split()], cwd=self.directory, check=True, capture_output=True
        )

    def issue(self, name, subject, names="DNS:kubernetes,IP:127.0.0.1"):
        """(certificate, key) files."""
        with open(os.path.join(self.directory, "san.cnf"), "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\n")
        self._openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
            f" -subj /CN={subject} -keyout {name}.key -out {name}.csr"
        )
        self._openssl(
            f"x509 -req -in {name}.csr -CA {self.name}.crt -CAkey {self.name}.key -CAcreateserial"
            f" -days 2 -extfile san.cnf -out {name}.crt"
        )
        return tuple(os.path.join(self.directory, f"{name}.{ext}") for ext in ("crt", "key"))
