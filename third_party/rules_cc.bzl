"""@rules_cc from Debian's package, mended for Debian's Bazel 4.2.3.

Two files of rules_cc 0.0.4 load use_cpp_toolchain(), which that Bazel's toolchain_utils.bzl does not have.
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

debian_rules_cc = repository_rule(implementation = _debian_rules_cc_impl, local = True)
