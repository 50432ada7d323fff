# SPDX-License-Identifier: Apache-2.0
"""The API server that a test talks to: the stand-in or a real one, behind one face."""

import copy
import os
import secrets
import ssl

from dpu_testing.kube import LEASES, ApiError, Kube
from dpu_testing.standin import NAMESPACE, Standin

NODES = "/api/v1/nodes"
HOLDER = "ovnkube-dpu-node"


class Target:
    """Common to both: `admin` is a Kube with all rights, `namespace` and `node` exist."""

    standin = None
    knows_taints = True  # of DRA devices

    def lease_name(self):
        return f"ovn-dpu-{self.node}"

    def leases_path(self):
        return LEASES.format(ns=self.namespace)

    def lease_path(self):
        return f"{self.leases_path()}/{self.lease_name()}"

    def lease(self):
        return self.admin.find(self.lease_path())

    def node_uid(self):
        return self.admin.get(f"{NODES}/{self.node}")["metadata"]["uid"]

    def create_node(self):
        return self.admin.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}}
        )

    def put_lease(self, change, tries=20):
        """Reads the lease, lets `change` edit it, writes it; again after a conflict."""
        for _ in range(tries):
            lease = self.admin.get(self.lease_path())
            change(lease)
            try:
                return self.admin.update(self.lease_path(), lease)
            except ApiError as error:
                if error.code != 409:
                    raise
        raise AssertionError("the lease is written all the time")

    def new_lease(self, owners=(), node=None, annotations=(), **spec):
        """Creates the lease as somebody else would: of two seconds, for the holder that is expected."""
        name = f"ovn-dpu-{node}" if node else self.lease_name()
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        body["metadata"] = {"name": name, "ownerReferences": list(owners), "annotations": dict(annotations)}
        body["spec"] = {"holderIdentity": HOLDER, "leaseDurationSeconds": 2, **spec}
        return self.admin.create(self.leases_path(), body)


class StandinTarget(Target):
    """One stand-in of our own. Keywords become flags of dpu-standin."""

    def __init__(self, binaries, directory, rules=None, **flags):
        self.node = "worker-1"
        self.namespace = NAMESPACE
        self.standin = Standin(
            binaries.path("dpu-standin"), directory, nodes=[self.node], rules=rules, **flags
        )
        self.admin = self.standin.admin

    def kubeconfig(self, user):
        return self.standin.kubeconfig(user)

    def without_right(self, user, verbs, resource="leases"):
        """Takes verbs away from a user; returns a function that gives them back."""
        before = self.standin.rules
        rules = copy.deepcopy(before)
        for rule in rules["rules"]:
            if rule["users"] == [user] and resource in rule.get("resources", [resource]):
                rule["verbs"] = [verb for verb in rule["verbs"] if verb not in verbs]
        self.standin.set_rules(rules)
        return lambda: self.standin.set_rules(before)

    def evidence(self):
        audit = "\n".join(
            f"{e['time'][11:26]} conn {e['conn']} {e['user']} {e['verb']} {e['code']} {e['fault']}"
            for e in self.standin.audit()[-40:]
        )
        return [("stand-in audit", audit), ("stand-in log", self.standin.process.tail())]

    def cleanup(self):
        status = self.standin.cleanup()
        assert status == 0, f"the stand-in ended with {status}: {self.standin.process.tail(40)}"


class TlsTarget(StandinTarget):
    """One that speaks TLS, with a certificate of this authority."""

    def __init__(self, binaries, directory, authority, **flags):
        cert, key = authority.issue("server", "kube-apiserver")
        super().__init__(binaries, directory, tls_cert=cert, tls_key=key, **flags)
        trust = ssl.create_default_context(cafile=authority.file)
        trust.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python does from 3.13 on
        self.admin = Kube(self.standin.url, "admin-token", trust)


class RealTarget(Target):
    """A cluster. The namespace is ours and goes away with us, and so is the Node, unless there is one."""

    def __init__(self, path, node=None):
        self.path = os.path.abspath(path)
        self.namespace = f"dpu-test-{secrets.token_hex(4)}"
        self.node = node or self.namespace
        self.admin = Kube.from_kubeconfig(self.path)
        self.knows_taints = int(self.admin.get("/version")["minor"].rstrip("+")) >= 36
        self.ours = [f"/api/v1/namespaces/{self.namespace}"]
        if node:
            self.node_uid()  # or it is missing
        else:
            self.create_node()
            self.ours.append(f"{NODES}/{self.node}")
        self.admin.create(
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
        )

    def kubeconfig(self, user):
        return self.path

    def evidence(self):
        return []

    def cleanup(self):
        for path in self.ours:
            try:
                self.admin.delete(path)
            except ApiError as error:
                if error.code != 404:
                    raise
