"""Little models of a few operators each, as they stand in real ones: PATTERNS[name] is a function and its arguments."""
import functools
import math

import torch
import torch.nn.functional as F
from torch import randn

torch.set_grad_enabled(False)
torch.manual_seed(0)
PATTERNS = {}


def add(name, f, *args):
    assert name not in PATTERNS, name
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

LEVELS = [(32, 32), (16, 16), (8, 8), (4, 4)]


# The sampling of deformable attention (Deformable DETR), from four levels of an image.
def msda(value, sampling_locations, attention_weights):
    N, S, M, D = value.shape
    _, Lq, _, L, P, _ = sampling_locations.shape
    vl = value.split([h*w for h, w in LEVELS], dim=1)
    grids = 2*sampling_locations-1
    out = []
    for l, (H, W) in enumerate(LEVELS):
        v = vl[l].flatten(2).transpose(1, 2).reshape(N*M, D, H, W)
        g = grids[:, :, :, l].transpose(1, 2).flatten(0, 1)
        out.append(F.grid_sample(v, g, mode="bilinear", padding_mode="zeros", align_corners=False))
    aw = attention_weights.transpose(1, 2).reshape(N*M, 1, Lq, L*P)
    o = (torch.stack(out, dim=-2).flatten(-2)*aw).sum(-1).view(N, M*D, Lq)
    return o.transpose(1, 2).contiguous()


def msda_layer(q, ref, x, wv, bv, wo, bo, wa, ba, wp, bp):
    N, S, C = x.shape
    Lq = q.shape[1]
    M = 8
    L = 4
    P = 4
    v = F.linear(x, wv, bv).view(N, S, M, C//M)
    off = F.linear(q, wo, bo).view(N, Lq, M, L, P, 2)
    aw = F.softmax(F.linear(q, wa, ba).view(N, Lq, M, L*P), -1).view(N, Lq, M, L, P)
    norm = torch.tensor([[w, h] for h, w in LEVELS], dtype=torch.float32)
    loc = ref[:, :, None, :, None, :]+off/norm[None, None, None, :, None, :]
    return F.linear(msda(v, loc, aw), wp, bp)



add("msda", lambda v, l, a: msda(v, l, a), randn(2, 1360, 8, 32), torch.rand(2, 1360, 8, 4, 4, 2), torch.rand(2, 1360, 8, 4, 4))
add("msda_layer", msda_layer, randn(2, 300, 256), torch.rand(2, 300, 4, 2), randn(2, 1360, 256),
    randn(256, 256)*.06, randn(256),
    randn(256, 256)*.06, randn(256),
    randn(128, 256)*.06, randn(128),
    randn(256, 256)*.06, randn(256))
add("gs3", lambda x, g: F.grid_sample(x, g, align_corners=False), randn(4, 3, 128, 128), torch.rand(4, 128, 128, 2)*2-1)
add("gs64", lambda x, g: F.grid_sample(x, g, align_corners=False), randn(4, 64, 64, 64), torch.rand(4, 64, 64, 2)*2-1)
add("gs_border", lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=False), randn(4, 3, 128, 128),
    torch.rand(4, 128, 128, 2)*2.2-1.1)
add("gs_reflect", lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=False), randn(4, 3, 128, 128),
    torch.rand(4, 128, 128, 2)*2.2-1.1)
add("gs_nearest", lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False), randn(4, 16, 128, 128), torch.rand(4, 128, 128, 2)*2-1)
add("gs_bicubic", lambda x, g: F.grid_sample(x, g, mode="bicubic", align_corners=False), randn(4, 3, 64, 64), torch.rand(4, 64, 64, 2)*2-1)
add("gs_3d", lambda x, g: F.grid_sample(x, g, align_corners=False), randn(2, 4, 16, 32, 32), torch.rand(2, 16, 32, 32, 3)*2-1)
add("stn", lambda x, t: F.grid_sample(x, F.affine_grid(t, [4, 3, 128, 128], align_corners=False), align_corners=False), randn(4, 3, 128, 128),
    torch.eye(2, 3)[None]+randn(4, 2, 3)*.05)


def warp(x, flow):
    B, C, H, W = x.shape
    gy, gx = torch.meshgrid(torch.arange(H), torch.arange(W), indexing="ij")
    v = torch.stack([gx, gy], 0).float()[None]+flow
    vx = 2*v[:, 0]/(W-1)-1
    vy = 2*v[:, 1]/(H-1)-1
    return F.grid_sample(x, torch.stack([vx, vy], -1), align_corners=True, padding_mode="border")


add("flow_warp", warp, randn(2, 32, 96, 128), randn(2, 2, 96, 128)*4)
add("up_bicubic", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), randn(4, 16, 64, 64))
add("up_bicubic3", lambda x: F.interpolate(x, size=(224, 224), mode="bicubic"), torch.rand(4, 3, 160, 160))
add("up_bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), randn(4, 16, 64, 64))
add("up_trilinear", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), randn(2, 8, 16, 32, 32))


def ssim(x, y, w):
    mu1 = F.conv2d(x, w, padding=5, groups=3)
    mu2 = F.conv2d(y, w, padding=5, groups=3)
    s1 = F.conv2d(x*x, w, padding=5, groups=3)-mu1*mu1
    s2 = F.conv2d(y*y, w, padding=5, groups=3)-mu2*mu2
    s12 = F.conv2d(x*y, w, padding=5, groups=3)-mu1*mu2
    return (((2*mu1*mu2+1e-4)*(2*s12+9e-4))/((mu1*mu1+mu2*mu2+1e-4)*(s1+s2+9e-4))).mean()


add("ssim", ssim, torch.rand(4, 3, 128, 128), torch.rand(4, 3, 128, 128), torch.rand(3, 1, 11, 11)/121)
add("dw_f64", lambda x, w: F.conv2d(x, w, padding=1, groups=64), randn(2, 64, 56, 56).double(), randn(64, 1, 3, 3).double())
add("dw_f64_s2", lambda x, w: F.conv2d(x, w, padding=1, stride=2, groups=64), randn(2, 64, 56, 56).double(), randn(64, 1, 3, 3).double())
add("conv_f64", lambda x, w: F.conv2d(x, w, padding=1), randn(2, 32, 28, 28).double(), randn(32, 32, 3, 3).double())
add("pw_f64", lambda x, w: F.conv2d(x, w), randn(2, 64, 28, 28).double(), randn(128, 64, 1, 1).double())
add("rfft_pow2", lambda x: torch.view_as_real(torch.fft.rfft(x)), randn(1024, 1024))
add("stft", lambda x: torch.stft(x, 512, 160, window=torch.hann_window(512), return_complex=True).abs(), randn(4, 16000))
add("bf16_lin_t", lambda x, a: F.linear(x.transpose(1, 2), a), randn(8, 256, 128).bfloat16(), (randn(512, 256)*.06).bfloat16())
add("bf16_mm", lambda x, a: x@a, randn(256, 512).bfloat16(), (randn(512, 512)*.06).bfloat16())
add("adaptive7", lambda x: F.adaptive_avg_pool2d(x, 7), randn(8, 128, 20, 20))
add("adaptive5", lambda x: F.adaptive_avg_pool2d(x, (5, 3)), randn(8, 128, 28, 28))
add("adaptive_max5", lambda x: F.adaptive_max_pool2d(x, 5), randn(8, 128, 28, 28))
add(
    "sliding_attn", lambda q, k, v:
    (lambda s: torch.softmax(s.masked_fill(
        (torch.arange(256)[None, :]-torch.arange(256)[:, None]).abs() > 32, float("-inf")), -1)@v)(q@k.transpose(-1, -2)*.125), randn(2, 4, 256, 64),
    randn(2, 4, 256, 64), randn(2, 4, 256, 64))
add("linear_attn", lambda q, k, v: (lambda fq, fk: (fq@(fk.transpose(-1, -2)@v))/((fq*fk.sum(-2, keepdim=True)).sum(-1, keepdim=True)+1e-6))
    (F.elu(q)+1, F.elu(k)+1), randn(4, 8, 256, 64), randn(4, 8, 256, 64), randn(4, 8, 256, 64))


def rel_shift(q, k, r):
    s = q@k.transpose(-1, -2)
    p = q@r.transpose(-1, -2)
    B, H, T, _ = p.shape
    p = F.pad(p, (1, 0)).view(B, H, -1, T)[:, :, 1:].view(B, H, T, -1)[..., :T]
    return torch.softmax((s+p)*.125, -1)


add("relpos_attn", rel_shift, randn(2, 4, 128, 64), randn(2, 4, 128, 64), randn(1, 4, 255, 64))
add(
    "t5_bias", lambda s, e: (lambda rel: torch.softmax(s+e[rel.clamp(-31, 31)+31].permute(2, 0, 1)[None], -1))
    (torch.arange(128)[None, :]-torch.arange(128)[:, None]), randn(4, 8, 128, 128), randn(63, 8))
add("causal_sdpa", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), randn(2, 8, 256, 64), randn(2, 8, 256, 64),
    randn(2, 8, 256, 64))
add("gqa_sdpa", lambda q, k, v: F.scaled_dot_product_attention(q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)), randn(1, 16, 256, 64),
    randn(1, 4, 256, 64), randn(1, 4, 256, 64))
add("kv_decode", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), randn(4, 8, 1, 64), randn(4, 8, 1024, 64),
    randn(4, 8, 1024, 64), torch.zeros(4, 1, 1, 1024))


def mha_window(x, w, b, bias):
    B = x.shape[0]
    q, k, v = F.linear(x, w, b).view(B, 49, 3, 4, 32).permute(2, 0, 3, 1, 4)
    return (torch.softmax(q@k.transpose(-1, -2)*.17+bias, -1)@v).transpose(1, 2).reshape(B, 49, 128)


add("swin_attn", mha_window, randn(64, 49, 128), randn(384, 128)*.06, randn(384), randn(4, 49, 49))


def moe(x, wg, w1, w2):
    p = torch.softmax(x@wg, -1)
    v, i = p.topk(2, -1)
    v = v/v.sum(-1, keepdim=True)
    g = torch.zeros_like(p).scatter(1, i, v)
    h = F.silu(torch.einsum("td,edh->eth", x, w1))
    y = torch.einsum("eth,ehd->etd", h, w2)
    return (y*g.t()[..., None]).sum(0)


add("moe_dense", moe, randn(128, 64), randn(64, 4), randn(4, 64, 128)*.1, randn(4, 128, 64)*.1)


def moe_gather(x, wg, w1, w2):
    p = torch.softmax(x@wg, -1)
    v, i = p.topk(1, -1)
    return torch.bmm(F.gelu(torch.bmm(x[:, None], w1[i[:, 0]])), w2[i[:, 0]])[:, 0]*v


add("moe_gather", moe_gather, randn(32, 64), randn(64, 4), randn(4, 64, 128)*.1, randn(4, 128, 64)*.1)


def expert_capacity(x):
    i = x.argmax(-1)
    oh = F.one_hot(i, 16)
    pos = (oh.cumsum(0)-1)*oh
    keep = (pos < 40)&(oh > 0)
    return torch.einsum("te,te->t", pos.float(), oh.float()), keep.sum(0), (F.softmax(x, -1).mean(0)*oh.float().mean(0)).sum()*16


add("moe_capacity", expert_capacity, randn(512, 16))


def resblock(x, t, g1, b1, w1, wt, g2, b2, w2):
    h = F.conv2d(F.silu(F.group_norm(x, 8, g1, b1)), w1, padding=1)+F.linear(F.silu(t), wt)[:, :, None, None]
    return x+F.conv2d(F.silu(F.group_norm(h, 8, g2, b2)), w2, padding=1)


