"""The runner's editions say what the pages say, in Markdown that all viewers of notebooks show."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
from html import unescape
from pathlib import Path

import editions
import execute
import maths
import nbformat
import plain_markdown
import public_address
import pytest
import yaml
from bs4 import BeautifulSoup
from built_book import ROOT, build, exercise_pages, toc_pages
from leftovers import formulas, leftovers, plain
from nbformat import NotebookNode

Reader = Callable[[str], BeautifulSoup]

PAGES = [page for page in toc_pages() if (ROOT / f"{page}.ipynb").is_file()]
each_page = pytest.mark.parametrize("page", PAGES)
# Cells that an edition has beside those of its source.
OWN = re.compile(
    r"to-run|setup|references|about-this-notebook|caption-.*|.*-part-\d+"
)
MACROS = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["sphinx"][
    "config"
]["maths_macros"]


@pytest.fixture(scope="session")
def edition(html: Path) -> Callable[[str], NotebookNode]:
    """Return a function that reads the edition of a page, as the pages hand it out.

    Of exercises the pages hand out less: here they are whole, and what becomes of them is tested in
    test_course_editions.py.
    """
    book = json.loads(editions.NUMBERS.read_text("utf-8"))

    @cache
    def read(page: str) -> NotebookNode:
        if page in exercise_pages():
            numbers = plain_markdown.Page(book["pages"][page], book)
            source = execute.load(ROOT / f"{page}.ipynb")
            return editions.edition(source, numbers, book)
        return nbformat.read(
            html / "notebooks" / f"{Path(page).name}.ipynb", as_version=4
        )

    return read


def markdown_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the cells of text."""
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


# ------------------------------------------------------------------------------ nothing is left
@each_page
def test_an_edition_has_nothing_left_of_myst(edition, page: str) -> None:
    assert {
        cell.id: found
        for cell in markdown_cells(edition(page))
        if (found := leftovers(cell.source, MACROS))
    } == {}


LEFTOVERS = [
    "See {eq}`eq-softmax`.",
    "See {numref}`fig-a`: {cite:p}`b2020`.",
    "A code `span`{.python}.",
    ":::{note}\nText.\n:::",
    "```{math}\n:label: eq-a\nx\n```",
    "```{code-cell} ipython3\n1\n```",
    ":::\n",
    "(sec-a)=\n## A",
    "$$\nx\n$$ (eq-a)",
    "> $$ x $$ (eq-a)",
    "% a comment",
    "+++",
    "{{ name }}",
    "[text](softmax.md)",
    "[text](#sec-a)",
    "[text]{.class}",
    "{.class}\nText.",
    "Text.[^1]\n\n[^1]: A note.",
    "Term\n: Its meaning.",
    ":name: fig-a",
    ".. note:: text",
    ":ref:`sec-a`",
    r"The $\softmax$ of it.",
    "$$\n\\norm{x}\n$$",
    "$$\nx \\label{a}\n$$",
    "$$\n\\begin{align} x \\end{align}\n$$",
    "An open $ sign.",
    "- a list\n- with {term}`key`",
    "| a | b |\n|---|---|\n| {eq}`a` | c |",
]


@pytest.mark.parametrize("text", LEFTOVERS)
def test_a_planted_leftover_is_noticed(text: str) -> None:
    assert leftovers(text, MACROS)


def test_plain_markdown_passes() -> None:
    assert (
        leftovers(
            "# 2. A title\n\nText with `code {x}`, *emphasis*, $\\mathbb{R}^{d_k}$ and a"
            " [link](https://example.org/a_b) (see Figure 2.1).\n\n$$\nx \\tag{2.1}\n$$\n\n"
            "> **Theorem 2.1** (Name)\n>\n> $$x^{2}$$\n\n```python\nd = {'a': `1`}\n```\n\n"
            "| a | b |\n|---|---|\n| $x$ | `y` |\n\n1. one: two\n2. three\n",
            MACROS,
        )
        == []
    )


# ------------------------------------------------------------------------- the code is the source's
@each_page
def test_code_outputs_and_ids_are_the_source_s(edition, page: str) -> None:
    source = execute.load(ROOT / f"{page}.ipynb")
    cells = [c for c in edition(page).cells if not OWN.fullmatch(c.id)]
    assert [c.id for c in cells] == [c.id for c in source.cells]
    for made, given in zip(cells, source.cells, strict=True):
        assert made.cell_type == given.cell_type
        if given.cell_type == "code":
            assert made.source == given.source
            assert made.outputs == given.outputs
            assert made.execution_count == given.execution_count
            assert made.metadata.get("tags") == given.metadata.get("tags")


