"""Writes op_answers.safetensors: what PyTorch's operators answer, for smelt's evaluator to be held against.

    python3 testdata/make_op_answers.py [-v]

README.md, "Operator answers", says what the file holds. PyTorch 2.13 and nothing else is needed. -v prints what PyTorch
refused and so is not in the table.
"""

import os
import sys
import zlib

import torch

from op_table import BF16, BITS, BOOL, C64, CLOSE, EQUAL, F16, F32, F64, FLOATS, GENERATOR, I8, I16, I32, I64, INF, INTS, NAN, U8
from op_table import Table, check, find_operator, ints, rand, spaced, special, transposed

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = Table()


def add(name, *args, **kwargs):
    GENERATOR.manual_seed(zlib.crc32(f"{name} {len(TABLE.entries)}".encode()))
    return TABLE.add(name, *args, **kwargs)


# The operators -------------------------------------------------------------------------------------------------------

UNARY_BITS = "abs neg ceil floor round trunc sgn sign signbit square isnan isinf isfinite isposinf isneginf logical_not reciprocal sqrt positive"
UNARY_CLOSE = ("exp exp2 expm1 log log2 log10 log1p rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid silu "
               "mish hardsigmoid hardswish erf erfc erfinv lgamma digamma frac relu relu6 hardtanh elu selu celu leaky_relu softplus "
               "softshrink hardshrink log_sigmoid gelu sinc deg2rad rad2deg nan_to_num logit i0 special_entr special_ndtr "
               "special_erfcx special_i0e special_i1 bitwise_not angle")
UNARY_EQUAL = "relu hardtanh relu6 nan_to_num hardshrink softshrink bitwise_not"


def has(name):
    return find_operator(name) is not None


def unary():
    equal, bits = UNARY_EQUAL.split(), UNARY_BITS.split()
    for name in bits + UNARY_CLOSE.split():
        compare = BITS if name in bits else EQUAL if name in equal else CLOSE
        for dtype in FLOATS + INTS + [BOOL, C64]:
            if dtype == C64 and name not in ("abs", "neg", "exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "reciprocal",
                                             "square", "sgn", "angle", "isnan", "isfinite", "rsqrt"):
                continue
            if dtype in (I16, I8) and name not in ("abs", "neg", "sign", "sin", "relu", "bitwise_not", "square"):
                continue
            add(name, special(dtype), compare=CLOSE if dtype == C64 else compare)
        x = rand(3, 4, low=0.1, high=0.9)
        for variant in (transposed(x), spaced(x), x[:, :0], x[0, 0], x.expand(2, 3, 4)):
            add(name, variant, compare=compare)
        if has(name + "_"):
            for dtype in (F32, BF16):
                add(name + "_", special(dtype), compare=compare)
            add(name + "_", spaced(x), compare=compare)
            add(name + "_", x[1], compare=compare)  # a row of a larger storage
            if name in ("abs", "neg", "square", "sign", "logical_not", "bitwise_not", "relu"):
                add(name + "_", special(I64), compare=compare)
        if has(name + ".out"):
            add(name + ".out", x, out=torch.empty(0), compare=compare)
            add(name + ".out", x, out=transposed(torch.zeros(3, 4, dtype=BOOL if name.startswith("is") or name in ("signbit",) else F32)),
                compare=compare)
    for approximate in ("none", "tanh"):
        for dtype in (F32, F64, BF16):
            add("gelu", special(dtype), approximate=approximate)
    for name, args in (("round.decimals", {"decimals": 2}), ("logit", {"eps": 0.1}), ("celu", {"alpha": 0.7}),
                       ("leaky_relu", {"negative_slope": 0.2}), ("elu", {"alpha": 1.3, "scale": 1.1, "input_scale": 0.9}),
                       ("hardtanh", {"min_val": -0.5, "max_val": 2.0}), ("softplus", {"beta": 2.0, "threshold": 5.0}),
                       ("softshrink", {"lambd": 0.7}), ("hardshrink", {"lambd": 0.7}),
                       ("nan_to_num", {"nan": 2.0, "posinf": 5.0, "neginf": -5.0}),
                       ("threshold", {"threshold": 0.3, "value": -7.0}), ("threshold_", {"threshold": 0.3, "value": -7.0}),
                       ("clamp_min", {"min": 0.25}), ("clamp_max", {"max": 0.25}), ("clamp_min_", {"min": 0.25}),
                       ("polygamma", {})):
        for dtype in (F32, F64, BF16):
            if name == "polygamma":
                add(name, 1, rand(6, dtype=dtype, low=0.3, high=4))
            else:
                add(name, special(dtype), **args, compare=CLOSE if name in ("round.decimals", "logit", "celu", "elu", "softplus") else EQUAL)
    for dtype in (F32, I64, BF16, U8):
        x = special(dtype)
        add("clamp", x, 1, 5, compare=EQUAL)
        add("clamp", x, None, 3, compare=EQUAL)
        add("clamp", x, 2, None, compare=EQUAL)
        add("clamp_", x.clone(), 1, 5, compare=EQUAL)
        add("threshold", x, 1, 20, compare=EQUAL)
        add("clamp.Tensor", x, x.flip(0), None, compare=EQUAL)
        add("clamp.Tensor", x, torch.ones_like(x), x.flip(0), compare=EQUAL)
    add("clamp", special(I64), 0.5, 3.5)
    add("clamp", special(F32), 3, 1, compare=EQUAL)


BINARY = {  # name: (compare, floats, ints, bool)
    "add": (BITS, 1, 1, 1), "sub": (BITS, 1, 1, 0), "mul": (BITS, 1, 1, 1), "div": (BITS, 1, 1, 1), "pow": (CLOSE, 1, 0, 0),
    "atan2": (CLOSE, 1, 1, 1), "maximum": (EQUAL, 1, 1, 1), "minimum": (EQUAL, 1, 1, 1), "fmax": (EQUAL, 1, 1, 1),
    "fmin": (EQUAL, 1, 1, 1), "copysign": (BITS, 1, 1, 1), "hypot": (CLOSE, 1, 0, 0), "nextafter": (BITS, 1, 0, 0),
    "logaddexp": (CLOSE, 1, 0, 0), "logaddexp2": (CLOSE, 1, 0, 0), "xlogy": (CLOSE, 1, 1, 1), "heaviside": (EQUAL, 1, 1, 1),
    "eq": (BITS, 1, 1, 1), "ne": (BITS, 1, 1, 1), "lt": (BITS, 1, 1, 1), "le": (BITS, 1, 1, 1), "gt": (BITS, 1, 1, 1),
    "ge": (BITS, 1, 1, 1), "logical_and": (BITS, 1, 1, 1), "logical_or": (BITS, 1, 1, 1), "logical_xor": (BITS, 1, 1, 1),
    "bitwise_and": (BITS, 0, 1, 1), "bitwise_or": (BITS, 0, 1, 1), "bitwise_xor": (BITS, 0, 1, 1),
    "bitwise_left_shift": (BITS, 0, 1, 0), "bitwise_right_shift": (BITS, 0, 1, 0), "gcd": (BITS, 0, 1, 0), "lcm": (BITS, 0, 1, 0),
    "remainder": (EQUAL, 1, 1, 0), "fmod": (EQUAL, 1, 1, 0), "floor_divide": (EQUAL, 1, 1, 0), "ldexp": (CLOSE, 1, 0, 0),
    "rsub": (BITS, 1, 1, 0), "special_xlog1py": (CLOSE, 1, 0, 0), "true_divide": (BITS, 1, 1, 0),
}
NO_ZERO = {"remainder", "fmod", "floor_divide"}


def pairs(dtype, name):
    """Every special value with a good choice of others, flattened."""
    x = special(dtype)
    if dtype.is_floating_point:
        others = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5, 3.0, 1e-3], dtype=F64).to(dtype)
    elif dtype == BOOL:
        others = torch.tensor([False, True])
    else:
        others = torch.tensor([1, 2, 3, 5] if dtype == U8 else [1, -1, 2, -3, 5], dtype=dtype)
        if "shift" in name:
            others = others.abs()
        if name not in NO_ZERO and "shift" not in name:
            others = torch.cat([others, torch.zeros(1, dtype=dtype)])
    if name == "ldexp":
        others = torch.tensor([-3, 0, 2, 5], dtype=dtype)
    if name == "pow" and not dtype.is_floating_point:
        others = others.abs()
    a, b = x.repeat_interleave(len(others)), others.repeat(len(x))
    if name in ("gcd", "lcm") and dtype == I8 or name == "div" and dtype == I8:
        a = a.clamp(min=-127)
    return a, b