add("unet_res", resblock, randn(2, 64, 32, 32), randn(2, 128), randn(64), randn(64),
    randn(64, 64, 3, 3)*.04,
    randn(64, 128)*.1, randn(64), randn(64),
    randn(64, 64, 3, 3)*.04)
add("timestep", lambda t: (lambda a: torch.cat([a.cos(), a.sin()], -1))(t[:, None].float()*torch.exp(-9.21*torch.arange(160)/160)), ints(1000, 64))
add("ddim", lambda x, e, a, b: (lambda x0: b.sqrt()*x0.clamp(-1, 1)+(1-b).sqrt()*e)((x-(1-a).sqrt()*e)/a.sqrt()), randn(4, 4, 64, 64),
    randn(4, 4, 64, 64), torch.rand(4, 1, 1, 1), torch.rand(4, 1, 1, 1))
add("q_sample", lambda x, n, t, ac: ac[t].sqrt()[:, None, None, None]*x+(1-ac[t]).sqrt()[:, None, None, None]*n, randn(16, 3, 64, 64),
    randn(16, 3, 64, 64), ints(1000, 16), torch.rand(1000))
add("adaln", lambda x, c, w, b: (lambda s, k: F.layer_norm(x, (256,))*(1+k[:, None])+s[:, None])(*F.linear(F.silu(c), w, b).chunk(2, -1)),
    randn(4, 256, 256), randn(4, 256),
    randn(512, 256)*.06, randn(512))
add("geglu", lambda x, w: (lambda a, g: a*F.gelu(g))(*F.linear(x, w).chunk(2, -1)), randn(512, 256), randn(2048, 256)*.06)


def gru(x, h, wi, wh):
    out = []
    for t in range(16):
        gi = F.linear(x[:, t], wi)
        gh = F.linear(h, wh)
        ir, iz, i_n = gi.chunk(3, -1)
        hr, hz, hn = gh.chunk(3, -1)
        r = torch.sigmoid(ir+hr)
        z = torch.sigmoid(iz+hz)
        n = torch.tanh(i_n+r*hn)
        h = (1-z)*n+z*h
        out.append(h)
    return torch.stack(out, 1)


add("gru16", gru, randn(16, 16, 64), randn(16, 64), randn(192, 64)*.1, randn(192, 64)*.1)


def convlstm(x, h, c, w):
    for t in range(4):
        i, f, o, g = F.conv2d(torch.cat([x[:, t], h], 1), w, padding=1).chunk(4, 1)
        c = torch.sigmoid(f)*c+torch.sigmoid(i)*torch.tanh(g)
        h = torch.sigmoid(o)*torch.tanh(c)
    return h, c


add("convlstm", convlstm, randn(2, 4, 8, 32, 32), randn(2, 16, 32, 32), randn(2, 16, 32, 32), randn(64, 24, 3, 3)*.1)


def ssm(x, a, b, c):
    h = torch.zeros(4, 64, 8)
    ys = []
    for t in range(16):
        h = a*h+b[:, t, None, :]*x[:, t, :, None]
        ys.append((h*c[:, t, None, :]).sum(-1))
    return torch.stack(ys, 1)


add("ssm16", ssm, randn(4, 16, 64), torch.rand(64, 8), randn(4, 16, 8), randn(4, 16, 8))
add("rwkv_shift", lambda x, m: x*m+F.pad(x, (0, 0, 1, -1))*(1-m), randn(8, 256, 512), torch.rand(512))


def nerf_render(sig, rgb, d):
    a = 1-torch.exp(-F.relu(sig)*d)
    T = torch.cumprod(torch.cat([torch.ones(4096, 1), 1-a+1e-10], -1), -1)[:, :-1]
    w = a*T
    return (w[..., None]*rgb).sum(1), (w*d.cumsum(-1)).sum(-1), w


add("nerf_render", nerf_render, randn(4096, 64), torch.rand(4096, 64, 3), torch.rand(4096, 64))


def sample_pdf(bins, w, u):
    pdf = (w+1e-5)/(w+1e-5).sum(-1, keepdim=True)
    cdf = torch.cat([torch.zeros(1024, 1), pdf.cumsum(-1)], -1)
    i = torch.searchsorted(cdf, u, right=True)
    lo = (i-1).clamp(min=0)
    hi = i.clamp(max=63)
    c0 = cdf.gather(1, lo)
    c1 = cdf.gather(1, hi)
    b0 = bins.gather(1, lo)
    b1 = bins.gather(1, hi)
    den = torch.where(c1-c0 < 1e-5, torch.ones_like(c1), c1-c0)
    return b0+(u-c0)/den*(b1-b0)


add("nerf_pdf", sample_pdf, torch.rand(1024, 64).sort(-1)[0], torch.rand(1024, 63), torch.rand(1024, 128))


def hashgrid(x, table):
    out = []
    for l, res in enumerate((16, 32, 64, 128)):
        p = x*res
        f = p.floor()
        w = p-f
        i = f.long()
        acc = 0
        for c in range(8):
            o = torch.tensor([c&1, c >> 1&1, c >> 2&1])
            q = i+o
            h = (q[:, 0]^(q[:, 1]*2654435761)^(q[:, 2]*805459861)) % 16384
            ww = torch.where(o.bool(), w, 1-w).prod(-1, keepdim=True)
            acc = acc+ww*table[l][h]
        out.append(acc)
    return torch.cat(out, -1)


add("hashgrid", hashgrid, torch.rand(8192, 3), randn(4, 16384, 2))
add("rays", lambda d, c: (lambda r: r/r.norm(dim=-1, keepdim=True))((d[:, None, :]*c[None, :3, :3]).sum(-1)), randn(100000, 3), randn(4, 4))


def gcn(x, ei, w):
    s, d = ei[0], ei[1]
    deg = torch.zeros(2000).index_add(0, d, torch.ones(20000)).clamp(min=1).rsqrt()
    h = x@w
    return torch.zeros(2000, 64).index_add(0, d, h[s]*(deg[s]*deg[d])[:, None])


add("gcn", gcn, randn(2000, 64), ints(2000, 2, 20000), randn(64, 64))


def gat(h, ei, a1, a2):
    s, d = ei[0], ei[1]
    e = F.leaky_relu((h@a1)[s]+(h@a2)[d], .2)
    m = torch.full((2000,), -1e9).scatter_reduce(0, d, e, "amax")
    p = torch.exp(e-m[d])
    z = torch.zeros(2000).scatter_add(0, d, p)
    return torch.zeros(2000, 64).index_add(0, d, h[s]*(p/(z[d]+1e-9))[:, None])


add("gat", gat, randn(2000, 64), ints(2000, 2, 20000), randn(64), randn(64))
add("pool_graph", lambda x, b: torch.zeros(32, 64).scatter_reduce(0, b[:, None].expand(-1, 64), x, "mean", include_self=False), randn(4000, 64),
    ints(32, 4000))


def edgeconv(x, i):  # knn features
    n = x[i]
    return torch.cat([x[:, None].expand_as(n), n-x[:, None]], -1).amax(1)


add("edgeconv", edgeconv, randn(1024, 64), ints(1024, 1024, 16))
add("knn", lambda x, y: tuple(torch.cdist(x, y).topk(8, largest=False)), randn(512, 3), randn(512, 3))
add("emb_bag", lambda i, o, w: F.embedding_bag(i, w, o, mode="mean"), ints(10000, 4096), torch.arange(0, 4096, 8), randn(10000, 64))
add("emb_bag2d", lambda i, w: F.embedding_bag(i, w, mode="sum"), ints(10000, 512, 16), randn(10000, 64))
add("emb_pos_ln", lambda i, w, p: F.layer_norm(w[i]+p[None], (256,)), ints(5000, 8, 128), randn(5000, 256), randn(128, 256))


def beam(lp, sc):
    B, K, V = lp.shape
    t = (F.log_softmax(lp, -1)+sc[..., None]).view(B, -1)
    s, i = t.topk(K, -1)
    return s, i//V, i % V


add("beam", beam, randn(4, 5, 8000), randn(4, 5))
add(
    "top_p", lambda x:
    (lambda v, i: torch.full_like(x, float("-inf")).scatter(1, i, torch.where(v.softmax(-1).cumsum(-1)-v.softmax(-1) > .9, float("-inf"), v)))
    (*x.sort(-1, descending=True)), randn(8, 8000))
add("rep_penalty", lambda x, t: x.scatter(1, t, (lambda g: torch.where(g < 0, g*1.2, g/1.2))(x.gather(1, t))), randn(8, 32000), ints(32000, 8, 256))
add("gumbel", lambda x, u: (x-torch.log(-torch.log(u+1e-10)+1e-10)).argmax(-1), randn(64, 8000), torch.rand(64, 8000))
add("fake_quant", lambda x: torch.fake_quantize_per_tensor_affine(x, .05, 3, -128, 127), randn(1024, 1024))
add("q_rowwise", lambda x: (lambda s: ((x/s).round().clamp(-127, 127).to(torch.int8), s))(x.abs().amax(-1, keepdim=True)/127), randn(1024, 1024))
add("dq_int4", lambda q, s: torch.stack([(q&15).to(torch.int8)-8, (q >> 4).to(torch.int8)-8], -1).flatten(-2).float().view(1024, -1, 32)*s[..., None],
    ints(256, 1024, 512).to(torch.uint8), torch.rand(1024, 32))
add("q_linear_dyn", lambda x, w, s: (lambda sx: (torch.matmul((x/sx).round(),
                                                              w.float().t()))*sx*s)(x.abs().amax(-1, keepdim=True)/127), randn(64, 512),
    torch.randint(-127, 127, (512, 512)).to(torch.int8), torch.rand(512))
add("vq", lambda x, e: (lambda i: (e[i], i))(((x**2).sum(-1, keepdim=True)-2*x@e.t()+(e**2).sum(-1)).argmin(-1)), randn(4096, 32), randn(256, 32))
add("lfq_bits", lambda x: ((x > 0).long()*(2**torch.arange(16))).sum(-1), randn(20000, 16))
add("gn_odd", lambda x, a, b: F.group_norm(x, 5, a, b), randn(4, 35, 17, 23), randn(35), randn(35))
add("in3d", lambda x: F.instance_norm(x), randn(2, 7, 9, 11, 13))
add("ln_odd", lambda x: F.layer_norm(x, (37,)), randn(3000, 37))
add("ln_2d", lambda x: F.layer_norm(x, (13, 17)), randn(300, 13, 17))
add("bn_train", lambda x: F.batch_norm(x, None, None, training=True), randn(16, 33, 15, 15))
add("rms_heads", lambda x, g: x*torch.rsqrt((x*x).mean(-1, keepdim=True)+1e-6)*g, randn(4, 256, 12, 48), randn(48))
add("l2norm_ch", lambda x: F.normalize(x, dim=1), randn(8, 96, 28, 28))
add("wsconv", lambda w: (w-w.mean((1, 2, 3), keepdim=True))/(w.var((1, 2, 3), keepdim=True)+1e-5).sqrt(), randn(256, 128, 3, 3))
add("lrn", lambda x: F.local_response_norm(x, 5), randn(4, 32, 28, 28))
add("grn", lambda x, g, b: (lambda n: g*(x*(n/(n.mean(-1, keepdim=True)+1e-6)))+b+x)(x.norm(p=2, dim=(1, 2), keepdim=True)), randn(4, 28, 28, 96),
    randn(96), randn(96))
