# SPDX-License-Identifier: Apache-2.0
"""A small synchronous Kubernetes client: what the tests do as administrator."""

import base64
import copy
import http.client
import json
import os
import ssl
import tempfile
import time
import urllib.parse
from datetime import datetime, timezone

from . import kubeconfig

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"


class ApiError(Exception):
    """An answer that is not a success; `status` is the meta/v1 Status (or None)."""

    def __init__(self, code, status):
        self.code = code
        self.status = status if isinstance(status, dict) else None
        self.reason = (self.status or {}).get("reason", "")
        self.message = (self.status or {}).get("message", str(status)[:200])
        super().__init__(f"{code} {self.reason}: {self.message}")


def micro_time(seconds=None):
    """A metav1.MicroTime; default: now."""
    when = datetime.fromtimestamp(time.time() if seconds is None else seconds, timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Kube:
    """One API server and identity. A connection per request."""

    def __init__(self, server, token=None, context=None):
        self.url = urllib.parse.urlsplit(server)
        self.token = token
        self.context = context
        self.user_agent = None

    def under(self, user_agent):
        """The same, as a client of that name: the API server notes who wrote which field."""
        other = copy.copy(self)
        other.user_agent = user_agent
        return other

    @classmethod
    def from_kubeconfig(cls, path):
        base = os.path.dirname(os.path.abspath(path))
        cluster, user = kubeconfig.current(kubeconfig.load(path))
        context = None
        if cluster["server"].startswith("https"):
            ca = _file(base, cluster, "certificate-authority")
            context = ssl.create_default_context(cafile=ca)
            if cluster.get("insecure-skip-tls-verify"):
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            cert = _file(base, user, "client-certificate")
            if cert:
                context.load_cert_chain(cert, _file(base, user, "client-key"))
        token = user.get("token")
        if not token and user.get("tokenFile"):
            with open(os.path.join(base, user["tokenFile"]), encoding="utf-8") as file:
                token = file.read().strip()
        return cls(cluster["server"], token, context)

    def connect(self, timeout_s=10):
        where = {"host": self.url.hostname, "port": self.url.port, "timeout": timeout_s}
        if self.url.scheme == "https":
            return http.client.HTTPSConnection(**where, context=self.context)
        return http.client.HTTPConnection(**where)

    def request(self, method, path, body=None, content_type="application/json", timeout_s=10):
        """Returns (code, parsed answer or text)."""
        connection = self.connect(timeout_s)
        headers = {"Accept": "application/json"}
        if self.user_agent:
            headers["User-Agent"] = self.user_agent
        if body is not None:
            headers["Content-Type"] = content_type
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        try:
            connection.request(method, self.url.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def do(self, method, path, body=None, **kw):
        """The parsed answer; ApiError if it is not a success."""
        code, answer = self.request(method, path, body, **kw)
        if code >= 300:
            raise ApiError(code, answer)
        return answer

    def get(self, path):
        return self.do("GET", path)

    def find(self, path):
        """Like get, but None if it does not exist."""
        try:
            return self.do("GET", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def create(self, path, body):
        return self.do("POST", path, body)

    def update(self, path, body):
        return self.do("PUT", path, body)

    def patch(self, path, body):
        return self.do("PATCH", path, body, content_type="application/merge-patch+json")

    def delete(self, path):
        return self.do("DELETE", path)


def _file(base, section, key):
    """A file named by `key` or holding what `key`-data says; None if neither is given."""
    if section.get(key + "-data"):
        fd, name = tempfile.mkstemp(prefix="dpu-testing-")
        with os.fdopen(fd, "wb") as file:
            file.write(base64.b64decode(section[key + "-data"]))
        return name
    return os.path.join(base, section[key]) if section.get(key) else None
