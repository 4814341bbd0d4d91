r"""Attention in NumPy: the book's main equations, readable before fast.

All functions take any floating dtype and compute in at least float32. Shapes are written in the
letters of the package: L queries, S keys, E = d_k, Ev = d_v, H heads; ``...`` is any number of
leading axes, which broadcast. A mask is boolean (True = may attend) or floating (added
to the scores; :math:`-\infty` masks), and may be a NumPy array or a CPU tensor of
:mod:`attention.masks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from attention import _checks

__all__ = [
    "dropout_mask",
    "log_sum_exp",
    "merge_heads",
    "multi_head_attention",
    "scaled_dot_product_attention",
    "scaled_dot_product_attention_backward",
    "softmax",
    "softmax_jacobian",
    "split_heads",
]

FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]


def softmax(x: ArrayLike, axis: int = -1) -> FloatArray:
    r"""Turn scores into weights: none negative, with sum one along an axis.

    .. math:: \softmax(x)_j = \frac{e^{x_j - m}}{\sum_{j'} e^{x_{j'} - m}}, \qquad
              m = \max_{j'} x_{j'}

    The maximum is taken along ``axis`` for each row on its own: it cancels in the quotient, and
    it keeps every exponent at or below zero, so that nothing overflows and the largest term of
    each sum is 1.

    Parameters
    ----------
    x
        Scores, shape (..., S), of a floating dtype. An entry of :math:`-\infty` gets weight 0.
    axis
        The axis that is normalised.

    Returns
    -------
    numpy.ndarray
        Weights, same shape and dtype. A row that holds only :math:`-\infty` gets zeros.

    Raises
    ------
    TypeError
        If ``x`` is not floating, or has no axis.

    Notes
    -----
    Subtracting the maximum is the standard safeguard; its rounding error is analysed in
    Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax functions",
    IMA Journal of Numerical Analysis 41 (2021), doi:10.1093/imanum/draa038.
    """
    x, dtype = _floating("x", x)
    return np.asarray(_softmax(x, axis), dtype)


def log_sum_exp(
    x: ArrayLike, axis: int = -1, keepdims: bool = False
) -> FloatArray:
    r"""Return the logarithm of a sum of exponentials without overflow.

    .. math:: \operatorname{lse}(x) = \log \sum_j e^{x_j} = m + \log \sum_j e^{x_j - m},
              \qquad m = \max_j x_j

    Parameters
    ----------
    x
        Scores, shape (..., S), of a floating dtype.
    axis
        The axis that is summed over.
    keepdims
        Whether the summed axis stays, with size 1.

    Returns
    -------
    numpy.ndarray
        Shape (...), or (..., 1) with ``keepdims``; same dtype. A row that is empty or holds only
        :math:`-\infty` gives :math:`-\infty`, the logarithm of an empty sum; one that holds
        :math:`\infty` gives that.

    Raises
    ------
    TypeError
        If ``x`` is not floating, or has no axis.

    Notes
    -----
    Its gradient is the softmax. Source: Blanchard, Higham and Higham (2021),
    doi:10.1093/imanum/draa038.
    """
    x, dtype = _floating("x", x)
    # A row that holds inf sums to it, whatever inf - inf is.
    with np.errstate(invalid="ignore"):
        exponentials, maximum = _shifted_exponentials(x, axis)
    # log 0 = -inf is the answer for an empty row.
    with np.errstate(divide="ignore"):
        result = maximum + np.log(exponentials.sum(axis=axis, keepdims=True))
    result = np.where(np.isposinf(maximum), maximum, result)
    result = np.asarray(result, dtype)
    squeezed: FloatArray = result if keepdims else result.squeeze(axis)
    return squeezed


def softmax_jacobian(x: ArrayLike) -> FloatArray:
    r"""Return the matrix of the softmax's partial derivatives at the scores ``x``.

    .. math:: \frac{\partial p_i}{\partial x_j} = p_i (\delta_{ij} - p_j), \qquad
              J = \diag(p) - p\,p^{\mathsf T}, \qquad p = \softmax(x)

    Parameters
    ----------
    x
        Scores, shape (..., S), of a floating dtype.

    Returns
    -------
    numpy.ndarray
        Shape (..., S, S), same dtype. It is symmetric, and its rows and columns sum to zero.

    Raises
    ------
    TypeError
        If ``x`` is not floating, or has no axis.
    """
    x, dtype = _floating("x", x)
    p = softmax(x)
    jacobian = p[..., :, None] * (
        np.eye(p.shape[-1], dtype=p.dtype) - p[..., None, :]
    )
    return np.asarray(jacobian, dtype)


def scaled_dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_mask: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Average the values with weights that say how well each key answers each query.

    .. math:: \operatorname{Attention}(Q, K, V) = P V, \qquad
              P = \softmax\!\left(\frac{Q K^{\mathsf T}}{\sqrt{d_k}} + M\right)

    Parameters
    ----------
    query
        Shape (..., L, E).
    key
        Shape (..., S, E).
    value
        Shape (..., S, Ev). The three share one floating dtype; their leading axes broadcast.
    attn_mask
        Broadcasts to (..., L, S). Boolean: True = may attend. Floating: added to the scores.
    is_causal
        Query i sees keys 0 … i (upper-left corner, also where L ≠ S); with a mask, both apply.
    scale
        Factor on the scores; :math:`1/\sqrt{E}` where it is None.
    dropout_mask
        Factors on the weights, 0 or :math:`1/(1-p_{\text{drop}})`, as :func:`dropout_mask` draws
        them; broadcasts to (..., L, S). None means no dropout.

    Returns
    -------
    output : numpy.ndarray
        Shape (..., L, Ev). A query that may attend to nothing gets zeros.
    weights : numpy.ndarray
        Shape (..., L, S), before dropout. Each row sums to 1, or is 0 where nothing may be seen.

    Raises
    ------
    TypeError
        If the dtypes are not floating or differ, or the mask is of integers.
    ValueError
        If shapes do not fit, or a floating mask holds nothing but zeros and ones, with a one among
        them.

    Notes
    -----
    Equation (1) of Vaswani et al., "Attention is all you need", 2017, arXiv:1706.03762. The mask
    is not in that equation; their section 3.2.3 describes it in words.
    """
    inputs = _Inputs(
        query, key, value, attn_mask, is_causal, scale, dropout_mask
    )
    weights = inputs.weights()
    # (..., L, S) @ (..., S, Ev) -> (..., L, Ev)
    output = inputs.drop(weights) @ inputs.value
    return (
        np.asarray(output, inputs.dtype),
        np.asarray(weights, inputs.dtype),
    )


