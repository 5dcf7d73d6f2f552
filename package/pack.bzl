"""Packages: which files, as a tarball or for Debian. pack.sh makes them the same bytes everywhere."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

PackageFilesInfo = provider(
    doc = "The files of a package.",
    fields = {
        "entries": "list of strings: PATH=FILE, PATH=FILE:x or PATH->TARGET, for pack.sh",
        "files": "list of Files",
    },
)

def union(*dicts):
    """The entries of all of them."""
    result = {}
    for d in dicts:
        result.update(d)
    return result

def _package_files_impl(ctx):
    entries, files = [], []
    for tree in ctx.attr.trees:
        entries += tree[PackageFilesInfo].entries
        files += tree[PackageFilesInfo].files
    for target, path in ctx.attr.files.items():
        file = target[DefaultInfo].files.to_list()
        if len(file) != 1:
            fail("{} is {} files, expected one".format(target.label, len(file)))
        files += file
        entries.append("{}={}{}".format(path, file[0].path, ":x" if path.split("/")[-2:-1] == ["bin"] else ""))
        if ".so." in path and path.startswith("lib/libsmelt"):
            entries.append("{}->{}".format(path[:path.index(".so.") + 3], path[4:]))
    return [PackageFilesInfo(entries = sorted(entries), files = files), DefaultInfo(files = depset(files))]

_package_files = rule(
    implementation = _package_files_impl,
    attrs = {
        "files": attr.label_keyed_string_dict(allow_files = True),
        "trees": attr.label_list(providers = [PackageFilesInfo]),
    },
)

def package_files(name, files, files_x86_64 = {}, trees = []):
    """The content of packages.

    Args:
      name: of the target.
      files: a path below the prefix -> a target of one file. Those in bin/ are executable; a shared library gets its link.
      files_x86_64: more of them, in packages for x86-64.
      trees: other such contents.
    """
    always = {label: path for path, label in files.items()}
    _package_files(
        name = name,
        files = select({
            "//tools/build:aarch64": always,
            "//conditions:default": union(always, {label: path for path, label in files_x86_64.items()}),
        }),
        trees = trees,
    )

def _cc_headers_impl(ctx):
    """smelt's own headers that `deps` include, as they are included."""
    entries, files = {}, []
    for dep in ctx.attr.deps:
        for header in dep[CcInfo].compilation_context.headers.to_list():
            at = header.path.find("/smelt/")
            if header.owner.workspace_name or at < 0 or "_virtual_includes/" not in header.path:
                continue
            path = "include" + header.path[at:]
            if path not in entries:
                entries[path] = header.path
                files.append(header)
    return [
        PackageFilesInfo(entries = ["{}={}".format(path, entries[path]) for path in sorted(entries)], files = files),
        DefaultInfo(files = depset(files)),
    ]

cc_headers = rule(
    implementation = _cc_headers_impl,
    doc = "The headers that a user of `deps` includes, below include/.",
    attrs = {"deps": attr.label_list(providers = [CcInfo], mandatory = True)},
)

def _pack(ctx, kind, output, how, inputs):
    content = ctx.attr.content[PackageFilesInfo]
    ctx.actions.run(
        executable = ctx.executable._pack,
        arguments = [kind, output.path, how] + content.entries,
        inputs = content.files + inputs,
        outputs = [output],
        mnemonic = "SmeltPack",
        progress_message = "Packing {}".format(output.short_path),
        use_default_shell_env = True,
    )
    return DefaultInfo(files = depset([output]), runfiles = ctx.runfiles(files = [output]))

def _package_tar_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".tar.xz")
    return _pack(ctx, "tar", output, ctx.label.name, [])

def _package_deb_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".deb")
    return _pack(ctx, "deb", output, ctx.file.control.path, [ctx.file.control])

_ATTRS = {
    "content": attr.label(mandatory = True, providers = [PackageFilesInfo]),
    "_pack": attr.label(default = ":pack.sh", allow_single_file = True, executable = True, cfg = "exec"),
}

package_tar = rule(
    implementation = _package_tar_impl,
    doc = "NAME.tar.xz, whose files are in a folder NAME.",
    attrs = _ATTRS,
)

package_deb = rule(
    implementation = _package_deb_impl,
    doc = "NAME.deb, whose files are in /usr. `control` is its control file without Installed-Size.",
    attrs = dict(_ATTRS, control = attr.label(mandatory = True, allow_single_file = True)),
)

def _package_wheel_impl(ctx):
    content = ctx.attr.content[PackageFilesInfo]
    output = ctx.actions.declare_file("smelt-{}-{}.whl".format(ctx.attr.version, ctx.attr.tag))
    entries = list(content.entries)
    for file in ctx.files.modules:
        entries.append("{}={}".format(file.short_path[file.short_path.index("smelt/"):], file.path))
    ctx.actions.run_shell(
        command = "exec python3 \"$@\"",
        arguments = [ctx.file._wheel.path, output.path, ctx.attr.version, ctx.attr.tag] + sorted(entries),
        inputs = content.files + ctx.files.modules + [ctx.file._wheel],
        outputs = [output],
        mnemonic = "SmeltWheel",
        progress_message = "Packing {}".format(output.short_path),
        use_default_shell_env = True,
    )
    return DefaultInfo(files = depset([output]), runfiles = ctx.runfiles(files = [output]))

package_wheel = rule(
    implementation = _package_wheel_impl,
    doc = "smelt-VERSION-TAG.whl of `modules`, whose paths contain smelt/, and `content`, whose paths begin so.",
    attrs = {
        "content": attr.label(mandatory = True, providers = [PackageFilesInfo]),
        "modules": attr.label_list(allow_files = True, mandatory = True),
        "tag": attr.string(mandatory = True),
        "version": attr.string(mandatory = True),
        "_wheel": attr.label(default = ":wheel.py", allow_single_file = True),
    },
)
