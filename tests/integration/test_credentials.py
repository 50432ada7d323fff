# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs, tokens, certificates and rights, and their change while the agents run."""

import copy
import json
import os
import pathlib
import subprocess
import time

import pytest
from dpu_testing import kubeconfig
from dpu_testing.authority import Authority, HttpsServer
from dpu_testing.process import clean_env, run
from dpu_testing.standin import RULES
from dpu_testing.wait import until
from front import Front
from target import TlsTarget
from test_http import Page, metric
from world import SANITIZER, SOON_S, World, in_own_mounts

pytestmark = pytest.mark.standin_only


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(str(tmp_path_factory.mktemp("ca")))


@pytest.fixture
def tls(binaries, tmp_path, authority):
    """A world whose API server speaks TLS and knows users by certificate."""
    target = TlsTarget(binaries, tmp_path, authority, client_ca=authority.file)
    built = World(binaries, target, tmp_path)
    built.authority = authority
    yield built
    built.cleanup()
    target.cleanup()


def write(directory, name, text):
    path = os.path.join(str(directory), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def tls_kubeconfig(world, user, ca_file, **cluster):
    """The users' tokens; `cluster`: further members of the cluster, _ for -."""
    tree = json.loads(kubeconfig.dump(world.target.standin.url, token=f"{user}-token", ca_file=ca_file))
    more = {key.replace("_", "-"): value for key, value in cluster.items()}
    tree["clusters"][0]["cluster"].update(more)
    return write(world.directory, f"{user}-ca.kubeconfig", json.dumps(tree))


def start_with_authority(tls, ca_file):
    for user in ("host", "dpu"):
        getattr(tls, user)(kubeconfig=tls_kubeconfig(tls, user, ca_file))
    tls.wait_state("Ready")


def restart_server(tls):
    """It reads its certificate anew."""
    tls.target.standin.refuse()
    tls.target.standin.accept()


def test_a_client_key_that_is_encrypted_is_refused_at_the_start_by_its_field(tls, tmp_path):
    cert, key = tls.authority.issue("host", "host")
    (tmp_path / "encrypted.key").write_bytes(encrypt(pathlib.Path(key).read_bytes()))
    text = kubeconfig.dump(
        tls.target.standin.url, ca_file=tls.authority.file,
        client_certificate=cert, client_key=f"{tmp_path}/encrypted.key",
    )  # fmt: skip
    program = tls.host(kubeconfig=write(tmp_path, "encrypted.kubeconfig", text))
    program.wait_log(SOON_S, level="error", msg=f"client-key '{tmp_path}/encrypted.key' is not usable: the private key is")
    until(lambda: not program.is_running(), SOON_S)


def test_a_server_of_another_authority_is_not_believed(tls, tmp_path):
    other = Authority(str(tmp_path), "other")
    host = tls.host(kubeconfig=tls_kubeconfig(tls, "host", other.file))
    seen = tls.wait_record(lambda r: "cannot be read" in r["message"])
    assert seen.verdict() == "Unknown/AwaitingFirstRenewal"
    assert "certificate" in host.text().lower() or "ssl" in host.text().lower()
    assert not tls.target.standin.audit()


def test_an_authority_that_the_system_trusts_does_not_count_beside_the_one_named(tls, tmp_path):
    """Any public authority could pose as the API server."""
    other = Authority(str(tmp_path), "other")
    store = tmp_path / "certs"
    store.mkdir()
    write(store, "system.crt", pathlib.Path(tls.authority.file).read_text("ascii"))
    subprocess.run(["openssl", "rehash", store], check=True, capture_output=True)
    write(store, "named.crt", pathlib.Path(other.file).read_text("ascii"))
    host = tls.host(
        wrapper=in_own_mounts(f"mount --bind {store} /etc/ssl/certs"),
        kubeconfig=tls_kubeconfig(tls, "host", other.file),
        probe=f"ca=/etc/ssl/certs/named.crt;{tls.target.standin.url}",
    )
    tls.wait_record(lambda r: "cannot be read" in r["message"])
    host.wait_log(SOON_S, level="warn", msg="its failures do not count: SSL certificate")  # in any version
    assert not tls.target.standin.audit()


def test_no_authority_of_the_system_is_needed_beside_the_one_named(tls, tmp_path):
    """A container has none."""
    (tmp_path / "none").mkdir()
    tls.target.new_lease()
    words = tls.flags(
        "dpu",
        kubeconfig=tls_kubeconfig(tls, "dpu", tls.authority.file),
        probe=f"ca={tls.authority.file},status=404;{tls.target.standin.url}",
    )
    dpu = tls.start("dpu-agent", words, wrapper=in_own_mounts(f"mount --bind {tmp_path}/none /etc/ssl/certs"))
    dpu.wait_log(SOON_S, msg="renewed, resourceVersion")


def test_a_probes_authority_may_be_replaced(tls, tmp_path):
    """As a rotation does it: both authorities, then the new certificate. libcurl 8.23 keeps what it has read."""
    old, new = (Authority(str(tmp_path), name) for name in ("old", "new"))
    server = HttpsServer(old, 204)
    trusted = write(tmp_path, "trusted.crt", pathlib.Path(old.file).read_text("ascii"))
    probe = f"status=204,interval=200ms,failures=1,ca={trusted};{server.url}"
    try:
        dpu = tls.dpu(kubeconfig=tls_kubeconfig(tls, "dpu", tls.authority.file), probe=[probe])
        until(lambda: len(server.resumed) > 2, SOON_S, "probes that pass")
        both = "".join(pathlib.Path(a.file).read_text("ascii") for a in (old, new))
        os.replace(write(tmp_path, "next.crt", both), trusted)
        server.use(new)
        begun = len(server.resumed)
        until(lambda: len(server.resumed) > begun + 3, SOON_S, "probes that pass with the new certificate")
        assert not dpu.lines(msg="SSL"), dpu.text()
    finally:
        server.close()


def test_a_server_of_another_name_is_not_believed_unless_told(tls):
    tls.authority.issue("server", "x", names="DNS:api.example")
    restart_server(tls)
    host = tls.host(kubeconfig=tls_kubeconfig(tls, "host", tls.authority.file))
    tls.wait_record(lambda r: "cannot be read" in r["message"])
    host.stop()
    host = tls.host(kubeconfig=tls_kubeconfig(tls, "host", tls.authority.file, tls_server_name="api.example"))
    until(lambda: tls.target.standin.audit(user="host"), SOON_S, host.tail)


def test_a_further_connection_resumes_the_tls_session(tls):
    server = HttpsServer(tls.authority, 503)
    path = write(tls.directory, "closing.kubeconfig", kubeconfig.dump(server.url, token="t", ca_file=tls.authority.file))
    tls.dpu(kubeconfig=path)
    until(lambda: len(server.resumed) > 2, SOON_S, lambda: str(server.resumed))
    server.close()
    assert server.resumed[:3] == [False, True, True]


def test_a_renewal_does_not_wait_for_a_handshake_that_hangs(tls, tmp_path):
    """It goes over another connection beside, and is written once."""
    tls.interval_ms, tls.duration_s = 1000, 10
    tls.target.new_lease(leaseDurationSeconds=tls.duration_s)
    front = Front(tls.target.standin.url)
    dpu = tls.dpu(kubeconfig=front.kubeconfig(tmp_path, "dpu", ca_file=tls.authority.file))
    dpu.wait_log(SOON_S, msg="renewed, resourceVersion")  # its answer is not what is cut

    def renewals():
        return tls.target.standin.audit(user="dpu", verb="update")

    first = len(front.asked) + 1
    front.hangs = lambda number: number == first
    front.cut()
    cut_at, count = time.monotonic(), len(renewals())
    until(lambda: len(renewals()) > count, SOON_S)
    took_s = time.monotonic() - cut_at
    assert len(front.asked) > first and took_s < 2.5  # 1 until it is due, 2 for the deadline
    assert {line["code"] for line in renewals()} == {200}
    front.close()


def test_a_renewed_serving_certificate_goes_unnoticed_and_so_does_a_new_authority_of_the_bundle(tls, tmp_path):
    others = pathlib.Path(Authority(str(tmp_path), "other").file).read_text("ascii") * 200
    bundle = write(tmp_path, "bundle.crt", others + pathlib.Path(tls.authority.file).read_text("ascii"))
    assert os.stat(bundle).st_size > 64 << 10
    start_with_authority(tls, bundle)
    tls.authority.issue("server", "renewed")
    restart_server(tls)
    tls.stays_ready(5)
    following = Authority(str(tmp_path), "next")
    for source, name in zip(following.issue("next-server", "kube-apiserver"), ("server.crt", "server.key")):
        os.replace(source, os.path.join(tls.authority.directory, name))
    with open(bundle, "a", encoding="ascii") as file:
        file.write(pathlib.Path(following.file).read_text("ascii"))
    restart_server(tls)
    tls.stays_ready(5)


def test_a_revoked_client_certificate_on_the_dpu_is_a_dead_dpu(world, target):
    """It cannot renew, and it could not serve an ADD either."""
    world.both()
    target.standin.set_rules(rotated("-token", "-gone", users=("dpu",)))
    world.wait_verdict("NotReady/LeaseExpired")
    target.standin.set_rules(RULES)
    world.wait_verdict("Ready/LeaseRenewed", 45)


def rotated(old, new, users=("host", "dpu")):
    """Rules in which each user's old token no longer works and the new one does."""
    rules = copy.deepcopy(RULES)
    for user in rules["users"]:
        if user["name"] in users:
            user["token"] = user["token"].replace(old, new)
    return rules


def test_a_kubeconfig_names_whom_to_act_as(world, target, tmp_path):
    rules = copy.deepcopy(RULES)
    rules["users"].append(
        {"name": "bootstrap", "token": "bootstrap-token", "impersonates": ["system:node:worker-1"]}
    )
    for rule in rules["rules"]:
        rule["users"] = ["as-" + user if user in ("host", "dpu") else user for user in rule["users"]]
    target.standin.set_rules(rules)
    for user in ("host", "dpu"):
        text = kubeconfig.dump(
            target.standin.url, token="bootstrap-token",
            as_="system:node:worker-1", as_groups=["system:authenticated", f"as-{user}"],
        ).replace('"as-"', '"as"')  # fmt: skip
        getattr(world, user)(kubeconfig=write(tmp_path, f"as-{user}.kubeconfig", text))
    world.wait_state("Ready")
    assert target.standin.audit(user="system:node:worker-1")
    assert not target.standin.audit(user="bootstrap")


def test_a_token_that_no_longer_works_is_no_proof_against_the_dpu(world, target):
    host, _ = world.both()
    target.standin.set_rules(rotated("-token", "-gone", users=("host",)))
    target.standin.drop_connections()
    world.wait_verdict("Unknown/ApiServerUnreachable")
    world.wait_record(lambda r: "Unauthorized" in r["message"] or "401" in r["message"])
    assert world.gate.status().ok
    target.standin.set_rules(RULES)
    world.wait_verdict("Ready/LeaseRenewed", 30)
    assert host.is_running()


def test_skipping_the_verification_works_and_is_warned_about(tls):
    host = tls.host(kubeconfig=tls_kubeconfig(tls, "host", None, insecure_skip_tls_verify=True))
    host.wait_log(SOON_S, level="warn", msg="insecure-skip-tls-verify")
    until(lambda: tls.target.standin.audit(user="host"), SOON_S, host.tail)


def test_a_proxy_that_fails_is_named_without_its_password(tls):
    """Whatever fails on the way: nobody looks for the fault in the API server."""
    path = tls_kubeconfig(tls, "host", tls.authority.file, proxy_url="http://me:secret@127.0.0.1:1")
    host = tls.host(kubeconfig=path)
    seen = tls.wait_record(lambda r: "through proxy http://127.0.0.1:1 (proxy-url)" in r["message"])
    assert "secret" not in seen["message"] and "secret" not in host.text()
    assert " through proxy http://127.0.0.1:1 (proxy-url)" in host.lines(mod="main", msg="lease ovn")[0]["msg"]


class Files:
    """One user's credential on the disk: ca.crt, client.crt and client.key."""

    def __init__(self, tls, user):
        self.directory = pathlib.Path(tls.directory) / f"{user}-files"
        self.directory.mkdir()
        self.authority, self.user = tls.authority, user
        self.put("ca.crt", pathlib.Path(tls.authority.file).read_bytes())
        self.pair = self.issue("first")
        self.put("client.crt", self.pair[0])
        self.put("client.key", self.pair[1])
        self.kubeconfig = write(self.directory, "kubeconfig", kubeconfig.dump(
            tls.target.standin.url, ca_file="ca.crt", client_certificate="client.crt", client_key="client.key",
        ))  # fmt: skip

    def issue(self, name):
        paths = self.authority.issue(f"{self.user}-{name}", self.user)
        return [pathlib.Path(path).read_bytes() for path in paths]

    def put(self, name, content):
        """Over the old one, as a copy does."""
        with open(self.directory / name, "wb") as file:
            file.write(content)

    def link(self, version):
        """As the kubelet puts a Secret there: a link to a directory, replaced by rename."""
        target = self.directory / version
        target.mkdir(exist_ok=True)
        for name in ("ca.crt", "client.crt", "client.key"):
            if not (target / name).exists():
                (target / name).write_bytes((self.directory / name).read_bytes())
            if not (self.directory / name).is_symlink():
                (self.directory / name).unlink()
                (self.directory / name).symlink_to(f"data/{name}")
        (self.directory / "next").symlink_to(version)
        (self.directory / "next").rename(self.directory / "data")


def encrypt(key):
    words = "openssl pkcs8 -topk8 -passout pass:word"
    return subprocess.run(words.split(), input=key, check=True, capture_output=True).stdout


def half(content):
    return content[: len(content) // 2]


def with_new_key_later(files):
    files.pair = files.issue("second")
    files.put("client.crt", files.pair[0])


def with_linked_garbage(files):
    files.link("one")
    (files.directory / "two").mkdir()
    (files.directory / "two/client.crt").write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    files.link("two")


IDLE_S = 25  # a host that has nothing to ask looks every ten seconds, and tells at the second look

BREAKS = {
    "a certificate whose key comes later": with_new_key_later,
    "a key whose certificate comes later": lambda f: f.put("client.key", f.issue("second")[1]),
    "garbage for a certificate": lambda f: f.put("client.crt", b"\0garbage\n" * 99),
    "half a certificate": lambda f: f.put("client.crt", half(f.pair[0])),
    "half a key": lambda f: f.put("client.key", half(f.pair[1])),
    "an encrypted key": lambda f: f.put("client.key", encrypt(f.pair[1])),
    "an empty key": lambda f: f.put("client.key", b""),
    "a link to half a Secret": with_linked_garbage,
    "garbage for a CA": lambda f: f.put("ca.crt", b"not a certificate\n"),
    "half a CA": lambda f: f.put("ca.crt", half((f.directory / "ca.crt").read_bytes())),
    "a CA that is a key": lambda f: f.put("ca.crt", f.pair[1]),
    "a bundle that ends in the next one's first line": lambda f: f.put(
        "ca.crt", f.issue("second")[0] + b"-----BEGIN CERTIFI"
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_file_that_is_not_usable_leaves_the_last_good_credential_in_force(tls, name):
    """What a rotation leaves on the disk for seconds condemns no DPU that lives."""
    files = {user: Files(tls, user) for user in ("host", "dpu")}
    host = tls.host(kubeconfig=files["host"].kubeconfig)
    dpu = tls.dpu(kubeconfig=files["dpu"].kubeconfig)
    tls.wait_state("Ready")
    for user in files.values():
        BREAKS[name](user)
    tls.target.standin.drop_connections()
    tls.stays_ready(20)  # two durations
    for program in (host, dpu):
        program.wait_log(IDLE_S, level="warn", msg="continuing with the last good credential")
        assert metric(Page(program), "api_credential_unusable") == 1
    for user in files.values():
        user.put("ca.crt", pathlib.Path(tls.authority.file).read_bytes())
        cert, key = user.issue("third")
        user.put("client.crt", cert)
        user.put("client.key", key)
    for program in (host, dpu):
        program.wait_log(IDLE_S, level="info", msg="is usable again")
        assert metric(Page(program), "api_credential_unusable") == 0
    tls.target.standin.drop_connections()
    tls.stays_ready(5)


@pytest.mark.needs_root
def test_the_account_of_a_debug_pod_is_not_the_agents(tls, tmp_path):
    """As dpuctl's own advice has it: kubectl debug node/NODE ... -- dpuctl doctor --root=/host."""
    account, url = "/run/secrets/kubernetes.io/serviceaccount", tls.target.standin.url
    host, port = url.removeprefix("https://").split(":")
    write(tmp_path, "token", "dra-token")  # of somebody who may do nothing that the agent may
    script = f"mount -t tmpfs none /run && mkdir -p {account} && cp {tmp_path}/token {account}/"
    script += f" && cp {tls.authority.file} {account}/ca.crt"
    env = clean_env(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port, **SANITIZER)
    command = [*in_own_mounts(script), tls.binaries.path("dpuctl"), "doctor", "--node-name=worker-1"]
    words = "dpu-host-agent may not get leases"
    assert words in run(command, env=env).stdout, "in the agent's own Pod it is the agent's"
    done = run([*command, f"--root={tmp_path}"], env=env)
    assert "in-cluster service account" in done.stdout, done
    assert "skip  rights   not checked" in done.stdout and "may not" not in done.stdout, done
    done = run([*command, f"--root={tmp_path}"], env={**env, "KUBERNETES_SERVICE_PORT": "1"})
    assert "skip  API " in done.stdout and "this Pod's way there" in done.stdout, done
    done = run(command, env={**env, "KUBERNETES_SERVICE_PORT": "1"})
    assert "FAIL  API " in done.stdout, done
