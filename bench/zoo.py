"""The models of models.py: architectures of common sizes with random weights, written out because they need torch alone.

MODELS[name] makes a module and its example arguments. QUICK are small ones, of each family.
"""
import torch
import torch.nn.functional as F
from torch import nn

BF16 = torch.bfloat16


def r(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, dtype=dtype)


def ids(*sizes, below=1000):
    return torch.randint(0, below, sizes)


# --- parts ---

def cbr(i, o, k=3, stride=1, groups=1, act=nn.ReLU):
    """Convolution, batch norm, activation."""
    return nn.Sequential(nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o), act() if act else nn.Identity())


class Residual(nn.Module):

    def __init__(self, body, shortcut=None, after=None):
        super().__init__()
        self.body, self.shortcut, self.after = body, shortcut or nn.Identity(), after or nn.Identity()

    def forward(self, x):
        return self.after(self.body(x) + self.shortcut(x))


class Cat(nn.Module):
    """The channels of all branches."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([b(x) for b in self.branches], 1)


class Pooled(nn.Module):
    """Features, the mean over pixels, a classifier."""

    def __init__(self, features, channels, classes=1000):
        super().__init__()
        self.features, self.head = features, nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class SqueezeExcite(nn.Module):

    def __init__(self, c, less, gate=nn.Sigmoid):
        super().__init__()
        self.down, self.up, self.gate = nn.Conv2d(c, less, 1), nn.Conv2d(less, c, 1), gate()

    def forward(self, x):
        return x * self.gate(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class Attention(nn.Module):

    def __init__(self, d, heads, causal=False, kv_heads=None):
        super().__init__()
        self.heads, self.kv, self.causal = heads, kv_heads or heads, causal
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d * self.kv // heads), nn.Linear(d, d * self.kv // heads)
        self.out = nn.Linear(d, d)

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        q, k, v = self.split(self.q(x), self.heads), self.split(self.k(memory), self.kv), self.split(self.v(memory), self.kv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.kv != self.heads)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A layer of a transformer: norms first, or after the sums."""

    def __init__(self, d, heads, hidden, causal=False, first=True, act=F.gelu, crosses=False):
        super().__init__()
        self.attention, self.first, self.act = Attention(d, heads, causal), first, act
        self.cross = Attention(d, heads) if crosses else None
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d) if crosses else None
        self.up, self.down = nn.Linear(d, hidden), nn.Linear(hidden, d)

    def feed(self, x):
        return self.down(self.act(self.up(x)))

    def forward(self, x, memory=None):
        if not self.first:
            x = self.n1(x + self.attention(x))
            return self.n2(x + self.feed(x))
        x = x + self.attention(self.n1(x))
        if self.cross is not None:
            x = x + self.cross(self.n3(x), memory)
        return x + self.feed(self.n2(x))


# --- vision ---

