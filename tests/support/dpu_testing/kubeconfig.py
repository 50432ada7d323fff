# SPDX-License-Identifier: Apache-2.0
"""Reads and writes kubeconfigs without a YAML library: JSON, or the block style that kubectl,
kind and our own tools write (maps, lists of maps, plain and quoted scalars)."""

import json


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
        text = file.read()
    if text.lstrip().startswith("{"):
        return json.loads(text)
    lines = []
    for raw in text.splitlines():
        stripped = raw.lstrip(" ")
        if stripped and not stripped.startswith("#") and stripped != "---":
            lines.append((len(raw) - len(stripped), stripped))
    tree, rest = _parse_block(lines, 0)
    if rest:
        raise ValueError(f"{path}: cannot read the line {rest[0][1]!r}")
    return tree


def _scalar(text):
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return json.loads(text) if text[0] == '"' else text[1:-1].replace("''", "'")
    return {"true": True, "false": False, "null": None, "{}": {}, "[]": [], "": None}.get(
        text, text
    )


def _parse_block(lines, indent):
    if lines and lines[0][1].startswith("- "):
        return _parse_list(lines, lines[0][0])
    return _parse_map(lines, indent)


def _parse_list(lines, indent):
    items = []
    while lines and lines[0][0] == indent and lines[0][1].startswith("- "):
        lines = [(indent + 2, lines[0][1][2:])] + lines[1:]
        item, lines = _parse_map(lines, indent + 2)
        items.append(item)
    return items, lines


def _parse_map(lines, indent):
    tree = {}
    while lines and lines[0][0] == indent and not lines[0][1].startswith("- "):
        key, colon, value = lines[0][1].partition(":")
        if not colon:
            return _scalar(key), lines[1:]
        lines = lines[1:]
        nested = lines and (
            lines[0][0] > indent or (lines[0][0] == indent and lines[0][1].startswith("- "))
        )
        if value.strip() == "" and nested:
            tree[_scalar(key)], lines = _parse_block(lines, lines[0][0])
        else:
            tree[_scalar(key)] = _scalar(value)
    return tree, lines


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