add("wnorm", lambda v, g: v*(g/v.norm(dim=1, keepdim=True)), randn(512, 777), randn(512, 1))
add("spectral_norm", lambda w, u: (lambda v: (lambda u2: w/(u2@(w@v)))(F.normalize(w@v, dim=0)))(F.normalize(w.t()@u, dim=0)), randn(512, 256),
    randn(512))
add("kl", lambda a, b: F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"), randn(2048, 500), randn(2048, 500))
add(
    "ntxent", lambda z: (lambda n: F.cross_entropy((n@n.t()/.1).masked_fill(torch.eye(256).bool(), float("-inf")), (torch.arange(256)+128) % 256))
    (F.normalize(z, dim=-1)), randn(256, 64))
add(
    "dice", lambda x, t: (lambda p, o: 1-((2*(p*o).sum((2, 3))+1)/(p.sum((2, 3))+o.sum((2, 3))+1)).mean())
    (x.softmax(1), F.one_hot(t, 8).permute(0, 3, 1, 2).float()), randn(4, 8, 64, 64), ints(8, 4, 64, 64))
add("huber", lambda a, b: F.huber_loss(a, b), randn(1024, 1000), randn(1024, 1000))
add("bce_pos", lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w), randn(4096, 80), torch.rand(4096, 80), torch.rand(80))
add(
    "dist_l", lambda x, t: (lambda l, r: (F.cross_entropy(x, l, reduction="none")*
                                          (r.float()-t)+F.cross_entropy(x, (l+1).clamp(max=16), reduction="none")*(1-(r.float()-t))).mean())
    (t.long(), t.long()+1), randn(8000, 17),
    torch.rand(8000)*15)
add(
    "giou", lambda a, b: (lambda lt, rb, lt2, rb2, aa, ab: (lambda i: (lambda u, c: i/u-(c-u)/c)(aa+ab-i, (rb2-lt2).prod(-1)))
                          ((rb-lt).clamp(min=0).prod(-1)))
    (torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:]), torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:]),
     (a[:, 2:]-a[:, :2]).prod(-1), (b[:, 2:]-b[:, :2]).prod(-1)),
    torch.rand(50000, 4)+torch.tensor([0, 0, 1, 1.]),
    torch.rand(50000, 4)+torch.tensor([0, 0, 1, 1.]))
add("ctc_step",
    lambda a, b, c: torch.logsumexp(torch.stack([a, F.pad(a, (1, -1), value=-1e30), F.pad(b, (2, -2), value=-1e30)]), 0)+c, randn(512, 129),
    randn(512, 129), randn(512, 129))
add("crf", lambda e, t: functools.reduce(lambda s, k: torch.logsumexp(s[:, :, None]+t[None], 1)+e[:, k], range(1, 12), e[:, 0]), randn(32, 12, 20),
    randn(20, 20))
add("lion", lambda p, g, m: (p*(1-1e-4)-1e-3*torch.sign(m*.9+g*.1), m*.99+g*.01), randn(1024, 1024), randn(1024, 1024), randn(1024, 1024))
add("adafactor", lambda g: (lambda r, c: g*(r/r.mean()).rsqrt()[:, None]*c.rsqrt()[None])((g*g+1e-30).mean(1), (g*g+1e-30).mean(0)),
    randn(1024, 1024))
add("lamb", lambda p, u: (lambda r: p-1e-3*r*u)(torch.where(u.norm() > 0, p.norm()/u.norm(), 1.)), randn(1024, 1024), randn(1024, 1024))
add("newton_schulz", lambda g: (lambda x: (lambda a: 3.4445*x+(-4.775*a+2.0315*a@a)@x)(x@x.t()))(g/(g.norm()+1e-7)), randn(128, 256))
add("normalize_u8", lambda x:
    (x.permute(0, 3, 1, 2).float()/255-torch.tensor([.485, .456, .406])[:, None, None])/torch.tensor([.229, .224, .225])[:, None, None],
    ints(256, 8, 224, 224, 3).to(torch.uint8))
add("jitter", lambda x, b, c: (lambda y: (y-y.mean((1, 2, 3), keepdim=True))*c+y.mean((1, 2, 3), keepdim=True))((x*b).clamp(0, 1)).clamp(0, 1),
    torch.rand(8, 3, 128, 128),
    torch.rand(8, 1, 1, 1)+.5,
    torch.rand(8, 1, 1, 1)+.5)
add("hflip_mask", lambda x, m: torch.where(m[:, None, None, None], x.flip(-1), x), torch.rand(8, 3, 128, 128), torch.rand(8) > .5)
add("posterize", lambda x: (x.int()&240).to(torch.uint8), ints(256, 8, 3, 128, 128).to(torch.uint8))


def rgb2hsv(x):
    r, g, b = x.unbind(1)
    mx = x.amax(1)
    mn = x.amin(1)
    d = mx-mn
    s = d/(mx+1e-8)
    h = torch.where(mx == r, (g-b)/(d+1e-8) % 6, torch.where(mx == g, (b-r)/(d+1e-8)+2, (r-g)/(d+1e-8)+4))/6
    return torch.stack([h, s, mx], 1)


add("rgb2hsv", rgb2hsv, torch.rand(8, 3, 128, 128))
add("mixup", lambda x, p, l: l*x+(1-l)*x[p], torch.rand(16, 3, 64, 64), torch.randperm(16), torch.rand(16, 1, 1, 1))
add(
    "cutout", lambda x, cy, cx: x* ~(((torch.arange(96)[None, :, None]-cy[:, None, None]).abs() < 16)&
                                     ((torch.arange(96)[None, None]-cx[:, None, None]).abs() < 16))[:, None], torch.rand(16, 3, 96, 96), ints(96, 16),
    ints(96, 16))
add(
    "gauss_blur", lambda x, k: F.conv2d(F.conv2d(F.pad(x, (3, 3, 3, 3), mode="reflect"), k.view(1, 1, 7, 1).expand(3, 1, 7, 1), groups=3),
                                        k.view(1, 1, 1, 7).expand(3, 1, 1, 7),
                                        groups=3), torch.rand(8, 3, 128, 128), torch.rand(7))
add("equalize", lambda x: (lambda h: (h.cumsum(0)*255/h.sum()).round()[x.long()])(torch.bincount(x.flatten().long(), minlength=256).float()),
    ints(256, 128, 128).to(torch.uint8))
add("clip_boxes", lambda b: torch.stack([b[..., 0::2].clamp(0, 640), b[..., 1::2].clamp(0, 480)], -1).flatten(-2), torch.rand(8, 10000, 4)*700)
add("mask_to_box",
    lambda m: torch.stack([torch.where(m.any(1), torch.arange(128), 999).amin(-1),
                           torch.where(m.any(2), torch.arange(128), 999).amin(-1)], -1),
    torch.rand(32, 128, 128) > .999)
add("rle_diff", lambda x: (x[:, 1:] != x[:, :-1]).sum(-1), ints(2, 1024, 2048))
add("median_filt", lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect").unfold(2, 3, 1).unfold(3, 3, 1).flatten(-2).median(-1)[0],
    torch.rand(2, 3, 64, 64))
add("cummax", lambda x: tuple(torch.cummax(x, -1)), randn(256, 1024))
add("sort_idx", lambda x: tuple(torch.sort(x, -1)), randn(64, 1000))
add("argsort_gather", lambda x, y: y.gather(1, x.argsort(1)), randn(64, 1000), randn(64, 1000))
add("quantile", lambda x: torch.quantile(x, torch.tensor([.1, .5, .9]), dim=-1), randn(64, 1000))
add("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), randn(4, 64, 64, 64))
add("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), randn(4, 16, 128, 128))
add("fold", lambda x: F.fold(x, (64, 64), 4, stride=2, padding=1), randn(4, 16*16, 1024))
add("unfold2d", lambda x: F.unfold(x, 3, padding=1), randn(4, 16, 64, 64))
add("triu_mask", lambda x: x.masked_fill(torch.ones(512, 512).triu(1).bool(), float("-inf")).softmax(-1), randn(8, 512, 512))
add("tril_cumsum", lambda a: torch.exp(
    (a.cumsum(-1)[..., :, None]-a.cumsum(-1)[..., None, :]).masked_fill(~torch.ones(64, 64).tril().bool(), float("-inf"))), -torch.rand(16, 8, 64))
add("einsum_bhn", lambda a, b, c: torch.einsum("bhqd,bhkd,bhke->bhqe", a, b, c), randn(2, 4, 64, 32), randn(2, 4, 64, 32), randn(2, 4, 64, 32))
add("convT", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), randn(2, 32, 32, 32), randn(32, 16, 4, 4)*.1)
add("conv1d_dil", lambda x, w: F.conv1d(F.pad(x, (8, 0)), w, dilation=4), randn(4, 64, 1000), randn(64, 64, 3)*.1)
add("glu_wavenet", lambda x, w: (lambda a, b: torch.tanh(a)*torch.sigmoid(b))(*F.conv1d(x, w, padding=1).chunk(2, 1)), randn(4, 64, 1000),
    randn(128, 64, 3)*.1)
add("snake", lambda x, a: x+torch.sin(a*x)**2/a, randn(4, 64, 4000), torch.rand(64, 1)+.5)
add("mel", lambda s, m: torch.log10((m@(s**2)).clamp(min=1e-10)), randn(4, 257, 400), torch.rand(80, 257))
add("se3", lambda r, t, p: torch.einsum("bij,bnj->bni", r, p)+t[:, None], randn(16, 3, 3), randn(16, 3), randn(16, 4000, 3))
add("plucker", lambda o, d: torch.cat([d, torch.linalg.cross(o, d)], -1), randn(50000, 3), randn(50000, 3))
add("interp_1d", lambda x: F.interpolate(x, scale_factor=4, mode="linear"), randn(8, 64, 1000))
add("roi_avg", lambda x: torch.stack([x[:, :, i*4:i*4+9, i*3:i*3+7].mean((2, 3)) for i in range(8)], 1), randn(4, 64, 56, 56))
add("pad_refl3", lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), randn(8, 16, 64, 64))

