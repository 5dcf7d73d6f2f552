"""What random_functions.py puts together: helpers and classes, and expressions and statements by what they give.

In the templates {T} stands for a tensor, {L} a list of tensors, {M} a list of lists, {P} a pair of tensors, {Q} a tensor and a
list, {D}, {J}, {i} dictionaries of tensors, of lists, and with numbers as keys, {E} a list of pairs, {B}, {W} objects, {X} a list
of objects, {O} an optional tensor, {I} and {K} indices, {d} a dimension, {C} a condition; a tilde for a space.
"""

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

def templates(text):
    return [x.replace("~", " ") for x in text.split()]


# Tensors, from one operator.
VIEWS = templates('''
{T}[0] {T}[1] {T}[{I}] {T}[0:2] {T}[1:] {T}[{I}:] {T}[::2] {T}[1::2] {T}[:,{K}] {T}[...,{K}] {T}[:,1:] {T}[None]
{T}[...,1:] {T}[...,:2] {T}[:{I}] {T}[-2:] {T}[:-1] {T}[-3:-1] {T}[:,{I}:] {T}.narrow(-1,0,2) {T}.split(2,-1)[0]
{T}.chunk(2,-1)[1] {T}.select(-1,{I}) {T}.view({I}+1,-1) {T}.narrow(0,-2,2) {T}[{I}:][:2] torch.zeros(4,4)[{I}:]
{T}.t() {T}.select({d},{I}) {T}.select({d},{K}) {T}.narrow({d},{K},1) {T}.narrow(0,{I},2) {T}.transpose(0,1)
{T}.transpose(-1,-2) {T}.permute(1,0) {T}.permute(0,2,1) {T}.expand(2,4,4) {T}.expand(-1,-1) {T}.view(-1)
{T}.view(2,-1) {T}.view({T}.size()) {T}.reshape(-1) {T}.reshape(2,-1) {T}.reshape(4,4) {T}.reshape_as({T})
{T}.view_as({T}) {T}.expand_as({T}) {T}.flatten() {T}.flatten(0,1) {T}.ravel() {T}.diagonal() {T}.diagonal(1)
torch.diagonal({T},{K},0,1) {T}.squeeze() {T}.squeeze(0) {T}.unsqueeze({d}) {T}.unsqueeze(-1) {T}.unfold(0,2,1)
{T}.unfold(0,2,2) {T}.as_strided([2,2],[4,1]) {T}.as_strided([2,2],[4,1],8) {T}.as_strided([4],[1],{K})
{T}.as_strided([2,2],[1,1]) {T}.detach() {T}.contiguous() {T}.to(torch.float32) {T}.to(torch.float64) {T}.to("cpu")
{T}.to({T}) {T}.cpu() {T}.float() {T}.double() {T}.type_as({T}) {T}.conj() torch.conj({T}) {T}.resolve_conj()
{T}.resolve_neg() torch.real({T}) {T}.view(torch.int32) {T}.view(torch.uint8) {T}.view(torch.float32)
torch.view_as_real(torch.view_as_complex({T}.reshape(-1,2))) torch.atleast_1d({T}) torch.atleast_2d({T})
torch.atleast_3d({T}) torch.movedim({T},0,1) torch.moveaxis({T},0,-1) torch.swapaxes({T},0,1)
torch.swapdims({T},0,1) {T}.adjoint() {T}.mT {T}.T {T}.H {T}.mH torch.broadcast_to({T},[4,4])
torch.broadcast_to({T},[2,4,4]) {T}.sum_to_size(4,4) {T}.sum_to_size(1,4) torch.einsum("ij->ji",{T})
torch.einsum("ii->i",{T}) torch.einsum("ij,jk->ik",{T},{T}) torch.einsum("...->...",[{T}])
torch.dropout({T},0.5,False) torch.dropout({T},0.0,True) torch.nn.functional.dropout({T},0.5,False)
torch.feature_dropout({T},0.5,False) torch.alpha_dropout({T},0.5,False) {T}.unflatten(0,[2,2])
{T}.unflatten(0,[2,-1]) torch.squeeze({T},[0,1]) {T}.positive() torch._unsafe_view({T},[-1]) torch.alias_copy({T})
torch.view_copy({T},[-1]) {T}.clone() {T}.data torch._conj({T}) torch._neg_view({T}) torch.ops.aten.alias({T})
torch.ops.aten.lift({T}) {T}.coalesce() {T}.masked_select({T}>0) {T}.split(2)[0] {T}.chunk(2)[1] {T}.unbind(0)[1]
{T}.tensor_split(2)[0] {T}.hsplit(2)[1] {T}.vsplit(2)[0] torch.split({T},[1,3])[1] torch.split({T},[1,3],1)[0]
torch.unsafe_chunk({T},2)[0] torch.unsafe_split({T},2)[1] torch.meshgrid([{T}[0],{T}[0]])[0]
torch.broadcast_tensors([{T},{T}])[1] torch.select_scatter({T},{T}[0],0,1) torch.slice_scatter({T},{T}[0:1],0,0,1)
torch.diagonal_scatter({T},{T}[0]) {T}.index_select(0,torch.tensor([0,1])) torch.ops.aten._to_copy({T})
{T}.to({T}.device) {T}.to(torch.float32,copy=True) {T}.to(torch.float32,copy={C}) {T}.type(torch.float32)
torch.block_diag([{T}]) torch.cartesian_prod([{T}.flatten()]) torch.chain_matmul([{T}])
torch.linalg.multi_dot([{T},{T}]) torch.combinations({T}[0]) torch.cat([{T}]) torch.concat([{T},{T}])
torch.stack([{T}]) torch.hstack([{T},{T}]) torch.vstack([{T}]) torch.squeeze({T}[0:1],0) torch.rot90({T},4)
torch.rot90({T}) torch.fliplr({T}) torch.roll({T},0) torch.roll({T},1) torch.tile({T},[1]) {T}.repeat(1,1)
torch.tile({T},[1,1]) {T}.repeat_interleave(1) torch.nan_to_num({T}) torch.pixel_shuffle({T}.reshape(1,1,-1,4),1)
torch.channel_shuffle({T}.reshape(1,1,4,-1),1) torch.constant_pad_nd({T},[0,0]) torch.nn.functional.pad({T},[0,0])
torch.nn.functional.pad({T},[0,0],"reflect") {T}.movedim(0,0) {T}.swapaxes(0,0)
torch.clone({T},memory_format=torch.contiguous_format) torch.triu({T}) torch.tril({T},5) torch.trace({T}) {T}.max()
{T}.cumsum(0) {T}.diff(n=0) torch.diff({T},0) torch.matrix_power({T},1) torch.linalg.matrix_power({T},1)
torch.linalg.vander({T}[0]) torch.diag({T}) torch.diag_embed({T}) torch.linalg.diagonal({T}) torch.rsub({T},1)
torch.where({T}>0,{T},{T}) torch.as_tensor({T}) torch.tensor_split({T},[1,2])[1] torch.dsplit({T}.unsqueeze(0),2)[0]
torch.row_stack([{T}]) torch.column_stack([{T}]) torch.ops.aten.expand_copy({T},[4,4]) torch.nn.functional.relu({T})
torch.nn.functional.leaky_relu({T},0.1,True) torch.nn.functional.threshold({T},0.1,2.0,True)
torch.nn.functional.elu({T},1.0,True) torch.nn.functional.hardtanh({T},-1.0,1.0,True)
torch.nn.functional.layer_norm({T},[4]) torch.native_layer_norm({T},[4],None,None,1e-5)[0]
torch.nn.functional.interpolate({T}.reshape(1,1,4,-1),[4,4])
torch.nn.functional.upsample({T}.reshape(1,1,4,-1),[4,4]) torch.adaptive_avg_pool1d({T},4)
torch.nn.functional.adaptive_avg_pool2d({T}.unsqueeze(0),[4,4]) torch.nn.functional.avg_pool1d({T},1)
torch.max_pool1d({T},1) torch.nn.functional.normalize({T}) torch.nn.functional.linear({T},{T})
torch.nn.functional.one_hot({T}.to(torch.int64).abs()) torch.nn.functional.embedding(torch.tensor([0,1]),{T})
torch.nn.functional.batch_norm({T},None,None,None,None,True) torch.masked_fill({T},{T}>0,0.0)
{T}.index_fill(0,torch.tensor([0]),1.0) torch.fill({T},2.0) torch.zeros_like({T}) {T}.new_zeros(4,4)
torch.empty_like({T}).copy_({T}) torch.expand_copy({T},[4,4]) torch.sort({T})[0] torch.topk({T},1)[0]
torch.unique({T}) torch.native_dropout({T},0.5,False)[0] {T}+{T} {T}*2 {T}-{T} torch.relu({T}) {T}.sin() {T}.sum(0)
{T}.mean() torch.ones(4,4) torch.zeros([4,4]) torch.rand(4,4) torch.tensor([1.0,2.0]) torch.arange(4) {T}.abs()
{T}@{T} {T}.matmul({T}) torch.add({T},{T},out={T}) torch.mul({T},2,out={T}) torch.neg({T},out={T})
torch.cat([{T},{T}],out={T})
''')

