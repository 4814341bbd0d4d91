"""Every stored notebook is sound, and an unsound one is noticed."""

import copy
from collections import Counter
from pathlib import Path

import execute
import exercise_hygiene
import exercise_samples
import hygiene
import pytest
import samples
import yaml
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "chapters").rglob("*.ipynb"))
EXERCISES = [path for path in NOTEBOOKS if path.stem.endswith("-exercises")]
CHECKS = {
    check.__name__: check
    for check in (
        *hygiene.CHECKS,
        *hygiene.CHAPTER_CHECKS,
        *exercise_hygiene.CHECKS,
    )
}


def checks_of(path: Path) -> list[str]:
    """What a notebook is looked at for: a chapter, or a chapter's exercises."""
    special = (
        exercise_hygiene.CHECKS
        if path in EXERCISES
        else hygiene.CHAPTER_CHECKS
    )
    return [check.__name__ for check in (*hygiene.CHECKS, *special)]


each_notebook = pytest.mark.parametrize(
    "path", NOTEBOOKS, ids=lambda path: path.stem
)


def pages_of_toc() -> list[str]:
    """Every page that _toc.yml names."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))

    def files(node: object) -> list[str]:
        if isinstance(node, list):
            return [name for entry in node for name in files(entry)]
        if not isinstance(node, dict):
            return []
        own = [node["file"]] if "file" in node else []
        return own + [
            name for value in node.values() for name in files(value)
        ]

    return [toc["root"], *files(toc)]


def test_the_contents_list_every_notebook_and_each_exists():
    pages = pages_of_toc()
    missing = [page for page in pages if not list(ROOT.glob(f"{page}.*"))]
    listed = {
        ROOT / f"{page}.ipynb"
        for page in pages
        if (ROOT / f"{page}.ipynb").exists()
    }
    assert not missing
    assert listed, "the book has no chapter that is executed"
    assert listed == set(NOTEBOOKS)


@pytest.mark.parametrize(
    ("path", "check"),
    [(path, check) for path in NOTEBOOKS for check in checks_of(path)],
    ids=lambda value: value.stem if isinstance(value, Path) else value,
)
def test_a_notebook_is_sound(path: Path, check: str):
    assert CHECKS[check](execute.load(path)) == []


@each_notebook
def test_a_notebook_is_stored_in_its_normal_form(path: Path):
    # As make run would write it: no timing, no editor's view, sorted keys, one newline at the end.
    expected = execute.dumps(execute.normalise(execute.load(path)))
    assert path.read_text(encoding="utf-8") == expected, "run make format"


def test_no_output_is_kept_from_comparison():
    assert hygiene.UNCOMPARED == {}


def test_no_two_figures_share_an_alt_text():
    alts = Counter(
        " ".join(hygiene.alt_text(cell).lower().split())
        for path in NOTEBOOKS
        for _, cell in hygiene.code_cells(execute.load(path))
        if hygiene.has_image(cell)
    )
    assert [alt for alt, count in alts.items() if count > 1] == []


def test_no_two_pages_share_a_label():
    labels = Counter(
        label
        for path in NOTEBOOKS
        for label in hygiene.labels(execute.load(path))
    )
    assert [label for label, count in labels.items() if count > 1] == []


def test_no_two_pages_share_a_description():
    descriptions = Counter(
        hygiene.description_of(execute.load(path)) for path in NOTEBOOKS
    )
    assert [text for text, count in descriptions.items() if count > 1] == []


# ------------------------------------------------------------------------------ the checks notice
@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    """The small notebook, executed."""
    return execute.execute(
        samples.sound_notebook(), tmp_path_factory.mktemp("kernel")
    )


@pytest.fixture(scope="module", params=["small", "chapter"])
def original(request: pytest.FixtureRequest) -> NotebookNode:
    """A sound notebook: the small one, then the book's first."""
    if request.param == "small":
        return request.getfixturevalue("sound")
    chapters = [path for path in NOTEBOOKS if path not in EXERCISES]
    assert chapters, "the book has no chapter that is executed"
    return execute.load(chapters[0])


def test_the_original_is_sound(original: NotebookNode):
    assert [
        complaint
        for check in (*hygiene.CHECKS, *hygiene.CHAPTER_CHECKS)
        for complaint in check(original)
    ] == []
    assert execute.normalise(original) == original


@pytest.mark.parametrize("fault", samples.HYGIENE_REJECTS)
def test_a_planted_fault_is_noticed(original: NotebookNode, fault: str):
    check, edit = samples.HYGIENE_REJECTS[fault]
    assert CHECKS[check](samples.plant(original, edit)) != []


@pytest.mark.parametrize("fault", samples.FORM_REJECTS)
def test_what_an_editor_leaves_behind_is_noticed(
    original: NotebookNode, fault: str
):
    spoilt = samples.plant(original, samples.FORM_REJECTS[fault])
    assert execute.normalise(spoilt) != spoilt


def test_a_chapter_too_short_or_without_title_or_description_is_noticed(
    sound: NotebookNode,
):
    short, untitled, undescribed = (copy.deepcopy(sound) for _ in range(3))
    del short.cells[14:]
    untitled.cells[0].source = "A small chapter"
    del undescribed.metadata["myst"]
    assert hygiene.chapter_length(short)
    assert hygiene.opening(untitled)
    assert hygiene.opening(undescribed)


@pytest.fixture
def exercises() -> NotebookNode:
    """The small notebook of exercises."""
    return exercise_samples.sound_notebook()


def test_the_small_exercises_are_sound(exercises: NotebookNode):
    assert {
        check.__name__: complaints
        for check in exercise_hygiene.CHECKS
        if (complaints := check(exercises))
    } == {}


@pytest.mark.parametrize("fault", exercise_samples.REJECTS)
def test_a_fault_planted_in_exercises_is_noticed(
    exercises: NotebookNode, fault: str
):
    check, edit = exercise_samples.REJECTS[fault]
    assert CHECKS[check](exercise_samples.plant(exercises, edit)) != []


def test_two_figures_with_one_alt_text_are_noticed(sound: NotebookNode):
    doubled = copy.deepcopy(sound)
    doubled.cells.append(doubled.cells[5])
    assert hygiene.alt_texts_differ(doubled)


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("(sec-scale)=\n## Scale", "sec-scale"),
        ("$$\nx = y\n$$ (eq-scale)", "eq-scale"),
        ("```{math}\n:label: eq-shift\nx\n```", "eq-shift"),
        (
            ":::{prf:theorem} Shift\n:label: thm-shift\n\nText.\n:::",
            "thm-shift",
        ),
    ],
)
def test_labels_are_found_in_each_of_their_forms(source: str, label: str):
    cell = {"cell_type": "markdown", "source": source}
    assert hygiene.labels(NotebookNode(cells=[NotebookNode(cell)])) == [
        label
    ]
