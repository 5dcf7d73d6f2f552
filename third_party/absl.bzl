"""@com_google_absl from Debian's libabsl-dev, under upstream's labels; link flags from pkg-config."""

# Upstream label -> pkg-config modules. Header-only targets have none.
_TARGETS = {
    "algorithm:algorithm": [],
    "algorithm:container": [],
    "base:base": ["absl_base"],
    "base:core_headers": [],
    "base:endian": [],
    "cleanup:cleanup": ["absl_cleanup"],
    "container:btree": ["absl_btree"],
    "container:fixed_array": ["absl_fixed_array"],
    "container:flat_hash_map": ["absl_flat_hash_map"],
    "container:flat_hash_set": ["absl_flat_hash_set"],
    "container:inlined_vector": ["absl_inlined_vector"],
    "container:node_hash_map": ["absl_node_hash_map"],
    "container:node_hash_set": ["absl_node_hash_set"],
    "debugging:failure_signal_handler": ["absl_failure_signal_handler"],
    "debugging:stacktrace": ["absl_stacktrace"],
    "debugging:symbolize": ["absl_symbolize"],
    "flags:config": ["absl_flags_config"],
    "flags:flag": ["absl_flags"],
    "flags:marshalling": ["absl_flags_marshalling"],
    "flags:parse": ["absl_flags_parse"],
    "flags:reflection": ["absl_flags_reflection"],
    "flags:usage": ["absl_flags_usage"],
    "functional:any_invocable": [],
    "functional:bind_front": [],
    "functional:function_ref": [],
    "hash:hash": ["absl_hash"],
    "hash:hash_testing": ["absl_hash"],
    "memory:memory": [],
    "meta:type_traits": [],
    "numeric:bits": ["absl_bits"],
    "numeric:int128": ["absl_int128"],
    "random:distributions": ["absl_random_distributions"],
    "random:random": ["absl_random_random"],
    "status:status": ["absl_status"],
    "status:statusor": ["absl_statusor"],
    "strings:cord": ["absl_cord"],
    "strings:str_format": ["absl_str_format"],
    "strings:strings": ["absl_strings"],
    "synchronization:synchronization": ["absl_synchronization"],
    "time:time": ["absl_time"],
    "types:any": ["absl_any"],
    "types:optional": ["absl_optional"],
    "types:span": ["absl_span"],
    "types:variant": ["absl_variant"],
    "utility:utility": [],
}

_ROOT_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "headers",
    hdrs = glob(["include/absl/**/*.h", "include/absl/**/*.inc"]),
    includes = ["include"],
    visibility = ["//:__subpackages__"],
)
"""

_PACKAGE = """\
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])
"""

_TARGET = """
cc_library(
    name = "{name}",
    linkopts = {linkopts},
    deps = ["//:headers"],
)
"""

def _system_absl_impl(ctx):
    if not ctx.path("/usr/include/absl").exists or not ctx.which("pkg-config"):
        fail("@com_google_absl: apt-get install libabsl-dev pkg-config")
    ctx.symlink("/usr/include/absl", "include/absl")
    ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name))
    ctx.file("BUILD.bazel", _ROOT_BUILD)
    packages = {}
    for label, modules in _TARGETS.items():
        package, name = label.split(":")
        linkopts = []
        if modules:
            result = ctx.execute(["pkg-config", "--libs"] + modules)
            if result.return_code:
                fail("@com_google_absl: pkg-config {}: {}".format(" ".join(modules), result.stderr))
            linkopts = [option for option in result.stdout.strip().split(" ") if option]
        packages.setdefault(package, []).append(_TARGET.format(name = name, linkopts = repr(linkopts)))
    for package, targets in packages.items():
        ctx.file("absl/{}/BUILD.bazel".format(package), _PACKAGE + "".join(targets))

system_absl = repository_rule(implementation = _system_absl_impl, local = True, configure = True)
