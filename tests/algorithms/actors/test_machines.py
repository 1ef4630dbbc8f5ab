"""Two machines in a network: each has its own processes, memory and folder for temporary files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from machines import HOME, Machine, can_make, network
from test_losses import ROLLOUT, command, matches, weights

from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not can_make(), reason="needs root, ip, unshare and nsenter")]

BIN = Path(sys.executable).parent
EXAMPLES = ROOT / "examples" / "cluster"
SECRET = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-these-machines-only-0123456789ab"}


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    pytest.importorskip("ray")
    with network(2) as both:
        yield both


def join(machine: Machine, head: Machine, **secret: str) -> str:
    where = ["--head", "--port=6379", "--include-dashboard=false"]
    where = where if machine is head else [f"--address={head.address}:6379"]
    start = [str(BIN / "ray"), "start", "--num-cpus=1", f"--node-ip-address={machine.address}", *where]
    return machine.run(*start, variables=SECRET | secret)


def test_two_machines_learn_what_one_process_learns_until_one_loses_its_power(
    machines: list[Machine], tmp_path: Path
) -> None:
    here, other = machines
    join(here, here)
    with pytest.raises(AssertionError, match="token is missing or incorrect"):
        join(other, here, RAY_AUTH_TOKEN="of-somebody-else-0123456789abcdef01")
    join(other, here)
    alone = tmp_path / "alone"
    subprocess.run(command(alone), check=True)
    # Only the first machine has this folder: the other one gets the opponents' files from the learner.
    theirs = Path("/tmp/runs")
    cluster = SECRET | {"RAY_ADDRESS": f"{here.address}:6379"}
    here.run(*command(theirs, "--distribute"), variables=cluster)
    packed = here.run("sh", "-c", f"tar c -C {theirs} . | base64")
    subprocess.run(["sh", "-c", "base64 -d | tar x"], input=packed, text=True, cwd=tmp_path, check=True)
    assert weights(tmp_path) == weights(alone)
    assert matches(tmp_path) == matches(alone)
    # Its cable is pulled in the middle of another run, which goes on with one actor, and counts only what that plays.
    run = subprocess.Popen(
        here.command(*command(theirs, "--distribute", "--seed", "6")),
        env={**os.environ, "HOME": HOME, **cluster},
        stderr=subprocess.PIPE,
        text=True,
    )
    here.run("sh", "-c", f"until ls {theirs}/*/NhEnv_2/checkpoints/*.zip; do sleep 0.1; done")
    other.unplug()
    _, errors = run.communicate(timeout=600)
    assert run.returncode == 0, errors
    assert re.search("actor [01] (hangs|has died)", errors)
    steps = here.run("sh", "-c", f"ls {theirs}/*/NhEnv_2/checkpoints")
    assert any(int(each) % ROLLOUT == ROLLOUT // 2 for each in re.findall(r"main_(\d+)_steps", steps)), steps


def test_hosts_yml_brings_up_a_cluster(
    machines: list[Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/usr/sbin/sshd").exists() or not shutil.which("rsync"):
        pytest.skip("needs sshd and rsync")
    here, other = machines
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):  # as the files say, and not as all tests here
        monkeypatch.delenv(name, raising=False)
    for name in ("machine", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    options = ["HostKey=/tmp/machine", "AuthorizedKeysFile=/tmp/allowed", "StrictModes=no", "PidFile=none", "UsePAM=no"]
    for machine in machines:
        machine.write("/tmp/machine", (tmp_path / "machine").read_text())
        machine.write("/tmp/allowed", (tmp_path / "user.pub").read_text())
        machine.run("mkdir", "-p", "/run/sshd")
        machine.run("/usr/sbin/sshd", *(word for option in options for word in ("-o", option)))
    here.write("/tmp/user", (tmp_path / "user").read_text())
    here.write("/tmp/dist/sb3_pvp-0-py3-none-any.whl", "not installed: there is no way out of this network")
    config = yaml.safe_load((EXAMPLES / "hosts.yml").read_text())
    config["provider"] |= {"head_ip": here.address, "worker_ips": [other.address]}
    config |= {"min_workers": 1, "max_workers": 1, "auth": {"ssh_user": "root", "ssh_private_key": "/tmp/user"}}
    config["file_mounts"]["~/dist"] = "/tmp/dist"
    *_, activate = config["setup_commands"]
    config["setup_commands"] = [f"mkdir -p ~/sb3-pvp/bin; ln -sf {BIN}/activate ~/sb3-pvp/bin/activate", activate]
    here.write("/tmp/hosts.yml", yaml.safe_dump(config))
    # As on the page docs/distributed.md.
    ray = str(BIN / "ray")
    here.run(ray, "get-auth-token", "--generate")
    here.run(ray, "up", "--yes", "/tmp/hosts.yml", variables={"RAY_UP_enable_autoscaler_v2": "0"})
    deadline = time.monotonic() + 120.0
    while "2 local.cluster.node" not in (status := here.run(ray, "exec", "/tmp/hosts.yml", "ray status")):
        assert time.monotonic() < deadline, status
        time.sleep(2.0)
    here.run(ray, "down", "--yes", "/tmp/hosts.yml")
    assert "raylet/raylet" not in here.run("ps", "ax")
