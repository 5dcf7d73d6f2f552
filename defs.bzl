"""Rules for BUILD files that use smelt. docs/bazel.md describes them with examples.

  load("@smelt//:defs.bzl", "smelt_bundle", "smelt_cc_library", "smelt_run_test")

  smelt_bundle(
      name = "mobilenet",
      model = "mobilenet.pt2",
      targets = ["x86-64-v3"],
  )

  smelt_cc_library(
      name = "mobilenet_cc",
      bundle = ":mobilenet",
  )

  smelt_run_test(
      name = "mobilenet_test",
      bundle = ":mobilenet",
      case = "mobilenet.case.safetensors",
  )
"""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//tools/build:targets.bzl", "SmeltTargetsInfo")

SmeltBundleInfo = provider(
    doc = "A compiled model.",
    fields = {
        "bundle": "File: the bundle, .smb",
        "stats": "File: what the compilation did, as JSON; the same bytes wherever it is made",
        "targets": "list of strings: the machines it was compiled for, as given to the compiler",
    },
)

_MODEL_FILES = [".ir", ".pt2", ".smg"]

# All rules run the command line where actions run. One configuration of it serves all, so it is built once.
_SMELT = attr.label(
    default = Label("//tools:compiler"),
    executable = True,
    cfg = "exec",
)

_COMPILE_ATTRS = {
    "op_schemas": attr.label_list(
        doc = "The schemas of operators of your own that the model calls: files with one per line, as PyTorch prints them.",
        allow_files = True,
    ),
    "options": attr.string_list(doc = "Further arguments of `smelt compile`, such as --verify."),
    "targets": attr.string_list(
        doc = "The machines to compile for; the best that fits is chosen when the bundle is loaded. \"native\" makes the " +
              "result depend on the machine that builds, which Bazel does not see. Unless given: two levels of the architecture " +
              "that is built for, x86-64-v3 and x86-64-v4, or aarch64 and armv8.6-a.",
    ),
    "_default_targets": attr.label(default = Label("//tools/build:default_targets"), providers = [SmeltTargetsInfo]),
    "_smelt": _SMELT,
}

def _libraries(ctx):
    """What the command line reads of its own when it runs. Runfiles alone would not do: on a remote worker a program has its
    runfiles in a folder of their own, and a prebuilt one looks for its libraries beside itself."""
    return ctx.attr._smelt[DefaultInfo].default_runfiles.files

def _run_smelt(ctx, command, mnemonic, progress_message, inputs, outputs):
    """One run of the command line, its arguments in a params file."""
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s", use_always = True)
    arguments.set_param_file_format("multiline")
    arguments.add_all(command)
    arguments.add("--quiet")  # Bazel shows the output of actions
    ctx.actions.run(
        executable = ctx.executable._smelt,
        arguments = [arguments],
        inputs = inputs,
        tools = _libraries(ctx),
        outputs = outputs,
        mnemonic = mnemonic,
        progress_message = progress_message,
    )

def _targets(ctx):
    return ctx.attr.targets or ctx.attr._default_targets[SmeltTargetsInfo].targets

def _compile_options(ctx):
    # An action's result depends on its inputs alone: Bazel has caches of its own, and runs as many actions as there are cores.
    return ["--target=" + ",".join(_targets(ctx)), "--cache-mode=off", "--threads=1"] + (
        ["--op-schema=" + ",".join([f.path for f in ctx.files.op_schemas])] if ctx.files.op_schemas else []
    ) + ctx.attr.options

def _report(ctx, bundles):
    """The report of these bundles; an action that runs only where its output is asked for."""
    report = ctx.actions.declare_file(ctx.label.name + ".html")
    _run_smelt(
        ctx,
        command = ["report", "-o", report] + bundles,
        mnemonic = "SmeltReport",
        progress_message = "Reporting on {}".format(ctx.label),
        inputs = bundles,
        outputs = [report],
    )
    return report

