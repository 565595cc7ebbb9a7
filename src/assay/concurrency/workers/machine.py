"""The cores and the memory that this process may use. A container or a CPU mask may allow less than the machine has."""

import os
from pathlib import Path

ROOT = Path("/")


def available_cores(root: Path = ROOT) -> int:
    """
    The cores of the machine, of the CPU mask of this process, or of its cgroup quota: the smallest number, 1 at least.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        cores = os.cpu_count() or 1
    for folder in _cgroups(root):
        if quota := _quota(folder):
            cores = min(cores, max(1, int(quota)))
    return max(1, cores)


def available_memory(root: Path = ROOT) -> int | None:
    """The bytes that this process may still use: of the machine, or of its cgroup. None if the system does not say."""
    found = list[int]()
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    for folder in _cgroups(root):
        for limit, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most, now = _text(folder / limit), _text(folder / used)
            if most.isdigit() and now.isdigit():
                found.append(max(0, int(most) - int(now) + _file_cache(folder)))
    return min(found, default=None)


def _file_cache(folder: Path) -> int:
    """The bytes of files that the system can drop; a cgroup counts them as used."""
    lines = (line.split() for line in _text(folder / "memory.stat").splitlines())
    return next((int(line[1]) for line in lines if line[0] in ("inactive_file", "total_inactive_file")), 0)


def _quota(folder: Path) -> float | None:
    """The cores of a CPU quota; None without one."""
    parts = _text(folder / "cpu.max").split()  # version 2: "200000 100000" or "max 100000"
    if len(parts) == 2 and parts[0].isdigit() and parts[1].isdigit() and int(parts[1]):
        return int(parts[0]) / int(parts[1])
    most, period = (_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))  # version 1
    return int(most) / int(period) if most.isdigit() and period.isdigit() and int(period) else None


def _cgroups(root: Path) -> list[Path]:
    """
    The folders of the cgroups of this process and of those above it, versions 1 and 2. A container sees its own as the
    root.
    """
    base = root / "sys/fs/cgroup"
    folders = dict.fromkeys([base, base / "cpu", base / "memory"])
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        parts = [part for part in path.split("/") if part not in ("", ".", "..")]
        for name in controllers.split(",") if controllers else [""]:
            for depth in range(1, len(parts) + 1):
                folders[base.joinpath(name, *parts[:depth])] = None
    return list(folders)


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def default_size() -> int:
    """The default limit: one worker per core that this process may use, and one that a single owner cannot hold."""
    return available_cores() + 1
