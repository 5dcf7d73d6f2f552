"""For MODULE.bazel, which Bazel 6 and newer read."""

load("//third_party:repositories.bzl", "declare_system_libraries")

def _declare(rule, name, **kwargs):
    rule(name = name, **kwargs)

def _system_libraries_impl(_module_ctx):
    declare_system_libraries(_declare)

system_libraries = module_extension(implementation = _system_libraries_impl)
