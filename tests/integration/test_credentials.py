# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs, tokens, certificates and rights, and their change while the agents run."""

import base64
import json
import os
import subprocess
import time

import pytest
from dpu_testing import kubeconfig
from dpu_testing.authority import Authority
from dpu_testing.kube import Kube
from dpu_testing.process import clean_env, run
from dpu_testing.standin import RULES, dated_token
from dpu_testing.wait import never, until
from target import StandinTarget
from test_http import Page
from world import SANITIZER, SOON_S, World

pytestmark = pytest.mark.standin_only


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(str(tmp_path_factory.mktemp("ca")))


@pytest.fixture
def tls(binaries, tmp_path, authority):
    """A world whose API server speaks TLS and knows users by certificate."""
    cert, key = authority.issue("server", "kube-apiserver")
    target = StandinTarget(
        binaries, tmp_path, tls_cert=cert, tls_key=key, client_ca=authority.file
    )
    import ssl

    target.admin = Kube(
        target.standin.url, "admin-token", ssl.create_default_context(cafile=authority.file)
    )
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


def test_client_certificates_from_files(tls, tmp_path):
    for user in ("host", "dpu"):
        cert, key = tls.authority.issue(user, user)
        path = write(
            tmp_path,
            f"{user}-tls.kubeconfig",
            kubeconfig.dump(
                tls.target.standin.url,
                ca_file=tls.authority.file,
                client_certificate=os.path.relpath(cert, tmp_path),
                client_key=key,
            ),
        )
        program = getattr(tls, user)(kubeconfig=path)
        ends = Page(program).metrics()["dpu_heartbeat_api_credential_expiry_timestamp_seconds"]
        assert 47 * 3600 < ends - time.time() < 49 * 3600, "issued for two days"
    tls.wait_state("Ready")
    assert tls.target.standin.audit(user="host") and tls.target.standin.audit(user="dpu")


def test_of_token_and_certificate_the_first_to_end_is_shown(tls, tmp_path):
    cert, key = tls.authority.issue("host", "host")
    for left_s, shown_s in ((3600, 3600), (365 * 24 * 3600, 48 * 3600)):
        text = kubeconfig.dump(
            tls.target.standin.url, dated_token("host", left_s=left_s), tls.authority.file,
            client_certificate=cert, client_key=key,
        )  # fmt: skip
        host = tls.host(kubeconfig=write(tmp_path, "both.kubeconfig", text))
        ends = Page(host).metrics()["dpu_heartbeat_api_credential_expiry_timestamp_seconds"]
        assert abs(ends - time.time() - shown_s) < 1800
        host.stop()


def test_client_certificates_and_authority_as_data(tls, tmp_path):
    for user in ("host", "dpu"):
        cert, key = tls.authority.issue(user, user)
        tree = json.loads(kubeconfig.dump(tls.target.standin.url))
        tree["clusters"][0]["cluster"]["certificate-authority-data"] = encoded(tls.authority.file)
        tree["users"][0]["user"] = {
            "client-certificate-data": encoded(cert),
            "client-key-data": encoded(key),
        }
        path = write(tmp_path, f"{user}-data.kubeconfig", json.dumps(tree))
        getattr(tls, user)(kubeconfig=path)
    tls.wait_state("Ready")


@pytest.mark.parametrize("user", ["host", "dpu"])
def test_an_encrypted_client_key_is_a_failure_that_is_told(tls, tmp_path, user):
    """It may come with a renewal, too: no reason to end."""
    cert, key = tls.authority.issue(user, user)
    words = f"openssl pkcs8 -topk8 -in {key} -out {tmp_path}/encrypted.key -passout pass:word"
    subprocess.run(words.split(), check=True, capture_output=True)
    text = kubeconfig.dump(
        tls.target.standin.url, ca_file=tls.authority.file,
        client_certificate=cert, client_key=f"{tmp_path}/encrypted.key",
    )  # fmt: skip
    program = getattr(tls, user)(kubeconfig=write(tmp_path, "encrypted.kubeconfig", text))
    program.wait_log(SOON_S, level="warn", msg="private key")
    assert program.is_running()


def encoded(path):
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


