"""What a result was measured on: hardware, threads, versions. No names of hosts, people or folders."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import torch

DISTRIBUTIONS = ("lightning-thunder", "torch", "apache-tvm-ffi", "numpy")


def machine() -> dict:
    """A JSON object that goes with every result file."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in DISTRIBUTIONS},
        "commit": commit(),
    }


def cpu_model() -> str:
    """As the kernel names it, else what Python knows."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def commit() -> str | None:
    """The checkout's commit, None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
