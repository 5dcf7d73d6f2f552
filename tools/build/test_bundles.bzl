"""Bundles for tests, compiled by this configuration's own compiler (defs.bzl builds one for the machine that builds)."""

load(":targets.bzl", "SmeltTargetsInfo")

def _test_bundles_impl(ctx):
    models = {f.basename[:-len(".pt2")]: f for f in ctx.files.models if f.extension == "pt2"}
    bundles = []
    targets = ",".join(ctx.attr._targets[SmeltTargetsInfo].targets)
    schemas = ["--op-schema=" + ",".join([f.path for f in ctx.files.op_schemas])] if ctx.files.op_schemas else []
    for name in ctx.attr.names or sorted(models):
        bundle = ctx.actions.declare_file(ctx.label.name + "/" + name + ".smb")
        ctx.actions.run(
            executable = ctx.executable._smelt,
            arguments = ["compile", models[name].path, "-o", bundle.path, "--target=" + targets, "--cache-mode=off", "--threads=1", "--quiet"] + schemas,
            inputs = [models[name]] + ctx.files.op_schemas,
            outputs = [bundle],
            mnemonic = "SmeltTestBundle",
            progress_message = "Compiling model {} for tests".format(name),
        )
        bundles.append(bundle)
    return DefaultInfo(files = depset(bundles), runfiles = ctx.runfiles(files = bundles))

test_bundles = rule(
    implementation = _test_bundles_impl,
    doc = "Compiles the models called NAMES among the files of MODELS (all, if there are no NAMES) to NAME_OF_RULE/NAME.smb. " +
          "OP_SCHEMAS are schemas of operators of their own.",
    attrs = {
        "models": attr.label_list(allow_files = True, mandatory = True),
        "names": attr.string_list(),
        "op_schemas": attr.label_list(allow_files = True),
        "_targets": attr.label(default = Label("//tools/build:test_targets")),
        "_smelt": attr.label(default = Label("//tools:smelt"), executable = True, cfg = "target"),
    },
)
