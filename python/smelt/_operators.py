"""smelt.register_op: operators of the user's own, implemented in Python."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple, Union

import numpy as np

from . import _arrays, _errors
from . import _library as lib

_VALUE = ctypes.sizeof(lib.Value)
_FAILED, _OUT_OF_MEMORY = 9, 8
# Implementations are called from any thread; an exception belongs to the call that it ends.
_raised = threading.local()


def take_exception() -> Optional[BaseException]:
    """The exception that ended the last call of an operator on this thread, once."""
    exception = getattr(_raised, "exception", None)
    _raised.exception = None
    return exception


def raise_failure(library: lib.Library, status: int) -> NoReturn:
    """Raises the error of a call that ended with `status`, from the exception of the operator that ended it, if one did.

    What is no Exception, such as KeyboardInterrupt, is not about the call: it goes on as it is.
    """
    cause = take_exception()
    if cause is not None and not isinstance(cause, Exception):
        raise cause
    raise library.error(status) from cause


def _message_of(e: BaseException) -> str:
    try:
        return f"{type(e).__name__}: {e}"
    except Exception:  # its __str__ fails
        return type(e).__name__


class _Implementation:
    def __init__(self, name: str, function: Callable[..., Any], arrays: str, library: lib.Library) -> None:
        self.name = name
        self.function = function
        self.arrays = arrays
        self.library = library
        self.callback = lib.OPERATOR_FUNCTION(self.call)  # kept for as long as libsmelt may call it

    def call(self, address: int) -> int:
        call = lib.OperatorCall.from_address(address)
        try:
            args = [self._value(call, address, call.args + i * _VALUE) for i in range(call.num_args)]
            returned = self.function(*args)
            self._give(call, returned)
            return 0
        except BaseException as e:  # noqa: B902: nothing may leave a callback
            _raised.exception = e
            text = _message_of(e).encode("utf-8", "replace")[: call.message_size - 1]
            # A cut may have gone through a character.
            text = text.decode("utf-8", "ignore").encode("utf-8").split(b"\0")[0]
            ctypes.memmove(call.message, text + b"\0", len(text) + 1)
            return _OUT_OF_MEMORY if isinstance(e, MemoryError) else _FAILED

    def _value(self, call: lib.OperatorCall, call_address: int, address: int) -> Any:
        value = lib.Value.from_address(address)
        kind = value.kind
        if kind == lib.NONE:
            return None
        if kind == lib.ARRAY:
            return self._array(call, call_address, value.value.pointer)
        if kind == lib.INT:
            return value.value.integer
        if kind == lib.FLOAT:
            return value.value.real
        if kind == lib.BOOL:
            return value.value.boolean != 0
        if kind == lib.COMPLEX:
            return complex(value.value.cplx.real, value.value.cplx.imag)
        if kind == lib.STRING:
            return ctypes.string_at(value.value.string.data, value.value.string.size).decode("utf-8")
        items = value.value.string  # a list lies as a string does: an address and a count
        return [self._value(call, call_address, items.data + i * _VALUE) for i in range(items.size)]

    def _array(self, call: lib.OperatorCall, call_address: int, address: int) -> Any:
        array = lib.Array.from_address(address)
        kept = call.api.contents.keep(call_address, address)
        if not kept:
            raise MemoryError("no memory for a tensor's handle")
        handle = _arrays.Handle(self.library, kept, call)  # the call in which its memory is an argument's
        sizes = _arrays.numbers(array.sizes, array.rank)
        strides = None if array.flags & lib.ROW_MAJOR else _arrays.numbers(array.strides, array.rank)
        at = (array.data or 0) + array.offset * lib.DTYPE_SIZES[array.dtype]
        writable = not array.flags & lib.READ_ONLY
        dtype = array.dtype
        if self.arrays == "torch":
            carrier = lib.CARRIERS.get(dtype, dtype)
            # PyTorch has no read-only tensors.
            return _arrays.torch_tensor(_arrays.numpy_array(at, carrier, sizes, strides, handle, True), dtype)
        if _arrays.NUMPY_DTYPES[dtype] is None:
            raise TypeError(
                f'numpy has no {lib.DTYPE_NAMES[dtype]}: install ml_dtypes, or register the operator with arrays="torch"'
            )
        return _arrays.numpy_array(at, dtype, sizes, strides, handle, writable)

    def _give(self, call: lib.OperatorCall, returned: Any) -> None:
        count = call.num_results
        if count == 0:
            if returned is not None:
                raise TypeError(f"{self.name} returned {type(returned).__name__}, its schema has no results")
            return
        results = returned if count != 1 else (returned,)
        if not isinstance(results, (tuple, list)) or len(results) != count:
            raise TypeError(
                f"{self.name} returned {type(returned).__name__}, its schema has {count} results: a tuple expected"
            )
        for i, result in enumerate(results):
            self._put(call, call.results + i * _VALUE, result)

    def _put(self, call: lib.OperatorCall, address: int, result: Any) -> None:
        value = lib.Value.from_address(address)
        if result is None:
            return
        if isinstance(result, np.generic):  # what numpy gives for an array without dims
            self._put_numpy(call, address, np.asarray(result))
        elif isinstance(result, bool):
            value.value.boolean = int(result)
            value.kind = lib.BOOL
        elif isinstance(result, int):
            if not -(2**63) <= result < 2**63:
                raise OverflowError(f"{self.name} returned an int of {result.bit_length()} bits, at most 64 expected")
            value.value.integer = result
            value.kind = lib.INT
        elif isinstance(result, float):
            value.value.real = result
            value.kind = lib.FLOAT
        elif isinstance(result, (tuple, list)):
            if call.api.contents.new_list(address, len(result)) != 0:
                raise MemoryError("no memory for a list")
            items = value.value.string.data
            for i, item in enumerate(result):
                self._put(call, items + i * _VALUE, item)
        else:
            self._put_tensor(call, value, address, result)

    def _put_tensor(self, call: lib.OperatorCall, value: lib.Value, address: int, result: Any) -> None:
        if isinstance(result, np.ndarray):
            return self._put_numpy(call, address, result)
        torch = _arrays.loaded_torch()
        if torch is not None and isinstance(result, torch.Tensor):
            result = result.detach()
            if result.is_conj() or result.is_neg():
                result = result.resolve_conj().resolve_neg()
        if not hasattr(result, "__dlpack__"):
            raise TypeError(f"{self.name} returned {type(result).__name__}, a tensor or a number expected")
        handle = _arrays.from_dlpack(self.library, result)
        value.value.pointer = handle.give_away()
        value.kind = lib.TENSOR

    def _put_numpy(self, call: lib.OperatorCall, address: int, result: Any) -> None:
        """Gives the array's own memory if it can be passed on, else a copy (read-only arrays, dtypes that DLPack lacks).

        Memory of an argument is passed on also where it is read-only: the schema says whether the result may lie there.
        """
        codes = [i for i, d in enumerate(_arrays.NUMPY_DTYPES) if d is not None and d == result.dtype]
        if not codes:
            raise TypeError(f"{self.name} returned an array of {result.dtype}, which models have no tensors of")
        result, argument = _of_argument(call, result)
        if argument is not None and self._put_view(address, result, codes[0], argument):
            return
        if result.flags.writeable and codes[0] not in lib.CARRIERS and all(s >= 0 for s in result.strides):
            try:
                handle = _arrays.from_dlpack(self.library, result)
            except (BufferError, _errors.InvalidArgument):
                pass  # not aligned, or strides that are no multiples of the elements
            else:
                value = lib.Value.from_address(address)
                value.value.pointer = handle.give_away()
                value.kind = lib.TENSOR
                return
        sizes = (ctypes.c_int64 * max(result.ndim, 1))(*result.shape)
        data = call.api.contents.new_tensor(address, codes[0], result.ndim, sizes)
        if result.size == 0:
            return
        if not data:
            raise MemoryError("no memory for a result")
        dense = np.ascontiguousarray(result)
        ctypes.memmove(data, dense.ctypes.data, dense.nbytes)

    def _put_view(self, address: int, result: Any, dtype: int, argument: _arrays.Handle) -> bool:
        """Gives a view of the argument, whatever its dtype. False where the argument has another or it is no view."""
        array, _, _ = _arrays.described(self.library, argument.pointer)
        item, rank = lib.DTYPE_SIZES[dtype], result.ndim
        distance = result.__array_interface__["data"][0] - (array.data or 0)
        if array.dtype != dtype or distance % item or any(s < 0 or s % item for s in result.strides):
            return False
        sizes = (ctypes.c_int64 * max(rank, 1))(*result.shape)
        strides = (ctypes.c_int64 * max(rank, 1))(*(s // item for s in result.strides))
        pointer = self.library.tensor_view(
            argument.pointer, rank, ctypes.addressof(sizes), ctypes.addressof(strides), distance // item
        )
        if not pointer:
            raise MemoryError("no memory for a view")
        value = lib.Value.from_address(address)
        value.value.pointer = pointer
        value.kind = lib.TENSOR
        return True


def _of_argument(call: lib.OperatorCall, array: Any) -> Tuple[Any, Optional[_arrays.Handle]]:
    """An array over memory of an argument of `call` as one that may be written, and that argument; another as it is."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    owner = getattr(base, "_smelt_owner", None)
    if not isinstance(owner, _arrays.Handle) or owner.keep is not call:
        return array, None
    at = array.__array_interface__["data"][0] - ctypes.addressof(base)
    return np.ndarray(array.shape, array.dtype, base, at, array.strides), owner


