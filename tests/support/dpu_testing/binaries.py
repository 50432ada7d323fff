# SPDX-License-Identifier: Apache-2.0
"""Finds the programs under test by name below a build directory."""

import os
import pathlib

ROOT = str(pathlib.Path(__file__).resolve().parents[3])


class Binaries:
    """binaries.path("dpu-agent") is an executable below `directory`."""

    def __init__(self, directory=None):
        self.directory = directory or os.environ.get("DPU_BIN_DIR") or f"{ROOT}/build/dev"
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
        for path in pathlib.Path(self.directory).rglob(name):
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
        raise FileNotFoundError(f"no program '{name}' below '{self.directory}': build it, or set DPU_BIN_DIR")