# More programs as people write them: attention, norms, messages along edges, losses, images, optimizers, quantization, signals.
add("mqa", lambda q,k,v:(q@k.transpose(-1,-2)).mul(.125).softmax(-1)@v, randn(2,8,128,64),randn(2,1,128,64),randn(2,1,128,64))
add("sinks", lambda s,k:torch.cat([s,k.expand(2,8,128,1)],-1).softmax(-1)[...,:-1], randn(2,8,128,128),randn(8,1,1))
add("relpos_shift", lambda x:F.pad(x,(1,0)).view(2,8,129,128)[:,:,1:].view(2,8,128,128)*.5, randn(2,8,128,128))
add("rope_half", lambda x,c,s:x*c+torch.cat([-x[...,32:],x[...,:32]],-1)*s, randn(2,8,512,64),randn(512,64),randn(512,64))
add("kv_update", lambda k,n,i:k.index_copy(2,i,n), randn(2,8,512,64),randn(2,8,1,64),torch.tensor([7]))
add("pos_gather_rope", lambda x,c,p:x*c[p].unsqueeze(1), randn(2,8,128,64),randn(1024,64),ints(1024,2,128))
add("group_norm", lambda x,w,b:F.group_norm(x,8,w,b), randn(4,64,32,32),randn(64),randn(64))
add("group_norm_silu", lambda x,w,b:F.silu(F.group_norm(x,32,w,b)), randn(2,320,32,32),randn(320),randn(320))
add("instance_norm", lambda x:F.instance_norm(x), randn(4,32,64,64))
add("weight_norm", lambda x,v,g:F.linear(x,v*(g/v.norm(dim=1,keepdim=True))), randn(64,256),randn(256,256),randn(256,1))
add("spectral_iter", lambda w,u:(lambda v:F.normalize(w@v,dim=0))(F.normalize(w.t()@u,dim=0)), randn(512,512),randn(512))
add("batch_stats", lambda x:(x-x.mean((0,2,3),keepdim=True))/torch.sqrt(x.var((0,2,3),unbiased=False,keepdim=True)+1e-5), randn(8,32,32,32))
add("scale_norm", lambda x:x*(16/x.norm(dim=-1,keepdim=True).clamp(min=1e-5)), randn(2048,256))
add("edge_conv", lambda x,i:(lambda n:torch.cat([n-x[:,None],x[:,None].expand(-1,16,-1)],-1).amax(1))(x[i]), randn(1000,32),ints(1000,1000,16))
add("pairdist_knn", lambda x:torch.cdist(x,x).topk(8,largest=False)[0], randn(4,256,3))
add("sqdist", lambda x,y:(x**2).sum(-1)[:,:,None]+(y**2).sum(-1)[:,None]-2*x@y.transpose(1,2), randn(4,256,16),randn(4,256,16))
add("rbf", lambda d:torch.exp(-10*(d[...,None]-torch.linspace(0,5,50))**2), torch.rand(20000)*5)
add("segment_max", lambda x,i:torch.full((100,32),float("-inf")).scatter_reduce(0,i[:,None].expand(-1,32),x,"amax"), randn(4000,32),ints(100,4000))
add("unique_pool", lambda x,p:x[p].view(50,20,32).mean(1), randn(1000,32),torch.randperm(1000))
add("info_nce", lambda a,b:F.cross_entropy(F.normalize(a)@F.normalize(b).t()/.07,torch.arange(256)), randn(256,128),randn(256,128))
add("kd", lambda s,t:F.kl_div(F.log_softmax(s/4,-1),F.softmax(t/4,-1),reduction="batchmean")*16, randn(1024,1000),randn(1024,1000))
add("ctc_like", lambda x:x.log_softmax(-1)[:,:,0].cumsum(1), randn(16,200,100))
add("nll_gather", lambda x,t:-x.log_softmax(-1).gather(-1,t[...,None]).squeeze(-1), randn(8,256,1000),ints(1000,8,256))
add("gumbel_st", lambda x,g:(lambda y:(lambda i:F.one_hot(i,64).float()-y+y)(y.argmax(-1)))(((x+g)/.5).softmax(-1)), randn(4096,64),randn(4096,64))
add("sinkhorn", lambda c:(lambda k:[k:=k/k.sum(d,keepdim=True) for d in (0,1,0,1,0,1)][-1])(torch.exp(-c/.1)), torch.rand(256,256))
add("margin", lambda x,t:F.multi_margin_loss(x,t), randn(1024,100),ints(100,1024))
add("logit_adjust", lambda x,p:F.log_softmax(x+p.log(),-1), randn(4096,100),torch.rand(100))
add("hwc_norm", lambda x:(x.permute(0,3,1,2).float()/255-.45)/.22, ints(256,8,224,224,3).to(torch.uint8))
add("yuv", lambda x:torch.einsum("ij,bjhw->bihw",torch.tensor([[.299,.587,.114],[-.147,-.289,.436],[.615,-.515,-.1]]),x), torch.rand(4,3,256,256))
add("gamma", lambda x:x.clamp(0,1).pow(1/2.2), torch.rand(8,3,256,256))
add("flip_concat", lambda x:torch.cat([x,x.flip(-1)],0)*2, randn(4,3,224,224))
add("fpn_merge", lambda a,b:a+F.interpolate(b,scale_factor=2,mode="nearest"), randn(2,128,64,64),randn(2,128,32,32))
add("spp", lambda x:torch.cat([x]+[F.max_pool2d(x,k,1,k//2) for k in (5,9,13)],1), randn(1,64,20,20))
add("heatmap_nms", lambda x:x*(F.max_pool2d(x,3,1,1)==x).float(), torch.rand(4,80,128,128))
add("integral", lambda x:x.cumsum(-1).cumsum(-2), torch.rand(8,3,128,128))
add("rmsprop", lambda p,g,v:(lambda v:(p-.01*g/(v.sqrt()+1e-8),v))(v*.99+g*g*.01), *[randn(1024,1024).abs() for _ in range(3)])
add("q_row", lambda x:(lambda s:((x/s).round().clamp(-127,127).to(torch.int8),s))(x.abs().amax(-1,keepdim=True)/127), randn(2048,1024))
add("int4_unpack", lambda q,s:(torch.stack([q&15,q>>4],-1).flatten(-2).float()-8)*s, ints(256,1024,512).to(torch.uint8),torch.rand(1024,1))
add("fq", lambda x:torch.fake_quantize_per_tensor_affine(x,.05,3,-128,127), randn(1024,1024))
add("fp8ish", lambda x:(lambda e:torch.round(x*2**(3-e))*2**(e-3))(torch.floor(torch.log2(x.abs().clamp(min=1e-6)))), randn(1024,1024))
add("nf4", lambda i,t,s:t[i.long()].view(1024,16,64)*s[...,None], ints(16,1024,1024).to(torch.uint8),randn(16),torch.rand(1024,16))
add("ternary", lambda x:(lambda s:(x/s).round().clamp(-1,1)*s)(x.abs().mean()), randn(1024,1024))
add("istft", lambda x:torch.istft(x,400,160,window=torch.hann_window(400)), torch.complex(randn(2,201,101), randn(2,201,101)))
add("preemph", lambda x:torch.cat([x[:,:1],x[:,1:]-.97*x[:,:-1]],1), randn(8,160000))
add("frame", lambda x:(x.unfold(-1,400,160)*torch.hann_window(400)), randn(4,16000))
add("fftconv", lambda x,k:torch.fft.irfft(torch.fft.rfft(x,n=2048)*torch.fft.rfft(k,n=2048),n=2048)[...,:1024], randn(8,64,1024),randn(64,1024))
add("specnorm", lambda x:torch.fft.rfft2(x).abs(), randn(4,3,64,64))
add("mulaw", lambda x:((torch.sign(x)*torch.log1p(255*x.abs())/math.log1p(255)+1)/2*255+.5).long(), torch.rand(8,16000)*2-1)
add("dct", lambda x:(torch.fft.rfft(torch.cat([x,x.flip(-1)],-1))[...,:256]*torch.exp(-1j*math.pi*torch.arange(256)/512)).real, randn(256,256))
add("snr", lambda a,b:10*torch.log10((a**2).sum(-1)/((a-b)**2).sum(-1)), randn(64,16000),randn(64,16000))
add("biquad4", lambda x:x[...,4:]*.2+x[...,3:-1]*.3+x[...,2:-2]*.2+x[...,1:-3]*.1+x[...,:-4]*.2, randn(16,16000))
add("ssm_scan8", lambda a,b:[h:=0*b[:,0]]+[h:=a[:,i]*h+b[:,i] for i in range(8)], torch.rand(64,8,256),randn(64,8,256))
add("cumprod_alpha", lambda a:a*torch.cat([torch.ones(4096,1),torch.cumprod(1-a+1e-10,-1)[:,:-1]],-1), torch.rand(4096,64))
add("moe_combine", lambda x,w,i:(x[torch.arange(2048)[:,None],i]*w[...,None]).sum(1), randn(2048,8,64),torch.rand(2048,2),ints(8,2048,2))
add("lora", lambda x,w,a,b:F.linear(x,w)+F.linear(F.linear(x,a),b)*.5, randn(128,512),randn(512,512)*.04,randn(8,512)*.04,randn(512,8))
add("film", lambda x,g,b:F.relu(x*(1+g[:,:,None,None])+b[:,:,None,None]), randn(8,64,56,56),randn(8,64),randn(8,64))
add("cosine_sched", lambda t:.5*(1+torch.cos(math.pi*t/1000)), torch.arange(100000).float())
add("cfg", lambda x:(lambda u,c:u+7.5*(c-u))(*x.chunk(2)), randn(4,4,64,64))
add("quat_rot", lambda q,v:(lambda t:v+q[:,:1]*t+torch.linalg.cross(q[:,1:],t))(2*torch.linalg.cross(q[:,1:],v)), randn(100000,4),randn(100000,3))
add("bucket_emb", lambda x,w:F.embedding(torch.bucketize(x,torch.linspace(0,1,63)),w), torch.rand(4096),randn(64,128))
add("onehot_mm", lambda i,w:F.one_hot(i,64).float()@w, ints(64,4096),randn(64,64))
add("ema_scan", lambda x:torch.stack([(h:=x[:,0])]+[(h:=.9*h+.1*x[:,i]) for i in range(1,16)],1), randn(256,16,64))
add("hash_grid", lambda x:((x[...,0]*1)^(x[...,1]*2654435761)^(x[...,2]*805459861))%524288, ints(512,100000,3))
add("minmax01", lambda x:(x-x.amin((1,2),keepdim=True))/(x.amax((1,2),keepdim=True)-x.amin((1,2),keepdim=True)+1e-8), randn(8,256,256))
add("median", lambda x:x.median(-1)[0], randn(512,257))
add("einsum_bilinear", lambda x,w,y:torch.einsum("bi,oij,bj->bo",x,w,y), randn(64,32),randn(16,32,32),randn(64,32))
add("tri_attn", lambda a,b:torch.einsum("ikc,jkc->ijc",a,b), randn(64,64,32),randn(64,64,32))
add("pack_len", lambda x,l:x.masked_fill(torch.arange(128)[None,:,None]>=l[:,None,None],0).amax(1), randn(32,128,64),ints(127,32)+1)
add("logaddexp_ctc", lambda a,b,c:torch.logaddexp(torch.logaddexp(a,b),c), randn(512,512),randn(512,512),randn(512,512))
add("lse_stack", lambda a,b:torch.logsumexp(torch.stack([a,b],-1),-1), randn(512,512),randn(512,512))
add("erfinv", lambda x:torch.erfinv(x*2-1)*math.sqrt(2), torch.rand(512,512))
add("lgamma", lambda x:torch.lgamma(x), torch.rand(512,512)*5+.1)
add("beta_nll", lambda x,m,s:.5*((x-m)/s.exp())**2+s+.9189, *[randn(512,512) for _ in range(3)])
add("mdn", lambda x,m,s,w:torch.logsumexp(F.log_softmax(w,-1)-.5*((x[:,None]-m)/s.exp())**2-s,-1), randn(8192),*[randn(8192,8) for _ in range(3)])
add("var_axis1", lambda x:torch.var_mean(x,1), randn(512,4096))

# Norms over odd dims, gates, patches, positions, masks, heads, pools, numbers in fewer bits, paths of physics and finance.
def rope_interleaved(x, c, s):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a*c-b*s, a*s+b*c], -1).flatten(-2)


def selective_scan(u, d, a, b, c):
    h = torch.zeros(u.shape[0], u.shape[2], a.shape[1])
    out = []
    for t in range(u.shape[1]):
        h = torch.exp(d[:, t, :, None]*a)*h+d[:, t, :, None]*b[:, t, None]*u[:, t, :, None]
        out.append((h*c[:, t, None]).sum(-1))
    return torch.stack(out, 1)


def sliding_chunks(q, k):
    q, k = q.unflatten(1, (8, 64)), F.pad(k, (0, 0, 64, 0)).unfold(1, 128, 64)
    return torch.einsum("bcqd,bcdk->bcqk", q, k).softmax(-1)


def kalman(x, p, z, f, q, r):
    x, p = x@f.t(), f@p@f.t()+q
    k = p/(p+r)
    return x+(k@(z-x)[..., None])[..., 0], (torch.eye(4)-k)@p


def nms_matrix(b):
    area = (b[:, 2]-b[:, 0])*(b[:, 3]-b[:, 1])
    wh = (torch.minimum(b[:, None, 2:], b[None, :, 2:])-torch.maximum(b[:, None, :2], b[None, :, :2])).clamp(min=0).prod(-1)
    iou = (wh/(area[:, None]+area-wh)).triu(1)
    return (iou.amax(0) < .5)


def vq(x, e):
    i = ((x**2).sum(-1, keepdim=True)-2*x@e.t()+(e**2).sum(-1)).argmin(-1)
    q = e[i]
    return x+(q-x), i, ((q-x)**2).mean()


def simam(x):
    d = (x-x.mean((2, 3), keepdim=True))**2
    return x*torch.sigmoid(d/(4*(d.sum((2, 3), keepdim=True)/(x.shape[2]*x.shape[3]-1)+1e-4))+.5)


def coord_att(x, w):
    h, v = x.mean(3, keepdim=True), x.mean(2, keepdim=True).transpose(2, 3)
    y = F.hardswish(F.conv2d(torch.cat([h, v], 2), w))
    a, b = y.split([x.shape[2], x.shape[3]], 2)
    return x*a.sigmoid()*b.transpose(2, 3).sigmoid()


add("rope_interleaved", rope_interleaved, randn(2, 8, 256, 64), randn(256, 32), randn(256, 32))
add("selective_scan", selective_scan, randn(2, 12, 64), torch.rand(2, 12, 64), -torch.rand(64, 16), randn(2, 12, 16), randn(2, 12, 16))
add("sliding_chunks", sliding_chunks, randn(4, 512, 32), randn(4, 512, 32))
add("kalman", kalman, randn(512, 4), torch.rand(512, 4, 4), randn(512, 4), randn(4, 4), torch.eye(4), torch.rand(4, 4)+3)
add("nms_matrix", nms_matrix, torch.rand(300, 4)+torch.tensor([0, 0, 1, 1.]))
add("vq_module", vq, randn(2048, 32), randn(256, 32))
add("simam", simam, randn(4, 64, 28, 28))
add("coord_att", coord_att, randn(4, 32, 28, 28), randn(32, 32, 1, 1)*.2)
add("norm_dim1", lambda x: F.normalize(x, dim=1), randn(8, 64, 40, 40))
add("norm_dims_02", lambda x: (x-x.mean((0, 2), keepdim=True))/(x.std((0, 2), keepdim=True)+1e-5), randn(16, 64, 500))
add("pixel_norm", lambda x: x*torch.rsqrt((x**2).mean(1, keepdim=True)+1e-8), randn(4, 64, 64, 64))
add("ada_in", lambda x, s: (x-x.mean((2, 3), keepdim=True))/(x.var((2, 3), keepdim=True)+1e-5).sqrt()*s[:, :64, None, None]+s[:, 64:, None, None],
    randn(4, 64, 32, 32), randn(4, 128))
add("ada_ln_zero", lambda x, m: (lambda s, c, g: x+g[:, None]*(F.layer_norm(x, (384,), eps=1e-6)*(1+c[:, None])+s[:, None]))(*m.chunk(3, 1)),
    randn(4, 256, 384), randn(4, 1152))
add("swiglu", lambda x, a, b, c: F.linear(F.silu(F.linear(x, a))*F.linear(x, b), c), randn(64, 256), randn(512, 256)*.06, randn(512, 256)*.06,
    randn(256, 512)*.04)
add("reglu_packed", lambda x: (lambda a, b: F.relu(a)*b)(*x.chunk(2, -1)), randn(1024, 2048))
add("patch_merge", lambda x, w: F.linear(torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1), w), randn(2, 28, 28, 96),
    randn(192, 384)*.05)
add("window_cyclic", lambda x: torch.roll(x, (-3, -3), (1, 2)).view(2, 8, 7, 8, 7, 96).transpose(2, 3).flatten(0, 2).flatten(1, 2)*1., randn(2, 56, 56, 96))
add("rel_bias", lambda s, t, i: (s+t[i.flatten()].view(49, 49, 8).permute(2, 0, 1)).softmax(-1), randn(64, 8, 49, 49), randn(169, 8), ints(169, 49, 49))
add("t5_buckets", lambda t: (lambda d: t[torch.where(d < 16, d, (16+(torch.log(d.clamp(min=1)/16.)/math.log(8)*16).long()).clamp(max=31))].permute(2, 0, 1))
    ((torch.arange(256)[None]-torch.arange(256)[:, None]).abs()), randn(32, 8))
add("gqa_scores", lambda q, k: torch.einsum("bghqd,bgkd->bghqk", q.unflatten(1, (2, 4)), k).flatten(1, 2)*.125, randn(2, 8, 128, 64), randn(2, 2, 128, 64))
add("causal_window", lambda s: (lambda d: s.masked_fill((d < 0)|(d >= 64), float("-inf")).softmax(-1))
    (torch.arange(256)[:, None]-torch.arange(256)), randn(8, 256, 256))
add("linear_attention", lambda q, k, v: (lambda p, r: torch.einsum("bhnd,bhde->bhne", p, torch.einsum("bhnd,bhne->bhde", r, v))/
                                         (torch.einsum("bhnd,bhd->bhn", p, r.sum(2))+1e-6)[..., None])(F.elu(q)+1, F.elu(k)+1),
    randn(2, 4, 256, 32), randn(2, 4, 256, 32), randn(2, 4, 256, 32))
add("dw_causal1d", lambda x, w: F.silu(F.conv1d(F.pad(x, (3, 0)), w, groups=128)), randn(4, 128, 512), randn(128, 1, 4))
add("dw7_ln", lambda x, w, g: F.layer_norm(F.conv2d(x, w, padding=3, groups=64).permute(0, 2, 3, 1), (64,), g), randn(2, 64, 28, 28),
    randn(64, 1, 7, 7)*.1, randn(64))
add("dw_dilated", lambda x, w: F.conv2d(x, w, padding=4, dilation=4, groups=32), randn(2, 32, 56, 56), randn(32, 1, 3, 3))
add("dice_sigmoid", lambda x, t: 1-(2*(x.sigmoid()*t).sum((2, 3))+1)/(x.sigmoid().sum((2, 3))+t.sum((2, 3))+1), randn(8, 4, 64, 64),
    (torch.rand(8, 4, 64, 64) > .5).float())
add("charbonnier", lambda x, y: torch.sqrt((x-y)**2+1e-6).mean(), randn(8, 3, 128, 128), randn(8, 3, 128, 128))
add("ssim_boxes", lambda x, y: (lambda p: (lambda a, b, c, d, e: ((2*a*b+1e-4)*(2*(e-a*b)+9e-4)/((a*a+b*b+1e-4)*(c-a*a+d-b*b+9e-4))).mean())
                          (p(x), p(y), p(x*x), p(y*y), p(x*y)))(lambda t: F.avg_pool2d(t, 7, 1)), torch.rand(2, 3, 128, 128), torch.rand(2, 3, 128, 128))
add("arcface", lambda x, t: F.cross_entropy(torch.where(F.one_hot(t, 500).bool(), torch.cos(torch.acos(x.clamp(-.999, .999))+.5), x)*30, t),
    torch.rand(512, 500)*2-1, ints(500, 512))
add("topk_mask", lambda x: (lambda v, i: torch.zeros_like(x).scatter(-1, i, v.softmax(-1)))(*x.topk(2, -1)), randn(4096, 16))
add("topp", lambda x: (lambda v, i: torch.where(v.softmax(-1).cumsum(-1)-v.softmax(-1) > .9, float("-inf"), v).gather(-1, i.argsort(-1)))
    (*x.sort(-1, descending=True)), randn(4, 4000))
add("dequant_group", lambda q, s, z: ((q.float().unflatten(1, (8, 128))-z[..., None])*s[..., None]).flatten(1), ints(16, 512, 1024).to(torch.uint8),
    torch.rand(512, 8), torch.rand(512, 8)*15)
add("q_dq_channel", lambda x, s: (torch.clamp(torch.round(x/s[:, None]), -128, 127).to(torch.int8).float()*s[:, None]), randn(512, 1024),
    torch.rand(512)*.05+.01)
add("up_bil_cat", lambda a, b: torch.cat([a, F.interpolate(b, size=a.shape[2:], mode="bilinear", align_corners=True)], 1), randn(2, 32, 56, 56),
    randn(2, 64, 28, 28))
add("img_norm", lambda x, m, s: ((x/255.)-m[None, :, None, None])/s[None, :, None, None], torch.rand(4, 3, 224, 224)*255, torch.rand(3), torch.rand(3)+.1)
add("interleave2", lambda a, b: torch.stack([a, b], 2).flatten(1, 2), randn(8, 512, 128), randn(8, 512, 128))
add("deinterleave_ch", lambda x: torch.cat([x[:, ::2].abs(), x[:, 1::2]], 1), randn(8, 64, 28, 28))
add("pack_bits", lambda x: ((x > 0).view(1024, 128, 8).to(torch.uint8)*torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)).sum(-1).to(torch.uint8),
    randn(1024, 1024))