# --- one model ---

def _smelt_bundle_impl(ctx):
    bundle = ctx.actions.declare_file(ctx.label.name + ".smb")
    stats = ctx.actions.declare_file(ctx.label.name + ".stats.json")
    names = ctx.attr.method_names
    models = [ctx.file.model] if ctx.file.model else ctx.files.method_models
    if names and len(models) != len(names):
        fail("methods: each is one file, {} methods have {}".format(len(names), len(models)))
    given = ["--method={}={}".format(name, file.path) for name, file in zip(names, models)] if names else models
    _run_smelt(
        ctx,
        command = ["compile"] + given + ["-o", bundle, "--stats-file", stats] + _compile_options(ctx),
        mnemonic = "SmeltCompile",
        progress_message = "Compiling model {} for {}".format(", ".join([f.short_path for f in models]), ", ".join(_targets(ctx))),
        inputs = models + ctx.files.op_schemas,
        outputs = [bundle, stats],
    )
    return [
        DefaultInfo(
            files = depset([bundle, stats]),
            runfiles = ctx.runfiles(files = [bundle]),
        ),
        OutputGroupInfo(
            bundle = depset([bundle]),
            report = depset([_report(ctx, [bundle])]),
            stats = depset([stats]),
        ),
        SmeltBundleInfo(bundle = bundle, stats = stats, targets = _targets(ctx)),
    ]

_smelt_bundle = rule(
    implementation = _smelt_bundle_impl,
    doc = "What smelt_bundle makes.",
    attrs = dict(
        _COMPILE_ATTRS,
        method_models = attr.label_list(
            doc = "In place of model: the models of the methods, in the order of method_names.",
            allow_files = _MODEL_FILES,
        ),
        method_names = attr.string_list(),
        model = attr.label(
            doc = "What torch.export saved (.pt2), or a graph as text (.ir) or binary (.smg).",
            allow_single_file = _MODEL_FILES,
        ),
    ),
)

def smelt_bundle(name, model = None, methods = None, **kwargs):
    """Compiles a model into NAME.smb, a bundle that smelt's runtime maps and runs, and NAME.stats.json.

    With --output_groups=report, a page about it, NAME.html.

    Args:
      name: of the rule.
      model: what torch.export saved (.pt2), or a graph as text (.ir) or binary (.smg).
      methods: in place of model, several of them by the names of the methods that they become: {"prefill": "prefill.pt2"}.
        They share weights, buffers and kernels.
      **kwargs: targets, op_schemas, options of the compiler; visibility, tags, testonly...
    """
    if (model == None) == (methods == None):
        fail("smelt_bundle {}: a model or methods expected".format(name))
    if methods != None and not methods:
        fail("smelt_bundle {}: at least one method expected".format(name))
    _smelt_bundle(
        name = name,
        model = model,
        method_models = methods.values() if methods else [],
        method_names = methods.keys() if methods else [],
        **kwargs
    )

# --- many models, equal kernels compiled once ---

