"""Random functions for watch.py, as TorchScript's compiler and tracer print them.

Each is written statement by statement: a statement stays if the function then still runs, eagerly, on all arrangements of
arguments of their own memory.
"""

import contextlib
import copy
import importlib.util
import os
import random
import signal
import sys
import tempfile
import warnings

import torch

PRELUDE = '''
import torch
from typing import Dict, List, NamedTuple, Optional, Tuple
from torch import Tensor


class Pair(NamedTuple):
    a: Tensor
    b: Tensor


def first_row(x: Tensor) -> Tensor:
    return x[0]


def push(l: List[Tensor], x: Tensor) -> Tensor:
    l.append(x)
    return l[0]


def bump(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return y


def pick(x: Tensor, y: Tensor, c: bool) -> Tensor:
    if c:
        return x
    return y


def both(x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    return x.flatten(), y + 1


def nest(x: Tensor) -> List[List[Tensor]]:
    return [[x], [x + 1, x.t()]]


def put_in(d: Dict[str, Tensor], x: Tensor) -> Optional[Tensor]:
    d["z"] = x
    return d.get("a")


def last(l: List[Tensor]) -> Tensor:
    return l[-1]


def twice(x: Tensor) -> Tensor:
    y = x * 2
    y.add_(1)
    return y


def share(x: Tensor) -> Tuple[Tensor, List[Tensor]]:
    return x, [x, x[0]]


@torch.jit.script
class Box:
    def __init__(self, t: Tensor):
        self.t = t
        self.l = [t]

    def put(self, t: Tensor):
        self.l.append(t)
        self.t = t

    def get(self) -> Tensor:
        return self.t

    def swap(self, t: Tensor) -> Tensor:
        old = self.t
        self.t = t
        return old

    def bump(self):
        self.t.add_(1)


@torch.jit.script
class Wrap:
    def __init__(self, box: Box, t: Tensor):
        self.box = box
        self.d = {"k": t}

    def keep(self, t: Tensor) -> Tensor:
        old = self.d["k"]
        self.d["k"] = t
        self.box.t = old
        return old

'''

