# SPDX-License-Identifier: Apache-2.0
"""dpu-gate against a plugin of the CNI project itself: same environment and stdin, same answer.

The oracle is Debian's containernetworking-plugins, built on the CNI library's plugin skeleton.
Compared are exit status, code, message and the beginning of the details; where a message ends in
words of Go's own libraries, what comes before them. The cases stop at the skeleton's checks: what
a plugin does after them is its own business. Debian's skeleton is of CNI 1.0.0, hence no STATUS
and GC here.
"""

import itertools
import json
import os
import re
from random import Random

import pytest
from gate_support import Bench, call

pytestmark = pytest.mark.standin_only  # no API server here: nothing to learn from a real one

ORACLE = "/usr/lib/cni/loopback"  # all of them are built on one skeleton
VERBS = ["ADD", "DEL", "CHECK"]
# What follows these comes from Go's JSON decoder, its number parser or the operating system.
FOREIGN_WORDS_FOLLOW = (
    "error unmarshall network config: ",
    "error reading from stdin: ",
    "decoding version from network config: ",
    "failed to convert major version part",
    "failed to convert minor version part",
    "failed to convert micro version part",
)
CONF = b'{"cniVersion":"1.0.0","name":"n","type":"x"}'
FULL = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "some-container-id",
    "CNI_NETNS": "/some/netns/path",
    "CNI_IFNAME": "eth0",
    "CNI_ARGS": "some;extra;args",
    "CNI_PATH": "/some/cni/path",
}


def message(reply):
    for prefix in FOREIGN_WORDS_FOLLOW:
        if reply.msg.startswith(prefix):
            return prefix
    return reply.msg


def details(reply):
    """Each has a list of versions of its own; control characters are blanks in our answers, and
    NUL is what no character is."""
    return re.sub(r"[\x00-\x1f\ufffd]|\\x00", " ", reply.details).split("plugin supports")[0]


def compare(binaries, env, stdin=CONF):
    """`stdin`: bytes, or how it is passed."""
    how = stdin if isinstance(stdin, dict) else {"input": stdin}
    if not os.access(ORACLE, os.X_OK):
        pytest.skip(f"no {ORACLE}: install containernetworking-plugins")
    theirs = call(ORACLE, env, **how)
    ours = call(binaries.path("dpu-gate"), env, **how)
    assert ours.status == theirs.status, (ours, theirs)
    assert ours.code == theirs.code, (ours, theirs)
    assert message(ours) == message(theirs)
    assert details(ours) == details(theirs)
    if theirs.status == 0:
        assert bool(ours.stdout) == bool(theirs.stdout), (ours, theirs)
    return ours, theirs


NAMES = ["CONTAINERID", "NETNS", "IFNAME", "PATH"]
SUBSETS = [s for n in range(1, 5) for s in itertools.combinations(NAMES, n)]


@pytest.mark.parametrize("verb", VERBS)
def test_missing_variables(binaries, verb):
    for subset in SUBSETS:
        if verb == "DEL" and subset == ("NETNS",):
            continue  # allowed: the call goes on into the plugin
        for value in (None, ""):
            env = {**FULL, "CNI_COMMAND": verb, **{f"CNI_{name}": value for name in subset}}
            ours, _ = compare(binaries, env)
            assert ours.code == 4


