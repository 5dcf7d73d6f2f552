"""Writes models with several methods and their cases:  python3 testdata/make_methods.py [NAME...]

Each class below is one model. methods/NAME.METHOD.pt2 is a method exported as the model's forward, so that all archives
of a model give its parameters and buffers the same names. methods/NAME.case.safetensors records calls of the methods
of one eager module, one after the other. PyTorch 2.13 and nothing else.
"""

import copy
import inspect
import os
import sys
import textwrap
import types

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from record import NotRecordable, Observer, clean_archive, clone_tree, disagreements, export_archive, write_case

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {}


def model(make):
    MODELS[make.__name__] = make
    return make


@model
def cache():
    """A prompt fills a cache of keys and values, and each later token extends it."""

    class Cache(nn.Module):

        def __init__(self, heads=2, dim=4, length=8, tokens=7):
            super().__init__()
            self.heads, self.dim, self.length = heads, dim, length
            self.embed = nn.Embedding(tokens, heads * dim)
            self.qkv = nn.Linear(heads * dim, 3 * heads * dim)
            self.out = nn.Linear(heads * dim, tokens)
            self.register_buffer("k_cache", torch.zeros(1, heads, length, dim))
            self.register_buffer("v_cache", torch.zeros(1, heads, length, dim))

        def attend(self, tokens, positions, mask):
            x = self.embed(tokens)
            q, k, v = self.qkv(x).view(1, -1, 3, self.heads, self.dim).transpose(1, 3).unbind(2)
            self.k_cache.index_copy_(2, positions, k)
            self.v_cache.index_copy_(2, positions, v)
            y = F.scaled_dot_product_attention(q, self.k_cache, self.v_cache, attn_mask=mask)
            return self.out(y.transpose(1, 2).reshape(1, -1, self.heads * self.dim))

        def prefill(self, prompt):
            positions = torch.arange(prompt.shape[1])
            mask = torch.arange(self.length) <= positions.unsqueeze(1)
            return self.attend(prompt, positions, mask)

        def decode(self, token, position):
            mask = (torch.arange(self.length) <= position).view(1, -1)
            return self.attend(token, position, mask)

    rows = torch.export.Dim("rows", min=2, max=8)
    token = lambda *ids: torch.tensor([ids])
    calls = [("prefill", (token(3, 1, 4, 1),)), ("decode", (token(5), torch.tensor([4]))),
             ("decode", (token(2), torch.tensor([5]))), ("prefill", (token(6, 5),)),
             ("decode", (token(3), torch.tensor([2])))]
    return Cache().eval(), calls, {"prefill": {"prompt": {1: rows}}}


@model
def encoder_decoder():
    """One embedding, two towers: the decoder reads what the encoder returned."""

    class EncoderDecoder(nn.Module):

        def __init__(self, tokens=9, dim=8):
            super().__init__()
            self.embed = nn.Embedding(tokens, dim)
            self.encoder = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.LayerNorm(dim))
            self.query = nn.Linear(dim, dim)
            self.scale = torch.tensor([0.5, 2.0])

        def encode(self, source):
            return {"memory": self.encoder(self.embed(source)), "scale": self.scale[0] * 1}

        def decode(self, target, memory):
            q = self.query(self.embed(target))
            mixed = torch.softmax(q @ memory.transpose(-1, -2), -1) @ memory
            return (mixed * self.scale[1]) @ self.embed.weight.t()

    calls = [("encode", (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]),)),
             lambda results: ("decode", (torch.tensor([[0, 1], [2, 3]]), results[0][1][0])),
             ("encode", (torch.tensor([[8, 8, 1, 1], [0, 0, 7, 3]]),)),
             lambda results: ("decode", (torch.tensor([[4, 4], [3, 8]]), results[2][1][0]))]
    return EncoderDecoder().eval(), calls, {}


