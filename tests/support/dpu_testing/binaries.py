# SPDX-License-Identifier: Apache-2.0
"""Finds the programs under test by name below a build directory."""

import os

ROOT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
)


class Binaries:
    """binaries.path("dpu-agent") is an executable below `directory`."""

    def __init__(self, directory=None):
        self.directory = directory or os.environ.get("DPU_BIN_DIR") or os.path.join(
            ROOT, "build", "dev"
        )
        self._found = {}

    def path(self, name):
        if name not in self._found:
            self._found[name] = self._search(name)
        return self._found[name]

    def has(self, name):
        try:
            return bool(self.path(name))
        except FileNotFoundError:
            return False

    def _search(self, name):
        for folder, folders, files in os.walk(self.directory):
            folders[:] = [f for f in folders if f not in ("CMakeFiles", ".git")]
            candidate = os.path.join(folder, name)
            if name in files and os.access(candidate, os.X_OK):
                return candidate
        raise FileNotFoundError(
            f"no program '{name}' below '{self.directory}': build it "
            "(cmake --preset dev && cmake --build --preset dev) or set DPU_BIN_DIR"
        )
