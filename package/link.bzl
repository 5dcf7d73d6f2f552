"""Programs and libraries that run on other systems: linked with the static archives of what smelt uses.

The build links against Debian's shared libraries, which is quick. What is given away must not need them: these rules take the
same objects, put `-l:libNAME.a` where the build says `-lNAME`, and hide every symbol that is not meant for others.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _tools(ctx):
    """The programs that link, and what they need besides the objects.

    A build for the machine itself uses the system's, with --config=aarch64 they are the toolchain's, with its libraries.
    """
    if ctx.var.get("cross") != "1":
        return struct(cxx = "g++", ar = "ar", nm = "nm", objcopy = "objcopy", strip = "strip", flags = [], files = depset())
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain)
    flags = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = "c++-link-executable",
        variables = cc_common.create_link_variables(feature_configuration = features, cc_toolchain = toolchain),
    )
    return struct(
        cxx = toolchain.compiler_executable.replace("-gcc", "-g++"),
        ar = toolchain.ar_executable,
        nm = toolchain.nm_executable,
        objcopy = toolchain.objcopy_executable,
        strip = toolchain.strip_executable,
        flags = [flag for flag in flags if flag.startswith("-L") or flag.startswith("-Wl,-rpath-link")],
        files = toolchain.all_files,
    )

# Static archives that Debian has of other libraries, by the flag that names the shared one.
_STATIC = ["-lcrypto", "-lz", "-lzstd", "-lbz2"]

def _portable(flag, llvm):
    """The flags that stand for `flag` in a portable link."""
    if flag.startswith("-labsl_") or flag in _STATIC:
        return ["-l:lib{}.a".format(flag[2:])]
    if flag.startswith("-lLLVM-"):
        return llvm
    return [flag]

def _gather(ctx):
    """What `deps` link: files in the order of the link, and flags."""
    files, flags = [], []
    llvm = []
    for linker_input in ctx.attr._llvm[CcInfo].linking_context.linker_inputs.to_list():
        llvm += [_portable(flag, [])[0] for flag in linker_input.user_link_flags]
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).linking_context
    for linker_input in context.linker_inputs.to_list():
        for library in linker_input.libraries:
            archive = library.pic_static_library or library.static_library
            if archive:
                files.append(struct(file = archive, whole = library.alwayslink))
        for flag in linker_input.user_link_flags:
            flags += _portable(flag, llvm)
    return files, flags

def _archives(files):
    """Arguments for these archives, those that are wanted whole as such."""
    arguments = []
    for f in files:
        arguments += ["-Wl,--whole-archive", f.file.path, "-Wl,--no-whole-archive"] if f.whole else [f.file.path]
    return arguments

def _link(ctx, output, arguments, more_inputs = [], wanted = "/dev/null"):
    files, flags = _gather(ctx)
    tools = _tools(ctx)
    params = ctx.actions.declare_file(ctx.label.name + ".params")
    ctx.actions.write(params, "\n".join(
        arguments + tools.flags + ["-o", output.path, "-Wl,--start-group"] + _archives(files) + flags + ["-Wl,--end-group"] + [
            "-Wl,--as-needed",
            "-Wl,--gc-sections",
            "-Wl,-O1",
            "-Wl,-z,relro,-z,now",
            "-Wl,--build-id=none",
            "-fuse-ld=bfd",
            "-s",
        ],
    ) + "\n")
    ctx.actions.run_shell(
        command = "exec {} $(sed 's/^/-Wl,-u,/' {}) @{}".format(tools.cxx, wanted, params.path),
        inputs = depset([params] + more_inputs + [f.file for f in files], transitive = [tools.files]),
        outputs = [output],
        mnemonic = "SmeltPortableLink",
        progress_message = "Linking {}".format(output.short_path),
        use_default_shell_env = True,
    )

_ATTRS = {
    "deps": attr.label_list(providers = [CcInfo], mandatory = True),
    "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    "_llvm": attr.label(default = "@llvm-project//:llvm_static", providers = [CcInfo]),
}

def _portable_binary_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    _link(ctx, output, [
        "-pie",
        # Libraries next to it are only for it. RPATH, unlike RUNPATH, counts for the libraries' own needs too.
        "-Wl,--disable-new-dtags",
        "-Wl,-rpath,$ORIGIN/../lib/smelt",
    ])
    return DefaultInfo(files = depset([output]), executable = output, runfiles = ctx.runfiles(files = [output]))

portable_binary = rule(
    implementation = _portable_binary_impl,
    doc = "A program of `deps`, one of which has main() and alwayslink.",
    attrs = _ATTRS,
    executable = True,
    fragments = ["cpp"],
)

def _portable_shared_library_impl(ctx):
    output = ctx.actions.declare_file(ctx.attr.soname)
    exports = ctx.file.exports
    script = ctx.actions.declare_file(ctx.label.name + ".map")
    ctx.actions.run_shell(
        command = "{{ echo '{{ global:'; sed 's/$/;/' {}; echo 'local: *; }};'; }} >{}".format(exports.path, script.path),
        inputs = [exports],
        outputs = [script],
    )
    _link(ctx, output, [
        "-shared",
        "-Wl,-soname," + ctx.attr.soname,
        "-Wl,--version-script=" + script.path,
        "-Wl,-z,defs",
        # Needs the glibc that the packages need anyway. The linker of Debian 12 has it for x86 alone.
    ] + ([] if ctx.var["TARGET_CPU"] == "aarch64" else ["-Wl,-z,pack-relative-relocs"]), [script, exports], exports.path)
    return DefaultInfo(files = depset([output]), runfiles = ctx.runfiles(files = [output]))

portable_shared_library = rule(
    implementation = _portable_shared_library_impl,
    doc = "A shared library of `deps` that exports the symbols that the file `exports` names, a line each, and no other.",
    attrs = dict(
        _ATTRS,
        exports = attr.label(allow_single_file = True, mandatory = True),
        soname = attr.string(mandatory = True),
    ),
    fragments = ["cpp"],
)

def _portable_archive_impl(ctx):
    output = ctx.actions.declare_file(ctx.attr.archive)
    files, flags = _gather(ctx)
    exports = ctx.file.exports
    static = [flag for flag in flags if flag.startswith("-l:lib")]
    tools = _tools(ctx)
    params = ctx.actions.declare_file(ctx.label.name + ".params")
    ctx.actions.write(params, "\n".join(
        tools.flags + ["-Wl,--start-group"] + _archives(files) + static + ["-Wl,--end-group"],
    ) + "\n")
    ctx.actions.run_shell(
        command = """set -e
