#!/bin/sh
# Runs the notebooks as other machines would: the outputs must not depend on threads, on the width
# of the processor's vector units, or on which kernels were chosen; then checks that executing them
# anew gives the same bytes.
set -u
cd "$(dirname "$0")/.." || exit 1
py=.venv/bin/python
failed=

judge() { # judge NAME VARIABLE=VALUE...
    name=$1
    shift
    printf '%s\n' "Notebooks with $name"
    env "$@" "$py" -m pytest -q -n 2 --dist loadfile chapters </dev/null || failed="$failed, $name"
}

judge "one thread" NOTEBOOK_THREADS=1
judge "two threads" NOTEBOOK_THREADS=2
judge "PyTorch's plainest kernels" ATEN_CPU_CAPABILITY=default
judge "BLAS kernels of an old processor" OPENBLAS_CORETYPE=Prescott
judge "NumPy's wide vector units off" NPY_DISABLE_CPU_FEATURES="X86_V4 X86_V3"
printf 'Notebooks executed anew, byte for byte\n'
"$py" tools/execute.py --check || failed="$failed, byte for byte"
[ -z "$failed" ] || {
    printf 'make: these variants differ: %s\n' "${failed#, }" >&2
    exit 1
}
printf 'All variants give the stored outputs\n'
