"""Index entries that the search still finds after a build in which their pages did not change.

Sphinx gathers them while it writes pages, after it has stored what the next build reads; and from
the search index of the build before, it reads all but them.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from sphinx.application import ENV_PICKLE_FILENAME, Sphinx


def store(app: Sphinx, exception: Exception | None) -> None:
    """Store the environment once more, with the entries of the pages that were written."""
    # What failed is to be read again.
    if exception is None and not app._warncount:
        with Path(app.doctreedir, ENV_PICKLE_FILENAME).open("wb") as file:
            pickle.dump(app.env, file, pickle.HIGHEST_PROTOCOL)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("build-finished", store)
    return {"version": "1", "parallel_read_safe": True}
