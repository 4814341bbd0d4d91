#!/bin/sh
# Measures which lines and branches of attention/ run: all of them in the tests of the package, most
# of them in the notebooks alone, so that what a reader is shown is most of what there is. The
# notebooks hold right answers alone, so that what the checkers say to others is left out there.
set -u
cd "$(dirname "$0")/.." || exit 1
py=.venv/bin/python
failed=

measure() { # measure WHAT LEAST LEFT-OUT PYTEST-ARGUMENT...
    what=$1 least=$2 left_out=$3
    shift 3
    printf 'Lines and branches of attention/ that run in %s (at least %s %%)\n' "$what" "$least"
    # nbval starts coverage in its kernels too, with the settings of the file named here.
    COVERAGE_FILE=.make/coverage "$py" -m pytest -q -n 2 --dist loadfile --cov=attention --cov-branch \
        --cov-config="$PWD/pyproject.toml" --cov-report= "$@" </dev/null &&
        "$py" -m coverage report --data-file=.make/coverage --omit="$left_out" --fail-under="$least" ||
        failed="$failed, $what"
}

mkdir -p .make
# The planted bugs run in copies of the package, which are not measured.
measure "the tests" 100 "" tests/package tests/conformance tests/exercises --ignore=tests/package/test_planted_bugs.py
measure "the notebooks alone" 90 "attention/exercises/*" chapters
[ -z "$failed" ] || {
    printf 'make: too little ran, or a test failed, in %s\n' "${failed#, }" >&2
    exit 1
}
