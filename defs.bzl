"""Rules for BUILD files that use smelt.

  load("@smelt//:defs.bzl", "smelt_bundle", "smelt_run_test")

  smelt_bundle(
      name = "mobilenet",
      model = "mobilenet.pt2",
      targets = ["x86-64-v3"],
  )

  smelt_run_test(
      name = "mobilenet_test",
      bundle = ":mobilenet",
      case = "mobilenet.case.safetensors",
  )
"""

SmeltBundleInfo = provider(
    doc = "A compiled model.",
    fields = {
        "bundle": "File: the bundle, .smb",
        "targets": "list of strings: the machines it was compiled for, as given to the compiler",
    },
)

# Both rules run the command line where actions run. One configuration of it serves both, so it is built once.
_SMELT = attr.label(
    default = Label("//tools:smelt"),
    executable = True,
    cfg = "exec",
)

def _smelt_bundle_impl(ctx):
    bundle = ctx.actions.declare_file(ctx.label.name + ".smb")
    arguments = ctx.actions.args()

    # Long option lists go through a file.
    arguments.use_param_file("@%s")
    arguments.set_param_file_format("multiline")
    arguments.add("compile")
    arguments.add(ctx.file.model)
    arguments.add("-o", bundle)
    arguments.add("--target=" + ",".join(ctx.attr.targets))

    # An action's result depends on its inputs alone: Bazel has caches of its own.
    arguments.add("--cache-mode=off")

    # Bazel runs as many actions as there are cores.
    arguments.add("--threads=1")
    arguments.add_all(ctx.attr.options)
    ctx.actions.run(
        executable = ctx.executable._smelt,
        arguments = [arguments],
        inputs = [ctx.file.model],
        outputs = [bundle],
        mnemonic = "SmeltCompile",
        progress_message = "Compiling model {} for {}".format(ctx.file.model.short_path, ", ".join(ctx.attr.targets)),
    )
    return [
        DefaultInfo(
            files = depset([bundle]),
            runfiles = ctx.runfiles(files = [bundle]),
        ),
        SmeltBundleInfo(bundle = bundle, targets = ctx.attr.targets),
    ]

smelt_bundle = rule(
    implementation = _smelt_bundle_impl,
    doc = "Compiles a model into NAME.smb, a bundle that smelt's runtime maps and runs.",
    attrs = {
        "model": attr.label(
            doc = "What torch.export saved (.pt2), or a graph as text (.ir) or binary (.smg).",
            allow_single_file = [".ir", ".pt2", ".smg"],
            mandatory = True,
        ),
        "options": attr.string_list(doc = "Further arguments of `smelt compile`, such as --verify."),
        "targets": attr.string_list(
            doc = "The machines to compile for; the best that fits is chosen when the bundle is loaded. \"native\" makes the " +
                  "result depend on the machine that builds, which Bazel does not see.",
            allow_empty = False,
            default = ["x86-64-v3", "x86-64-v4"],
        ),
        "_smelt": _SMELT,
    },
)

def _smelt_run_test_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    arguments = [
        ctx.executable._smelt.short_path,
        "run",
        ctx.attr.bundle[SmeltBundleInfo].bundle.short_path,
        "--case=" + ctx.file.case.short_path,
    ] + ctx.attr.options
    ctx.actions.write(
        script,
        "#!/bin/sh\nexec {} \"$@\"\n".format(" ".join(["'{}'".format(a.replace("'", "'\\''")) for a in arguments])),
        is_executable = True,
    )
    runfiles = ctx.runfiles(files = [ctx.attr.bundle[SmeltBundleInfo].bundle, ctx.executable._smelt, ctx.file.case])
    return DefaultInfo(
        executable = script,
        runfiles = runfiles.merge(ctx.attr._smelt[DefaultInfo].default_runfiles),
    )

smelt_run_test = rule(
    implementation = _smelt_run_test_impl,
    doc = "Runs a bundle on recorded arguments and compares with the recorded answers.",
    test = True,
    attrs = {
        "bundle": attr.label(
            doc = "A smelt_bundle.",
            mandatory = True,
            providers = [SmeltBundleInfo],
        ),
        "case": attr.label(
            doc = "The calls, and what PyTorch answered: a case file.",
            allow_single_file = [".safetensors"],
            mandatory = True,
        ),
        "options": attr.string_list(doc = "Further arguments of `smelt run`."),
        "_smelt": _SMELT,
    },
)