_registered: Dict[str, _Implementation] = {}
_lock = threading.Lock()
# Programs that are loaded call what they found, also after it was replaced.
_ever: List[_Implementation] = []


def register_op(name: str, function: Optional[Callable[..., Any]] = None, *, arrays: str = "numpy") -> Any:
    """Registers the implementation of an operator of the model's author, before the models that call it are loaded.

    name: "mylib::f", or "mylib::f.overload", as `torch.library.custom_op` has it.
    function: takes the schema's arguments in order. Tensors are arrays over the model's own memory: those that the
      schema says are written may be written in place, the others are read-only. It returns the results: one, a tuple of
      several, or None; an array, a tensor of PyTorch, anything with DLPack, a number, a list of tensors. A result that
      is an argument (`Tensor(a!)`) may be left as None.
    arrays: "numpy", or "torch" for tensors of PyTorch over the same memory (read-only ones must not be written).

    An exception ends the call of the model with smelt.Refused, whose __cause__ it is; arguments and states are then as
    they were. Without `function` it is a decorator. An operator that is registered again is replaced for models that
    are loaded from then on.
    """
    if arrays not in ("numpy", "torch"):
        raise _errors.InvalidArgument(f'arrays is {arrays!r}, expected "numpy" or "torch"')
    if arrays == "torch":
        import torch  # noqa: F401
    if function is None:
        return lambda f: register_op(name, f, arrays=arrays) and f
    if not callable(function):
        raise TypeError(f"a function expected, not {type(function).__name__}")
    library = lib.library()
    key = name[: -len(".default")] if name.endswith(".default") else name
    made = _Implementation(key, function, arrays, library)
    with _lock:
        if key in _registered:
            library.check(library.operator_unregister(lib.c_text(key)))
            del _registered[key]
        library.check(library.operator_register(lib.c_text(key), made.callback, None, None))
        _registered[key] = made
        _ever.append(made)
    return function