MALFORMED = {
    "CONTAINERID": ["some-%%container-id", "-a", "_", "a b", "a\n", "\u00e4"],
    "IFNAME": [
        "0123456789abcdef", 8 * "\u00e4", ".", "..", "test/test", "test:test", "test test", "test\ttest",
        *(f"test{blank}" for blank in "\u0085\u00a0\u1680\u2000\u200a\u2028\u202f\u205f\u3000"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_malformed_variables(binaries, verb):
    for name, values in MALFORMED.items():
        for value in values:
            ours, _ = compare(binaries, {**FULL, "CNI_COMMAND": verb, f"CNI_{name}": value})
            assert ours.code == 4, (name, value)


def test_unknown_verbs_and_none(binaries):
    for verb in ("NOPE", "add", "Add", " ADD", "ADD ", "UPDATE"):
        env = {**FULL, "CNI_COMMAND": verb}
        assert compare(binaries, env)[0].code == 4
        assert compare(binaries, env, b"{")[0].code == 6
    for command in (None, ""):
        for reply in compare(binaries, {**FULL, "CNI_COMMAND": command}):
            assert (reply.status, reply.stdout) == (0, "")
            assert "CNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0" in reply.stderr


CONFIGURATIONS = [
    b"", b" ", b"{", b'{"name":"n"', b'{"name":"n"}}', b'{"name":"n",}', b"{'name':'n'}",
    b"[]", b"[{}]", b"7", b'"n"', b"true", b"null", b"{}",
    *(b'{"name":' + name + b"}" for name in (
        b"null", b'""', b"7", b'["n"]', b'"te%%st"', b'"-n"', b'"a b"', b'"a/b"', b'"n\\n"')),
    *(b'{"name":"n","cniVersion":' + version + b"}" for version in (
        b"7", b"true", b'["1.0.0"]', b'"9.9.9"', b'"adsfsadf"', b'"1.0"', b'"1.0.0 "', b'"v1.0.0"',
        b'"0.3"', b'"0"', b'"1.1.1"', b'"1.x"', b'"1.0.x"', b'"1..0"', b'"1.0.0.0"', b'"1.2.3.4"', b'"."',
        b'"1.0.0-rc1"', b'"99999999999999999999"')),
]  # fmt: skip


# Before CHECK was there.
TOO_OLD = [b'{"name":"n","cniVersion":"%s"}' % version for version in (b"", b"0.1.0", b"0.3.1")]


@pytest.mark.parametrize("verb", VERBS)
def test_configurations(binaries, verb):
    for conf in [*CONFIGURATIONS, *(TOO_OLD if verb == "CHECK" else [])]:
        ours, _ = compare(binaries, {**FULL, "CNI_COMMAND": verb}, conf)
        assert ours.code in (1, 6, 7), conf


# Go's reader: what it takes, which of several names counts, and what it makes of a text. The
# version that nobody speaks shows that all before it was accepted.
READINGS = [
    b'"x":"\\u0000"', b'"x\\u0000":1', b'"x":"\\ud800\\udc00"', b'"x":"\\udc00\\ud800"',
    b'"x":"\xff\xc0\x80\xed\xa0\x80"', b'"\xff":1', b'"x":"\x7f"', b'"x":"\x1f"',
    b'"x":12345678901234567890123', b'"x":-0.0e-0', b'"x":1e999', b'"x":01', b'"x":+1', b'"x":.5',
    b'"x":1.', b'"x":-', b'"x":NaN', b'"x":"\\x41"', b'"x":"\\u00g0"', b'"x":\xef\xbb\xbf1',
    b'"x":1\x0b', b'"x":1\x00',
    b'"x":' + b"[" * 9999 + b"]" * 9999,
    b'"x":' + b"[" * 10000 + b"]" * 10000,
    b'"x":' + b'{"a":' * 9999 + b"1" + b"}" * 9999,
    b'"x":1,"x":2', b'"name":null', b'"name":"m"', b'"name":""', b'"name":"a b"',
    b'"name":7,"name":"m"', b'"NAME":"a b"', b'"NAME":"a b","name":"m"', b'"Name":null',
    b'"name":"m\\u0000"', b'"name":"m\\ud800"', b'"n\\u0061me":"a b"', b'"\\u004eame":"a b"',
    b'"name\\u0000":"a b"', b'"cniVersion":"8.8.8"', b'"cniversion":"8.8.8"',
    b'"cniversion":"8.8.8","cniVersion":"7.7.7"', b'"cniVersion":null', b'"CNIVERSION":7',
    b'"cniVer\xc5\xbfion":"8.8.8"', b'"cniVer\\u017fion":"8.8.8"', b'"cniVer\\u1e9eion":"8.8.8"',
    b'"cniVersion":"9.9.9\\u0000"', b'"cniVersion":"1.0.0\\u0000"', b'"cniVersion":"\\u0039.9.9"',
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_readings(binaries, verb):
    for members in READINGS:
        conf = b'{"name":"n","cniVersion":"9.9.9",' + members + b"}"
        ours, _ = compare(binaries, {**FULL, "CNI_COMMAND": verb}, conf)
        assert ours.code in (1, 6, 7), members[:80]


def test_configurations_at_random(binaries):
    """Cuts, doubles and changes bytes of a configuration that has a bit of everything."""
    random = Random(7)
    seed = (
        b'{"cniVersion":"9.9.9","name":"n","x":[1.5e-3,-7,{"a":null,"b":true}],'
        b'"Name":"m","y":"\\ud83d\\udcbe\\"\\\\\\/\\n\xc3\xa9","cniversion":"9.9.8"}'
    )
    pieces = [b'"', b"\\", b"\\u", b"{", b"}", b"[", b"]", b",", b":", b"0", b"e", b"-", b"\xff",
              b"\x00", b" ", b"null", b'"name"', b'"a b"', b'"NAME":']  # fmt: skip
    for _ in range(150):
        conf = bytearray(seed)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(conf))
            if random.random() < 0.4:
                del conf[at : at + random.randint(1, 6)]
            else:
                conf[at : at + random.randint(0, 2)] = random.choice(pieces)
        ours, _ = compare(binaries, FULL, bytes(conf))
        assert ours.code in (1, 6, 7), bytes(conf)


def test_what_the_delegate_gets_at_random(binaries, tmp_path):
    """As Python's reader, in which of one name the last counts, too, would put it together."""
    random = Random(11)
    keys = ['"mtu"', '"MTU"', '"m\\u0074u"', '"x\\u0000"', '"x\\ufffd"', '"\u00e9"', '"\\u00E9"', '"args"',
            '"prevResult"', '"runtimeConfig"', '"cni.dev/a"', '"deviceID"', '"capabilities"', '"\\u212a"',
            '"K"', '"\\ud83d\\udcbe"', '"\U0001f4be"', '""']  # fmt: skip
    values = ["1", "12345678901234567890123", '"\\u0000\\ud800"', '[1, {"a":[]}, -0.5e-3]', "null",
              '{"b":{"c":null},"b":2}', ' "a\\/b" ', "true"]  # fmt: skip
    from_runtime = ("name", "cniVersion", "prevResult", "runtimeConfig", "args", "cni.dev/a")
    bench = Bench(binaries, tmp_path)

    def members():
        picked = ((random.choice(keys), random.choice(values)) for _ in range(random.randrange(7)))
        return "".join(f",{key}:{value}" for key, value in picked)

    for _ in range(60):
        theirs = '{"type":"test-delegate"' + members() + "}"
        ours = '{"name":"n","cniVersion":"1.0.0"' + members() + "}"
        conf = ours[:-1] + ',"type":"dpu-gate","delegate":' + theirs + "}"
        bench.call("DEL", conf=conf.encode()).assert_ok()
        runtimes = {k: v for k, v in json.loads(ours).items() if k in from_runtime}
        wanted = {**json.loads(ours), **json.loads(theirs), **runtimes}
        assert bench.delegate.stdin("DEL") == wanted, conf


def test_stdin_that_is_a_directory_or_closed(binaries):
    descriptor = os.open("/", os.O_RDONLY)
    assert compare(binaries, FULL, {"stdin": descriptor})[0].code == 5
    os.close(descriptor)
    # Nothing to compare with: newer plugins find /dev/null there, which Go opens for them.
    assert call(binaries.path("dpu-gate"), FULL, preexec_fn=lambda: os.close(0)).code == 5


def test_version(binaries):
    for conf in (b"", b"{", CONF):
        ours, theirs = compare(binaries, {"CNI_COMMAND": "VERSION"}, conf)
        ours_supported, theirs_supported = (r.json["supportedVersions"] for r in (ours, theirs))
        assert ours_supported[: len(theirs_supported)] == theirs_supported
        assert set(ours.json) == set(theirs.json)