def scaled_dot_product_attention_backward(
    grad_output: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_mask: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Carry a gradient from the output of attention back to query, key and value.

    With the scale :math:`c`, the scores :math:`Z = c\,Q K^{\mathsf T} + M`, the weights
    :math:`P = \softmax(Z)`, the dropout factors :math:`D` and :math:`G`, the gradient that arrives
    at the output:

    .. math::

        \mathrm{d}V &= (P \circ D)^{\mathsf T} G \\
        \mathrm{d}P &= D \circ (G V^{\mathsf T}) \\
        \mathrm{d}Z_{ij} &= P_{ij}
            \Big(\mathrm{d}P_{ij} - \sum_{j'} P_{ij'}\,\mathrm{d}P_{ij'}\Big) \\
        \mathrm{d}Q &= c\,\mathrm{d}Z\,K, \qquad \mathrm{d}K = c\,\mathrm{d}Z^{\mathsf T} Q

    Parameters
    ----------
    grad_output
        Gradient of a scalar with respect to the output, shape (..., L, Ev), same dtype.
    query, key, value, attn_mask, is_causal, scale, dropout_mask
        As in :func:`scaled_dot_product_attention`.

    Returns
    -------
    grad_query, grad_key, grad_value : numpy.ndarray
        Each in the shape and dtype of its input; where a leading axis was broadcast, the sum over
        it. Masked pairs contribute exactly 0.

    Raises
    ------
    TypeError, ValueError
        As in :func:`scaled_dot_product_attention`; also if ``grad_output`` has another shape than
        the output.

    Notes
    -----
    The same gradients are derived in appendix B.2 of Dao et al., "FlashAttention", 2022,
    arXiv:2205.14135, and computed tile by tile in their Algorithm 4.
    """
    inputs = _Inputs(
        query, key, value, attn_mask, is_causal, scale, dropout_mask
    )
    grad, grad_dtype = _floating("grad_output", grad_output)
    if grad_dtype != inputs.dtype:
        raise TypeError(
            f"grad_output must be of {inputs.dtype} as query is, "
            f"got {grad_dtype}"
        )
    output_shape = (*inputs.scores_shape[:-1], inputs.value.shape[-1])
    if grad.shape != output_shape:
        raise ValueError(
            f"grad_output must have the output's shape {output_shape}, "
            f"got {grad.shape}"
        )

    weights = inputs.weights()  # P, (..., L, S)
    grad_value = inputs.drop(weights).swapaxes(-2, -1) @ grad
    # A masked value may overflow here.
    with np.errstate(over="ignore", invalid="ignore"):
        grad_weights = inputs.drop(grad @ inputs.value.swapaxes(-2, -1))
    if inputs.allowed is not None:
        grad_weights = np.where(inputs.allowed, grad_weights, 0)
    row_sums = (weights * grad_weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - row_sums)
    grad_query = inputs.scale * grad_scores @ inputs.key
    grad_key = inputs.scale * grad_scores.swapaxes(-2, -1) @ inputs.query
    return (
        np.asarray(
            _sum_to_shape(grad_query, inputs.query.shape), grad_dtype
        ),
        np.asarray(_sum_to_shape(grad_key, inputs.key.shape), grad_dtype),
        np.asarray(
            _sum_to_shape(grad_value, inputs.value.shape), grad_dtype
        ),
    )


def dropout_mask(
    shape: tuple[int, ...],
    dropout_p: float,
    rng: np.random.Generator,
    dtype: DTypeLike = np.float64,
) -> FloatArray:
    r"""Draw the factors that dropout puts on the weights.

    .. math:: D_{ij} = \frac{\beta_{ij}}{1 - p_{\text{drop}}}, \qquad
              \beta_{ij} \sim \operatorname{Bernoulli}(1 - p_{\text{drop}}), \qquad
              \mathbb{E}[D_{ij}] = 1

    Parameters
    ----------
    shape
        The weights' shape (..., L, S).
    dropout_p
        Probability that a weight is dropped, in [0, 1).
    rng
        Source of randomness.
    dtype
        Floating dtype of the result.

    Returns
    -------
    numpy.ndarray
        Entries 0 or :math:`1/(1-p_{\text{drop}})`.

    Raises
    ------
    ValueError
        If ``dropout_p`` lies outside [0, 1).
    TypeError
        If ``dropout_p`` is no number, ``rng`` no generator, or ``dtype`` not
        floating.

    Notes
    -----
    Dropout was introduced by Hinton et al. (2012), arXiv:1207.0580, and is described in full by
    Srivastava et al., JMLR 15 (2014) 1929–1958, who rescale at test time; dividing in training
    instead is what PyTorch does.
    """
    dropout_p = _checks.probability(dropout_p)
    dtype = np.dtype(dtype)
    if not np.issubdtype(dtype, np.floating):
        raise TypeError(f"dtype must be floating, got {dtype}")
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, got {type(rng).__name__}"
        )
    return ((rng.random(shape) >= dropout_p) / (1.0 - dropout_p)).astype(
        dtype
    )


def split_heads(x: ArrayLike, num_heads: int) -> FloatArray:
    """Cut the last axis into heads, and move the heads in front of the positions.

    Head h of position l is the slice ``x[..., l, h * d : (h + 1) * d]``.

    Parameters
    ----------
    x
        Shape (..., L, H * d).
    num_heads
        Number of heads, H.

    Returns
    -------
    numpy.ndarray
        Shape (..., H, L, d).

    Raises
    ------
    ValueError
        If ``x`` has fewer than two axes, or ``num_heads`` does not divide its width.
    """
    x = np.asarray(x)
    num_heads = _checks.splittable(x.shape, num_heads)
    *leading, length, width = x.shape
    # (..., L, H * d) -> (..., L, H, d) -> (..., H, L, d)
    x = x.reshape(*leading, length, num_heads, width // num_heads)
    return x.swapaxes(-3, -2)


def merge_heads(x: ArrayLike) -> FloatArray:
    """Move the heads behind the positions, and join them into one axis.

    The inverse of :func:`split_heads`.

    Parameters
    ----------
    x
        Shape (..., H, L, d).

    Returns
    -------
    numpy.ndarray
        Shape (..., L, H * d).

    Raises
    ------
    ValueError
        If ``x`` has fewer than three axes.
    """
    x = np.asarray(x)
    _checks.mergeable(x.shape)
    *leading, num_heads, length, width = x.shape
    # (..., H, L, d) -> (..., L, H, d) -> (..., L, H * d)
    x = x.swapaxes(-3, -2)
    return x.reshape(*leading, length, num_heads * width)


def multi_head_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    parameters: Mapping[str, ArrayLike],
    num_heads: int,
    attn_mask: ArrayLike | None = None,
    *,
    num_kv_heads: int | None = None,
    is_causal: bool = False,
    dropout_mask: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Attend in H projected subspaces at once, and mix what the heads found.

    .. math::

        \operatorname{MultiHead}(X_q, X_k, X_v) &= [O_0 \; \cdots \; O_{H-1}]\, W^O + b^O \\
        O_h &= \operatorname{Attention}(X_q W^Q_h + b^Q_h,\; X_k W^K_h + b^K_h,\;
               X_v W^V_h + b^V_h)

    where :math:`W^Q_h` is the h-th block of columns of :math:`W^Q`, and likewise for the others.

    Parameters
    ----------
    query
        Shape (..., L, d_model).
    key
        Shape (..., S, width of keys).
    value
        Shape (..., S, width of values). The three share one floating dtype.
    parameters
        ``W_Q`` (d_model, H * d_k), ``W_K`` (width of keys, H_kv * d_k),
        ``W_V`` (width of values, H_kv * d_v), ``W_O`` (H * d_v, width of the output), and,
        where there are biases, ``b_Q``, ``b_K``, ``b_V``, ``b_O`` of the matching widths.
    num_heads
        Number of query heads, H.
    attn_mask
        Shape (L, S) or (S,), or all the axes of (..., H, L, S), of size 1 where it is the same for
        all; see :func:`scaled_dot_product_attention`.
    num_kv_heads
        H_kv, which divides H: each key/value head serves H / H_kv consecutive query heads.
        None means H.
    is_causal
        Query i sees keys 0 … i, in every head; with a mask, both apply.
    dropout_mask
        Factors on the weights, of the same shapes as ``attn_mask``.

    Returns
    -------
    output : numpy.ndarray
        Shape (..., L, width of the output).
    weights : numpy.ndarray
        Shape (..., H, L, S), per head, before dropout.

    Raises
    ------
    KeyError
        If one of the four matrices is missing, or a name is none of the eight.
    TypeError, ValueError
        If dtypes, widths, head counts or the mask do not fit.

    Notes
    -----
    Section 3.2.2 of Vaswani et al. (2017), arXiv:1706.03762, which has no biases; grouped heads
    are from Ainslie et al. (2023), arXiv:2305.13245.
    """
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    query, key, value = np.asarray(query), np.asarray(key), np.asarray(value)
    if not isinstance(parameters, Mapping):
        raise TypeError(
            f"parameters must be a mapping, got {type(parameters).__name__}"
        )
    arrays = {name: np.asarray(array) for name, array in parameters.items()}
    scores_shape = _check_multi_head(
        query, key, value, arrays, num_heads, num_kv_heads, attn_mask
    )
    _checks.flag(is_causal, "is_causal")
    if dropout_mask is not None:
        factors = _read_dropout(dropout_mask, scores_shape)
        _checks.layer_mask_shape(factors.shape, scores_shape, "dropout_mask")

    if attn_mask is not None or is_causal:
        L, S = scores_shape[-2:]
        allowed = np.tri(L, S) > 0 if is_causal else np.ones((1, 1), bool)
        if attn_mask is not None:
            allowed = allowed & _allowed(np.asarray(attn_mask))
        key, value = (_zero_unseen(x, allowed) for x in (key, value))

    # project, then split: (..., L, d_model) -> (..., H, L, d_k)
    queries = split_heads(_project(query, arrays, "Q"), num_heads)
    keys = split_heads(_project(key, arrays, "K"), num_kv_heads)
    values = split_heads(_project(value, arrays, "V"), num_kv_heads)
    # Each key/value head serves a group of consecutive query heads:
    # (..., H_kv, S, d_k) -> (..., H, S, d_k)
    group = num_heads // num_kv_heads
    keys, values = keys.repeat(group, axis=-3), values.repeat(group, axis=-3)
    # attend: (..., H, L, d_v)
    heads, weights = scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask,
        is_causal=is_causal,
        dropout_mask=dropout_mask,
    )
    # merge, then mix: (..., L, H * d_v) -> (..., L, width)
    output = _project(merge_heads(heads), arrays, "O")
    return np.asarray(output, query.dtype), np.asarray(weights, query.dtype)


class _Inputs:
    """What forward and backward share: checked inputs in the dtype that is computed in."""

    def __init__(
        self,
        query: ArrayLike,
        key: ArrayLike,
        value: ArrayLike,
        attn_mask: ArrayLike | None,
        is_causal: bool,
        scale: float | None,
        dropout_mask: ArrayLike | None,
    ) -> None:
        self.query, self.dtype = _floating("query", query)
        self.key, key_dtype = _floating("key", key)
        self.value, value_dtype = _floating("value", value)
        if not self.dtype == key_dtype == value_dtype:
            raise TypeError(
                "query, key and value must share one dtype, "
                f"got {self.dtype}, {key_dtype} and {value_dtype}"
            )
        _checks.flag(is_causal, "is_causal")
        self.scores_shape = _checks.scores_shape(
            self.query.shape, self.key.shape, self.value.shape
        )
        self.scale = _checks.softmax_scale(scale, self.query.shape[-1])
        self.allowed, self.bias = _read_mask(attn_mask, self.scores_shape)
        if is_causal:
            causal = np.tri(*self.scores_shape[-2:], dtype=np.bool_)
            self.allowed = (
                causal if self.allowed is None else self.allowed & causal
            )
        self.dropout: FloatArray | None = None
        if dropout_mask is not None:
            factors = _read_dropout(dropout_mask, self.scores_shape)
            self.dropout = np.asarray(factors, self.query.dtype)

    def weights(self) -> FloatArray:
        """Return P = softmax(scale · Q Kᵀ + M), shape (..., L, S)."""
        # What a masked pair holds does not matter, nor does its overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.scale * self.query @ self.key.swapaxes(-2, -1)
        if self.bias is not None:
            scores = scores + self.bias
        if self.allowed is not None:
            scores = np.where(self.allowed, scores, -np.inf)
        # The weights take the place of the scores, unless the value alone
        # has leading axes.
        out = scores if scores.shape == self.scores_shape else None
        return _softmax(np.broadcast_to(scores, self.scores_shape), out=out)

    def drop(self, x: FloatArray) -> FloatArray:
        """Multiply an array (..., L, S) by the factors of dropout, where there are any."""
        return x if self.dropout is None else x * self.dropout


def _floating(name: str, x: ArrayLike) -> tuple[FloatArray, np.dtype[Any]]:
    """Return the array in at least float32, and the dtype that it came in."""
    array = np.asarray(x)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(
            f"{name} must be of a floating dtype, got {array.dtype}"
        )
    return _widen(array), array.dtype


def _widen(x: FloatArray) -> FloatArray:
    """Return an array in at least float32."""
    return np.asarray(x, np.promote_types(x.dtype, np.float32))


def _softmax(
    x: FloatArray, axis: int = -1, out: FloatArray | None = None
) -> FloatArray:
    """Return the weights, written to ``out``, which may be ``x``, or to a new array."""
    exponentials, _ = _shifted_exponentials(x, axis, out)
    total = exponentials.sum(axis=axis, keepdims=True)
    # A row of -inf alone has total 0; its weights are 0, not 0/0.
    weights = exponentials
    weights /= np.where(total == 0, 1, total)
    return weights


def _shifted_exponentials(
    x: FloatArray, axis: int, out: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return exp(x - m) and m, the maximum along the axis, or 0 where that is -inf."""
    if not x.ndim:
        raise TypeError("x must have at least one axis, got a single number")
    maximum = x.max(axis=axis, keepdims=True, initial=-np.inf)
    maximum = np.where(np.isneginf(maximum), x.dtype.type(0), maximum)
    # A difference of -inf has the exponential 0, and needs no warning.
    with np.errstate(over="ignore"):
        exponentials = np.subtract(x, maximum, out=out)
        np.exp(exponentials, out=exponentials)
        return exponentials, maximum


def _read_mask(
    attn_mask: ArrayLike | None, scores_shape: tuple[int, ...]
) -> tuple[BoolArray | None, FloatArray | None]:
    """Split a mask into who may attend (boolean) and what is added (floating, finite)."""
    if attn_mask is None:
        return None, None
    mask = np.asarray(attn_mask)
    if mask.dtype != np.bool_ and not np.issubdtype(mask.dtype, np.floating):
        raise _checks.integer_mask(mask.dtype)
    _checks.mask_shape(mask.shape, scores_shape)
    if mask.dtype == np.bool_:
        return mask, None
    _checks.zeros_and_ones(
        bool(((mask == 0) | (mask == 1)).all() and (mask == 1).any())
    )
    allowed = ~np.isneginf(mask)
    return allowed, np.where(allowed, mask, 0)


def _read_dropout(
    dropout_mask: ArrayLike, scores_shape: tuple[int, ...]
) -> FloatArray:
    """Return the factors on the weights, in at least float32."""
    factors, _ = _floating("dropout_mask", dropout_mask)
    _checks.mask_shape(factors.shape, scores_shape, "dropout_mask")
    return factors


def _check_multi_head(
    query: NDArray[Any],
    key: NDArray[Any],
    value: NDArray[Any],
    parameters: Mapping[str, NDArray[Any]],
    num_heads: int,
    num_kv_heads: int,
    attn_mask: ArrayLike | None,
) -> tuple[int, ...]:
    """Raise before anything is computed unless all fits; return the scores' shape."""
    num_heads, num_kv_heads = _checks.head_counts(num_heads, num_kv_heads)
    matrices, biases = (
        {f"{kind}_{name}" for name in "QKVO"} for kind in "Wb"
    )
    missing, unknown = (
        matrices - set(parameters),
        set(parameters) - matrices - biases,
    )
    if missing or unknown:
        raise KeyError(
            f"parameters: missing {sorted(missing)}, unknown {sorted(unknown)}"
        )
    for name, array in {
        "query": query,
        "key": key,
        "value": value,
        **parameters,
    }.items():
        if not np.issubdtype(array.dtype, np.floating):
            raise TypeError(
                f"{name} must be of a floating dtype, got {array.dtype}"
            )
        if array.dtype != query.dtype:
            raise TypeError(
                f"{name} must be of {query.dtype} as query is, got {array.dtype}"
            )

    split_shapes: list[tuple[int, ...]] = []
    for name, x, heads in (
        ("Q", query, num_heads),
        ("K", key, num_kv_heads),
        ("V", value, num_kv_heads),
    ):
        weight = parameters[f"W_{name}"]
        if x.ndim < 2 or weight.ndim != 2 or x.shape[-1] != weight.shape[0]:
            raise ValueError(
                f"input of shape {x.shape} does not fit W_{name} {weight.shape}"
            )
        if weight.shape[1] % heads:
            raise ValueError(
                f"{heads} heads do not divide the columns of W_{name} {weight.shape}"
            )
        split_shapes.append(
            (*x.shape[:-2], heads, x.shape[-2], weight.shape[1] // heads)
        )
    queries, keys, values = split_shapes
    scores_shape = _checks.scores_shape(
        queries, keys, values, enable_gqa=True
    )
    merged_width = num_heads * values[-1]
    if (
        parameters["W_O"].ndim != 2
        or parameters["W_O"].shape[0] != merged_width
    ):
        raise ValueError(
            f"W_O must have num_heads * d_v = {merged_width} rows, got {parameters['W_O'].shape}"
        )
    for name in biases & set(parameters):
        columns = parameters[name.replace("b", "W")].shape[1:]
        if parameters[name].shape != columns:
            raise ValueError(
                f"{name} must have shape {columns}, got {parameters[name].shape}"
            )
    if attn_mask is not None:
        _checks.layer_mask_shape(np.shape(attn_mask), scores_shape)
    _read_mask(attn_mask, scores_shape)
    return scores_shape


def _allowed(mask: NDArray[Any]) -> BoolArray:
    """Return where a boolean or additive mask lets a query attend."""
    return mask if mask.dtype == np.bool_ else ~np.isneginf(mask)


def _zero_unseen(x: FloatArray, allowed: BoolArray) -> FloatArray:
    """Zero the positions that no query may see, lest their projection overflows."""
    seen = allowed
    for _ in range(min(2, seen.ndim - 1)):  # over queries, then over heads
        seen = np.logical_or.reduce(seen, axis=-2)
    return np.where(seen[..., None], x, x.dtype.type(0))


def _project(
    x: FloatArray, parameters: Mapping[str, NDArray[Any]], name: str
) -> FloatArray:
    """Return x W + b, in at least float32, with the parameters of the given name."""
    weight, bias = parameters[f"W_{name}"], parameters.get(f"b_{name}")
    result: FloatArray = _widen(x) @ weight
    if bias is not None:
        result += bias
    return result


def _sum_to_shape(grad: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Sum a gradient over the axes along which its input was broadcast."""
    added = tuple(range(grad.ndim - len(shape)))
    stretched = tuple(
        axis
        for axis in range(len(added), grad.ndim)
        if shape[axis - len(added)] == 1 and grad.shape[axis] != 1
    )
    return (
        grad.sum(axis=added + stretched).reshape(shape)
        if added or stretched
        else grad
    )