@each_page
def test_an_edition_is_a_valid_notebook(edition, page: str) -> None:
    nbformat.validate(edition(page))


@each_page
def test_the_first_code_cell_brings_the_package_in(
    edition, page: str
) -> None:
    first = next(c for c in edition(page).cells if c.cell_type == "code")
    assert first.id == "setup"
    compile(first.source, "setup", "exec")  # No magic, no shell.
    assert "--no-deps" in first.source


@each_page
def test_above_the_first_code_cell_stands_what_it_needs_and_where_from(
    edition, html: Path, page: str
) -> None:
    cells = edition(page).cells
    first = next(n for n, c in enumerate(cells) if c.cell_type == "code")
    (wheel,) = (html / "notebooks").glob("*.whl")
    assert cells[first - 1].id == "to-run"
    assert wheel.name in cells[first - 1].source


def is_heading_of(cell: NotebookNode) -> list[bool]:
    """Say of each heading whether it opens the cell; those in folded parts do not count."""
    text = re.sub(
        r"<details>.*?</details>",
        lambda m: "\n" * m[0].count("\n"),
        cell.source,
        flags=re.DOTALL,
    )
    return [
        token.map[0] == 0
        for token in plain.parse(text)
        if token.type == "heading_open"
    ]


@each_page
def test_headings_open_their_cells(edition, page: str) -> None:
    # A heading in the middle is missing from outlines, or takes what stands above it along.
    assert {
        cell.id: found
        for cell in markdown_cells(edition(page))
        if (found := is_heading_of(cell)) not in ([], [True])
    } == {}


def test_a_cell_is_cut_at_its_headings_and_nowhere_else() -> None:
    folded = "<details><summary>Hint</summary>\n\n## C\n\n</details>"
    text = (
        "Above.\n\n## A\n\n```python\n# no heading\n```\n### B\n"
        f"> ## in a quotation\n\n{folded}\n\nBelow."
    )
    name = "a" * 64
    cells = editions.text_cells(text, name)
    assert [cell.source for cell in cells] == [
        "Above.",
        "## A\n\n```python\n# no heading\n```",
        f"### B\n> ## in a quotation\n\n{folded}\n\nBelow.",
    ]
    assert [cell.id for cell in cells] == [
        name,
        f"{name[:56]}-part-2",
        f"{name[:56]}-part-3",
    ]
    (whole,) = editions.text_cells("## A\n\nText.", "a")
    assert (whole.id, whole.source) == ("a", "## A\n\nText.")


# --------------------------------------------------------------------------------------- the list
def test_the_list_beside_the_editions_has_all_in_order_and_leads_to_them(
    html: Path,
) -> None:
    folder = html / "notebooks"
    text = (folder / "README.md").read_text("utf-8")
    (wheel,) = (file.name for file in folder.glob("*.whl"))
    links = [
        str(tag["href"])
        for tag in BeautifulSoup(plain.render(text), "html.parser").select(
            "a[href]"
        )
    ]
    # With a public address, a line may lead to another page of the book.
    links = [link for link in links if not link.startswith("https://")]
    assert links == [*(f"{Path(page).name}.ipynb" for page in PAGES), wheel]
    assert {file.name for file in folder.iterdir()} == {*links, "README.md"}
    assert leftovers(re.sub(r"\]\([^)]*\)", "]", text), MACROS) == []
    assert (editions.EDITIONS / "README.md").read_text("utf-8") == text


@each_page
def test_the_list_names_a_notebook_by_its_title_and_says_what_it_asks(
    edition, html: Path, page: str
) -> None:
    (line,) = (
        line
        for line in (html / "notebooks" / "README.md")
        .read_text("utf-8")
        .split("\n")
        if f"]({Path(page).name}.ipynb)" in line
    )
    first = edition(page).cells[0].source
    said = line.partition(".ipynb): ")[2]
    assert f"- [{first.splitlines()[0].removeprefix('# ')}](" in line
    assert said.endswith((".", "?"))
    flat = " ".join(re.sub(r"^> ?", "", first, flags=re.M).split())
    assert said in flat


