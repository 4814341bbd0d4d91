"""The workflows are sound, ask for little, end, and run commands that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROGRAMS = Path(sys.executable).parent
PINNED = re.compile(r"^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
WRITES = {
    ("publish", "deploy"): {"pages", "id-token"},
    ("publish", "editions"): {"contents"},
    ("release", "release"): {"contents"},
}

each_workflow = pytest.mark.parametrize(
    "path", WORKFLOWS, ids=lambda path: path.stem
)


def load(path: Path) -> dict[str, Any]:
    """Read a workflow; YAML takes its key `on` for a boolean."""
    workflow = yaml.safe_load(path.read_text("utf-8"))
    workflow["on"] = workflow.pop(True)
    return workflow


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield workflow, name and contents of every job."""
    for path in WORKFLOWS:
        for name, job in load(path)["jobs"].items():
            yield path.stem, name, job


def commands() -> Iterator[str]:
    """Yield what every step runs."""
    for _, _, job in jobs():
        yield from (s["run"] for s in job.get("steps", []) if "run" in s)


def says(*command: str | Path) -> tuple[int, str]:
    """Run a checker on the repository; return its status and its words."""
    done = subprocess.run(
        [PROGRAMS / command[0], *command[1:]],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    return done.returncode, done.stdout


def test_there_are_workflows_for_tests_and_publishing() -> None:
    assert {path.stem for path in WORKFLOWS} == {
        "mutation",
        "publish",
        "release",
        "test",
        "weekly",
    }


def test_zizmor_finds_nothing() -> None:
    status, words = says("zizmor", "--offline", "--no-progress", ".github")
    assert status == 0, words


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        *(("vendor.github-workflows", str(path)) for path in WORKFLOWS),
        ("vendor.dependabot", ".github/dependabot.yml"),
        ("vendor.citation-file-format", "CITATION.cff"),
    ],
)
def test_a_file_fits_its_schema(schema: str, file: str) -> None:
    status, words = says(
        "check-jsonschema", "--builtin-schema", schema, file
    )
    assert status == 0, words


@each_workflow
def test_a_workflow_may_only_read_unless_a_job_says_so(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        granted = job.get("permissions", {}).items()
        writes = {scope for scope, access in granted if access != "read"}
        assert writes == WRITES.get((path.stem, name), set()), name


@each_workflow
def test_a_workflow_does_not_run_beside_itself(path: Path) -> None:
    concurrency = load(path)["concurrency"]
    assert concurrency["group"]
    assert "cancel-in-progress" in concurrency


def test_every_job_ends_in_time() -> None:
    endless = [
        (workflow, name)
        for workflow, name, job in jobs()
        # A job that calls another workflow takes the times of its jobs.
        if "uses" not in job and not 0 < job.get("timeout-minutes", 0) <= 180
    ]
    assert endless == []


@each_workflow
def test_every_action_is_pinned_to_the_commit_of_a_release(
    path: Path,
) -> None:
    used = re.findall(r"uses: (.*)", path.read_text("utf-8"))
    foreign = [name for name in used if not name.startswith("./")]
    assert [name for name in foreign if not PINNED.match(name)] == []


def test_an_action_is_pinned_to_one_commit_everywhere() -> None:
    used = {
        name
        for path in WORKFLOWS
        for name in re.findall(r"uses: ([^.].*)", path.read_text("utf-8"))
    }
    assert len(used) == len({name.partition("@")[0] for name in used})


def test_no_checkout_leaves_its_token_behind() -> None:
    checkouts = [
        step["with"]
        for _, _, job in jobs()
        for step in job.get("steps", [])
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert checkouts
    assert all(c["persist-credentials"] is False for c in checkouts)


def test_every_target_of_make_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    wanted = {
        target
        for command in commands()
        for words in re.findall(r"\bmake((?: [\w-]+)+)", command)
        for target in words.split()
    }
    assert wanted
    assert wanted - targets == set()


def test_every_file_that_is_run_exists() -> None:
    files = {
        name
        for command in commands()
        for name in re.findall(r"(?<![\w./])(?:tools|\.ci)/[\w.]+", command)
    }
    assert files == {".ci/run", "tools/versions.py"}
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_no_workflow_times_anything() -> None:
    assert [c for c in commands() if "bench" in c] == []


def test_the_book_is_published_only_after_its_tests() -> None:
    publish = load(ROOT / ".github" / "workflows" / "publish.yml")["jobs"]
    assert publish["test"]["uses"] == "./.github/workflows/test.yml"
    assert publish["build"]["needs"] == "test"
    assert publish["editions"]["needs"] == "build"
    assert publish["deploy"]["needs"] == ["build", "editions"]


def test_the_matrix_tries_every_system_python_and_age() -> None:
    matrix = load(ROOT / ".github" / "workflows" / "test.yml")["jobs"][
        "versions"
    ]["strategy"]["matrix"]
    assert {s.partition("-")[0] for s in matrix["system"]} == {
        "macos",
        "ubuntu",
        "windows",
    }
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    ages = {entry["packages"] for entry in matrix["include"]}
    assert ages | set(matrix["packages"]) == {"lock", "newest", "oldest"}


def test_every_name_in_an_expression_is_defined() -> None:
    for workflow, name, job in jobs():
        text = yaml.safe_dump(job)
        used = {
            kind: set(re.findall(rf"\b{kind}\.([\w-]+)", text))
            for kind in ("steps", "matrix")
        }
        matrix = job.get("strategy", {}).get("matrix", {})
        keys = set(matrix).union(*matrix.get("include", []))
        ids = {step["id"] for step in job.get("steps", []) if "id" in step}
        assert used["matrix"] <= keys, (workflow, name)
        assert used["steps"] <= ids, (workflow, name)


# ------------------------------------------------------------------------- the checkers do look
SCHEMA = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"]
ZIZMOR = ["zizmor", "--offline", "--no-progress"]


@pytest.mark.parametrize(
    ("checker", "old", "new"),
    [
        (SCHEMA, "timeout-minutes:", "timeout:"),
        (SCHEMA, "needs: build", "needs: 3"),
        (ZIZMOR, "          persist-credentials: false\n", ""),
        (ZIZMOR, "contents: read\n\n", "contents: write\n\n"),
        (ZIZMOR, "run: make colab", "run: echo ${{ github.head_ref }}"),
        (ZIZMOR, "@fc324d3547104276b827a68afc52ff2a11cc49c9", "@v5"),
    ],
)
def test_a_planted_fault_is_noticed(
    tmp_path: Path, checker: list[str], old: str, new: str
) -> None:
    workflows = shutil.copytree(
        ROOT / ".github" / "workflows", tmp_path / ".github" / "workflows"
    )
    file = workflows / "publish.yml"
    assert says(*checker, file)[0] == 0
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")
    status, words = says(*checker, file)
    assert status != 0, words
