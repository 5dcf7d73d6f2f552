"""Finds calls of every operator that smelt describes, for record_layout_rules.py to vary.

Calls come from arguments of plain shapes made from the schema, PyTorch's own sample inputs (its op_db, which needs
`pip install expecttest`), the calls of op_answers.safetensors and of operator_recipes.py, and arguments made at random.
"""

import itertools
import os
import pathlib
import pickle
import re
import select
import signal
import sys
import time

import torch

import torch.ao.quantization.fx._decomposed  # noqa: F401  its operators

import find_hidden_effects as effects
from op_table import Call, find_operator, read_table
from operator_recipes import Variants, recipes

HERE = pathlib.Path(__file__).parent
SECONDS, SECONDS_OF_GUESSES = 25, 2  # for each child, and for one operator's
MOST_CALLS, MOST_ELEMENTS = 24, 4096


def described_overloads():
    """Full names of what docs/operators.md, which smelt prints, lists."""
    names = []
    section = ""
    for paragraph in (HERE.parent / "docs" / "operators.md").read_text().split("\n\n"):
        if paragraph.startswith("## "):
            section = paragraph[3:].split(" (")[0]
        if not paragraph.startswith("`") or section in ("", "Python numbers", "Containers"):
            continue
        for name, overloads in re.findall(r"`([^`]+)`(?:\s\(([^)]*)\))?", paragraph):
            full = name if "::" in name else "aten::" + name
            for overload in re.split(r",\s+", overloads or "default"):
                names.append(full + ("" if overload == "default" else "." + overload))
    return names


def full_name(schema):
    return schema.name + ("." + schema.overload_name if schema.overload_name else "")


def flat(v):
    if isinstance(v, torch.Tensor):
        return [v]
    return [t for x in v for t in flat(x)] if isinstance(v, (list, tuple)) else []


def words(v):
    """What tells calls apart, without the tensors' elements."""
    if isinstance(v, torch.Tensor):
        return f"{v.dtype}{tuple(1 if n == 1 else 0 if n == 0 else 2 for n in v.shape)}"
    if isinstance(v, (list, tuple)):
        return "[" + ",".join(map(words, v)) + "]"
    if isinstance(v, float) or isinstance(v, int) and not isinstance(v, bool) and abs(v) > 3:
        return type(v).__name__
    return str(v)


def is_plain(t):
    return (type(t) in (torch.Tensor, torch.nn.Parameter) and t.layout == torch.strided and t.device.type == "cpu" and
            not t.is_nested and not t.is_quantized and t.numel() <= MOST_ELEMENTS)


def copied(v):
    if isinstance(v, torch.Tensor):
        c = v.detach().resolve_conj().resolve_neg()
        return torch.empty(c.shape, dtype=c.dtype).copy_(c)
    if isinstance(v, (list, tuple)):
        return [copied(x) for x in v]
    return v


class Collector:
    """Stands where find_hidden_effects has its Watch: {name: [arguments in the schema's order]}."""

    def __init__(self):
        self.calls, self.seen, self.effects, self.variants = {}, {}, {}, Variants()

    def run(self, op, args, kwargs):
        result = self.note(op, args, kwargs)
        if not op._schema.name.startswith(effects.LEFT_OUT):
            self.variants.run(self.note, op, args, kwargs, result)
        return result

    def note(self, op, args, kwargs):
        name = full_name(op._schema)
        values = list(args) + [kwargs.get(a.name, a.default_value if a.has_default_value() else None)
                               for a in op._schema.arguments[len(args):]]
        seen = self.seen.setdefault(name, set())
        key = words(values)
        tensors = flat(values)
        new = key not in seen and len(seen) < MOST_CALLS and all(map(is_plain, tensors))
        before = copied(values) if new else None
        result = op(*args, **kwargs)
        if new and flat(result):
            seen.add(key)
            self.calls.setdefault(name, []).append(before)
        return result


