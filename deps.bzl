"""External repositories of smelt, for its own WORKSPACE and for a consumer's.

Each is a package of the system (Debian 12), found where the package put it, under the labels that upstream's Bazel files
use: so a consumer that already has, say, its own @com_google_absl keeps it.
"""

load("//third_party:absl.bzl", "system_absl")
load("//third_party:coverage.bzl", "coverage_tools")
load("//third_party:cuda.bzl", "system_cuda")
load("//third_party:llvm.bzl", "system_llvm")
load("//third_party:rules_cc.bzl", "debian_rules_cc")
load("//third_party:system.bzl", "system_cc_repository")

def _maybe(rule, name, **kwargs):
    if not native.existing_rule(name):
        rule(name = name, **kwargs)

def smelt_deps():
    """Declares every repository smelt needs, unless the caller already has."""
    if not native.bazel_version or native.bazel_version.startswith("4."):
        # Debian's Bazel 4.2.3 calls itself "no_version". Newer Bazels bring these, see MODULE.bazel.
        _maybe(debian_rules_cc, "rules_cc")
        _maybe(coverage_tools, "remote_coverage_tools")
        _maybe(native.local_repository, "rules_java", path = "/usr/share/bazel/rules/java")
        _maybe(native.local_repository, "bazel_skylib", path = "/usr/share/bazel/tools/skylib")
        _maybe(native.local_repository, "platforms", path = "/usr/share/bazel/tools/platforms")
    _maybe(system_absl, "com_google_absl")
    smelt_system_libraries()

def smelt_system_libraries():
    """The libraries that are taken from the system whatever the Bazel."""
    _maybe(
        system_cc_repository,
        "com_google_googletest",
        build_file = Label("//third_party:googletest.BUILD"),
        debian_package = "googletest",
        paths = {
            "googlemock": "/usr/src/googletest/googlemock",
            "googletest": "/usr/src/googletest/googletest",
        },
    )
    _maybe(
        system_cc_repository,
        "com_github_google_benchmark",
        build_file = Label("//third_party:benchmark.BUILD"),
        debian_package = "libbenchmark-dev",
        paths = {"include/benchmark": "/usr/include/benchmark"},
    )
    _maybe(
        system_cc_repository,
        "com_github_google_flatbuffers",
        build_file = Label("//third_party:flatbuffers.BUILD"),
        debian_package = "flatbuffers-compiler libflatbuffers-dev",
        paths = {
            "bin/flatc": "/usr/bin/flatc",
            "include/flatbuffers": "/usr/include/flatbuffers",
        },
    )
    _maybe(
        system_cc_repository,
        "onednn",
        build_file = Label("//third_party:onednn.BUILD"),
        debian_package = "libdnnl-dev",
        paths = {"include/oneapi": "/usr/include/oneapi"},
    )
    _maybe(
        system_cc_repository,
        "nlohmann_json",
        build_file = Label("//third_party:nlohmann_json.BUILD"),
        debian_package = "nlohmann-json3-dev",
        paths = {"include/nlohmann": "/usr/include/nlohmann"},
    )
    _maybe(
        system_cc_repository,
        "libzip",
        build_file = Label("//third_party:libzip.BUILD"),
        debian_package = "libzip-dev",
        paths = {
            "include/zip.h": "/usr/include/zip.h",
            "include/zipconf.h": "/usr/include/zipconf.h",
        },
    )
    _maybe(
        system_cc_repository,
        "openssl",
        build_file = Label("//third_party:openssl.BUILD"),
        debian_package = "libssl-dev",
        paths = {
            "include/openssl": "/usr/include/openssl",
            "arch/openssl": "/usr/include/{multiarch}/openssl",
        },
    )
    _maybe(
        system_cc_repository,
        "zlib",
        build_file = Label("//third_party:zlib.BUILD"),
        debian_package = "zlib1g-dev",
        paths = {
            "include/zconf.h": "/usr/include/zconf.h",
            "include/zlib.h": "/usr/include/zlib.h",
        },
    )
    _maybe(system_llvm, "llvm-project")
    _maybe(system_cuda, "cuda")
