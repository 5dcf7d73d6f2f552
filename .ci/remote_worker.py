#!/usr/bin/env python3
"""A worker of BuildGrid for .ci/remote: runs one action at a time, each in an empty root.

  remote_worker.py --server 127.0.0.1:PORT --instance main --id w1 --root DIR

An action sees its declared inputs, the C and C++ libraries and /proc, and nothing else: no file of the machine, no network, no
other process, no right of another user. DIR belongs to this worker and is emptied first. DIR/blobs keeps what was fetched.

Prints a line when an action begins (START, its outputs), and one when it ends: DONE, its exit code, processor seconds, bytes
fetched for it, bytes of its inputs, bytes of its outputs, its outputs; or FAILED.
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import grpc
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2 as re, remote_execution_pb2_grpc as re_grpc
from buildgrid._protos.google.bytestream import bytestream_pb2 as bs, bytestream_pb2_grpc as bs_grpc
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import bots_pb2 as bots, bots_pb2_grpc as bots_grpc, worker_pb2
from buildgrid._protos.google.rpc import code_pb2

BATCH = 3 << 20  # bytes in one batch request; BuildGrid takes just under 4 MiB
CHUNK = 1 << 20
LIBRARIES = ["/lib64/ld-linux-x86-64.so.2"] + [
    f"/usr/lib/x86_64-linux-gnu/{name}" for name in ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")
]
NOBODY = 65534


def log(*what):
    print(*what, flush=True)


class Cas:
    """The server's content-addressable storage, with a folder of what was fetched before."""

    def __init__(self, channel, instance, folder):
        self.instance, self.folder = instance, folder
        self.stub, self.stream = re_grpc.ContentAddressableStorageStub(channel), bs_grpc.ByteStreamStub(channel)
        self.fetched = 0  # bytes

    def read_many(self, digests):
        """hash -> bytes."""
        out, batch, size = {}, [], 0

        def flush():
            request = re.BatchReadBlobsRequest(instance_name=self.instance, digests=batch)
            for r in self.stub.BatchReadBlobs(request).responses:
                if r.status.code:
                    raise RuntimeError(f"blob {r.digest.hash}/{r.digest.size_bytes}: {r.status}")
                out[r.digest.hash] = r.data

        for d in {d.hash: d for d in digests}.values():
            self.fetched += d.size_bytes
            if d.size_bytes > BATCH:
                request = bs.ReadRequest(resource_name=f"{self.instance}/blobs/{d.hash}/{d.size_bytes}")
                out[d.hash] = b"".join(r.data for r in self.stream.Read(request))
                continue
            if size + d.size_bytes > BATCH or len(batch) >= 400:
                flush()
                batch, size = [], 0
            batch.append(d)
            size += d.size_bytes
        if batch:
            flush()
        return out

    def link_files(self, files):
        """Puts (path, digest, executable) in their places, as links to files that nobody may write."""
        names = [(path, d, os.path.join(self.folder, d.hash + (".x" if executable else ""))) for path, d, executable in files]
        missing = [d for _, d, kept in names if not os.path.exists(kept)]
        blobs = self.read_many([d for d in missing if d.size_bytes])
        for path, d, kept in names:
            if not os.path.exists(kept):
                pathlib.Path(kept).write_bytes(blobs.get(d.hash, b""))
                os.chmod(kept, 0o555 if kept.endswith(".x") else 0o444)
            os.link(kept, path)

    def tree(self, root):
        """hash of the serialized Directory -> Directory, for all below root."""
        request = re.GetTreeRequest(instance_name=self.instance, root_digest=root)
        found = [d for page in self.stub.GetTree(request) for d in page.directories]
        return {hashlib.sha256(d.SerializeToString()).hexdigest(): d for d in found}

    def put(self, data):
        d = re.Digest(hash=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        request = re.FindMissingBlobsRequest(instance_name=self.instance, blob_digests=[d])
        if not self.stub.FindMissingBlobs(request).missing_blob_digests:
            return d
        name = f"{self.instance}/uploads/{uuid.uuid4()}/blobs/{d.hash}/{d.size_bytes}"
        self.stream.Write(
            bs.WriteRequest(
                resource_name=name, write_offset=i, data=data[i : i + CHUNK], finish_write=i + CHUNK >= len(data)
            )
            for i in range(0, max(len(data), 1), CHUNK)
        )
        return d


class Run:
    """One lease: fetches the inputs, runs the command, uploads the outputs, in a thread of its own."""

    def __init__(self, cas, lease):
        self.cas, self.lease, self.process, self.done = cas, lease, None, threading.Event()
        threading.Thread(target=self.main, daemon=True).start()

    def main(self):
        self.root = os.path.join(args.root, self.lease.id)
        try:
            self.lease.result.Pack(self.execute())
        except Exception as e:  # the server gives an action that ends so to another worker, five times in all
            self.lease.status.code, self.lease.status.message = code_pb2.INTERNAL, f"{args.id}: {e!r}"
            log("FAILED", repr(e))
        finally:
            shutil.rmtree(self.root, ignore_errors=True)
            self.lease.state = bots.COMPLETED
            self.done.set()

    def lay_out(self, path, digest, tree, files):
        os.mkdir(path)
        os.chmod(path, 0o755)
        node = tree[digest.hash] if digest.size_bytes else re.Directory()
        for f in node.files:
            files.append((os.path.join(path, f.name), f.digest, f.is_executable))
        for s in node.symlinks:
            os.symlink(s.target, os.path.join(path, s.name))
        for d in node.directories:
            self.lay_out(os.path.join(path, d.name), d.digest, tree, files)

    def empty_root(self):
        for folder in ("proc", "lib64", "usr/lib/x86_64-linux-gnu"):
            os.makedirs(os.path.join(self.root, folder))
        os.symlink("usr/lib", os.path.join(self.root, "lib"))
        for library in LIBRARIES:
            os.link(os.path.join(args.root, "libraries", os.path.basename(library)), self.root + library)

    def execute(self):
        action, result = re.Action(), re.ActionResult()
        self.lease.payload.Unpack(action)
        result.execution_metadata.worker = args.id
        before = self.cas.fetched
        command = re.Command.FromString(self.cas.read_many([action.command_digest])[action.command_digest.hash])
        outputs = list(command.output_paths) or list(command.output_files) + list(command.output_directories)
        log("START", *outputs)
        self.empty_root()
        files = []
        self.lay_out(os.path.join(self.root, "work"), action.input_root_digest, self.cas.tree(action.input_root_digest), files)
        self.cas.link_files(files)
        folder = os.path.join("work", command.working_directory)
        for o in outputs:
            parent = os.path.dirname(os.path.join(self.root, folder, o))
            os.makedirs(parent, exist_ok=True)
            os.chmod(parent, 0o777)
        exit_code, usage = self.run_command(command, "/" + folder, action, result)
        result.exit_code = exit_code
        written = 0
        for o in outputs:
            path = os.path.join(self.root, folder, o)
            if os.path.exists(path):
                data = pathlib.Path(path).read_bytes()
                written += len(data)
                result.output_files.add(path=o, digest=self.cas.put(data), is_executable=os.access(path, os.X_OK))
        seconds, inputs = usage.ru_utime + usage.ru_stime, sum(d.size_bytes for _, d, _ in files)
        log("DONE", exit_code, f"{seconds:.3f}", self.cas.fetched - before, inputs, written, *outputs)
        return result

    def run_command(self, command, folder, action, result):
        isolated = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc=/proc", f"--root={self.root}"]
        isolated += [f"--wd={folder}", f"--setuid={NOBODY}", f"--setgid={NOBODY}"]
        # setpriv: if the worker is killed, so is the command. (No preexec_fn: gRPC's handlers of fork would run in it.)
        argv = ["setpriv", "--pdeathsig", "KILL", *isolated, *command.arguments]
        timeout = action.timeout.seconds if action.HasField("timeout") else 600
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            self.process = subprocess.Popen(
                argv,
                env={"PATH": os.environ["PATH"], **{v.name: v.value for v in command.environment_variables}},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            timer = threading.Timer(timeout, self.kill)
            timer.start()
            _, status, usage = os.wait4(self.process.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            timer.cancel()
            for stream, digest in (out, result.stdout_digest), (err, result.stderr_digest):
                stream.seek(0)
                said = stream.read()
                digest.CopyFrom(self.cas.put(said))
                if self.process.returncode:
                    log(said.decode(errors="replace"))
        code = self.process.returncode
        return (code if code >= 0 else 128 - code), usage

    def kill(self):
        if self.process and self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)


def serve():
    channel = grpc.insecure_channel(args.server, options=[("grpc.max_receive_message_length", -1)])
    stub, cas = bots_grpc.BotsStub(channel), Cas(channel, args.instance, os.path.join(args.root, "blobs"))
    device = worker_pb2.Device(handle=args.id)
    device.properties.add(key="OSFamily", value="linux")
    session, runs = None, {}
    while True:
        try:
            if session is None:  # the call waits for the first lease
                session = bots.BotSession(bot_id=args.id, status=bots.OK, worker=worker_pb2.Worker(devices=[device]))
                request = bots.CreateBotSessionRequest(parent=args.instance, bot_session=session)
                session = stub.CreateBotSession(request, timeout=20)
            else:
                request = bots.UpdateBotSessionRequest(name=session.name, bot_session=session)
                session = stub.UpdateBotSession(request, timeout=20)
        except grpc.RpcError as e:
            log("session lost:", e.code().name, e.details())
            for r in runs.values():
                r.kill()
            session, runs = None, {}
            time.sleep(0.5)
            continue
        leases = {lease.id: lease for lease in session.leases if lease.state == bots.ACTIVE}
        for i in [i for i in runs if i not in leases]:  # finished and acknowledged, or taken back
            runs.pop(i).kill()
        for i, lease in leases.items():
            if i not in runs:
                runs[i] = Run(cas, bots.Lease.FromString(lease.SerializeToString()))
        if runs:  # a session at capacity is answered at once: wait here, and call as a sign of life meanwhile
            next(iter(runs.values())).done.wait(1)
        del session.leases[:]
        session.leases.extend(r.lease for r in runs.values())


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name in ("server", "instance", "id", "root"):
    parser.add_argument("--" + name, required=True)
args = parser.parse_args()
shutil.rmtree(args.root, ignore_errors=True)
for folder in ("blobs", "libraries"):
    os.makedirs(os.path.join(args.root, folder))
for library in LIBRARIES:
    shutil.copy(library, os.path.join(args.root, "libraries"))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
serve()