def binary():
    for name, (compare, floats, with_ints, with_bool) in BINARY.items():
        overload = name + ".Tensor" if has(name + ".Tensor") else name + ".Tensor_Tensor" if has(name + ".Tensor_Tensor") else name
        dtypes = (FLOATS if floats else []) + ([I64, I32, I8, U8] if with_ints else []) + ([BOOL] if with_bool else [])
        for dtype in dtypes:
            add(overload, *pairs(dtype, name), compare=compare)
        plain = F32 if floats else I64
        a, b = rand(3, 4, dtype=plain, low=1, high=6), rand(3, 4, dtype=plain, low=1, high=4)
        for x, y in ((transposed(a), b), (a, spaced(b)), (a, b[:1]), (a[:, :1], b[:1]), (a[0], b), (a, b[0, 0]), (a[0, 0], b[1, 1]),
                     (a[:0], b[:0]), (a[:0], b[:1]), (a, a), (transposed(a), transposed(b))):
            add(overload, x, y, compare=compare)
        inplace = overload.replace(name, name + "_", 1)
        if has(inplace):
            add(inplace, transposed(a), b, compare=compare)
            add(inplace, spaced(a), b[0], compare=compare)
            add(inplace, a, a, compare=compare)  # the other operand is the tensor that is written
            add(inplace, a[1:], b[:1], compare=compare)
            if floats:
                add(inplace, a.clone(), ints(4, low=1, high=4), compare=compare)
        for scalar in (name + ".Scalar", name + ".Tensor_Scalar"):
            if has(scalar):
                for dtype in [d for d in (F32, BF16, F64, I64, U8) if d in dtypes]:
                    add(scalar, special(dtype), 2, compare=compare)
                    if dtype != U8 and "bitwise" not in name and name not in ("gcd", "lcm"):
                        add(scalar, special(dtype), 2.5, compare=compare)
                sc_in = scalar.replace(name, name + "_", 1)
                if has(sc_in):
                    add(sc_in, spaced(a), 2, compare=compare)
        if has(overload.rsplit(".", 1)[0] + ".out"):
            result = BOOL if name in ("eq", "ne", "lt", "le", "gt", "ge") or name.startswith("logical") else plain
            add(name + ".out", a, b, out=torch.empty(0, dtype=result), compare=compare)
            add(name + ".out", a, b, out=transposed(torch.zeros(3, 4, dtype=result)), compare=compare)
            add(name + ".out", a, b, out=a, compare=compare)
    for mode in ("floor", "trunc"):
        for dtype in FLOATS + [I64, I32, U8]:
            add("div.Tensor_mode", *pairs(dtype, "remainder"), rounding_mode=mode, compare=EQUAL)
        add("div.Scalar_mode", special(F32), 2.5, rounding_mode=mode, compare=EQUAL)
        add("div_.Tensor_mode", special(F32), torch.full((1,), -3.0), rounding_mode=mode, compare=EQUAL)
    for scalar in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5):
        for dtype in (F32, F64, BF16):
            add("pow.Tensor_Scalar", special(dtype), scalar)
    for scalar in (0, 1, 2, 3):
        add("pow.Tensor_Scalar", special(I64)[:9], scalar)
    for scalar in (0, 1, 2, -2, 0.5):
        add("pow.Scalar", scalar, special(F32))
    add("pow.Scalar", 2, ints(5, low=0, high=6))
    add("pow.Tensor_Tensor", ints(5, low=-3, high=4), ints(5, low=0, high=4))
    add("pow.Tensor_Tensor", rand(4, dtype=C64), rand(4, dtype=C64))
    for dtype in (F32, F64, BF16, I64, I32):
        a, b = rand(5, dtype=dtype, low=-9, high=9), rand(5, dtype=dtype, low=-9, high=9)
        for name in ("add", "sub", "rsub"):
            for alpha in (2, -3) + ((0.5,) if dtype.is_floating_point else ()):
                add(name + ".Tensor", a, b, alpha=alpha)
        add("add_.Tensor", a.clone(), b, alpha=2)
        add("add.Scalar", a, 3, alpha=2)
    for name, a, b in (("add", 1.5, rand(4)), ("remainder.Scalar_Tensor", 7, ints(4, low=1, high=5)),
                       ("remainder.Scalar_Tensor", 7.5, rand(4, low=1, high=4))):
        if "." in name:
            add(name, a, b, compare=EQUAL)
    for name in ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "__iand__", "__ior__", "__ixor__"):
        add(name + ".Tensor", ints(6, high=8), ints(6, high=4), compare=BITS)
        add(name + ".Scalar", ints(6, high=8), 3, compare=BITS)


def promotion():
    kinds = [BOOL, U8, I8, I32, I64, F16, BF16, F32, F64, C64]
    for a in kinds:
        for b in kinds:
            x, y = rand(2, dtype=a, low=1, high=5), rand(2, dtype=b, low=1, high=5)
            add("add.Tensor", x, y)
            add("mul.Tensor", x, y[0])  # a tensor of no dimension decides only between kinds
            if a.is_complex or b.is_complex:
                continue
            add("maximum", x, y, compare=EQUAL)
            add("lt.Tensor", x, y, compare=BITS)
            if a in (BOOL, U8, I64, BF16, F32) and b in (BOOL, I32, I64, F16, F32, F64):
                add("div.Tensor", x, y)
                add("where.self", torch.tensor([True, False]), x, y, compare=BITS)
                add("true_divide.Tensor", x[0], y)
        x = rand(2, dtype=a, low=1, high=5)
        for scalar in (True, 2, 1.5, 1 + 1j):
            add("add.Scalar", x, scalar)
            add("mul.Scalar", x, scalar)
            if not isinstance(scalar, complex):
                add("div.Scalar", x, scalar)
                add("eq.Scalar", x, scalar, compare=BITS)
        for b in kinds:
            if not (a.is_complex and not b.is_complex):
                source = rand(3, dtype=a, low=0, high=5)
                add("to.dtype", source, b, compare=BITS)
                add("_to_copy", source, dtype=b, compare=BITS)
                add("copy_", torch.zeros(3, dtype=b), source, compare=BITS)
                add("type_as", source, torch.zeros(1, dtype=b), compare=BITS)
        for name in ("sum", "prod", "mean", "cumsum"):
            add(name, rand(3, dtype=a, low=1, high=4), *([0] if name == "cumsum" else []))
        for b in (F32, F64, I64, BF16):
            add("sum", rand(3, dtype=a, low=1, high=4), dtype=b)
        add("arange", 5, dtype=a if a != BOOL else I64, compare=BITS)
    add("add_.Tensor", rand(3, dtype=BF16), rand(3, dtype=F32))
    add("add_.Tensor", rand(3, dtype=I64), rand(3, dtype=I32))
    add("mul_.Tensor", rand(3, dtype=F32), rand(3, dtype=F64))
    add("ge_.Scalar", special(F32), 0.5, compare=BITS)
    add("ge_.Tensor", rand(4), rand(4), compare=BITS)
    add("add.out", rand(3), rand(3), out=torch.zeros(3, dtype=F64))
    add("mul.out", ints(3), ints(3), out=torch.zeros(3))
    add("lt.Tensor_out", rand(3), rand(3), out=torch.zeros(3, dtype=I32), compare=BITS)
    bf = special(BF16)
    add("to.dtype", bf, F32, compare=BITS)
    add("to.dtype", special(F64), F32, compare=BITS)
    add("to.dtype", special(F32), BF16, compare=BITS)
    add("to.dtype", special(F32), F16, compare=BITS)
    add("to.dtype", special(F32), BOOL, compare=BITS)
    add("to.dtype", torch.tensor([-1.9, -0.5, 0.5, 1.9, 2.5]), I32, compare=BITS)
    add("to.dtype", torch.tensor([-1, 255, 256, 300, -129]), U8, compare=BITS)
    add("to.dtype", torch.tensor([-1, 255, 256, 300, -129]), I8, compare=BITS)
    add("to.dtype", rand(3), F32, compare=BITS)
    add("to.dtype", rand(3), F32, copy=True, compare=BITS)
    add("to.dtype_layout", rand(3), dtype=F64, compare=BITS)
    add("to.device", rand(3), torch.device("cpu"), F64, compare=BITS)
    add("to.other", rand(3), rand(3, dtype=F64), compare=BITS)


