"""A C++ library of which others see only some headers.

Every header in the dependencies of a cc_library is an input of whatever is compiled against it. So a change to a header
that only the library itself includes would compile all of its users again.
"""

def _hide_implementation_impl(ctx):
    return [
        DefaultInfo(files = ctx.attr.implementation[DefaultInfo].files),
        CcInfo(
            compilation_context = ctx.attr.interface[CcInfo].compilation_context,
            linking_context = ctx.attr.implementation[CcInfo].linking_context,
        ),
    ]

hide_implementation = rule(
    doc = "Compiles users against `interface`, and links them with `implementation`, which depends on `interface`.",
    implementation = _hide_implementation_impl,
    attrs = {
        "implementation": attr.label(mandatory = True, providers = [CcInfo]),
        "interface": attr.label(mandatory = True, providers = [CcInfo]),
    },
    provides = [CcInfo],
)
