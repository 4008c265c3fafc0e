"""On what a run was measured; goes into the raw results."""

import os
import platform
import ssl
import subprocess
from importlib import metadata
from pathlib import Path

from benchmarks.generator import REPOSITORY
from benchmarks.scenarios.scenario import program

_VERSIONS = {
    "openssh": ("ssh", "-V"),
    "nginx": ("nginx", "-v"),
    "commit": ("git", "-C", str(REPOSITORY), "rev-parse", "HEAD"),
}


def machine() -> dict[str, object]:
    """Processor, kernel, interpreter, and the versions of what is compared."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "uvloop": _installed("uvloop"),
        **{name: _output(*argv) for name, argv in _VERSIONS.items()},
        "load_before": os.getloadavg()[0],
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _output(name: str, *arguments: str) -> str | None:
    if not (path := program(name)):
        return None
    answer = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=10, check=False)
    return (answer.stdout or answer.stderr).strip()
