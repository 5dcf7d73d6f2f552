"""Whole models (zoo.py) in smelt, eager PyTorch, Inductor, ONNX Runtime and OpenVINO: time and memory, as a Markdown table.

  python3 bench/models.py [--models=ViT-B/16,TCN] [--quick] [--threads=1,2] [--peers=eager,inductor,ort,openvino] [--turns=5]
                          [--folder=DIR] [--bin=bazel-bin]

Each model is exported once, to a file that smelt compiles and that the others get as a program of PyTorch or as ONNX. Each peer
is a process of its own, and all take turns: each measures for .2 s when it is its turn, again and again, so that all see the same
machine. A cell has the least wall time of a call in milliseconds, and the memory of the process after it (that of PyTorch's
processes has PyTorch and Python in it, that of ONNX Runtime and OpenVINO Python). The answers of smelt are compared with
PyTorch's, in float64 for models of float32.

All of it takes hours. Rows are kept in DIR (default: models in $XDG_CACHE_HOME/smelt) as they are measured; a run goes on with
those that are missing, so a run that was stopped is started again by the same command. --again measures rows anew.

Needs torch; Inductor g++, `ort` the packages onnxruntime, onnx and onnxscript, `openvino` the package openvino. Peers that are
not installed are left out of the table. `./bazelw build //tools:smelt //bench:run_bundle` first.
"""
import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "testdata"))

PEERS = {"eager": "torch", "inductor": "torch", "ort": "onnxruntime", "openvino": "openvino"}
TITLES = {"smelt": "smelt", "eager": "eager", "inductor": "Inductor", "ort": "ONNX Runtime", "openvino": "OpenVINO"}
# A peer may take this long to compile a model, and to answer.
PATIENCE = 900


def file_name(name):
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower()


# --- what runs in the processes of peers ---

def make(name):
    import torch
    from zoo import MODELS
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    module, args = MODELS[name]()
    module = module.eval()
    module(*args)  # makes what is lazy
    return module, args