# Statements that write tensors, or change their geometry.
WRITES = templates('''
{T}.add_(1) {T}.add_({T}) {T}.mul_(2) {T}.copy_({T}) {T}.zero_() {T}.fill_(3.0) {T}.relu_() {T}[0]=5.0 {T}[{I}]=7.0
{T}[:,0]=1.5 {T}[0:2]={T} {T}[{T}>0]=0.5 {T}[0]={T}[1] {T}+=1 {T}*=2 {T}-={T} {T}/=2 {T}.t_() {T}.transpose_(0,1)
{T}.unsqueeze_(0) {T}.squeeze_() {T}.squeeze_(0) {T}.resize_(2,2) {T}.resize_(4,4) {T}.resize_as_({T}) {T}.set_({T})
{T}.swapaxes_(0,1) {T}.as_strided_([2,2],[2,1]) {T}.detach_() {T}.masked_fill_({T}>0,2.0)
{T}.masked_fill_({T}<0,1.0) {T}.index_fill_(0,torch.tensor([0]),2.5) {T}.index_add_(0,torch.tensor([0,1]),{T}[0:2])
{T}.index_copy_(0,torch.tensor([0]),{T}[1:2]) {T}.index_put_([torch.tensor([0])],{T}[1])
{T}.scatter_(0,torch.zeros(1,4,dtype=torch.long),2.0) {T}.scatter_add_(0,torch.zeros(1,4,dtype=torch.long),{T})
{T}.put_(torch.tensor([0]),{T}.flatten()[0:1]) {T}.clamp_(0.0,1.0) {T}.sigmoid_() {T}.tanh_() {T}.exp_()
{T}.uniform_() {T}.normal_() {T}.bernoulli_(0.5) {T}.random_() {T}.addmm_({T},{T}) {T}.addcmul_({T},{T})
{T}.lerp_({T},0.5) {T}.fill_diagonal_(1.0) {T}.triu_() {T}.cumsum_(0) {T}.floor_() {T}.neg_() {T}.sub_({T})
{T}.renorm_(2.0,0,1.0) {T}.squeeze_(1) {T}.sqrt_() torch._foreach_add_([{T},{T}],1.0) torch._foreach_mul_({L},2.0)
torch._foreach_copy_([{T}],[{T}]) torch._foreach_zero_({L}) torch._foreach_add_([{T}],[{T}])
torch._foreach_lerp_([{T}],[{T}],0.5) torch.nn.functional.relu_({T}) torch.nn.functional.relu({T},inplace=True)
torch.ops.aten.dropout_({T},0.5,True) torch.nn.functional.dropout({T},0.5,{C},True) torch.add({T},1,out={T})
torch.mul({T},{T},out={T}) torch.matmul({T},{T},out={T}) torch.index_select({T},0,torch.tensor([0,1]),out={T})
torch.embedding_renorm_({T},torch.tensor([0]),1.0,2.0)
torch.batch_norm({T},None,None,{T}[0],{T}[1],True,0.1,1e-5,False)
torch.batch_norm({T},None,None,{T}[0],{T}[1],{C},0.1,1e-5,False)
torch.native_batch_norm({T},None,None,{T}[0],{T}[1],True,0.1,1e-5)
torch.instance_norm({T}.unsqueeze(0),None,None,{T}[0],{T}[1],True,0.1,1e-5,False)
torch.nn.functional.batch_norm({T},{T}[0],{T}[1],None,None,{C}) first_row({T}).add_(1) bump({T},{T})
{T}.retain_grad() {T}.requires_grad_(False) {T}.squeeze_(-1) {T}.real.add_(1) {T}.swapdims_(0,1)
torch.unsqueeze_copy({T},0,out={T}) torch._foreach_clamp_min_([{T}],0.0)
{T}.index_reduce_(0,torch.tensor([0]),{T}[0:1],"amax") print({T}) assert({T}.dim()>=0)
''')