add("unpack_bits", lambda x: ((x[..., None] >> torch.arange(8, dtype=torch.uint8))&1).flatten(-2).float()*2-1, ints(256, 1024, 128).to(torch.uint8))
add("segment_mean_rows", lambda x, i: (lambda s, n: s/n.clamp(min=1)[:, None])(torch.zeros(200, 64).index_add(0, i, x), torch.bincount(i, minlength=200)),
    randn(4096, 64), ints(200, 4096))
add("segment_softmax", lambda x, i: (lambda m: (lambda e: e/torch.zeros(200).index_add(0, i, e)[i])((x-m[i]).exp()))
    (torch.full((200,), -1e9).scatter_reduce(0, i, x, "amax")), randn(8192), ints(200, 8192))
add("cumprod_shift", lambda a: torch.cumprod(torch.cat([torch.ones(2048, 1), 1-a], 1), 1)[:, :-1], torch.rand(2048, 128))
add("discounted_returns", lambda r: [g := r[:, 15]]+[g := r[:, i]+.99*g for i in range(14, -1, -1)], randn(1024, 16))
add("gae", lambda r, v: (lambda d: [a := d[:, 15]]+[a := d[:, i]+.95*.99*a for i in range(14, -1, -1)])(r+.99*v[:, 1:]-v[:, :-1]), randn(1024, 16),
    randn(1024, 17))
add("sincos_2d", lambda x: (lambda w: torch.cat([torch.sin(x[:, :1]*w), torch.cos(x[:, :1]*w), torch.sin(x[:, 1:]*w), torch.cos(x[:, 1:]*w)], 1))
    (1/10000**(torch.arange(64)/64)), torch.rand(4096, 2)*56)
add("fourier_features", lambda x, b: (lambda p: torch.cat([p.sin(), p.cos()], -1))(2*math.pi*x@b.t()), torch.rand(8192, 3), randn(64, 3))
add("se_block", lambda x, a, b: x*F.conv2d(F.relu(F.conv2d(x.mean((2, 3), keepdim=True), a)), b).sigmoid(), randn(4, 64, 56, 56), randn(16, 64, 1, 1)*.1,
    randn(64, 16, 1, 1)*.2)
add("eca", lambda x, w: x*F.conv1d(x.mean((2, 3))[:, None], w, padding=2).sigmoid()[:, 0, :, None, None], randn(4, 64, 56, 56),
    randn(1, 1, 5))
