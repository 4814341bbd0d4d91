"""The package as a reader meets it: docstrings, names, types, version, what an import costs."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import attention

MODULES = [
    "functional",
    "live",
    "masks",
    "multihead",
    "plotting",
    "positions",
    "reference",
]
ROOT = Path(__file__).resolve().parents[2]


def _module(name: str) -> Any:
    return importlib.import_module(f"attention.{name}")


def _public() -> dict[str, Any]:
    """Return every public function, class and method under its full name."""
    found = {}
    for module in MODULES:
        for name in _module(module).__all__:
            member = getattr(_module(module), name)
            if inspect.isfunction(member):
                found[f"{module}.{name}"] = member
            elif inspect.isclass(member):
                found[f"{module}.{name}"] = member
                for method, function in vars(member).items():
                    function = getattr(function, "__func__", function)
                    if inspect.isfunction(
                        function
                    ) and not method.startswith("_"):
                        found[f"{module}.{name}.{method}"] = function
    return found


PUBLIC = _public()
# What implements an equation says which, with its source; the others only move or check numbers.
CITES = {
    "reference.softmax": ["doi:10.1093/imanum/draa038"],
    "reference.log_sum_exp": ["doi:10.1093/imanum/draa038"],
    "reference.scaled_dot_product_attention": ["arXiv:1706.03762"],
    "reference.scaled_dot_product_attention_backward": ["arXiv:2205.14135"],
    "reference.multi_head_attention": [
        "arXiv:1706.03762",
        "arXiv:2305.13245",
    ],
    "reference.dropout_mask": ["JMLR 15 (2014) 1929–1958"],
    "functional.scaled_dot_product_attention": ["arXiv:1706.03762"],
    "multihead.MultiHeadAttention": [
        "arXiv:1706.03762",
        "arXiv:2305.13245",
        "PMLR 9, 249-256",
    ],
    "masks.sliding_window": ["arXiv:2004.05150"],
    "positions.frequencies": ["arXiv:1706.03762"],
    "positions.sinusoidal": ["arXiv:1706.03762"],
    "positions.rotate": ["arXiv:2104.09864"],
    "positions.rope": ["arXiv:2104.09864"],
}
HAS_EQUATION = [
    *CITES,
    "reference.softmax_jacobian",
    "masks.causal",
    "masks.padding",
    "masks.to_additive",
    "positions.half_split_order",
    "live.weights",
    "live.mask",
]
LETTERS = {
    *("B", "H", "L", "S", "E", "Ev"),
    *("d", "d_k", "d_model", "kdim", "vdim"),
}


def _sections(function: Any) -> dict[str, str]:
    """Return the text of each underlined section of a docstring."""
    doc = inspect.getdoc(function) or ""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", doc, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _parameters(function: Any) -> list[inspect.Parameter]:
    target = function.__init__ if inspect.isclass(function) else function
    parameters = inspect.signature(target).parameters.values()
    return [p for p in parameters if p.name not in ("self", "cls")]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_opens_with_one_sentence_in_one_line(name: str) -> None:
    first, *rest = (inspect.getdoc(PUBLIC[name]) or "").splitlines()
    assert first.endswith(".")
    assert not rest or rest[0] == ""


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_is_described_in_the_signatures_order(
    name: str,
) -> None:
    described = re.findall(
        r"^([*\w]+(?:, [*\w]+)*)$",
        _sections(PUBLIC[name]).get("Parameters", ""),
        re.MULTILINE,
    )
    names = [
        part.lstrip("*") for line in described for part in line.split(", ")
    ]
    assert names == [p.name for p in _parameters(PUBLIC[name])]


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_returned_and_raised_is_described(name: str) -> None:
    function, sections = PUBLIC[name], _sections(PUBLIC[name])
    assert set(sections) <= {
        "Parameters",
        "Attributes",
        "Returns",
        "Yields",
        "Raises",
        "Notes",
    }
    if inspect.isfunction(function):
        result = typing.get_type_hints(
            function, vars(inspect.getmodule(function))
        ).get("return")
        generates = inspect.isgeneratorfunction(inspect.unwrap(function))
        trivial = result is type(None) or name.endswith("extra_repr")
        assert trivial or ("Yields" if generates else "Returns") in sections
    if "raise " in inspect.getsource(function) or _parameters(function):
        assert "Raises" in sections
        assert re.search(
            r"^(\w+Error)(, \w+Error)*$", sections["Raises"], re.MULTILINE
        )


@pytest.mark.parametrize("name", HAS_EQUATION)
def test_a_function_that_implements_an_equation_shows_it(name: str) -> None:
    assert ".. math::" in (inspect.getdoc(PUBLIC[name]) or "")


@pytest.mark.parametrize("name", CITES)
def test_a_function_with_a_source_cites_it(name: str) -> None:
    notes = _sections(PUBLIC[name])["Notes"]
    assert [
        source
        for source in CITES[name]
        if source not in " ".join(notes.split())
    ] == []


def test_what_a_docstring_cites_is_in_the_bibliography() -> None:
    cited = set()
    for function in PUBLIC.values():
        doc = inspect.getdoc(function) or ""
        cited |= set(re.findall(r"arXiv:(\d{4}\.\d{5})", doc))
        cited |= set(re.findall(r"doi:([\w./]*\w)", doc))
    assert {"1706.03762", "2205.14135", "2305.13245"} <= cited
    bibliography = (ROOT / "chapters" / "references.bib").read_text("utf-8")
    assert [
        source for source in sorted(cited) if source not in bibliography
    ] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_shapes_are_written_in_the_letters_of_the_notation(
    name: str,
) -> None:
    doc = inspect.getdoc(PUBLIC[name]) or ""
    for shape in re.findall(r"\(\.\.\., ([^()]*)\)", doc):
        for size in shape.split(", "):
            known = set(re.split(r" [*/] ", size)) <= LETTERS | {
                "1",
                "2",
                "h",
            }
            in_words = size in (
                "heads",
                "length",
                "width",
            ) or size.startswith("width of ")
            assert known or in_words, f"(..., {shape}): {size}"


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in PUBLIC
        if n.endswith(
            ("attention", "attention_backward", "_heads", "forward")
        )
    ],
)
def test_a_function_over_arrays_states_their_shapes(name: str) -> None:
    sections = _sections(PUBLIC[name])
    for section in ("Parameters", "Returns"):
        text = sections[section]
        assert (
            re.search(r"\(\.\.\., [^)]*\)", text)
            or "Each in the shape" in text
        ), section


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_is_typed(name: str) -> None:
    function = PUBLIC[name]
    for parameter in _parameters(function):
        assert parameter.annotation is not inspect.Parameter.empty, (
            parameter.name
        )
    if inspect.isfunction(function):
        assert (
            inspect.signature(function).return_annotation
            is not inspect.Signature.empty
        )


def test_the_weights_that_are_returned_are_said_to_be_those_before_dropout() -> (
    None
):
    for name in (
        "reference.scaled_dot_product_attention",
        "reference.multi_head_attention",
        "functional.scaled_dot_product_attention",
        "multihead.MultiHeadAttention.forward",
    ):
        assert re.search(
            r"\*?before\*? dropout", _sections(PUBLIC[name])["Returns"]
        ), name


# --- names


@pytest.mark.parametrize("module", MODULES)
def test_all_lists_every_public_name_that_a_module_defines(
    module: str,
) -> None:
    loaded = _module(module)
    defined = {
        name
        for name, member in vars(loaded).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or inspect.isclass(member))
        and member.__module__ == loaded.__name__
    }
    internal = (
        {"check_mask"} if module == "functional" else set()
    )  # for multihead alone
    assert defined - internal <= set(loaded.__all__)
    assert (
        sorted(loaded.__all__, key=lambda n: (not n[0].isupper(), n))
        == loaded.__all__
    )
    assert all(hasattr(loaded, name) for name in loaded.__all__)


def test_the_package_lists_its_modules_and_its_two_main_objects() -> None:
    modules = {
        m.name
        for m in pkgutil.iter_modules(attention.__path__)
        if m.name[0] != "_"
    }
    # The checkers have tests of their own.
    assert modules == {*MODULES, "exercises"}
    assert set(attention.__all__) == {*MODULES} - {"live", "plotting"} | {
        "MultiHeadAttention",
        "__version__",
        "scaled_dot_product_attention",
    }
    assert (
        attention.scaled_dot_product_attention
        is _module("functional").scaled_dot_product_attention
    )
    assert (
        attention.MultiHeadAttention
        is _module("multihead").MultiHeadAttention
    )


@pytest.mark.parametrize("module", MODULES)
def test_a_star_import_brings_what_all_promises(module: str) -> None:
    names: dict[str, Any] = {}
    exec(f"from attention.{module} import *", names)
    assert set(names) - {"__builtins__"} == set(_module(module).__all__)


def test_the_version_has_one_source() -> None:
    assert (
        importlib.metadata.version("attention-derived")
        == attention.__version__
    )
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "version" not in declared["project"]
    assert declared["project"]["dynamic"] == ["version"]
    assert (
        declared["tool"]["setuptools"]["dynamic"]["version"]["attr"]
        == "attention.__version__"
    )


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(attention.__file__).parent / "py.typed").is_file()


# --- the import


def test_the_import_is_silent_and_does_not_load_matplotlib() -> None:
    # Warnings of PyTorch's or NumPy's own import are theirs; ours come after it.
    code = (
        "import numpy, torch, warnings, sys; warnings.simplefilter('error'); import attention; "
        "sys.exit('matplotlib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def _imports(path: Path) -> set[str]:
    found = re.findall(
        r"^\s*(?:import|from) (\w+)", path.read_text("utf-8"), re.MULTILINE
    )
    return set(found)


def test_the_package_needs_numpy_and_torch_alone_and_matplotlib_for_figures() -> (
    None
):
    for path in sorted(Path(attention.__file__).parent.rglob("*.py")):
        allowed = {"numpy", "torch", "attention"}
        if path.name in ("live.py", "plotting.py"):
            allowed |= {
                "matplotlib",
                "cycler",
            }  # matplotlib depends on cycler
        assert _imports(path) - set(sys.stdlib_module_names) <= allowed, (
            path.name
        )


def test_the_reference_and_its_checks_know_nothing_of_pytorch() -> None:
    for name in ("reference", "_checks"):
        assert "torch" not in _imports(
            Path(attention.__file__).parent / f"{name}.py"
        )


def test_signatures_of_the_two_languages_agree_where_they_overlap() -> None:
    def names(function: Callable[..., Any]) -> list[str]:
        return list(inspect.signature(function).parameters)

    numpy, torch = PUBLIC["reference.scaled_dot_product_attention"], PUBLIC[
        "functional.scaled_dot_product_attention"
    ]  # fmt: skip
    assert [n for n in names(numpy) if n in names(torch)] == [
        n for n in names(torch) if n in names(numpy)
    ]
