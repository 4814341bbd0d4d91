"""What is left of a style sheet when the pages are known."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
import sphinx_book_theme
from fontTools.ttLib import TTFont
from stylesheet import Words, combine, subset

PAGE = """<p class="known other" id="place" style="color: var(--read-by-page)">text</p>
<script>tag.classList.add("made-by-script")</script>"""


def combined(folder: Path, css: str) -> str:
    """Return what is left of a sheet for the page above, without its first line."""
    (folder / "sheet.css").write_text(css, "utf-8")
    words = Words()
    words.add_page(PAGE)
    sheet = combine([folder / "sheet.css"], words, folder)
    return "".join(sheet.splitlines()[1:])


@pytest.mark.parametrize(
    "css",
    [
        ".known{color:red}",
        "#place{color:red}",
        ".made-by-script{color:red}",
        "p:not(.unknown){color:red}",
        "p[class~=unknown]{color:red}",
        "@media print{.known{color:red}}",
        ":root{--a:1;--b:var(--a)}p{margin:var(--b)}",
        ":root{--read-by-page:red}",
        'p::before{content:".unknown{"}',
    ],
)
def test_what_can_apply_stays(tmp_path: Path, css: str) -> None:
    assert combined(tmp_path, css) == css


@pytest.mark.parametrize(
    "css",
    [
        ".unknown{color:red}",
        "#unknown{color:red}",
        ".known.unknown{color:red}",
        ".known .unknown>p{color:red}",
        "@media print{.unknown{color:red}}",
        ":root{--a:1;--b:var(--a)}",
        "@font-face{font-family:Unknown;src:url(unknown.ttf)}",
        "/* a comment */",
    ],
)
def test_what_cannot_apply_goes(tmp_path: Path, css: str) -> None:
    assert combined(tmp_path, css) == ""


def test_of_a_list_the_selectors_that_can_apply_stay(tmp_path: Path) -> None:
    assert (
        combined(tmp_path, ".known, .unknown, p { color: red }")
        == ".known,p{color:red}"
    )


def test_notices_of_licences_stay(tmp_path: Path) -> None:
    assert combined(tmp_path, "/*! MIT */ .unknown { color: red }") == (
        "/*! MIT */"
    )


def test_addresses_still_lead_to_their_files(tmp_path: Path) -> None:
    inner = tmp_path / "styles"
    inner.mkdir()
    (inner / "sheet.css").write_text("p{background:url(../paper.png)}")
    sheet = combine([inner / "sheet.css"], Words(), tmp_path.resolve())
    assert "p{background:url(paper.png)}" in sheet


def test_a_font_is_cut_to_the_characters_that_are_drawn() -> None:
    theme = Path(sphinx_book_theme.__file__).parent.parent
    (font,) = theme.glob("pydata_sphinx_theme/**/fa-solid-900.ttf")
    cut = base64.b64decode(subset(font, {0xF0C9}))
    assert set(TTFont(io.BytesIO(cut)).getBestCmap()) == {0xF0C9}
    assert len(cut) < 2000
