"""Writes hidden_effects.txt: the aten operators that do what their schema does not say.

    python3 testdata/find_hidden_effects.py

Runs every operator of PyTorch 2.13 on PyTorch's own sample inputs (its op_db, which needs `pip install expecttest`), on
the calls of op_answers.safetensors and on arguments made from the schema, and watches the memory: who shares a storage with whom afterwards, and which bytes have
changed. What the schema declares is left out; that it declares more than happens is not looked for. Takes some minutes.
"""

import os
import random
import re
import select
import signal
import sys
import time
import zlib

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.utils._python_dispatch import TorchDispatchMode

from op_table import Call, read_table
from operator_recipes import Variants, run_recipes
from record import get_bytes, identity

HERE = os.path.dirname(os.path.abspath(__file__))
TRIES, MORE_TRIES, OP_SECONDS = 160, 4000, 20
# They write files, end the process, or change PyTorch's own settings.
DEVICES = re.compile("cudnn|miopen|mps|cuda|cslt|triton|semi_structured|fbgemm|flash_attention|efficient_attention|xla|"
                     "_cpu_fallback|overrideable")  # other devices' and backends'
LEFT_OUT = ("aten::from_file", "aten::save", "aten::_assert", "aten::manual_seed", "aten::seed", "aten::wait",
            "aten::_sobol")

HEADER = """\
# Operators whose memory effects go beyond their schema, seen in PyTorch {version} by testdata/find_hidden_effects.py. Do not edit.
# One operator a line, fields separated by tabs: its full name, then one or more of
#   output K may alias input I     the K-th result shares memory with the I-th argument (places in the schema, from 0; lists: any element)
#   outputs K and L may alias      two results share memory with each other; K = L: two tensors of one list
#   writes input I                 the bytes or the geometry of the I-th argument may change
#   input I may alias input J      afterwards the I-th argument lives in the J-th one's memory
#   draws random numbers           though it takes no generator
#   not run                        no call was found that PyTorch accepts on a CPU: nothing is known, expect the worst
# Operators that are not listed have been run and did no more than their schema says. Operators without tensors are not looked at.
# {run} operators run, {hidden} with hidden effects, {missed} not run.
"""

# Watching ------------------------------------------------------------------------------------------------------------


def alias_sets(text):
    """The alias set names, whether written, of an argument or result like "Tensor(a! -> *)[] x"."""
    names, written = set(), False
    start = text.find("(")
    while start >= 0:
        inside = text[start + 1:text.find(")", start)]
        written |= "!" in inside
        names |= {n for part in inside.replace("!", "").split("->") for n in part.strip().split("|")}
        start = text.find("(", start + 1)
    return {n.strip() for n in names if n.strip()}, written


def split_types(text):
    parts, depth, now = [], 0, ""
    for ch in text:
        depth += (ch in "([") - (ch in ")]")
        if ch == "," and not depth:
            parts.append(now)
            now = ""
        else:
            now += ch
    return [p.strip() for p in [*parts, now] if p.strip()]


def declared(schema):
    """(alias sets of each argument, which are written, alias sets of each result)"""
    text = str(schema)
    inside, _, results = text[text.index("(") + 1:].rpartition(") -> ")
    arguments = [a.split("=")[0] for a in split_types(inside) if a != "*"]
    results = results[1:-1] if results.startswith("(") else results
    sets = [alias_sets(a) for a in arguments]
    return [s[0] for s in sets], [s[1] for s in sets], [alias_sets(r)[0] for r in split_types(results)]


def parts(t):
    """The strided tensors in whose memory t lives."""
    if type(t) not in (torch.Tensor, torch.nn.Parameter) or t.device.type != "cpu":
        return []
    if t.is_nested:
        return [t.values()]
    if t.layout == torch.strided:
        return [t]
    if t.layout == torch.sparse_coo:
        return [t._indices(), t._values()]
    if t.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [t.crow_indices(), t.col_indices(), t.values()]
    if t.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [t.ccol_indices(), t.row_indices(), t.values()]
    return []


def tensors_of(v):
    if isinstance(v, torch.Tensor):
        return parts(v)
    return [t for x in v for t in tensors_of(x)] if isinstance(v, (list, tuple)) else []


