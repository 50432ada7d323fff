# SPDX-License-Identifier: Apache-2.0
"""The stand-in API server as a process, and its control endpoint."""

import base64
import collections
import json
import os
import time

from . import kubeconfig
from .kube import Kube
from .process import Process

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
        {"name": "dra", "token": "dra-token"},
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
            "users": ["dra"],
            "verbs": ["create", "get", "list", "watch", "update"],
            "resources": ["resourceslices"],
        },
        {"users": ["dra"], "verbs": ["get"], "resources": ["nodes"]},
        {"users": ["dra"], "verbs": ["get"], "resources": ["resourceclaims"]},
        {"users": ["dra"], "verbs": ["update"], "resources": ["resourceclaims/status"]},
        {"users": ["dra"], "verbs": ["create"], "resources": ["events"]},
    ],
}


class Standin:
    """Starts dpu-standin in `directory`; every keyword of `flags` becomes --keyword=value."""

    def __init__(self, binary, directory, nodes=("worker-1",), rules=None, **flags):
        self.directory = str(directory)
        self.rules = rules if rules is not None else RULES
        self.counted_from = 0
        self.audit_path = os.path.join(self.directory, "audit.log")
        command = [binary, f"--audit-log={self.audit_path}"]
        command += [f"--node={node}" for node in nodes]
        command += [f"--{key.replace('_', '-')}={value}" for key, value in flags.items()]
        log = os.path.join(self.directory, "standin.log")
        self.process = Process(command, log, talking=True)
        self.url = self._answer()["url"]
        self.set_rules(self.rules)
        self.admin = Kube(self.url, "admin-token")

    def kubeconfig(self, user, **kw):
        """Writes one for `user` ("dpu", "host", "dra", "admin") and returns its path. By a rename: a
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

    def _answer(self):
        line = self.process.popen.stdout.readline()
        assert line, "stand-in is up: " + self.process.text()
        return json.loads(line)

    def control(self, name, what=None):
        """One of the commands in tests/standin/main.c; its answer."""
        self.process.popen.stdin.write(json.dumps([name, what]) + "\n")
        answer = self._answer()
        assert not isinstance(answer, dict), answer
        return answer

    def fault(self, action, verb=None, user=None, resource="leases", **members):
        """See tests/standin/standin.h for its members."""
        match = {"verb": verb, "user": user, "resource": resource}
        match = {key: value for key, value in match.items() if value}
        self.control("fault", {"action": action, "match": match, **members})

    def hits(self):
        """How many requests each fault has met, in the order in which they were made."""
        return [fault["hits"] for fault in self.control("faults")]

    def clear_faults(self):
        self.control("heal")

    def watches(self, action, **members):
        self.control("watches", {"action": action, **members})

    def refuse(self):
        self.control("listener", False)

    def accept(self):
        self.control("listener", True)

    def drop_connections(self):
        self.control("connections", "drop")

    def freeze_connections(self):
        self.control("connections", "freeze")

    def set_rules(self, rules):
        self.control("rules", rules)

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
        self.process.popen.communicate(timeout=10)  # the end of its input is its own
        return self.process.popen.returncode