def unregister_op(name: str) -> None:
    """Removes an implementation that register_op registered. Models that are loaded keep it."""
    key = name[: -len(".default")] if name.endswith(".default") else name
    library = lib.library()
    with _lock:
        library.check(library.operator_unregister(lib.c_text(key)))
        _registered.pop(key, None)


def load_op_library(path: Union[str, "os.PathLike[str]"]) -> None:
    """Loads a shared library of operators (docs/custom_operators.md), which runs its code."""
    library = lib.library()
    library.check(library.operator_library_load(lib.c_path(path)))


def schemas_of(program: Any) -> Tuple[str, ...]:
    """The schemas of the operators in an exported program that are not PyTorch's own, as PyTorch states them."""
    torch = _arrays.loaded_torch()
    found: Dict[str, None] = {}
    for module in program.graph_module.modules():
        graph = getattr(module, "graph", None)
        if graph is None:
            continue
        for node in graph.nodes:
            for target in (node.target, *node.args):  # an operator that another one calls is its argument
                if isinstance(target, torch._ops.OpOverload) and target.namespace not in _BUILT_IN:
                    found[str(target._schema)] = None
    return tuple(found)


_BUILT_IN = ("aten", "prim", "prims", "higher_order", "inductor", "_c10d_functional", "profiler", "sym")
