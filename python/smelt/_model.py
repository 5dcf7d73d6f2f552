"""smelt.load and the model it gives."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Mapping
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _arrays, _errors, _operators, _signature, _slots, _tree
from . import _library as lib

_VALUE = ctypes.sizeof(lib.Value)
_ARRAY = ctypes.sizeof(lib.Array)
_RESULT = ctypes.sizeof(lib.Result)
# smelt_result: kind; two words of the value; data, bytes, sizes, strides, offset, dtype, rank, flags; where it lies.
_RESULT_FORMAT = "i4xqqqqqqqiiI4xiiiii4x"
assert struct.calcsize("=" + _RESULT_FORMAT) == _RESULT
_RESULT_FIELDS = 16


class CallStats(NamedTuple):
    variant: str  # the plan that ran: "distinct", "duplicate", "overlap", "eager-order"
    kernel_launches: int
    library_calls: int
    bytes_copied_back: int
    arena_bytes: int


class _Program:
    """A loaded bundle, which models share."""

    def __init__(self, library: lib.Library, pointer: int) -> None:
        self.library = library
        self.pointer = pointer
        self.signature = _signature.read(library, pointer)

    def __del__(self) -> None:
        self.library.program_release(self.pointer)


class States(Mapping):  # type: ignore[type-arg]
    """The parameters and buffers of a model, by name, as arrays over the model's own memory.

    Writing into such an array changes the model's state. Arrays of states that no call writes are read-only: other
    models may share them. A state whose memory a call may move (it is resized) is given as a read-only copy.
    `state[name] = value` copies a value into a state.
    """

    def __init__(self, model: "Model") -> None:
        self._model = model
        self._infos = {s.name: s for s in model.signature.states}

    def _info(self, name: str) -> "_signature.State":
        info = self._infos.get(name)
        if info is None:
            raise KeyError(f"the model has no state {name!r}; it has {', '.join(self._infos) or 'none'}")
        return info

    def __getitem__(self, name: str) -> Any:
        model, library = self._model, self._model._library
        info = self._info(name)
        pointer = ctypes.c_void_p()
        with model._alone():
            library.check(library.instance_state(model._instance, name.encode(), ctypes.byref(pointer)))
            assert pointer.value is not None
            handle = _arrays.Handle(library, pointer.value)
            array, sizes, strides = _arrays.described(library, handle.pointer)
            address = (array.data or 0) + array.offset * lib.DTYPE_SIZES[array.dtype]
            writable = info.mutable and not info.may_move
            use_torch = model._arrays == "torch"
            dtype = lib.CARRIERS.get(array.dtype, array.dtype) if use_torch else array.dtype
            out = _arrays.numpy_array(address, dtype, sizes, strides, handle, writable or use_torch)
            if info.may_move or (use_torch and not info.mutable):  # PyTorch has no read-only tensors
                out = out.copy()
                out.flags.writeable = use_torch
        return _arrays.torch_tensor(out, array.dtype) if use_torch else out

    def __setitem__(self, name: str, value: Any) -> None:
        model, library = self._model, self._model._library
        info = self._info(name)
        argument = _signature.Argument(name, name, "tensor", info.dtype, info.shape)
        block = (ctypes.c_char * (_VALUE + _ARRAY))()
        base = ctypes.addressof(block)
        slot = _slots.TensorSlot(argument, memoryview(block).cast("B"), 0, _VALUE, base + _VALUE, library)
        slot.put(value)
        handle = slot.keep
        if slot.is_array:
            a = lib.Array.from_buffer(block, _VALUE)
            pointer = library.tensor_borrow(a.data, a.bytes, a.dtype, a.rank, a.sizes, a.strides, a.offset)
            if pointer is None:
                raise _errors.InvalidArgument(f'the value for "{name}" reaches outside its memory')
            handle = _arrays.Handle(library, pointer, (value, slot.keep))
        with model._alone():
            library.check(library.instance_set_state(model._instance, name.encode(), handle.pointer))

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __repr__(self) -> str:
        return "States(" + ", ".join(self._infos) + ")"

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the states that calls may write to a safetensors file."""
        model = self._model
        with model._alone():
            model._library.check(model._library.instance_save_states(model._instance, lib.c_path(path)))

    def load(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Reads what save() wrote. All of the file is checked before a state changes."""
        model = self._model
        with model._alone():
            model._library.check(model._library.instance_load_states(model._instance, lib.c_path(path)))


class Model:
    """A loaded model with its own states. Call it as the model that was exported.

    A model may be used from any thread; calls of one model wait for each other. For calls that run at the same time
    give each thread a clone().

    A bundle may hold several methods. Their parameters and buffers are the same, so that one method reads what another
    has written: run_method() calls one by its name, and method() gives it as a model.
    """

    signature: _signature.Signature

    def __init__(
        self, program: _Program, threads: int, seed: int, arrays: str, whole: Optional["Model"] = None, name: str = ""
    ) -> None:
        """whole, name: the model of which this is the method `name`."""
        if arrays not in ("auto", "numpy", "torch"):
            raise _errors.InvalidArgument(f'arrays is {arrays!r}, expected "auto", "numpy" or "torch"')
        if arrays == "torch":
            import torch  # noqa: F401
        self._program = program
        self._library = library = program.library
        self._options = (threads, seed, arrays)
        self._arrays = arrays
        self.signature = signature = program.signature
        instance = ctypes.c_void_p()
        if whole is None:
            options = lib.InstanceOptions(threads, seed)
            library.check(library.instance_create(program.pointer, ctypes.byref(options), ctypes.byref(instance)))
        else:
            library.check(library.instance_find_method(whole._instance, name.encode(), ctypes.byref(instance)))
        self._instance = instance.value
        self._lock: Any = threading.RLock() if whole is None else whole._lock
        self._methods: Dict[str, "Model"] = {}

        count, results = len(signature.arguments), len(signature.results)
        self._args_memory = (ctypes.c_char * max(count * (_VALUE + _ARRAY), 1))()
        memory = memoryview(self._args_memory).cast("B")
        base = ctypes.addressof(self._args_memory)
        self._slots: List[Any] = []
        for i, argument in enumerate(signature.arguments):
            array_at = count * _VALUE + i * _ARRAY
            self._slots.append(_slots.slot_for(argument, memory, i * _VALUE, array_at, base + array_at, library))
        self._puts = [slot.put for slot in self._slots]
        self._num_args = count
        self._reshapes = any(a.reshaped for a in signature.arguments)
        self._written = [i for i, a in enumerate(signature.arguments) if a.written]
        self._results_memory = (ctypes.c_char * max(results * _RESULT, 1))()
        self._unpack_results = struct.Struct("=" + _RESULT_FORMAT * results).unpack_from
        self._num_results = results
        self._call = lib.Call(
            ctypes.sizeof(lib.Call), self._instance, base, count, ctypes.addressof(self._results_memory), results
        )
        self._call_address = ctypes.addressof(self._call)
        self._run = library.instance_call
        self._binder = _tree.Binder(signature)
        self._flatten = self._binder.flatten if len(self.methods) == 1 else self._refuse
        self._nest = _tree.nester(signature.result_tree, results)
        # The shapes of results that are the same in every call.
        self._shapes: List[Optional[Tuple[int, ...]]] = [
            tuple(r.shape)  # type: ignore[arg-type]
            if r.shape is not None and all(isinstance(n, int) for n in r.shape)
            else None
            for r in signature.results
        ]
        self._quick = [_quick(r, shape) for r, shape in zip(signature.results, self._shapes)]
        self.state = States(self)

    def __del__(self) -> None:
        instance = getattr(self, "_instance", None)
        if instance is not None:
            self._library.instance_release(instance)

    def __repr__(self) -> str:
        return f"<smelt.Model {self.signature}>"

    def _alone(self) -> Any:
        """The lock of the instance, for a `with`. An operator that the model calls cannot have it: its thread has it."""
        lock = self._lock
        if lock._is_owned():
            raise _errors.Refused("an operator uses the model that is calling it: give it a clone() of its own")
        return lock

    def __reduce__(self) -> Any:
        raise TypeError(
            "a smelt.Model cannot be copied or pickled: clone() makes another one, and a process loads the bundle itself"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model. Arguments that it writes are written; results that are arguments are those very objects.

        Results are tensors of PyTorch if an argument is one (or the model was loaded so), else arrays of numpy.
        """
        flat = self._flatten(args, kwargs)
        with self._alone():
            if self._reshapes or len({id(value) for value in flat}) != self._num_args:
                return self._nest(self._call_carefully(flat))
            given = [put(value) for put, value in zip(self._puts, flat)]
            status = self._run(self._call_address)
            if status:
                _operators.raise_failure(self._library, status)
            results = self._take_results(given, self._use_torch(given))
        return self._nest(results)

    def _use_torch(self, given: Sequence[Any]) -> bool:
        if self._arrays != "auto":
            return self._arrays == "torch"
        torch = _arrays.loaded_torch()
        if torch is None:
            return False
        tensor = torch.Tensor
        for value in given:
            if isinstance(value, tensor):
                # Autograd must learn of the model's writes.
                for i in self._written:
                    if isinstance(given[i], tensor) and not given[i].is_inference():
                        torch.autograd.graph.increment_version(given[i])
                return True
        return False

    def _call_carefully(self, flat: Sequence[Any]) -> List[Any]:
        """A call where one object is passed several times, or where the model changes the shape of an argument."""
        torch = _arrays.loaded_torch()
        given: List[Any] = [None] * self._num_args
        first: Dict[int, int] = {}
        handles: Dict[int, _TorchHandle] = {}
        # Written arguments decide how an object is passed, so those come first.
        order = sorted(range(self._num_args), key=lambda i: not getattr(self._slots[i], "changed", False))
        for i in order:
            slot, value = self._slots[i], flat[i]
            if slot.is_tensor:
                seen = first.setdefault(id(value), i)
                if seen != i and self._slots[seen].dtype == slot.dtype:
                    slot.same_as(self._slots[seen])
                    given[i] = value
                    continue
                if self._reshapes and torch is not None and isinstance(value, torch.Tensor):
                    handle = _TorchHandle(self._library, slot, value, torch, handles.values())
                    handles[i] = handle
                    slot.put_handle(handle.handle.pointer)
                    slot.keep = handle
                    given[i] = value
                    continue
            given[i] = slot.put(value)
        status = self._run(self._call_address)
        if status:
            _operators.raise_failure(self._library, status)
        results = self._take_results(given, self._use_torch(given))
        for handle in handles.values():
            handle.bring_back(list(handles.values()))
        return results

    def _take_results(self, given: Sequence[Any], use_torch: bool) -> List[Any]:
        fields = self._unpack_results(self._results_memory)
        library = self._library
        ndarray = np.ndarray
        out: List[Any] = []
        at = 0
        for i in range(self._num_results):
            (kind, word, word2, data, _, sizes, strides, offset, dtype, rank, flags, same_argument, in_argument,
             same_result, _, may_move) = fields[at : at + _RESULT_FIELDS]  # fmt: skip
            at += _RESULT_FIELDS
            if kind != lib.TENSOR:
                out.append(self._take_number(i, kind, word, word2))
                continue
            handle = _arrays.Handle(library, word)
            quick = self._quick[i]
            if quick is not None and in_argument < 0 and same_result < 0 and flags == lib.ROW_MAJOR and not may_move:
                # New memory of the shape that every call gives it.
                shape, np_dtype, buffer_type = quick
                buffer = buffer_type.from_address(data + offset * lib.DTYPE_SIZES[dtype])
                buffer._smelt_owner = handle
                array = ndarray(shape, np_dtype, buffer)
                out.append(_arrays.torch_tensor(array, dtype) if use_torch else array)
                continue
            if same_argument >= 0:
                out.append(given[same_argument])
                continue
            if same_result >= 0:
                out.append(out[same_result])
                continue
            address = data + offset * lib.DTYPE_SIZES[dtype]
            shape = self._shapes[i]
            if shape is None or len(shape) != rank:
                shape = _arrays.numbers(sizes, rank)
            given_strides = None if flags & lib.ROW_MAJOR else _arrays.numbers(strides, rank)
            if in_argument >= 0:
                # The object that was passed, where that is not the caller's own.
                handle.keep = self._slots[in_argument].keep
                if handle.keep is None:
                    handle.keep = given[in_argument]
                if use_torch:
                    view = _view_of(handle.keep, address, dtype, shape, given_strides)
                    if view is not None:
                        out.append(view)
                        continue
            carrier = lib.CARRIERS.get(dtype, dtype) if use_torch else dtype
            array = _arrays.numpy_array(
                address, carrier, shape, given_strides, handle, not flags & lib.READ_ONLY or use_torch
            )
            if may_move or (use_torch and flags & lib.READ_ONLY):
                array = array.copy()
            out.append(_arrays.torch_tensor(array, dtype) if use_torch else array)
        return out

    def _take_number(self, i: int, kind: int, word: int, word2: int) -> Any:
        if kind == lib.INT:
            return word
        if kind == lib.NONE:
            return None
        value = lib.Result.from_buffer(self._results_memory, i * _RESULT).value
        out = _signature.constant_of(value)
        if kind == lib.STRING:
            self._library.value_release(ctypes.byref(value))
        return out

    @property
    def methods(self) -> Tuple[str, ...]:
        """What run_method() takes."""
        names: List[str] = []
        while True:
            name = self._library.program_method(self._program.pointer, len(names))
            if name is None:
                return tuple(names)
            names.append(name.decode())

    def method(self, name: str) -> "Model":
        """The method of that name as a model that has its states, and its lock, in common with this one."""
        found = self._methods.get(name)
        if found is not None:
            return found
        if len(self.methods) == 1 and name == self.methods[0]:
            return self
        program = ctypes.c_void_p()
        status = self._library.program_find_method(self._program.pointer, name.encode(), ctypes.byref(program))
        if status:
            error = self._library.error(status)
            raise _errors.InvalidArgument(str(error)) if isinstance(error, _errors.NotFound) else error
        assert program.value is not None
        made = Model(_Program(self._library, program.value), *self._options, self, name)
        return self._methods.setdefault(name, made)

    def run_method(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a method of the bundle by its name."""
        return self.method(name)(*args, **kwargs)

    def _refuse(self, args: Sequence[Any], kwargs: Dict[str, Any]) -> Sequence[Any]:
        raise _errors.InvalidArgument(
            f"the bundle has several methods, and the call names none: run_method() takes {', '.join(self.methods)}"
        )

    def reset(self) -> None:
        """Gives all states the values that they have in the bundle."""
        with self._alone():
            self._library.check(self._library.instance_reset(self._instance))

    def seed(self, seed: int) -> None:
        """Makes random draws from here on a function of the seed and of the calls."""
        with self._alone():
            self._library.instance_seed(self._instance, seed & (2**64 - 1))

    def clone(self) -> "Model":
        """Another model over the same bundle, with states of its own as the bundle has them."""
        return Model(self._program, *self._options)

    @property
    def last_call(self) -> CallStats:
        """What the last call did."""
        stats = lib.CallStats()
        with self._alone():
            self._library.instance_last_call(self._instance, ctypes.byref(stats))
        return CallStats(
            (stats.variant or b"").decode(), stats.kernel_launches, stats.library_calls, stats.bytes_copied_back,
            stats.arena_bytes,
        )  # fmt: skip


def _quick(result: _signature.Result, shape: Optional[Tuple[int, ...]]) -> Any:
    """What makes an array of a result whose shape never changes; None where that takes more."""
    if shape is None or result.dtype is None:
        return None
    code = lib.DTYPE_NAMES.index(result.dtype)
    np_dtype = _arrays.NUMPY_DTYPES[code]
    size = lib.DTYPE_SIZES[code]
    for n in shape:
        size *= n
    if np_dtype is None or size == 0 or code in lib.CARRIERS:
        return None
    return shape, np_dtype, ctypes.c_char * size


class _TorchHandle:
    """A tensor of PyTorch as an argument whose shape or memory the model may change."""

    def __init__(self, library: lib.Library, slot: Any, value: Any, torch: Any, others: Any) -> None:
        self.library, self.value, self.torch = library, value, torch
        passed = slot.check_torch(value, torch)
        storage = passed.untyped_storage()
        self.tensor = passed
        self.data, self.bytes = storage.data_ptr(), storage.nbytes()
        shape = _slots._Shape(tuple(passed.shape), tuple(passed.stride()), slot.item)
        rank = passed.dim()
        self.before = (passed.storage_offset(), tuple(passed.shape), tuple(passed.stride()))
        pointer = None
        for other in others:
            if other.data == self.data and other.value.dtype is value.dtype:
                pointer = library.tensor_view(
                    other.handle.pointer, rank, shape.sizes_at, shape.strides_at, self.before[0]
                )
                break
        else:
            pointer = library.tensor_borrow(
                self.data, self.bytes, slot.dtype, rank, shape.sizes_at, shape.strides_at, self.before[0]
            )
        if pointer is None:
            raise _errors.InvalidArgument(f'argument "{slot.argument.path}" reaches outside its storage')
        self.handle = _arrays.Handle(library, pointer, passed)

    def bring_back(self, all_handles: List["_TorchHandle"]) -> None:
        """Gives the tensor the shape and memory that the call gave the argument."""
        array, sizes, strides = _arrays.described(self.library, self.handle.pointer)
        after = (array.offset, sizes, strides)
        torch = self.torch
        with torch.no_grad():
            for other in all_handles:
                if array.data == other.data and (array.bytes == other.bytes or self is other):
                    if other is not self or after != self.before:
                        self.tensor.set_(other.tensor.untyped_storage(), array.offset, sizes, strides)
                    return
            address = (array.data or 0) + array.offset * lib.DTYPE_SIZES[array.dtype]
            carrier = lib.CARRIERS.get(array.dtype, array.dtype)
            moved = _arrays.numpy_array(address, carrier, sizes, strides, self.handle, True)
            self.tensor.set_(_arrays.torch_tensor(moved, array.dtype))


def _view_of(
    keep: Any, address: int, dtype: int, shape: Tuple[int, ...], strides: Optional[Tuple[int, ...]]
) -> Any:
    """A tensor at `address` in the storage of the tensor that was passed; None if none was."""
    torch = _arrays.loaded_torch()
    if isinstance(keep, _TorchHandle):
        keep = keep.tensor
    if not isinstance(keep, torch.Tensor):
        return None
    storage = keep.untyped_storage()
    item = lib.DTYPE_SIZES[dtype]
    distance = address - storage.data_ptr()
    if distance < 0 or distance > storage.nbytes() or distance % item:
        return None
    if strides is None:
        row_major = []
        step = 1
        for n in reversed(shape):
            row_major.append(step)
            step *= max(n, 1)
        strides = tuple(reversed(row_major))
    out = torch.empty(0, dtype=_arrays.torch_dtype(dtype))
    return out.set_(storage, distance // item, shape, strides)


def load(
    path: Union[str, "os.PathLike[str]", bytes, bytearray, memoryview],
    *,
    threads: int = 0,
    seed: int = 0,
    target: Optional[str] = None,
    verify_weights: bool = False,
    arrays: str = "auto",
    op_libraries: Iterable[Union[str, "os.PathLike[str]"]] = (),
) -> Model:
    """Loads a bundle: its path, or its bytes.

    threads: a call uses at most so many; 0: one per core.
    seed: of random draws.
    target: "x86-64-v3": the code for that target, or an error. By default the best that this machine runs.
    verify_weights: read all weights and compare their digests. This and `target` are for a path only.
    arrays: results and states are "numpy" arrays or "torch" tensors. "auto": results are tensors if an argument is
      one; else arrays.
    op_libraries: shared libraries with operators that the model calls; loading one runs its code. register_op() is for
      operators in Python. smelt.Unsupported names those that have no implementation.
    """
    if threads < 0:
        raise _errors.InvalidArgument(f"threads is {threads}, expected at least 0")
    in_memory = isinstance(path, (bytes, bytearray, memoryview))
    if in_memory and (target is not None or verify_weights):
        raise _errors.InvalidArgument("target and verify_weights are for the path of a bundle, not for its bytes")
    library = lib.library()
    for op_library in op_libraries:
        _operators.load_op_library(op_library)
    program = ctypes.c_void_p()
    if isinstance(path, (bytes, bytearray, memoryview)):
        data = bytes(path)
        library.check(library.program_load_from_memory(data, len(data), ctypes.byref(program)), loading=True)
    else:
        options = lib.ProgramOptions(
            ctypes.sizeof(lib.ProgramOptions), threads, int(verify_weights), None if target is None else lib.c_text(target)
        )
        status = library.program_load_with(lib.c_path(path), ctypes.byref(options), ctypes.byref(program))
        library.check(status, loading=True)
    assert program.value is not None
    return Model(_Program(library, program.value), threads, seed, arrays)


def version() -> str:
    """The version of libsmelt."""
    return str(lib.library().version().decode())