add("cbam_spatial", lambda x, w: x*F.conv2d(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1), w, padding=3).sigmoid(), randn(4, 64, 56, 56),
    randn(1, 2, 7, 7)*.1)
add("blur_pool", lambda x: F.conv2d(F.pad(x, (1, 2, 1, 2), mode="reflect"), (torch.tensor([1., 3, 3, 1])[:, None]*torch.tensor([1., 3, 3, 1])/64)
                                    .expand(64, 1, 4, 4), stride=2, groups=64), randn(2, 64, 56, 56))
add("replicate3d", lambda x: F.pad(x, (1, 1, 1, 1, 1, 1), mode="replicate"), randn(2, 8, 16, 32, 32))
add("zero_pad_conv_same", lambda x: F.pad(x, (0, 1, 0, 1)), randn(4, 64, 56, 56))
add("laplacian", lambda x: 4*x-torch.roll(x, 1, -1)-torch.roll(x, -1, -1)-torch.roll(x, 1, -2)-torch.roll(x, -1, -2), randn(8, 256, 256))
add("heat_step", lambda x: x+.1*(F.pad(x, (1, 1, 1, 1))[..., 2:, 1:-1]+F.pad(x, (1, 1, 1, 1))[..., :-2, 1:-1]+F.pad(x, (1, 1, 1, 1))[..., 1:-1, 2:]+
                                 F.pad(x, (1, 1, 1, 1))[..., 1:-1, :-2]-4*x), randn(8, 256, 256))
add("advect", lambda x, u: (lambda i: x.gather(1, i.clamp(0, 1023)))((torch.arange(1024)-u).long()), randn(256, 1024), randn(256, 1024)*5)
add("black_scholes", lambda s, k, t: (lambda d: s*torch.special.ndtr(d)-k*torch.exp(-.03*t)*torch.special.ndtr(d-.2*t.sqrt()))
    ((torch.log(s/k)+(.03+.02)*t)/(.2*t.sqrt())), torch.rand(100000)+.5, torch.rand(100000)+.5, torch.rand(100000)+.1)
add("rolling_std", lambda x: (lambda u: u.std(-1))(x.unfold(-1, 20, 1)), randn(64, 2000))
add("max_drawdown", lambda x: ((lambda p: (p.cummax(-1)[0]-p)/p.cummax(-1)[0])(torch.cumprod(1+x*.01, -1))).amax(-1), randn(256, 500))
add("mahalanobis", lambda x, m, s: (lambda d: (d@torch.linalg.inv(s)*d).sum(-1))(x-m), randn(4096, 8), randn(8), torch.eye(8)*2+.1)
add("gauss_2d_cov", lambda x, s: (lambda i: torch.exp(-.5*torch.einsum("ni,nij,nj->n", x, i, x)))(torch.linalg.inv(s)), randn(10000, 2),
    torch.eye(2).expand(10000, 2, 2)+.1)
add("ray_aabb", lambda o, d: (lambda a, b: (lambda n, f: torch.stack([n, f, (f > n).float()], -1))
                              (torch.minimum(a, b).amax(-1), torch.maximum(a, b).amin(-1)))((-1-o)/d, (1-o)/d), randn(50000, 3), randn(50000, 3))
add("quat_to_mat", lambda q: (lambda w, x, y, z: torch.stack([1-2*(y*y+z*z), 2*(x*y-w*z), 2*(x*z+w*y), 2*(x*y+w*z), 1-2*(x*x+z*z), 2*(y*z-w*x),
                                                              2*(x*z-w*y), 2*(y*z+w*x), 1-2*(x*x+y*y)], -1).view(-1, 3, 3))(*F.normalize(q, dim=-1).unbind(-1)),
    randn(50000, 4))
add("rot6d", lambda x: (lambda a, b: (lambda u: (lambda v: torch.stack([u, v, torch.linalg.cross(u, v)], -2))(F.normalize(b-(u*b).sum(-1, keepdim=True)*u, dim=-1)))
                        (F.normalize(a, dim=-1)))(x[:, :3], x[:, 3:]), randn(50000, 6))
add("spherical", lambda v: (lambda r: torch.stack([r, torch.acos(v[:, 2]/r), torch.atan2(v[:, 1], v[:, 0])], -1))(v.norm(dim=-1)), randn(50000, 3))
add("gcn_norm", lambda a, x: (lambda d: (a*d[:, None]*d)@x)((a.sum(-1)+1).rsqrt()), (torch.rand(256, 256) > .9).float(), randn(256, 64))
add("viterbi", lambda e, t: functools.reduce(lambda s, k: (s[:, :, None]+t).amax(1)+e[:, k], range(1, 10), e[:, 0]), randn(32, 10, 16), randn(16, 16))
add("edit_row", lambda a, b: torch.minimum(torch.minimum(a[:, :-1]+b, a[:, 1:]+1), a[:, :-1].cummin(-1)[0]+1), torch.rand(512, 129)*9, (torch.rand(512, 128) > .5).float())


# Masks and caches of attention, routing, fewer bits, image preparation, losses, steps of optimizers, scans, stencils, clusters, statistics.
add("prefix_lm_mask", lambda s, n: s.masked_fill((torch.arange(256)[None, :] > torch.arange(256)[:, None]) & (torch.arange(256)[None] >= n[:, None, None, None]), -1e9)
    .softmax(-1), randn(4, 8, 256, 256), ints(200, 4))
add("block_diag_mask", lambda s, d: torch.where(d[:, None, :, None] == d[:, None, None, :], s, float("-inf")).softmax(-1), randn(4, 8, 256, 256), ints(3, 4, 256))
add("dilated_window", lambda s: (lambda d: s.masked_fill((d < 0) | (d > 64) | (d % 2 == 1), float("-inf")).softmax(-1))
    (torch.arange(256)[:, None]-torch.arange(256)), randn(8, 256, 256))
add("alibi_causal", lambda q, k: (q@k.transpose(-1, -2)*.125-(2.0**-torch.arange(1, 9))[:, None, None]*(torch.arange(128)[:, None]-torch.arange(128)).abs())
    .masked_fill(torch.ones(128, 128, dtype=torch.bool).triu(1), -1e9).softmax(-1), randn(2, 8, 128, 64), randn(2, 8, 128, 64))
add("gated_attn_out", lambda x, g, r: r+x*torch.sigmoid(g.float()).to(x.dtype), randn(8, 256, 512), randn(8, 256, 512).bfloat16(), randn(8, 256, 512))
add("qk_norm", lambda q, k, w: (F.normalize(q, dim=-1)*w, F.normalize(k, dim=-1)*w), randn(2, 16, 512, 64), randn(2, 16, 512, 64), randn(64))
add("ring_cache", lambda c, x, p: c.index_copy(2, p % 256, x), randn(4, 8, 256, 64), randn(4, 8, 3, 64), torch.tensor([255, 256, 257]))
add("mamba2_chunk", lambda a, x: (lambda c: (torch.exp(torch.where(torch.ones(64, 64, dtype=torch.bool).tril(), c[..., :, None]-c[..., None, :], float("-inf")))@x))
    (torch.cumsum(a, -1)), -torch.rand(4, 8, 64), randn(4, 8, 64, 32))
add("min_gru", lambda z, h: torch.stack(list(functools.reduce(lambda l, t: l+[(1-z[:, t])*l[-1]+z[:, t]*h[:, t]], range(1, 12), [h[:, 0]])), 1),
    torch.rand(32, 12, 128), randn(32, 12, 128))
add("delta_rule", lambda s, k, v, b: s+b[:, :, None, None]*k[..., :, None]*(v-torch.einsum("bhk,bhkv->bhv", k, s))[..., None, :],
    randn(4, 8, 64, 64), F.normalize(randn(4, 8, 64), dim=-1), randn(4, 8, 64), torch.rand(4, 8))
add("moe_scatter", lambda x, g: (lambda p, i: torch.zeros(8, 64).index_add(0, i.flatten(), (x[:, None]*p[..., None]).flatten(0, 1)))(*g.softmax(-1).topk(2, -1)),
    randn(2048, 64), randn(2048, 8))
add("moe_load_balance", lambda g: (lambda p: (p.mean(0)*F.one_hot(p.argmax(-1), 16).float().mean(0)).sum()*16)(g.softmax(-1)), randn(4096, 16))
add("expert_choice", lambda g: (lambda v, i: (v, i, torch.zeros(512, 8).scatter(0, i, v)))(*g.softmax(-1).topk(64, 0)), randn(512, 8))
add("q_int8_sym", lambda x: (lambda s: (torch.clamp(torch.round(x/s), -127, 127).to(torch.int8), s))(x.abs().amax(-1, keepdim=True)/127), randn(1024, 1024))
add("dq_int8_zero", lambda q, s, z: (q.to(torch.float32)-z[:, None].float())*s[:, None], ints(255, 1024, 1024).to(torch.uint8), torch.rand(1024), ints(255, 1024))
add("q_uint4_pack", lambda x: (lambda q: q[:, ::2]+q[:, 1::2]*16)(torch.clamp(torch.round(x*4)+8, 0, 15).to(torch.uint8)), randn(1024, 1024))
add("log2_quant", lambda x: torch.sign(x)*torch.exp2(torch.clamp(torch.round(torch.log2(x.abs()+1e-9)), -8, 8)), randn(512, 1024))
add("stochastic_round", lambda x, u: torch.floor(x*16+u)/16, randn(512, 1024), torch.rand(512, 1024))
add("normalize_flip", lambda x, m, s: ((x.permute(0, 3, 1, 2).float()/255-m[:, None, None])/s[:, None, None]).flip(-1), ints(255, 4, 224, 224, 3).to(torch.uint8),
    torch.rand(3), torch.rand(3)+.1)
add("resize_crop_norm", lambda x: (F.interpolate(x, size=(96, 96), mode="bilinear", antialias=False)[..., 8:-8, 8:-8]-.45)/.22, torch.rand(4, 3, 128, 128))
add("cutout_boxes", lambda x, p: (lambda y: x*~((y[:, None] >= p[:, 0, None, None]) & (y[:, None] < p[:, 0, None, None]+16) & (y >= p[:, 1, None, None]) &
                                        (y < p[:, 1, None, None]+16))[:, None])(torch.arange(64)), randn(16, 3, 64, 64), ints(48, 16, 2))
add("solarize", lambda x: torch.where(x < 128, x, 255-x), ints(255, 8, 3, 128, 128).to(torch.uint8))
add("contrast", lambda x, f: ((x-x.mean((1, 2, 3), keepdim=True))*f[:, None, None, None]+x.mean((1, 2, 3), keepdim=True)).clamp(0, 1), torch.rand(8, 3, 128, 128),
    torch.rand(8)+.5)
add("rot90_stack", lambda x: torch.stack([torch.rot90(x, k, (-2, -1)) for k in range(4)], 1), randn(4, 3, 64, 64))
add("giou_loss", lambda a, b: (lambda i, c, u: (1-(i/u-(c-u)/c)).mean())(
    (torch.minimum(a[:, 2:], b[:, 2:])-torch.maximum(a[:, :2], b[:, :2])).clamp(0).prod(-1),
    (torch.maximum(a[:, 2:], b[:, 2:])-torch.minimum(a[:, :2], b[:, :2])).prod(-1),
    (a[:, 2:]-a[:, :2]).prod(-1)+(b[:, 2:]-b[:, :2]).prod(-1)-(torch.minimum(a[:, 2:], b[:, 2:])-torch.maximum(a[:, :2], b[:, :2])).clamp(0).prod(-1)),
    (lambda p, s: torch.cat([p, p+s], -1))(torch.rand(8192, 2), torch.rand(8192, 2)+.1), (lambda p, s: torch.cat([p, p+s], -1))(torch.rand(8192, 2), torch.rand(8192, 2)+.1))