def tls_kubeconfig(world, user, ca_file):
    return write(
        world.directory,
        f"{user}-ca.kubeconfig",
        kubeconfig.dump(world.target.standin.url, token=f"{user}-token", ca_file=ca_file),
    )


def test_a_server_of_another_authority_is_not_believed(tls, tmp_path):
    other = Authority(str(tmp_path), "other")
    host = tls.host(kubeconfig=tls_kubeconfig(tls, "host", other.file))
    seen = tls.wait_record(lambda r: "cannot be read" in r["message"])
    assert seen.verdict() == "Unknown/AwaitingFirstRenewal"
    assert "certificate" in host.text().lower() or "ssl" in host.text().lower()
    assert not tls.target.standin.audit()


def test_an_authority_that_the_system_trusts_does_not_count_beside_the_one_named(tls, tmp_path):
    """Any public authority could pose as the API server."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    other = Authority(str(tmp_path), "other")
    store = tmp_path / "certs"
    store.mkdir()
    write(store, "system.crt", open(tls.authority.file, encoding="ascii").read())
    subprocess.run(["openssl", "rehash", store], check=True, capture_output=True)
    write(store, "named.crt", open(other.file, encoding="ascii").read())
    script = f"mount --bind {store} /etc/ssl/certs && exec \"$@\""
    wrapper = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    host = tls.host(
        wrapper=wrapper,
        kubeconfig=tls_kubeconfig(tls, "host", other.file),
        probe=f"ca=/etc/ssl/certs/named.crt;{tls.target.standin.url}",
    )
    tls.wait_record(lambda r: "cannot be read" in r["message"])
    host.wait_log(SOON_S, level="warn", msg="prove nothing: SSL certificate problem")
    assert not tls.target.standin.audit()


def test_a_server_of_another_name_is_not_believed_unless_told(tls, tmp_path):
    target = tls.target
    cert, key = tls.authority.issue("server", "x", names="DNS:api.example")
    target.standin.refuse()
    target.standin.accept()  # reads the certificate anew
    assert cert and key
    path = tls_kubeconfig(tls, "host", tls.authority.file)
    host = tls.host(kubeconfig=path)
    tls.wait_record(lambda r: "cannot be read" in r["message"])
    host.stop()
    tree = json.loads(open(path, encoding="utf-8").read())
    tree["clusters"][0]["cluster"]["tls-server-name"] = "api.example"
    host = tls.host(kubeconfig=write(tmp_path, "named.kubeconfig", json.dumps(tree)))
    until(lambda: target.standin.audit(user="host"), SOON_S, host.tail)


def test_a_renewed_serving_certificate_goes_unnoticed(tls):
    tls.host(kubeconfig=tls_kubeconfig(tls, "host", tls.authority.file))
    tls.dpu(kubeconfig=tls_kubeconfig(tls, "dpu", tls.authority.file))
    tls.wait_state("Ready")
    tls.authority.issue("server", "renewed")
    tls.target.standin.refuse()
    tls.target.standin.accept()
    never(lambda: tls.state() == "NotReady", tls.duration_s, "NotReady")
    tls.wait_renewals(3, 30)


@pytest.mark.parametrize("form", ["file", "data"])
def test_the_authority_may_be_one_of_a_whole_bundle(tls, tmp_path, form):
    others = open(Authority(str(tmp_path), "other").file, encoding="ascii").read() * 200
    bundle = write(tmp_path, "bundle.crt", others + open(tls.authority.file, encoding="ascii").read())
    assert os.stat(bundle).st_size > 64 << 10
    for user in ("host", "dpu"):
        path = tls_kubeconfig(tls, user, bundle)
        if form == "data":
            tree = json.loads(open(path, encoding="utf-8").read())
            del tree["clusters"][0]["cluster"]["certificate-authority"]
            tree["clusters"][0]["cluster"]["certificate-authority-data"] = encoded(bundle)
            path = write(tmp_path, f"{user}-data.kubeconfig", json.dumps(tree))
        getattr(tls, user)(kubeconfig=path)
    tls.wait_state("Ready")


def test_a_renewed_authority_file_is_read_again(tls, tmp_path):
    bundle = write(tmp_path, "bundle.crt", open(tls.authority.file, encoding="ascii").read())
    tls.host(kubeconfig=tls_kubeconfig(tls, "host", bundle))
    tls.dpu(kubeconfig=tls_kubeconfig(tls, "dpu", bundle))
    tls.wait_state("Ready")
    other = Authority(str(tmp_path), "next")
    cert, key = other.issue("next-server", "kube-apiserver")
    for source, name in ((cert, "server.crt"), (key, "server.key")):
        target_path = os.path.join(tls.authority.directory, name)
        os.replace(source, target_path)
    with open(bundle, "a", encoding="ascii") as file:
        file.write(open(other.file, encoding="ascii").read())
    tls.target.standin.refuse()
    tls.target.standin.accept()
    never(lambda: tls.state() == "NotReady", tls.duration_s, "NotReady")
    tls.wait_renewals(3, 90)


def test_renewed_client_certificates_are_read_again(tls, tmp_path):
    """The old key must not be needed any more: both files are replaced by a rename."""
    for user in ("host", "dpu"):
        cert, key = tls.authority.issue(f"{user}-own", user)
        path = write(
            tmp_path,
            f"{user}-renewed.kubeconfig",
            kubeconfig.dump(
                tls.target.standin.url,
                ca_file=tls.authority.file,
                client_certificate=cert,
                client_key=key,
            ),
        )
        getattr(tls, user)(kubeconfig=path)
    tls.wait_state("Ready")
    for user in ("host", "dpu"):
        for new in tls.authority.issue(f"{user}-next", user):
            os.replace(new, new.replace("-next", "-own"))
    tls.target.standin.drop_connections()
    never(lambda: tls.state() == "NotReady", tls.duration_s, "NotReady")
    tls.wait_renewals(3, 60)


def test_a_revoked_client_certificate_on_the_dpu_is_a_dead_dpu(world, target):
    """It cannot renew, and it could not serve an ADD either."""
    world.both()
    target.standin.set_rules(rotated("-token", "-gone", users=("dpu",)))
    world.wait_verdict("NotReady/LeaseExpired")
    target.standin.set_rules(RULES)
    world.wait_verdict("Ready/LeaseRenewed", 45)


def rotated(old, new, users=("host", "dpu")):
    """Rules in which each user's old token no longer works and the new one does."""
    rules = json.loads(json.dumps(RULES))
    for user in rules["users"]:
        if user["name"] in users:
            user["token"] = user["token"].replace(old, new)
    return rules