def exported(name, path):
    """Exports a model, with its arguments, as smelt takes them, and the answers of PyTorch."""
    import torch
    from record import write_safetensors
    module, args = make(name)
    codes = {torch.float32: "F32", torch.int64: "I64", torch.bfloat16: "BF16", torch.bool: "BOOL"}
    program = torch.export.export(module, args)
    torch.export.save(program, path + ".pt2")
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    raw = lambda t: t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    write_safetensors(path + ".in.safetensors", {n: (codes[t.dtype], tuple(t.shape), raw(t)) for n, t in zip(names, args)}, {})
    output = [s.arg.name for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"][0]
    # (A model in float64 has the same weights: one seed makes them.)
    wants_double = not any(p.dtype == torch.bfloat16 for p in module.parameters())
    want = module(*args)
    exact = want
    if wants_double:
        with contextlib.suppress(RuntimeError):  # tensors that the model makes are of float32
            exact = module.double()(*[a.double() if a.is_floating_point() else a for a in args])
    torch.save({"output": output, "want": want, "exact": exact}, path + ".want")


def exported_onnx(name, path):
    import torch
    module, args = make(name)
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(module, args, path + ".onnx", dynamo=True)


def eager(name, path, threads):
    module, args = make(name)
    return lambda: module(*args)


def inductor(name, path, threads):
    import torch
    module, args = make(name)
    compiled = torch.compile(module, dynamic=False)
    compiled(*args)
    return lambda: compiled(*args)


def read_inputs(path):
    import numpy
    from record import read_safetensors
    dtypes = {"F32": numpy.float32, "I64": numpy.int64, "BOOL": numpy.bool_}
    stored, _ = read_safetensors(path + ".in.safetensors")
    return [numpy.frombuffer(bytearray(data), dtype=dtypes[code]).reshape(sizes) for code, sizes, data in stored.values()]


def ort(name, path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path + ".onnx", options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    inputs = {node.name: a for node, a in zip(session.get_inputs(), read_inputs(path))}
    for key, a in inputs.items():
        binding.bind_ortvalue_input(key, onnxruntime.OrtValue.ortvalue_from_numpy(a))
    for node, value in zip(session.get_outputs(), session.run(None, inputs)):
        binding.bind_ortvalue_output(node.name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    return lambda: session.run_with_iobinding(binding)


def openvino(name, path, threads):
    import openvino as ov
    core = ov.Core()
    compiled = core.compile_model(core.read_model(path + ".onnx"), "CPU",
                                  {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for i, a in enumerate(read_inputs(path)):
        request.set_input_tensor(i, ov.Tensor(a, shared_memory=True))
    return request.infer


def resident_mb():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def work(peer, name, path, threads):
    """Says "ready", then for each line of input measures, as run_bundle --turns does."""
    warnings.filterwarnings("ignore")
    if peer == "export":
        return exported(name, path)
    if peer == "onnx":
        return exported_onnx(name, path)
    if peer in ("eager", "inductor"):
        import torch
        torch.set_num_threads(threads)
    run = {"eager": eager, "inductor": inductor, "ort": ort, "openvino": openvino}[peer](name, path, threads)
    run()
    print("ready", flush=True)
    for _ in sys.stdin:
        times = []
        while len(times) < 3 or (sum(times) < .2 and len(times) < 100):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        print(f"{min(times) * 1e3:.4f} {resident_mb():.0f}", flush=True)


# --- the program that lets them take turns ---

class Peer:
    """A process that measures when asked."""

    def __init__(self, command, threads, log):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        self.log = log
        with open(log, "w") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                                            env=environment, start_new_session=True)
        self.best, self.mb = None, 0

    def line(self):
        import select
        end = time.monotonic() + PATIENCE
        while True:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f"no answer in {PATIENCE} s")
            text = self.process.stdout.readline()
            if not text:
                with open(self.log) as errors:
                    said = [s for s in errors.read().splitlines() if s.strip()]
                raise RuntimeError((said or ["it ended"])[-1][:200])
            if text.startswith("ready") or re.fullmatch(r"[\d.]+ \d+\n", text):
                return text

    def measure(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        ms, mb = self.line().split()
        self.best, self.mb = min(float(ms), self.best or 1e30), max(int(mb), self.mb)

    def end(self):
        self.process.kill()
        self.process.wait()


def checked(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1][:200])
    return done.stdout


def own(*words):
    return [sys.executable, os.path.abspath(__file__), "--work", *map(str, words)]


def difference(path, smelt):
    """How far smelt's answer is from the exact one, as a share of its largest element; and PyTorch's own."""
    import torch
    from record import read_safetensors
    checked(smelt, "run", path + ".smb", f"--inputs={path}.in.safetensors", f"--outputs={path}.out.safetensors")
    said = torch.load(path + ".want")
    code, sizes, data = read_safetensors(path + ".out.safetensors")[0][said["output"]]
    dtype = {"F32": torch.float32, "BF16": torch.bfloat16}[code]
    got = torch.frombuffer(bytearray(data), dtype=dtype).reshape(sizes).double()
    size = said["exact"].double().abs().max() + 1e-30
    return [((x.double() - said["exact"].double()).abs().max() / size).item() for x in (got, said["want"])]


def prepared(name, path, options, peers):
    """The files of a model, each made once; returns its row without times."""
    smelt = os.path.join(options.bin, "tools/smelt")
    row = {"name": name, "errors": {}}
    if not os.path.exists(path + ".want"):
        checked(*own("export", name, path, 1))
    row["weights"] = round(os.path.getsize(path + ".pt2") / 1e6)
    start = time.monotonic()
    checked(smelt, "compile", path + ".pt2", "-o", path + ".smb")
    row["compile_s"] = round(time.monotonic() - start, 1)
    ours, theirs = difference(path, smelt)
    row["difference"] = ours
    if not ours <= max(4 * theirs, 2e-2 if theirs > 1e-4 else 1e-4):
        row["errors"]["smelt"] = f"differs by {ours:.1e}"
    if ("ort" in peers or "openvino" in peers) and not os.path.exists(path + ".onnx"):
        try:
            checked(*own("onnx", name, path, 1))
        except RuntimeError as e:
            row["errors"]["ort"] = row["errors"]["openvino"] = str(e)
    return row


def measured(name, threads, options, peers, folder):
    path = os.path.join(folder, file_name(name))
    row = prepared(name, path, options, peers)
    row["threads"] = threads
    commands = {"smelt": [os.path.join(options.bin, "bench/run_bundle"), path + ".smb", path + ".in.safetensors", f"--turns={threads}"]}
    commands.update({p: own(p, name, path, threads) for p in peers})
    running = {}
    try:
        for peer, command in commands.items():
            if peer in row["errors"] and peer != "smelt":
                continue
            running[peer] = Peer(command, threads, f"{path}.{peer}.log")
            try:
                running[peer].line()
            except RuntimeError as e:
                row["errors"][peer] = str(e)
                running.pop(peer).end()
        for _ in range(options.turns):
            for peer in list(running):
                try:
                    running[peer].measure()
                except (RuntimeError, OSError) as e:
                    row["errors"][peer] = str(e)
                    running.pop(peer).end()
        row["ms"] = {peer: p.best for peer, p in running.items()}
        row["mb"] = {peer: p.mb for peer, p in running.items()}
    finally:
        for p in running.values():
            p.end()
    return row


def table(rows, peers):
    """Milliseconds and MB of each peer; the best time of a row is bold."""
    columns = ["smelt"] + peers
    out = ["| model | threads | " + " | ".join(TITLES[c] for c in columns) + " | of the best peer |", "|---" * (len(columns) + 3) + "|"]
    for row in rows:
        times = {c: ms for c, ms in row["ms"].items() if ms is not None and c not in row["errors"]}
        cells = []
        for c in columns:
            if c not in times:
                cells.append("wrong" if c == "smelt" and c in row["errors"] else "–")
                continue
            text = f"{times[c]:.3g}" if times[c] < 100 else f"{times[c]:.0f}"
            cells.append((f"**{text}**" if times[c] == min(times.values()) else text) + f", {row['mb'][c]}")
        others = [ms for c, ms in times.items() if c != "smelt"]
        cells.append(f"{times['smelt'] / min(others):.2f}" if others and "smelt" in times else "–")
        out.append(f"| {row['name']} | {row['threads']} | " + " | ".join(cells) + " |")
    return "\n".join(out)


def has_all(kept, peers):
    """Whether a row was measured, with each of these peers: those that were installed since were not."""
    if not os.path.exists(kept):
        return False
    with open(kept) as f:
        row = json.load(f)
    return all(p in row["ms"] or p in row["errors"] for p in peers) or not row["ms"]


def installed(package):
    return subprocess.run([sys.executable, "-c", f"import {package}"], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", "--only", dest="only", default="", help="models, separated by semicolons or commas between names")
    parser.add_argument("--quick", action="store_true", help="one model of each family, two turns")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--folder", default=os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "smelt", "models"))
    parser.add_argument("--bin", default=os.path.join(HERE, "..", "bazel-bin"))
    options = parser.parse_args()
    from zoo import MODELS, QUICK
    chosen = QUICK if options.quick else list(MODELS)
    if options.only:
        # (Names have commas in them.)
        left, chosen = options.only, []
        for name in sorted(MODELS, key=len, reverse=True):
            if name in left:
                chosen.append(name)
                left = left.replace(name, "")
        if left.strip(",; "):
            sys.exit(f"models.py: no model \"{left.strip(',; ')}\"; there are: " + "; ".join(MODELS))
        chosen.sort(key=list(MODELS).index)
    if options.quick:
        options.turns = min(options.turns, 2)
    asked = options.peers.split(",")
    for peer in asked:
        if peer not in PEERS:
            sys.exit(f"models.py: no peer \"{peer}\"; there are: {', '.join(PEERS)}")
    peers = [p for p in asked if installed(PEERS[p])]
    for peer in asked:
        if peer not in peers:
            print(f"{TITLES[peer]} is not installed", file=sys.stderr)
    os.makedirs(options.folder, exist_ok=True)
    rows = []
    for name in chosen:
        for threads in map(int, options.threads.split(",")):
            kept = os.path.join(options.folder, f"{file_name(name)}.{threads}.json")
            if options.again or not has_all(kept, peers):
                try:
                    row = measured(name, threads, options, peers, options.folder)
                except RuntimeError as e:
                    row = {"name": name, "threads": threads, "ms": {}, "mb": {}, "errors": {"smelt": str(e)}}
                with open(kept + ".part", "w") as f:
                    json.dump(row, f)
                os.replace(kept + ".part", kept)
                print(json.dumps(row), file=sys.stderr, flush=True)
            with open(kept) as f:
                rows.append(json.load(f))
    print(table(rows, peers))
    for row in rows:
        for peer, why in row["errors"].items():
            print(f"{row['name']}, {row['threads']} threads, {TITLES[peer]}: {why}", file=sys.stderr)


if len(sys.argv) == 6 and sys.argv[1] == "--work":
    work(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
else:
    main()
