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
from dpu_testing.standin import RULES
from dpu_testing.wait import until
from front import Front
from target import TlsTarget
from world import SOON_S, World, in_own_mounts

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


def test_an_encrypted_client_key_is_a_failure_that_is_told(tls, tmp_path):
    """It may come with a renewal, too: no reason to end."""
    cert, key = tls.authority.issue("host", "host")
    words = f"openssl pkcs8 -topk8 -in {key} -out {tmp_path}/encrypted.key -passout pass:word"
    subprocess.run(words.split(), check=True, capture_output=True)
    text = kubeconfig.dump(
        tls.target.standin.url, ca_file=tls.authority.file,
        client_certificate=cert, client_key=f"{tmp_path}/encrypted.key",
    )  # fmt: skip
    program = tls.host(kubeconfig=write(tmp_path, "encrypted.kubeconfig", text))
    program.wait_log(SOON_S, level="warn", msg="private key")
    assert program.is_running()


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
