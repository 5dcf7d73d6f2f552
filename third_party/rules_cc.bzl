"""@rules_cc from Debian's package, mended for Debian's Bazel 4.2.3.

Two files of rules_cc 0.0.4 load use_cpp_toolchain(), which that Bazel's toolchain_utils.bzl does not have. cc/common, from
which newer versions export CcInfo and cc_common, is missing.
"""

_SYSTEM = "/usr/share/bazel/rules/cc"
_STALE = ["cc/private/rules_impl/compiler_flag.bzl", "cc/private/rules_impl/cc_flags_supplier.bzl"]

def _debian_rules_cc_impl(ctx):
    result = ctx.execute(["cp", "-r", _SYSTEM + "/.", "."])
    if result.return_code:
        fail("@rules_cc: {}apt-get install bazel-rules-cc".format(result.stderr))
    for path in _STALE:
        text = ctx.read(path)
        text = text.replace(", \"use_cpp_toolchain\")", ")")
        text = text.replace("use_cpp_toolchain()", "[\"@bazel_tools//tools/cpp:toolchain_type\"]")
        ctx.file(path, text)

    # Newer rules_cc export what this Bazel has built in. A name cannot be bound to itself, so there is a file between.
    ctx.file("cc/common/BUILD.bazel", "")
    ctx.file("cc/common/built_in.bzl", "built_in = struct(CcInfo = CcInfo, cc_common = cc_common)\n")
    for name, file in {"CcInfo": "cc_info", "cc_common": "cc_common"}.items():
        ctx.file("cc/common/{}.bzl".format(file), "load(\":built_in.bzl\", \"built_in\")\n\n{} = built_in.{}\n".format(name, name))

debian_rules_cc = repository_rule(implementation = _debian_rules_cc_impl, local = True)
