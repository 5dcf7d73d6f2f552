"""What a model takes and returns, read once from libsmelt."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _library as lib

_INT64_MAX = 2**63 - 1
_PLACES = (
    "unknown", "no tensor", "fresh", "shared", "in argument", "is argument", "in state", "is state",
)  # fmt: skip


@dataclass(frozen=True)
class Dim:
    """A size that varies from call to call: `expr` names it, equal symbols are equal sizes."""

    expr: str
    min: int
    max: Optional[int]  # None: no bound

    def __str__(self) -> str:
        return self.expr or "?"

    def range(self) -> str:
        """ "1..4096" """
        return f"{self.min}.." + ("" if self.max is None else str(self.max))


Size = Union[int, Dim]


@dataclass(frozen=True)
class Argument:
    name: str  # in the graph
    path: str  # where the caller has it: "x", "d.k.0"
    kind: str  # "tensor", "int", "float", "bool", "string", "complex", "none"
    dtype: Optional[str] = None  # of a tensor
    shape: Optional[Tuple[Size, ...]] = None
    written: bool = False  # some call writes its elements
    reshaped: bool = False  # some call changes its shape, its strides or its memory
    constant: bool = False  # the value was baked in at export
    value: Any = None  # that value
    values: Optional[Dim] = None  # of an int: what it may be

    def __str__(self) -> str:
        text = f"{self.path}: {_type_text(self.kind, self.dtype, self.shape)}"
        if self.constant:
            text += f" = {self.value!r}"
        return text + (" (written)" if self.written or self.reshaped else "")


@dataclass(frozen=True)
class Result:
    name: str
    path: str  # where it is in what the model returns: "logits", "0"; "" for a lone result
    kind: str
    dtype: Optional[str] = None  # None: known only after a call
    shape: Optional[Tuple[Size, ...]] = None
    place: str = "unknown"  # "fresh", "is argument", "in state", ...
    source: Optional[str] = None  # the argument or state of that place

    def __str__(self) -> str:
        text = f"{self.name}: {_type_text(self.kind, self.dtype, self.shape)}"
        if self.source is None:
            return text
        return text + f" ({self.place} {self.source})"


@dataclass(frozen=True)
class State:
    name: str
    kind: str  # "parameter", "buffer", "constant"
    dtype: str
    shape: Tuple[int, ...]
    mutable: bool  # some call writes it: each Model has its own
    may_move: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class Node:
    """Of the tree in which the caller nests arguments or results."""

    kind: int
    key: Union[None, str, int]
    by_name: bool
    type: str
    children: Tuple["Node", ...]
    leaves: int


@dataclass(frozen=True)
class Signature:
    model: str
    arguments: Tuple[Argument, ...]
    results: Tuple[Result, ...]
    states: Tuple[State, ...]
    target: str  # that runs here
    targets: Tuple[str, ...]
    argument_tree: Optional[Node] = field(default=None, repr=False)
    result_tree: Optional[Node] = field(default=None, repr=False)

    def __str__(self) -> str:
        arguments = ", ".join(str(a) for a in self.arguments)
        results = iter(self.results)
        if self.result_tree is None:
            returned = "(" + "".join(f"{_type_text(r.kind, r.dtype, r.shape)}, " for r in results).rstrip(" ") + ")"
        else:
            returned = _tree_text(self.result_tree, results)
        lines = [f"{self.model}({arguments}) -> {returned}"]
        ranges = {}
        for a in self.arguments:
            for size in a.shape or ():
                if isinstance(size, Dim) and size.expr.isidentifier():
                    ranges[size.expr] = size.range()
        lines.extend(f"  {symbol} in {ranges[symbol]}" for symbol in sorted(ranges))
        return "\n".join(lines)


def _type_text(kind: str, dtype: Optional[str], shape: Optional[Tuple[Size, ...]]) -> str:
    if kind != "tensor":
        return kind
    sizes = "..." if shape is None else ", ".join(str(s) for s in shape)
    return f"{dtype or 'tensor'}[{sizes}]"


def _tree_text(node: Node, results: Any) -> str:
    if node.kind == lib.LEAF:
        r = next(results)
        return _type_text(r.kind, r.dtype, r.shape)
    if node.kind == lib.NO_LEAF:
        return "None"
    parts = [_tree_text(child, results) for child in node.children]
    if node.kind == lib.DICT:
        return "{" + ", ".join(f"{c.key!r}: {p}" for c, p in zip(node.children, parts)) + "}"
    if node.kind == lib.LIST_NODE:
        return "[" + ", ".join(parts) + "]"
    if node.kind == lib.OBJECT:
        named = (p if c.key is None else f"{c.key}={p}" for c, p in zip(node.children, parts))
        return f"{node.type.rsplit('.', 1)[-1]}(" + ", ".join(named) + ")"
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def _text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


def constant_of(value: lib.Value) -> Any:
    """The Python object for a value that is no tensor."""
    kind, v = value.kind, value.value
    if kind == lib.INT:
        return v.integer
    if kind == lib.FLOAT:
        return v.real
    if kind == lib.BOOL:
        return bool(v.boolean)
    if kind == lib.STRING:
        return ctypes.string_at(v.string.data, v.string.size).decode("utf-8", "replace") if v.string.size else ""
    if kind == lib.COMPLEX:
        return complex(v.cplx.real, v.cplx.imag)
    return None


def _dim(d: lib.Dim) -> Size:
    return int(d.size) if d.size >= 0 else Dim(_text(d.expr), d.min, None if d.max == _INT64_MAX else d.max)


def _shape(info: Any) -> Optional[Tuple[Size, ...]]:
    return None if info.rank < 0 else tuple(_dim(info.dims[d]) for d in range(info.rank))


def _dtype(code: int) -> Optional[str]:
    return None if code < 0 else lib.DTYPE_NAMES[code]


def _tree(nodes: Any, count: int) -> Optional[Node]:
    if count == 0:
        return None
    position = 0

    def read() -> Node:
        nonlocal position
        n = nodes[position]
        position += 1
        key: Union[None, str, int] = None
        if n.key_kind == lib.KEY_NAME:
            key = _text(n.key)
        elif n.key_kind == lib.KEY_NUMBER:
            key = int(_text(n.key))
        children = tuple(read() for _ in range(n.num_children))
        leaves = 1 if n.kind == lib.LEAF else sum(c.leaves for c in children)
        return Node(n.kind, key, bool(n.by_name), _text(n.type), children, leaves)

    return read()


def _described(describe: Callable[..., int], handle: int, i: int, info: Any, library: lib.Library) -> Any:
    info.struct_size = ctypes.sizeof(info)
    library.check(describe(handle, i, ctypes.byref(info)))
    return info


def read(library: lib.Library, program: int) -> Signature:
    """The signature of a loaded program."""
    about = lib.ProgramInfo()
    about.struct_size = ctypes.sizeof(about)
    library.check(library.program_describe(program, ctypes.byref(about)))
    arguments: List[Argument] = []
    for i in range(about.num_args):
        a = _described(library.program_arg, program, i, lib.ArgInfo(), library)
        values = None
        if a.kind == lib.INT and not a.has_constant:
            v = a.value
            values = Dim(_text(v.expr) or str(v.size), v.min, None if v.max == _INT64_MAX else v.max)
        arguments.append(
            Argument(
                name=_text(a.name),
                path=_text(a.path),
                kind=lib.KIND_NAMES[a.kind],
                dtype=_dtype(a.dtype),
                shape=_shape(a),
                written=bool(a.effects & lib.WRITES_DATA),
                reshaped=bool(a.effects & (lib.CHANGES_GEOMETRY | lib.REPLACES_STORAGE | lib.RESIZES)),
                constant=bool(a.has_constant),
                value=constant_of(a.constant),
                values=values,
            )
        )
    states: List[State] = []
    for i in range(about.num_states):
        s = _described(library.program_state, program, i, lib.StateInfo(), library)
        states.append(
            State(
                name=_text(s.name),
                kind=("parameter", "buffer", "constant")[s.kind],
                dtype=lib.DTYPE_NAMES[s.dtype],
                shape=tuple(s.sizes[d] for d in range(s.rank)),
                mutable=bool(s.is_mutated),
                may_move=bool(s.may_move),
            )
        )
    results: List[Result] = []
    for i in range(about.num_results):
        r = _described(library.program_result, program, i, lib.ResultInfo(), library)
        place = _PLACES[r.place] if r.place < len(_PLACES) else "unknown"
        source = None
        if r.index >= 0:
            named: Sequence[Any] = arguments if place.endswith("argument") else states
            source = named[r.index].name
        results.append(
            Result(
                name=_text(r.name),
                path=_text(r.path),
                kind=lib.KIND_NAMES[r.kind],
                dtype=_dtype(r.dtype),
                shape=_shape(r),
                place=place,
                source=source,
            )
        )
    count = ctypes.c_size_t()
    argument_nodes = library.program_arg_structure(program, ctypes.byref(count))
    argument_tree = _tree(argument_nodes, count.value)
    result_nodes = library.program_result_structure(program, ctypes.byref(count))
    result_tree = _tree(result_nodes, count.value)
    return Signature(
        model=_text(about.model_name),
        arguments=tuple(arguments),
        results=tuple(results),
        states=tuple(states),
        target=_text(about.target),
        targets=tuple(_text(library.program_target(program, i)) for i in range(about.num_targets)),
        argument_tree=argument_tree,
        result_tree=result_tree,
    )