def test_a_rotated_token_file_is_read_again(world, target, tmp_path):
    """As the kubelet does it: files in a new directory, one symlink swapped."""
    for user in ("host", "dpu"):
        mount = tmp_path / f"{user}-account"
        (mount / "first").mkdir(parents=True)
        (mount / "first" / "token").write_text(f"{user}-token\n")
        (mount / "..data").symlink_to("first")
        (mount / "token").symlink_to("..data/token")
        path = write(
            tmp_path,
            f"{user}-file.kubeconfig",
            kubeconfig.dump(target.standin.url, tokenFile=str(mount / "token")),
        )
        getattr(world, user)(kubeconfig=path)
    world.wait_state("Ready")
    for user in ("host", "dpu"):
        mount = tmp_path / f"{user}-account"
        (mount / "second").mkdir()
        (mount / "second" / "token").write_text(f"{user}-fresh")
        (mount / "..next").symlink_to("second")
        os.replace(mount / "..next", mount / "..data")
    target.standin.set_rules(rotated("-token", "-fresh"))
    target.standin.drop_connections()
    never(lambda: world.state() == "NotReady", world.duration_s, "NotReady")
    world.wait_renewals(3, 30)


@pytest.mark.parametrize("damage", ["empty", "missing"])
def test_a_damaged_token_file_keeps_the_last_token(world, target, tmp_path, damage):
    for user in ("host", "dpu"):
        token = tmp_path / f"{user}.token"
        token.write_text(f"{user}-token")
        path = write(
            tmp_path,
            f"{user}-file.kubeconfig",
            kubeconfig.dump(target.standin.url, tokenFile=token.name),
        )
        getattr(world, user)(kubeconfig=path)
    world.wait_state("Ready")
    for user in ("host", "dpu"):
        token = tmp_path / f"{user}.token"
        if damage == "empty":
            token.write_text("")
        else:
            token.unlink()
    target.standin.drop_connections()
    never(lambda: world.state() == "NotReady", world.duration_s, "NotReady")
    world.wait_renewals(5)


