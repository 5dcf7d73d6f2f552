"""Calls for make_op_answers.py: pointwise operators, type promotion, selection."""

import torch

from op_table import BF16, BITS, BOOL, C64, C128, CLOSE, EQUAL, F16, F32, F64, FLOATS, I8, I16
from op_table import I32, I64, INF, INTS, NAN, U8, add, has, ints, rand, spaced, special, transposed

UNARY_BITS = "abs neg ceil floor round trunc sgn sign signbit square isnan isinf isfinite isposinf isneginf logical_not reciprocal sqrt positive"
UNARY_CLOSE = (
    "exp exp2 expm1 log log2 log10 log1p rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid silu "
    "mish hardsigmoid hardswish erf erfc erfinv lgamma digamma frac relu relu6 hardtanh elu selu celu leaky_relu softplus "
    "softshrink hardshrink log_sigmoid gelu sinc deg2rad rad2deg nan_to_num logit i0 special_entr special_ndtr "
    "special_erfcx special_i0e special_i1 bitwise_not angle")
UNARY_EQUAL = "relu hardtanh relu6 nan_to_num hardshrink softshrink bitwise_not"


def unary():
    equal, bits = UNARY_EQUAL.split(), UNARY_BITS.split()
    for name in bits + UNARY_CLOSE.split():
        compare = BITS if name in bits else EQUAL if name in equal else CLOSE
        for dtype in FLOATS + INTS + [BOOL, C64]:
            if dtype == C64 and name not in ("abs", "neg", "exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid",
                                             "reciprocal", "square", "sgn", "angle", "isnan", "isfinite", "rsqrt"):
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
            add(name + ".out",
                x,
                out=transposed(torch.zeros(3, 4, dtype=BOOL if name.startswith("is") or name in ("signbit",) else F32)),
                compare=compare)
    for approximate in ("none", "tanh"):
        for dtype in (F32, F64, BF16):
            add("gelu", special(dtype), approximate=approximate)
    for name, args in (("round.decimals", dict(decimals=2)), ("logit", dict(eps=0.1)), ("celu", dict(alpha=0.7)),
                       ("leaky_relu", dict(negative_slope=0.2)), ("elu", dict(alpha=1.3, scale=1.1, input_scale=0.9)),
                       ("hardtanh", dict(min_val=-0.5, max_val=2.0)), ("softplus", dict(beta=2.0, threshold=5.0)),
                       ("softshrink", dict(lambd=0.7)), ("hardshrink", dict(lambd=0.7)), ("nan_to_num",
                                                                                          dict(nan=2.0,
                                                                                               posinf=5.0,
                                                                                               neginf=-5.0)),
                       ("threshold", dict(threshold=0.3,
                                          value=-7.0)), ("threshold_", dict(threshold=0.3,
                                                                            value=-7.0)), ("clamp_min", dict(min=0.25)),
                       ("clamp_max", dict(max=0.25)), ("clamp_min_", dict(min=0.25)), ("polygamma", dict())):
        for dtype in (F32, F64, BF16):
            if name == "polygamma":
                add(name, 1, rand(6, dtype=dtype, low=0.3, high=4))
            else:
                add(name,
                    special(dtype),
                    **args,
                    compare=CLOSE if name in ("round.decimals", "logit", "celu", "elu", "softplus") else EQUAL)
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
        overload = name + ".Tensor" if has(name +
                                           ".Tensor") else name + ".Tensor_Tensor" if has(name +
                                                                                          ".Tensor_Tensor") else name
        dtypes = (FLOATS if floats else []) + ([I64, I32, I8, U8] if with_ints else []) + ([BOOL] if with_bool else [])
        for dtype in dtypes:
            add(overload, *pairs(dtype, name), compare=compare)
        plain = F32 if floats else I64
        a, b = rand(3, 4, dtype=plain, low=1, high=6), rand(3, 4, dtype=plain, low=1, high=4)
        for x, y in ((transposed(a), b), (a, spaced(b)), (a, b[:1]), (a[:, :1], b[:1]), (a[0], b), (a, b[0, 0]),
                     (a[0, 0], b[1, 1]), (a[:0], b[:0]), (a[:0], b[:1]), (a, a), (transposed(a), transposed(b))):
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


def complex_parts():
    """Parts that are zero, infinite or no number: a real operand is a complex one."""
    parts = torch.tensor([0.0, -0.0, 1.5, -2.0, INF, NAN])
    for dtype, real in ((C64, F32), (C128, F64)):
        a = torch.complex(parts.repeat_interleave(6), parts.repeat(6)).to(dtype)
        b = a.flip(0).clone()
        for scalar in (0, 2, -1.0):
            for name in ("mul", "add", "rsub"):
                add(name + ".Scalar", a, scalar, compare=EQUAL)
        add("div.Scalar", a, 2, compare=EQUAL)
        for name in ("add", "sub", "mul"):
            add(name + ".Tensor", a, b, compare=EQUAL)
            add(name + ".Tensor", a, torch.full((36,), 3.0, dtype=real), compare=EQUAL)
        add("sub.Tensor", a, b, alpha=2, compare=EQUAL)
        numbers = torch.cat([parts, torch.tensor([3e38, 0.5])])  # a sum of two overflows in floats
        c = torch.complex(numbers.repeat_interleave(8), numbers.repeat(8)).to(dtype)
        add("div.Tensor", c[::5, None], c)
        add("div.Tensor", c[::5, None], numbers.to(real))
        add("div.Tensor", numbers.to(real)[:, None], c[::3])
        add("reciprocal", c)
        add("add.Tensor", torch.ones(2, dtype=real), torch.tensor(1j, dtype=C64 if dtype is C128 else C128))
        add("square", a, compare=EQUAL)
