# SPDX-License-Identifier: Apache-2.0
"""Reads and writes kubeconfigs."""

import json

import yaml


def dump(server, token=None, ca_file=None, **user_extra):
    """The text of a kubeconfig (JSON is YAML). None members are left out."""
    cluster = {"server": server}
    if ca_file:
        cluster["certificate-authority"] = str(ca_file)
    user = {k.replace("_", "-"): v for k, v in user_extra.items() if v is not None}
    if token:
        user["token"] = token
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        },
        indent=1,
    )


def load(path):
    """The tree of a kubeconfig."""
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)


def current(tree):
    """(cluster, user) of the current context."""

    def by_name(section, name, key):
        for entry in tree.get(section) or []:
            if entry["name"] == name:
                return entry[key] or {}
        raise ValueError(f"kubeconfig has no {key} named {name!r}")

    context = by_name("contexts", tree["current-context"], "context")
    return (
        by_name("clusters", context["cluster"], "cluster"),
        by_name("users", context["user"], "user"),
    )
