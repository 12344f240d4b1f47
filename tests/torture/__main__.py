"""Torture: kill, flip, cut, fill the disk, and see whether anything is lost.

`python -m tests.torture` tries all of it; `--short` some of it; `--only` a part; `--add` adds what is found to the
numbers that are stored. A try follows from the seed and its number, and is repeated by the command that is printed.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: forks need a process without threads
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # whether there is a GPU, without beginning to use it

from tests.torture.running import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