add("soft_nms_decay", lambda b, s: (lambda w: s*torch.exp(-((w.prod(-1)/((b[:, 2:]-b[:, :2]).prod(-1)[:, None]+.5))**2).triu(1).amax(0)/.5))
    ((torch.minimum(b[:, None, 2:], b[None, :, 2:])-torch.maximum(b[:, None, :2], b[None, :, :2])).clamp(min=0)), torch.rand(512, 4).sort(-1)[0], torch.rand(512))
add("tversky", lambda x, t: (lambda p: 1-((p*t).sum((1, 2))+1)/((p*t).sum((1, 2))+.3*(p*(1-t)).sum((1, 2))+.7*((1-p)*t).sum((1, 2))+1))(x.sigmoid()),
    randn(16, 128, 128), (torch.rand(16, 128, 128) > .5).float())
add("sup_con", lambda z, y: (lambda s, m: -((s-s.logsumexp(1, keepdim=True))*m).sum(1)/m.sum(1).clamp(min=1))
    ((F.normalize(z, dim=1)@F.normalize(z, dim=1).t()/.1).masked_fill(torch.eye(256, dtype=torch.bool), -1e9), ((y[:, None] == y) & ~torch.eye(256, dtype=torch.bool)).float()),
    randn(256, 64), ints(10, 256))
add("barlow", lambda a, b: (lambda c: ((c.diagonal()-1)**2).sum()+.005*(c**2-torch.diag_embed(c.diagonal()**2)).sum())
    (((a-a.mean(0))/a.std(0)).t()@((b-b.mean(0))/b.std(0))/512), randn(512, 128), randn(512, 128))
add("poly_focal", lambda x, t: (lambda lp: (lambda p: ((1-p)**2*-p.log()+(1-p)**3).mean())(lp.gather(1, t[:, None])[:, 0].exp()))(x.log_softmax(-1)), randn(4096, 100),
    ints(100, 4096))
add("wing_loss", lambda x, y: (lambda d: torch.where(d < 10, 10*torch.log1p(d/2), d-8.2))((x-y).abs()).mean(), randn(64, 136)*20, randn(64, 136)*20)
add("quantile_loss", lambda p, y: (lambda e: torch.maximum(torch.tensor([.1, .5, .9])*e, (torch.tensor([.1, .5, .9])-1)*e).mean((0, 1)))(y[..., None]-p),
    randn(256, 96, 3), randn(256, 96))
add("adamw_step", lambda p, g, m, v: (lambda m2, v2: (p*(1-1e-5)-1e-3*(m2/.1)/((v2/.001).sqrt()+1e-8), m2, v2))(.9*m+.1*g, .999*v+.001*g*g), randn(1000000),
    randn(1000000), randn(1000000), torch.rand(1000000))
add("nadam", lambda p, g, m, v: p-2e-3*(.9*(.9*m+.1*g)+.1*g)/((.999*v+.001*g*g).sqrt()+1e-8), randn(512, 512), randn(512, 512), randn(512, 512), torch.rand(512, 512))
add("sophia", lambda p, g, m, h: p-1e-3*torch.clamp((.96*m+.04*g)/torch.clamp(.04*h, min=1e-12), -1, 1), randn(512, 512), randn(512, 512), randn(512, 512), torch.rand(512, 512))
add("muon_scale", lambda g: (lambda x: x*max(1, 256/128)**.5*(x.norm()+1e-7).rsqrt())(g-g.mean(1, keepdim=True)), randn(256, 128))
add("wave2d", lambda u, v: 2*u-v+.1*(torch.roll(u, 1, 1)+torch.roll(u, -1, 1)+torch.roll(u, 1, 2)+torch.roll(u, -1, 2)-4*u), randn(4, 256, 256), randn(4, 256, 256))
add("heat3d", lambda x: x[:, 1:-1, 1:-1, 1:-1]+.1*(x[:, 2:, 1:-1, 1:-1]+x[:, :-2, 1:-1, 1:-1]+x[:, 1:-1, 2:, 1:-1]+x[:, 1:-1, :-2, 1:-1]+x[:, 1:-1, 1:-1, 2:]+x[:, 1:-1, 1:-1, :-2]
                                               -6*x[:, 1:-1, 1:-1, 1:-1]), randn(2, 64, 64, 64))
