# SPDX-License-Identifier: Apache-2.0
"""The stand-in API server as a process, and its control endpoint."""

import base64
import collections
import json
import os
import time
import urllib.error
import urllib.request

from . import kubeconfig
from .kube import Kube
from .process import Process
from .wait import until

NAMESPACE = "ovn-kubernetes"


def dated_token(user, age_s=3600, left_s=365 * 24 * 3600):
    """A token of the form that a service account has; nobody checks its signature."""
    now = int(time.time())
    claims = {"iat": now - age_s, "exp": now + left_s, "sub": user}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)] + [b"signature"]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


# The least that each program needs (rbac/), and an administrator for the test itself.
RULES = {
    "users": [
        {"name": "admin", "token": "admin-token"},
        {"name": "dpu", "token": "dpu-token"},
        {"name": "host", "token": "host-token"},
    ],
    "rules": [
        {"users": ["admin"], "verbs": ["*"]},
        {"users": ["dpu"], "verbs": ["get", "update"], "resources": ["leases"]},
        {
            "users": ["host"],
            "verbs": ["create", "get", "list", "watch", "update", "patch"],
            "resources": ["leases"],
        },
        {"users": ["host"], "verbs": ["get"], "resources": ["nodes"]},
        {"users": ["host"], "verbs": ["list"], "resources": ["pods"]},
        {"users": ["host"], "verbs": ["create"], "resources": ["events"]},
        {"users": ["host"], "verbs": ["patch"], "resources": ["nodes/status"]},
        {
            "users": ["host"],
            "verbs": ["create", "get", "list", "watch", "update", "patch", "delete"],
            "resources": ["resourceslices"],
        },
        {"users": ["host"], "verbs": ["create", "get", "update"], "resources": ["devicetaintrules"]},
        {"users": ["host"], "verbs": ["get"], "resources": ["resourceclaims"]},
        {"users": ["host"], "verbs": ["update"], "resources": ["resourceclaims/status"]},
    ],
}


class Standin:
    """Starts dpu-standin in `directory`; every keyword of `flags` becomes --keyword=value."""

    def __init__(self, binary, directory, nodes=("worker-1",), rules=None, **flags):
        self.directory = str(directory)
        self.rules = rules if rules is not None else RULES
        self.counted_from = 0
        self.audit_path = os.path.join(self.directory, "audit.log")
        rules_path = os.path.join(self.directory, "rules.json")
        with open(rules_path, "w", encoding="utf-8") as file:
            json.dump(self.rules, file)
        command = [binary, f"--rules={rules_path}", f"--audit-log={self.audit_path}"]
        command += [f"--node={node}" for node in nodes]
        command += [f"--{key.replace('_', '-')}={value}" for key, value in flags.items()]
        self.process = Process(command, os.path.join(self.directory, "standin.log"))
        ready = json.loads(
            until(
                lambda: [line for line in self.process.text().splitlines() if line[:1] == "{"],
                10,
                lambda: "stand-in is up: " + self.process.text(),
            )[0]
        )
        self.url = ready["url"]
        self.control_url = ready["controlUrl"]
        self.admin = Kube(self.url, "admin-token")

    def kubeconfig(self, user, **kw):
        """Writes one for `user` ("dpu", "host", "admin") and returns its path. By a rename: a
        program started before may be reading it."""
        path = os.path.join(self.directory, f"{user}.kubeconfig")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(kubeconfig.dump(self.url, token=f"{user}-token", **kw))
        os.replace(path + ".new", path)
        return path

    def dated_kubeconfig(self, user, known=True, **times):
        """Its token says when it ends. The server knows it, or not."""
        token = dated_token(user, **times)
        if known:
            users = [*self.rules["users"], {"name": user, "token": token}]
            self.rules = {**self.rules, "users": users}
            self.set_rules(self.rules)
        path = os.path.join(self.directory, f"{user}-dated.kubeconfig")
        with open(path, "w", encoding="utf-8") as file:
            file.write(kubeconfig.dump(self.url, token))
        return path

    def control(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.control_url + path, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"control {method} {path}: {error.read().decode()}") from None

    # Faults. See tests/standin/standin.h and main.c for their members.

    def fault(self, action, verb=None, user=None, resource="leases", **members):
        match = {"verb": verb, "user": user, "resource": resource}
        rule = {"action": action, "match": {k: v for k, v in match.items() if v}, **members}
        return self.control("POST", "/faults", rule)["id"]

    def hits(self):
        """How many requests each fault has met, in the order in which they were made."""
        return [fault["hits"] for fault in self.control("GET", "/faults")["faults"]]

    def clear_faults(self):
        self.control("DELETE", "/faults")

    def watches(self, action, **members):
        self.control("POST", "/watches", {"action": action, **members})

    def refuse(self):
        self.control("POST", "/listener", {"open": False})

    def accept(self):
        self.control("POST", "/listener", {"open": True})

    def drop_connections(self):
        self.control("POST", "/connections", {"action": "drop"})

    def freeze_connections(self):
        self.control("POST", "/connections", {"action": "freeze"})

    def set_rules(self, rules):
        self.control("POST", "/rules", rules)

    def count_anew(self):
        self.counted_from = len(self.audit())

    def requests(self):
        """{"user verb resource code": number} since count_anew."""
        lines = self.audit()[self.counted_from :]
        return collections.Counter("{user} {verb} {resource} {code}".format(**x) for x in lines)

    def audit(self, **wanted):
        """Audit lines as dicts whose members equal the keywords."""
        entries = []
        with open(self.audit_path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    entry = json.loads(line)
                    if all(entry.get(key) == value for key, value in wanted.items()):
                        entries.append(entry)
        return entries

    def cleanup(self):
        return self.process.cleanup()
