"""Time the package beside what a user would pick instead, and check the goals.

python benchmarks/bench.py             the goals, then a range of lengths
python benchmarks/bench.py --goals     the goals alone (about four minutes on two cores)
python benchmarks/bench.py --write     also store the results, and draw them for the book (with
                                       --goals, the range keeps what is stored)

All contenders of a setting run in one process, one after the other, in a random order in each
round, so that a busy moment of the machine meets all of them; what counts is the ratio within a
round. The process has one thread. The C allocator would otherwise map large arrays anew at each
call, which costs more than some of the arithmetic: it is told to keep them, and the ratios with its
own habits are given beside. Memory is measured apart, one process for each contender, with them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contenders import OURS, Call, Setting, contenders
from plot import RESULTS, draw

KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "67108864",
}
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
)
MODULE = "nn.MultiheadAttention"
BARE = "the matrix products alone"


@dataclass(frozen=True)
class Goal:
    """An upper limit for the ratio of our time to that of the fastest of some contenders."""

    setting: Setting
    against: tuple[str, ...]
    limit: float


WITHOUT = (
    f"{MODULE}, no weights, slow path",
    f"{MODULE}, no weights, fast path",
)
DEFAULT = (f"{MODULE}, as called by default",)
LAYER = Setting("layer")
GOALS = [
    Goal(LAYER, WITHOUT, 0.95),
    Goal(LAYER, DEFAULT, 0.90),
    Goal(LAYER, (BARE,), 1 / 0.85),
    Goal(replace(LAYER, causal=True), DEFAULT, 0.70),
    Goal(replace(LAYER, training=True), WITHOUT[:1], 0.97),
    Goal(replace(LAYER, training=True), (BARE,), 1 / 0.90),
    Goal(
        replace(LAYER, weights=True), (f"{MODULE}, weights per head",), 1.0
    ),
    Goal(Setting("function"), ("PyTorch",), 1.02),
    Goal(Setting("numpy", batch=2), ("textbook",), 0.90),
]


def sweep(device: str) -> list[Setting]:
    """Return the settings over which lengths, dtypes and kinds of work are compared."""
    sizes = [(8, 128), (8, 512), (4, 1024), (1, 2048), (1, 4096)]
    if device == "cuda":
        sizes = [(b * 4, n) for b, n in sizes]
    return [
        Setting(
            kind,
            batch=batch,
            length=length,
            dtype=dtype,
            device=device,
            training=training,
        )
        for kind in ("function", "layer")
        for dtype in ("float32", "bfloat16")
        for training in (False, True)
        for batch, length in sizes
    ]


# --- in the child


def time_rounds(setting: Setting, seconds: float) -> dict[str, list[float]]:
    """Time every contender once a round, for that long and at least for eight rounds."""
    torch.set_num_threads(1)
    calls = contenders(setting)
    order = random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():  # warm
        call()
    start = time.perf_counter()
    while (
        len(times[OURS]) < 8 or time.perf_counter() - start < seconds
    ) and len(times[OURS]) < 200:
        for name in order.sample(sorted(calls), len(calls)):
            times[name].append(time_once(calls[name], setting.device))
    return times


def time_once(call: Call, device: str) -> float:
    """Return the seconds of one call, on a GPU as its own clock sees them."""
    if device == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1000
    begin_s = time.perf_counter()
    call()
    return time.perf_counter() - begin_s


def peak_memory(setting: Setting, name: str) -> float:
    """Return by how many MB the memory in use grows at most during a call."""
    torch.set_num_threads(1)
    call = contenders(setting)[name]
    small = contenders(replace(setting, length=16, batch=1))[name]
    small()  # libraries load what they need at the first call
    if setting.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # forget the peak
    before = resident("VmRSS")
    call()
    return max(0.0, resident("VmHWM") - before)


def resident(field: str) -> float:
    """Return the process's memory now (VmRSS) or at its peak (VmHWM), in MB."""
    status = Path("/proc/self/status").read_text("ascii")
    (line,) = (x for x in status.splitlines() if x.startswith(field))
    return int(line.split()[1]) * 1024 / 1e6


def child(task: dict[str, Any]) -> Any:
    """Do one task that the parent sent, and return what is to be sent back."""
    setting = Setting(**task["setting"])
    if "memory" in task:
        return peak_memory(setting, task["memory"])
    return time_rounds(setting, task["seconds"])


# --- in the parent