def resnet(depths, bottleneck):
    layers, i = [cbr(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, depth in enumerate(depths):
        m = 64 << stage
        o = 4 * m if bottleneck else m
        for k in range(depth):
            stride = 2 if stage > 0 and k == 0 else 1
            body = (nn.Sequential(cbr(i, m, 1), cbr(m, m, 3, stride), cbr(m, o, 1, act=None)) if bottleneck else
                    nn.Sequential(cbr(i, m, 3, stride), cbr(m, m, act=None)))
            layers.append(Residual(body, None if i == o and stride == 1 else cbr(i, o, 1, stride, act=None), nn.ReLU()))
            i = o
    return Pooled(nn.Sequential(*layers), i)


def vgg11():
    layers, i = [], 3
    for o in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
        layers += [nn.MaxPool2d(2)] if o == "M" else [nn.Conv2d(i, o, 3, padding=1), nn.ReLU()]
        i = i if o == "M" else o
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


def alexnet():
    return nn.Sequential(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(),
                         nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
                         nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(),
                         nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


def inverted(i, o, k, stride, expand, act, excite=None):
    m = i * expand
    body = ([cbr(i, m, 1, act=act)] if expand > 1 else []) + [cbr(m, m, k, stride, m, act)]
    body += ([SqueezeExcite(m, excite)] if excite else []) + [cbr(m, o, 1, act=None)]
    body = nn.Sequential(*body)
    return Residual(body) if stride == 1 and i == o else body


def mobile(stages, act, excite, first, last):
    layers, i = [cbr(3, first, 3, 2, act=act)], first
    for expand, o, n, stride, k in stages:
        for j in range(n):
            layers.append(inverted(i, o, k, stride if j == 0 else 1, expand, act, max(8, i // 4) if excite else None))
            i = o
    return Pooled(nn.Sequential(*layers, cbr(i, last, 1, act=act)), last)


def mobilenet_v2():
    return mobile([(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3), (6, 160, 3, 2, 3),
                   (6, 320, 1, 1, 3)], nn.ReLU6, False, 32, 1280)


def mobilenet_v3():
    return mobile([(1, 16, 1, 1, 3), (4, 24, 2, 2, 3), (3, 40, 3, 2, 5), (6, 80, 4, 2, 3), (6, 112, 2, 1, 3), (6, 160, 3, 2, 5)],
                  nn.Hardswish, True, 16, 960)


def efficientnet_b0():
    return mobile([(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
                   (6, 320, 1, 1, 3)], nn.SiLU, True, 32, 1280)


def squeezenet():
    def fire(i, less, o):
        return nn.Sequential(nn.Conv2d(i, less, 1), nn.ReLU(), Cat(nn.Conv2d(less, o, 1), nn.Conv2d(less, o, 3, padding=1)), nn.ReLU())
    return Pooled(nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2), fire(64, 16, 64), fire(128, 16, 64),
                                nn.MaxPool2d(3, 2), fire(128, 32, 128), fire(256, 32, 128), nn.MaxPool2d(3, 2), fire(256, 48, 192),
                                fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256)), 512)


class Shuffle(nn.Module):

    def __init__(self, c):
        super().__init__()
        h = c // 2
        self.body = nn.Sequential(cbr(h, h, 1), cbr(h, h, 3, 1, h, None), cbr(h, h, 1))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        y = torch.cat([a, self.body(b)], 1)
        return y.view(y.shape[0], 2, y.shape[1] // 2, *y.shape[2:]).transpose(1, 2).flatten(1, 2)


def shufflenet():
    def down(i, o):
        return Cat(nn.Sequential(cbr(i, i, 3, 2, i, None), cbr(i, o // 2, 1)),
                   nn.Sequential(cbr(i, o // 2, 1), cbr(o // 2, o // 2, 3, 2, o // 2, None), cbr(o // 2, o // 2, 1)))
    layers, i = [cbr(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)], 24
    for o, n in ((116, 3), (232, 7), (464, 3)):
        layers += [down(i, o)] + [Shuffle(o) for _ in range(n)]
        i = o
    return Pooled(nn.Sequential(*layers, cbr(464, 1024, 1)), 1024)


class Dense(nn.Module):

    def __init__(self, i, growth):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, 4 * growth, 1, bias=False), nn.BatchNorm2d(4 * growth),
                                  nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def densenet121():
    layers, i = [cbr(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, n in enumerate((6, 12, 24, 16)):
        layers += [Dense(i + 32 * k, 32) for k in range(n)]
        i += 32 * n
        if stage < 3:
            layers += [nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, i // 2, 1, bias=False), nn.AvgPool2d(2)]
            i //= 2
    return Pooled(nn.Sequential(*layers, nn.BatchNorm2d(i), nn.ReLU()), i)


def inception():
    def block(i, a, b, c, d):
        return Cat(cbr(i, a, 1), nn.Sequential(cbr(i, b[0], 1), cbr(b[0], b[1])), nn.Sequential(cbr(i, c[0], 1), cbr(c[0], c[1], 5)),
                   nn.Sequential(nn.MaxPool2d(3, 1, 1), cbr(i, d, 1)))
    return Pooled(nn.Sequential(cbr(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), cbr(64, 64, 1), cbr(64, 192), nn.MaxPool2d(3, 2, 1),
                                block(192, 64, (96, 128), (16, 32), 32), block(256, 128, (128, 192), (32, 96), 64), nn.MaxPool2d(3, 2, 1),
                                block(480, 192, (96, 208), (16, 48), 64), block(512, 160, (112, 224), (24, 64), 64),
                                block(512, 128, (128, 256), (24, 64), 64), nn.MaxPool2d(3, 2, 1),
                                block(512, 256, (160, 320), (32, 128), 128)), 832)


def regnet():
    layers, i = [cbr(3, 32, 3, 2)], 32
    for o, n in ((48, 2), (104, 5), (208, 7), (440, 3)):
        for k in range(n):
            stride = 2 if k == 0 else 1
            groups = o // 8
            body = nn.Sequential(cbr(i, o, 1), cbr(o, o, 3, stride, groups), SqueezeExcite(o, o // 4), cbr(o, o, 1, act=None))
            layers.append(Residual(body, None if k else cbr(i, o, 1, stride, act=None), nn.ReLU()))
            i = o
    return Pooled(nn.Sequential(*layers), i)


class ConvNeXtBlock(nn.Module):

    def __init__(self, c):
        super().__init__()
        self.conv, self.norm, self.up, self.down = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(self.conv(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)


def convnext():
    layers, i = [nn.Conv2d(3, 96, 4, 4)], 96
    for o, n in ((96, 3), (192, 3), (384, 9), (768, 3)):
        layers += [] if o == i else [nn.GroupNorm(1, i), nn.Conv2d(i, o, 2, 2)]
        layers += [ConvNeXtBlock(o) for _ in range(n)]
        i = o
    return Pooled(nn.Sequential(*layers), 768)


class ViT(nn.Module):

    def __init__(self, d, heads, layers, patch=16, size=224):
        super().__init__()
        self.patch, n = nn.Conv2d(3, d, patch, patch), (size // patch)**2
        self.first, self.places = nn.Parameter(r(1, 1, d) * .02), nn.Parameter(r(1, n + 1, d) * .02)
        self.blocks, self.norm, self.head = nn.Sequential(*[Block(d, heads, 4 * d) for _ in range(layers)]), nn.LayerNorm(d), nn.Linear(d, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = self.blocks(torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places)
        return self.head(self.norm(x)[:, 0])


class SwinBlock(nn.Module):

    def __init__(self, d, heads, size, shift):
        super().__init__()
        self.size, self.shift, self.block = size, shift, Block(d, heads, 4 * d)

    def forward(self, x):  # [n, h, w, c]
        w = 7
        n, h, _, c = x.shape
        if self.shift:
            x = torch.roll(x, (-3, -3), (1, 2))
        y = x.view(n, h // w, w, h // w, w, c).transpose(2, 3).reshape(-1, w * w, c)
        y = self.block(y).view(n, h // w, h // w, w, w, c).transpose(2, 3).reshape(n, h, h, c)
        return torch.roll(y, (3, 3), (1, 2)) if self.shift else y


class Swin(nn.Module):

    def __init__(self):
        super().__init__()
        self.patch, self.stages, self.merges = nn.Conv2d(3, 96, 4, 4), nn.ModuleList(), nn.ModuleList()
        for stage, n in enumerate((2, 2, 6, 2)):
            d = 96 << stage
            self.stages.append(nn.Sequential(*[SwinBlock(d, 3 << stage, 56 >> stage, k % 2 and stage < 3) for k in range(n)]))
            self.merges.append(nn.Linear(4 * d, 2 * d) if stage < 3 else nn.Identity())
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 3, 1)
        for k, (stage, merge) in enumerate(zip(self.stages, self.merges)):
            x = stage(x)
            if k < 3:
                x = merge(torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1))
        return self.head(self.norm(x).mean((1, 2)))


class MixerBlock(nn.Module):

    def __init__(self, tokens, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.across = nn.Sequential(nn.Linear(tokens, 256), nn.GELU(), nn.Linear(256, tokens))
        self.along = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.across(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.n2(x))


class Mixer(nn.Module):

    def __init__(self):
        super().__init__()
        self.patch, self.blocks, self.head = nn.Conv2d(3, 512, 16, 16), nn.Sequential(*[MixerBlock(196, 512) for _ in range(8)]), nn.Linear(512, 1000)

    def forward(self, x):
        return self.head(self.blocks(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


class UNet(nn.Module):

    def __init__(self, i=3, c=32, o=2):
        super().__init__()
        two = lambda a, b: nn.Sequential(cbr(a, b), cbr(b, b))
        self.down = nn.ModuleList([two(i, c), two(c, 2 * c), two(2 * c, 4 * c), two(4 * c, 8 * c)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(8 * c, 4 * c, 2, 2), nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)])
        self.join, self.head = nn.ModuleList([two(8 * c, 4 * c), two(4 * c, 2 * c), two(2 * c, c)]), nn.Conv2d(c, o, 1)

    def forward(self, x):
        kept = []
        for k, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for k, (up, join) in enumerate(zip(self.up, self.join)):
            x = join(torch.cat([up(x), kept[2 - k]], 1))
        return self.head(x)


class Segmenter(nn.Module):
    """Dilated convolutions of several rates, then resized: as DeepLab."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(cbr(3, 32, 3, 2), cbr(32, 64, 3, 2), cbr(64, 128, 3, 2), cbr(128, 256))
        self.rates = nn.ModuleList([nn.Conv2d(256, 64, 3, padding=k, dilation=k) for k in (1, 6, 12, 18)])
        self.head = nn.Conv2d(256, 21, 1)

    def forward(self, x):
        y = self.features(x)
        y = self.head(F.relu(torch.cat([c(y) for c in self.rates], 1)))
        return F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


class Detector(nn.Module):
    """Features of three sizes, boxes and scores: as YOLO."""

    def __init__(self, c=16):
        super().__init__()
        act = nn.SiLU
        def stage(i, o, n):
            return nn.Sequential(cbr(i, o, 3, 2, act=act), *[Residual(nn.Sequential(cbr(o, o, 1, act=act), cbr(o, o, act=act))) for _ in range(n)])
        self.a, self.b, self.c, self.d = nn.Sequential(cbr(3, c, 3, 2, act=act), stage(c, 2 * c, 1)), stage(2 * c, 4 * c, 2), stage(4 * c, 8 * c, 2), stage(8 * c, 16 * c, 1)
        self.j1, self.j2 = cbr(24 * c, 8 * c, 1, act=act), cbr(12 * c, 4 * c, 1, act=act)
        self.heads = nn.ModuleList([nn.Conv2d(k * c, 84, 1) for k in (4, 8, 16)])

    def forward(self, x):
        b = self.b(self.a(x))
        c = self.c(b)
        d = self.d(c)
        c = self.j1(torch.cat([F.interpolate(d, scale_factor=2.0, mode="nearest"), c], 1))
        b = self.j2(torch.cat([F.interpolate(c, scale_factor=2.0, mode="nearest"), b], 1))
        y = torch.cat([h(f).flatten(2) for h, f in zip(self.heads, (b, c, d))], 2)
        return torch.cat([y[:, :4].exp(), y[:, 4:].sigmoid()], 1)


def edsr(c=64, n=8):
    return nn.Sequential(nn.Conv2d(3, c, 3, padding=1),
                         Residual(nn.Sequential(*[Residual(nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1)))
                                                  for _ in range(n)])), nn.Conv2d(c, 4 * c, 3, padding=1), nn.PixelShuffle(2),
                         nn.Conv2d(c, 3, 3, padding=1))


def generator():
    layers, i = [nn.ConvTranspose2d(100, 512, 4, 1, 0, bias=False), nn.BatchNorm2d(512), nn.ReLU()], 512
    for o in (256, 128, 64):
        layers += [nn.ConvTranspose2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
        i = o
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())


def style_transfer():
    def cir(i, o, k, stride):
        return nn.Sequential(nn.ReflectionPad2d(k // 2), nn.Conv2d(i, o, k, stride), nn.InstanceNorm2d(o, affine=True), nn.ReLU())
    return nn.Sequential(cir(3, 32, 9, 1), cir(32, 64, 3, 2), cir(64, 128, 3, 2), *[Residual(nn.Sequential(cir(128, 128, 3, 1), cir(128, 128, 3, 1))) for _ in range(3)],
                         nn.Upsample(scale_factor=2), cir(128, 64, 3, 1), nn.Upsample(scale_factor=2), cir(64, 32, 3, 1), nn.Conv2d(32, 3, 9, padding=4))


class Diffusion(nn.Module):
    """A U-Net with group norms, a time and attention in the middle."""

    def __init__(self, c=96):
        super().__init__()
        def block(i, o):
            return nn.ModuleList([nn.GroupNorm(8, i), nn.Conv2d(i, o, 3, padding=1), nn.Linear(4 * c, o), nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1), nn.Conv2d(i, o, 1)])
        self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        self.first, self.last = nn.Conv2d(4, c, 3, padding=1), nn.Conv2d(c, 4, 3, padding=1)
        self.blocks = nn.ModuleList([block(c, c), block(c, 2 * c), block(2 * c, 2 * c), block(3 * c, c)])
        self.middle, self.c = Attention(2 * c, 6), c

    def res(self, b, x, t):
        y = b[1](F.silu(b[0](x))) + b[2](F.silu(t))[:, :, None, None]
        return b[4](F.silu(b[3](y))) + b[5](x)

    def forward(self, x, t):
        f = t[:, None] * torch.exp(torch.arange(self.c // 2) * -.2)
        t = self.time(torch.cat([f.sin(), f.cos()], 1))
        a = self.res(self.blocks[0], self.first(x), t)
        y = self.res(self.blocks[1], F.avg_pool2d(a, 2), t)
        n, c, h, w = y.shape
        y = y + self.middle(y.flatten(2).transpose(1, 2)).transpose(1, 2).view(n, c, h, w)
        y = F.interpolate(self.res(self.blocks[2], y, t), scale_factor=2.0)
        return self.last(self.res(self.blocks[3], torch.cat([y, a], 1), t))


# --- language ---

class Encoder(nn.Module):

    def __init__(self, d, heads, layers, words=30522, classes=2):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(words, d), nn.Embedding(512, d), nn.LayerNorm(d)
        self.blocks, self.head = nn.Sequential(*[Block(d, heads, 4 * d, first=False) for _ in range(layers)]), nn.Linear(d, classes)

    def forward(self, x):
        x = self.norm(self.words(x) + self.places(torch.arange(x.shape[1])))
        return self.head(self.blocks(x)[:, 0])


class GPT(nn.Module):

    def __init__(self, d, heads, layers, words=50257):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(words, d), nn.Embedding(1024, d), nn.LayerNorm(d)
        self.blocks = nn.Sequential(*[Block(d, heads, 4 * d, causal=True) for _ in range(layers)])

    def forward(self, x):
        x = self.blocks(self.words(x) + self.places(torch.arange(x.shape[1])))
        return self.norm(x)[:, -1] @ self.words.weight.t()


class RMSNorm(nn.Module):

    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        f = x.float()
        return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.w


class LlamaLayer(nn.Module):

    def __init__(self, d, heads, kv, hidden, experts=0):
        super().__init__()
        self.heads, self.kv, self.d = heads, kv, d // heads
        lin = lambda i, o: nn.Linear(i, o, bias=False)
        self.q, self.k, self.v, self.o = lin(d, d), lin(d, kv * self.d), lin(d, kv * self.d), lin(d, d)
        self.n1, self.n2 = RMSNorm(d), RMSNorm(d)
        self.gate, self.up, self.down = lin(d, hidden), lin(d, hidden), lin(hidden, d)

    def turn(self, x, angle):
        a, b = x.chunk(2, -1)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x, at, keys, values):
        h = self.n1(x)
        n, s, _ = h.shape
        angle = at[:, None].float() * torch.exp(torch.arange(self.d // 2) * -.14)
        q = self.turn(self.q(h).view(n, s, self.heads, -1).transpose(1, 2), angle)
        k = self.turn(self.k(h).view(n, s, self.kv, -1).transpose(1, 2), angle)
        keys = torch.index_copy(keys, 2, at, k)
        values = torch.index_copy(values, 2, at, self.v(h).view(n, s, self.kv, -1).transpose(1, 2))
        mask = torch.arange(keys.shape[2]) <= at[:, None]
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """A decoder with a cache of 512 places: `at` are those of the tokens."""

    def __init__(self, d=1024, heads=16, kv=4, hidden=2816, layers=6, words=32000):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(words, d), RMSNorm(d), nn.Linear(d, words, bias=False)
        self.layers = nn.ModuleList([LlamaLayer(d, heads, kv, hidden) for _ in range(layers)])
        self.register_buffer("keys", r(layers, 1, kv, 512, d // heads))
        self.register_buffer("values", r(layers, 1, kv, 512, d // heads))

    def forward(self, x, at):
        x = self.words(x)
        for k, layer in enumerate(self.layers):
            x = layer(x, at, self.keys[k], self.values[k])
        return self.head(self.norm(x)[:, -1])


class T5(nn.Module):

    def __init__(self, d=512, layers=6, words=32128):
        super().__init__()
        self.words = nn.Embedding(words, d)
        self.encoder = nn.Sequential(*[Block(d, 8, 4 * d, act=F.relu) for _ in range(layers)])
        self.decoder = nn.ModuleList([Block(d, 8, 4 * d, causal=True, act=F.relu, crosses=True) for _ in range(layers)])

    def forward(self, x, y):
        x, y = self.encoder(self.words(x)), self.words(y)
        for layer in self.decoder:
            y = layer(y, x)
        return y[:, -1] @ self.words.weight.t()


class Experts(nn.Module):
    """A layer of top-2 of 8 experts behind attention."""

    def __init__(self, d=512, experts=8):
        super().__init__()
        self.attention, self.norm, self.gate = Attention(d, 8, causal=True), nn.LayerNorm(d), nn.Linear(d, experts)
        self.up, self.down = nn.Parameter(r(experts, 4 * d, d) * .04), nn.Parameter(r(experts, d, 4 * d) * .02)

    def forward(self, x):
        x = x + self.attention(x)
        h = self.norm(x)
        weight, which = self.gate(h).softmax(-1).topk(2, -1)
        chosen = torch.zeros_like(self.gate(h)).scatter(-1, which, weight / weight.sum(-1, keepdim=True))
        y = torch.einsum("bsd,ehd->ebsh", h, self.up)
        y = torch.einsum("ebsh,edh->ebsd", F.gelu(y), self.down)
        return x + torch.einsum("ebsd,bse->bsd", y, chosen)


# --- sound, series ---

class Recurrent(nn.Module):

    def __init__(self, kind, i, hidden, layers, out, both=False):
        super().__init__()
        self.cells = kind(i, hidden, layers, batch_first=True, bidirectional=both)
        self.head = nn.Linear(hidden * (2 if both else 1), out)

    def forward(self, x):
        return self.head(self.cells(x)[0])


class Whisper(nn.Module):

    def __init__(self, d=384, layers=4):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(80, d, 3, padding=1), nn.Conv1d(d, d, 3, 2, 1)
        self.blocks, self.norm = nn.Sequential(*[Block(d, 6, 4 * d) for _ in range(layers)]), nn.LayerNorm(d)

    def forward(self, x):
        return self.norm(self.blocks(F.gelu(self.c2(F.gelu(self.c1(x)))).transpose(1, 2)))


class ConformerBlock(nn.Module):

    def __init__(self, d):
        super().__init__()
        feed = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
        self.f1, self.f2, self.attention = feed(), feed(), Attention(d, 4)
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.conv = nn.Sequential(nn.Conv1d(d, 2 * d, 1), nn.GLU(1), nn.Conv1d(d, d, 31, padding=15, groups=d), nn.BatchNorm1d(d), nn.SiLU(), nn.Conv1d(d, d, 1))

    def forward(self, x):
        x = x + .5 * self.f1(x)
        x = x + self.attention(self.n1(x))
        x = x + self.conv(self.n2(x).transpose(1, 2)).transpose(1, 2)
        return self.n3(x + .5 * self.f2(x))


def wav2vec():
    layers, i = [], 1
    for o, k, stride in ((256, 10, 5), (256, 3, 2), (256, 3, 2), (256, 3, 2), (256, 2, 2)):
        layers += [nn.Conv1d(i, o, k, stride), nn.GroupNorm(1, o), nn.GELU()]
        i = o
    return nn.Sequential(*layers)


class WaveNet(nn.Module):

    def __init__(self, c=64):
        super().__init__()
        self.first, self.last = nn.Conv1d(1, c, 1), nn.Conv1d(c, 256, 1)
        self.pairs = nn.ModuleList([nn.Conv1d(c, 2 * c, 2, dilation=1 << k) for k in range(8)])
        self.outs = nn.ModuleList([nn.Conv1d(c, c, 1) for _ in range(8)])

    def forward(self, x):
        x, total = self.first(x), 0
        for k, (pair, out) in enumerate(zip(self.pairs, self.outs)):
            a, b = pair(F.pad(x, (1 << k, 0))).chunk(2, 1)
            y = out(a.tanh() * b.sigmoid())
            x, total = x + y, total + y
        return self.last(F.relu(total))


def pitch():
    layers, i = [], 1
    for o, k in ((256, 128), (32, 64), (32, 64), (128, 64)):
        layers += [nn.Conv2d(i, o, (k, 1), (4 if i == 1 else 1, 1), (k // 2, 0)), nn.ReLU(), nn.MaxPool2d((2, 1))]
        i = o
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(360), nn.Sigmoid())


def tcn(c=64):
    return nn.Sequential(nn.Conv1d(16, c, 1), *[Residual(nn.Sequential(nn.Conv1d(c, c, 3, padding=1 << k, dilation=1 << k), nn.ReLU(), nn.Conv1d(c, c, 1)))
                                                for k in range(6)], nn.Conv1d(c, 16, 1))


# --- tables, points, graphs ---

class DLRM(nn.Module):

    def __init__(self, tables=26, rows=10000, d=64):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(rows, d) for _ in range(tables)])
        self.low = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, d), nn.ReLU())
        n = (tables + 1) * tables // 2
        self.high = nn.Sequential(nn.Linear(n + d, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, x, which):
        x = self.low(x)
        v = torch.stack([x] + [t(which[:, k]) for k, t in enumerate(self.tables)], 1)
        dots = v @ v.transpose(1, 2)
        return self.high(torch.cat([x, dots[:, self.pairs[0], self.pairs[1]]], 1)).sigmoid()


class DeepFM(nn.Module):

    def __init__(self, fields=39, d=16):
        super().__init__()
        self.table, self.first = nn.Embedding(100000, d), nn.Embedding(100000, 1)
        self.deep = nn.Sequential(nn.Linear(fields * d, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1))

    def forward(self, x):
        v = self.table(x)
        pairs = .5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1, keepdim=True)
        return (self.first(x).sum(1) + pairs + self.deep(v.flatten(1))).sigmoid()


class SASRec(nn.Module):

    def __init__(self, d=128):
        super().__init__()
        self.items, self.blocks = nn.Embedding(20000, d), nn.Sequential(*[Block(d, 2, d, causal=True) for _ in range(2)])

    def forward(self, x):
        return self.blocks(self.items(x))[:, -1] @ self.items.weight.t()


class PointNet(nn.Module):

    def __init__(self):
        super().__init__()
        cb = lambda i, o: nn.Sequential(nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU())
        self.points, self.head = nn.Sequential(cb(3, 64), cb(64, 128), cb(128, 1024)), nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, x):
        return self.head(self.points(x).amax(2))


class GraphNet(nn.Module):
    """Two layers over edges: rows are gathered, added up where they end, and normalized."""

    def __init__(self, d=128):
        super().__init__()
        self.a, self.b = nn.Linear(256, d), nn.Linear(d, 16)

    def spread(self, x, edges):
        ones = torch.ones(edges.shape[1])
        degree = torch.zeros(x.shape[0]).index_add(0, edges[1], ones).clamp(min=1)
        return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]) / degree[:, None]

    def forward(self, x, edges):
        return self.spread(self.b(F.relu(self.spread(self.a(x), edges))), edges).log_softmax(1)


class NeRF(nn.Module):

    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(63, 256), nn.ReLU(), *[k for _ in range(4) for k in (nn.Linear(256, 256), nn.ReLU())])
        self.b = nn.Sequential(nn.Linear(319, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))

    def forward(self, x):
        f = (x[:, :, None] * 2.0**torch.arange(10)).flatten(1)
        x = torch.cat([x, f.sin(), f.cos()], 1)
        return self.b(torch.cat([self.a(x), x], 1))


def mlp(*sizes):
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


IMAGE = lambda n=1, size=224: (r(n, 3, size, size),)
MODELS = {
    "ResNet-18": lambda: (resnet((2, 2, 2, 2), False), IMAGE()),
    "ResNet-50": lambda: (resnet((3, 4, 6, 3), True), IMAGE()),
    "ResNet-50, batch 8": lambda: (resnet((3, 4, 6, 3), True), IMAGE(8)),
    "VGG-11": lambda: (vgg11(), IMAGE()),
    "AlexNet": lambda: (alexnet(), IMAGE()),
    "MobileNetV2": lambda: (mobilenet_v2(), IMAGE()),
    "MobileNetV3": lambda: (mobilenet_v3(), IMAGE()),
    "EfficientNet-B0": lambda: (efficientnet_b0(), IMAGE()),
    "SqueezeNet": lambda: (squeezenet(), IMAGE()),
    "ShuffleNetV2": lambda: (shufflenet(), IMAGE()),
    "DenseNet-121": lambda: (densenet121(), IMAGE()),
    "Inception-shaped": lambda: (inception(), IMAGE()),
    "RegNet-Y-shaped": lambda: (regnet(), IMAGE()),
    "ConvNeXt-T": lambda: (convnext(), IMAGE()),
    "ViT-S/16": lambda: (ViT(384, 6, 12), IMAGE()),
    "ViT-B/16": lambda: (ViT(768, 12, 12), IMAGE()),
    "Swin-T": lambda: (Swin(), IMAGE()),
    "MLP-Mixer-S": lambda: (Mixer(), IMAGE()),
    "U-Net 256": lambda: (UNet(), IMAGE(1, 256)),
    "DeepLab-shaped 256": lambda: (Segmenter(), IMAGE(1, 256)),
    "YOLO-shaped 416": lambda: (Detector(), IMAGE(1, 416)),
    "EDSR 96": lambda: (edsr(), IMAGE(1, 96)),
    "DCGAN generator": lambda: (generator(), (r(8, 100, 1, 1),)),
    "style transfer 128": lambda: (style_transfer(), IMAGE(1, 128)),
    "diffusion U-Net 32": lambda: (Diffusion(), (r(1, 4, 32, 32), torch.tensor([17.0]))),
    "BERT-base 128": lambda: (Encoder(768, 12, 12), (ids(1, 128),)),
    "DistilBERT 64": lambda: (Encoder(768, 12, 6), (ids(1, 64),)),
    "MiniLM 32, batch 8": lambda: (Encoder(384, 12, 6), (ids(8, 32),)),
    "GPT-2 prefill 128": lambda: (GPT(768, 12, 12), (ids(1, 128),)),
    "Llama-shaped decode": lambda: (Llama(), (ids(1, 1), torch.tensor([200]))),
    "Llama-shaped prefill 128": lambda: (Llama(), (ids(1, 128), torch.arange(128))),
    "Llama-shaped decode, bf16": lambda: (Llama().to(BF16), (ids(1, 1), torch.tensor([200]))),
    "Llama-shaped prefill 128, bf16": lambda: (Llama().to(BF16), (ids(1, 128), torch.arange(128))),
    "T5-small 64": lambda: (T5(), (ids(1, 64), ids(1, 16))),
    "experts, 64 tokens": lambda: (Experts(), (r(1, 64, 512),)),
    "LSTM stack": lambda: (Recurrent(nn.LSTM, 128, 256, 2, 10), (r(4, 64, 128),)),
    "GRU, both ways": lambda: (Recurrent(nn.GRU, 161, 256, 2, 29, both=True), (r(1, 100, 161),)),
    "Whisper-tiny encoder": lambda: (Whisper(), (r(1, 80, 3000),)),
    "Conformer 4 layers": lambda: (nn.Sequential(*[ConformerBlock(144) for _ in range(4)]), (r(1, 200, 144),)),
    "wav2vec features": lambda: (wav2vec(), (r(1, 1, 16000),)),
    "WaveNet": lambda: (WaveNet(), (r(1, 1, 2048),)),
    "pitch network": lambda: (pitch(), (r(4, 1, 1024, 1),)),
    "TCN": lambda: (tcn(), (r(8, 16, 256),)),
    "DLRM, batch 64": lambda: (DLRM(), (r(64, 13), ids(64, 26, below=10000))),
    "DeepFM, batch 256": lambda: (DeepFM(), (ids(256, 39, below=100000),)),
    "SASRec": lambda: (SASRec(), (ids(4, 50, below=20000),)),
    "PointNet": lambda: (PointNet(), (r(2, 3, 1024),)),
    "graph network": lambda: (GraphNet(), (r(2000, 256), ids(2, 10000, below=2000))),
    "NeRF, 4096 points": lambda: (NeRF(), (r(4096, 3),)),
    "MLP 784": lambda: (mlp(784, 512, 256, 10), (r(32, 784),)),
    "autoencoder": lambda: (mlp(784, 1024, 256, 32, 256, 1024, 784), (r(64, 784),)),
}
# One of each family, small enough for a quick look.
QUICK = ["MobileNetV3", "ViT-S/16", "MiniLM 32, batch 8", "LSTM stack", "TCN", "DLRM, batch 64", "MLP 784"]
