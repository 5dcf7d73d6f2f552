"""The repositories that are taken from the system, for deps.bzl (WORKSPACE) and extensions.bzl (MODULE.bazel).

`declare` is called as declare(rule, name, **attributes): the two differ in who may override what.
"""

load("//third_party:aarch64.bzl", "aarch64_linux_gnu")
load("//third_party:cuda.bzl", "system_cuda")
load("//third_party:llvm.bzl", "system_llvm")
load("//third_party:system.bzl", "system_cc_repository")

# Rule sets that Debian's Bazel would download otherwise.
TOOLING = {
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "platforms": "/usr/share/bazel/tools/platforms",
    "rules_java": "/usr/share/bazel/rules/java",
}

def declare_debian_libraries(declare):
    """What a newer Bazel takes from its central registry instead."""
    declare(
        system_cc_repository,
        "com_google_googletest",
        build_file = Label("//third_party:googletest.BUILD"),
        debian_package = "googletest",
        paths = {
            "googlemock": "/usr/src/googletest/googlemock",
            "googletest": "/usr/src/googletest/googletest",
        },
    )
    declare(
        system_cc_repository,
        "com_github_google_benchmark",
        build_file = Label("//third_party:benchmark.BUILD"),
        debian_package = "libbenchmark-dev",
        paths = {
            "include/benchmark": "/usr/include/benchmark",
        },
    )

def declare_system_libraries(declare):
    """What comes from the system whatever the Bazel."""
    declare(aarch64_linux_gnu, "aarch64_linux_gnu")
    declare(
        system_cc_repository,
        "com_github_google_flatbuffers",
        build_file = Label("//third_party:flatbuffers.BUILD"),
        debian_package = "flatbuffers-compiler libflatbuffers-dev",
        paths = {
            "bin/flatc": "/usr/bin/flatc",
            "include/flatbuffers": "/usr/include/flatbuffers",
        },
    )
    declare(
        system_cc_repository,
        "curl",
        build_file = Label("//third_party:curl.BUILD"),
        debian_package = "libcurl4-openssl-dev",
        paths = {
            "include/curl": "/usr/include/{multiarch}/curl",
        },
    )
    declare(
        system_cc_repository,
        "libzip",
        build_file = Label("//third_party:libzip.BUILD"),
        debian_package = "libzip-dev",
        paths = {
            "include/zip.h": "/usr/include/zip.h",
            "include/zipconf.h": "/usr/include/zipconf.h",
        },
    )
    declare(
        system_cc_repository,
        "nlohmann_json",
        build_file = Label("//third_party:nlohmann_json.BUILD"),
        debian_package = "nlohmann-json3-dev",
        paths = {
            "include/nlohmann": "/usr/include/nlohmann",
        },
    )
    declare(
        system_cc_repository,
        "onednn",
        build_file = Label("//third_party:onednn.BUILD"),
        debian_package = "libdnnl-dev",
        paths = {
            "include/oneapi": "/usr/include/oneapi",
        },
    )
    declare(
        system_cc_repository,
        "openssl",
        build_file = Label("//third_party:openssl.BUILD"),
        debian_package = "libssl-dev",
        paths = {
            "arch/openssl": "/usr/include/{multiarch}/openssl",
            "include/openssl": "/usr/include/openssl",
        },
    )
    declare(
        system_cc_repository,
        "simdjson",
        build_file = Label("//third_party:simdjson.BUILD"),
        debian_package = "libsimdjson-dev",
        paths = {
            "include/simdjson.h": "/usr/include/simdjson.h",
        },
    )
    declare(
        system_cc_repository,
        "zlib",
        build_file = Label("//third_party:zlib.BUILD"),
        debian_package = "zlib1g-dev",
        paths = {
            "include/zconf.h": "/usr/include/zconf.h",
            "include/zlib.h": "/usr/include/zlib.h",
        },
    )
    declare(
        system_cc_repository,
        "portable_libraries",
        build_file = Label("//third_party:portable_libraries.BUILD"),
        debian_package = "libdnnl2 libgomp1 ocl-icd-libopencl1 libbz2-1.0 libsimdjson14 libssl3 libzip4 zlib1g",
        paths = {"lib/" + name: "/usr/lib/{multiarch}/" + name for name in [
            "libOpenCL.so.1",
            "libbz2.so.1.0",
            "libcrypto.so.3",
            "libdnnl.so.2",
            "libgomp.so.1",
            "libsimdjson.so.14",
            "libz.so.1",
            "libzip.so.4",
        ]},
    )
    declare(system_llvm, "llvm-project")
    declare(system_cuda, "cuda")
