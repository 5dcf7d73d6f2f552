"""libsmelt through ctypes: the structs of smelt.h and its functions."""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, Structure, Union, c_char_p, c_double, c_int, c_int32, c_int64
from ctypes import c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any, Optional

from . import _errors

# smelt_kind
NONE, TENSOR, INT, FLOAT, BOOL, STRING, COMPLEX, LIST, ARRAY = range(9)
KIND_NAMES = ("none", "tensor", "int", "float", "bool", "string", "complex", "list", "array")
# smelt_dtype
DTYPE_NAMES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
DTYPE_SIZES = (1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1, 1)
# The dtypes that numpy lacks, with integers of their size: arrays of those carry their bits.
CARRIERS = {7: 3, 12: 1, 13: 1}
# flags
READ_ONLY, ROW_MAJOR = 1, 2
WRITES_DATA, CHANGES_GEOMETRY, REPLACES_STORAGE, RESIZES = 1, 2, 4, 8
# smelt_node_kind, smelt_key_kind
LEAF, TUPLE, LIST_NODE, DICT, NAMED_TUPLE, OBJECT, NO_LEAF = range(7)
KEY_INDEX, KEY_NAME, KEY_NUMBER = range(3)


class Complex(Structure):
    _fields_ = [("real", c_double), ("imag", c_double)]


class String(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class ValueUnion(Union):
    _fields_ = [
        ("pointer", c_void_p),
        ("integer", c_int64),
        ("real", c_double),
        ("boolean", c_int),
        ("cplx", Complex),
        ("string", String),
    ]


class Value(Structure):
    _fields_ = [("kind", c_int), ("value", ValueUnion)]


class Array(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("bytes", c_int64),
        ("sizes", c_void_p),
        ("strides", c_void_p),
        ("offset", c_int64),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("flags", c_uint32),
        ("reserved", c_uint32),
    ]


class Result(Structure):
    _fields_ = [
        ("value", Value),
        ("array", Array),
        ("same_as_argument", c_int32),
        ("in_argument", c_int32),
        ("same_as_result", c_int32),
        ("in_result", c_int32),
        ("may_move", c_int32),
        ("reserved", c_int32),
    ]


class Call(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("instance", c_void_p),
        ("args", c_void_p),
        ("num_args", c_size_t),
        ("results", c_void_p),
        ("num_results", c_size_t),
    ]


class Dim(Structure):
    _fields_ = [("size", c_int64), ("min", c_int64), ("max", c_int64), ("expr", c_char_p)]


class ProgramOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("threads", c_int), ("verify_weights", c_int), ("target", c_char_p)]


class ProgramInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("model_name", c_char_p),
        ("target", c_char_p),
        ("bundle_format", c_int),
        ("num_targets", c_size_t),
        ("num_methods", c_size_t),
        ("num_args", c_size_t),
        ("num_results", c_size_t),
        ("num_states", c_size_t),
    ]


class ArgInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("path", c_char_p),
        ("kind", c_int),
        ("dtype", c_int),
        ("rank", c_int),
        ("dims", POINTER(Dim)),
        ("strides", POINTER(c_int64)),
        ("value", Dim),
        ("has_constant", c_int),
        ("constant", Value),
        ("effects", c_uint),
    ]


class ResultInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("node", c_char_p),
        ("path", c_char_p),
        ("kind", c_int),
        ("dtype", c_int),
        ("rank", c_int),
        ("dims", POINTER(Dim)),
        ("place", c_int),
        ("index", c_int),
    ]


class StateInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("kind", c_int),
        ("dtype", c_int),
        ("rank", c_int),
        ("sizes", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("offset", c_int64),
        ("storage", c_int),
        ("is_mutated", c_int),
        ("may_move", c_int),
    ]


class Node(Structure):
    _fields_ = [
        ("kind", c_int),
        ("key_kind", c_int),
        ("key", c_char_p),
        ("type", c_char_p),
        ("num_children", c_size_t),
        ("by_name", c_int),
    ]


class InstanceOptions(Structure):
    _fields_ = [("threads", c_int), ("seed", c_uint64)]


class CallStats(Structure):
    _fields_ = [
        ("variant", c_char_p),
        ("kernel_launches", c_int64),
        ("library_calls", c_int64),
        ("bytes_copied_back", c_int64),
        ("arena_bytes", c_int64),
    ]


class OperatorApi(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("register_operator", c_void_p),
        ("new_tensor", PYFUNCTYPE(c_void_p, c_void_p, c_int, c_int, c_void_p)),
        ("new_view", c_void_p),
        ("new_list", PYFUNCTYPE(c_int, c_void_p, c_size_t)),
        ("keep", PYFUNCTYPE(c_void_p, c_void_p, c_void_p)),
    ]


class OperatorCall(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("api", POINTER(OperatorApi)),
        ("user", c_void_p),
        ("name", c_char_p),
        ("args", c_void_p),
        ("num_args", c_size_t),
        ("results", c_void_p),
        ("num_results", c_size_t),
        ("message", c_void_p),
        ("message_size", c_size_t),
        ("internal", c_void_p),
    ]


# Takes the interpreter lock, whatever thread calls it.
OPERATOR_FUNCTION = CFUNCTYPE(c_int, c_void_p)