def look(t):
    return identity(t), t.size(), t.stride(), t.storage_offset()


class Watch:
    """Runs operators and collects what each did beyond its schema: {name: {effect}}."""

    def __init__(self):
        self.effects, self.variants = {}, Variants()

    def run(self, op, args, kwargs):
        result = self.note(op, args, kwargs)
        if not op._schema.name.startswith(LEFT_OUT):
            self.variants.run(self.note, op, args, kwargs, result)
        return result

    def note(self, op, args, kwargs):
        schema = op._schema
        values = list(args) + [kwargs.get(a.name) for a in schema.arguments[len(args):]]
        inputs = [tensors_of(v) for v in values]
        flat = [t for ts in inputs for t in ts]
        if sum(t.untyped_storage().nbytes() for t in flat) > 1 << 20:
            return op(*args, **kwargs)
        before = [[(look(t), get_bytes(t.untyped_storage())) for t in ts] for ts in inputs]
        keep = [t.untyped_storage() for t in flat]
        state = torch.get_rng_state()
        result = op(*args, **kwargs)
        drew = not torch.equal(state, torch.get_rng_state())
        del keep
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        found = self.effects.setdefault(name, set())
        if drew and not any("Generator" in str(a.real_type) for a in schema.arguments):
            found.add("draws random numbers")
        in_sets, written, out_sets = declared(schema)
        results = list(result) if len(schema.returns) > 1 and isinstance(result, (list, tuple)) else [result]
        outputs = [tensors_of(r) for r in results]

        def shared(a, b):
            return any(x.untyped_storage().nbytes() and identity(x) == identity(y) for x in a for y in b)

        def said(a, b):
            return a & b

        for k, outs in enumerate(outputs):
            sets = out_sets[k] if k < len(out_sets) else set()
            for i, ins in enumerate(inputs):
                if shared(outs, ins) and not said(in_sets[i], sets):
                    if not any(shared(ins, inputs[j]) and said(in_sets[j], sets) for j in range(len(inputs)) if j != i):
                        found.add(f"output {k} may alias input {i}")
            for l in range(k + 1, len(outputs)):
                if shared(outs, outputs[l]) and not said(sets, out_sets[l]):
                    found.add(f"outputs {k} and {l} may alias")
            if not sets and any(shared(outs[:n], [t]) for n, t in enumerate(outs)):
                found.add(f"outputs {k} and {k} may alias")
        allowed = {identity(t) for i, ts in enumerate(inputs) if written[i] for t in ts}
        allowed |= {b[0][0] for i, bs in enumerate(before) if written[i] for b in bs}
        for i, ts in enumerate(inputs):
            for t, (geometry, data) in zip(ts, before[i]):
                if not written[i] and look(t) != geometry:
                    found.add(f"writes input {i}")
                if geometry[0] not in allowed and identity(t) == geometry[0] and get_bytes(t.untyped_storage()) != data:
                    found.add(f"writes input {i}")
                if identity(t) != geometry[0]:
                    for j, others in enumerate(before):
                        if j != i and any(
                                identity(t) == o[0][0] and o[1] for o in others) and not said(in_sets[i], in_sets[j]):
                            found.add(f"input {i} may alias input {j}")
        return result


class PlainMode(TorchDispatchMode):
    """Sees what composite operators are made of."""

    def __init__(self, watch):
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.watch.run(func, args, kwargs or {})


class WholeMode(SchemaCheckMode):
    """Sees composite operators whole. Only a few classes may stand at this place of PyTorch's dispatcher: hence the base."""

    def __init__(self, watch):
        super().__init__()
        self._dispatch_key = torch._C.DispatchKey.PreDispatch
        self.watch = watch

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.watch.run(func, args, kwargs or {})


# PyTorch's own samples -----------------------------------------------------------------------------------------------


def run_samples(watch, info):
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        if dtype not in info.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        random.seed(0)
        for n, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
            if n == 25:
                break
            for f in (info.op, info.inplace_variant, info.method_variant):
                for mode in (WholeMode, PlainMode):
                    if f is not None:
                        run_sample(watch, sample, f, mode)
            if info.supports_out:
                run_sample_out(watch, sample, info.op)
        if dtype == torch.float32 and info.supports_autograd:
            for n, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=True)):
                if n == 25:
                    break
                run_sample_backward(watch, sample, info.op)


