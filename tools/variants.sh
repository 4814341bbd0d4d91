#!/bin/sh
# Runs the notebooks as other machines would: the outputs must not depend on threads, on the width
# of the processor's vector units, or on which kernels were chosen; then checks that executing them
# anew gives the same bytes.
set -u
cd "$(dirname "$0")/.." || exit 1
py=.venv/bin/python
failed=

judge() { # judge NAME PROOF VARIABLE=VALUE..., where PROOF is what Python must then find true
    name=$1 proof=$2
    shift 2
    printf '%s\n' "Notebooks with $name"
    if ! env "$@" "$py" -c "import numpy, torch; assert $proof" </dev/null; then
        failed="$failed, $name (the setting has no effect here)"
        return
    fi
    env "$@" "$py" -m pytest -q -n 2 --dist loadfile chapters </dev/null || failed="$failed, $name"
}

judge "one thread" True NOTEBOOK_THREADS=1
judge "two threads" True NOTEBOOK_THREADS=2
judge "PyTorch's plainest kernels" \
    "torch.backends.cpu.get_cpu_capability() == 'DEFAULT'" \
    ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41
judge "BLAS kernels of an old processor" True OPENBLAS_CORETYPE=Prescott
judge "NumPy's wide vector units off" \
    "not numpy._core._multiarray_umath.__cpu_features__['X86_V3']" \
    NPY_DISABLE_CPU_FEATURES="X86_V4 X86_V3"
printf 'Notebooks executed anew, byte for byte\n'
"$py" tools/execute.py --check || failed="$failed, byte for byte"
[ -z "$failed" ] || {
    printf 'make: these variants differ: %s\n' "${failed#, }" >&2
    exit 1
}
printf 'All variants give the stored outputs\n'