def test_with_a_public_address_the_list_and_the_first_cells_say_so(
    html: Path,
) -> None:
    book = json.loads(editions.NUMBERS.read_text("utf-8"))
    book |= {"files_at": "https://example.org/book/notebooks/"}
    assert "fetches it by itself" in editions.readme(book)
    needs = editions.needs_cell(book).source
    assert f"(https://example.org/book/notebooks/{book['wheel']})" in needs


@pytest.mark.parametrize(
    ("chapter", "said"),
    [
        ("from-lookup-to-attention", "One cell ends in an error on purpose"),
        ("multi-head-attention", "3 cells end in an error on purpose"),
    ],
)
def test_cells_that_fail_are_announced(
    edition: Callable[[str], NotebookNode], chapter: str, said: str
) -> None:
    needs = [c.source for c in edition(chapter).cells if c.id == "to-run"]
    assert [said in text for text in needs] == [True]


# ------------------------------------------------------------------------ the text is the page's
def words(text: str) -> list[str]:
    """Return words, without what differs between two renderings of one text."""
    text = text.translate(
        str.maketrans(
            {"\u2060": "", "“": '"', "”": '"', "’": "'", "‘": "'", "∎": ""}
        )
    )
    return re.findall(r"\w+(?:[.\-'’]\w+)*|[^\w\s]", text)


def page_words(tree: BeautifulSoup) -> list[str]:
    """Return the words of a page's text, captions and tables; no code, no formula, no output."""
    tree = BeautifulSoup(str(tree.select_one("article")), "html.parser")
    for tag in tree.select(
        ".math, .headerlink, .cell summary, .cell_input, .cell_output > :not(figure),"
        " pre, .eqno, nav, footer, .only-here"
    ):
        tag.replace_with(" ")
    for tag in tree.select(
        "p, li, td, th, dt, dd, h1, h2, h3, figcaption, div"
    ):
        tag.append(" ")
    return words(tree.get_text())


def edition_words(notebook: NotebookNode) -> list[str]:
    """Return the words of an edition's text, without what the page does not have."""
    said = []
    for cell in markdown_cells(notebook):
        if cell.id in ("to-run", "references", "about-this-notebook"):
            continue
        text = re.sub(r"\n\n<details>.*</details>$", "", cell.source)
        text = text.replace(editions.STILL, "")
        tree = BeautifulSoup(plain.render(text), "html.parser")
        for tag in tree.select("pre, .math"):
            tag.replace_with(" ")
        for tag in tree.select("p, li, td, th, h1, h2, h3"):
            tag.append(" ")
        said += words(tree.get_text())
    return said


@each_page
def test_a_live_figure_s_caption_says_that_the_stored_picture_is_still(
    edition, page: str
) -> None:
    cells = edition(page).cells
    live = {
        f"caption-{cell.id}"
        for cell in cells
        if cell.cell_type == "code" and "live figure of" in str(cell.outputs)
    }
    still = {cell.id for cell in cells if editions.STILL in cell.source}
    assert still == live


@each_page
def test_an_edition_says_what_the_page_says(
    edition, soup: Reader, page: str
) -> None:
    assert edition_words(edition(page)) == page_words(soup(page))


@each_page
def test_equations_have_the_numbers_of_the_page(
    edition, soup: Reader, page: str
) -> None:
    shown = [tag.contents[0].strip() for tag in soup(page).select(".eqno")]
    tags = [
        f"({number})"
        for cell in markdown_cells(edition(page))
        for tex, _ in formulas(cell.source)
        for number in re.findall(r"\\tag\{([^}]*)\}", tex)
    ]
    assert tags == shown


@each_page
def test_captions_are_those_of_the_page_and_follow_their_figures(
    edition, soup: Reader, page: str
) -> None:
    cells = edition(page).cells
    captions = [
        n for n, cell in enumerate(cells) if cell.id.startswith("caption-")
    ]
    assert [
        re.match(r"\*\*(.*?)\*\*", cells[n].source)[1] for n in captions
    ] == [
        tag.get_text().strip()
        for tag in soup(page).select("figcaption .caption-number")
    ]
    for n in captions:
        assert any(
            "image/png" in out.get("data", {})
            for out in cells[n - 1].outputs
        )
        assert "<details>" in cells[n].source


