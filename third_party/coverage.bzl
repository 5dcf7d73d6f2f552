"""@remote_coverage_tools without the download: any cc_test of Bazel 4 asks for it, covered or not."""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

[sh_binary(name = name, srcs = ["merger.py"]) for name in ["lcov_merger", "coverage_report_generator"]]
"""

def _coverage_tools_impl(ctx):
    ctx.symlink(Label("//third_party:coverage_merger.py"), "merger.py")
    ctx.file("WORKSPACE", "workspace(name = \"remote_coverage_tools\")\n")
    ctx.file("BUILD.bazel", _BUILD)

coverage_tools = repository_rule(implementation = _coverage_tools_impl, local = True)