add("life", lambda x: (lambda n: ((n == 3) | ((n == 2) & (x == 1))).to(torch.uint8))(sum(torch.roll(x, (i, j), (-2, -1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)),
    ints(2, 4, 256, 256).to(torch.uint8))
add("gray_scott", lambda u, v: (lambda l: (u+.16*l(u)-u*v*v+.06*(1-u), v+.08*l(v)+u*v*v-.122*v))
    (lambda x: F.conv2d(F.pad(x[:, None], (1, 1, 1, 1), mode="circular"), torch.tensor([[.05, .2, .05], [.2, -1, .2], [.05, .2, .05]])[None, None])[:, 0]),
    torch.rand(4, 128, 128), torch.rand(4, 128, 128))
add("upwind", lambda q, u: q-.1*torch.where(u > 0, u*(q-torch.roll(q, 1, -1)), u*(torch.roll(q, -1, -1)-q)), randn(256, 2048), randn(256, 2048))
add("kmeans_step", lambda x, c: (lambda a: torch.zeros(16, 8).index_add(0, a, x)/torch.zeros(16).index_add(0, a, torch.ones(8192)).clamp(min=1)[:, None])
    (((x[:, None]-c)**2).sum(-1).argmin(1)), randn(8192, 8), randn(16, 8))
add("power_iter", lambda a, v: functools.reduce(lambda w, _: F.normalize(a@w, dim=0), range(5), v), randn(256, 256), randn(256))
add("gmm_logp", lambda x, m, s, w: (torch.log(w)-.5*(((x[:, None]-m)/s)**2).sum(-1)-s.log().sum(-1)).logsumexp(-1), randn(8192, 4), randn(10, 4), torch.rand(10, 4)+.5,
    torch.rand(10).softmax(0))
add("beam_step", lambda l, s: (lambda v, i: (v, i//1000, i % 1000))(*((s[:, :, None]+l.log_softmax(-1)).flatten(1).topk(4, -1))), randn(16, 4, 1000), randn(16, 4))
add("hist_joint", lambda a, b: torch.zeros(256, dtype=torch.int64).scatter_add(0, a*16+b, torch.ones(100000, dtype=torch.int64)), ints(16, 100000), ints(16, 100000))
add("cdist_l1", lambda a, b: torch.cdist(a, b, p=1), randn(256, 16), randn(512, 16))
add("dtw_row", lambda c: functools.reduce(lambda r, t: torch.minimum(r, F.pad(r, (1, 0), value=1e9)[:, :-1])+c[:, t], range(1, 8), c[:, 0].cumsum(-1)), torch.rand(64, 8, 128))
add("fourier_feat_log", lambda x: torch.cat([f(x[..., None]*2.0**torch.arange(8)*math.pi).flatten(-2) for f in (torch.sin, torch.cos)], -1), torch.rand(8192, 3))
add("chebyshev", lambda x, w: (lambda t: sum(a*w[i] for i, a in enumerate(t)))(functools.reduce(lambda t, _: t+[2*x*t[-1]-t[-2]], range(6), [torch.ones_like(x), x])),
    torch.rand(100000)*2-1, randn(8))
add("drop_path_eval", lambda x, y, g: x+F.dropout(y, .2, training=False)*g, randn(8, 197, 384), randn(8, 197, 384), randn(384))
add("group_shuffle_dw", lambda x, w: F.conv2d(x.view(4, 4, 16, 28, 28).transpose(1, 2).reshape(4, 64, 28, 28), w, padding=1, groups=64), randn(4, 64, 28, 28), randn(64, 1, 3, 3))
add("lstm_peephole", lambda g, c, w: (lambda i, f, z, o: (lambda n: (torch.sigmoid(o+w[2]*n)*torch.tanh(n), n))(torch.sigmoid(f+w[1]*c)*c+torch.sigmoid(i+w[0]*c)*torch.tanh(z)))
    (*g.chunk(4, -1)), randn(64, 2048), randn(64, 512), randn(3, 512))
add("pad_embed_mean", lambda e, i: (lambda m: (F.embedding(i, e, padding_idx=0)*m[..., None]).sum(1)/m.sum(1, keepdim=True).clamp(min=1))((i != 0).float()), randn(5000, 64),
    ints(5000, 64, 32))
add("complex_mag_phase", lambda x: (x.abs(), x.angle()), torch.complex(randn(256, 512), randn(256, 512)))
add("complex_rot", lambda x, p: torch.polar(x.abs(), x.angle()+p), torch.complex(randn(256, 512), randn(256, 512)), randn(256, 512))
add("interleave_last", lambda a, b: torch.stack([a*b, a-b], -1).flatten(-2), randn(512, 512), randn(512, 512))
add("every_other_write", lambda x, y: (lambda z: [z.__setitem__((slice(None), slice(None, None, 2)), y), z][1])(x*1), randn(512, 1024), randn(512, 512))
add("avg_pairs", lambda x: (x[:, ::2]+x[:, 1::2])*.5, randn(512, 2048))
add("haar", lambda x: torch.cat([(x[..., ::2]+x[..., 1::2])*.7071, (x[..., ::2]-x[..., 1::2])*.7071], -1), randn(256, 4096))
add("haar_inverse", lambda x: (lambda a, d: torch.stack([(a+d)*.7071, (a-d)*.7071], -1).flatten(-2))(*x.chunk(2, -1)), randn(256, 4096))
add("stereo_mix", lambda x: (x[:, 0]*.7+x[:, 1]*.3, (x[:, 0]-x[:, 1]).abs().amax()), randn(200000, 2))


# Each also in bfloat16; masks, scans, points and boxes.
def both(name, f, *args):
    add(name, f, *args)
    add(name+"_bf16", f, *[t.bfloat16() if t.is_floating_point() else t for t in args])


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def box_iou(a, b):
    def area(t): return (t[:, 2]-t[:, 0])*(t[:, 3]-t[:, 1])
    wh = (torch.min(a[:, None, 2:], b[:, 2:])-torch.max(a[:, None, :2], b[:, :2])).clamp(min=0)
    inter = wh[:, :, 0]*wh[:, :, 1]
    return inter/(area(a)[:, None]+area(b)-inter)


def boxes(n):
    p = torch.rand(n, 2)*4
    return torch.cat([p, p+torch.rand(n, 2)+.05], -1)


both("rope_partial", lambda x, c, s: torch.cat([x[..., :32]*c+rotate_half(x[..., :32])*s, x[..., 32:]], -1), randn(2, 16, 256, 96), randn(256, 32), randn(256, 32))
both("rope_positions", lambda x, c, s, p: (lambda c, s: x*c[:, None]+rotate_half(x)*s[:, None])(c[p], s[p]), randn(4, 16, 128, 64), randn(2048, 64), randn(2048, 64), ints(2048, 4, 128))
both("rope_then_cache", lambda q, c, s, cache: (lambda r: torch.cat([cache, r], 2))(q*c+rotate_half(q)*s), randn(4, 8, 1, 64), randn(1, 64), randn(1, 64), randn(4, 8, 1023, 64))
both("rope_2d", lambda x, c, s: torch.cat([t*c[i]+rotate_half(t)*s[i] for i, t in enumerate(x.chunk(2, -1))], -1), randn(2, 8, 196, 64), randn(2, 196, 32), randn(2, 196, 32))
both("gqa_mask_decode", lambda q, k, v, n: (lambda s: (s.masked_fill(torch.arange(1024) >= n[:, None, None, None, None], float("-inf")).softmax(-1)@v[:, :, None]))
     (q.view(4, 4, 4, 1, 64)@k[:, :, None].transpose(-1, -2)*.125), randn(4, 16, 1, 64), randn(4, 4, 1024, 64), randn(4, 4, 1024, 64), ints(1000, 4)+1)
both("alibi_softmax", lambda s, m: (s+m[:, None, None]*torch.arange(512)).masked_fill(torch.ones(512, 512, dtype=torch.bool).triu(1), float("-inf")).softmax(-1), randn(2, 8, 512, 512), randn(8))
both("attn_probs_mask_bool", lambda s, m: s.masked_fill(~m, torch.finfo(s.dtype).min).softmax(-1), randn(4, 8, 128, 384), torch.rand(4, 1, 128, 384) > .2)
both("gn_silu_tokens", lambda x, a, b: F.silu(F.group_norm(x.transpose(1, 2), 32, a, b)).transpose(1, 2), randn(2, 1024, 128), randn(128), randn(128))
add("matrix_nms", lambda b, s: (lambda i: (lambda c: s*((1-i)/(1-c[:, None]+1e-6)).amin(0))(i.amax(0)))(box_iou(b, b).triu(1)), boxes(500), torch.rand(500))
add("dfl_decode", lambda x: (x.view(2, 4, 16, 8400).transpose(1, 2).softmax(1)*torch.arange(16.)[:, None, None]).sum(1), randn(2, 64, 8400))
add("cmvn", lambda x, m: (lambda n, mu: (lambda v: (x-mu)/(v+1e-5).sqrt()*m[..., None])((((x-mu)*m[..., None])**2).sum(1, keepdim=True)/n))(m.sum(1)[:, None, None], (x*m[..., None]).sum(1, keepdim=True)/m.sum(1)[:, None, None]), randn(8, 500, 80), (torch.arange(500)[None] < ints(400, 8)[:, None]+100).float())
add("upsample_linear_ac", lambda x: F.interpolate(x, scale_factor=2, mode="linear", align_corners=True), randn(8, 64, 500))
add("up_bilinear_ac", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), randn(2, 32, 64, 64))
add("bincount", lambda i: torch.bincount(i, minlength=512), ints(512, 200000))
add("hist_batched", lambda x: torch.zeros(16, 64).scatter_add(1, (x*64).long().clamp(0, 63), torch.ones(16, 10000)), torch.rand(16, 10000))
add("cumsum_flip", lambda r: r.flip(-1).cumsum(-1).flip(-1), randn(256, 1024))
add("logcumsumexp", lambda x: x.logcumsumexp(-1), randn(256, 1024))
add("ragged_mean", lambda x, o: (lambda c: (c[o[1:]]-c[o[:-1]])/(o[1:]-o[:-1])[:, None])(torch.cat([torch.zeros(1, 64), x.cumsum(0)])), randn(8192, 64), torch.arange(0, 8193, 32))
both("int4_matvec", lambda x, q, s: x@((torch.stack([q & 15, q >> 4], -1).flatten(-2).to(x.dtype)-8).view(1024, 16, 64)*s[..., None]).view(1024, 1024).t(), randn(1, 1024), ints(256, 1024, 512).to(torch.uint8), torch.rand(1024, 16))
both("space_to_depth_ln", lambda x, a, b: F.layer_norm(torch.cat([x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]], -1), (384,), a, b), randn(2, 56, 56, 96), randn(384), randn(384))
add("crf_forward", lambda e, t: functools.reduce(lambda a, k: (a[:, :, None]+t+e[:, k, None]).logsumexp(1), range(1, 10), e[:, 0]), randn(32, 10, 16), randn(16, 16))
add("point_transform", lambda p, m: p@m[:, :3, :3].transpose(1, 2)+m[:, None, :3, 3], randn(4, 20000, 3), randn(4, 4, 4))
add("project_points", lambda p, k: (lambda q: q[..., :2]/q[..., 2:].clamp(min=1e-3))(p@k.t()), randn(100000, 3), randn(3, 3))
add("skinning", lambda w, m, v: ((torch.einsum("vj,jab->vab", w, m))[:, :3, :3]@v[..., None])[..., 0], torch.rand(7000, 24), randn(24, 4, 4), randn(7000, 3))
add("yuv2rgb", lambda x: torch.einsum("bchw,dc->bdhw", x, torch.tensor([[1, 0, 1.14], [1, -.395, -.581], [1, 2.03, 0]])), torch.rand(4, 3, 256, 256))
add("color_matrix_nhwc", lambda x, m: x@m, torch.rand(4, 256, 256, 3), randn(3, 3))
add("cost_volume", lambda a, b: torch.stack([F.pad((a[..., i:]*b[..., :64-i]).mean(1), (i, 0)) for i in range(8)], 1), randn(2, 32, 48, 64), randn(2, 32, 48, 64))
add("rev_cumlogsum", lambda x: torch.logcumsumexp(x.flip(1), 1).flip(1), randn(64, 256))
add("median_filter", lambda x: F.pad(x, (2, 2), mode="reflect").unfold(-1, 5, 1).median(-1)[0], randn(64, 2000))

# Points and their rotations, splats, labels' paths, signals, losses by pairs.
add("pts_vec", lambda p,v:p@v, randn(100000,3), randn(3,1))
add("pts_dot", lambda p,v:p@v, randn(100000,3), randn(3))
add("quat_rotate", lambda q,v:(lambda w,u:v+2*torch.linalg.cross(u,torch.linalg.cross(u,v)+w*v))(q[:,:1],q[:,1:]), F.normalize(randn(50000,4),dim=-1), randn(50000,3))
add("rot6d_cols", lambda x:(lambda a:(lambda b:torch.stack([a,b,torch.linalg.cross(a,b)],-1))(F.normalize(x[:,3:]-(a*x[:,3:]).sum(-1,keepdim=True)*a,dim=-1)))(F.normalize(x[:,:3],dim=-1)), randn(50000,6))
add("lbs", lambda w,t,v:((w@t.view(24,16)).view(-1,4,4)@F.pad(v,(0,1),value=1.)[...,None])[:,:3,0], torch.rand(6890,24), randn(24,4,4), randn(6890,3))
add("cov2d", lambda J,W,S:(lambda T:T@S@T.transpose(1,2))(J@W), randn(20000,2,3), randn(20000,3,3), randn(20000,3,3))
add("sh_color", lambda c,d:(c[:,0]*.28-d[:,1:2]*c[:,1]*.48+d[:,2:]*c[:,2]*.48-d[:,:1]*c[:,3]*.48+.5).clamp(min=0), randn(50000,4,3), F.normalize(randn(50000,3),dim=-1))
add("inv3x3", lambda m:(lambda a,b,c:torch.stack([torch.linalg.cross(b,c),torch.linalg.cross(c,a),torch.linalg.cross(a,b)],-1)/(a*torch.linalg.cross(b,c)).sum(-1)[:,None,None])(m[:,0],m[:,1],m[:,2]), randn(20000,3,3))
add("outer_acc", lambda x:torch.einsum("ni,nj->nij",x,x), randn(20000,8))
add("gram3", lambda x:x.transpose(1,2)@x, randn(2000,16,3))
add("kabsch_cov", lambda a,b:(a-a.mean(1,keepdim=True)).transpose(1,2)@(b-b.mean(1,keepdim=True)), randn(512,64,3), randn(512,64,3))
add("rope_half_cat", lambda x,c,s:torch.cat([x[...,:32]*c-x[...,32:]*s,x[...,32:]*c+x[...,:32]*s],-1), randn(4,8,256,64), randn(256,32), randn(256,32))
add("alibi_soft", lambda q,s:(q+s[:,None,None]*(torch.arange(256)[None]-torch.arange(256)[:,None])).softmax(-1), randn(8,256,256), torch.rand(8))
add("topk_softmax", lambda x:torch.where(x>=x.topk(8,-1)[0][...,-1:],x,float("-inf")).softmax(-1), randn(64,1000))
add("ema_steps", lambda x:[h:=x[:,0]]+[h:=.9*h+.1*x[:,i] for i in range(1,12)], randn(64,12,256))
add("gumbel_hard", lambda x,g:(lambda y:F.one_hot(y.argmax(-1),32).float()-y.detach()+y)(((x+g)/.5).softmax(-1)), randn(2000,32), randn(2000,32))
add("multi_label", lambda x,t:F.multilabel_soft_margin_loss(x,t), randn(512,80), torch.randint(0,2,(512,80)).float())
add("cos_emb", lambda a,b:F.cosine_similarity(a[:,None],b[None],dim=-1), randn(256,64), randn(256,64))
add("huber_w", lambda a,b,w:(F.huber_loss(a,b,reduction="none")*w).sum()/w.sum(), randn(10000), randn(10000), torch.rand(10000))
add("maxpool_idx_unpool", lambda x:(lambda y,i:F.max_unpool2d(y,i,2))(*F.max_pool2d(x,2,return_indices=True)), randn(4,16,64,64))
add("unfold_patch", lambda x:F.unfold(x,3,padding=1).mean(1), randn(4,16,64,64))
add("local_resp", lambda x:F.local_response_norm(x,5), randn(4,32,32,32))
add("sobel", lambda x,k:(F.conv2d(x,k,padding=1)**2).sum(1).sqrt(), randn(4,1,128,128), randn(2,1,3,3))
add("gaussian_noise_u8", lambda x,n:(x.float()+n*10).clamp(0,255).round().to(torch.uint8), torch.randint(0,256,(4,3,128,128)).to(torch.uint8), randn(4,3,128,128))
add("mel_db", lambda x,w:10*torch.log10((w@(x**2)).clamp(min=1e-10)), randn(4,201,100), torch.rand(40,201))
add("delta", lambda x:F.conv1d(F.pad(x,(2,2),mode="replicate"),torch.arange(-2.,3.).expand(40,1,5)/10,groups=40), randn(4,40,200))
add("viterbi_step", lambda s,t,e:(lambda v,i:(v+e,i))(*(s[:,:,None]+t).max(1)), randn(64,48), randn(48,48), randn(64,48))
add("crf_norm", lambda e,t:[a:=e[:,0]]+[a:=torch.logsumexp(a[:,:,None]+t,1)+e[:,i] for i in range(1,8)], randn(32,8,24), randn(24,24))
add("edit_band", lambda x,y:(x[:,:,None]!=y[:,None]).long().cumsum(-1).amin(-1), ints(30,16,40), ints(30,16,40))
add("bits", lambda x:((x[:,None]>>torch.arange(8))&1).float()@torch.arange(8.), ints(256,20000))
add("crc_mod", lambda x:(x*31+7)%65521//3, ints(100000,50000))
add("time_feat", lambda t:torch.stack([torch.sin(t%86400/86400*6.2831853),torch.cos(t%86400/86400*6.2831853),torch.sin(t%604800/604800*6.2831853)],-1), torch.randint(0,10**9,(20000,)))
add("rank_loss", lambda s,y:(F.softplus(-(s[:,None]-s[None]))*(y[:,None]>y[None])).sum(), randn(300), torch.rand(300))
add("lambda_rank", lambda s:(1/torch.log2(s.argsort(-1,descending=True).argsort(-1).float()+2)).sum(-1), randn(64,200))
add("tan_bank", lambda x:torch.tan(x*.5), randn(100000))
add("grid_lookup1d", lambda t,x:(lambda i:(lambda f:t[i]*(1-f)+t[i+1]*f)(x*254-i))((x*254).long()), randn(256), torch.rand(100000))
