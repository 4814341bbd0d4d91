"""With --lax, nbval lets rounding and wording of errors differ, and nothing else."""

import importlib.util
from pathlib import Path

import execute
import pytest
import samples
from nbformat import NotebookNode
from test_notebook_judge import judge

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location(
    "lax", ROOT / "chapters" / "conftest.py"
)
lax = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lax)


@pytest.mark.parametrize(
    ("stored", "computed"),
    [
        ("loss 0.1234", "loss 0.1235"),
        ("loss 12.34", "loss 12.35"),
        ("[ 0.5  -0.0001]", "[ 0.5 0.0000]"),
        ("0.1", "np.float64(0.1)"),
        ("largest difference 2.2e-16", "largest difference 4.4e-16"),
        ("a  b\n", "a b\n"),
        ("no type c10::Half", "no type at::Half"),
    ],
)
def test_what_rounding_and_layout_change_is_alike(
    stored: str, computed: str
):
    assert lax.Alike(stored) == lax.Alike(computed)
    # nbval asks so.
    assert (lax.Alike(stored) != lax.Alike(computed)) is False


@pytest.mark.parametrize(
    ("stored", "computed"),
    [
        ("True", "False"),
        ("equal: True", "equal: False"),
        ("5 heads", "6 heads"),
        ("shape (2, 3)", "shape (2, 4)"),
        ("100000", "100001"),
        ("loss 0.1234", "loss 0.1240"),
        ("loss 12.34", "loss 12.40"),
        ("0.5", "nan"),
        ("1.0", "1.0 2.0"),
        ("1.0 2.0", "1.0"),
        ("-0.5", "0.5"),
        ("1e-3", "1e-2"),
        ("word", "work"),
        ("a\n", "a\nb\n"),
        ("np.float64(0.1)", "np.float64(0.2)"),
    ],
)
def test_what_else_changes_is_not_alike(stored: str, computed: str):
    assert lax.Alike(stored) != lax.Alike(computed)
    assert (lax.Alike(stored) == lax.Alike(computed)) is False


def rounded(cell: NotebookNode) -> bool:
    """A digit that another machine might round otherwise."""
    if not cell.outputs or "0.6931" not in cell.outputs[0].get("text", ""):
        return False
    cell.outputs[0].text = "0.6932\n"
    return True


def another_number(cell: NotebookNode) -> bool:
    """A number that no rounding gives."""
    return rounded(cell) and cell.outputs[0].update(text="0.6941\n") is None


def another_error(cell: NotebookNode) -> bool:
    """An error of another kind."""
    for output in cell.outputs:
        if output.output_type == "error":
            output.ename = "TypeError"
            return True
    return False


DATA = """from IPython.display import display
display({"application/json": {"b": [0.3333, "key"], "a": 1}}, raw=True)"""


def rounded_data(cell: NotebookNode) -> bool:
    """A digit of a live figure's numbers that another machine might round otherwise."""
    return data_with(cell, 0.3334)


def other_data(cell: NotebookNode) -> bool:
    """A number of a live figure that no rounding gives."""
    return data_with(cell, 0.3343)


def data_with(cell: NotebookNode, number: float) -> bool:
    for output in cell.outputs:
        if data := output.get("data", {}).get("application/json"):
            data["b"][0] = number
            return True
    return False


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """One lax run over the small notebook and a changed copy for each change."""
    folder = tmp_path_factory.mktemp("lax")
    sound = samples.sound_notebook()
    sound.cells[-1].source = DATA
    sound = execute.execute(sound, folder)
    changes = [
        rounded_data,
        other_data,
        rounded,
        another_number,
        another_error,
        samples.wrong_message,
        samples.changed_figure,
        samples.dropped_output,
        samples.failing_code,
    ]
    for change in changes:
        (folder / f"{change.__name__}.ipynb").write_text(
            execute.dumps(samples.plant(sound, change)), encoding="utf-8"
        )
    return judge(folder, "--lax")[0]


@pytest.mark.parametrize(
    "change", ["rounded", "rounded_data", "wrong_message", "changed_figure"]
)
def test_a_change_of_versions_passes(
    failed: dict[str, list[str]], change: str
):
    assert failed[change] == []


@pytest.mark.parametrize(
    "fault",
    [
        "another_number",
        "other_data",
        "another_error",
        "dropped_output",
        "failing_code",
    ],
)
def test_a_fault_fails_in_its_cell_alone(
    failed: dict[str, list[str]], fault: str
):
    assert len(failed[fault]) == 1
