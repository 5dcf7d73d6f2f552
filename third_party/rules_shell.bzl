"""@rules_shell for Debian's Bazel 4.2.3, whose own rules these still are. A newer Bazel takes it from its registry."""

_RULE = """\"\"\"{rule}, which this Bazel brings.\"\"\"

def {rule}(**kwargs):
    native.{rule}(**kwargs)
"""

def _native_rules_shell_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name))
    ctx.file("shell/BUILD.bazel", "")
    for rule in ["sh_binary", "sh_library", "sh_test"]:
        ctx.file("shell/{}.bzl".format(rule), _RULE.format(rule = rule))

native_rules_shell = repository_rule(implementation = _native_rules_shell_impl)