def test_a_kubeconfig_with_a_renewed_token_is_read_again(world, target):
    """As DPF does it: the token stands inside, and the file is written anew in its place."""
    host, dpu = world.both()
    world.wait_state("Ready")
    paths = [target.standin.kubeconfig(user) for user in ("host", "dpu")]
    for path in paths:
        text = open(path, encoding="utf-8").read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[: len(text) // 2])  # a writer that is slow
    world.wait_renewals(2)
    for user, path in zip(("host", "dpu"), paths):
        with open(path, "w", encoding="utf-8") as file:
            file.write(kubeconfig.dump(target.standin.url, token=f"{user}-fresh"))
    target.standin.set_rules(rotated("-token", "-fresh"))
    target.standin.drop_connections()
    never(lambda: world.state() == "NotReady", world.duration_s, "NotReady")
    world.wait_renewals(3, 30)
    for program in (host, dpu):
        program.wait_log(SOON_S, level="info", msg="was read again")


def test_a_kubeconfig_names_whom_to_act_as(world, target, tmp_path):
    rules = json.loads(json.dumps(RULES))
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


def test_reading_forbidden_names_verb_and_resource(world, target):
    target.without_right("host", ["get", "list", "watch"])
    host = world.host()
    said = until(
        lambda: [l for l in host.lines(msg="leases") if l["level"] in ("warn", "error")],
        SOON_S,
        host.tail,
    )[0]
    assert any(verb in said["msg"] for verb in ("get", "list", "watch"))
    seen = world.wait_record(lambda r: "forbidden" in r["message"])
    assert seen.state == "Unknown"
    target.standin.set_rules(RULES)
    world.dpu()
    world.wait_state("Ready", 45)


def test_all_rights_lost_is_no_proof_against_the_dpu(world, target):
    world.both()
    target.without_right("host", ["get", "list", "watch"])
    target.standin.drop_connections()
    never(lambda: world.state() == "NotReady", world.duration_s * 1.5, "NotReady")
    world.wait_verdict("Unknown/ApiServerUnreachable")
    target.standin.set_rules(RULES)
    world.wait_verdict("Ready/LeaseRenewed", 45)


def test_create_forbidden_is_said_and_an_existing_lease_is_enough(world, target):
    target.without_right("host", ["create"])
    host = world.host()
    said = until(
        lambda: [l for l in host.lines(msg="create") if l["level"] in ("warn", "error")],
        SOON_S,
        host.tail,
    )[0]
    assert "lease" in said["msg"]
    target.new_lease(holderIdentity="ovnkube-dpu-node", leaseDurationSeconds=world.duration_s)
    world.dpu()
    world.wait_state("Ready", 30)


@pytest.mark.parametrize(
    "user, words",
    [
        ({"exec": {"command": "aws"}}, ["exec"]),
        ({"auth-provider": {"name": "gcp"}}, ["auth-provider"]),
        ({"username": "u", "password": "secret-word"}, ["username"]),
        ({"as-groups": ["g"]}, ["as-groups"]),
        ({"tokenFile": "/no/such/token"}, ["/no/such/token"]),
        ({"client-certificate": "/no/such.crt", "client-key": "/no/such.key"}, ["/no/such"]),
        ({"client-certificate-data": "%%%", "client-key-data": "%%%"}, ["client-certificate-data"]),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
@pytest.mark.parametrize("agent", ["dpu-agent", "dpu-host-agent"])
def test_what_a_kubeconfig_asks_for_in_vain_is_an_error(binaries, tmp_path, agent, user, words):
    tree = json.loads(kubeconfig.dump("https://127.0.0.1:1"))
    tree["users"][0]["user"] = user
    path = write(tmp_path, "kubeconfig", json.dumps(tree))
    done = run(
        [binaries.path(agent), f"--kubeconfig={path}", "--node-name=n"],
        env=clean_env(**SANITIZER),
    )
    assert done.returncode not in (0, 99) and done.returncode > 0
    for word in words:
        assert word in done.stderr, done.stderr
    assert "secret-word" not in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "nonsense",
        "a: [1\n",
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n",
        '{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"c"}}]}',
    ],
)
def test_a_kubeconfig_that_leads_nowhere_is_an_error_naming_it(binaries, tmp_path, text):
    path = write(tmp_path, "broken-kubeconfig", text)
    done = run(
        [binaries.path("dpu-agent"), f"--kubeconfig={path}", "--node-name=n"],
        env=clean_env(**SANITIZER),
    )
    assert done.returncode not in (0, 99) and done.returncode > 0
    assert path in done.stderr


def test_skipping_the_verification_works_and_is_warned_about(tls, tmp_path):
    tree = json.loads(kubeconfig.dump(tls.target.standin.url, token="host-token"))
    tree["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    host = tls.host(kubeconfig=write(tmp_path, "insecure.kubeconfig", json.dumps(tree)))
    host.wait_log(SOON_S, level="warn", msg="insecure-skip-tls-verify")
    until(lambda: tls.target.standin.audit(user="host"), SOON_S, host.tail)


def test_secrets_are_not_logged(world, target):
    host, dpu = world.both()
    for process in (host, dpu):
        assert "-token" not in process.text()


def test_secrets_are_not_told_when_requests_fail(world, target):
    """At debug level, in all that is logged and served, however the API server fails."""
    host, dpu = world.both()
    failures = [
        ("status", {"code": 401}),
        ("status", {"code": 403}),
        ("status", {"code": 500}),
        ("answer", {"body": "not JSON"}),
        ("answer", {"body": "", "fill": 5000000}),
        ("cut", {}),
    ]
    for action, members in failures:
        target.standin.fault(action, user="dpu", count=1, **members)
        until(lambda: not unused_faults(target), SOON_S, f"{action} {members} was met")
        world.wait_renewals(1)
    target.standin.set_rules(rotated("-token", "-gone"))  # the tokens no longer work
    until(lambda: dpu.lines(level="warn", msg="401"), SOON_S, dpu.tail)
    for process in (host, dpu):
        page = Page(process)
        told = process.text()
        for path in ("/metrics", "/statusz", "/livez", "/readyz", "/"):
            told += page.request(path)[1]
        for secret in ("dpu-token", "host-token", "Bearer ", "uthorization:"):
            assert secret not in told, f"{process.name} tells {secret!r}"


def unused_faults(target):
    faults = target.standin.control("GET", "/faults")["faults"]
    return [fault for fault in faults if fault.get("hits", 0) < fault["count"]]


def test_a_failure_that_repeats_is_logged_once_and_counted(world, target):
    _, dpu = world.both()
    target.standin.fault("status", user="dpu", code=503, message="overloaded")
    page = Page(dpu)

    def failures():
        key = 'dpu_heartbeat_lease_renewal_failures_total{cause="server_error"}'
        return page.metrics()[key]

    until(lambda: failures() >= 10, 60, "ten failures")
    assert len(dpu.lines(level="warn", msg="503")) == 1, dpu.tail(30)
    target.standin.clear_faults()
    until(lambda: dpu.lines(level="info", msg="again"), SOON_S, dpu.tail)


def test_in_cluster_credentials_are_used_without_a_kubeconfig(tls, tmp_path):
    """The paths are fixed, so this needs a mount namespace; the variables name the server."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("host-token")
    (account / "ca.crt").write_text(open(tls.authority.file, encoding="ascii").read())
    mount = "/var/run/secrets/kubernetes.io"
    script = (
        "mount -t tmpfs tmpfs /run && "
        f"mkdir -p {mount} && ln -s {account} {mount}/serviceaccount && exec \"$@\""
    )
    wrapper = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    port = tls.target.standin.url.rpartition(":")[2]
    environ = clean_env(
        **SANITIZER, KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT=port
    )
    host = tls.host(env=environ, wrapper=wrapper, kubeconfig=None)
    until(lambda: tls.target.standin.audit(user="host"), SOON_S, host.tail)