@model
def train_eval():
    """A step of training writes the weights that evaluation reads."""

    class TrainEval(nn.Module):

        def __init__(self, inputs=6, outputs=3):
            super().__init__()
            self.register_buffer("weight", torch.randn(outputs, inputs) / 3)
            self.register_buffer("bias", torch.zeros(outputs))
            self.register_buffer("mean", torch.zeros(inputs))
            self.register_buffer("variance", torch.ones(inputs))

        def step(self, x, y):
            x = F.batch_norm(x, self.mean, self.variance, training=True, momentum=0.1)
            error = F.linear(x, self.weight, self.bias) - y
            self.weight.sub_(error.t() @ x, alpha=0.1)
            self.bias.sub_(error.sum(0), alpha=0.1)
            return error.square().mean()

        def evaluate(self, x):
            x = F.batch_norm(x, self.mean, self.variance)
            return F.linear(x, self.weight, self.bias)

    x, y = torch.randn(5, 6), torch.randn(5, 3)
    calls = [("evaluate", (x,)), ("step", (x, y)), ("evaluate", (x,)), ("step", (x + 1, y)), ("evaluate", (x,))]
    return TrainEval(), calls, {}


@model
def turned():
    """A method transposes a buffer in place; the other method reads it where it lies then."""

    class Turned(nn.Module):

        def __init__(self):
            super().__init__()
            self.register_buffer("square", torch.arange(9.0).view(3, 3))

        def turn(self, x):
            self.square.t_()
            return x * 2

        def add(self, x):
            return self.square + x

    x = torch.tensor([1.0, 10.0, 100.0])
    calls = [("add", (x,)), ("turn", (x,)), ("add", (x,)), ("turn", (x,)), ("add", (x,))]
    return Turned(), calls, {}


def set_method(module, method):
    module.forward = types.MethodType(getattr(type(module), method), module)
    return module


def run_calls(module, calls):
    observer, calls_json, examples = Observer(copy.deepcopy(module), None), [], {}
    for call in calls:
        method, args = call(observer.results) if callable(call) else call
        examples.setdefault(method, clone_tree(args))
        observer.names = [f"a{i}" for i in range(len(pytree.tree_leaves(args)))]
        set_method(observer.module, method)
        calls_json.append({"method": method, **observer.observe(clone_tree(args, observer.known))})
    return calls_json, observer.files, examples


def record(name):
    module, calls, dynamic_shapes = MODELS[name]()
    for p in module.parameters():
        p.requires_grad_(False)
    calls_json, files, examples = run_calls(module, calls)
    again, again_files, _ = run_calls(module, calls)
    if found := disagreements(calls_json, files, again, again_files, 0, 0):
        raise NotRecordable(f"{name}: eager differs from itself: {found[:2]}")
    path = os.path.join(HERE, "methods", name)
    size = 0
    for method, example in examples.items():
        # export_archive copies the module, and with it the method that is its forward now.
        names = export_archive(set_method(copy.deepcopy(module), method), example, f"{path}.{method}",
                               dynamic_shapes.get(method))
        clean_archive(f"{path}.{method}.pt2", compress=True)
        size += os.path.getsize(f"{path}.{method}.pt2")
        for call in calls_json:
            if call["method"] != method:
                continue
            for a in call["args"] + call.get("after_args", []):
                a["name"] = names[int(a["name"][1:])]
    source = textwrap.dedent(inspect.getsource(MODELS[name]))
    doc = {"version": 1, "model": name, "rtol": 1.3e-6, "atol": 1e-5, "calls": calls_json, "source": source}
    write_case(path + ".case.safetensors", doc, files)
    print(f"{name}: {size + os.path.getsize(path + '.case.safetensors'):,} bytes")


def main(names):
    os.makedirs(os.path.join(HERE, "methods"), exist_ok=True)
    for name in names or MODELS:
        torch.manual_seed(20261121 + list(MODELS).index(name))
        record(name)


if __name__ == "__main__":
    main(sys.argv[1:])