def ternary():
    for dtype in (F32, F64, BF16, I64):
        a, b, c = (rand(3, 4, dtype=dtype, low=1, high=5) for _ in range(3))
        add("where.self", a > b, a, b, compare=BITS)
        add("where.self", (a > b)[:1], a[:, :1], b, compare=BITS)
        add("where.ScalarSelf", a > b, 3, b, compare=BITS)
        add("where.ScalarOther", a > b, a, 2, compare=BITS)
        add("addcmul", a, b, c, value=2)
        add("addcmul_", transposed(a), b, c[:1], value=3)
        if dtype.is_floating_point:
            add("addcdiv", a, b, c, value=0.5)
            add("addcdiv_", a.clone(), b, spaced(c))
            add("lerp.Scalar", a, b, 0.3)
            add("lerp.Scalar", a, b, 0.8)
            add("lerp.Tensor", a, b, (c - 1) / 4)
            add("lerp_.Scalar", a.clone(), b, 0.3)
            add("where.ScalarSelf", a > b, 3.5, b, compare=BITS)
        add("masked_fill.Scalar", a, a > b, 2, compare=BITS)
        add("masked_fill.Scalar", a[0], a > b, -1, compare=BITS)
        add("masked_fill.Tensor", transposed(a), a > b, b[0, 0], compare=BITS)
        add("masked_fill_.Scalar", a.t(), (a > b)[0].view(4, 1), 7, compare=BITS)
        add("masked_select", a, a > b, compare=BITS)
        add("masked_scatter", a, a > b, c, compare=BITS)
        add("masked_scatter_", a.clone(), (a > b)[0], c, compare=BITS)
    add("where.Scalar", torch.tensor([True, False]), 1, 2, compare=BITS)
    add("where.Scalar", torch.tensor([True, False]), 1.5, 2, compare=BITS)
    add("where", torch.tensor([[True, False], [True, True]]), compare=BITS)


def reductions():
    for dtype in (F32, F64, F16, BF16, I64, I32, U8, BOOL):
        x = rand(3, 5, dtype=dtype, low=0.5, high=4)
        kinds = (x, transposed(x), spaced(x), x[1], x[0, 0]) if dtype in (F32, I64) else (x,)
        for t in kinds:
            for name in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "amax", "amin"):
                add(name, t, compare=EQUAL if name not in ("sum", "prod") else CLOSE)
            if dtype.is_floating_point:
                add("mean", t)
        for dims, keep in (([0], False), ([1], True), ([0, 1], False), ([-1], False), ([], False)):
            add("sum.dim_IntList", x, dims, keep)
            if dtype != BOOL:
                add("amax", x, dims, keep, compare=EQUAL)
                add("amin", x, dims, keep, compare=EQUAL)
            add("any.dims", x, dims, keep, compare=BITS)
            add("all.dims", x, dims, keep, compare=BITS)
            if dtype in FLOATS:
                add("mean.dim", x, dims, keep)
                add("logsumexp", x, dims or [0], keep)
                add("nansum", x, dims, keep)
                add("nanmean", x, dims, keep)
                if dims:
                    add("var.correction", x, dims, correction=1, keepdim=keep)
                    add("std.correction", x, dims, correction=0, keepdim=keep)
                    add("var_mean.correction", x, dims, correction=2, keepdim=keep)
                    add("std_mean.correction", x, dims, correction=1, keepdim=keep)
                    add("var.dim", x, dims, True, keep)
                    add("linalg_vector_norm", x, 2, dims, keep)
                    add("norm.ScalarOpt_dim", x, 1, dims, keep)
        for dim in (0, -1):
            for name in ("max.dim", "min.dim", "any.dim", "all.dim", "argmax", "argmin"):
                add(name, x, dim, True, compare=EQUAL)
            for name in ("cumsum", "cumprod"):
                add(name, x, dim)
                add(name, transposed(x), dim)
            if dtype != BOOL:
                add("cummax", x, dim, compare=EQUAL)
                add("cummin", x, dim, compare=EQUAL)
                add("sort.stable", x, stable=True, dim=dim, compare=EQUAL)
                add("argsort.stable", x, stable=True, dim=dim, compare=EQUAL)
                add("prod.dim_int", x, dim)
            add("sum.dim_IntList", x[:, :0], [dim])
            add("count_nonzero.dim_IntList", x, [dim], compare=BITS)
        add("nonzero", x.to(I32) % 2, compare=BITS)
        add("sum.IntList_out" if False else "sum.dim_IntList", x, None, dtype=F64)
    careful = special(F32)
    for name in ("sum", "max", "min", "argmax", "argmin", "nansum", "amax", "aminmax", "any", "all", "mean", "prod"):
        add(name, careful, compare=EQUAL)
        add(name, careful[3:], compare=EQUAL if name not in ("sum", "nansum", "mean", "prod") else CLOSE)
    x = rand(2, 3, 4)
    for p in (0, 1, 2, 3, INF, -INF, 0.5):
        add("linalg_vector_norm", x, p, [1, 2])
    add("linalg_vector_norm", x)
    add("norm.Scalar", x)
    add("norm.ScalarOpt_dim", x, None, [1])
    for dim in (0, 1, 2):
        add("logcumsumexp", x, dim)
        add("topk", x, 2, dim, compare=BITS)
        add("topk", x, 2, dim, False, compare=BITS)
        add("median.dim", x, dim, compare=BITS)
        add("kthvalue", x, 2, dim, compare=BITS)
        add("mode", ints(2, 3, 4, high=2), dim, compare=BITS) if dim == 2 else None
        add("diff", x, 1, dim)
        add("sort", x, dim, True, compare=BITS)
        add("argsort", x, dim, True, compare=BITS)
        add("flip", x, [dim], compare=BITS)
    add("median", x, compare=BITS)
    add("var", x)
    add("std", x)
    add("std", x, False)
    add("count_nonzero", ints(3, 4, high=2), compare=BITS)
    add("nonzero", ints(3, 4, high=2), compare=BITS)
    add("trace", x[0])
    add("cumsum", ints(3, 4), 1, dtype=F64)
    add("cumsum_", rand(3, 4), 1)
    add("cumprod_", rand(3, 4), 0)
    add("sum.IntList_out", x, [1], out=torch.empty(0))
    add("sum.IntList_out", x, [1], out=transposed(torch.zeros(2, 4)))
    add("amax.out", x, [1], out=torch.zeros(2, 4))
    add("max.dim_max", x, 1, max=torch.empty(0), max_values=torch.empty(0, dtype=I64), compare=BITS)
    add("mean.out", x, [0], out=torch.zeros(3, 4))
    add("cumsum.out", x, 1, out=torch.empty(0))
    add("aminmax", x, dim=1, compare=BITS)
    add("bincount", ints(9, high=5), compare=BITS)
    add("searchsorted.Tensor", torch.tensor([1.0, 2.0, 4.0, 4.0, 8.0]), torch.tensor([0.5, 4.0, 9.0]), right=True, compare=BITS)
    add("bucketize.Tensor", torch.tensor([0.5, 4.0, 9.0]), torch.tensor([1.0, 2.0, 4.0]), compare=BITS)
    add("cumulative_trapezoid.dx", x)
    add("trapezoid.dx", x)
    add("unique_consecutive", torch.tensor([1, 1, 2, 2, 3, 1]), True, True, compare=BITS)
    add("_unique2", torch.tensor([3, 1, 2, 2, 3, 1]), True, True, True, compare=BITS)
    add("is_same_size", x, x)
    add("equal", x, x.clone())
    add("allclose", x, x + 1)
    add("isclose", x, x + 1e-6, compare=BITS)