def test_printed_source_is_that_of_the_page(edition, soup: Reader) -> None:
    for page in PAGES:
        shown = [
            tag.get_text()
            for tag in soup(page).select("div.package-source pre")
        ]
        code = [
            token.content
            for cell in markdown_cells(edition(page))
            for token in plain.parse(cell.source)
            if token.type == "fence"
        ]
        assert code == shown


# --------------------------------------------------------------------------------------- formulas
def rendered(asked: list[tuple[str, bool]]) -> list[dict[str, str]]:
    """Return what MathJax, without the book's macros, makes of formulas."""
    request = {
        "mathjax": str(maths.mathjax()),
        "macros": {},
        "formulas": asked,
    }
    done = subprocess.run(
        [maths.node(), str(maths.HERE / "maths.cjs")],
        input=json.dumps(request),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(done.stdout)["formulas"]


@pytest.fixture(scope="module")
def drawn(edition) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """Return the formulas of every edition with what MathJax makes of them, in one call."""
    asked = [
        (page, re.sub(r"\s*\\tag\{[^}]*\}", "", tex), alone)
        for page in PAGES
        for cell in markdown_cells(edition(page))
        for tex, alone in formulas(cell.source)
        if cell.id != "references"
    ]
    answers = rendered([(tex, alone) for _, tex, alone in asked])
    found: dict[str, list[tuple[str, dict[str, str]]]] = {
        p: [] for p in PAGES
    }
    for (page, tex, _), answer in zip(asked, answers, strict=True):
        found[page].append((tex, answer))
    return found


def meaning(markup: str) -> str:
    """Return the MathML in some markup, without what depends on how it was written.

    A wide formula comes in parts on the page, without the spaces between them.
    """
    parts = re.findall(r"<math\b[^>]*>(.*?)</math>", markup, re.DOTALL)
    assert parts
    gone = r"</?(?:mrow|mpadded|mstyle|mspace)\b[^>]*>"
    text = re.sub(gone, "", "".join(parts))
    # Of the attributes only the kind of letter says what is meant.
    text = re.sub(
        r'(<\w+)\b(?:[^>]*?( mathvariant="[^"]*"))?[^>]*>', r"\1\2>", text
    )
    return unescape(text.replace("\xa0", " "))


@each_page
def test_stock_mathjax_reads_every_formula(drawn, page: str) -> None:
    assert [
        (tex, a["error"]) for tex, a in drawn[page] if "error" in a
    ] == []


@each_page
def test_every_formula_is_that_of_the_page(
    drawn, soup: Reader, page: str
) -> None:
    shown = soup(page).select("article span.math, article .math > .formula")
    assert [meaning(answer["html"]) for _, answer in drawn[page]] == [
        meaning(str(tag)) for tag in shown
    ]


def test_mathjax_alone_does_not_know_the_book_s_macros() -> None:
    assert [
        "error" in answer
        for answer in rendered([(r"\softmax x", False), ("x", True)])
    ] == [
        True,
        False,
    ]


def test_a_formula_opens_no_tag() -> None:
    assert plain_markdown.plain_tex("a<b < c", MACROS) == r"a\lt b < c"


@pytest.mark.parametrize(
    ("tex", "expanded"),
    [
        (r"\R^{d}", r"\mathbb{R}^{d}"),
        (r"K\T", r"K^{\mathsf{T}}"),
        (r"\norm{q - {k}_j}^2", r"\lVert q - {k}_j \rVert^2"),
        (r"\norm x", r"\lVert x \rVert"),
        (r"\norm{\R}", r"\lVert \mathbb{R} \rVert"),
        (r"\Ra \\T", r"\Ra \\T"),
    ],
)
def test_macros_are_expanded(tex: str, expanded: str) -> None:
    assert plain_markdown.expand(tex, MACROS) == expanded


# -------------------------------------------------------------------------------------- by itself
SMALL_PAGE = {
    "uri": "page.html",
    "headings": ["1.1"],
    "listings": [],
    "labels": {
        "eq-a": "1.2",
        "lem-a": "Lemma 1.1",
        "ex-a": "Exercise 1.1",
        "sol-a": "Solution to Exercise 1.1",
    },
    "references": {
        ":eq:`eq-a`": {"text": "(1.2)", "uri": "page.html#equation-eq-a"},
        ":ref:`ch-b`": {"text": "Another page", "uri": "b.html"},
        ":ref:`there <ch-b>`": {"text": "there", "uri": "b.html"},
        ":ref:`ex-a`": {"text": "Exercise 1.1", "uri": "page.html#ex-a"},
        ":numref:`ex-b`": {"text": "Exercise 2.3", "uri": "b.html#ex-b"},
    },
}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (":::{note}\nText.\n:::", "> **Note**\n>\n> Text."),
        (":::{seealso}\nText.\n:::", "> **See also**\n>\n> Text."),
        (
            ":::{admonition} A $\\R$\n:class: tip\n- x\n- y\n:::",
            "> **A $\\mathbb{R}$**\n>\n> - x\n> - y",
        ),
        (
            ":::{dropdown} More\n$x$\n:::",
            "<details><summary>More</summary>\n\n$x$\n\n</details>",
        ),
        (
            ":::{prf:lemma} Name\n:label: lem-a\n\n$$\nx\n$$ (eq-a)\n:::",
            "> **Lemma 1.1** (Name)\n>\n> $$x \\tag{1.2}$$",
        ),
        (":::{prf:proof}\nText.\n:::", "*Proof.* Text. ∎"),
        (":::{prf:proof}\n$$\nx\n$$\n:::", "*Proof.*\n\n$$\nx\n$$\n\n∎"),
        (
            "```{math}\n:label: eq-a\nx\n```",
            "$$\nx \\tag{1.2}\n$$",
        ),
        ("$$\na\n= b\n$$", "$$\na = b\n$$"),
        (
            "$$\na &= b \\\\\nc &= d\n$$",
            "$$\n\\begin{aligned}a &= b \\\\\nc &= d\\end{aligned}\n$$",
        ),
        ("- x\n\n  $$\n  y\n  $$\n- z", "- x\n\n  $$y$$\n- z"),
        ("| a |\n|---|\n| $\\|x$ |", "| a |\n|---|\n| $\\vert x$ |"),
        ("(sec-a)=\n## A", "## 1.1. A"),
        (
            "# A\n\n::::{exercise} Rows $\\R$\n:label: ex-a\n\n"
            "*Level 1 of 3 · 2 minutes · by hand*\n\n$$\nx\n$$\n\n"
            ":::{admonition} Hint\n:class: dropdown\n- $y$\n:::\n::::",
            "# 1.1. A\n\n## Exercise 1.1 (Rows $\\mathbb{R}$)\n\n"
            "*Level 1 of 3 · 2 minutes · by hand*\n\n$$\nx\n$$\n\n"
            "<details><summary>Hint</summary>\n\n- $y$\n\n</details>",
        ),
        (
            "```{solution-start} ex-a\n:label: sol-a\n```\n\nText.",
            "**Solution to Exercise 1.1**\n\nText.",
        ),
        ("Text.\n```{solution-end}\n```", "Text.\n***"),
        ("Text.\n\n:::{only} teacher\nNote.\n:::", "Text."),
        (
            "By {ref}`ex-a` and {numref}`ex-b`.",
            "By Exercise 1.1 and Exercise 2.3.",
        ),
        ("By {eq}`eq-a` and\n{ref}`ch-b`.", "By (1.2) and\n*Another page*."),
        ("Look {ref}`there <ch-b>`.", "Look there."),
        ("{math}`\\R`", "$\\mathbb{R}$"),
        ("`{eq}` and `$x`", "`{eq}` and `$x`"),
        ("```python\n{eq}\n```", "```python\n{eq}\n```"),
        ("% a comment\nText.", "Text."),
    ],
)
def test_each_construct_has_its_plain_form(text: str, made: str) -> None:
    book = {"macros": MACROS, "pages_at": ""}
    assert plain_markdown.Page(SMALL_PAGE, book).markdown(text) == made


