"""Run the cases of ONNX and PyTorch through the package, and print how many pass.

python tools/conformance.py           print the table
python tools/conformance.py --write   also store the counts, which a page of the book shows
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "chapters" / "evidence" / "conformance.json"


def table(results: dict[str, Any]) -> str:
    """Lay the counts out for reading."""
    releases = ", ".join(f"{n} {v}" for n, v in results["versions"].items())
    lines = [
        f"Cases of {releases}",
        f"{'':40}{'passed':>12}{'direct':>8}{'composed':>10}{'drawn':>7}",
    ]
    for suite in results["suites"]:
        lines.append(suite["name"])
        for way, tally in suite["ways"].items():
            passed = f"{tally['passed']} of {suite['cases']}"
            drawn = tally["dropout under the same draws"]
            lines.append(
                f"  {way:38}{passed:>12}{tally['direct']:>8}"
                f"{tally['composed']:>10}{drawn:>7}"
            )
            lines += [
                f"    {count:>4} x {kind}"
                for kind, count in tally["composed of"].items()
            ]
            lines += [f"    failed: {case}" for case in tally["failed"]]
    return "\n".join(lines)


def main() -> int:
    """Print, store if told so, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    sys.path.insert(0, str(ROOT / "tests" / "conformance"))
    from suites import results

    computed = results()
    print(table(computed))
    if write:
        STORED.parent.mkdir(exist_ok=True)
        text = json.dumps(computed, indent=1, ensure_ascii=False)
        STORED.write_text(f"{text}\n", encoding="utf-8")
        print(f"Written: {STORED.relative_to(ROOT)}")
    failed = [
        case
        for suite in computed["suites"]
        for tally in suite["ways"].values()
        for case in tally["failed"]
    ]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
