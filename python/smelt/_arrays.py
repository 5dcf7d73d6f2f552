"""Arrays of numpy, tensors of PyTorch and of anything with DLPack, as libsmelt sees them, without a copy."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, Optional, Tuple

import numpy as np

from . import _errors
from . import _library as lib

try:
    import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    ml_dtypes = None

# By smelt_dtype. None: numpy has no such dtype here.
NUMPY_DTYPES: Tuple[Any, ...] = tuple(
    np.dtype(name) if code not in lib.CARRIERS else np.dtype(getattr(ml_dtypes, name)) if ml_dtypes else None
    for code, name in enumerate(lib.DTYPE_NAMES)
)
# The alignment of an element, by smelt_dtype.
_ALIGNMENTS = tuple(
    size // 2 if name.startswith("complex") else size for name, size in zip(lib.DTYPE_NAMES, lib.DTYPE_SIZES)
)

_char = ctypes.c_char
_addressof = ctypes.addressof


def loaded_torch() -> Any:
    """The torch module if something has imported it: only then can a value be a tensor."""
    return sys.modules.get("torch")


_torch_dtypes: Dict[str, Any] = {}


def torch_dtype(code: int) -> Any:
    name = lib.DTYPE_NAMES[code]
    if name not in _torch_dtypes:
        _torch_dtypes[name] = getattr(loaded_torch(), name)
    return _torch_dtypes[name]


class Handle:
    """A smelt_tensor, released when nobody refers to it any more."""

    __slots__ = ("_release", "pointer", "keep")

    def __init__(self, library: lib.Library, pointer: int, keep: Any = None) -> None:
        self._release = library.tensor_release
        self.pointer = pointer
        self.keep = keep  # what its memory belongs to

    def __del__(self) -> None:
        self._release(self.pointer)

    def give_away(self) -> int:
        """The pointer, which from here on somebody else releases."""
        pointer, self.pointer = self.pointer, 0
        return pointer


def memory_at(address: int, size: int, owner: Any) -> Any:
    """A buffer over `size` bytes that keeps `owner` alive."""
    buffer: Any = (_char * size).from_address(address)
    buffer._smelt_owner = owner
    return buffer


def numpy_array(
    address: int, dtype: int, shape: Tuple[int, ...], strides: Optional[Tuple[int, ...]], owner: Any, writable: bool
) -> Any:
    """An array over the memory at `address`; `strides` count elements (None: row-major)."""
    item = lib.DTYPE_SIZES[dtype]
    count = 1
    for n in shape:
        count *= n
    np_dtype = NUMPY_DTYPES[dtype]
    if np_dtype is None:  # a dtype of ml_dtypes, which is not installed: widened, which is exact, and a copy
        out = _widened(numpy_array(address, lib.CARRIERS[dtype], shape, strides, owner, False), lib.DTYPE_NAMES[dtype])
        out.flags.writeable = False
        return out
    if count == 0:
        return np.empty(shape, np_dtype)
    if strides is None:
        array = np.ndarray(shape, np_dtype, memory_at(address, count * item, owner))
    else:
        reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        byte_strides = tuple(s * item for s in strides)
        array = np.ndarray(shape, np_dtype, memory_at(address, reach * item, owner), 0, byte_strides)
    if not writable:
        array.flags.writeable = False
    return array


def _widened(bits: Any, name: str) -> Any:
    """The numbers of bfloat16 or float8 with these bits, in float32."""
    if name == "bfloat16":
        return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    # A float8_e5m2 is the upper byte of a float16. The exponent of one exceeds that of a float8_e4m3fn by 8.
    halves = bits.astype(np.uint16)
    if name == "float8_e5m2":
        return (halves << 8).view(np.float16).astype(np.float32)
    wide = ((halves & 0x80) << 8 | (halves & 0x7F) << 7).view(np.float16).astype(np.float32) * 256
    return np.where((halves & 0x7F) == 0x7F, np.float32(np.nan), wide)


def torch_tensor(array: Any, dtype: int) -> Any:
    """A tensor over the memory of an array that numpy_array made with a dtype that numpy has."""
    torch = loaded_torch()
    if dtype in lib.CARRIERS:
        return torch.from_numpy(array.view(NUMPY_DTYPES[lib.CARRIERS[dtype]])).view(torch_dtype(dtype))
    return torch.from_numpy(array)


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype = ctypes.c_char_p
_capsule_name.argtypes = [ctypes.py_object]
_capsule_rename = ctypes.pythonapi.PyCapsule_SetName
_capsule_rename.restype = ctypes.c_int
_capsule_rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
# Names that capsules keep a pointer to: these live as long as the process.
_USED = ctypes.c_char_p(b"used_dltensor")
_USED_VERSIONED = ctypes.c_char_p(b"used_dltensor_versioned")


def from_dlpack(library: lib.Library, value: Any) -> Handle:
    """A handle over the memory of an object with __dlpack__."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = value.__dlpack__()
    try:
        name = _capsule_name(capsule)
    except ValueError:
        raise _errors.InvalidArgument(
            f"{type(value).__name__}.__dlpack__ gave {type(capsule).__name__}, expected a capsule"
        ) from None
    out = ctypes.c_void_p()
    if name == b"dltensor_versioned":
        pointer = _capsule_pointer(capsule, name)
        library.check(library.tensor_from_dlpack_versioned(pointer, ctypes.byref(out)))
        _capsule_rename(capsule, _USED_VERSIONED)
    elif name == b"dltensor":
        pointer = _capsule_pointer(capsule, name)
        library.check(library.tensor_from_dlpack(pointer, ctypes.byref(out)))
        _capsule_rename(capsule, _USED)
    else:
        raise _errors.InvalidArgument(f"{type(value).__name__}.__dlpack__ gave a capsule named {name!r}")
    assert out.value is not None
    return Handle(library, out.value)


def described(library: lib.Library, pointer: int) -> Tuple[lib.Array, Tuple[int, ...], Tuple[int, ...]]:
    """The description of a handle's tensor, its sizes and its strides in elements."""
    array = lib.Array()
    library.check(library.tensor_describe(pointer, ctypes.byref(array)))
    return array, numbers(array.sizes, array.rank), numbers(array.strides, array.rank)


def numbers(address: Optional[int], count: int) -> Tuple[int, ...]:
    """`count` int64 at an address."""
    if count == 0 or address is None:
        return ()
    return tuple((ctypes.c_int64 * count).from_address(address))