# Statements that write containers and objects, or what they hold.
CONTAINER_WRITES = templates('''
{L}.append({T}) {L}.append({T}[0]) {L}.extend({L}) {L}.extend([{T}]) {L}.insert(0,{T}) {L}.insert(1,{T}) {L}[0]={T}
{L}[-1]={T} {L}[{I}]={T} {L}.reverse() {L}.pop() {L}.pop(0) {L}.clear() {L}+={L} {L}+=[{T}] del~{L}[0]
{L}[0].add_(1) {L}[-1].mul_(2) {L}[{I}].zero_() {M}.append({L}) {M}.append([{T}]) {M}[0]={L} {M}[0].append({T})
{M}[0][0].add_(1) {M}[-1][0]={T} {M}.pop() {M}.extend({M}) {M}.insert(0,{L}) {D}["a"]={T} {D}["b"]={T}[0]
{D}["c"]={T} {D}["a"].add_(1) {D}["b"].zero_() {D}.pop("b") {D}.update({D}) {D}.setdefault("c",{T}).add_(1)
del~{D}["a"] {D}.clear() put_in({D},{T}) push({L},{T}) push({L},{T}).add_(1) {B}.put({T}) {B}.bump() {B}.t={T}
{B}.l.append({T}) {B}.t.add_(1) {B}.l[0].mul_(2) {B}.l=[{T}] {B}.get().add_(1) {B}.swap({T}).mul_(2) {P}[0].add_(1)
{P}[1][0].zero_() {Q}[1].append({T}) {Q}[0].add_(1) {Q}[1][0].mul_(2) {E}.append(({T},{T})) {E}[0]={P}
{E}[0][1].add_(1) {E}.pop() {E}.reverse() {E}.insert(0,{P}) {E}+={E} {E}[-1][0].mul_(2) {J}["a"].append({T})
{J}["b"]={L} {J}["a"]=[{T}] {J}["a"][0].add_(1) {J}.pop("b") {J}["c"]={M}[0] {J}.setdefault("c",{L}).append({T})
{J}.update({J}) {J}["a"]+={L} {i}[0]={T} {i}[{I}]={T} {i}[0].add_(1) {i}[{I}].mul_(2) {i}.pop(1) {i}[2]={i}[0]
del~{i}[0] {X}[0].put({T}) {X}.append({B}) {X}[-1].t.add_(1) {X}[0].l.append({T}) {X}[0].t={T} {X}[0]={B} {X}.pop()
{W}.box.put({T}) {W}.box={B} {W}.box.t.add_(1) {W}.d["k"]={T} {W}.d["k"].mul_(2) {W}.keep({T}) {W}.box.l[0].zero_()
{W}.box.l={L} {B}.l=({L}) {L}.extend({J}["a"]) {L}.append({W}.keep({T})) {M}.append({J}["a"]) {B}.put({X}[0].t)
''')

