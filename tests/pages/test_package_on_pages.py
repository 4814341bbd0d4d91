"""The package as the pages show it: every public name described, every printed source its own."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from built_book import ROOT, toc_pages

import attention

Reader = Callable[[str], BeautifulSoup]


def modules() -> Iterator[ModuleType]:
    """Yield the public modules of the package."""
    for info in pkgutil.iter_modules(attention.__path__):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"attention.{info.name}")


def public_names() -> list[str]:
    """Return the dotted names of all public functions, classes and methods."""
    names = []
    for module in modules():
        own = [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
        ]
        for name in getattr(module, "__all__", own):
            value = getattr(module, name)
            if name.startswith("_") or not callable(value):
                continue
            names.append(f"{module.__name__}.{name}")
            if inspect.isclass(value):
                names += [
                    f"{module.__name__}.{name}.{method}"
                    for method, member in vars(value).items()
                    if not method.startswith("_")
                    and callable(getattr(value, method))
                ]
    return names


def resolve(name: str) -> Any:
    """Return the object of a dotted name in the package."""
    parts = name.split(".")
    found: Any = importlib.import_module(".".join(parts[:2]))
    for part in parts[2:]:
        found = getattr(found, part)
    return found


def without_docstrings(code: str) -> str:
    """Return the code's meaning as text, with no docstring."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(
            node, ast.FunctionDef | ast.ClassDef
        ) and ast.get_docstring(node):
            node.body = body[1:] or [ast.Pass()]
    return ast.dump(tree)


def printed(soup: Reader) -> list[tuple[str, str, str]]:
    """Return page, name and text of every printed source of the book."""
    found = []
    for page in toc_pages():
        for block in soup(page).select(
            "div.package-source.literal-block-wrapper"
        ):
            name, file = (
                tag.get_text()
                for tag in block.select(".code-block-caption code")
            )
            module = (
                file.removesuffix(".py")
                .removesuffix("/__init__")
                .replace("/", ".")
            )
            code = block.select_one("pre")
            assert code is not None
            found.append((page, f"{module}.{name}", code.get_text()))
    return found


@pytest.mark.parametrize("name", public_names())
def test_the_reference_describes_every_public_name(
    soup: Reader, name: str
) -> None:
    entry = soup("chapters/api").find(id=name)
    assert isinstance(entry, Tag), f"chapters/api has no entry for {name}"
    description = entry.find_next_sibling("dd")
    assert isinstance(description, Tag) and description.get_text().strip()


def test_chapters_print_the_packages_source(soup: Reader) -> None:
    assert printed(soup)


def test_printed_source_is_the_packages_own(soup: Reader) -> None:
    for page, name, code in printed(soup):
        source = inspect.cleandoc("\n" + inspect.getsource(resolve(name)))
        assert without_docstrings(code) == without_docstrings(source), (
            f"{page}: {name}"
        )
        # Comments are no part of the meaning, but are printed too.
        lines = {line.strip() for line in source.splitlines()}
        assert [
            line
            for line in code.splitlines()
            if line.strip() not in lines | {""}
        ] == []


def test_the_pages_show_the_package_that_is_tested() -> None:
    assert Path(attention.__file__).resolve().parent == ROOT / "attention"
