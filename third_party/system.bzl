"""Makes a package that is installed on this system look like an external repository."""

def _multiarch(ctx):
    """The folder below /usr/lib and /usr/include of this machine's architecture."""
    named = ctx.os.environ.get("SMELT_MULTIARCH")
    return named or ctx.execute(["uname", "-m"]).stdout.strip() + "-linux-gnu"

def _system_cc_repository_impl(ctx):
    multiarch = _multiarch(ctx)
    for destination, source in ctx.attr.paths.items():
        source = source.replace("{multiarch}", multiarch)
        if not ctx.path(source).exists:
            fail("@{}: {} is not there; apt-get install {}".format(ctx.name, source, ctx.attr.debian_package))
        ctx.symlink(source, destination)
    ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name))
    ctx.symlink(ctx.attr.build_file, "BUILD.bazel")

system_cc_repository = repository_rule(
    implementation = _system_cc_repository_impl,
    doc = "Headers and tools of a system package, symlinked here and listed by globs, so that Bazel tracks them.",
    attrs = {
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        "debian_package": attr.string(mandatory = True, doc = "named in the error when a path is missing"),
        "paths": attr.string_dict(
            doc = "path in the repository -> absolute path on this system; {multiarch} becomes the architecture's folder",
        ),
    },
    environ = ["SMELT_MULTIARCH"],
    local = True,
    configure = True,
)