VIEWS = '''{T}[0] {T}[1] {T}[{I}] {T}[0:2] {T}[1:] {T}[{I}:] {T}[::2] {T}[1::2] {T}[:,{K}] {T}[...,{K}] {T}[:,1:] {T}[None] {T}.t()
{T}.select({d},{I}) {T}.select({d},{K}) {T}.narrow({d},{K},1) {T}.narrow(0,{I},2) {T}.transpose(0,1) {T}.transpose(-1,-2)
{T}.permute(1,0) {T}.permute(0,2,1) {T}.expand(2,4,4) {T}.expand(-1,-1) {T}.view(-1) {T}.view(2,-1) {T}.view({T}.size()) {T}.reshape(-1)
{T}.reshape(2,-1) {T}.reshape(4,4) {T}.reshape_as({T}) {T}.view_as({T}) {T}.expand_as({T}) {T}.flatten() {T}.flatten(0,1) {T}.ravel()
{T}.diagonal() {T}.diagonal(1) torch.diagonal({T},{K},0,1) {T}.squeeze() {T}.squeeze(0) {T}.unsqueeze({d}) {T}.unsqueeze(-1)
{T}.unfold(0,2,1) {T}.unfold(0,2,2) {T}.as_strided([2,2],[4,1]) {T}.as_strided([2,2],[4,1],8) {T}.as_strided([4],[1],{K}) {T}.as_strided([2,2],[1,1])
{T}.detach() {T}.contiguous() {T}.to(torch.float32) {T}.to(torch.float64) {T}.to("cpu") {T}.to({T}) {T}.cpu() {T}.float() {T}.double() {T}.type_as({T})
{T}.conj() torch.conj({T}) {T}.resolve_conj() {T}.resolve_neg() torch.real({T}) {T}.view(torch.int32) {T}.view(torch.uint8) {T}.view(torch.float32)
torch.view_as_real(torch.view_as_complex({T}.reshape(-1,2))) torch.atleast_1d({T}) torch.atleast_2d({T}) torch.atleast_3d({T})
torch.movedim({T},0,1) torch.moveaxis({T},0,-1) torch.swapaxes({T},0,1) torch.swapdims({T},0,1) {T}.adjoint() {T}.mT {T}.T {T}.H {T}.mH
torch.broadcast_to({T},[4,4]) torch.broadcast_to({T},[2,4,4]) {T}.sum_to_size(4,4) {T}.sum_to_size(1,4) torch.einsum("ij->ji",{T}) torch.einsum("ii->i",{T})
torch.einsum("ij,jk->ik",{T},{T}) torch.einsum("...->...",[{T}]) torch.dropout({T},0.5,False) torch.dropout({T},0.0,True) torch.nn.functional.dropout({T},0.5,False)
torch.feature_dropout({T},0.5,False) torch.alpha_dropout({T},0.5,False) {T}.unflatten(0,[2,2]) {T}.unflatten(0,[2,-1]) torch.squeeze({T},[0,1])
{T}.positive() torch._unsafe_view({T},[-1]) torch.alias_copy({T}) torch.view_copy({T},[-1]) {T}.clone() {T}.data
torch._conj({T}) torch._neg_view({T}) torch.ops.aten.alias({T}) torch.ops.aten.lift({T}) {T}.coalesce() {T}.masked_select({T}>0)
{T}.split(2)[0] {T}.chunk(2)[1] {T}.unbind(0)[1] {T}.tensor_split(2)[0] {T}.hsplit(2)[1] {T}.vsplit(2)[0] torch.split({T},[1,3])[1] torch.split({T},[1,3],1)[0]
torch.unsafe_chunk({T},2)[0] torch.unsafe_split({T},2)[1] torch.meshgrid([{T}[0],{T}[0]])[0] torch.broadcast_tensors([{T},{T}])[1]
torch.select_scatter({T},{T}[0],0,1) torch.slice_scatter({T},{T}[0:1],0,0,1) torch.diagonal_scatter({T},{T}[0]) {T}.index_select(0,torch.tensor([0,1]))
torch.ops.aten._to_copy({T}) {T}.to({T}.device) {T}.to(torch.float32,copy=True) {T}.to(torch.float32,copy={C}) {T}.type(torch.float32) torch.block_diag([{T}])
torch.cartesian_prod([{T}.flatten()]) torch.chain_matmul([{T}]) torch.linalg.multi_dot([{T},{T}]) torch.combinations({T}[0]) torch.cat([{T}]) torch.concat([{T},{T}])
torch.stack([{T}]) torch.hstack([{T},{T}]) torch.vstack([{T}]) torch.squeeze({T}[0:1],0) torch.rot90({T},4) torch.rot90({T}) torch.fliplr({T}) torch.roll({T},0) torch.roll({T},1) torch.tile({T},[1]) {T}.repeat(1,1)
torch.tile({T},[1,1]) {T}.repeat_interleave(1) torch.nan_to_num({T}) torch.pixel_shuffle({T}.reshape(1,1,-1,4),1) torch.channel_shuffle({T}.reshape(1,1,4,-1),1)
torch.constant_pad_nd({T},[0,0]) torch.nn.functional.pad({T},[0,0]) torch.nn.functional.pad({T},[0,0],"reflect") {T}.movedim(0,0) {T}.swapaxes(0,0) torch.clone({T},memory_format=torch.contiguous_format)
torch.triu({T}) torch.tril({T},5) torch.trace({T}) {T}.max() {T}.cumsum(0) {T}.diff(n=0) torch.diff({T},0) torch.matrix_power({T},1) torch.linalg.matrix_power({T},1) torch.linalg.vander({T}[0]) torch.diag({T}) torch.diag_embed({T}) torch.linalg.diagonal({T})
torch.rsub({T},1) torch.where({T}>0,{T},{T}) torch.as_tensor({T}) torch.tensor_split({T},[1,2])[1] torch.dsplit({T}.unsqueeze(0),2)[0] torch.row_stack([{T}]) torch.column_stack([{T}]) torch.ops.aten.expand_copy({T},[4,4])
torch.nn.functional.relu({T}) torch.nn.functional.leaky_relu({T},0.1,True) torch.nn.functional.threshold({T},0.1,2.0,True) torch.nn.functional.elu({T},1.0,True) torch.nn.functional.hardtanh({T},-1.0,1.0,True)
torch.nn.functional.layer_norm({T},[4]) torch.native_layer_norm({T},[4],None,None,1e-5)[0] torch.nn.functional.interpolate({T}.reshape(1,1,4,-1),[4,4]) torch.nn.functional.upsample({T}.reshape(1,1,4,-1),[4,4]) torch.adaptive_avg_pool1d({T},4) torch.nn.functional.adaptive_avg_pool2d({T}.unsqueeze(0),[4,4])
torch.nn.functional.avg_pool1d({T},1) torch.max_pool1d({T},1) torch.nn.functional.normalize({T}) torch.nn.functional.linear({T},{T}) torch.nn.functional.one_hot({T}.to(torch.int64).abs()) torch.nn.functional.embedding(torch.tensor([0,1]),{T})
torch.nn.functional.batch_norm({T},None,None,None,None,True) torch.masked_fill({T},{T}>0,0.0) {T}.index_fill(0,torch.tensor([0]),1.0) torch.fill({T},2.0) torch.zeros_like({T}) {T}.new_zeros(4,4) torch.empty_like({T}).copy_({T}) torch.expand_copy({T},[4,4]) torch.sort({T})[0] torch.topk({T},1)[0] torch.unique({T}) torch.native_dropout({T},0.5,False)[0]
{T}+{T} {T}*2 {T}-{T} torch.relu({T}) {T}.sin() {T}.sum(0) {T}.mean() torch.ones(4,4) torch.zeros([4,4]) torch.rand(4,4) torch.tensor([1.0,2.0]) torch.arange(4) {T}.abs() {T}@{T} {T}.matmul({T}) torch.add({T},{T},out={T}) torch.mul({T},2,out={T}) torch.neg({T},out={T}) torch.cat([{T},{T}],out={T})'''.split()