object={output}.o
wanted=$(sed 's/^/-Wl,-u,/' {exports})
{cxx} -nostdlib -r -Wl,-d -Wl,--gc-sections -Wl,--build-id=none -o "$object" $wanted @{params}
# A symbol that is unique in the process, such as a static variable of an inline function, can only become a weak
# symbol, and a weak one a local one.
{nm} -g --defined-only "$object" | awk '$2 == "u" {{ print $3 }}' >"$object.unique"
{objcopy} --strip-debug --weaken-symbols="$object.unique" "$object"
{objcopy} --keep-global-symbols={exports} "$object"
rm -f {output}
{ar} rcsD {output} "$object"
rm "$object" "$object.unique"
""".format(
            ar = tools.ar,
            cxx = tools.cxx,
            exports = exports.path,
            nm = tools.nm,
            objcopy = tools.objcopy,
            output = output.path,
            params = params.path,
        ),
        inputs = depset([params, exports] + [f.file for f in files], transitive = [tools.files]),
        outputs = [output],
        mnemonic = "SmeltPortableArchive",
        progress_message = "Linking {}".format(output.short_path),
        use_default_shell_env = True,
    )
    return DefaultInfo(files = depset([output]), runfiles = ctx.runfiles(files = [output]))

portable_archive = rule(
    implementation = _portable_archive_impl,
    doc = "A static library of `deps` whose only global symbols are those that the file `exports` names.",
    attrs = dict(
        _ATTRS,
        archive = attr.string(mandatory = True),
        exports = attr.label(allow_single_file = True, mandatory = True),
    ),
    fragments = ["cpp"],
)

def _merged_archive_impl(ctx):
    output = ctx.actions.declare_file(ctx.attr.archive)
    files = [f.file for f in _gather(ctx)[0] if not f.file.owner.workspace_name]
    tools = _tools(ctx)
    script = ctx.actions.declare_file(ctx.label.name + ".mri")
    ctx.actions.write(script, "\n".join(
        ["CREATE " + output.path] + ["ADDLIB " + f.path for f in files] + ["SAVE", "END"],
    ) + "\n")
    ctx.actions.run_shell(
        command = "{} -MD <{} && {} --strip-debug --enable-deterministic-archives {}".format(
            tools.ar,
            script.path,
            tools.strip,
            output.path,
        ),
        inputs = [script] + files,
        outputs = [output],
        mnemonic = "SmeltMergedArchive",
        progress_message = "Merging {}".format(output.short_path),
        use_default_shell_env = True,
    )
    return DefaultInfo(files = depset([output]), runfiles = ctx.runfiles(files = [output]))

merged_archive = rule(
    implementation = _merged_archive_impl,
    doc = "A static library of what smelt itself has of `deps`. Whoever links it brings Abseil and the other dependencies.",
    attrs = dict(_ATTRS, archive = attr.string(mandatory = True)),
    fragments = ["cpp"],
)

def _portable_library_impl(ctx):
    file = ctx.file.library
    if ctx.var.get("cross") == "1":
        # There may be links to it of other names: the toolchain's files have each name as a file.
        found = [f for f in find_cpp_toolchain(ctx).all_files.to_list() if f.basename == file.basename and "/usr/lib/" in f.path]
        if len(found) != 1:
            fail("the toolchain's libraries have {} files {}, expected one".format(len(found), file.basename))
        file = found[0]
    return DefaultInfo(files = depset([file]))

portable_library = rule(
    implementation = _portable_library_impl,
    doc = "A shared library that packages bring along: the system's, or the toolchain's of the same name for another machine.",
    attrs = {
        "library": attr.label(allow_single_file = True, mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
)