def fresh(sample):
    return sample.transform(lambda t: t.detach().clone().requires_grad_(t.requires_grad)
                            if isinstance(t, torch.Tensor) else t)


def run_sample(watch, sample, f, mode):
    s = fresh(sample)
    try:
        with torch.no_grad(), enable_python_dispatcher(), mode(watch):
            f(s.input, *s.args, **s.kwargs)
    except Exception:  # many samples do not suit every variant
        pass


def run_sample_out(watch, sample, f):
    s = fresh(sample)
    try:
        with torch.no_grad():
            out = f(s.input, *s.args, **s.kwargs)
            with PlainMode(watch):
                f(s.input, *s.args, **s.kwargs, out=torch.utils._pytree.tree_map(torch.empty_like, out))
    except Exception:
        pass


def run_sample_backward(watch, sample, f):
    s = fresh(sample)
    try:
        out = [t for t in tensors_of(f(s.input, *s.args, **s.kwargs)) if t.requires_grad]
        with PlainMode(watch):
            torch.autograd.backward([t.sum() for t in out])
    except Exception:
        pass


# Arguments made from a schema ----------------------------------------------------------------------------------------

SHAPES = [(2, 3), (3, 3), (4,), (1,), (), (2, 3, 4), (1, 2, 4, 4), (2, 2, 2)]
DTYPES = [torch.float32] * 4 + [torch.int64, torch.bool, torch.complex64, torch.float64, torch.uint8]


class Maker:
    """Makes arguments for a schema, others at each try."""

    def __init__(self, name):
        self.random = random.Random(zlib.crc32(name.encode()))

    def arguments(self, schema):
        r = self.random
        self.shape, self.dtype, self.plain = r.choice(SHAPES), r.choice(DTYPES), r.random() < 0.5
        self.tensors = 0
        values = []
        for a in schema.arguments:
            if a.has_default_value() and r.random() < 0.55:
                values.append(a.default_value)
            else:
                values.append(self.value(str(a.real_type)))
        return values

    def tensor(self):
        r = self.random
        self.tensors += 1
        dtype, shape = self.dtype, self.shape
        if not self.plain and self.tensors > 1:
            dtype = r.choice([self.dtype, self.dtype, torch.int64, torch.bool])
            shape = r.choice([self.shape, self.shape, self.shape[-1:], self.shape[:1], (1,), (), *SHAPES[:3]])
        t = torch.rand(shape, generator=torch.Generator().manual_seed(self.tensors))
        if dtype == torch.int64:
            t = t * (shape[0] if shape else 1)
        return t.to(dtype) if dtype != torch.bool else t > 0.4

    def value(self, kind):
        r = self.random
        kind = kind.strip()
        if kind.startswith("Optional["):
            return None if r.random() < 0.4 else self.value(kind[9:-1])
        if kind.endswith("?"):
            return None if r.random() < 0.4 else self.value(kind[:-1])
        if kind.startswith("List["):
            kind = kind[5:-1] + "[]"
        if kind.endswith("[]"):
            inner = kind[:-2]
            if "Tensor" in inner:
                return [self.value(inner) for _ in range(r.choice([1, 1, 2, 3, 4]))]
            if inner in ("int", "SymInt"):
                return r.choice([[0], [1], [0, 1], [1, 0], [2, 2], [1, 1], [0, 0],
                                 list(self.shape),
                                 list(self.shape), [2], [-1], [],
                                 list(torch.empty(self.shape).stride()), [1] * len(self.shape),
                                 list(range(len(self.shape)))])
            return [self.value(inner) for _ in range(r.choice([0, 1, 2, 3]))]
        if kind == "Tensor" or kind == "t":
            return self.tensor()
        choices = {
            "int": [0, 1, 1, 2, -1, 3, 4],
            "SymInt": [0, 1, 1, 2, -1, 3],
            "float": [0.0, 0.5, 1.0],
            "bool": [False, True],
            "number": [0, 1, 2, 0.5, 1.0],
            "Scalar": [0, 1, 2, 0.5, 1.0],
            "Device": [torch.device("cpu")],
            "Layout": [torch.strided],
            "ScalarType": [self.dtype, self.dtype, torch.float64, torch.int64],
            "MemoryFormat": [torch.contiguous_format, torch.preserve_format],
            "str": ["sum", "mean", "none", "constant", "floor", "ij", "ij->ij", "replicate", "linear", "tanh", "left"],
            "Generator": [None],
            "complex": [1 + 1j],
            "Any": [1],
        }
        if kind not in choices:
            raise LookupError(kind)
        return r.choice(choices[kind])