INPLACE = '''{T}.add_(1) {T}.add_({T}) {T}.mul_(2) {T}.copy_({T}) {T}.zero_() {T}.fill_(3.0) {T}.relu_() {T}[0]=5.0 {T}[{I}]=7.0 {T}[:,0]=1.5 {T}[0:2]={T}
{T}[{T}>0]=0.5 {T}[0]={T}[1] {T}+=1 {T}*=2 {T}-={T} {T}/=2 {T}.t_() {T}.transpose_(0,1) {T}.unsqueeze_(0) {T}.squeeze_() {T}.squeeze_(0) {T}.resize_(2,2) {T}.resize_(4,4) {T}.resize_as_({T})
{T}.set_({T}) {T}.swapaxes_(0,1) {T}.as_strided_([2,2],[2,1]) {T}.detach_() {T}.masked_fill_({T}>0,2.0) {T}.masked_fill_({T}<0,1.0) {T}.index_fill_(0,torch.tensor([0]),2.5) {T}.index_add_(0,torch.tensor([0,1]),{T}[0:2])
{T}.index_copy_(0,torch.tensor([0]),{T}[1:2]) {T}.index_put_([torch.tensor([0])],{T}[1]) {T}.scatter_(0,torch.zeros(1,4,dtype=torch.long),2.0) {T}.scatter_add_(0,torch.zeros(1,4,dtype=torch.long),{T}) {T}.put_(torch.tensor([0]),{T}.flatten()[0:1])
{T}.clamp_(0.0,1.0) {T}.sigmoid_() {T}.tanh_() {T}.exp_() {T}.uniform_() {T}.normal_() {T}.bernoulli_(0.5) {T}.random_() {T}.addmm_({T},{T}) {T}.addcmul_({T},{T}) {T}.lerp_({T},0.5) {T}.fill_diagonal_(1.0) {T}.triu_() {T}.cumsum_(0) {T}.floor_() {T}.neg_() {T}.sub_({T}) {T}.renorm_(2.0,0,1.0) {T}.squeeze_(1) {T}.sqrt_()
torch._foreach_add_([{T},{T}],1.0) torch._foreach_mul_({L},2.0) torch._foreach_copy_([{T}],[{T}]) torch._foreach_zero_({L}) torch._foreach_add_([{T}],[{T}]) torch._foreach_lerp_([{T}],[{T}],0.5) torch.nn.functional.relu_({T}) torch.nn.functional.relu({T},inplace=True) torch.ops.aten.dropout_({T},0.5,True) torch.nn.functional.dropout({T},0.5,{C},True)
torch.add({T},1,out={T}) torch.mul({T},{T},out={T}) torch.matmul({T},{T},out={T}) torch.index_select({T},0,torch.tensor([0,1]),out={T}) torch.embedding_renorm_({T},torch.tensor([0]),1.0,2.0) torch.batch_norm({T},None,None,{T}[0],{T}[1],True,0.1,1e-5,False) torch.batch_norm({T},None,None,{T}[0],{T}[1],{C},0.1,1e-5,False) torch.native_batch_norm({T},None,None,{T}[0],{T}[1],True,0.1,1e-5) torch.instance_norm({T}.unsqueeze(0),None,None,{T}[0],{T}[1],True,0.1,1e-5,False) torch.nn.functional.batch_norm({T},{T}[0],{T}[1],None,None,{C})
first_row({T}).add_(1) bump({T},{T}) {T}.retain_grad() {T}.requires_grad_(False) {T}.squeeze_(-1) {T}.real.add_(1) {T}.swapdims_(0,1) torch.unsqueeze_copy({T},0,out={T}) torch._foreach_clamp_min_([{T}],0.0) {T}.index_reduce_(0,torch.tensor([0]),{T}[0:1],"amax") print({T}) assert({T}.dim()>=0)'''.split()

LISTS = '''[{T},{T}] [{T}] [{T},{T},{T}] {L}+{L} {L}[0:2] {L}[1:] {L}[::-1] {L}.copy() list({L}) {T}.split(2) {T}.split([1,3]) {T}.chunk(2) {T}.unbind() {T}.unbind(1) list({T}.unbind(0)) {T}.tensor_split(2) torch.hsplit({T},2) torch.broadcast_tensors([{T},{T}]) torch.meshgrid([{T}[0],{T}[1]])
torch.atleast_1d([{T},{T}]) torch.atleast_2d([{T}]) torch.atleast_3d([{T},{T}]) torch._foreach_add([{T},{T}],1.0) torch._foreach_mul({L},2.0) torch._foreach_neg({L}) [{T}+1for_in_range(2)] [v*2for_v_in_{L}] [vfor_v_in_{L}] [v.t()for_v_in_{L}] [{T}[j]for_j_in_range(2)] {M}[0] {M}[{I}] {L}*2 list({D}.values()) {B}.l torch.unsafe_chunk({T},2) torch.unsafe_split({T},2) torch.split_with_sizes({T},[1,3]) torch.split_with_sizes_copy({T},[1,3]) torch.unbind_copy({T}) torch.split_copy({T},2) torch.align_tensors([{T}]) torch.where({T}>0) torch.gradient({T}[0]) torch.functional.atleast_1d([{T}]) share({T})[1] nest({T})[1] [a_for_a,b_in_zip({L},{L})] torch.dsplit({T}.unsqueeze(0),2) torch.vsplit({T},2) [first_row(v)for_v_in_{L}] torch._foreach_clamp_max({L},1.0) torch.jit.annotate(List[Tensor],[]) {J}["a"] {J}["b"] {X}[0].l {W}.box.l [v[0]~for~v~in~{E}] list({i}.values()) {J}.pop("a")'''.replace("for_in_", " for _ in ").replace("for_v_in_", " for v in ").replace("for_j_in_", " for j in ").replace("a_for_a,b_in_", "a for a,b in ").split("\n")
LISTS = [x.replace("~", " ") for line in LISTS for x in line.replace(" for _ in ", "~for~_~in~").replace(" for v in ", "~for~v~in~").replace(" for j in ", "~for~j~in~").replace("a for a,b in ", "a~for~a,b~in~").split()]

