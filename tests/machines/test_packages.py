# SPDX-License-Identifier: Apache-2.0
"""Our packages on machines that are at work: upgrade, the way back, purge."""

from dpu_testing.wait import until
from machine import SLOW
from pair import DURATION_S, Verdicts

# Calls of the gate, as many as the machine can.
STORM = """
cat >/run/storm.sh <<'END'
while :; do
  if answer=$(%s); then echo admitted; else echo refused: $answer; fi
done >/run/storm.log
END
systemd-run -q --unit=storm bash /run/storm.sh
"""


def apt_installs(machine, repository, version):
    """Begins it, and answers what tells whether it has succeeded."""
    machine.sh(
        f"sed -i 's#/srv/[a-z]*#/srv/{repository}#' /etc/apt/sources.list; rm -f /run/done\n"
        "systemd-run -q sh -c 'apt-get update -q && apt-get install -q -y --allow-downgrades "
        f"dpu-heartbeat-{machine.name}={version}; echo $? >/run/done'"
    )
    return lambda: machine.run("cat /run/done")[1] == "0"


def change_both(pair, verdicts, repository, version):
    done = [apt_installs(machine, repository, version) for machine in pair]
    until(lambda: verdicts.admitted() and all(is_done() for is_done in done), 60 * SLOW, version)
    verdicts.stay_admitted(DURATION_S)
    for machine in pair:
        assert machine.sh(f"dpkg-query -W -f '${{Version}}' dpu-heartbeat-{machine.name}") == version


def test_an_upgrade_of_both_and_the_way_back_refuse_no_call(pair):
    verdicts = Verdicts(pair)
    first = pair.host.sh("dpkg-query -W -f '${Version}' dpu-heartbeat-host")
    pair.host.sh(STORM % pair.gate("STATUS"))
    change_both(pair, verdicts, "next", first + "+next")
    change_both(pair, verdicts, "packages", first)
    answers = pair.host.sh("systemctl stop storm; sort /run/storm.log | uniq -c")
    print(answers)
    assert answers.split()[1:] == ["admitted"], answers


def test_purge_leaves_nothing_but_what_an_admin_put_there(pair):
    left = "find / -xdev \\( -path '*dpu-*' -o -name '*dpuctl*' \\) | sort; ls -d /run/dpu* || true"
    for machine, keeps in ((pair.dpu, []), (pair.host, ["/opt/cni/bin/dpu-gate"])):
        machine.sh(f"apt-get purge -q -y dpu-heartbeat-{machine.name}", 60 * SLOW)
        mine = [f"/etc/dpu-heartbeat/{file}" for file in ("ca.crt", "kubeconfig", "token")]
        kept = [line for line in machine.sh(left, 20 * SLOW).splitlines() if line.startswith("/")]
        assert kept == sorted(["/etc/dpu-heartbeat", *mine, *keeps]), kept
    assert pair.dpu.sh("stat -c %U /etc/dpu-heartbeat/token") == "dpu-heartbeat"  # nobody else gets its number
    for machine in pair:
        pair.install(machine)
    pair.wait_ready()