def test_teachers_keep_their_notes() -> None:
    book = {"macros": MACROS, "pages_at": ""}
    page = plain_markdown.Page(SMALL_PAGE, book, teacher=True)
    made = page.markdown(":::{only} teacher\n- See {eq}`eq-a`.\n:::")
    assert made == "> **For teachers**\n>\n> - See (1.2)."


@pytest.mark.parametrize(
    "text",
    [
        "{unknown}`x`",
        "{ref}`no-such-label`",
        ":::{unknown}\nText.\n:::",
        "::: plain\nText.\n:::",
        ":::{only} html\nText.\n:::",
        ":::{exercise} A\n:label: no-such-label\n:::",
        "```{solution-start} ex-a\n```",
        ":::{package-source} attention.reference.softmax\n:::",
        "$$\nx\n$$ (no-such-label)",
        "[text](page.md)",
        "# A heading\n\n## And one too many",
        "Term\n: Meaning",
    ],
)
def test_what_has_no_plain_form_is_refused(text: str) -> None:
    page = plain_markdown.Page(SMALL_PAGE, {"macros": MACROS})
    with pytest.raises(plain_markdown.PlainError):
        page.markdown(text)


# ---------------------------------------------------------------------------------------- address
def test_without_a_public_address_nothing_names_one(
    edition, soup: Reader
) -> None:
    if os.environ.get("BOOK_URL") or os.environ.get("BOOK_REPOSITORY"):
        pytest.skip("this book has a public address")
    for page in PAGES:
        assert soup(page).select("[href*=colab], [href*=binder]") == []
        first = next(c for c in edition(page).cells if c.cell_type == "code")
        assert 'ADDRESS = ""' in first.source


