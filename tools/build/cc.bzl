"""How smelt's own C++ targets are built: warnings, include prefix, linking. For smelt's BUILD files; consumers use defs.bzl.

Headers are included as "smelt/<package>/<file>". Targets are private unless they say who may use them.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wimplicit-fallthrough",
    # Sizes are int64_t, containers' are size_t: comparing them is everywhere and mostly harmless.
    "-Wno-sign-compare",
    "-Wno-unused-parameter",
    # {.field = x} leaves the others to their defaults, on purpose.
    "-Wno-missing-field-initializers",
    # gcc 12 reports these in correct standard library and Abseil code.
    "-Wno-array-bounds",
    "-Wno-dangling-pointer",
    "-Wno-free-nonheap-object",
    "-Wno-maybe-uninitialized",
    "-Wno-restrict",
    "-Wno-stringop-overflow",
    "-Wno-stringop-overread",
    # clang does not know some of the above.
    "-Wno-unknown-warning-option",
]

# gcc 12 takes two doubles that are rounded to float side by side, and become doubles again, for unchanged
# (//core/base:compiler_test). Its vectorizer of straight code does that; the one of loops does not.
_CODE = ["-fno-tree-slp-vectorize"]

# Where a machine has fused multiply-add (AArch64, x86-64-v3), gcc and clang use it for products that are added, unless
# they are told not to. Then what smelt computes while it compiles, constants above all, would depend on the machine.
_ROUND_ONCE_PER_OPERATION = ["-ffp-contract=off"]

def _copts(copts, fuses_products = False):
    # A consumer's compiler may warn of something new: only smelt's own builds stop at a warning.
    # Those have their standard of C++ from .bazelrc; in a consumer's build it may be another, so the target says it.
    own = native.repository_name() in ("", "@")
    rounding = [] if fuses_products else _ROUND_ONCE_PER_OPERATION
    return _WARNINGS + _CODE + rounding + (["-Werror"] if own else ["-std=c++20"]) + copts

def smelt_cc_library(
        name,
        copts = [],
        for_size = False,
        fuses_products = False,
        visibility = ["//visibility:private"],
        **kwargs):
    """A cc_library whose headers are included as "smelt/<package>/<file>".

    Args:
      for_size: Compiles for size. For what runs once per file or program, and would be a large part of the runtime.
      fuses_products: Lets the compiler round a product and a sum once. For loops over the elements of tensors at run
        time, never for what the compiler computes.
    """
    cc_library(
        name = name,
        copts = _copts(copts, fuses_products) + (["-Os"] if for_size else []),
        include_prefix = "smelt/" + native.package_name(),
        linkstatic = True,
        visibility = visibility,
        **kwargs
    )

def smelt_cc_binary(name, copts = [], visibility = ["//visibility:private"], **kwargs):
    cc_binary(
        name = name,
        copts = _copts(copts),
        visibility = visibility,
        **kwargs
    )

def smelt_cc_test(name, copts = [], deps = [], size = "small", gtest_main = True, visibility = ["//visibility:private"], **kwargs):
    """A cc_test with GoogleTest and GoogleMock.

    Args:
      gtest_main: False for a test that brings its own main(); it then names GoogleTest itself, if it wants it.
      tags in kwargs: "untrusted" marks a test that feeds hostile bytes; CI runs those under sanitizers too.
    """
    cc_test(
        name = name,
        size = size,
        copts = _copts(copts),
        linkstatic = True,
        visibility = visibility,
        deps = deps + (["@com_google_googletest//:gtest_main"] if gtest_main else []),
        **kwargs
    )
