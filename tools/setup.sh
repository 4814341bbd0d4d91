#!/bin/sh
# Makes .venv from requirements.txt, or does nothing when it is up to date.
# PYTHON=… chooses the interpreter.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*"; }
fail() {
    printf 'make: %s\n' "$*" >&2
    exit 1
}

# The folder is part of the stamp: a moved environment no longer finds its own scripts.
want=$(cksum requirements.txt pyproject.toml && pwd -P)
stamp=.venv/installed
venv=.venv/bin/python

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

works() {
    [ -x "$venv" ] || return 1
    have=$(version_of "$venv") || return 1
    [ -z "${PYTHON:-}" ] || [ "$have" = "$(version_of "$PYTHON")" ]
}

up_to_date() { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && works; }

up_to_date && exit 0

# ---------------------------------------------------------------- the interpreter
old='' bare='' python=''
for candidate in ${PYTHON:+"$PYTHON"} ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    # A name on the path need not start: version managers leave such stubs.
    version=$(version_of "$candidate") || continue
    if ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        old="$candidate is Python $version"
    elif "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
        python=$candidate with_pip=yes
        break
    elif [ -z "$bare" ]; then
        bare=$candidate bare_version=$version
    fi
done

if [ -z "$python" ] && [ -n "$bare" ]; then
    # Debian ships venv's second half apart, but a pip that can fill an environment from outside will do.
    if "$bare" -c 'import venv' 2>/dev/null && "$bare" -m pip --help 2>/dev/null | grep -q -e --python; then
        python=$bare version=$bare_version with_pip=no
    else
        fail "$bare has no venv module: install it (Debian, Ubuntu: sudo apt install python$bare_version-venv), then run this again."
    fi
fi
if [ -z "$python" ]; then
    [ -z "$old" ] || fail "Python 3.11 or newer is needed, and $old: install a newer one, or name it with PYTHON=/path/to/python3.11."
    [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON does not start: name a Python 3.11 or newer."
    fail "python3 was not found: install Python 3.11 or newer (Debian, Ubuntu: sudo apt install python3 python3-venv)."
fi

# ---------------------------------------------------------------- room on the disk
free_mb() { df -Pk "$1" 2>/dev/null | awk 'NR == 2 { print int($4 / 1024) }'; }
need() { # need FOLDER MEGABYTES
    free=$(free_mb "$1")
    [ "${free:-$2}" -ge "$2" ] || fail "the disk is too full: $1 has $free MB free and $2 MB are needed; make room, then run this again."
}
need "${TMPDIR:-/tmp}" 500
[ -e .venv ] || need . 3000

# ---------------------------------------------------------------- one at a time
if [ "${SETUP_LOCKED:-}" != yes ]; then
    SETUP_LOCKED=yes exec "$python" tools/locked.py .make/setup.lock sh tools/setup.sh
fi

# ---------------------------------------------------------------- the environment
# Without a stamp the last installation did not end: what it left cannot be trusted.
if [ ! -f "$stamp" ] || [ "$(tail -n 1 "$stamp")" != "$(pwd -P)" ] || ! works; then
    [ ! -e .venv ] || say "Removing the unfinished or outdated .venv"
    rm -rf .venv
    need . 3000
    say "Making .venv with $python (Python $version)"
    if [ "$with_pip" = yes ]; then
        "$python" -m venv .venv >.make/setup.log 2>&1
    else
        "$python" -m venv --without-pip .venv >.make/setup.log 2>&1
    fi || {
        rm -rf .venv
        fail "$python could not make a virtual environment: .make/setup.log has its words."
    }
fi
rm -f "$stamp"

install() { # install COMMAND: pip's words go to a log, and the large things it fetches to the screen
    {
        if PIP_USER=0 "$@" --no-input --disable-pip-version-check --retries 2 2>&1; then
            say "setup: done"
        fi
    } | tee .make/setup.log | sed -n \
        -e 's/^ *Downloading \([^-]*\)-.*(\([0-9.]* [MG]B\)).*/  fetching \1 (\2)/p' \
        -e 's/^Installing collected packages:.*,.*/  unpacking, which takes the longest/p'
    ! tail -n 1 .make/setup.log | grep -q '^setup: done$' || return 0
    if grep -q -i -e 'no space left' -e 'disk quota exceeded' .make/setup.log; then
        fail "the disk ran full while installing: make room (3 GB), then run this again."
    elif grep -q -i -e 'connection' -e 'name resolution' -e 'network is unreachable' -e 'timed out' \
        -e 'proxy' -e 'max retries' -e 'from versions: none' .make/setup.log; then
        fail "pip cannot reach a package index: check the network (or pip's proxy and index settings), then run this again; .make/setup.log has pip's words."
    fi
    fail "pip could not install the requirements: $(grep '^ERROR' .make/setup.log | tail -n 1) (.make/setup.log has all that pip said)"
}

if [ "$with_pip" = no ] && ! "$venv" -c 'import pip' 2>/dev/null; then
    install "$python" -m pip --python "$venv" install pip
fi
say "Installing $(grep -c '==' requirements.txt) packages (about 2 GB, one to two minutes)"
install "$venv" -m pip install -r requirements.txt
say "Installing the package attention, editable"
install "$venv" -m pip install --no-deps --no-build-isolation -e .

# Else the first chapter to draw would say on its page that it lists the fonts.
MPLCONFIGDIR=.make/matplotlib "$venv" -c 'import matplotlib.font_manager'

printf '%s\n' "$want" >"$stamp.new"
mv "$stamp.new" "$stamp"
