"""External repositories of smelt, for its own WORKSPACE and for a consumer's.

Each is a package of the system (Debian 12), found where the package put it, under the labels that upstream's Bazel files
use: so a consumer that already has, say, its own @com_google_absl keeps it.
"""

load("//third_party:absl.bzl", "system_absl")
load("//third_party:coverage.bzl", "coverage_tools")
load("//third_party:repositories.bzl", "TOOLING", "declare_debian_libraries", "declare_system_libraries")
load("//third_party:rules_cc.bzl", "debian_rules_cc")
load("//third_party:rules_shell.bzl", "native_rules_shell")

def _unless_declared(rule, name, **kwargs):
    if not native.existing_rule(name):
        rule(name = name, **kwargs)

def smelt_deps():
    """Declares every repository smelt needs, unless the caller already has."""
    if not native.bazel_version or native.bazel_version.startswith("4."):
        # Debian's Bazel 4.2.3 calls itself "no_version". Newer Bazels bring these, see MODULE.bazel.
        _unless_declared(debian_rules_cc, "rules_cc")
        _unless_declared(native_rules_shell, "rules_shell")
        _unless_declared(coverage_tools, "remote_coverage_tools")
        for name, path in TOOLING.items():
            _unless_declared(native.local_repository, name, path = path)
    _unless_declared(system_absl, "com_google_absl")
    declare_debian_libraries(_unless_declared)
    declare_system_libraries(_unless_declared)