def norms():
    for dtype in (F32, F64, BF16, F16):
        x = rand(2, 3, 4, dtype=dtype)
        for dim in (0, 1, -1):
            for name in ("_softmax", "_log_softmax"):
                add(name, x, dim, False)
            add("softmax.int", x, dim)
            add("log_softmax.int", transposed(x), dim)
        add("softmax.int", x, 1, F32)
        add("layer_norm", x, [4], rand(4, dtype=dtype), rand(4, dtype=dtype))
        add("layer_norm", transposed(x), [3, 4], eps=1e-3)
        add("native_layer_norm", x, [4], rand(4, dtype=dtype), rand(4, dtype=dtype), 1e-5)
        add("native_layer_norm", x, [3, 4], None, None, 1e-5)
        add("rms_norm", x, [4], rand(4, dtype=dtype), 1e-5)
        add("rms_norm", x, [4])
        if dtype in (F32, F64):
            weight, bias, mean, var = (rand(3, dtype=dtype, low=0.5, high=2) for _ in range(4))
            for training in (True, False):
                add("batch_norm", x, weight, bias, mean.clone(), var.clone(), training, 0.1, 1e-5, True)
                add("native_batch_norm", x, weight, bias, mean.clone(), var.clone(), training, 0.1, 1e-5)
                add("_native_batch_norm_legit", x, weight, bias, mean.clone(), var.clone(), training, 0.1, 1e-5)
            add("batch_norm", x, None, None, None, None, True, 0.1, 1e-5, False)
            add("batch_norm", rand(4, 3, dtype=dtype), weight, None, mean, var, True, 0.3, 1e-3, False)
            add("_native_batch_norm_legit.no_stats", x, weight, bias, True, 0.1, 1e-5)
            add("_native_batch_norm_legit_no_training", x, weight, bias, mean, var, 0.1, 1e-5)
            add("_native_batch_norm_legit_functional", x, weight, bias, mean, var, True, 0.1, 1e-5)
            add("_batch_norm_with_update", x, weight, bias, mean.clone(), var.clone(), 0.1, 1e-5)
            add("_batch_norm_no_update", x, weight, bias, mean.clone(), var.clone(), 0.1, 1e-5)
            add("instance_norm", x, weight, bias, mean.clone(), var.clone(), True, 0.1, 1e-5, False)
            add("instance_norm", x, weight, bias, mean.clone(), var.clone(), False, 0.1, 1e-5, False)
            y = rand(2, 6, 3, dtype=dtype)
            add("group_norm", y, 3, rand(6, dtype=dtype), rand(6, dtype=dtype))
            add("native_group_norm", y, rand(6, dtype=dtype), None, 2, 6, 3, 3, 1e-5)
            saved = rand(3, dtype=dtype, low=0.5, high=2), rand(3, dtype=dtype, low=0.5, high=2)
            for mask in ([True, True, True], [False, True, False]):
                add("native_batch_norm_backward", x, rand(2, 3, 4, dtype=dtype), weight, mean, var, *saved, True, 1e-5, mask)
                add("native_batch_norm_backward", x, rand(2, 3, 4, dtype=dtype), weight, mean, var, *saved, False, 1e-5, mask)
                add("native_layer_norm_backward", x, rand(2, 3, 4, dtype=dtype), [4], rand(2, 3, 1, dtype=dtype),
                    rand(2, 3, 1, dtype=dtype), rand(4, dtype=dtype), rand(4, dtype=dtype), mask)
                add("native_group_norm_backward", y, rand(2, 6, 3, dtype=dtype), rand(2, 3, dtype=dtype), rand(2, 3, dtype=dtype),
                    rand(6, dtype=dtype), 2, 6, 3, 3, mask)
    add("softmax.int", torch.tensor([[-INF, 0.0, 1.0], [1000.0, 999.0, -INF], [NAN, 0.0, 1.0]]), 1)
    add("softmax.int", torch.full((2, 2), -INF), 1)
    add("log_softmax.int", torch.tensor([[-INF, 0.0, 1.0], [1000.0, 999.0, 0.0]]), 1)
    add("_safe_softmax", torch.tensor([[-INF, -INF], [0.0, 1.0]]), 1)
    add("softmax.int", torch.tensor(2.0), 0)
    add("dropout", rand(4), 0.5, False, compare=BITS)
    add("dropout_", rand(4), 0.5, False, compare=BITS)
    add("feature_dropout", rand(2, 3, 4), 0.5, False, compare=BITS)
    add("cosine_similarity", rand(3, 4), rand(3, 4))
    add("pairwise_distance", rand(3, 4), rand(3, 4))


