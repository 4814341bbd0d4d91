#!/bin/sh
# Writes requirements.txt from pyproject.toml; what still fits keeps its version, unless UPGRADE=1.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf 'make: %s\n' "$*" >&2
    exit 1
}

# The oldest Python supported decides: a release chosen for a newer one may not run on it.
# Releases differ even within 3.11, and Debian 12 has 3.11.2.
oldest=3.11.2
python=''
for candidate in ${PYTHON:+"$PYTHON"} ${PYTHON:-/usr/bin/python3.11 python3.11 python3}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "the lock is made with Python 3.11 and its venv module, and neither python3.11 nor PYTHON is that."

root=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# Compiled from a copy, so that no path of this machine is written.
mkdir "$scratch/book"
cp -R attention pyproject.toml requirements.txt README.md LICENSE "$scratch/book/"
printf 'Making a throw-away environment\n'
"$python" -m venv "$scratch/venv" || fail "$python could not make a virtual environment."
"$scratch/venv/bin/python" -m pip install -qq --disable-pip-version-check 'pip-tools==7.5.*' ||
    fail "pip could not install pip-tools: is there a network?"
printf 'Choosing versions (one to three minutes)\n'
cd "$scratch/book"
if ! CUSTOM_COMPILE_COMMAND='make lock' "$scratch/venv/bin/python" -m piptools compile -q \
    --no-emit-index-url --no-emit-find-links --strip-extras --allow-unsafe ${UPGRADE:+--upgrade} \
    --extra book --extra test -o requirements.txt pyproject.toml >"$scratch/log" 2>&1; then
    cat "$scratch/log"
    fail "no set of versions fits pyproject.toml, or the index cannot be reached: see above."
fi

# The book itself is installed from its folder; a build of torch (+cpu) is the reader's choice. What
# an extra brings for one system alone is chosen here without that condition: it is written again.
awk '/^attention-derived/ { own = 1; next }
     own && /^ / { next }
     /^mlx-cpu==/ { $0 = $0 " ; sys_platform == \"linux\"" }
     { own = 0; sub(/^torch==[0-9.]+\+[a-z0-9.]+/, substr($0, 1, index($0, "+") - 1)); print }
' requirements.txt >"$root/requirements.txt.new"
printf 'Checking that Python %s can install them\n' "$oldest"
"$scratch/venv/bin/python" -m pip install -q --disable-pip-version-check --dry-run --no-deps \
    --ignore-installed --target "$scratch/none" --python-version "$oldest" --only-binary=:all: \
    -r "$root/requirements.txt.new" >"$scratch/log" 2>&1 || {
    rm "$root/requirements.txt.new"
    grep '^ERROR' "$scratch/log" | tail -n 2
    fail "Python $oldest cannot install these versions: run this with PYTHON=… of that release."
}
cd "$root"
if grep -q -e '://' -e "$scratch" -e '^-' requirements.txt.new; then
    rm requirements.txt.new
    fail "the lock would name an index or a path, and was not written."
fi
if cmp -s requirements.txt requirements.txt.new; then
    rm requirements.txt.new
    printf 'requirements.txt is unchanged\n'
else
    mv requirements.txt.new requirements.txt
    printf 'requirements.txt is written: run make test\n'
fi