LIST_WRITES = '''{L}.append({T}) {L}.append({T}[0]) {L}.extend({L}) {L}.extend([{T}]) {L}.insert(0,{T}) {L}.insert(1,{T}) {L}[0]={T} {L}[-1]={T} {L}[{I}]={T} {L}.reverse() {L}.pop() {L}.pop(0) {L}.clear() {L}+={L} {L}+=[{T}] del~{L}[0] {L}[0].add_(1) {L}[-1].mul_(2) {L}[{I}].zero_() {M}.append({L}) {M}.append([{T}]) {M}[0]={L} {M}[0].append({T}) {M}[0][0].add_(1) {M}[-1][0]={T} {M}.pop() {M}.extend({M}) {M}.insert(0,{L})
{D}["a"]={T} {D}["b"]={T}[0] {D}["c"]={T} {D}["a"].add_(1) {D}["b"].zero_() {D}.pop("b") {D}.update({D}) {D}.setdefault("c",{T}).add_(1) del~{D}["a"] {D}.clear() put_in({D},{T}) push({L},{T}) push({L},{T}).add_(1) {B}.put({T}) {B}.bump() {B}.t={T} {B}.l.append({T}) {B}.t.add_(1) {B}.l[0].mul_(2) {B}.l=[{T}] {B}.get().add_(1) {B}.swap({T}).mul_(2) {P}[0].add_(1) {P}[1][0].zero_() {Q}[1].append({T}) {Q}[0].add_(1) {Q}[1][0].mul_(2)
{E}.append(({T},{T})) {E}[0]={P} {E}[0][1].add_(1) {E}.pop() {E}.reverse() {E}.insert(0,{P}) {E}+={E} {E}[-1][0].mul_(2) {J}["a"].append({T}) {J}["b"]={L} {J}["a"]=[{T}] {J}["a"][0].add_(1) {J}.pop("b") {J}["c"]={M}[0] {J}.setdefault("c",{L}).append({T}) {J}.update({J}) {J}["a"]+={L}
{i}[0]={T} {i}[{I}]={T} {i}[0].add_(1) {i}[{I}].mul_(2) {i}.pop(1) {i}[2]={i}[0] del~{i}[0] {X}[0].put({T}) {X}.append({B}) {X}[-1].t.add_(1) {X}[0].l.append({T}) {X}[0].t={T} {X}[0]={B} {X}.pop() {W}.box.put({T}) {W}.box={B} {W}.box.t.add_(1) {W}.d["k"]={T} {W}.d["k"].mul_(2) {W}.keep({T}) {W}.box.l[0].zero_() {W}.box.l={L} {B}.l=({L}) {L}.extend({J}["a"]) {L}.append({W}.keep({T})) {M}.append({J}["a"]) {B}.put({X}[0].t)'''.replace("\n", " ").split()
LIST_WRITES = [x.replace("~", " ") for x in LIST_WRITES]

OTHER = {
    "T": '''{E}[0][0] {E}[-1][1] {J}["a"][0] {i}[0] {i}[{I}] {i}.pop(0) {X}[0].t {X}[-1].get() {W}.box.t {W}.d["k"] {W}.keep({T}) {W}.box.l[0] {X}[0].swap({T}) {E}.pop()[1] {L}[0] {L}[-1] {L}[{I}] {L}.pop() {P}[0] {P}[1] {Q}[0] {Q}[1][0] {D}["a"] {D}["b"] {D}.pop("c",{T}) {D}.setdefault("d",{T}) {M}[0][0] {M}[-1][-1] {B}.t {B}.get() {B}.swap({T}) first_row({T}) push({L},{T}) bump({T},{T}) pick({T},{T},{C}) both({T},{T})[0] last({L}) twice({T}) share({T})[0] Pair({T},{T}).a torch.jit.wait(torch.jit.fork(twice,{T})) torch.jit.wait(torch.jit.fork(bump,{T},{T})) torch.jit.wait(torch.jit.fork(first_row,{T})) ({T}if_{C}else_{T}) torch.cat({L}) torch.stack({L}) sum({L}) torch.jit.wait(torch.jit.fork(share,{T}))[1][0] {L}[0:1][0] ({L}+{L})[1] list({D}.values())[0] list({D}.items())[0][1] {T}.add_(1) {T}.relu_() {T}.copy_({T}) {T}.t_()'''.replace("if_", " if ").replace("else_", " else "),
    "M": "[{L},{L}] [[{T}],[{T},{T}]] {M}[0:1] {M}+{M} {M}.copy() nest({T}) [{L}] [[v]for_v_in_{L}] list({M})",
    "P": "({T},{T}) ({T},{T}[0]) both({T},{T}) ({P}[1],{P}[0]) ({L}[0],{T}) torch.var_mean({T}) torch.aminmax({T}) torch.max({T},0) torch.sort({T})",
    "Q": "({T},{L}) share({T}) ({T},[{T}]) ({P}[0],{Q}[1])",
    "D": '{{"a":{T},"b":{T}}} {{"a":{T}}} {D}.copy() dict({D}) {{"a":{L}[0],"b":{P}[1]}}',
    "O": '{D}.get("a") {D}.get("c") put_in({D},{T}) torch.jit.annotate(Optional[Tensor],{T})',
    "B": "Box({T}) Box({L}[0]) {X}[0] {X}[-1] {W}.box",
    "E": "[({T},{T})] [({T},{T}[0]),{P}] {E}[0:1] {E}.copy() {E}+{E} list(zip({L},{L})) [(v,v)for_v_in_{L}] {E}[::-1]",
    "J": '{{"a":{L}}} {{"a":[{T}],"b":{L}}} {J}.copy() {{"b":{M}[0]}}',
    "i": "{{0:{T},1:{T}}} {{0:{T}}} {I2}.copy() {{k:{T}[k]for_k_in_range(2)}}".replace("{I2}", "{i}"),
    "X": "[Box({T}),Box({T})] [{B}] [{B},{B}] {X}[0:1] {X}+[{B}]",
    "W": "Wrap({B},{T}) Wrap(Box({T}),{T})",
}

