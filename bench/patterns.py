"""Little models of a few operators, as they stand in real ones, in smelt and in eager PyTorch: times and results side by side.

  python3 bench/patterns.py [--bin=bazel-bin] [--only=NAME,...] [--inductor]

One JSON object a line: milliseconds of processor time of one thread (the least of many calls, output memory reused by both),
kernel launches and library calls of smelt's, and "differs" where a result is further from eager's than rounding explains.
Needs torch (and g++ for Inductor).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

REUSE = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36), "MALLOC_TOP_PAD_": str(1 << 26), "MALLOC_ARENA_MAX": "1",
         "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
if os.environ.get("MALLOC_ARENA_MAX") != "1":
    os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **REUSE})
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testdata"))

import torch
import torch.nn.functional as F
from torch import randn

from record import read_safetensors, write_safetensors

torch.set_num_threads(1)
torch.set_grad_enabled(False)
torch.manual_seed(0)
CODES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8",
         torch.int8: "I8", torch.int16: "I16", torch.bool: "BOOL", torch.bfloat16: "BF16", torch.float16: "F16",
         torch.complex64: "C64"}
DTYPES = {code: dtype for dtype, code in CODES.items()}
PATTERNS = {}


def add(name, f, *args):
    PATTERNS[name] = (f, args)


def ints(high, *sizes):
    return torch.randint(0, high, sizes)


add("gqa_repeat", lambda k:k[:, :, None].expand(2, 8, 4, 512, 64).reshape(2, 32, 512, 64)+0.0, randn(2, 8, 512, 64))
add("split_heads", lambda x:[t.view(4, 256, 8, 64).transpose(1, 2)*2 for t in x.chunk(3, -1)], randn(4, 256, 1536))
add("merge_heads", lambda x:x.transpose(1, 2).reshape(4, 256, 512), randn(4, 8, 256, 64))
add("alibi",
    lambda s, m:(s+m[None, :, None, None]*(torch.arange(256)[None, :]-torch.arange(256)[:, None])).softmax(-1), randn(2, 8, 256, 256), randn(8))
add("window_part",
    lambda x:x.view(4, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, 96)+0, randn(4, 56, 56, 96))
add("window_rev",
    lambda x:x.view(4, 8, 8, 7, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(4, 56, 56, 96)+0, randn(256, 49, 96))
add("swin_roll_ln",
    lambda x, a, b:F.layer_norm(torch.roll(x, (-3, -3), (1, 2)), (96, ), a, b), randn(4, 56, 56, 96), randn(96), randn(96))
add("patchify",
    lambda x:x.reshape(8, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5).reshape(8, 196, 768)*2, randn(8, 3, 224, 224))
add("unpatchify",
    lambda x:x.reshape(8, 14, 14, 16, 16, 3).permute(0, 5, 1, 3, 2, 4).reshape(8, 3, 224, 224)+1, randn(8, 196, 768))
add("focus",
    lambda x:torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1), randn(4, 3, 320, 320))
add("channel_shuffle",
    lambda x:x.view(8, 4, 32, 28, 28).transpose(1, 2).reshape(8, 128, 28, 28)+0, randn(8, 128, 28, 28))
add("se_scale", lambda x, s:x*torch.sigmoid(s)[:, :, None, None], randn(8, 128, 28, 28), randn(8, 128))
add("prelu", lambda x, a:F.prelu(x, a), randn(8, 128, 56, 56), randn(128))
add("hardswish", lambda x:F.hardswish(x), randn(8, 128, 56, 56))
add("mish", lambda x:F.mish(x), randn(8, 128, 56, 56))
add("softplus", lambda x:F.softplus(x), randn(8, 128, 56, 56))
add("elu", lambda x:F.elu(x), randn(8, 128, 56, 56))
add("gelu_bf16", lambda x:F.gelu(x), randn(2048, 2048).bfloat16())
add("silu_mul_bf16", lambda x, y:F.silu(x)*y, randn(2048, 2048).bfloat16(), randn(2048, 2048).bfloat16())
add("rms_f32", lambda x, g:x*torch.rsqrt(x.pow(2).mean(-1, keepdim=True)+1e-6)*g, randn(4096, 1024), randn(1024))
add("add_rms",
    lambda x, y, g:(lambda s:(s, s*torch.rsqrt(s.pow(2).mean(-1, keepdim=True)+1e-6)*g))(x+y), randn(4096, 1024), randn(4096, 1024), randn(1024))
add("softcap", lambda x:50*torch.tanh(x/50), randn(2048, 2048))
add("topk_gate", lambda x:(lambda v, i:(torch.softmax(v, -1), i))(*torch.topk(x, 2, -1)), randn(8192, 64))
add("moe_onehot", lambda x:F.one_hot(x.argmax(-1), 64).cumsum(0), randn(8192, 64))
add("sampling", lambda x:torch.softmax(x/0.7, -1).cumsum(-1), randn(16, 32000))
add("kth_mask", lambda x:torch.where(x<torch.topk(x, 50, -1)[0][..., -1:], float("-inf"), x), randn(16, 32000))
add("label_smooth", lambda x, t:F.cross_entropy(x, t, label_smoothing=0.1), randn(2048, 1000), ints(1000, 2048))
add("focal",
    lambda x, y:(lambda p:(-(1-p)**2*torch.log(p)).mean())(torch.where(y>0.5, torch.sigmoid(x), 1-torch.sigmoid(x))), randn(1024, 1024), torch.rand(1024, 1024))
add("triplet", lambda a, p, n:F.triplet_margin_loss(a, p, n), randn(4096, 256), randn(4096, 256), randn(4096, 256))
add("iou",
    lambda a, b:(lambda lt, rb:(lambda wh:wh[..., 0]*wh[..., 1])((rb-lt).clamp(min=0)))(torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])), torch.rand(1000, 4), torch.rand(1000, 4))
add("cxcywh",
    lambda b:torch.stack([b[:, 0]-b[:, 2]/2, b[:, 1]-b[:, 3]/2, b[:, 0]+b[:, 2]/2, b[:, 1]+b[:, 3]/2], 1), torch.rand(100000, 4))
add("anchor_decode",
    lambda p:torch.cat([(p[..., :2].sigmoid()*2-0.5), (p[..., 2:4].sigmoid()*2)**2, p[..., 4:].sigmoid()], -1), randn(2, 3, 80, 80, 85))
add("col_mean_std", lambda x:torch.stack([x.mean(0), x.std(0)]), randn(8192, 512))
add("cov", lambda x:(lambda c:c.t()@c/(x.shape[0]-1))(x-x.mean(0)), randn(4096, 256))
add("gram", lambda x:(lambda f:torch.bmm(f, f.transpose(1, 2)))(x.view(8, 64, -1)), randn(8, 64, 56, 56))
add("diff", lambda x:x[:, 1:]-x[:, :-1], randn(2048, 2048))
add("movavg", lambda x:x.unfold(1, 5, 1).mean(-1), randn(1024, 2048))
add("conv_sobel",
    lambda x:x[..., 2:, 1:-1]-x[..., :-2, 1:-1]+x[..., 1:-1, 2:]-x[..., 1:-1, :-2], randn(8, 16, 258, 258))
add("tv_loss",
    lambda x:(x[..., 1:, :]-x[..., :-1, :]).abs().mean()+(x[..., :, 1:]-x[..., :, :-1]).abs().mean(), randn(8, 16, 256, 256))
add("outer_sum", lambda a, b:(a[:, :, None]+b[:, None, :]).tanh(), randn(16, 512), randn(16, 512))
add("bias_relu_mask", lambda x, b, m:F.relu(x+b)*m, randn(4096, 1024), randn(1024), (torch.rand(4096, 1024)>.5).float())
add("mask_mean",
    lambda x, m:(x*m[..., None]).sum(1)/m.sum(1, keepdim=True).clamp(min=1), randn(64, 128, 256), (torch.rand(64, 128)>.3).float())
add("last_token", lambda x, i:x[torch.arange(64), i], randn(64, 128, 256), ints(128, 64))
add("gather_dim1",
    lambda x, i:x.gather(1, i[..., None].expand(-1, -1, 256)), randn(64, 128, 256), ints(128, 64, 32))
add("cols", lambda x, i:x[:, i], randn(2048, 1024), ints(1024, 512))
add("take_along", lambda x, i:torch.take_along_dim(x, i, 1), randn(2048, 256), ints(256, 2048, 64))
add("scatter_rows",
    lambda x, i, v:x.index_copy(0, i, v), randn(4096, 256), torch.randperm(4096)[:1024], randn(1024, 256))
add("segment_mean",
    lambda x, i:torch.zeros(256, 64).index_add(0, i, x)/torch.zeros(256).index_add(0, i, torch.ones(8192)).clamp(min=1)[:, None], randn(8192, 64), ints(256, 8192))
add("scatter_reduce",
    lambda x, i:torch.zeros(256, 64).scatter_reduce(0, i[:, None].expand(-1, 64), x, "amax", include_self=False), randn(8192, 64), ints(256, 8192))
add("bucketize", lambda x:torch.bucketize(x, torch.linspace(-3, 3, 64)), randn(1024, 1024))
add("histc", lambda x:torch.histc(x, 64, -3., 3.), randn(1024, 1024))
add("clip_norm", lambda x:x*(1.0/(x.norm()+1e-6)).clamp(max=1), randn(2048, 2048))
add("adam",
    lambda p, g, m, v:(lambda m2, v2:(p-1e-3*m2/(v2.sqrt()+1e-8), m2, v2))(m*.9+g*.1, v*.999+g*g*.001), randn(2048, 1024), randn(2048, 1024), randn(2048, 1024), randn(2048, 1024).abs())
add("sgd", lambda p, g, m:(lambda m2:(p-.01*m2, m2))(m*.9+g), randn(2048, 1024), randn(2048, 1024), randn(2048, 1024))
add("ema", lambda a, b:torch.lerp(a, b, .01), randn(2048, 2048), randn(2048, 2048))
add("xyz_rot", lambda q, v:torch.cross(q, v, dim=-1)*2+v, randn(200000, 3), randn(200000, 3))
add("quat",
    lambda a, b:torch.stack([a[:, 0]*b[:, 0]-a[:, 1]*b[:, 1], a[:, 0]*b[:, 1]+a[:, 1]*b[:, 0], a[:, 2]*b[:, 2], a[:, 3]*b[:, 3]], -1), randn(200000, 4), randn(200000, 4))
add("mat3vec", lambda m, v:(m@v[..., None])[..., 0], randn(100000, 3, 3), randn(100000, 3))
add("bmm4", lambda a, b:a@b, randn(50000, 4, 4), randn(50000, 4, 4))
add("linear_3d", lambda x, a, b:F.linear(x, a, b), randn(16, 128, 256), randn(512, 256)*.06, randn(512))
add("mlp_small",
    lambda x, a, b:F.relu(F.linear(F.relu(F.linear(x, a)), b)), randn(64, 32), randn(64, 32)*.1, randn(10, 64)*.1)
add("attn_block",
    lambda x, a, b:(lambda q, k, v:F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(4, 128, 256), b))(*[t.view(4, 128, 4, 64).transpose(1, 2) for t in F.linear(x, a).chunk(3, -1)]), randn(4, 128, 256), randn(768, 256)*.06, randn(256, 256)*.06)
add("gru_cell",
    lambda x, h, a, b:(lambda gi, gh:(lambda rr, z, n:(1-z)*n+z*h)(torch.sigmoid(gi[:, :256]+gh[:, :256]), torch.sigmoid(gi[:, 256:512]+gh[:, 256:512]), torch.tanh(gi[:, 512:]+torch.sigmoid(gi[:, :256]+gh[:, :256])*gh[:, 512:])))(F.linear(x, a), F.linear(h, b)), randn(64, 256), randn(64, 256), randn(768, 256)*.06, randn(768, 256)*.06)
add("int8_dq_mm",
    lambda x, wq, s:x@(wq.float()*s).t(), randn(64, 512), torch.randint(-127, 127, (512, 512)).to(torch.int8), randn(512, 1).abs()*.01)
add("bf16_mlp",
    lambda x, a, b:F.linear(F.gelu(F.linear(x, a)), b), randn(128, 512).bfloat16(), (randn(1024, 512)*.05).bfloat16(), (randn(512, 1024)*.05).bfloat16())
add("f16_linear", lambda x, a:F.linear(x, a), randn(128, 512).half(), (randn(512, 512)*.05).half())
add("sum_mid", lambda x:x.sum(1), randn(256, 64, 256))
add("amax_all_dims", lambda x:x.abs().amax((1, 2)), randn(64, 256, 256))
add("var_all", lambda x:x.var(), randn(2048, 2048))
add("argmin_mid", lambda x:x.argmin(1), randn(64, 128, 256))
add("logcumsum", lambda x:torch.log(torch.exp(x).cumsum(-1)), randn(1024, 1024))
add("softmax_dim0", lambda x:x.softmax(0), randn(1024, 1024))
add("logsoftmax_mid", lambda x:x.log_softmax(1), randn(16, 21, 128, 128))
add("argmax_mid", lambda x:x.argmax(1), randn(16, 21, 128, 128))
add("ce_2d", lambda x, t:F.cross_entropy(x, t), randn(8, 21, 128, 128), ints(21, 8, 128, 128))
add("bn1d",
    lambda x, m, v, a, b:F.batch_norm(x, m, v, a, b), randn(4096, 512), randn(512), randn(512).abs(), randn(512), randn(512))
add("ln_channels",
    lambda x, a, b:F.layer_norm(x.permute(0, 2, 3, 1), (96, ), a, b).permute(0, 3, 1, 2)+0, randn(8, 96, 56, 56), randn(96), randn(96))
add("pad_circ", lambda x:F.pad(x, (2, 2, 2, 2), mode="circular"), randn(8, 16, 128, 128))
add("pad_repl", lambda x:F.pad(x, (2, 2, 2, 2), mode="replicate"), randn(8, 16, 128, 128))
add("blur3", lambda x:F.conv2d(x, torch.ones(16, 1, 3, 3)/9, groups=16, padding=1), randn(4, 16, 128, 128))
add("down_area", lambda x:F.interpolate(x, scale_factor=.5, mode="area"), randn(8, 16, 128, 128))
add("up_nearest_odd", lambda x:F.interpolate(x, size=(100, 100)), randn(8, 16, 64, 64))
add("up_bil_to", lambda x:F.interpolate(x, size=(100, 100), mode="bilinear"), randn(8, 16, 64, 64))
add("maxpool2", lambda x:F.max_pool2d(x, 2), randn(8, 64, 112, 112))
add("maxpool1d", lambda x:F.max_pool1d(x, 2), randn(8, 64, 4096))
add("avgpool3s1", lambda x:F.avg_pool2d(x, 3, 1, 1), randn(8, 32, 56, 56))
add("gap", lambda x:F.adaptive_avg_pool2d(x, 1).flatten(1), randn(32, 256, 14, 14))
add("maxpool_g", lambda x:F.adaptive_max_pool2d(x, 1).flatten(1), randn(32, 256, 14, 14))
add("lppool", lambda x:F.avg_pool2d(x*x, 2).sqrt(), randn(8, 32, 64, 64))
add("spectral", lambda x:(x[..., None]*torch.arange(1, 17)).sin().sum(-1), randn(256, 256))
add("posenc",
    lambda x:torch.cat([f(x[..., None]*2.0**torch.arange(10)).flatten(-2) for f in (torch.sin, torch.cos)], -1), torch.rand(20000, 3))
add("rand_mask_apply", lambda x, m:x.masked_fill(m, 0)*1.1, randn(2048, 1024), torch.rand(2048, 1024)>.9)
add("clamp_both", lambda x, a, b:torch.clamp(x, a, b), randn(2048, 1024), randn(1024), randn(1024)+2)
add("isfinite_all", lambda x:torch.isfinite(x).all(), randn(2048, 2048))
add("count_pos", lambda x:(x>0).sum(-1), randn(2048, 2048))
add("eq_acc", lambda x, t:(x.argmax(-1)==t).float().mean(), randn(8192, 100), ints(100, 8192))
add("hsv",
    lambda x:(lambda mx, mn:torch.stack([mx, (mx-mn)/(mx+1e-6)], 1))(x.amax(1), x.amin(1)), torch.rand(8, 3, 256, 256))
add("rgb2gray", lambda x:(x*torch.tensor([.299, .587, .114])[:, None, None]).sum(1), torch.rand(8, 3, 256, 256))
add("hwc_gray",
    lambda x:(x.float()*torch.tensor([.299, .587, .114])).sum(-1), ints(256, 8, 256, 256, 3).to(torch.uint8))
add("chw_to_hwc_u8",
    lambda x:(x.clamp(0, 1)*255).to(torch.uint8).permute(0, 2, 3, 1).contiguous(), torch.rand(8, 3, 256, 256))
add("transpose_small", lambda x:x.transpose(1, 2).contiguous(), randn(4096, 16, 16))
add("permute_4d", lambda x:x.permute(3, 1, 2, 0).contiguous(), randn(32, 16, 32, 64))
add("flatten_t", lambda x:x.flatten(2).transpose(1, 2).contiguous(), randn(8, 96, 56, 56))
add("concat_many", lambda x:torch.cat([x[:, i:i+8]*(i+1) for i in range(0, 64, 8)], 1), randn(4096, 64))
add("stack4", lambda a, b:torch.stack([a, b, a+b, a-b], 1), randn(1024, 512), randn(1024, 512))
add("tile_bcast", lambda x:x.tile(1, 3)+1, randn(2048, 512))
add("expand_mul", lambda a, b:a.expand(64, -1, -1)*b, randn(1, 256, 256), randn(64, 256, 256))
add("nan_where", lambda x:torch.where(torch.isnan(x), torch.zeros(()), x), randn(2048, 2048))
add("sign_sqrt", lambda x:torch.sign(x)*x.abs().sqrt(), randn(2048, 2048))
add("div_round", lambda x:torch.div(x, .3, rounding_mode="floor"), randn(1024, 1024))
add("int_div", lambda x:torch.div(x, 7, rounding_mode="floor"), ints(1000, 1024, 1024))
add("mod_hash", lambda x:(x*2654435761)%1024, ints(1<<30, 1024, 1024))
add("asinh", lambda x:torch.asinh(x), randn(1024, 1024))
add("acos", lambda x:torch.acos(x.tanh()), randn(1024, 1024))
add("tan", lambda x:torch.tan(x), randn(1024, 1024))
add("log10p", lambda x:torch.log10(x.abs()+1), randn(1024, 1024))
add("exp2", lambda x:torch.exp2(x), randn(2048, 1024))
add("cbrt", lambda x:x.abs()**(1/3), randn(1024, 1024))
add("hypot", lambda x, y:torch.hypot(x, y), randn(1024, 1024), randn(1024, 1024))
add("complex_exp", lambda x:torch.exp(x), torch.complex(randn(512, 512), randn(512, 512)))
add("view_complex", lambda x:torch.view_as_real(torch.view_as_complex(x)*2), randn(512, 512, 2))
add("rope_complex",
    lambda x, f:torch.view_as_real(torch.view_as_complex(x.view(8, 512, 16, 32, 2))*f[None, :, None]).flatten(3), randn(8, 512, 16, 64), torch.complex(randn(512, 32), randn(512, 32)))


def module_of(f, n):
    """A module whose forward has n arguments by name: export names them."""
    names = ", ".join(f"a{i}" for i in range(n))
    scope = {"f": f}
    exec(f"def forward(self, {names}): return f({names})", scope)
    return type("Pattern", (torch.nn.Module,), {"forward": scope["forward"]})()


def milliseconds(f):
    f()
    times = []
    while len(times) < 3 or (sum(times) < 0.1 and len(times) < 50):
        start = time.process_time()
        f()
        times.append(time.process_time() - start)
    return round(min(times) * 1e3, 4)


def bytes_of(t):
    return t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def run_command(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-300:])
    return done.stdout


def as_reals(t):
    return torch.view_as_real(t).double() if t.is_complex() else t.double()


def difference(got, want):
    """The largest, relative where values are large; None: none beyond rounding."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}"
    a, b = as_reals(got), as_reals(want)
    other = ~((a == b) | (a.isnan() & b.isnan()))
    worst = ((a - b).abs() / (1 + b.abs()))[other]
    worst = worst.max().item() if worst.numel() else 0.0
    limit = 2e-2 if want.dtype in (torch.bfloat16, torch.float16) else 2e-4
    return None if worst <= limit else worst


