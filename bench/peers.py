"""The workloads of kernels.cc in eager PyTorch, Inductor, ONNX Runtime and OpenVINO, to be run beside it.

  python3 bench/peers.py [--peer=eager,inductor,ort,openvino] [--only=softmax,mlp] [--cpu=0] [--cpu-time]

Needs torch; Inductor g++, `ort` the packages onnxruntime, onnx and onnxscript, `openvino` the package openvino. One thread,
pinned; freed memory is handed out again, so that fresh outputs cost no page faults; ONNX Runtime and OpenVINO write the same
outputs again and again, and have the weights of models as constants. One JSON object a line, as `kernels --json` prints; what
a peer cannot do has an "error" in it.
"""
import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import time

REUSE = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36), "MALLOC_TOP_PAD_": str(1 << 26), "MALLOC_ARENA_MAX": "1",
         "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
if os.environ.get("MALLOC_ARENA_MAX") != "1":
    os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **REUSE})

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_grad_enabled(False)
torch.manual_seed(0)


def r(*sizes, scale=1.0):
    return torch.randn(*sizes) * scale


def chain30(x, y):
    t = torch.tanh(x * y + x) * 0.5 - y
    t = torch.sqrt(torch.abs(t) + 1.0) * x
    t = torch.relu(torch.sigmoid(t) + y)
    t = torch.rsqrt(t * t + 0.25)
    t = torch.clamp(-torch.minimum(t, x), -4.0, 4.0)
    t = torch.log(torch.exp(t) + 1.0)
    t = t / (t + 2.0)
    t = torch.maximum(torch.where(t > y, t, x), y)
    return torch.reciprocal(torch.abs(torch.sin(t)) + 1.0)


def rms(x, w):
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)).to(torch.bfloat16) * w


def cell(gates, c):
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def attention(kc, vc, q, k, v):
    kc[:, :, 1000:1001] = k
    vc[:, :, 1000:1001] = v
    s = torch.matmul(q, kc.transpose(-1, -2)) * 0.125
    return torch.matmul(torch.softmax(s, -1), vc)


def mlp(x, w1, b1, w2, b2):
    return F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)


def lstm(x, h, c, wi, wh, b):
    out = []
    wi, wh = wi.t(), wh.t()
    for t in range(100):
        h, c = cell(x[t] @ wi + h @ wh + b, c)
        out.append(h)
    return torch.stack(out), h, c


def transformer(x, layers):
    for wqkv, bqkv, wo, bo, w1, b1, w2, b2, ga, gab, gb, gbb in layers:
        h = F.layer_norm(x, (256,), ga, gab)
        q, k, v = F.linear(h, wqkv, bqkv).view(1, 128, 3, 4, 64).permute(2, 0, 3, 1, 4).unbind(0)
        a = torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v
        x = x + F.linear(a.transpose(1, 2).reshape(1, 128, 256), wo, bo)
        h = F.layer_norm(x, (256,), gb, gbb)
        x = x + F.linear(F.gelu(F.linear(h, w1, b1)), w2, b2)
    return x