# Expressions, by their type.
EXPRESSIONS = {
    "T": templates('''
{E}[0][0] {E}[-1][1] {J}["a"][0] {i}[0] {i}[{I}] {i}.pop(0) {X}[0].t {X}[-1].get() {W}.box.t {W}.d["k"]
{W}.keep({T}) {W}.box.l[0] {X}[0].swap({T}) {E}.pop()[1] {L}[0] {L}[-1] {L}[{I}] {L}.pop() {P}[0] {P}[1] {Q}[0]
{Q}[1][0] {D}["a"] {D}["b"] {D}.pop("c",{T}) {D}.setdefault("d",{T}) {M}[0][0] {M}[-1][-1] {B}.t {B}.get()
{B}.swap({T}) first_row({T}) push({L},{T}) bump({T},{T}) pick({T},{T},{C}) both({T},{T})[0] last({L}) twice({T})
share({T})[0] Pair({T},{T}).a torch.jit.wait(torch.jit.fork(twice,{T})) torch.jit.wait(torch.jit.fork(bump,{T},{T}))
torch.jit.wait(torch.jit.fork(first_row,{T})) ({T}~if~{C}~else~{T}) torch.cat({L}) torch.stack({L}) sum({L})
torch.jit.wait(torch.jit.fork(share,{T}))[1][0] {L}[0:1][0] ({L}+{L})[1] list({D}.values())[0]
list({D}.items())[0][1] {T}.add_(1) {T}.relu_() {T}.copy_({T}) {T}.t_()
'''),
    "L": templates('''
[{T},{T}] [{T}] [{T},{T},{T}] {L}+{L} {L}[0:2] {L}[1:] {L}[::-1] {L}.copy() list({L}) {T}.split(2) {T}.split([1,3])
{T}.chunk(2) {T}.unbind() {T}.unbind(1) list({T}.unbind(0)) {T}.tensor_split(2) torch.hsplit({T},2)
torch.broadcast_tensors([{T},{T}]) torch.meshgrid([{T}[0],{T}[1]]) torch.atleast_1d([{T},{T}])
torch.atleast_2d([{T}]) torch.atleast_3d([{T},{T}]) torch._foreach_add([{T},{T}],1.0) torch._foreach_mul({L},2.0)
torch._foreach_neg({L}) [{T}+1~for~_~in~range(2)] [v*2~for~v~in~{L}] [v~for~v~in~{L}] [v.t()~for~v~in~{L}]
[{T}[j]~for~j~in~range(2)] {M}[0] {M}[{I}] {L}*2 list({D}.values()) {B}.l torch.unsafe_chunk({T},2)
torch.unsafe_split({T},2) torch.split_with_sizes({T},[1,3]) torch.split_with_sizes_copy({T},[1,3])
torch.unbind_copy({T}) torch.split_copy({T},2) torch.align_tensors([{T}]) torch.where({T}>0) torch.gradient({T}[0])
torch.functional.atleast_1d([{T}]) share({T})[1] nest({T})[1] [a~for~a,b~in~zip({L},{L})]
torch.dsplit({T}.unsqueeze(0),2) torch.vsplit({T},2) [first_row(v)~for~v~in~{L}] torch._foreach_clamp_max({L},1.0)
torch.jit.annotate(List[Tensor],[]) {J}["a"] {J}["b"] {X}[0].l {W}.box.l [v[0]~for~v~in~{E}] list({i}.values())
{J}.pop("a")
'''),
    "M": templates('''
[{L},{L}] [[{T}],[{T},{T}]] {M}[0:1] {M}+{M} {M}.copy() nest({T}) [{L}] [[v]~for~v~in~{L}] list({M})
'''),
    "P": templates('''
({T},{T}) ({T},{T}[0]) both({T},{T}) ({P}[1],{P}[0]) ({L}[0],{T}) torch.var_mean({T}) torch.aminmax({T})
torch.max({T},0) torch.sort({T})
'''),
    "Q": templates('''
({T},{L}) share({T}) ({T},[{T}]) ({P}[0],{Q}[1])
'''),
    "D": templates('''
{{"a":{T},"b":{T}}} {{"a":{T}}} {D}.copy() dict({D}) {{"a":{L}[0],"b":{P}[1]}}
'''),
    "O": templates('''
{D}.get("a") {D}.get("c") put_in({D},{T}) torch.jit.annotate(Optional[Tensor],{T})
'''),
    "B": templates('''
Box({T}) Box({L}[0]) {X}[0] {X}[-1] {W}.box
'''),
    "E": templates('''
[({T},{T})] [({T},{T}[0]),{P}] {E}[0:1] {E}.copy() {E}+{E} list(zip({L},{L})) [(v,v)~for~v~in~{L}] {E}[::-1]
'''),
    "J": templates('''
{{"a":{L}}} {{"a":[{T}],"b":{L}}} {J}.copy() {{"b":{M}[0]}}
'''),
    "i": templates('''
{{0:{T},1:{T}}} {{0:{T}}} {i}.copy() {{k:{T}[k]~for~k~in~range(2)}}
'''),
    "X": templates('''
[Box({T}),Box({T})] [{B}] [{B},{B}] {X}[0:1] {X}+[{B}]
'''),
    "W": templates('''
Wrap({B},{T}) Wrap(Box({T}),{T})
'''),
}
