"""flatbuffer_cc_library, with the arguments of upstream's rule of that name."""

load("@rules_cc//cc:defs.bzl", "cc_library")

# The functions of the object API, from the first that makes an object of a table to those of the root type. The compiler needs
# more than a second for them in each file that includes them.
_OBJECT_API = r"/^inline [A-Za-z]* \*[A-Za-z]*::UnPack(/,/^inline const .* \*Get[A-Z]/"
_ROOT = r"/^inline const .* \*Get[A-Z]/"

def flatbuffer_cc_library(
        name,
        srcs,
        includes = [],
        flatc_args = ["--gen-object-api", "--scoped-enums"],
        visibility = ["//visibility:private"],
        **kwargs):
    """Generates FILE_generated.h of each FILE.fbs; included as "smelt/<package>/FILE_generated.h".

    The object API's functions are in FILE_generated.cc, where flatc has them in the header.

    Args:
      srcs: schemas of this package.
      includes: schemas that those include.
      flatc_args: replaces the default flags of the generator.
    """
    names = [src[:-len(".fbs")] + "_generated" for src in srcs]
    headers = [name + ".h" for name in names]
    sources = [name + ".cc" for name in names]
    split = ["""
        file=$(RULEDIR)/{name}
        (echo '#include "smelt/{package}/{name}.h"'
         sed -n '/^namespace /p' $$file.h
         sed -n '{api}{{{root}!s/^inline //;{root}!p}}' $$file.h
         sed -n '/^}}  .. namespace/p' $$file.h) >$$file.cc
        sed -i '{api}{{{root}!d}}' $$file.h
    """.format(api = _OBJECT_API, name = name, package = native.package_name(), root = _ROOT) for name in names]
    native.genrule(
        name = name + "_srcs",
        srcs = srcs + includes,
        outs = headers + sources,
        cmd = "$(location @com_github_google_flatbuffers//:flatc) --cpp {} -o $(RULEDIR) {}".format(
            " ".join(flatc_args),
            " ".join(["$(location {})".format(src) for src in srcs]),
        ) + "".join(split),
        message = "Generating C++ of the schema",
        tools = ["@com_github_google_flatbuffers//:flatc"],
    )
    cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        include_prefix = "smelt/" + native.package_name(),
        visibility = visibility,
        deps = ["@com_github_google_flatbuffers//:runtime_cc"],
        **kwargs
    )
