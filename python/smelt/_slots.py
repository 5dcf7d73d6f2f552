"""Arguments of one model, each prepared for the values that calls pass.

A slot writes one smelt_value and, of a tensor, one smelt_array into memory that libsmelt reads. What stays the same
from call to call stays written: a call with arrays of the last shapes writes their addresses only.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from typing import Any, Dict, Optional, Tuple

import numpy as np

from . import _arrays, _errors
from . import _library as lib
from ._signature import Argument, Dim

_char: Any = ctypes.c_char
_addressof = ctypes.addressof
_ndarray = np.ndarray
_pack_array = struct.Struct("=qqqqqiiII").pack_into
_pack_kind = struct.Struct("=i").pack_into
_pack_int = struct.Struct("=q").pack_into
_pack_float = struct.Struct("=d").pack_into
_pack_complex = struct.Struct("=dd").pack_into
_pack_string = struct.Struct("=qq").pack_into
_VALUE = ctypes.sizeof(lib.Value)
_UNION = lib.Value.value.offset


def _shape_text(argument: Argument) -> str:
    return "[" + ", ".join(str(s) if isinstance(s, int) else _dim_text(s) for s in argument.shape or ()) + "]"


def _dim_text(dim: Dim) -> str:
    return f"{dim.expr or '?'} in {dim.range()}"


class Slot:
    """An argument that is no tensor."""

    is_tensor = False

    def __init__(self, argument: Argument, memory: memoryview, at: int) -> None:
        self.argument = argument
        self.memory = memory
        self.at = at
        self.keep: Any = None

    def bad(self, value: Any, expected: str) -> _errors.InvalidArgument:
        return _errors.InvalidArgument(
            f'argument "{self.argument.path}" is {type(value).__name__} ({value!r:.60}), expected {expected}'
        )

    def put(self, value: Any) -> None:
        raise NotImplementedError


class NoneSlot(Slot):
    def put(self, value: Any) -> None:
        if value is not None:
            raise self.bad(value, "None")
        _pack_kind(self.memory, self.at, lib.NONE)


class IntSlot(Slot):
    def put(self, value: Any) -> None:
        try:
            number = operator.index(value)
            _pack_int(self.memory, self.at + _UNION, number)
        except TypeError:
            raise self.bad(value, "an int") from None
        except struct.error:
            raise self.bad(value, "an int of 64 bits") from None
        _pack_kind(self.memory, self.at, lib.INT)


class BoolSlot(Slot):
    def put(self, value: Any) -> None:
        if not isinstance(value, (bool, np.bool_)):
            raise self.bad(value, "a bool")
        _pack_int(self.memory, self.at + _UNION, int(value))
        _pack_kind(self.memory, self.at, lib.BOOL)


class FloatSlot(Slot):
    def put(self, value: Any) -> None:
        if isinstance(value, (str, bytes, _ndarray)):
            raise self.bad(value, "a float")
        try:
            _pack_float(self.memory, self.at + _UNION, value)
        except (struct.error, OverflowError, TypeError):
            raise self.bad(value, "a float") from None
        _pack_kind(self.memory, self.at, lib.FLOAT)


class ComplexSlot(Slot):
    def put(self, value: Any) -> None:
        if not isinstance(value, (complex, float, int, np.number)):
            raise self.bad(value, "a complex")
        number = complex(value)
        _pack_complex(self.memory, self.at + _UNION, number.real, number.imag)
        _pack_kind(self.memory, self.at, lib.COMPLEX)


class StringSlot(Slot):
    def put(self, value: Any) -> None:
        if not isinstance(value, str):
            raise self.bad(value, "a str")
        data = value.encode("utf-8")
        self.keep = data  # CPython's bytes do not move
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        _pack_string(self.memory, self.at + _UNION, address, len(data))
        _pack_kind(self.memory, self.at, lib.STRING)


class _Shape:
    """Sizes, and strides in elements, in memory that libsmelt reads."""

    __slots__ = ("sizes", "strides", "sizes_at", "strides_at", "bytes", "row_major_bytes")

    def __init__(self, shape: Tuple[int, ...], strides: Optional[Tuple[int, ...]], item: int) -> None:
        self.sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(len(shape), 1))(*strides)
        self.sizes_at = _addressof(self.sizes)
        self.strides_at = 0 if self.strides is None else _addressof(self.strides)
        count = 1
        for n in shape:
            count *= n
        if strides is None or count == 0:
            self.bytes = count * item
        else:
            self.bytes = item * (1 + sum((n - 1) * s for n, s in zip(shape, strides)))


_MOST_SHAPES = 64


class TensorSlot(Slot):
    is_tensor = True

    def __init__(
        self, argument: Argument, memory: memoryview, at: int, array_at: int, array_address: int, library: lib.Library
    ) -> None:
        super().__init__(argument, memory, at)
        self.array_at = array_at
        self.array_address = array_address
        self.library = library
        assert argument.dtype is not None
        self.dtype = lib.DTYPE_NAMES.index(argument.dtype)
        self.np_dtype = _arrays.NUMPY_DTYPES[self.dtype]
        self.item = lib.DTYPE_SIZES[self.dtype]
        self.alignment = _arrays._ALIGNMENTS[self.dtype]
        self.rank = len(argument.shape or ())
        self.changed = argument.written or argument.reshaped
        self.shapes: Dict[Any, _Shape] = {}
        self.torch_dtype: Any = None
        # All that describes the array except its address: the shape of a row-major, writable numpy array.
        self.last: Optional[Tuple[int, ...]] = None
        self.is_array = False

    # --- numpy ---

    def put(self, value: Any) -> Any:
        """Writes the value; returns what to return where the model returns the argument itself. `keep` then holds what
        was passed instead of the value, if that is another object."""
        if type(value) is _ndarray:
            if value.dtype is self.np_dtype and value.shape == self.last:
                try:
                    address = _addressof(_char.from_buffer(value))  # writable and contiguous, or an error
                except (TypeError, ValueError, BufferError):
                    return self._put_numpy(value)
                if address % self.alignment == 0:
                    _pack_int(self.memory, self.array_at, address)
                    return value
            return self._put_numpy(value)
        return self._put_other(value)

    def _put_numpy(self, value: Any) -> Any:
        if value.dtype != self.np_dtype:
            expected = self.argument.dtype
            if self.np_dtype is None:
                expected += ": pass a PyTorch tensor, or install ml_dtypes for an array of that dtype"
            raise _errors.InvalidArgument(
                f'argument "{self.argument.path}" is an array of {value.dtype}, expected {expected}'
            )
        self._check_rank(value.shape)
        if self.argument.reshaped:
            raise _errors.InvalidArgument(
                f'argument "{self.argument.path}": the model changes its shape in place, which an array of numpy does '
                "not allow; pass a PyTorch tensor"
            )
        flags = value.flags
        address = value.__array_interface__["data"][0]
        strides: Optional[Tuple[int, ...]] = None
        fits = address % self.alignment == 0 or value.size == 0
        if not flags.c_contiguous:
            strides = tuple(s // self.item for s in value.strides)
            fits = fits and all(s % self.item == 0 and s >= 0 for s in value.strides)
        if self.changed:
            if not flags.writeable:
                raise _errors.InvalidArgument(
                    f'argument "{self.argument.path}" is a read-only array, and the model writes it'
                )
            if not fits:
                raise _errors.InvalidArgument(
                    f'argument "{self.argument.path}" has strides {value.strides} bytes at address {address}, and the '
                    "model writes it: an array of aligned elements without negative strides expected"
                )
        keep = value
        if not fits:
            keep = np.ascontiguousarray(value).copy() if value.ndim == 0 else value.copy(order="C")
            address = keep.__array_interface__["data"][0]
            strides = None
        shape = self._shape(value.shape, strides)
        writable = keep.flags.writeable
        self._write(address, shape.bytes, shape, 0, 0 if writable else lib.READ_ONLY)
        is_passed = keep is value
        self.last = value.shape if strides is None and writable and is_passed else None
        self.keep = None if is_passed else keep
        return value

    def _shape(self, shape: Tuple[int, ...], strides: Optional[Tuple[int, ...]]) -> _Shape:
        key = shape if strides is None else (shape, strides)
        found = self.shapes.get(key)
        if found is None:
            if len(self.shapes) >= _MOST_SHAPES:
                self.shapes.clear()
            found = self.shapes[key] = _Shape(tuple(shape), strides, self.item)
        return found

    def _write(self, data: int, size: int, shape: _Shape, offset: int, flags: int) -> None:
        self.shape_in_memory = shape  # its numbers are read from there
        _pack_array(
            self.memory, self.array_at, data if size else 0, size, shape.sizes_at, shape.strides_at, offset, self.dtype,
            self.rank, flags, 0,
        )  # fmt: skip
        if not self.is_array:
            _pack_kind(self.memory, self.at, lib.ARRAY)
            _pack_int(self.memory, self.at + _UNION, self.array_address)
            self.is_array = True

    def put_handle(self, pointer: int) -> None:
        _pack_kind(self.memory, self.at, lib.TENSOR)
        _pack_int(self.memory, self.at + _UNION, pointer)
        self.is_array = False
        self.last = None

    def same_as(self, other: "TensorSlot") -> None:
        """The value is the one that `other` has."""
        if other.is_array:
            _pack_kind(self.memory, self.at, lib.ARRAY)
            _pack_int(self.memory, self.at + _UNION, other.array_address)
            self.is_array = False
        else:
            self.memory[self.at : self.at + _VALUE] = other.memory[other.at : other.at + _VALUE]
            self.is_array = False
        self.last = None
        self.keep = other.keep

    def _check_rank(self, shape: Tuple[int, ...]) -> None:
        if len(shape) != self.rank:
            raise _errors.InvalidArgument(
                f'argument "{self.argument.path}" has shape {list(shape)}, expected {_shape_text(self.argument)}'
            )

    # --- PyTorch ---

    def check_torch(self, value: Any, torch: Any) -> Any:
        """The tensor to pass for `value`: itself, or a copy where its elements are not in memory as they are."""
        if self.torch_dtype is None:
            self.torch_dtype = _arrays.torch_dtype(self.dtype)
        name = self.argument.path
        if value.dtype is not self.torch_dtype:
            raise _errors.InvalidArgument(
                f'argument "{name}" is a tensor of {str(value.dtype)[6:]}, expected {self.argument.dtype}'
            )
        if value.requires_grad and torch.is_grad_enabled():
            raise _errors.InvalidArgument(
                f'argument "{name}" requires grad, and smelt computes no gradients: pass {name}.detach(), or call '
                "under torch.no_grad()"
            )
        if not value.is_cpu or value.layout is not torch.strided:
            raise _errors.InvalidArgument(
                f'argument "{name}" is a {value.layout} tensor on {value.device}, expected a dense one on the CPU'
            )
        if value.is_neg() or (self.dtype >= 10 and value.is_conj()):
            if self.changed:
                raise _errors.InvalidArgument(
                    f'argument "{name}" is a lazy conjugate or negative, and the model writes it: pass a resolved copy'
                )
            return value.resolve_conj().resolve_neg()
        return value

    def put_torch(self, value: Any, torch: Any) -> Any:
        passed = self.check_torch(value, torch)
        shape = passed.shape
        strides = passed.stride()
        storage = passed.untyped_storage()
        data = storage.data_ptr()
        offset = passed.storage_offset()
        key = (shape, strides)
        if key != self.last_torch or not self.is_array:
            self._check_rank(shape)
            self.torch_shape = self._shape(shape, strides)
            self.last_torch = key
        if (data + offset * self.item) % self.alignment and passed.numel():
            raise _errors.InvalidArgument(f'argument "{self.argument.path}" is not aligned to its elements')
        self._write(data, storage.nbytes(), self.torch_shape, offset, 0)
        self.last = None
        self.keep = None if passed is value else passed
        return value

    last_torch: Any = None
    torch_shape: Any = None

    # --- everything else ---

    def _put_other(self, value: Any) -> Any:
        torch = _arrays.loaded_torch()
        if torch is not None and isinstance(value, torch.Tensor):
            if type(value) is not torch.Tensor and type(value) is not torch.nn.Parameter:
                if type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                    raise self.bad(type(value), "a plain tensor")
            return self.put_torch(value, torch)
        if isinstance(value, _ndarray):
            if isinstance(value, np.ma.MaskedArray):
                raise self.bad(value, "an array without a mask, such as .filled() makes")
            return self._put_numpy(value)
        if hasattr(value, "__dlpack__"):
            try:
                handle = _arrays.from_dlpack(self.library, value)
            except _errors.Error as e:
                raise type(e)(f'argument "{self.argument.path}": {e}') from None
            except Exception as e:  # its own
                text = f"{type(value).__name__}.__dlpack__: {type(e).__name__}: {e}"
                raise _errors.InvalidArgument(f'argument "{self.argument.path}": {text}') from e
            self.put_handle(handle.pointer)
            self.keep = handle
            return value
        shares = hasattr(value, "__array_interface__") and not isinstance(value, np.generic)
        if shares or isinstance(value, np.generic) or hasattr(value, "__array__"):
            if self.changed and not shares:
                raise self.bad(value, "an array or a tensor, since the model writes it")
            array = np.asarray(value)
            returned = self._put_numpy(array)
            if self.keep is None:
                self.keep = array
            self.last = None
            return value if returned is array else returned
        if isinstance(value, (bool, int, float, complex, list, tuple)):
            array = self._from_python(value)
            self._put_numpy(array)
            self.last = None
            return array  # in the place of a list, which nothing can be a view of
        raise self.bad(value, f"a tensor of {self.argument.dtype} {_shape_text(self.argument)}")

    def _from_python(self, value: Any) -> Any:
        """A new array of the argument's dtype from numbers and lists of them."""
        if self.changed:
            raise self.bad(value, "an array or a tensor, since the model writes it")
        if self.np_dtype is None:
            raise self.bad(value, f"a PyTorch tensor of {self.argument.dtype}")
        try:
            array = np.array(value)
            if array.dtype == object or not np.can_cast(array.dtype, self.np_dtype, casting="same_kind"):
                # An empty list has float64, whatever is meant.
                if array.size:
                    raise self.bad(value, f"numbers of {self.argument.dtype}")
            out = array.astype(self.np_dtype)
            if array.dtype.kind in "iu" and out.dtype.kind in "iu" and not np.array_equal(out, array):
                raise self.bad(value, f"numbers of {self.argument.dtype}")
            return out
        except (ValueError, TypeError, OverflowError) as e:
            if isinstance(e, _errors.Error):
                raise
            raise self.bad(value, f"numbers of {self.argument.dtype}") from None


_SLOTS = {
    "none": NoneSlot,
    "int": IntSlot,
    "float": FloatSlot,
    "bool": BoolSlot,
    "string": StringSlot,
    "complex": ComplexSlot,
}


def slot_for(
    argument: Argument, memory: memoryview, at: int, array_at: int, array_address: int, library: lib.Library
) -> Slot:
    if argument.kind == "tensor":
        return TensorSlot(argument, memory, at, array_at, array_address, library)
    return _SLOTS[argument.kind](argument, memory, at)
