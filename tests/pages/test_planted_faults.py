"""Faults planted in a small book: the build must fail, and say where and what."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from built_book import build
from nbformat.v4 import new_markdown_cell, new_notebook

SOUND = r"""# Page

Weights $\softmax(q K\T / \sqrt{d_k})$ sum to one, as {eq}`eq-sum` says.

$$
\sum_j w_j &= 1 \\
w_j &\ge 0
$$ (eq-sum)
"""

PACKAGE = '''"""A package."""

def double(x):
    """Return twice a number.

    .. math:: y = 2x
    """
    return 2 * x
'''

# What is planted, and what the build must say of it.
REFERENCES = {
    "{eq}`eq-missing`": "eq-missing",
    "{ref}`ref-missing`": "ref-missing",
    "{numref}`fig-missing`": "fig-missing",
    "{prf:ref}`thm-missing`": "thm-missing",
    "{doc}`doc-missing`": "doc-missing",
    "{term}`term-missing`": "term-missing",
    "{cite}`cite-missing`": "cite-missing",
    "{py:func}`attention.reference.missing`": "attention.reference.missing",
    "{py:func}`bare_missing`": "bare_missing",
    "{role-missing}`x`": "role-missing",
    "[text](file-missing.md)": "file-missing",
    "[text](#anchor-missing)": "anchor-missing",
    "![alt](image-missing.png)": "image-missing",
}


def write_page(book: Path, text: str) -> None:
    """Replace the page of the small book."""
    (book / "chapters" / "page.md").write_text(text, "utf-8")


def write_package(book: Path, text: str) -> Path:
    """Write a package of one module beside the small book."""
    file = book / "attention" / "__init__.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def test_a_sound_page_builds(small_book: Path) -> None:
    write_page(small_book, SOUND)
    done = build(small_book)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Let $\\undefinedmacro x$.\n", "\\undefinedmacro"),
        ("$$\n\\frac{1}{2\n$$\n", "\\frac{1}{2"),
        ("$$\n\\begin{pmatrix} 1 \\end{bmatrix}\n$$\n", "pmatrix"),
    ],
    ids=["unknown macro", "missing brace", "environments that do not match"],
)
def test_a_broken_formula_fails_and_is_named(
    small_book: Path, text: str, said: str
) -> None:
    write_page(small_book, f"# Page\n\nSome words.\n\n{text}")
    done = build(small_book)
    assert done.returncode != 0
    assert "chapters/page.md:5" in done.stdout
    assert said in done.stdout


def test_a_broken_formula_in_a_notebook_names_its_cell(
    small_book: Path,
) -> None:
    (small_book / "chapters" / "page.md").unlink()
    cells = [
        new_markdown_cell("# Page"),
        new_markdown_cell("Words.\n\n$$\nx^{2\n$$"),
    ]
    nbformat.write(
        new_notebook(cells=cells), small_book / "chapters" / "page.ipynb"
    )
    done = build(small_book)
    assert done.returncode != 0
    assert "chapters/page.ipynb, cell 2, line 3" in done.stdout
    assert "x^{2" in done.stdout


def test_a_broken_formula_in_a_docstring_names_the_object(
    small_book: Path,
) -> None:
    write_package(small_book, PACKAGE.replace("y = 2x", "y = {2x"))
    write_page(
        small_book,
        "# Page\n\n```{eval-rst}\n.. autofunction:: attention.double\n```\n",
    )
    done = build(small_book)
    assert done.returncode != 0
    assert "attention.double" in done.stdout
    assert "y = {2x" in done.stdout


def test_every_bad_reference_fails_and_is_named(small_book: Path) -> None:
    write_page(small_book, "# Page\n\n" + "\n\n".join(REFERENCES))
    done = build(small_book)
    assert done.returncode != 0
    warnings = "\n".join(
        line
        for line in done.stdout.splitlines()
        if "chapters/page.md" in line
    )
    assert [
        name for name in REFERENCES.values() if name not in warnings
    ] == []


def test_source_of_an_unknown_object_fails_and_is_named(
    small_book: Path,
) -> None:
    write_package(small_book, PACKAGE)
    write_page(
        small_book, "# Page\n\n```{package-source} attention.triple\n```\n"
    )
    done = build(small_book)
    assert done.returncode != 0
    assert (
        "attention/__init__.py does not define 'attention.triple'"
        in done.stdout
    )


def test_a_build_that_failed_fails_again(small_book: Path) -> None:
    write_page(small_book, "# Page\n\n{eq}`eq-missing`\n")
    assert build(small_book).returncode != 0
    assert build(small_book).returncode != 0


def test_a_build_without_a_change_leaves_style_and_script_as_they_are(
    small_book: Path,
) -> None:
    static = small_book / "_build" / "html" / "_static"
    made = []
    for _ in range(2):
        done = build(small_book)
        assert done.returncode == 0, done.stdout
        made.append(
            [
                (static / f"pages.{kind}").read_bytes()
                for kind in ("css", "js")
            ]
        )
    assert made[0] == made[1]


def test_a_change_of_the_package_reaches_the_page(small_book: Path) -> None:
    file = write_package(small_book, PACKAGE)
    text = (
        "# Page\n\n```{package-source} attention.double\n```\n\n"
        "```{eval-rst}\n.. automodule:: attention\n   :members:\n```\n"
    )
    write_page(small_book, text)
    done = build(small_book)
    assert done.returncode == 0, done.stdout
    file.write_text(PACKAGE.replace("2 * x", "x + x"), "utf-8")
    later = (
        file.stat().st_mtime + 2
    )  # Not every file system tells two quick writes apart.
    os.utime(file, (later, later))
    done = build(small_book)
    assert done.returncode == 0, done.stdout
    page = (
        small_book / "_build" / "html" / "chapters" / "page.html"
    ).read_text("utf-8")
    shown = BeautifulSoup(page, "html.parser").select_one(
        "div.package-source pre"
    )
    assert shown is not None
    assert shown.get_text().strip() == "def double(x):\n    return x + x"
