"""How many cores there are: what a process is bound to, what its container allows, what it was told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unskew.errors import InputError
from unskew.machine.cores import container_quota, cores


def files(root: Path, content: dict[str, str]) -> Path:
    for name, text in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("content", "quota"),
    [
        ({"proc/self/cgroup": "0::/\n", "cg/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/\n", "cg/cpu.max": "max 100000\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "cg/a/b/cpu.max": "max 100000",
                "cg/a/cpu.max": "200000 100000",
            },
            2,
        ),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "cg/a/b/cpu.max": "400000 100000",
                "cg/cpu.max": "300000 100000",
            },
            3,
        ),
        ({"proc/self/cgroup": "0::/not/mounted/here\n", "cg/cpu.max": "50000 100000"}, 0.5),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/docker/1\n",
                "cg/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
                "cg/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/job/7\n",
                "cg/cpu/job/cpu.cfs_quota_us": "100000",
                "cg/cpu/job/cpu.cfs_period_us": "50000",
                "cg/cpu/cpu.cfs_quota_us": "-1",
                "cg/cpu/cpu.cfs_period_us": "100000",
            },
            2,
        ),
        ({"proc/self/cgroup": "nonsense\n0::/\n", "cg/cpu.max": "x y z\n"}, None),
        ({"proc/other": ""}, None),
    ],
)
def test_a_containers_quota_is_read(content: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    """Both versions of control groups, the tightest of a group and those above it."""
    root = files(tmp_path, content)
    assert container_quota(root / "proc", root / "cg") == quota


def test_a_quota_a_binding_and_a_limit_each_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of them, at least one, a part of a core as a whole one."""
    monkeypatch.delenv("UNSKEW_CORES", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for quota, found in ((None, 8), (1.5, 2), (0.2, 1), (64.0, 8)):
        monkeypatch.setattr("unskew.machine.cores.container_quota", lambda quota=quota: quota)
        assert cores() == found
    monkeypatch.setenv("UNSKEW_CORES", "3")
    assert cores() == 3
    for wrong in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv("UNSKEW_CORES", wrong)
        with pytest.raises(InputError, match="UNSKEW_CORES is a number of cores, at least 1, not"):
            cores()