@each_page
def test_the_download_button_leads_to_the_edition(
    html: Path, soup: Reader, page: str
) -> None:
    links = [
        str(tag["href"])
        for tag in soup(page).select(".dropdown-download-buttons a[href]")
    ]
    files = [(html / page).parent / link for link in links]
    assert [file.suffix for file in files] == [".ipynb", ".whl"]
    assert all(file.is_file() for file in files)
    assert files[0].resolve().parent == (html / "notebooks").resolve()


def test_with_a_public_address_pages_open_in_colab(
    small_book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small_book / "chapters" / "page.md").unlink()
    cells = [nbformat.v4.new_markdown_cell("# Page\n\nText.")]
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells),
        small_book / "chapters" / "page.ipynb",
    )
    monkeypatch.setenv("BOOK_URL", "https://example.org/book")
    monkeypatch.setenv("BOOK_REPOSITORY", "someone/book")
    done = build(small_book)
    assert done.returncode == 0, done.stdout
    tree = BeautifulSoup(
        (small_book / "_build/html/chapters/page.html").read_text("utf-8"),
        "html.parser",
    )
    assert [tag["href"] for tag in tree.select("[href*=colab]")] == [
        "https://colab.research.google.com/github/someone/book/blob/notebooks/page.ipynb"
    ]
    assert tree.select_one("link[rel=canonical]")["href"].startswith(
        "https://example.org/book/"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BOOK_URL", "http://example.org/book"),
        ("BOOK_URL", "example.org"),
        ("BOOK_URL", "https://example.org/?page=1"),
        ("BOOK_REPOSITORY", "https://github.com/someone/book"),
        ("BOOK_REPOSITORY", "book"),
    ],
)
def test_what_is_no_address_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(public_address.ConfigError, match=name):
        public_address.address()


def test_with_a_public_address_an_edition_links_to_other_pages(
    html: Path,
) -> None:
    book = json.loads((html.parent / "numbers.json").read_text("utf-8"))
    book |= {
        "pages_at": "https://example.org/book/",
        "files_at": "https://example.org/book/notebooks/",
    }
    page = "chapters/softmax"
    made = editions.edition(
        execute.load(ROOT / f"{page}.ipynb"),
        plain_markdown.Page(book["pages"][page], book),
        book,
    )
    text = "\n".join(cell.source for cell in markdown_cells(made))
    links = set(re.findall(r"\]\(https://example\.org/book/([^)]*)\)", text))
    assert "chapters/notation.html" in links
    assert any(
        link.startswith("chapters/glossary.html#term-") for link in links
    )
    for link in links:
        file, _, anchor = link.partition("#")
        if link.startswith("notebooks/"):
            assert (html / link).is_file()
            continue
        target = BeautifulSoup(
            (html / (file or "index.html")).read_text("utf-8"), "html.parser"
        )
        assert not anchor or target.find(id=anchor)
    assert not [link for link in links if link.startswith(f"{page}.html#")]
    assert not any(
        leftovers(cell.source, MACROS) for cell in markdown_cells(made)
    )
    first = next(c for c in made.cells if c.cell_type == "code")
    assert 'ADDRESS = "https://example.org/book/notebooks/"' in first.source