def run_made(watch, op):
    """Tries many arguments, and many more while none has been accepted."""
    schema, ran, start = op._schema, False, time.time()
    maker = Maker(str(schema))
    for n in range(MORE_TRIES):
        if n >= TRIES and (ran or DEVICES.search(schema.name)) or time.time() > start + OP_SECONDS - 5:
            return
        try:
            values = maker.arguments(schema)
        except LookupError:
            return
        args = [v for v, a in zip(values, schema.arguments) if not a.kwarg_only]
        kwargs = {a.name: v for v, a in zip(values, schema.arguments) if a.kwarg_only}
        try:
            with torch.no_grad():
                watch.run(op, args, kwargs)
            ran = True
        except Exception:  # most guesses are wrong
            pass


def run_answers(watch):
    data, doc = read_table(os.path.join(HERE, "op_answers.safetensors"))
    for entry in doc["entries"]:
        call = Call(entry, data)
        args, kwargs = call.split()
        with torch.no_grad():
            watch.run(call.op, args, kwargs)


DIRECT = [  # what neither comes upon, though it matters
    lambda aten, x, s: aten._batch_norm_impl_index(x, s[0], s[1], s[2], s[3], True, 0.1, 1e-5, True),
    lambda aten, x, s: aten._batch_norm_impl_index(x, s[0], s[1], s[2], s[3], False, 0.1, 1e-5, True),
    lambda aten, x, s: aten.batch_norm(x, s[0], s[1], s[2], s[3], True, 0.1, 1e-5, True),
    lambda aten, x, s: aten.rrelu(x, 0.1, 0.3, False),
    lambda aten, x, s: aten.pad(x, [0, 0], "constant", 0.0),
    lambda aten, x, s: aten.pin_memory(x),
    lambda aten, x, s: aten.convolution(x[None], torch.rand(3, 2, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
                                       ),
    lambda aten, x, s: aten._convolution(x[None], torch.rand(3, 2, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0],
                                         1, False, False, False, False),
    lambda aten, x, s: aten._convolution_mode(x[None], torch.rand(3, 2, 1, 1), None, [1, 1], "same", [1, 1], 1),
    lambda aten, x, s: aten._embedding_bag(torch.rand(4, 3), torch.tensor([0, 1, 2]), torch.tensor([0, 2])),
    lambda aten, x, s: aten._fused_adam_([s[0]], [s[1]], [s[2]], [s[3]], [], [torch.ones(())],
                                         lr=0.1,
                                         beta1=0.9,
                                         beta2=0.99,
                                         weight_decay=0.0,
                                         eps=1e-8,
                                         amsgrad=False,
                                         maximize=False),
    lambda aten, x, s: aten._fused_sgd_([s[0]], [s[1]], [s[2]],
                                        weight_decay=0.0,
                                        momentum=0.9,
                                        lr=0.1,
                                        dampening=0.0,
                                        nesterov=False,
                                        maximize=False,
                                        is_first_step=False),
    lambda aten, x, s: aten._batch_norm_no_update(x, s[0], s[1], s[2], s[3], 0.1, 1e-5),
    lambda aten, x, s: aten._batch_norm_with_update_functional(x, s[0], s[1], s[2], s[3], 0.1, 1e-5),
    lambda aten, x, s: aten._cummax_helper(s[0], s[1], torch.zeros(3, dtype=torch.int64), 0),
    lambda aten, x, s: aten._pack_padded_sequence(torch.rand(4, 2, 3), torch.tensor([4, 2]), False),
    lambda aten, x, s: aten._thnn_fused_lstm_cell(torch.rand(2, 12), torch.rand(2, 12), torch.rand(2, 3)),
    lambda aten, x, s: aten._resize_output_(s[0], [2], torch.device("cpu")),
    lambda aten, x, s: aten._copy_from(s[0], s[1]),
    lambda aten, x, s: aten._foreach_copy([s[0]], [s[1]]),
]


def run_direct(watch):
    for call in DIRECT:
        for mode in (None, WholeMode, PlainMode):
            x, s = torch.rand(2, 3, 4), [torch.rand(3) + 0.5 for _ in range(4)]

            class Direct:  # the packets, called through `watch`

                def __getattr__(self, name):
                    packet = getattr(torch.ops.aten, name)

                    def run(*args, **kwargs):
                        op = packet.default if "default" in packet.overloads() else getattr(
                            packet,
                            packet.overloads()[0])
                        if mode is None:
                            return watch.run(op, args, kwargs)
                        with enable_python_dispatcher(), mode(watch):
                            return op(*args, **kwargs)

                    return run

            try:
                with torch.no_grad():
                    call(Direct(), x, s)
            except Exception:  # some builds lack some operators
                pass


# All of them, each in a process of its own: some guesses end the process ---------------------------------------------


def in_child(work, make=None):
    """Runs work(make()) in a child; returns the lines that it found before it ended, was killed or ran out of time."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        watch = (make or Watch)()
        signal.alarm(OP_SECONDS)

        def tell(*_):
            for name, effects in watch.effects.items():
                line = ("\t".join([name, *sorted(effects)]) + "\n").encode()
                while line:
                    line = line[os.write(write, line):]
            os._exit(0)

        signal.signal(signal.SIGALRM, tell)
        try:
            work(watch)
        finally:
            tell()
    os.close(write)
    data = b""
    deadline = time.time() + OP_SECONDS + 20
    while time.time() < deadline and select.select([read], [], [], deadline - time.time())[0]:
        block = os.read(read, 1 << 16)
        if not block:
            break
        data += block
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(read)
    os.waitpid(pid, 0)
    return [line.split("\t") for line in data.decode().splitlines()]


def operators():
    """All aten overloads with a tensor among arguments or results, by full name."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::") or schema.name.startswith(LEFT_OUT):
            continue
        if not any("Tensor" in str(a.real_type) for a in schema.arguments):
            continue
        packet = getattr(torch.ops.aten, schema.name[6:], None)
        op = getattr(packet, schema.overload_name or "default", None) if packet is not None else None
        found[schema.name + ("." + schema.overload_name if schema.overload_name else "")] = op
    return found


