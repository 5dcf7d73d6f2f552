"""From the caller's arguments to the flat list of the model's, and from its flat results to what the caller expects."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _errors
from . import _library as lib
from ._signature import Argument, Node, Signature


class Record(types.SimpleNamespace):
    """A result of a class that this process does not know: its fields are attributes."""

    def __init__(self, type_name: str, fields: Dict[str, Any]) -> None:
        super().__init__(**fields)
        object.__setattr__(self, "_type_name", type_name)

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __repr__(self) -> str:
        fields = ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items() if k != "_type_name")
        return f"{self.__dict__['_type_name'].rsplit('.', 1)[-1]}({fields})"


def _flatten(node: Node, value: Any, out: List[Any], where: str) -> None:
    kind = node.kind
    if kind == lib.LEAF:
        out.append(value)
        return
    if kind == lib.NO_LEAF:
        if value is not None:
            raise _errors.InvalidArgument(f'argument "{where}" is {type(value).__name__}, expected None')
        return
    children = node.children
    if kind == lib.DICT:
        if not isinstance(value, Mapping):
            raise _errors.InvalidArgument(f'argument "{where}" is {type(value).__name__}, expected a dict')
        keys = [c.key for c in children]
        if len(value) != len(keys) or any(k not in value for k in keys):
            raise _errors.InvalidArgument(f'argument "{where}" has the keys {list(value)}, expected {keys}')
        for c in children:
            _flatten(c, value[c.key], out, f"{where}.{c.key}")
        return
    if kind == lib.OBJECT and all(c.key is not None for c in children):
        for c in children:
            key = str(c.key)
            try:
                part = value[key] if isinstance(value, Mapping) else getattr(value, key)
            except (KeyError, AttributeError):
                raise _errors.InvalidArgument(f'argument "{where}" has no field "{key}"') from None
            _flatten(c, part, out, f"{where}.{key}")
        return
    if not isinstance(value, (tuple, list)):
        expected = "a list" if kind == lib.LIST_NODE else "a tuple"
        raise _errors.InvalidArgument(f'argument "{where}" is {type(value).__name__}, expected {expected}')
    if len(value) != len(children):
        raise _errors.InvalidArgument(f'argument "{where}" has {len(value)} items, expected {len(children)}')
    for i, c in enumerate(children):
        _flatten(c, value[i], out, f"{where}.{i}")


class _Parameter:
    __slots__ = ("name", "keyword_only", "node", "defaults")

    def __init__(self, name: str, keyword_only: bool, node: Optional[Node], arguments: Sequence[Argument]) -> None:
        self.name = name
        self.keyword_only = keyword_only
        self.node = node  # None: one leaf
        # A parameter whose every value was baked in at export need not be given.
        self.defaults = [a.value for a in arguments] if all(a.constant for a in arguments) else None


class Binder:
    """Makes flat lists of arguments."""

    def __init__(self, signature: Signature) -> None:
        self._parameters: List[_Parameter] = []
        arguments = signature.arguments
        if signature.argument_tree is None:
            self._parameters = [_Parameter(a.name, False, None, [a]) for a in arguments]
        else:
            first = 0
            for child in signature.argument_tree.children:
                mine = arguments[first : first + child.leaves]
                first += child.leaves
                is_leaf = child.kind == lib.LEAF
                self._parameters.append(_Parameter(str(child.key), child.by_name, None if is_leaf else child, mine))
        self._positional = [p for p in self._parameters if not p.keyword_only]
        # Every parameter is one argument that is given by place.
        self._is_plain = all(p.node is None and not p.keyword_only for p in self._parameters)
        self._count = len(self._parameters)

    def flatten(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Sequence[Any]:
        if self._is_plain and not kwargs and len(args) == self._count:
            return args
        if len(args) > len(self._positional):
            raise _errors.InvalidArgument(
                f"the model takes {len(self._positional)} positional argument{'s' if len(self._positional) != 1 else ''} "
                f"({', '.join(p.name for p in self._positional)}), {len(args)} were given"
            )
        out: List[Any] = []
        given = 0
        used = 0
        for p in self._parameters:
            if not p.keyword_only and given < len(args):
                value = args[given]
                given += 1
                if p.name in kwargs:
                    raise _errors.InvalidArgument(f'argument "{p.name}" is given twice')
            elif p.name in kwargs:
                value = kwargs[p.name]
                used += 1
            elif p.defaults is not None:
                out.extend(p.defaults)
                continue
            else:
                self._refuse_unknown(kwargs)  # a misspelt name says more than the one that is missing
                raise _errors.InvalidArgument(f'argument "{p.name}" is missing')
            if p.node is None:
                out.append(value)
            else:
                _flatten(p.node, value, out, p.name)
        if used != len(kwargs):
            self._refuse_unknown(kwargs)
        return out

    def _refuse_unknown(self, kwargs: Dict[str, Any]) -> None:
        names = [p.name for p in self._parameters]
        for unknown in kwargs:
            if unknown not in names:
                raise _errors.InvalidArgument(f'the model has no argument "{unknown}"; it has {", ".join(names)}')


def nester(node: Optional[Node], count: int) -> Callable[[List[Any]], Any]:
    """A function from the flat results to the user's own structure."""
    if node is None:
        return tuple
    if node.kind == lib.LEAF:
        return lambda flat: flat[0]
    if all(c.kind == lib.LEAF for c in node.children):
        if node.kind in (lib.TUPLE, lib.NAMED_TUPLE):
            return tuple
        if node.kind == lib.LIST_NODE:
            return list
        if node.kind == lib.DICT:
            keys = [c.key for c in node.children]
            return lambda flat: dict(zip(keys, flat))
    root = node
    return lambda flat: _nest(root, iter(flat))


def _nest(node: Node, flat: Any) -> Any:
    kind = node.kind
    if kind == lib.LEAF:
        return next(flat)
    if kind == lib.NO_LEAF:
        return None
    parts = [_nest(c, flat) for c in node.children]
    if kind == lib.LIST_NODE:
        return parts
    if kind == lib.DICT:
        return {c.key: part for c, part in zip(node.children, parts)}
    if kind == lib.OBJECT and all(c.key is not None for c in node.children):
        return Record(node.type, {str(c.key): part for c, part in zip(node.children, parts)})
    return tuple(parts)
