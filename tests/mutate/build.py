# SPDX-License-Identifier: Apache-2.0
"""Compiles one changed file and links it into the tests that contain it, beside the build it takes
the rest from: neither the tree nor the build is touched."""

import hashlib
import json
import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass

# A mutant may ask for more than there is.
SIM_RUNS = 6  # of the corpus: its first are those with the most faults
SLOWEST_S = 5  # a test that takes as long hangs
LIMITS = ["prlimit", f"--as={4 << 30}", f"--fsize={64 << 20}", "--core=0", "--"]


@dataclass
class Test:
    name: str
    runs: list  # the arguments of each
    program: str  # its path
    link: list
    seconds: float = 0.0
    digest: str = ""


def run(command, cwd, timeout_s=None):
    """Its exit status; None if it had to be ended. Whatever it started ends with it."""
    with subprocess.Popen(LIMITS + command, cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as process:
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # nothing is left


def put(place, path, text):
    """Writes a changed file to where it would be in the tree, below `place`."""
    os.makedirs(os.path.join(place, os.path.dirname(path)), exist_ok=True)
    with open(os.path.join(place, path), "w", encoding="utf-8") as file:
        file.write(text)


def _runs_of(arguments):
    """Those of a test, one by one. The simulator's corpus goes on after a failure, and looks for the
    shortest case that fails: here the first line that does is enough."""
    if arguments[:1] != ["check"]:
        return [arguments]
    with open(arguments[1], encoding="utf-8") as file:
        lines = [line.partition("#")[0].split() for line in file]
    return [["replay", *words] for words in lines if words][:SIM_RUNS]


def _symbols(path):
    """The functions that it defines for others."""
    out = subprocess.run(["nm", "-g", "--defined-only", path], capture_output=True, text=True,
                         check=True).stdout
    return {line.split()[2] for line in out.splitlines() if line.split()[1] == "T"}


class Build:
    """A finished build of the `dev` preset with its tests."""

    def __init__(self, root, directory, labels):
        self.root = root
        self.directory = directory
        with open(os.path.join(directory, "compile_commands.json"), encoding="utf-8") as file:
            self._compile = {os.path.relpath(entry["file"], root): shlex.split(entry["command"])
                             for entry in json.load(file)}
        self._sources = {self._object_of(path): path for path in self._compile}
        self.tests = self._find_tests(labels)
        self._defines = {test.name: _symbols(test.program) for test in self.tests}

    def _find_tests(self, labels):
        out = subprocess.run(["ctest", "--show-only=json-v1", "--test-dir", self.directory],
                             capture_output=True, text=True, check=True).stdout
        tests = []
        for row in json.loads(out)["tests"]:
            properties = {p["name"]: p["value"] for p in row.get("properties", [])}
            program = row.get("command", [""])[0]
            if not set(properties.get("LABELS", [])) & set(labels) \
                    or not program.startswith(self.directory):
                continue
            with open(program, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            tests.append(Test(row["name"], _runs_of(row["command"][1:]), program,
                              self._link_of(program), digest=digest))
        return tests

    def _link_of(self, program):
        out = subprocess.run(["ninja", "-C", self.directory, "-t", "commands", "-s",
                              os.path.relpath(program, self.directory)],
                             capture_output=True, text=True, check=True).stdout
        words = shlex.split(out.strip().splitlines()[-1])
        steps = " ".join(shlex.quote(w) if w != "&&" else "&&" for w in words).split(" && ")
        return next(parts for step in steps if "-o" in (parts := shlex.split(step)))

    def _object_of(self, path):
        words = self._compile[path]
        return words[words.index("-o") + 1]

    def tests_of(self, path):
        """Those that contain the file: the one named after it first, then the quick ones."""
        wanted = _symbols(os.path.join(self.directory, self._object_of(path)))
        stem = os.path.splitext(os.path.basename(path))[0]
        own = [t for t in self.tests if wanted and wanted <= self._defines[t.name]]
        return sorted(own, key=lambda t: (not t.name.endswith("." + stem), t.seconds, t.name))

    def measure(self, paths):
        """How long each test of these files takes. Returns those that fail as they are."""
        failing = []
        for test in {test.name: test for path in paths for test in self.tests_of(path)}.values():
            began = time.monotonic()
            if not all(run([test.program, *arguments], self.directory, 120) == 0
                       for arguments in test.runs):
                failing.append(test.name)
            test.seconds = time.monotonic() - began
        return failing

    def compile(self, path, place, out, quick, source=None):
        """True if it could be. Its changed self lies below `place`, where `source`, if it is another
        one, finds it by #include. `quick`: as fast as it goes; otherwise as it is shipped."""
        words = list(self._compile[source or path])
        words = words[1:] if os.path.basename(words[0]) == "ccache" else words
        words[words.index("-o") + 1] = out
        if not source:
            words[words.index("-c") + 1] = os.path.join(place, path)
        words = [w for w in words if w not in ("-g", "-Werror")] + ["-w", "-iquote", place]
        words += ["-iquote", os.path.dirname(os.path.join(self.root, path))]
        if quick:
            words += ["-O1", "-U_FORTIFY_SOURCE"]
        return run(words, self.directory, 120) == 0

    def _including(self, test, path):
        """The source of the test that has the file by #include; None: the file is linked."""
        for source in filter(None, map(self._sources.get, test.link)):
            with open(os.path.join(self.root, source), encoding="utf-8") as file:
                if f'#include "{path}"' in file.read():
                    return source
        return None

    def link(self, test, path, place, changed, out):
        """The changed file stands before the libraries, so that its former self is not taken."""
        former = self._object_of(path)
        words = list(test.link)
        including = self._including(test, path)
        if including:
            former, changed = self._object_of(including), os.path.join(place, "including.o")
            if not self.compile(path, place, changed, True, including):
                return False
        words[words.index("-o") + 1] = out
        if former in words:
            words[words.index(former)] = changed
        else:
            words.insert(words.index("-o") + 2, changed)
        return run(words, self.directory, 120) == 0