def algebra():
    for dtype in (F32, F64, BF16, I64, C64):
        low = 0.5 if dtype == BF16 else -3
        a, b = rand(3, 4, dtype=dtype, low=low), rand(4, 5, dtype=dtype, low=low)
        add("mm", a, b)
        add("mm", transposed(a), transposed(b))
        add("mm", a[:, :0], b[:0])
        add("matmul", a, b)
        add("mv", a, b[:, 0])
        add("dot", a[0], b[:, 1])
        add("outer", a[0], b[0])
        add("addmm", b[0], a, b)
        add("addmm", rand(3, 5, dtype=dtype, low=low), a, b, beta=2, alpha=3)
        add("addmv", rand(3, dtype=dtype, low=low), a, b[:, 2])
        add("bmm", rand(2, 3, 4, dtype=dtype, low=low), rand(2, 4, 2, dtype=dtype, low=low))
        add("baddbmm", rand(2, 3, 2, dtype=dtype, low=low), rand(2, 3, 4, dtype=dtype, low=low), rand(2, 4, 2, dtype=dtype, low=low), beta=2)
        add("linear", rand(2, 3, 4, dtype=dtype, low=low), rand(5, 4, dtype=dtype, low=low), rand(5, dtype=dtype, low=low))
        add("linear", rand(4, dtype=dtype, low=low), rand(5, 4, dtype=dtype, low=low))
    for x, y in (((4,), (4,)), ((4,), (4, 3)), ((3, 4), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (4, 5)),
                 ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 3)), ((2, 0), (0, 3))):
        add("matmul", rand(*x), rand(*y))
    add("addbmm", rand(3, 2), rand(2, 3, 4), rand(2, 4, 2))
    add("addr", rand(3, 2), rand(3), rand(2), beta=0.5, alpha=2)
    add("addmm_", rand(3, 5), rand(3, 4), rand(4, 5), alpha=0.5)
    add("baddbmm_", rand(2, 3, 2), rand(2, 3, 4), rand(2, 4, 2))
    add("mm.out", rand(3, 4), rand(4, 5), out=torch.empty(0))
    add("mm.out", rand(3, 4), rand(4, 5), out=transposed(torch.zeros(3, 5)))
    add("matmul.out", rand(2, 3, 4), rand(4, 5), out=torch.empty(0))
    add("addmm", torch.full((3, 5), NAN), rand(3, 4), rand(4, 5), beta=0)
    add("einsum", "bij,bjk->bik", [rand(2, 3, 4), rand(2, 4, 2)])
    add("einsum", "ij,kj->ik", [rand(3, 4), rand(2, 4)])
    add("tensordot", rand(2, 3, 4), rand(3, 4, 5), [1, 2], [0, 1])
    add("kron", rand(2, 3), rand(3, 2))
    add("cdist", rand(3, 4), rand(2, 4))
    add("linalg_cross", rand(2, 3), rand(2, 3))
    add("vdot", rand(3), rand(3))
    add("inner", rand(2, 3), rand(4, 3))

    x1, x2, x3 = rand(2, 4, 9), rand(2, 4, 7, 6), rand(1, 2, 4, 5, 4)
    add("conv1d", x1, rand(6, 4, 3), rand(6), [2], [1], [2])
    add("conv1d.padding", x1, rand(6, 4, 3), None, [1], "same")
    add("conv2d", x2, rand(6, 4, 3, 3), rand(6))
    add("conv2d", x2, rand(6, 4, 3, 2), None, [2, 1], [1, 2], [2, 1])
    add("conv2d", x2, rand(8, 2, 3, 3), rand(8), [1, 1], [1, 1], [1, 1], 2)
    add("conv2d", x2, rand(4, 1, 3, 3), rand(4), [1, 1], [1, 1], [1, 1], 4)
    add("conv2d", x2.contiguous(memory_format=torch.channels_last), rand(6, 4, 3, 3), rand(6))
    add("conv2d", x2[0], rand(6, 4, 3, 3))
    add("conv2d", x2.double(), rand(6, 4, 1, 1).double())
    add("conv2d", rand(1, 2, 4, 4, low=0.5).bfloat16(), rand(3, 2, 3, 3, low=0.5).bfloat16())
    add("conv2d.padding", x2, rand(6, 4, 3, 2), rand(6), [1, 1], "same", [1, 2])
    add("conv2d.padding", x2, rand(6, 4, 3, 2), None, [2, 2], "valid")
    add("conv3d", x3, rand(3, 2, 2, 3, 2), rand(3), [1, 2, 1], [0, 1, 0])
    add("conv_transpose1d", x1, rand(4, 3, 3), rand(3), [2], [1], [1])
    add("conv_transpose2d.input", x2, rand(4, 3, 3, 3), rand(3), [2, 2], [1, 1], [1, 0])
    add("conv_transpose2d.input", x2, rand(4, 3, 3, 3), None, [1, 1], [0, 0], [0, 0], 2, [2, 2])
    add("convolution", x2, rand(6, 4, 3, 3), rand(6), [1, 2], [1, 0], [1, 1], False, [0, 0], 1)
    add("convolution", x2, rand(4, 3, 2, 2), None, [2, 2], [0, 0], [1, 1], True, [1, 1], 1)
    for mask in ([True, True, True], [False, True, False]):
        add("convolution_backward", rand(2, 6, 5, 4), x2, rand(6, 4, 3, 3), [6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, mask)
        add("convolution_backward", rand(2, 6, 4, 3), x2, rand(6, 2, 3, 3), [6], [2, 2], [1, 1], [1, 1], False, [0, 0], 2, mask)
    for dtype in (F32, F64, BF16):
        y = rand(1, 2, 6, 7, dtype=dtype)
        for args in (([2, 2],), ([3, 3], [2, 2], [1, 1]), ([2, 3], [1, 2], [0, 1], [2, 1]), ([3, 2], [2, 2], [1, 1], [1, 1], True)):
            add("max_pool2d", y, *args, compare=BITS)
            add("max_pool2d_with_indices", y, *args, compare=BITS)
        for args in (([2, 2],), ([3, 3], [2, 2], [1, 1]), ([3, 3], [2, 2], [1, 1], True), ([3, 3], [2, 2], [1, 1], False, False),
                     ([2, 2], [], [0, 0], False, True, 3)):
            add("avg_pool2d", y, *args)
        add("adaptive_avg_pool2d", y, [3, 2])
        add("_adaptive_avg_pool2d", y, [1, 1])
        add("_adaptive_avg_pool2d", y, [4, 5])
        add("adaptive_max_pool2d", y, [3, 4], compare=BITS)
        add("upsample_nearest2d", y, [12, 9], compare=BITS)
        add("upsample_nearest2d.vec", y, None, [2.0, 1.5], compare=BITS)
        if dtype != BF16:
            add("upsample_bilinear2d", y, [9, 5], False)
            add("upsample_bilinear2d.vec", y, [9, 5], True, None)
    y = rand(2, 3, 8)
    add("max_pool1d", y, [3], [2], [1], compare=BITS)
    add("avg_pool1d", y, [3], [2], [1])
    add("adaptive_avg_pool1d", y, [3])
    add("max_pool3d", x3, [2, 2, 2], compare=BITS)
    add("avg_pool3d", x3, [2, 2, 2])
    add("max_pool2d", rand(3, 6, 6), [2, 2], compare=BITS)
    add("max_pool2d", torch.tensor([[[[1.0, NAN], [2.0, 3.0]]]]), [2, 2], compare=BITS)
    add("upsample_nearest1d", y, [5], compare=BITS)
    add("pixel_shuffle", rand(1, 8, 2, 3), 2, compare=BITS)
    add("pixel_unshuffle", rand(1, 2, 4, 6), 2, compare=BITS)
    add("im2col", rand(1, 2, 5, 5), [3, 2], [1, 1], [1, 0], [2, 1], compare=BITS)
    add("col2im", rand(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1])
    add("channel_shuffle", rand(1, 6, 2, 2), 3, compare=BITS)

    q, k, v = rand(2, 3, 4, 8), rand(2, 3, 5, 8), rand(2, 3, 5, 6)
    add("scaled_dot_product_attention", q, k, v)
    add("scaled_dot_product_attention", q, k, v, is_causal=True)
    add("scaled_dot_product_attention", q, k, v, rand(4, 5))
    add("scaled_dot_product_attention", q, k, v, torch.ones(4, 5, dtype=BOOL).tril(), scale=0.3)
    add("scaled_dot_product_attention", q[:, :2], k[:, :1], v[:, :1], enable_gqa=True)
    width, hidden = 5, 4
    weights = [rand(4 * hidden, width), rand(4 * hidden, hidden), rand(4 * hidden), rand(4 * hidden)]
    add("lstm.input", rand(3, 2, width), [rand(1, 2, hidden), rand(1, 2, hidden)], weights, True, 1, 0.0, False, False, False)
    add("lstm.input", rand(2, 3, width), [rand(1, 2, hidden), rand(1, 2, hidden)], weights, True, 1, 0.0, False, False, True)
    add("lstm_cell", rand(2, width), [rand(2, hidden), rand(2, hidden)], *weights)
    weights = [rand(3 * hidden, width), rand(3 * hidden, hidden), rand(3 * hidden), rand(3 * hidden)]
    add("gru.input", rand(3, 2, width), rand(1, 2, hidden), weights, True, 1, 0.0, False, False, False)
    add("gru_cell", rand(2, width), rand(2, hidden), *weights)
    weights = [rand(hidden, width), rand(hidden, hidden), rand(hidden), rand(hidden)]
    add("rnn_tanh.input", rand(3, 2, width), rand(1, 2, hidden), weights, True, 1, 0.0, False, False, False)


def losses():
    for dtype in (F32, F64):
        x, target = rand(5, 4, dtype=dtype), ints(5, high=4)
        logp = torch.log_softmax(x, 1)
        weight = rand(4, dtype=dtype, low=0.5)
        for reduction in (0, 1, 2):
            add("nll_loss_forward", logp, target, None, reduction, -100)
            add("nll_loss_forward", logp, target, weight, reduction, 2)
            add("nll_loss", logp, target, weight, reduction)
            add("cross_entropy_loss", x, target, None, reduction)
            add("mse_loss", x, rand(5, 4, dtype=dtype), reduction)
            add("l1_loss", x, rand(5, 4, dtype=dtype), reduction)
            add("smooth_l1_loss", x, rand(5, 4, dtype=dtype), reduction, 0.7)
            add("huber_loss", x, rand(5, 4, dtype=dtype), reduction, 0.7)
            add("binary_cross_entropy", rand(5, dtype=dtype, low=0.05, high=0.95), rand(5, dtype=dtype, low=0, high=1), None, reduction)
            add("binary_cross_entropy_with_logits", x, rand(5, 4, dtype=dtype, low=0, high=1), weight, None, reduction)
            add("kl_div", logp, torch.softmax(x.flip(0), 1), reduction)
            add("mse_loss_backward", rand(*([5, 4] if reduction == 0 else []), dtype=dtype), x, rand(5, 4, dtype=dtype), reduction)
            total = weight[target].sum() if reduction == 1 else torch.zeros((), dtype=dtype)
            add("nll_loss_backward", rand(*([5] if reduction == 0 else []), dtype=dtype), logp, target, weight, reduction, -100, total)
        add("cross_entropy_loss", x, torch.softmax(x, 1), None, 1, -100, 0.1)
        add("cross_entropy_loss", x, target, weight, 1, 2, 0.2)
        g = rand(5, 4, dtype=dtype)
        add("_log_softmax_backward_data", g, logp, 1, dtype)
        add("_softmax_backward_data", g, torch.softmax(x, 1), 1, dtype)
        add("threshold_backward", g, x, 0, compare=BITS)
        add("threshold_backward", g, x, 0.5, compare=BITS)
        add("gelu_backward", g, x)
        add("gelu_backward", g, x, approximate="tanh")
        add("silu_backward", g, x)
        add("sigmoid_backward", g, torch.sigmoid(x))
        add("tanh_backward", g, torch.tanh(x))
        add("hardtanh_backward", g, x, -1, 1)
        add("hardsigmoid_backward", g, x)
        add("hardswish_backward", g, x)
        add("leaky_relu_backward", g, x, 0.1, False)
        add("elu_backward", g, 1.0, 1.0, 1.0, False, x)
        add("softplus_backward", g, x, 1, 20)
        add("logit_backward", g, torch.sigmoid(x))
        add("embedding_dense_backward", g, ints(5, high=7), 7, -1, False)
        add("embedding_dense_backward", g, ints(5, high=7), 7, 2, True)
        images = rand(1, 2, 6, 6, dtype=dtype)
        out, where = torch.ops.aten.max_pool2d_with_indices(images, [2, 2])
        add("max_pool2d_with_indices_backward", rand(*out.shape, dtype=dtype), images, [2, 2], [], [0, 0], [1, 1], False, where)
        add("avg_pool2d_backward", rand(1, 2, 3, 3, dtype=dtype), images, [3, 3], [2, 2], [1, 1], False, True, None)
        add("_adaptive_avg_pool2d_backward", rand(1, 2, 2, 3, dtype=dtype), images)
        add("upsample_nearest2d_backward", rand(1, 2, 12, 12, dtype=dtype), [12, 12], [1, 2, 6, 6])
        add("select_backward", rand(3, dtype=dtype), [4, 3], 0, 1, compare=BITS)
        add("slice_backward", rand(2, 3, dtype=dtype), [5, 3], 0, 0, 4, 2, compare=BITS)
        add("diagonal_backward", rand(3, dtype=dtype), [3, 4], 0, 0, 1, compare=BITS)
        add("unfold_backward", rand(3, 2, dtype=dtype), [6], 0, 2, 2)
        add("native_dropout_backward", g, x > 0, 2.0)


def indexing():
    for dtype in (F32, BF16, I64, U8, BOOL):
        x = rand(4, 5, dtype=dtype, low=0, high=9)
        i, j = torch.tensor([2, 0, -1]), torch.tensor([[1, 3, -2], [0, 0, 2]])
        mask = torch.tensor([True, False, True, True])
        wide = torch.rand(4, 5, generator=GENERATOR) < 0.5
        places = [[i], [None, i], [i, i], [j], [None, j], [j, i], [mask], [wide], [mask, None], [None, torch.tensor([], dtype=I64)],
                  [i.to(I32)], [torch.tensor(2)], [i.view(3, 1), i]]
        for index in places:
            add("index.Tensor", x, index, compare=BITS)
            add("index.Tensor", transposed(x), index, compare=BITS) if dtype == F32 else None
            got = torch.ops.aten.index.Tensor(x, index)
            new = rand(*got.shape, dtype=dtype, low=0, high=9)
            shape_one = new.flatten()[:1].reshape(()) if new.numel() else rand(dtype=dtype)
            add("index_put", x, index, shape_one, compare=BITS)
            if len({*index_cells(x, index)}) == got.numel():
                add("index_put", x, index, new, compare=BITS)
                add("index_put_", spaced(x), index, new, compare=BITS)
            if dtype in (F32, I64):
                add("index_put", x, index, new, True)
        row = torch.tensor([3, 0, 0])
        add("index_select", x, 0, row, compare=BITS)
        add("index_select", transposed(x), 1, row, compare=BITS)
        add("index_fill.int_Scalar", x, 1, row, 1, compare=BITS)
        add("index_fill_.int_Scalar", transposed(x), 0, row, 1, compare=BITS)
        add("index_copy", x, 0, torch.tensor([3, 1]), rand(2, 5, dtype=dtype, low=0, high=9), compare=BITS)
        add("index_copy_", spaced(x), 1, torch.tensor([3, 1]), rand(4, 2, dtype=dtype, low=0, high=9), compare=BITS)
        g = ints(3, 5, high=4)
        add("gather", x, 0, g, compare=BITS)
        add("gather", spaced(x), 1, ints(2, 7, high=5), compare=BITS)
        once = torch.stack([torch.randperm(4, generator=GENERATOR) for _ in range(5)], 1)[:3]
        add("scatter.src", x, 0, once, rand(3, 5, dtype=dtype, low=0, high=9), compare=BITS)
        add("scatter_.src", transposed(x), 0, once, rand(4, 5, dtype=dtype, low=0, high=9), compare=BITS)
        add("scatter.value", x, 0, g, 1, compare=BITS)
        add("scatter_.value", spaced(x), 0, g, 1, compare=BITS)
        add("take", x, torch.tensor([0, 7, -1, 19]), compare=BITS)
        add("put", x, torch.tensor([0, 7, -1]), rand(3, dtype=dtype, low=0, high=9), compare=BITS)
        add("take_along_dim", x, torch.tensor([[1, 4], [0, 0], [2, 2], [3, 1]]), 1, compare=BITS)
        if dtype != BOOL:
            add("index_add", x, 0, row, rand(3, 5, dtype=dtype, low=0, high=9), alpha=2)
            add("index_add_", transposed(x), 1, row, rand(4, 3, dtype=dtype, low=0, high=9))
            add("scatter_add", x, 0, g, rand(3, 5, dtype=dtype, low=0, high=9))
            add("scatter_add_", spaced(x), 1, ints(4, 3, high=5), rand(4, 3, dtype=dtype, low=0, high=9))
            for reduce in ("sum", "prod", "mean", "amax", "amin"):
                for include in (True, False):
                    add("scatter_reduce.two", x, 0, g, rand(3, 5, dtype=dtype, low=1, high=4), reduce, include_self=include)
            add("scatter.reduce", x, 0, once, rand(3, 5, dtype=dtype, low=1, high=4), reduce="multiply")
            add("index_reduce", x, 0, row, rand(3, 5, dtype=dtype, low=1, high=4), "amax")
        add("embedding", x, torch.tensor([[0, 3], [1, 1]]), compare=BITS)
        add("tril", x, -1, compare=BITS)
        add("triu", transposed(x), 1, compare=BITS)
        add("tril_", spaced(x), 0, compare=BITS)
        add("roll", x, [1, -2], [0, 1], compare=BITS)
        add("roll", x, [3], compare=BITS)
        add("rot90", x, 1, [0, 1], compare=BITS)
        add("flip", transposed(x), [0, 1], compare=BITS)
        add("repeat", x[:2, :2], [2, 1, 3], compare=BITS)
        add("repeat_interleave.self_int", x, 2, 1, compare=BITS)
        add("repeat_interleave.self_Tensor", x, torch.tensor([0, 1, 2, 1]), 0, compare=BITS)
        add("tile", x[:2, :2], [2, 2], compare=BITS)
        add("cat", [x, x[:1], transposed(x)], compare=BITS)
        add("cat", [x[:, :2], spaced(x)], 1, compare=BITS)
        add("cat", [torch.zeros(0, dtype=dtype), x], compare=BITS)
        add("cat", [x, rand(1, 5)], compare=BITS)
        add("stack", [x, spaced(x)], 1, compare=BITS)
        for name in ("hstack", "vstack", "dstack", "column_stack"):
            add(name, [x, x], compare=BITS)
        add("constant_pad_nd", x, [1, 2, 0, 1], 1, compare=BITS)
        add("constant_pad_nd", x, [-1, 1], compare=BITS)
        add("pad", x, [2, 0], "constant", 1.0, compare=BITS)
        add("slice_scatter", x, rand(2, 5, dtype=dtype), 0, 0, 4, 2, compare=BITS)
        add("select_scatter", transposed(x), rand(4, dtype=dtype), 1, -2, compare=BITS)
        add("diagonal_scatter", x, rand(4, dtype=dtype), 1, compare=BITS)
        add("as_strided_scatter", x, rand(2, 3, dtype=dtype), [2, 3], [5, 1], 3, compare=BITS)
        add("diag_embed", x, compare=BITS)
        add("diag", x, compare=BITS)
        add("diagonal_copy", x, compare=BITS)
        add("meshgrid.indexing", [x[0], x[1]], indexing="ij", compare=BITS)
        add("cartesian_prod", [x[0], x[1]], compare=BITS)
        add("block_diag", [x, x], compare=BITS)
        add("argwhere", x, compare=BITS)
        add("cat.out", [x, x], out=torch.empty(0, dtype=dtype), compare=BITS)
        add("stack.out", [x, x], out=torch.empty(0, dtype=dtype), compare=BITS)
        add("gather.out", x, 0, g, out=torch.empty(0, dtype=dtype), compare=BITS)
        add("index_select.out", x, 0, row, out=torch.empty(0, dtype=dtype), compare=BITS)
    for name, pad in (("reflection_pad1d", [2, 1]), ("replication_pad1d", [2, 3]), ("reflection_pad2d", [2, 1, 1, 0]),
                      ("replication_pad2d", [2, 1, 0, 3])):
        add(name, rand(2, 3, 4) if "1d" in name else rand(1, 2, 3, 4), pad, compare=BITS)
    add("pad", rand(2, 3, 4), [1, 2], "circular", compare=BITS)
    add("one_hot", ints(3, high=4), 5, compare=BITS)
    add("index_put_", torch.zeros(4), [torch.tensor([1, 1, 3])], torch.ones(3), True)
    add("_index_put_impl_", torch.zeros(4), [torch.tensor([0, 3])], torch.ones(2), False, compare=BITS)
    add("index_put", rand(2, 3, 4), [None, torch.tensor([0, 2]), None], rand(4), compare=BITS)
    add("index_put", rand(2, 3, 4), [torch.tensor([0, 1]), None, torch.tensor([1, 2])], rand(2, 3), compare=BITS)
    add("index.Tensor", rand(2, 3, 4), [torch.tensor([0, 1]), None, torch.tensor([1, 2])], compare=BITS)
    add("index.Tensor", rand(2, 3, 4), [None, torch.tensor([[0, 1]]), torch.tensor([1, 2])], compare=BITS)
    add("isin.Tensor_Tensor", ints(6), ints(3), compare=BITS)
    add("unsafe_index.Tensor" if has("unsafe_index.Tensor") else "_unsafe_index.Tensor", rand(3, 4), [torch.tensor([1, 0])], compare=BITS)


def index_cells(x, index):
    numbered = torch.arange(x.numel()).view(x.shape)
    return torch.ops.aten.index.Tensor(numbered, index).flatten().tolist()


def views():
    for x in (rand(2, 3, 4), transposed(rand(2, 3, 4)), spaced(rand(2, 3, 4))):
        for name, args in (
            ("view", ([6, 4],)), ("view", ([2, -1],)), ("reshape", ([4, 6],)), ("reshape", ([24],)), ("reshape", ([2, 3, 2, 2],)),
            ("flatten.using_ints", ()), ("flatten.using_ints", (1, 2)), ("unflatten.int", (2, [2, -1])), ("permute", ([2, 0, 1],)),
            ("transpose.int", (0, 2)), ("swapaxes", (0, 1)), ("swapdims", (0, -1)), ("movedim.int", (0, 2)), ("moveaxis.int", (2, 0)),
            ("movedim.intlist", ([0, 1], [2, 0])), ("mT", ()), ("adjoint", ()), ("unsqueeze", (1,)), ("unsqueeze", (-1,)),
            ("squeeze", ()), ("squeeze.dim", (0,)), ("squeeze.dims", ([0, 1],)), ("expand", ([5, 2, 3, 4],)), ("expand", ([-1, 3, -1],)),
            ("slice.Tensor", (2, 1, 3)), ("slice.Tensor", (2, 0, 9223372036854775807, 2)), ("slice.Tensor", (1, -2, -1)),
            ("slice.Tensor", (0, 5, 9)), ("slice.Tensor", (0, 1, 0)), ("slice.Tensor", (2, None, None, 3)), ("select.int", (1, 2)), ("select.int", (0, -1)), ("narrow", (2, 1, 2)),
            ("split.Tensor", (2, 2)), ("split.Tensor", (3, 2)), ("split_with_sizes", ([1, 3], 2)), ("split.sizes", ([1, 2], 1)),
            ("chunk", (3, 2)), ("tensor_split.sections", (3, 2)), ("tensor_split.indices", ([1, 2], 1)), ("unbind.int", (1,)),
            ("diagonal", (0, 0, 1)), ("diagonal", (1, 1, 2)), ("diagonal", (-1, 0, 2)), ("as_strided", ([2, 2], [3, 1], 4)),
            ("as_strided", ([3], [1])), ("unfold", (2, 3, 1)), ("unfold", (2, 2, 2)), ("alias", ()), ("detach", ()),
            ("view_as", (torch.zeros(6, 4),)), ("reshape_as", (torch.zeros(6, 4),)), ("expand_as", (torch.zeros(5, 2, 3, 4),)),
            ("contiguous", ()), ("clone", ()), ("ravel", ()), ("hsplit.int", (3,)), ("numpy_T", ()), ("_unsafe_view", ([6, 4],)),
            ("_reshape_alias", ([6, 4], [4, 1])), ("view.dtype", (I32,)), ("view.dtype", (I16,)), ("view.dtype", (F64,)),
            ("lift_fresh", ()), ("lift_fresh_copy", ()), ("detach_copy", ()), ("permute_copy", ([2, 0, 1],)), ("atleast_1d", ()),
            ("broadcast_to", ([2, 2, 3, 4],)), ("view_copy", ([6, 4],)), ("expand_copy", ([5, 2, 3, 4],)), ("conj", ()), ("resolve_conj", ()),
            ("real", ()), ("_conj", ()), ("t_copy", ()), ("slice_copy.Tensor", (1, 0, 2)), ("select_copy.int", (1, 0)),
            ("unfold_copy", (2, 2, 1)), ("positive", ()), ("squeeze_copy", ()), ("unsqueeze_copy", (0,)), ("split_copy.Tensor", (1,)),
            ("unbind_copy.int", ()), ("_neg_view", ())):
            if name in ("_conj", "_neg_view") and name == "_neg_view":
                continue  # a table cannot say a negative bit
            add(name, x, *args, compare=BITS)
        for format in (torch.contiguous_format, torch.preserve_format):
            add("clone", x, memory_format=format, compare=BITS)
    x = rand(3, 4)
    for name, args in (("t", ()), ("T", ()), ("numpy_T", ()), ("diagonal", ()), ("view.dtype", (U8,)), ("linalg_diagonal", ())):
        add(name, x, *args, compare=BITS)
        add(name, transposed(x), *args, compare=BITS)
    add("t", x[0], compare=BITS)
    for name, args in (("squeeze", ()), ("squeeze.dim", (1,)), ("squeeze.dims", ([0, 2],)), ("expand", ([3, 4, 5],)), ("view", ([3, 1, 1],))):
        add(name, rand(3, 1, 1) if name != "squeeze.dims" else rand(1, 3, 1), *args, compare=BITS) if name != "expand" else \
            add(name, rand(3, 1, 1), *args, compare=BITS)
    add("view", rand(0, 3), [3, 0], compare=BITS)
    add("reshape", rand(0, 3), [0, -1] if False else [0], compare=BITS)
    add("expand", rand(1), [0], compare=BITS)
    add("unbind.int", rand(0, 3), compare=BITS)
    add("view_as_complex", rand(3, 2), compare=BITS)
    add("view_as_real", rand(3, dtype=C64), compare=BITS)
    add("real", rand(3, dtype=C64), compare=BITS)
    add("imag", rand(3, dtype=C64), compare=BITS)
    add("complex", rand(3), rand(3), compare=BITS)
    add("polar", rand(3), rand(3))
    add("conj_physical", rand(3, dtype=C64), compare=BITS)
    add("view.dtype", ints(3, 4), F64, compare=BITS)
    add("view.dtype", rand(3, 4, dtype=BF16), I16, compare=BITS)
    images = rand(2, 3, 4, 5)
    last = images.contiguous(memory_format=torch.channels_last)
    add("contiguous", images, memory_format=torch.channels_last, compare=BITS)
    add("contiguous", last, compare=BITS)
    add("contiguous", last, memory_format=torch.channels_last, compare=BITS)
    add("clone", last, memory_format=torch.preserve_format, compare=BITS)
    add("clone", images, memory_format=torch.channels_last, compare=BITS)
    add("clone", rand(4).expand(3, 4), compare=BITS)
    add("clone", rand(5, 4)[:, ::2], compare=BITS)
    add("add.Tensor", last, last, compare=BITS)
    add("add.Tensor", last, images, compare=BITS)
    add("add.Tensor", images, last, compare=BITS)
    add("add.Tensor", images, last[:, :, :1, :1], compare=BITS)
    add("relu", last, compare=EQUAL)
    add("relu", images.permute(1, 3, 0, 2), compare=EQUAL)
    add("cat", [last, last], 1, compare=BITS)
    add("zeros_like", last, compare=BITS)
    add("_to_copy", last, dtype=F64, compare=BITS)
    add("_to_copy", images, memory_format=torch.channels_last, compare=BITS)
    add("add.Tensor", rand(4, 3).t(), rand(3, 4), compare=BITS)
    add("add.Tensor", rand(4, 3).t(), rand(4, 3).t(), compare=BITS)
    add("add.Tensor", rand(4).expand(3, 4), rand(4).expand(3, 4), compare=BITS)
    add("add.Tensor", rand(6, 3)[::2].t(), rand(1), compare=BITS)
    add("sum.dim_IntList", last, [1])
    add("mean.dim", last, [2, 3], True)
    add("softmax.int", last, 1)
    add("max_pool2d", last, [2, 2], compare=BITS)
    add("batch_norm", last, rand(3), rand(3), rand(3), rand(3, low=0.5), False, 0.1, 1e-5, False)


def factories():
    for dtype in (F32, F64, BF16, I64, U8, BOOL):
        for name, args in (("zeros", ([2, 3],)), ("ones", ([2, 3],)), ("full", ([2, 2], 1)), ("scalar_tensor", (1,)), ("eye", (3,)), ("eye.m", (2, 4))):
            add(name, *args, dtype=dtype, compare=BITS)
        x = rand(2, 3, dtype=dtype)
        for t in (x, transposed(x), spaced(x)):
            for name, args in (("zeros_like", ()), ("ones_like", ()), ("full_like", (1,)), ("new_zeros", ([2, 2],)), ("new_ones", ([4],)),
                               ("new_full", ([2], 1))):
                add(name, t, *args, compare=BITS)
    add("zeros_like", rand(2), dtype=I64, compare=BITS)
    add("full", [2], 2.5, compare=BITS)
    add("full", [2], 2, compare=BITS)
    add("full", [2], True, compare=BITS)
    add("full", [0, 2], 1.0, compare=BITS)
    add("full_like", ints(2), 3.7, compare=BITS)
    add("zeros", [], compare=BITS)
    for args in ((5,), (5.0,), (0,), (2.5,)):
        add("arange", *args, compare=BITS)
    for args in ((1, 5), (1.5, 4.0), (-2, 2)):
        add("arange.start", *args, compare=BITS)
    for args in ((1, 10, 3), (5, 0, -2), (0.0, 1.0, 0.25), (0, 1, 0.3)):
        add("arange.start_step", *args)
    add("arange", 5, dtype=F32, compare=BITS)
    for steps in (0, 1, 5, 6):
        add("linspace", 0.0, 1.0, steps)
    add("linspace", -3, 9, 4, dtype=I64, compare=BITS)
    add("logspace", 0.0, 2.0, 5)
    add("tril_indices", 3, 4, -1, compare=BITS)
    add("triu_indices", 3, 4, 1, compare=BITS)
    add("scalar_tensor", 2.5, compare=BITS)
    add("hann_window", 6)
    add("hamming_window", 6)
    add("vander", rand(3), 4)
    add("complex", rand(2), rand(2), compare=BITS)


def in_place():
    for dtype in (F32, BF16, I64, BOOL):
        x = rand(3, 4, dtype=dtype)
        for t in (x, transposed(x), spaced(x), x[1:], x[:, 2]):
            add("fill_.Scalar", t, 1, compare=BITS)
            add("zero_", t, compare=BITS)
            add("fill_.Tensor", t, rand(dtype=dtype), compare=BITS)
        add("fill.Scalar", x, 1, compare=BITS)
        add("fill.Tensor", x, rand(dtype=dtype), compare=BITS)
        for source in (rand(3, 4, dtype=dtype), transposed(rand(3, 4, dtype=dtype)), rand(4, dtype=dtype), rand(3, 1, dtype=dtype),
                       rand(dtype=dtype), rand(3, 4, dtype=F64, low=0, high=9)):
            add("copy_", x.clone(), source, compare=BITS)
            add("copy_", transposed(x), source, compare=BITS)
            add("copy", spaced(x), source, compare=BITS)
        add("fill_diagonal_", x.clone(), 1, compare=BITS)
    base = rand(12)
    add("copy_", base[:6], base[6:], compare=BITS)
    for name, args in (("t_", ()), ("transpose_", (0, 1)), ("squeeze_", ()), ("unsqueeze_", (1,)), ("as_strided_", ([2, 3], [1, 2], 1)),
                       ("resize_", ([2, 3],)), ("resize_", ([12],)), ("swapaxes_", (0, 1)), ("detach_", ()), ("squeeze_.dim", (0,)),
                       ("swapdims_", (0, 1)), ("resize_as_", (torch.zeros(2, 2),)), ("set_.source_Tensor", (rand(2, 5),)),
                       ("set_.source_Tensor_storage_offset", (rand(9), 2, [2, 3], [1, 2])), ("set_", ()), ("rot90", (1,)),
                       ("squeeze_.dims", ([0, 1],))):
        add(name, rand(3, 4), *args, compare=BITS)
        add(name, spaced(rand(3, 4)), *args, compare=BITS)
    for name, args in (("exp", ()), ("sqrt", ()), ("abs", ()), ("neg", ()), ("reciprocal", ()), ("add.Scalar", (2,)), ("mul.Scalar", (3,)),
                       ("sub.Scalar", (2,)), ("div.Scalar", (3,)), ("zero", ()), ("tanh", ()), ("sigmoid", ()), ("clamp_min.Scalar", (0.5,)), ("pow.Scalar", (2,)),
                       ("clamp_max.Scalar", (0.5,)), ("maximum.Scalar", (0.5,)), ("sin", ()), ("round", ()), ("sign", ())):
        packet, dot, overload = name.partition(".")
        add(f"_foreach_{name}", [rand(2, 3, low=0.1), transposed(rand(3, 2, low=0.1))], *args)
        add(f"_foreach_{packet}_{dot}{overload}", [rand(2, 3, low=0.1), spaced(rand(4, low=0.1))], *args)
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max"):
        add(f"_foreach_{name}.List", [rand(2, 3), rand(4)], [rand(2, 3), rand(4)])
        add(f"_foreach_{name}_.List", [rand(2, 3), transposed(rand(4, 2))], [rand(2, 3), rand(4, 2)])
        add(f"_foreach_{name}.ScalarList", [rand(2, 3), rand(4)], [2.0, 3.0])
    x = rand(4)
    add("_foreach_mul_.Scalar", [x, x], 2)  # the same tensor twice
    add("_foreach_add_.List", [x, rand(4)], [rand(4), x])  # the second reads what the first wrote
    add("_foreach_add_.List", [x[:3], x[1:]], [rand(3), rand(3)])
    add("_foreach_copy_", [rand(3), rand(2)], [rand(3), rand(2)], compare=BITS)
    add("_foreach_addcmul_.Scalar", [rand(3)], [rand(3)], [rand(3)], 2)
    add("_foreach_addcdiv_.Scalar", [rand(3)], [rand(3, low=1)], [rand(3, low=1)], 2)
    add("_foreach_lerp_.Scalar", [rand(3)], [rand(3)], 0.3)
    add("_foreach_lerp.List", [rand(3)], [rand(3)], [rand(3)])
    add("_foreach_norm.Scalar", [rand(3), rand(2, 2)])
    add("_foreach_pow.ScalarAndTensor", 2, [rand(3)])
    add("squeeze_.dim", rand(3, 1), 1, compare=BITS)


def scalars():
    for value in (torch.tensor(2.5), torch.tensor(3), torch.tensor(True), torch.tensor([[7]])):
        add("item", value)
        add("_local_scalar_dense", value)
        add("is_nonzero", value)
        add("Bool.Tensor", value)
        add("Int.Tensor", value)
        add("Float.Tensor", value)
    for name in ("size", "stride"):
        add(name, transposed(rand(2, 3)))
        add(name + ".int", transposed(rand(2, 3)), 1)
    for name in ("numel", "dim", "storage_offset", "is_floating_point", "is_complex", "is_contiguous", "len.Tensor", "sym_numel",
                 "is_signed"):
        add(name, spaced(rand(2, 3)))
    for name in ("add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne", "floordiv", "remainder"):
        for a, b in ((7, 3), (-7, 3), (7, -3), (-7, -3), (0, 5)):
            add(name + ".int", a, b)
        for a, b in ((7.5, 2.0), (-7.5, 2.0), (7.5, -2.0)):
            add(name + ".float", a, b)
    for a, b in ((7, 2), (-7, 2), (1, 3)):
        add("div.int", a, b)
        add("__round_to_zero_floordiv.int", a, b)
        add("pow.int", a, b)
    add("div.float", 7.5, 2.0)
    for name in ("neg", "ceil", "floor", "sqrt", "exp", "log", "sin", "tanh" if has("tanh.float") else "cos", "abs"):
        add(name + ".float", 2.25)
        add(name + ".int", 4)
    for a, b in ((True, False), (True, True)):
        for name in ("__and__", "__or__", "__xor__"):
            add(name + ".bool", a, b)
    add("__not__", True)
    add("Int.float", -2.7)
    add("Int.bool", True)
    add("Float.int", 3)
    add("Bool.int", 3)
    add("Bool.float", 0.0)
    add("__range_length", 0, 10, 3)
    add("__range_length", 10, 0, -3)
    add("__derive_index", 2, 1, 3)
    add("len.t", [1, 2, 3])
    add("add.t", [1, 2], [3])
    add("eq.int_list", [1, 2], [1, 2])
    add("__contains__.int_list", [1, 2], 2)


SECTIONS = [unary, binary, promotion, ternary, reductions, norms, algebra, losses, indexing, views, factories, in_place, scalars]


def main():
    for section in SECTIONS:
        GENERATOR.manual_seed(zlib.crc32(section.__name__.encode()))
        start = len(TABLE.entries)
        section()
        print(f"{section.__name__}: {len(TABLE.entries) - start} entries")
    path = os.path.join(HERE, "op_answers.safetensors")
    TABLE.write(path)
    operators = {e["op"] for e in TABLE.entries}
    print(f"{len(TABLE.entries)} entries, {len(operators)} operators, {os.path.getsize(path):,} bytes")
    if "-v" in sys.argv:
        print("\n".join(TABLE.refused))
    found = check(path)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