def measure(name, options, folder):
    f, args = PATTERNS[name]
    row = {"name": name}
    path = os.path.join(folder, name)
    program = torch.export.export(module_of(f, len(args)), args, strict=False)
    torch.export.save(program, path + ".pt2")
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    write_safetensors(path + ".in.safetensors", {n: (CODES[t.dtype], tuple(t.shape), bytes_of(t)) for n, t in zip(names, args)}, {})
    smelt = os.path.join(options.bin, "tools/smelt")
    run_command(smelt, "compile", path + ".pt2", "-o", path + ".smb")
    words = run_command(os.path.join(options.bin, "bench/run_bundle"), path + ".smb", path + ".in.safetensors").split()
    row.update(smelt=float(words[0]), launches=int(words[1]), library_calls=int(words[2]))
    row["eager"] = milliseconds(lambda: f(*args))
    if options.inductor:
        compiled = torch.compile(f)
        row["inductor"] = milliseconds(lambda: compiled(*args))
    run_command(smelt, "run", path + ".smb", f"--inputs={path}.in.safetensors", f"--outputs={path}.out.safetensors")
    stored, _ = read_safetensors(path + ".out.safetensors")
    want = f(*args)
    for spec, w in zip(program.graph_signature.output_specs, want if isinstance(want, (tuple, list)) else [want]):
        code, sizes, data = stored[spec.arg.name]
        differs = difference(torch.frombuffer(bytearray(data), dtype=DTYPES[code]).reshape(sizes), w)
        if differs is not None:
            row["differs"] = differs
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="bazel-bin")
    parser.add_argument("--only", default="")
    parser.add_argument("--inductor", action="store_true")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(PATTERNS)
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            try:
                row = measure(name, options, folder)
            except Exception as e:
                row = {"name": name, "error": str(e)[:300]}
            print(json.dumps(row), flush=True)


main()
