"""Commands that are interrupted while they train."""

import signal
import subprocess
import sys
import time
from pathlib import Path


def interrupted(arguments: list[str], log: str = "run/log.jsonl") -> tuple[int, str, str]:
    """The exit code, output and errors of a command that gets SIGINT as soon as its log exists."""
    command = [sys.executable, "-m", "untwine", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not Path(log).exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err