# Functions that may take long, so that other threads run meanwhile.
_LONG = {
    "smelt_program_load_with": (c_int, [c_char_p, c_void_p, c_void_p]),
    "smelt_program_load_from_memory": (c_int, [c_char_p, c_size_t, c_void_p]),
    "smelt_instance_create": (c_int, [c_void_p, c_void_p, c_void_p]),
    "smelt_instance_call": (c_int, [c_void_p]),
    "smelt_instance_reset": (c_int, [c_void_p]),
    "smelt_instance_set_state": (c_int, [c_void_p, c_char_p, c_void_p]),
    "smelt_instance_save_states": (c_int, [c_void_p, c_char_p]),
    "smelt_instance_load_states": (c_int, [c_void_p, c_char_p]),
    "smelt_instance_release": (None, [c_void_p]),
    "smelt_program_release": (None, [c_void_p]),
    "smelt_operator_register": (c_int, [c_char_p, OPERATOR_FUNCTION, c_void_p, c_void_p]),
    "smelt_operator_unregister": (c_int, [c_char_p]),
    "smelt_operator_library_load": (c_int, [c_char_p]),
}
# Functions that are over at once.
_SHORT = {
    "smelt_version": (c_char_p, []),
    "smelt_last_error": (c_char_p, []),
    "smelt_tensor_borrow": (c_void_p, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p, c_int64]),
    "smelt_tensor_view": (c_void_p, [c_void_p, c_int, c_void_p, c_void_p, c_int64]),
    "smelt_tensor_release": (None, [c_void_p]),
    "smelt_value_release": (None, [c_void_p]),
    "smelt_tensor_describe": (c_int, [c_void_p, c_void_p]),
    "smelt_tensor_from_dlpack": (c_int, [c_void_p, c_void_p]),
    "smelt_tensor_from_dlpack_versioned": (c_int, [c_void_p, c_void_p]),
    "smelt_tensor_to_dlpack": (c_int, [c_void_p, c_void_p]),
    "smelt_program_describe": (c_int, [c_void_p, c_void_p]),
    "smelt_program_target": (c_char_p, [c_void_p, c_size_t]),
    "smelt_program_method": (c_char_p, [c_void_p, c_size_t]),
    "smelt_program_find_method": (c_int, [c_void_p, c_char_p, c_void_p]),
    "smelt_instance_find_method": (c_int, [c_void_p, c_char_p, c_void_p]),
    "smelt_program_arg": (c_int, [c_void_p, c_size_t, c_void_p]),
    "smelt_program_result": (c_int, [c_void_p, c_size_t, c_void_p]),
    "smelt_program_state": (c_int, [c_void_p, c_size_t, c_void_p]),
    "smelt_program_arg_structure": (POINTER(Node), [c_void_p, POINTER(c_size_t)]),
    "smelt_program_result_structure": (POINTER(Node), [c_void_p, POINTER(c_size_t)]),
    "smelt_instance_state": (c_int, [c_void_p, c_char_p, c_void_p]),
    "smelt_instance_seed": (None, [c_void_p, c_uint64]),
    "smelt_instance_last_call": (None, [c_void_p, c_void_p]),
}


class Library:
    """The functions of libsmelt, each by its name without "smelt_"."""

    def __init__(self, path: str) -> None:
        self.path = path
        released, held = ctypes.CDLL(path), ctypes.PyDLL(path)
        for functions, library in ((_LONG, released), (_SHORT, held)):
            for name, (result, arguments) in functions.items():
                function = getattr(library, name)
                function.restype = result
                function.argtypes = arguments
                setattr(self, name[len("smelt_") :], function)
        version = self.version().decode()
        if version.split(".")[0] != "0":
            raise ImportError(f"{path} is version {version} of smelt; this package needs version 0")

    def __getattr__(self, name: str) -> Any:  # for type checkers: set in __init__
        raise AttributeError(name)

    def check(self, status: int, loading: bool = False) -> None:
        """Raises the exception for a status other than SMELT_OK."""
        if status != 0:
            raise self.error(status, loading)

    def error(self, status: int, loading: bool = False) -> _errors.Error:
        return _errors.of_status(status, self.last_error().decode("utf-8", "replace"), loading)


def c_path(path: Any) -> bytes:
    """A path as C has it, where a NUL would end it."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise _errors.InvalidArgument(f"a path without a NUL expected, not {path!r}")
    return name


def c_text(text: str) -> bytes:
    """A name as C has it."""
    if not isinstance(text, str) or "\0" in text:
        raise _errors.InvalidArgument(f"a str without a NUL expected, not {text!r}")
    return text.encode("utf-8", "replace")


def _find() -> str:
    named = os.environ.get("SMELT_LIBRARY")
    if named:
        return named
    package = pathlib.Path(__file__).resolve().parent
    for folder in (package, package / "lib"):
        for name in ("libsmelt.so.1", "libsmelt.so"):
            if (folder / name).exists():
                return str(folder / name)
    return "libsmelt.so.1"


_library: Optional[Library] = None


def library() -> Library:
    """libsmelt, loaded once: the file that $SMELT_LIBRARY names, the one in this package, or the system's."""
    global _library
    if _library is None:
        path = _find()
        try:
            _library = Library(path)
        except OSError as e:
            raise ImportError(
                f"smelt's library cannot be loaded: {e}. Set SMELT_LIBRARY to the path of libsmelt.so.1."
            ) from e
    return _library