ANNOTATION = {"T": "Tensor", "L": "List[Tensor]", "M": "List[List[Tensor]]", "P": "Tuple[Tensor, Tensor]", "Q": "Tuple[Tensor, List[Tensor]]",
              "D": "Dict[str, Tensor]", "O": "Optional[Tensor]", "E": "List[Tuple[Tensor, Tensor]]", "J": "Dict[str, List[Tensor]]", "n": "int", "c": "bool"}


def spaced(x):
    return x.replace("for_v_in_", " for v in ").replace("for_k_in_", " for k in ")


@contextlib.contextmanager
def limit(seconds):
    """Ends what takes longer, such as a loop over a list that grows."""
    def stop(*_):
        raise RuntimeError("takes too long")
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Writer:
    def __init__(self, rng, module, method=False):
        self.rng, self.module, self.method = rng, module, method
        self.fresh = 0
        self.args = [(f"x{i}", "T") for i in range(rng.randint(1, 3))]
        for kind in "LDOPQMEJ":
            if rng.random() < {"L": .3, "D": .15, "O": .12, "P": .12, "Q": .1, "M": .1, "E": .08, "J": .08}[kind]:
                self.args.append((kind.lower() + "0", kind))
        self.args += [("n", "n"), ("c", "c")]
        self.lines = []
        self.result = rng.choice(["T", "L", "TL", "P", "TT", "D", "TB"[:1]])
        self.depth = 0
        self.shape = rng.choice([(4, 4), (4, 4), (4, 4), (2, 4, 4), (4,), (2, 2, 3), (4, 1), (1, 4), (2, 2, 2, 2)])
        self.heat = rng.random()  # how much is written

    def annotation(self):
        return "Tuple[" + ", ".join(ANNOTATION[k] for k in self.result) + "]" if len(self.result) > 1 else ANNOTATION[self.result]

    def source(self, lines, scope):
        head = ", ".join(f"{n}: {ANNOTATION[k]}" for n, k in self.args)
        if self.method:
            head = "self, " + head
        body = lines + [f"    return {self.give(scope)}"]
        return f"def f({head}) -> {self.annotation()}:\n" + "\n".join(body) + "\n"

    def give(self, scope, rng=None):
        rng = random.Random(7) if rng is None else rng
        parts = []
        for k in self.result:
            have = [n for n, t in scope if t == k]
            if k == "T":
                parts.append(have[-1] if have else "x0")
            elif k == "L":
                parts.append(have[-1] if have else "[x0]")
            elif k == "P":
                parts.append(have[-1] if have else "(x0, x0)")
            else:
                parts.append(have[-1] if have else '{"a": x0}')
        return ", ".join(parts)

    def fill(self, template, scope):
        rng = self.rng
        out, i = "", 0
        while i < len(template):
            if template.startswith("{{", i) or template.startswith("}}", i):
                out += template[i]
                i += 2
            elif template[i] == "{" and template[i + 2:i + 3] == "}":
                k = template[i + 1]
                i += 3
                if k == "I":
                    ints = [n for n, t in scope if t == "n"]
                    out += rng.choice(ints + ["0", "1"]) if rng.random() < .6 else str(rng.choice([0, 1, -1]))
                elif k == "K":
                    out += str(rng.choice([0, 1, 1, 2, -1]))
                elif k == "d":
                    out += str(rng.choice([0, 0, 1, -1]))
                elif k == "C":
                    out += rng.choice([n for n, t in scope if t == "c"] + ["True", "False"])
                else:
                    have = [n for n, t in scope if t == k]
                    if self.method and k == "T" and rng.random() < .25:
                        have = ["self.buf", "self.w", "self.sub.state"]
                    if not have:
                        return None
                    # What was made last is what is most interesting.
                    out += rng.choice(have[-4:]) if rng.random() < .6 else rng.choice(have)
            else:
                out += template[i]
                i += 1
        return out

    def simple(self, scope, pad):
        """A statement and what it defines."""
        rng = self.rng
        r = rng.random()
        if self.method and rng.random() < .08:
            t = rng.choice(["self.buf = {T}", "self.buf.add_(1)", "self.sub.keep({T})", "self.buf = {T}.detach()", "self.sub.state.mul_(2)", "self.buf[0].copy_(self.w[0])"])
            s = self.fill(t, scope)
            return (pad + s, None) if s else None
        if r < .2 + .25 * self.heat:
            pool = INPLACE if rng.random() < .62 else LIST_WRITES
            s = self.fill(rng.choice(pool), scope)
            return (pad + s, None) if s else None
        kind = rng.choices("TLMPQDOBEJiXW", [60, 14, 4, 6, 4, 6, 3, 4, 3, 3, 3, 3, 3])[0]
        if kind == "T":
            pool = VIEWS if rng.random() < .75 else OTHER["T"].split(" ") if False else TENSORS
        elif kind == "L":
            pool = LISTS
        else:
            pool = POOLS[kind]
        s = self.fill(rng.choice(pool), scope)
        if s is None:
            return None
        old = [n for n, t in scope if t == kind and (n, t) not in self.args[-2:]]
        if old and rng.random() < (.3 if self.depth else .12):
            name, new = rng.choice(old), None
            return pad + f"{name} = {s}", None
        self.fresh += 1
        name = f"{kind.lower()}{self.fresh + 1}"
        if kind == "O":
            return pad + f"{name}: Optional[Tensor] = {s}", (name, kind)
        return pad + f"{name} = {s}", (name, kind)

    def works(self, lines, scope):
        with limit(0.3):
            return self.runs(lines, scope)

    def runs(self, lines, scope):
        source = self.source(lines, scope)
        spaces = {}
        try:
            if self.method:
                return True if not self.try_method(source) else False
            exec(compile(source, "f", "exec"), dict(self.module.__dict__, print=lambda *a: None), spaces)
            for n, c in ((0, False), (1, True), (2, False), (3, True)):
                spaces["f"](*arguments(self.args, "apart", n, c, self.shape))
            return True
        except Exception:
            return False

    def try_method(self, source):
        spaces = {}
        exec(compile(source, "f", "exec"), dict(self.module.__dict__, print=lambda *a: None), spaces)
        for n, c in ((0, False), (2, True)):
            m = self.module.Base()
            try:
                spaces["f"](m, *arguments(self.args, "apart", n, c, self.shape))
            except Exception as e:
                return e
        return None

    def block(self, head, scope, indent, budget, close, loop=False):
        """Statements of a block; `head`: the lines so far, `close`: what must follow for it to be whole."""
        lines = []
        scope = list(scope)
        pad = "    " * indent
        made = 0
        tries = 0
        while made < budget and tries < budget * 4:
            tries += 1
            r = self.rng.random()
            if r < .14 and indent < 4:
                got = self.compound(head + lines, scope, indent, close)
                if got:
                    lines += got
                    made += 1
                continue
            if r < .18 and loop and indent > 2:
                jump = self.rng.choice(["break", "continue", "break"])
                if self.rng.random() < .5:
                    lines += [f"{pad}if {self.condition(scope)}:", f"{pad}    {jump}"]
                continue
            if r < .2 and indent > 1:
                cond = self.condition(scope)
                new = [f"{pad}if {cond}:", f"{pad}    return {self.give(scope)}"]
                if self.works(head + lines + new + close, self.args):
                    lines += new
                continue
            got = self.simple(scope, pad)
            if got is None:
                continue
            line, defined = got
            if self.works(head + lines + [line] + close, self.args):
                lines.append(line)
                made += 1
                if defined:
                    scope.append(defined)
        if not lines:
            lines = [pad + "pass"]
        return lines, scope

    def condition(self, scope):
        rng = self.rng
        ints = [n for n, t in scope if t == "n"]
        options = ["c", "not c", f"{rng.choice(ints)} == {rng.choice([0, 1, 2])}", f"{rng.choice(ints)} > {rng.choice([0, 1])}"]
        lists = [n for n, t in scope if t == "L"]
        if lists:
            options.append(f"len({rng.choice(lists)}) > 1")
        optional = [n for n, t in scope if t == "O"]
        if optional:
            o = rng.choice(optional)
            options += [f"{o} is not None"] * 3
        return rng.choice(options)

    def compound(self, head, scope, indent, close):
        rng = self.rng
        pad = "    " * indent
        self.depth += 1
        r = rng.random()
        self.fresh += 1
        v = f"k{self.fresh}"
        inner = list(scope)
        tail = []
        if r < .35:
            cond = self.condition(scope)
            first = f"{pad}if {cond}:"
            if " is not None" in cond:
                inner.append((cond.split()[0], "T"))
        else:
            lists = [n for n, t in scope if t == "L"]
            dicts = [n for n, t in scope if t == "D"]
            tensors = [n for n, t in scope if t == "T"]
            if r < .6 or not lists:
                first = f"{pad}for {v} in range({rng.choice(['n', 'n', '2', 'n + 1'])}):"
                inner.append((v, "n"))
            elif r < .7:
                first = f"{pad}for {v} in {rng.choice(lists)}:"
                inner.append((v, "T"))
                if rng.random() < .4:
                    first = f"{pad}for {v}i, {v} in enumerate({rng.choice(lists)}):"
                    inner.append((v + "i", "n"))
            elif r < .76 and dicts:
                first = rng.choice([f"{pad}for {v} in {rng.choice(dicts)}.values():", f"{pad}for {v}s, {v} in {rng.choice(dicts)}.items():"])
                inner.append((v, "T"))
            elif r < .84:
                first = f"{pad}for {v} in {rng.choice(tensors)}:"
                inner.append((v, "T"))
            elif r < .92:
                first = f"{pad}for {v}, {v}b in zip({rng.choice(lists)}, {rng.choice(lists)}):"
                inner += [(v, "T"), (v + "b", "T")]
            else:
                head = head + [f"{pad}{v} = 0"]
                first = f"{pad}while {v} < n:"
                tail = [f"{pad}    {v} += 1"]
                inner.append((v, "n"))
        is_if = r < .35
        start = head + [first]
        extra = [f"{pad}{v} = 0"] if tail else []
        body, _ = self.block(start, inner, indent + 1, rng.randint(1, 5), tail + close, loop=not is_if)
        lines = extra + [first] + body + tail
        if is_if and rng.random() < .6:
            cut = head + [first] + body + [f"{pad}else:"]
            other, _ = self.block(cut, scope, indent + 1, rng.randint(1, 4), close)
            lines += [f"{pad}else:"] + other
        self.depth -= 1
        full = (head[:-1] if extra else head) + lines + close
        return lines if self.works(full, self.args) else None

    def write(self, size):
        lines, scope = self.block([], self.args, 1, size, [])
        while True:
            source = self.source(lines, scope)
            if self.works(lines, scope):
                return source
            scope = scope[:-1]
            if len(scope) < len(self.args):
                return None


