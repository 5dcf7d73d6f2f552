"""@cuda: the CUDA toolkit where there is one, else a stub of the same labels. Nothing needs it to build.

  load("@cuda//:cuda.bzl", "HAVE_CUDA", "requires_cuda")

  smelt_cc_test(name = "ptxas_test", data = ["@cuda//:ptxas"], target_compatible_with = requires_cuda(), ...)

A target that requires the toolkit is then left out of `//...` on a machine without one, by name, and not built wrongly.
libcuda.so.1, the driver, is opened at run time and never linked, so it has no label here.
"""

_TOOLKIT_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/cuda.h"]),
    includes = ["include"],
)

filegroup(name = "ptxas", srcs = ["bin/ptxas"])

filegroup(name = "libdevice", srcs = ["libdevice/libdevice.10.bc"])
"""

# Bazel 4's filegroup cannot be incompatible; its cc_library can.
_STUB_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

[
    cc_library(name = name, target_compatible_with = ["@platforms//:incompatible"])
    for name in ["headers", "ptxas", "libdevice"]
]
"""

_DEFS = """\
HAVE_CUDA = {have}

def requires_cuda():
    return [] if HAVE_CUDA else ["@platforms//:incompatible"]
"""

def _system_cuda_impl(ctx):
    root = ctx.os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    parts = {
        "bin/ptxas": root + "/bin/ptxas",
        "include": root + "/include",
        "libdevice/libdevice.10.bc": root + "/nvvm/libdevice/libdevice.10.bc",
    }
    have = not [source for source in parts.values() if not ctx.path(source).exists]
    if have:
        for destination, source in parts.items():
            ctx.symlink(source, destination)
    ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name))
    ctx.file("BUILD.bazel", _TOOLKIT_BUILD if have else _STUB_BUILD)
    ctx.file("cuda.bzl", _DEFS.format(have = have))

system_cuda = repository_rule(
    implementation = _system_cuda_impl,
    environ = ["CUDA_HOME"],
    local = True,
    configure = True,
)