def main():
    from torch.testing._internal.common_methods_invocations import op_db
    torch.set_num_threads(1)
    effects = {}

    def merge(lines):
        for name, *found in lines:
            effects.setdefault(name, set()).update(found)

    infos = {f"{i.name} {i.variant_test_name}": i for i in op_db}
    for n, (name, info) in enumerate(sorted(infos.items())):
        merge(in_child(lambda watch: run_samples(watch, info)))
    print(f"op_db: {len(effects)} operators run", flush=True)
    merge(in_child(run_answers))
    merge(in_child(run_direct))
    merge(in_child(run_recipes))
    every = operators()
    for n, (name, op) in enumerate(sorted(every.items())):
        if op is not None:
            merge(in_child(lambda watch: run_made(watch, op)))
        if n % 500 == 0:
            print(f"{n} of {len(every)}: {len(effects)} operators run", flush=True)
    lines, missed = [], 0
    for name in sorted(every):
        if name not in effects:
            missed += 1
            lines.append(f"{name}\tnot run\n")
        elif effects[name]:
            lines.append("\t".join([name, *sorted(effects[name])]) + "\n")
    with open(os.path.join(HERE, "hidden_effects.txt"), "w") as f:
        f.write(
            HEADER.format(version=torch.__version__.split("+")[0],
                          run=len(every) - missed,
                          hidden=len(lines) - missed,
                          missed=missed))
        f.writelines(lines)
    print(f"{len(every)} operators, {missed} not run, {len(lines) - missed} with hidden effects")


if __name__ == "__main__":
    sys.exit(main())