def cnn(x, convs, fw, fb):
    def cb(k, x, stride):
        w, g, b, m, v = convs[k]
        y = F.conv2d(x, w, None, stride, (w.shape[-1] - 1) // 2)
        return F.batch_norm(y, m, v, g, b, False, 0.0, 1e-5)
    x = torch.relu(cb(0, x, 1))
    x = torch.relu(cb(2, torch.relu(cb(1, x, 1)), 1) + x)
    x = torch.relu(cb(4, torch.relu(cb(3, x, 2)), 1) + cb(5, x, 2))
    return F.linear(x.mean((2, 3)), fw, fb)


def layer():
    return (r(768, 256, scale=.06), r(768), r(256, 256, scale=.06), r(256), r(1024, 256, scale=.06), r(1024), r(256, 1024, scale=.03),
            r(256), r(256), r(256), r(256), r(256))


def conv(i, o, k):
    return (r(o, i, k, k, scale=.1), r(o), r(o), r(o), r(o).abs() + 1)


N = 1 << 24
rows = lambda: r(16384, 1024)
WORKLOADS = {
    "tanh_sigmoid": (lambda a, b, c: torch.tanh(a * b + c) * torch.sigmoid(a), lambda: (r(N), r(N), r(N))),
    "bias_gelu": (lambda x, b: F.gelu(x + b), lambda: (rows(), r(1024))),
    "chain30": (chain30, lambda: (r(N), r(N))),
    "softmax": (lambda x: torch.softmax(x, -1), lambda: (rows(),)),
    "layernorm_residual": (lambda x, y, w, b: F.layer_norm(x + y, (1024,), w, b), lambda: (rows(), rows(), r(1024), r(1024))),
    "rmsnorm_bf16": (rms, lambda: (rows().bfloat16(), r(1024).bfloat16())),
    "sum_dim0": (lambda x: x.sum(0), lambda: (rows(),)),
    "sum_all": (lambda x: x.sum(), lambda: (rows(),)),
    "var_mean": (lambda x: torch.var_mean(x, 1), lambda: (rows(),)),
    "transpose_add": (lambda a, b: a.t() + b, lambda: (r(4096, 4096), r(4096, 4096))),
    "strided_broadcast": (lambda x, y: x[:, ::2] * y[None, :, None], lambda: (r(256, 128, 1024), r(64))),
    "strided_last": (lambda x, y: x[:, ::2] + y[:, 1::2], lambda: (r(16384, 2048), r(16384, 2048))),
    "kv_attention": (attention, lambda: (r(1, 8, 2048, 64), r(1, 8, 2048, 64), r(1, 8, 1, 64), r(1, 8, 1, 64), r(1, 8, 1, 64))),
    "lstm_cell": (cell, lambda: (r(64, 1024), r(64, 256))),
    "mlp": (mlp, lambda: (r(64, 256), r(1024, 256, scale=.06), r(1024), r(256, 1024, scale=.03), r(256))),
    "lstm100": (lstm, lambda: (r(100, 64, 256), r(64, 256), r(64, 256), r(1024, 256, scale=.06), r(1024, 256, scale=.06), r(1024))),
    "transformer2": (transformer, lambda: (r(1, 128, 256), [layer(), layer()])),
    "small_cnn": (cnn, lambda: (r(1, 3, 64, 64), [conv(3, 32, 3), conv(32, 32, 3), conv(32, 32, 3), conv(32, 64, 3), conv(64, 64, 3),
                                                 conv(32, 64, 1)], r(10, 64), r(10))),
    "add_1k": (lambda a: a + 1, lambda: (r(1024),)),
}


# The first arguments of these are data, the others weights.
DATA_ARGUMENTS = {"mlp": 1, "lstm100": 3, "transformer2": 1, "small_cnn": 1}


class Weighted(torch.nn.Module):
    """A workload as a module: what is not data is a constant of it."""

    def __init__(self, f, weights):
        super().__init__()
        self.f, self.weights = f, weights

    def forward(self, *data):
        out = self.f(*data, *self.weights)
        # To the converters a written argument is an output too.
        return (out, *data[:2]) if self.f is attention else out


def eager(f, args, data):
    return lambda: f(*args)


def inductor(f, args, data):
    compiled = torch.compile(f, dynamic=False)
    compiled(*args)
    return lambda: compiled(*args)


def ort(f, args, data):
    import onnxruntime
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "workload.onnx")
        with contextlib.redirect_stdout(io.StringIO()):
            torch.onnx.export(Weighted(f, args[data:]), args[:data], path, dynamo=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for node, tensor in zip(session.get_inputs(), args):
        binding.bind_ortvalue_input(node.name, onnxruntime.OrtValue.ortvalue_from_numpy(tensor.contiguous().numpy()))
    first = session.run(None, {node.name: tensor.numpy() for node, tensor in zip(session.get_inputs(), args)})
    for node, value in zip(session.get_outputs(), first):
        binding.bind_ortvalue_output(node.name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    return lambda: session.run_with_iobinding(binding)


def openvino(f, args, data):
    import openvino as ov
    program = torch.export.export(Weighted(f, args[data:]), args[:data])
    compiled = ov.Core().compile_model(ov.convert_model(program), "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for i, tensor in enumerate(args[:data]):
        request.set_input_tensor(i, ov.Tensor(tensor.numpy(), shared_memory=True))
    return request.infer


def in_layout(tensor, layout):
    """The tensor as layouts.cc lays it out."""
    if layout == "exported" or not torch.is_tensor(tensor) or tensor.numel() < 1 << 12:
        return tensor
    order = list(range(tensor.dim()))  # of the dims in memory
    if layout == "transposed":
        order[-2:] = [order[-1], order[-2]]
    if layout == "channels_last":
        order = [0, *order[2:], 1]
    value = tensor.permute(order)
    if layout == "expanded":
        return value[:1].clone().expand(value.shape)
    if layout == "offset":
        memory = torch.empty(1 + value.numel(), dtype=tensor.dtype)[1:].view(value.shape)
    else:
        *outer, row = value.shape
        pitch = 2 * row if layout == "stepped" else row + 64 if layout == "gaps" else row
        memory = torch.empty(*outer, pitch, dtype=tensor.dtype)[..., :pitch:pitch // row][..., :row]
    return memory.copy_(value).permute([order.index(d) for d in range(len(order))])


def ratios(name, calls, clock, budget):
    """Prints for each call, the layouts of its arguments, how much longer it takes than the first."""
    f, make = WORKLOADS[name]
    args = make()
    for call in calls:
        layouts = call.split(",") + ["exported"] * (len(args) - len(call.split(",")))
        other = [in_layout(a, layout) for a, layout in zip(args, layouts)]
        times = least_in_turns(lambda: f(*args), lambda: f(*other), clock, budget)
        print(json.dumps({"workload": name, "layouts": call, "ratio": round(times[1] / times[0], 4)}), flush=True)


PEERS = {"eager": eager, "inductor": inductor, "ort": ort, "openvino": openvino}


def least(f, clock, budget=0.7):
    return least_in_turns(f, lambda: None, clock, budget)[0]


def least_in_turns(f, g, clock, budget):
    def seconds(h):
        t = clock()
        for _ in range(batch):
            h()
        return clock() - t
    batch = 1
    for h in (f, f, f, g, g, g):
        seconds(h)
    while seconds(f) <= 2e-4:
        batch *= 2
    best, total = [1e9, 1e9], 0.0
    while total < budget:
        both = [seconds(f), seconds(g)]
        best = [min(b, d / batch) for b, d in zip(best, both)]
        total += sum(both)
    return best


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", default="eager")
    parser.add_argument("--only", default="")
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--cpu-time", action="store_true", help="count the time in which the process runs")
    parser.add_argument("--layouts", help="of the arguments, for each call of eager PyTorch: a,b;c,d (for layouts.cc)")
    parser.add_argument("--budget", type=float, default=0.7, help="seconds per measurement")
    o = parser.parse_args()
    unknown = set(o.peer.split(",")) - set(PEERS)
    if unknown:
        parser.error(f"peers are {', '.join(PEERS)}; not {', '.join(sorted(unknown))}")
    clock = time.process_time if o.cpu_time else time.perf_counter
    if o.cpu >= 0:
        os.sched_setaffinity(0, {o.cpu})
    if o.layouts:
        if o.only in WORKLOADS and o.only != "kv_attention":  # its large arguments are the state of smelt's
            ratios(o.only, o.layouts.split(";"), clock, o.budget)
        sys.exit()
    for name, (f, make) in WORKLOADS.items():
        if o.only and name not in o.only.split(","):
            continue
        for peer in o.peer.split(","):
            args = make()
            line = {"peer": peer, "workload": name}
            start = time.perf_counter()
            try:
                run = PEERS[peer](f, args, DATA_ARGUMENTS.get(name, len(args)))
                line["compile_s"] = round(time.perf_counter() - start, 4) if peer != "eager" else 0
                line["run_s"] = float(f"{least(run, clock, o.budget):.5g}")
            except Exception as error:  # whatever a peer's converter throws
                line["error"] = str(error).strip().split("\n")[0][:200]
            print(json.dumps(line), flush=True)