def _smelt_bundles_impl(ctx):
    models = {}
    for file in ctx.files.models:
        name = file.basename[:-len(file.extension) - 1]
        if name in models:
            fail("two models are called {}: {} and {}".format(name, models[name].short_path, file.short_path))
        models[name] = file
    options = _compile_options(ctx)

    # The kernels that each model needs.
    plans = []
    for name, model in models.items():
        plan = ctx.actions.declare_file("{}/{}.specs".format(ctx.label.name, name))
        _run_smelt(
            ctx,
            command = ["kernels", "plan", model, "-o", plan] + options,
            mnemonic = "SmeltPlan",
            progress_message = "Planning model {}".format(model.short_path),
            inputs = [model] + ctx.files.op_schemas,
            outputs = [plan],
        )
        plans.append(plan)

    # Each once, in the shard that its key says.
    shards = [ctx.actions.declare_file("{}/shard_{}.specs".format(ctx.label.name, i)) for i in range(ctx.attr.shards)]
    picked = ctx.actions.args()
    picked.use_param_file("@%s", use_always = True)
    picked.set_param_file_format("multiline")
    picked.add_all(["kernels", "pick", "--quiet"])
    picked.add_all(plans)
    picked.add_joined("-o", shards, join_with = ",")
    ctx.actions.run(
        executable = ctx.executable._smelt,
        arguments = [picked],
        inputs = plans,
        tools = _libraries(ctx),
        outputs = shards,
        mnemonic = "SmeltPick",
        progress_message = "Picking the kernels of {}".format(ctx.label),
    )
    archives = []
    for i, shard in enumerate(shards):
        archive = ctx.actions.declare_file("{}/shard_{}.kernels".format(ctx.label.name, i))
        _run_smelt(
            ctx,
            command = ["kernels", "compile", shard, "-o", archive, "--cache-mode=off", "--threads=1"],
            mnemonic = "SmeltKernels",
            progress_message = "Compiling kernels of {}, shard {}".format(ctx.label, i),
            inputs = [shard],
            outputs = [archive],
        )
        archives.append(archive)

    bundles = []
    for name, model in models.items():
        bundle = ctx.actions.declare_file("{}/{}.smb".format(ctx.label.name, name))
        stats = ctx.actions.declare_file("{}/{}.stats.json".format(ctx.label.name, name))
        linked = ctx.actions.args()
        linked.use_param_file("@%s", use_always = True)
        linked.set_param_file_format("multiline")
        linked.add_all(["compile", model, "-o", bundle, "--stats-file", stats, "--quiet"])
        linked.add_all(options)
        linked.add_joined("--kernels", archives, join_with = ",")
        ctx.actions.run(
            executable = ctx.executable._smelt,
            arguments = [linked],
            inputs = [model] + archives + ctx.files.op_schemas,
            tools = _libraries(ctx),
            outputs = [bundle, stats],
            mnemonic = "SmeltLink",
            progress_message = "Linking model {}".format(model.short_path),
        )
        bundles.append(bundle)
    return [
        DefaultInfo(
            files = depset(bundles),
            runfiles = ctx.runfiles(files = bundles),
        ),
        OutputGroupInfo(report = depset([_report(ctx, bundles)])),
    ]

smelt_bundles = rule(
    implementation = _smelt_bundles_impl,
    doc = "Compiles many models into NAME/MODEL.smb each, the same bytes as smelt_bundle makes, but kernels that are equal " +
          "among them are compiled once. With --output_groups=report, a page about all, NAME.html.",
    attrs = dict(
        _COMPILE_ATTRS,
        models = attr.label_list(
            doc = "As smelt_bundle's model, each of another name.",
            allow_files = _MODEL_FILES,
            mandatory = True,
        ),
        shards = attr.int(
            doc = "Into how many actions the distinct kernels are divided, by their keys.",
            default = 16,
        ),
    ),
)

# --- C++ ---

def _smelt_cc_sources_impl(ctx):
    bundle = ctx.attr.bundle[SmeltBundleInfo].bundle
    outputs = [ctx.outputs.header, ctx.outputs.source]
    command = [
        "cc",
        bundle,
        "--namespace=" + ctx.attr.namespace,
        "--include={}/{}".format(ctx.label.package, ctx.outputs.header.basename) if ctx.label.package else "--include=" + ctx.outputs.header.basename,
        "--bundle-path=" + bundle.short_path,
        "--header",
        ctx.outputs.header,
        "--source",
        ctx.outputs.source,
    ]
    if ctx.outputs.object:
        command += ["--object", ctx.outputs.object]
        outputs.append(ctx.outputs.object)
    _run_smelt(
        ctx,
        command = command,
        mnemonic = "SmeltCc",
        progress_message = "Writing C++ for {}".format(bundle.short_path),
        inputs = [bundle],
        outputs = outputs,
    )
    return [DefaultInfo(files = depset(outputs))]