def in_child(work):
    """The calls that work(collector) ran in a process of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        collector = Collector()
        signal.alarm(SECONDS)

        def tell(*_):
            data = pickle.dumps(collector.calls)
            while data:
                data = data[os.write(write, data):]
            os._exit(0)

        signal.signal(signal.SIGALRM, tell)
        try:
            work(collector)
        finally:
            tell()
    os.close(write)
    data, deadline = b"", time.time() + SECONDS + 20
    while time.time() < deadline and select.select([read], [], [], deadline - time.time())[0]:
        block = os.read(read, 1 << 16)
        if not block:
            break
        data += block
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(read)
    os.waitpid(pid, 0)
    try:
        return pickle.loads(data) if data else {}
    except Exception:  # ended while it told
        return {}


def run_samples(collector, info):
    dtype = next((d for d in (torch.float32, torch.int64, torch.complex64) if d in info.supported_dtypes("cpu")), None)
    if dtype is None:
        return
    torch.manual_seed(0)
    gradients = dtype.is_floating_point and info.supports_autograd
    for sample in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=False), 20):
        for mode in (effects.WholeMode, effects.PlainMode):
            for f in (info.op, info.inplace_variant):
                if f is not None:
                    effects.run_sample(collector, sample, f, mode)
    for sample in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=True) if gradients else [], 12):
        effects.run_sample_backward(collector, sample, info.op)


def recorded_answers():
    data, doc = read_table(os.path.join(HERE, "op_answers.safetensors"))
    calls = [Call(entry, data) for entry in doc["entries"]]
    return [(call.op, *call.split()) for call in calls]


def all_recipes():
    found = [(find_operator(name.removeprefix("aten::")), args, kwargs) for name, args, kwargs in recipes() + more_recipes()]
    return [call for call in found if call[0] is not None]


def run_all(collector, calls):
    for op, args, kwargs in calls:
        try:
            with torch.no_grad():
                collector.run(op, args, kwargs)
        except Exception:  # not every layout has every operator
            pass


def parts(whole, size):
    return [whole[k:k + size] for k in range(0, len(whole), size)]


def more_recipes():
    """What the others have not, though it has to be seen."""
    r = lambda *shape: torch.rand(shape) + 0.1  # noqa: E731
    i = lambda *values: torch.tensor(values)  # noqa: E731
    image, volume = r(2, 3, 4, 5), r(2, 3, 2, 3, 4)
    out = []

    def add(name, *args, **kwargs):
        out.append(("aten::" + name, args, kwargs))

    for shape in ((2, 3, 4, 5), (3, 4), (2, 3, 1, 4)):
        for name in ("clip", "clip_", "clamp", "clamp_"):
            add(name, r(*shape), 0.2, 0.8)
            add(name + ".Tensor", r(*shape), r(*shape), None)
            add(name + ".Tensor", r(*shape), r(*shape), r(*shape))
        for name in ("float_power.Scalar", ):
            add(name, 2, r(*shape))
        add("float_power_.Scalar", r(*shape).double(), 2)
        add("float_power_.Tensor", r(*shape).double(), r(*shape))
        add("float_power.Tensor_Scalar", r(*shape), 2)
        for name in ("scatter", "scatter_"):
            add(name + ".value_reduce", r(*shape), 0, torch.zeros(*shape, dtype=torch.int64), 2, reduce="add")
        for name in ("_index_put_impl_", "_index_put_impl", "_unsafe_index_put", "_unsafe_index_put.hacked_twin", "index_put",
                     "index_put_"):
            add(name, r(*shape), [i(0, 1)], r(*shape[1:]))
        add("_unsafe_index.Tensor_hacked_twin", r(*shape), [i(0, 1)])
        add("_unsafe_index.Tensor_hacked_twin", r(*shape), [i(0, 1), i(0, 0)])
        for name in ("quantile", "nanquantile"):
            add(name, r(*shape), i(0.2, 0.5), 1)
            add(name, r(*shape), i(0.2, 0.5), 0, True)
            add(name + ".scalar", r(*shape), 0.2, 1)
        add("isin.Scalar_Tensor", 2, r(*shape))
        add("isin.Tensor_Scalar", r(*shape), 2)
        add("_weight_norm", r(*shape), r(shape[0], *[1] * (len(shape) - 1)))
        add("_weight_norm_interface", r(*shape), r(shape[0], *[1] * (len(shape) - 1)))
        add("_reshape_alias_copy", r(*shape), list(shape), list(r(*shape).stride()))
        add("linalg_norm.ord_str", r(*shape), "fro", [0, 1])
        for name in ("abs acos add.List add.Scalar add.ScalarList addcdiv.Scalar addcdiv.ScalarList addcmul.Scalar "
                     "addcmul.ScalarList clamp_max.ScalarList clamp_min.ScalarList div.ScalarList lerp.ScalarList lerp.Scalar "
                     "maximum.ScalarList minimum.ScalarList mul.ScalarList pow.ScalarList sub.ScalarList").split():
            tensors = [[r(*shape), r(*shape)] for _ in range(3 if "addc" in name else 2 if name[:4] in ("lerp", ) else 1)]
            if name.endswith(".List"):
                tensors.append([r(*shape), r(*shape)])
            add("_foreach_" + name, *tensors, *([[0.5, 2.0]] if "ScalarList" in name else [0.5] if "Scalar" in name else []))
        for name in ("addcdiv.Tensor", "addcmul.Tensor"):
            add("_foreach_" + name, *[[r(*shape), r(*shape)] for _ in range(3)], i(0.5, 2.0))
    add("linalg_cond.p_str", r(2, 3, 3), "fro")
    sizes = [7, 8]
    for name in ("upsample_nearest2d", "_upsample_nearest_exact2d"):
        add(name, image, sizes)
        add(name + "_backward", r(2, 3, 7, 8), sizes, [2, 3, 4, 5])
    for name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        add(name, image, sizes, False)
        add(name + ".vec", image, sizes, False, None)
        add(name + "_backward", r(2, 3, 7, 8), sizes, [2, 3, 4, 5], False)
    for name in ("upsample_nearest3d", "_upsample_nearest_exact3d"):
        add(name, volume, [4, 5, 6])
        add(name + "_backward", r(2, 3, 4, 5, 6), [4, 5, 6], [2, 3, 2, 3, 4])
    add("upsample_trilinear3d", volume, [4, 5, 6], False)
    add("upsample_trilinear3d_backward", r(2, 3, 4, 5, 6), [4, 5, 6], [2, 3, 2, 3, 4], False)
    for name in ("adaptive_max_pool3d", ):
        add(name, volume, [1, 2, 2])
        add(name + "_backward", r(2, 3, 1, 2, 2), volume, torch.zeros(2, 3, 1, 2, 2, dtype=torch.int64))
    for shape in ((2, 3, 4, 6), (3, 4, 6), (2, 1, 4, 6)):
        for name in ("adaptive_avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d"):
            add(name, r(*shape), [2, 3])
        add("max_unpool2d", r(*shape), torch.arange(24).reshape(4, 6).expand(shape).contiguous(), [8, 12])
        add("bernoulli.Tensor", r(*shape), r(*shape) / 2)
        add("bernoulli_.Tensor", r(*shape), r(*shape) / 2)
        add("narrow_copy", r(*shape), 1, 0, 1)
    add("trace_backward", r()[()], [3, 4])
    for name in ("affine_grid_generator", ):
        add(name, r(2, 2, 3), [2, 3, 4, 5], False)
        add(name, r(2, 3, 4), [2, 3, 4, 5, 6], False)
    labels, logits = torch.zeros(2, 4, 5, dtype=torch.int64), r(2, 3, 4, 5)
    for reduction in (0, 1):
        add("nll_loss2d", logits, labels, None, reduction)
        add("nll_loss2d_forward", logits, labels, None, reduction, -100)
        add("nll_loss2d_backward", r(2, 4, 5) if reduction == 0 else r()[()], logits, labels, None, reduction, -100, i(40.0)[0])
        add("nll_loss", r(4, 3), i(0, 1, 2, 0), None, reduction)
        add("nll_loss_nd", logits, labels, None, reduction)
        add("cross_entropy_loss", logits, labels, None, reduction)
        add("cross_entropy_loss", logits, r(2, 3, 4, 5), None, reduction)
    add("embedding_bag", r(4, 3), i(0, 1, 2), i(0, 2))
    add("embedding_bag.padding_idx", r(4, 3), i(0, 1, 2), i(0, 2), False, 0, False, None, False, None)
    x, h = r(3, 2, 4), r(1, 2, 5)
    for name, n in (("gru", 3), ("rnn_relu", 1), ("rnn_tanh", 1)):
        w = [r(5 * n, 4), r(5 * n, 5), r(5 * n), r(5 * n)]
        for first in (False, True):
            add(name + ".input", x, h if not first else r(1, 3, 5), w, True, 1, 0.0, False, False, first)
        add(name + "_cell", r(2, 4), r(2, 5), *w)
    w = [r(20, 4), r(20, 5), r(20), r(20)]
    for first in (False, True):
        b = 3 if first else 2
        add("lstm.input", x, [r(1, b, 5), r(1, b, 5)], w, True, 1, 0.0, False, False, first)
    add("lstm_cell", r(2, 4), [r(2, 5), r(2, 5)], *w)
    add("mkldnn_rnn_layer", x, *w, r(2, 5), r(2, 5), False, [2, 2, 2], 2, 5, 1, True, False, False, False)
    add("einsum.sublist", r(3, 4), [0, 1], [1, 0])
    half = lambda *s: r(*s).bfloat16()  # noqa: E731
    add("mm.dtype", half(3, 4), half(4, 5), torch.float32)
    add("addmm.dtype", r(3, 5), half(3, 4), half(4, 5), torch.float32)
    add("bmm.dtype", half(2, 3, 4), half(2, 4, 5), torch.float32)
    add("baddbmm.dtype", r(2, 3, 5), half(2, 3, 4), half(2, 4, 5), torch.float32)
    add("_grouped_mm", half(2, 16, 16), half(2, 16, 16))
    add("gradient.tensorarrayint", r(3, 4), [i(0., 1., 2.)], [0])
    add("gradient.tensorarray", r(3, 4), [i(0., 1., 2.), i(0., 1., 2., 3.)])
    add("_fft_c2r", torch.rand(2, 3, 4, dtype=torch.complex64), [2], 0, 6)
    add("_fft_c2r", torch.rand(2, 3, 4, dtype=torch.complex64), [1, 2], 0, 6)
    add("_fft_r2c", r(2, 3, 4), [1, 2], 0, True)
    add("_fft_c2c", torch.rand(2, 3, 4, dtype=torch.complex64), [1, 2], 0, True)
    for name in ("native_layer_norm_backward", ):
        add(name, r(2, 3, 4), r(2, 3, 4), [4], r(2, 3, 1), r(2, 3, 1), r(4), r(4), [True, True, True])
    for training in (True, False):
        add("native_batch_norm_backward", image, image.clone(), r(3), r(3), r(3), r(3), r(3), training, 1e-5, [True] * 3)
    add("native_group_norm_backward", image, image.clone(), r(2, 3), r(2, 3), r(3), 2, 3, 20, 3, [True] * 3)
    for mask in ([True] * 3, [True, True, False]):
        add("convolution_backward", r(2, 6, 4, 5), image, r(6, 3, 3, 3), [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)
    add("convolution_backward", r(2, 6, 5), r(2, 3, 5), r(6, 3, 3), [6], [1], [1], [1], False, [0], 1, [True] * 3)
    grid = r(2, 4, 5, 2)
    add("grid_sampler_2d_backward", image, image.clone(), grid, 0, 0, False, [True, True])
    add("grid_sampler_3d_backward", volume, volume.clone(), r(2, 2, 3, 4, 3), 0, 0, False, [True, True])
    for q in (0, 1):
        add("fake_quantize_per_channel_affine", image, r(3), i(0, 0, 0).int(), 1, -128, 127)
        add("fake_quantize_per_channel_affine_cachemask", image, r(3), i(0, 0, 0).int(), 1, -128, 127)
        add("fake_quantize_per_tensor_affine_cachemask", image, 0.1, 0, -128, 127)
        add("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", image, i(0.1), i(0), i(1), -128, 127)
    byte = (r(3, 4) * 10).to(torch.int8)
    n = "quantized_decomposed::"

    def decomposed(name, *args):
        out.append((n + name, args, {}))

    decomposed("choose_qparams.tensor", r(3, 4), -128, 127, 1e-5, torch.int8)
    decomposed("choose_qparams_symmetric.tensor", r(3, 4), -128, 127, 1e-5, torch.int8)
    decomposed("choose_qparams_per_token", r(3, 4), torch.int8)
    decomposed("choose_qparams_per_token_asymmetric", r(3, 4), torch.int8)
    decomposed("_choose_qparams_per_token_asymmetric_impl", r(3, 4), torch.int8)
    decomposed("convert_element_type.no_fuse", r(3, 4), torch.float64)
    decomposed("quantize_per_tensor", r(3, 4), 0.1, 0, -128, 127, torch.int8)
    decomposed("quantize_per_tensor.tensor", r(3, 4), i(0.1), i(0), -128, 127, torch.int8)
    decomposed("quantize_per_tensor.tensor2", r(3, 4), i(0.1), i(0), i(-128), i(127), torch.int8)
    decomposed("dequantize_per_tensor", byte, 0.1, 0, -128, 127, torch.int8)
    decomposed("dequantize_per_tensor.tensor", byte, i(0.1), i(0), -128, 127, torch.int8)
    decomposed("dequantize_per_tensor.tensor2", byte, i(0.1), i(0), i(-128), i(127), torch.int8)
    decomposed("quantize_per_channel", r(3, 4), r(3), i(0, 0, 0), 0, -128, 127, torch.int8)
    decomposed("dequantize_per_channel", byte, r(3), i(0, 0, 0), 0, -128, 127, torch.int8)
    decomposed("fake_quant_per_channel", r(3, 4), r(3), i(0, 0, 0), 0, -128, 127)
    decomposed("quantize_per_token", r(3, 4), r(3, 1), torch.zeros(3, 1), -128, 127, torch.int8)
    decomposed("dequantize_per_token", byte, r(3, 1), torch.zeros(3, 1), -128, 127, torch.int8, torch.float32)
    decomposed("quantize_per_channel_group", r(3, 4), r(3, 2), torch.zeros(3, 2), -128, 127, torch.int8, 2)
    decomposed("dequantize_per_channel_group", byte, r(3, 2), torch.zeros(3, 2), -128, 127, torch.int8, 2, torch.float32)
    return out


# Arguments of plain shapes -------------------------------------------------------------------------------------------

PLAIN = [(2, 3, 4, 5), (2, 3, 4), (3, 4), (2, 3, 2, 2, 3), (4,), (3, 3), (2, 1, 4, 5), (2, 3, 1, 1), (3, 1),
         (2, 0, 3), ()]


def run_plain(collector, op):
    """Every tensor of one shape, everything else the default or a usual value."""
    schema = op._schema
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        accepted = 0
        for shape in PLAIN:
            for pick in range(3):
                values = plain_arguments(schema, shape, dtype, pick)
                if values is None:
                    return
                args = [v for v, a in zip(values, schema.arguments) if not a.kwarg_only]
                kwargs = {a.name: v for v, a in zip(values, schema.arguments) if a.kwarg_only}
                try:
                    with torch.no_grad():
                        collector.note(op, args, kwargs)
                    accepted += 1
                except Exception:  # many shapes do not suit
                    pass
        if accepted:
            return


def plain_arguments(schema, shape, dtype, pick):
    values, made = [], 0
    for a in schema.arguments:
        kind = str(a.real_type)
        if a.name == "reduction":
            values.append(pick % 2)
        elif a.has_default_value() and (a.kwarg_only or "out" not in a.name) and not (pick == 2 and kind == "bool"):
            values.append(a.default_value)
        elif kind == "Tensor":
            made += 1
            t = torch.rand(shape, generator=torch.Generator().manual_seed(made)) + 0.1
            index = a.name in ("index", "indices")
            values.append(t.mul(0).long() if index else (t > 0.4) if "mask" in a.name else
                          (t * 3).to(dtype) if dtype != torch.bool else t > 0.4)
        elif "Tensor" in kind and kind.startswith("List"):
            values.append([torch.rand(shape), torch.rand(shape)])
        elif kind.startswith("Optional"):
            values.append(None)
        elif kind in ("int", "SymInt"):
            values.append([1, 0, 2][pick])
        elif kind == "float":
            values.append(0.0 if "dropout" in a.name else 0.5)
        elif kind == "bool":
            values.append(pick == 2)
        elif kind in ("number", "Scalar"):
            values.append([2, 0.5, 1][pick])
        elif kind in ("List[int]", "List[SymInt]"):
            values.append([[1], list(shape), [0, 1]][pick])
        elif kind == "str":
            values.append("mean" if pick else "sum")
        elif kind == "ScalarType":
            values.append(torch.float32)
        else:
            return None
    return values


def collect(log):
    from torch.testing._internal.common_methods_invocations import op_db
    torch.set_num_threads(1)
    wanted = set(described_overloads())
    calls = {}

    def merge(found):
        for name, some in found.items():
            if name not in wanted:
                continue
            have = calls.setdefault(name, [])
            known = {words(c) for c in have}
            for c in some:
                if words(c) not in known and len(have) < 40:
                    known.add(words(c))
                    have.append(c)

    operators = {n: find_operator(n) for n in sorted(wanted)}
    found = [(n, op) for n, op in operators.items() if op is not None]
    for k in range(0, len(found), 20):  # those that end the process are tried alone
        part = found[k:k + 20]
        got = in_child(lambda c: [run_plain(c, op) for _, op in part])
        merge(got)
        if len(got) < len(part) / 2:
            for _, op in part:
                merge(in_child(lambda c: run_plain(c, op)))
    log(f"plain: {len(calls)} operators")
    infos = {f"{i.name} {i.variant_test_name}": i for i in op_db}
    for n, (name, info) in enumerate(sorted(infos.items())):
        merge(in_child(lambda c: run_samples(c, info)))
        if n % 100 == 0:
            log(f"op_db {n}: {len(calls)} operators")
    for part in parts(recorded_answers() + all_recipes(), 60):
        merge(in_child(lambda c: run_all(c, part)))
    merge(in_child(effects.run_direct))
    log(f"recorded calls: {len(calls)} operators")
    effects.OP_SECONDS = 5 + SECONDS_OF_GUESSES
    for name, op in found:
        if name not in calls:
            merge(in_child(lambda c: effects.run_made(c, op)))
    log(f"made at random: {len(calls)} of {len(wanted)} operators")
    return calls


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_bytes(pickle.dumps(collect(lambda s: print(s, flush=True))))