def ask(task: dict[str, Any], environment: dict[str, str]) -> Any:
    """Run a task in a process of its own and return its result."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps(task)],
        env=os.environ | ONE_THREAD | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"a benchmark failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(setting: Setting, seconds: float) -> dict[str, Any]:
    """Return, for each contender, its time, our time as a ratio to it, and its memory."""
    task = {"setting": asdict(setting), "seconds": seconds}
    kept = ask(task, KEEP_MEMORY)
    # A GPU has no such allocator.
    plain = ask(task, {}) if setting.device == "cpu" else None
    rows = {}
    for name, times in kept.items():
        low, middle, high = quartiles(
            [
                ours / other
                for ours, other in zip(kept[OURS], times, strict=True)
            ]
        )
        row: dict[str, Any] = {
            "milliseconds": significant(1000 * statistics.median(times)),
            "ratio": significant(middle),
            "quartiles": [significant(low), significant(high)],
        }
        if plain is not None:
            pairs = zip(plain[OURS], plain[name], strict=True)
            row["ratio with the default allocator"] = significant(
                statistics.median(ours / other for ours, other in pairs)
            )
        if setting.kind != "numpy":
            memory = ask({"setting": asdict(setting), "memory": name}, {})
            row["megabytes"] = significant(memory)
        rows[name] = row
    return {
        "setting": asdict(setting),
        "rounds": len(kept[OURS]),
        "contenders": rows,
    }


def quartiles(numbers: list[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    low, middle, high = statistics.quantiles(numbers, n=4)
    return low, middle, high


def significant(number: float) -> float:
    """Round to three significant digits, as more would be noise."""
    return float(f"{number:.3g}")


def judge(goal: Goal, result: dict[str, Any]) -> dict[str, Any]:
    """Compare our time with that of the fastest contender named by a goal."""
    rows = {name: result["contenders"][name] for name in goal.against}
    against = min(rows, key=lambda name: rows[name]["milliseconds"])
    return {
        "setting": str(goal.setting),
        "against": against,
        "limit": significant(goal.limit),
        "ratio": rows[against]["ratio"],
        "quartiles": rows[against]["quartiles"],
        "holds": rows[against]["ratio"] <= goal.limit,
    }


def machine() -> dict[str, str]:
    """Name what was measured on."""
    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        if line.startswith("model name")
    ]
    found = {
        "processor": f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores",
        "Python": platform.python_version(),
        "PyTorch": torch.__version__.split("+")[0],
        "NumPy": np.__version__,
    }
    if torch.cuda.is_available():
        found["GPU"] = torch.cuda.get_device_name()
    return found


def show(result: dict[str, Any]) -> None:
    """Print the contenders of one setting, one a line."""
    print(f"\n{Setting(**result['setting'])} ({result['rounds']} rounds)")
    for name, row in result["contenders"].items():
        low, high = row["quartiles"]
        memory = f"{row['megabytes']:7g} MB" if "megabytes" in row else ""
        print(
            f"  {name:46} {row['milliseconds']:8g} ms   ours/this "
            f"{row['ratio']:6g} ({low:g} to {high:g}) {memory}",
            flush=True,
        )


def main() -> None:
    """Measure, print, and store where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--goals", action="store_true", help="the goals alone"
    )
    parser.add_argument(
        "--write", action="store_true", help="store the results"
    )
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="for each goal's setting"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(json.loads(options.child))))
        return

    print(*(f"{k} {v}" for k, v in machine().items()), sep="; ")
    results = {}
    for setting in dict.fromkeys(goal.setting for goal in GOALS):
        results[setting] = compare(setting, options.seconds)
        show(results[setting])
    goals = [judge(goal, results[goal.setting]) for goal in GOALS]
    ranges = []
    if options.goals and options.write:
        ranges = json.loads(RESULTS.read_text("utf-8"))["sweep"]
    if not options.goals:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        for setting in sweep(device):
            ranges.append(compare(setting, 2.0))
            show(ranges[-1])
    print("\nGoals: our time as a ratio to another's")
    for goal in goals:
        word = "holds " if goal["holds"] else "MISSED"
        low, high = goal["quartiles"]
        print(
            f"  {word} {goal['ratio']:6g} ({low:g} to {high:g}), at most {goal['limit']:g}: "
            f"{goal['setting']}; against {goal['against']}"
        )
    if options.write:
        stored = {
            "machine": machine(),
            "goals": goals,
            "settings": list(results.values()),
            "sweep": ranges,
        }
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
        draw(stored)


if __name__ == "__main__":
    main()