_smelt_cc_sources = rule(
    implementation = _smelt_cc_sources_impl,
    attrs = {
        "bundle": attr.label(mandatory = True, providers = [SmeltBundleInfo]),
        "namespace": attr.string(mandatory = True),
        "header": attr.output(mandatory = True),
        "source": attr.output(mandatory = True),
        "object": attr.output(),
        "_smelt": _SMELT,
    },
)

def smelt_cc_library(name, bundle, namespace = None, embed = True, **kwargs):
    """C++ for one bundle: PACKAGE/NAME.h declares NAMESPACE::Inputs, Outputs, Model and Session, typed for this very model.

    Args:
      name: of the library and its header.
      bundle: a smelt_bundle.
      namespace: what the header declares is in it; name, unless given.
      embed: True links the bundle into the program (up to about 1 GB); False leaves it beside, among the runfiles.
      **kwargs: of the cc_library: visibility, tags, testonly...
    """
    _smelt_cc_sources(
        name = name + "_sources",
        bundle = bundle,
        header = name + ".h",
        namespace = namespace or name,
        object = name + "_bundle.o" if embed else None,
        source = name + ".cc",
        tags = kwargs.get("tags"),
        testonly = kwargs.get("testonly"),
    )
    cc_library(
        name = name,
        srcs = [name + ".cc"] + ([name + "_bundle.o"] if embed else []),
        hdrs = [name + ".h"],
        data = kwargs.pop("data", []) + ([] if embed else [bundle]),
        copts = kwargs.pop("copts", []) + ["-std=c++20"],
        linkstatic = True,
        deps = kwargs.pop("deps", []) + [str(Label("//runtime:typed_api"))],
        **kwargs
    )

# --- tests ---

def _smelt_run_test_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    libraries = ctx.files.op_libraries
    arguments = [
        ctx.executable._smelt.short_path,
        "run",
        ctx.attr.bundle[SmeltBundleInfo].bundle.short_path,
        "--case=" + ctx.file.case.short_path,
    ] + (["--op-library=" + ",".join([f.short_path for f in libraries])] if libraries else []) + ctx.attr.options
    ctx.actions.write(
        script,
        "#!/bin/sh\nexec {} \"$@\"\n".format(" ".join(["'{}'".format(a.replace("'", "'\\''")) for a in arguments])),
        is_executable = True,
    )
    runfiles = ctx.runfiles(
        files = [ctx.attr.bundle[SmeltBundleInfo].bundle, ctx.executable._smelt, ctx.file.case] + libraries,
    )
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
        "op_libraries": attr.label_list(
            doc = "Shared libraries with operators of your own that the model calls.",
            allow_files = [".so"],
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

# --- a compiler that was built elsewhere ---

def _smelt_prebuilt_impl(ctx):
    # Linked where the program looks for what it needs: in ../lib/smelt.
    folder = ctx.label.name + "_files/"
    program = ctx.actions.declare_file(folder + "bin/" + ctx.file.program.basename)
    ctx.actions.symlink(output = program, target_file = ctx.file.program, is_executable = True)
    libraries = []
    for file in ctx.files.libraries:
        library = ctx.actions.declare_file(folder + "lib/smelt/" + file.basename)
        ctx.actions.symlink(output = library, target_file = file)
        libraries.append(library)
    return DefaultInfo(
        executable = program,
        files = depset([program]),
        runfiles = ctx.runfiles(files = libraries),
    )

smelt_prebuilt = rule(
    implementation = _smelt_prebuilt_impl,
    doc = "The compiler of a package, for --@smelt//tools:compiler.",
    attrs = {
        "libraries": attr.label_list(allow_files = True, doc = "lib/smelt/ of the package."),
        "program": attr.label(allow_single_file = True, mandatory = True, doc = "bin/smelt of the package."),
    },
    executable = True,
)
