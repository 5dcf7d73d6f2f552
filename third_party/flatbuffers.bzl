"""flatbuffer_cc_library, with the arguments of upstream's rule of that name."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def flatbuffer_cc_library(
        name,
        srcs,
        includes = [],
        flatc_args = ["--gen-object-api", "--scoped-enums"],
        visibility = ["//visibility:private"],
        **kwargs):
    """Generates FILE_generated.h of each FILE.fbs; included as "smelt/<package>/FILE_generated.h".

    Args:
      srcs: schemas of this package.
      includes: schemas that those include.
      flatc_args: replaces the default flags of the generator.
    """
    outs = [src[:-len(".fbs")] + "_generated.h" for src in srcs]
    native.genrule(
        name = name + "_srcs",
        srcs = srcs + includes,
        outs = outs,
        cmd = "$(location @com_github_google_flatbuffers//:flatc) --cpp {} -o $(RULEDIR) {}".format(
            " ".join(flatc_args),
            " ".join(["$(location {})".format(src) for src in srcs]),
        ),
        message = "Generating C++ of the schema",
        tools = ["@com_github_google_flatbuffers//:flatc"],
    )
    cc_library(
        name = name,
        hdrs = outs,
        include_prefix = "smelt/" + native.package_name(),
        visibility = visibility,
        deps = ["@com_github_google_flatbuffers//:runtime_cc"],
        **kwargs
    )
