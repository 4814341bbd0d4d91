#!/bin/sh
# All that CI checks, cheapest first; the last words are pytest's own summary.
set -u
cd "$(dirname "$0")/.." || exit 1
py=.venv/bin/python

fail() {
    printf 'make: %s\n' "$*" >&2
    exit 1
}

printf 'Checking style, layout and types\n'
"$py" -m ruff check --quiet --output-format concise . || fail "ruff found the faults above: 'make format' mends most of them."
"$py" -m ruff format --check --quiet --output-format concise . || fail "the files above are not laid out as agreed: run 'make format'."
"$py" -m mypy --no-error-summary || fail "mypy found the faults above."
"$py" tools/mutation.py --changed || fail "a change in attention/ escapes the tests of the package: see above."
"$py" tools/locked.py .make/build.lock "$py" tools/build.py || exit 1
printf 'Testing the package, the notebooks and the pages\n'
# A notebook is one kernel: all its cells have to run in one process.
exec "$py" -m pytest -n 2 --dist loadfile </dev/null
