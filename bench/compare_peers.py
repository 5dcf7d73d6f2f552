"""How each peer compiles an ExportedProgram, and calls it: a function that returns a function from a list of tensors to a list
of tensors. Each adapter passes the caller's own memory if the peer has a way to take it, so that a peer can write its
arguments as eager PyTorch does.
"""

import os
import tempfile

import torch


def flat(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def eager(program):
    """The exported program, as PyTorch runs it. It checks its arguments, which the bare module does not."""
    module = program.module()
    return lambda args: flat(module(*args))


def smelt(program):
    import smelt

    model = smelt.load(smelt.compile(program))
    with torch.no_grad():
        return lambda args: flat(model(*args))


def aotinductor(program):
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    with torch.no_grad():
        runner = aoti_load_package(aoti_compile_and_package(program))
    return lambda args: flat(runner(*args))


def onnxruntime(program):
    import onnxruntime

    exported = torch.onnx.export(program, dynamo=True, verbose=False, external_data=False)
    path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    exported.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]

    def call(args):
        # Numpy arrays over the tensors' own memory.
        results = session.run(None, dict(zip(names, (a.numpy() for a in args))))
        return [torch.from_numpy(r) if r.ndim else torch.tensor(r) for r in results]

    return call


def executorch(program):
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
    from executorch.runtime import Runtime

    edge = to_edge(program)
    # Buffers that the model writes begin with the values of the export; the pass takes them by a part of their name.
    compiled = edge.to_executorch(ExecutorchBackendConfig(passes=[InitializedMutableBufferPass([""])]))
    buffer = compiled.buffer  # is not copied: it must live as long as the method
    loaded = Runtime.get().load_program(buffer)
    method = loaded.load_method("forward")
    count = len(edge.exported_program().graph_signature.user_outputs)

    def call(args, keep=(buffer, loaded)):
        return flat(method.execute(args))[-count:]  # what the model wrote into arguments comes first

    return call


def iree(program):
    import iree.runtime
    import iree.turbine.aot

    output = iree.turbine.aot.export(program.run_decompositions({}))  # it takes no operators that write
    binary = output.compile(save_to=None, target_backends=("llvm-cpu",))
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.wrap_buffer(config.vm_instance, binary.map_memory())
    main = iree.runtime.load_vm_module(module, config).main

    def call(args):
        results = main(*[a.numpy() for a in args])
        return [torch.from_numpy(r.to_host().copy()) for r in flat(results)]

    return call


PEERS = {f.__name__: f for f in (eager, smelt, aotinductor, onnxruntime, executorch, iree)}
