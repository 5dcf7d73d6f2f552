"""The targets that models are compiled for where nothing else is said: levels of the architecture that is built for."""

SmeltTargetsInfo = provider(
    doc = "Targets of `smelt compile`.",
    fields = {"targets": "list of strings"},
)

def _smelt_targets_impl(ctx):
    return [SmeltTargetsInfo(targets = ctx.attr.targets)]

smelt_targets = rule(
    implementation = _smelt_targets_impl,
    attrs = {"targets": attr.string_list(mandatory = True)},
)
