"""@llvm-project from Debian's llvm-22-dev and liblld-22-dev, as asked of llvm-config."""

# The components of LLVM that smelt uses, for the static link.
_COMPONENTS = ["x86codegen", "x86asmparser", "aarch64codegen", "aarch64asmparser", "nvptxcodegen", "orcjit", "passes", "linker", "bitreader", "bitwriter", "irreader", "target"]

_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h", "include/**/*.def", "include/**/*.inc"]),
    includes = ["include"],
)

# The shared library with all targets: links fast, for development.
cc_library(
    name = "llvm",
    # Programs that are linked in this way read it when they run: it is an input of the actions and tests that run them.
    data = ["lib/libLLVM.so"],
    linkopts = ["-L{libdir}", "-lLLVM-{major}"],
    deps = [":headers"],
)

# lld as a library, over the shared LLVM; over the static one it would pull in every target, as it initializes them all.
cc_library(
    name = "lld_elf",
    linkopts = ["-L{libdir}", "-llldELF", "-llldCommon", "-lzstd", "-lz"],
    deps = [":llvm"],
)

# The static archives of the components smelt uses, those of three targets alone: for packages (//package).
cc_library(
    name = "llvm_static",
    linkopts = {static},
    deps = [":headers"],
)
"""

def _llvm_config(ctx, *args):
    program = "llvm-config-" + ctx.attr.major
    if not ctx.which(program):
        fail("@{}: apt-get install llvm-{}-dev liblld-{}-dev".format(ctx.name, ctx.attr.major, ctx.attr.major))
    result = ctx.execute([program] + list(args))
    if result.return_code:
        fail("@{}: {} {}: {}".format(ctx.name, program, " ".join(args), result.stderr))
    return result.stdout.strip().replace("\n", " ")

def _static_linkopts(ctx):
    options = " ".join([
        _llvm_config(ctx, "--ldflags"),
        _llvm_config(ctx, "--link-static", "--libs", *_COMPONENTS),
        _llvm_config(ctx, "--link-static", "--system-libs", *_COMPONENTS),
    ])

    # llvm-config names z3's library by its path.
    return ["-lz3" if option.endswith("libz3.so") else option for option in options.split(" ") if option]

def _system_llvm_impl(ctx):
    include = _llvm_config(ctx, "--includedir")
    for folder in ["llvm", "llvm-c", "lld"]:
        if not ctx.path(include + "/" + folder).exists:
            fail("@{}: {}/{} is not there; apt-get install llvm-{}-dev liblld-{}-dev".format(ctx.name, include, folder, ctx.attr.major, ctx.attr.major))
        ctx.symlink(include + "/" + folder, "include/" + folder)
    ctx.symlink(_llvm_config(ctx, "--link-shared", "--libfiles"), "lib/libLLVM.so")
    ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name))
    ctx.file("BUILD.bazel", _BUILD.format(
        libdir = _llvm_config(ctx, "--libdir"),
        major = ctx.attr.major,
        static = repr(_static_linkopts(ctx)),
    ))

system_llvm = repository_rule(
    implementation = _system_llvm_impl,
    attrs = {"major": attr.string(default = "22")},
    local = True,
    configure = True,
)