TENSORS = [x for x in OTHER["T"].replace(" if ", "~if~").replace(" else ", "~else~").split()]
TENSORS = [x.replace("~", " ") for x in TENSORS]
POOLS = {k: [spaced(x) for x in v.split()] for k, v in OTHER.items() if k != "T"}


def dense(shape):
    out, step = [], 1
    for n in reversed(shape):
        out.insert(0, step)
        step *= n
    return out


def arguments(args, kind, n, c, shape=(4, 4)):
    """Fresh arguments; `kind`: how they lie in memory."""
    base = torch.randn(128)
    one = torch.randn(*shape)
    strides = dense(shape)
    count = [0]

    def tensor(whole=False):
        count[0] += 1
        k = count[0]
        if kind == "apart":
            return torch.randn(*shape)
        if kind == "same":
            return one
        if kind == "shifted":
            return base.as_strided(shape, strides, 3 * k)
        if kind == "turned":
            return one.transpose(0, -1) if k % 2 else one
        if kind == "expanded":
            return base[k:k + shape[-1]].expand(*shape) if not whole else base.as_strided(shape, strides, 2 * k)
        if kind == "stretched":
            return base[k:k + shape[-1]].expand(*shape)
        if kind == "sliding":
            return base.as_strided(shape, [1] * len(shape), k)
        if kind == "halves":
            return base.as_strided(shape, [2 * s for s in strides], k % 4)
        if kind == "types":
            return base.view(torch.int32).as_strided(shape, strides, 5 * k) if k % 2 == 0 else base.as_strided(shape, strides, 5 * k)
        if kind == "complex":
            return torch.view_as_complex(base.view(-1, 2)).as_strided(shape, strides, k) if k % 2 else base.as_strided(shape, strides, 2 * k)
        if kind == "doubles":
            return base.view(torch.float64).as_strided(shape, strides, k)
        return base.as_strided(shape, [1] + [3 * s for s in strides[1:]], k)

    def make(k):
        if k == "T":
            return tensor()
        if k == "L":
            return [tensor(True) for _ in range(3)]
        if k == "D":
            return {x: tensor(True) for x in "abc"}
        if k == "O":
            return None if n == 0 and c else tensor(True)
        if k == "P":
            return (tensor(True), tensor(True))
        if k == "Q":
            return (tensor(True), [tensor(True), tensor(True)])
        if k == "M":
            l = [tensor(True), tensor(True)]
            return [l, l] if kind == "same" else [l, [tensor(True)]]
        if k == "E":
            return [(tensor(True), tensor(True)), (tensor(True), tensor(True))]
        if k == "J":
            l = [tensor(True), tensor(True)]
            return {"a": l, "b": l} if kind == "same" else {"a": l, "b": [tensor(True)]}
        return n if k == "n" else c

    out = []
    for i, (_, k) in enumerate(args):
        v = make(k)
        if kind == "same":
            for (_, other), w in zip(args, out):
                if other == k and k in "LDM":
                    v = w
            if k == "L":
                for (_, other), w in zip(args, out):
                    if other == "M":
                        v = w[0]
        out.append(v)
    return out


KINDS = ["apart", "apart", "same", "shifted", "turned", "expanded", "halves", "types", "skewed", "stretched", "sliding", "complex", "doubles"]


def inputs_for(args, shape, first=()):
    def make(kind, n, c):
        return lambda: [f() for f in first] + arguments(args, kind, n, c, shape)
    out = []
    for i, kind in enumerate(KINDS):
        out.append(make(kind, (2, 0, 3, 1)[i % 4], i % 2 == 0))
        out.append(make(kind, (0, 1, 2, 3)[(i + 1) % 4], i % 2 == 1))
    return out


def load(source, folder, name):
    path = os.path.join(folder, name + ".py")
    with open(path, "w") as f:
        f.write(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = '''

class Sub(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.state.add_(1)
        return x.view(-1)

    @torch.jit.export
    def keep(self, x: Tensor) -> Tensor:
        old = self.state
        self.state = x
        return old


class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(4, 4), requires_grad=False)
        self.register_buffer("buf", torch.randn(4, 4))
        self.sub = Sub()
'''

PASSES = ["inline", "inline", "inline", "plain", "plain", "cp", "cse", "peephole", "unroll", "decompose", "loops", "functional", "mutation"]


def apply(graph, how):
    c = torch._C
    g = graph.copy()
    if how == "plain":
        return g
    c._jit_pass_inline(g)
    for fork in g.findAllNodes("prim::fork"):
        c._jit_pass_inline(fork.g("Subgraph"))
    if how == "cp":
        c._jit_pass_constant_propagation(g)
    if how == "cse":
        c._jit_pass_cse(g)
        c._jit_pass_dce(g)
    if how == "peephole":
        c._jit_pass_peephole(g, True)
        c._jit_pass_constant_pooling(g)
    if how == "unroll":
        c._jit_pass_loop_unrolling(g)
    if how == "decompose":
        c._jit_pass_decompose_ops(g)
        c._jit_pass_lint(g)
    if how == "loops":
        c._jit_pass_constant_propagation_immutable_types(g)
    if how == "functional":
        c._jit_pass_create_functional_graphs(g)
    if how == "mutation":
        c._jit_pass_remove_mutation(g)
    return g


def all_graphs(count, seed):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    refused = {}
    with tempfile.TemporaryDirectory() as folder:
        helpers = load(PRELUDE + MODULE, folder, "random_helpers")
        functions = {}
        for name in ("first_row", "push", "bump", "pick", "both", "nest", "put_in", "last", "twice", "share"):
            functions[name] = torch.jit.script(getattr(helpers, name)).inlined_graph
        for i in range(count):
            rng = random.Random(seed + i)
            torch.manual_seed(seed + i)
            method = rng.random() < .12
            w = Writer(rng, helpers, method)
            source = w.write(rng.choice([3, 5, 8, 8, 12, 12, 18, 18, 25, 35]))
            how = rng.choice(PASSES)
            traced = not method and rng.random() < .2
            typed = not method and not traced and rng.random() < .25
            name = f"{seed + i} {'method ' if method else ''}{'traced' if traced else how}"
            if source is None:
                continue
            try:
                if method:
                    body = "".join("    " + line + "\n" for line in source.replace("def f(", "def forward(").splitlines())
                    m = load(PRELUDE + MODULE + "\n\nclass M(Base):\n    def __init__(self):\n        super().__init__()\n\n" + body, folder, f"random_{seed + i}")
                    scripted = torch.jit.script(m.M())
                    graph = apply(scripted.graph, "inline" if how == "plain" else how)
                    inputs = inputs_for(w.args, w.shape, [lambda: copy.deepcopy(scripted)])
                    qualified = str(type(m.Box))
                else:
                    m = load(PRELUDE + "\n\n" + source, folder, f"random_{seed + i}")
                    if traced:
                        x = [a for a in arguments(w.args, "apart", 2, True, w.shape)]
                        keep = [k for k, (_, t) in enumerate(w.args) if t in "TLP"]
                        fixed = {k: a for k, a in enumerate(x) if k not in keep}

                        def g(*tensors):
                            whole, it = [], iter(tensors)
                            for k in range(len(x)):
                                whole.append(copy.deepcopy(fixed[k]) if k in fixed else next(it))
                            return m.f(*whole)
                        graph = torch.jit.trace(g, tuple(copy.deepcopy(x[k]) for k in keep), check_trace=False).graph
                        args = [w.args[k] for k in keep]
                        # Types give strides: the arguments have them, and may only overlap each other.
                        inputs = [(lambda kind: lambda: arguments(args, kind, 2, True, w.shape))(kind) for kind in ("apart", "same", "shifted")]
                    else:
                        graph = apply(torch.jit.script(m.f).graph, how)
                        inputs = inputs_for(w.args, w.shape)
                        if typed:
                            name += " typed"
                            torch._C._jit_pass_complete_shape_analysis(graph, tuple(arguments(w.args, "apart", 2, True, w.shape)), False)
                            inputs = [(lambda kind, n: lambda: arguments(w.args, kind, n, n % 2 == 0, w.shape))(kind, n)
                                      for kind in ("apart", "same", "shifted") for n in (0, 1, 2, 3)]
            except Exception as e:
                what = type(e).__name__ + ": " + " ".join(str(e).split())[:100]
                refused[what] = refused.get(what, 0) + 1
                continue
            here = dict(functions)
            cu = torch.jit._state._python_cu
            for cls, method_name in [("Box", x) for x in ("__init__", "put", "get", "swap", "bump")] + [("Wrap", "__init__"), ("Wrap", "keep")]:
                q = f"__torch__.random_{seed + i}.{cls}"
                f = cu.find_function(f"{q}.{method_name}")
                if f is not None:
                    here[(q, method_name)] = f.inlined_graph
            yield name, graph, inputs, here
    total = sum(refused.values())
    if total:
        print(f"{total} were not compiled, such as:")
        for what in sorted(refused, key=refused.get)[-5:]:
            print(f"  {refused[what]}: {what}")
