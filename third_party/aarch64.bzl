"""@aarch64_linux_gnu: all that --config=aarch64 needs to build for AArch64 on x86-64, and to run what was built in an emulator.

The compiler is Debian's g++-12-aarch64-linux-gnu, which has a C library of its own. The other libraries are Debian's packages for
arm64: apt downloads them into a folder of its own, and they are unpacked in this repository, so the system itself stays as it is.
Downloaded packages are kept in $XDG_CACHE_HOME/smelt/arm64 (~/.cache/smelt/arm64). Actions of a build use no network.
"""

# What smelt links or opens; apt adds what they need.
_PACKAGES = [
    "libabsl-dev",
    "libbenchmark-dev",
    "libcurl4-openssl-dev",
    "libdnnl-dev",
    "libflatbuffers-dev",
    "liblld-22-dev",
    "libsimdjson-dev",
    "libssl-dev",
    "libstdc++6",
    "libzip-dev",
    "llvm-22-dev",
    "zlib1g-dev",
]

_COMPILER = "g++-12-aarch64-linux-gnu"

def _aarch64_linux_gnu_impl(ctx):
    if not ctx.which("aarch64-linux-gnu-g++-12"):
        fail("@{}: apt-get install {}".format(ctx.name, _COMPILER))
    env = ctx.os.environ
    cache = env.get("XDG_CACHE_HOME") or env.get("HOME", "/var/tmp") + "/.cache"
    result = ctx.execute(
        ["bash", ctx.path(Label("//third_party:aarch64_sysroot.sh")), cache + "/smelt/arm64", "sysroot"] + _PACKAGES,
        timeout = 1800,
    )
    if result.return_code:
        fail("@{}: no packages for arm64:\n{}{}".format(ctx.name, result.stdout, result.stderr))
    ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name))
    ctx.template("emulator.sh", Label("//third_party:aarch64_emulator.sh"), executable = True)
    ctx.template("BUILD.bazel", Label("//third_party:aarch64.BUILD"), {"{root}": "external/" + ctx.name + "/sysroot"})

aarch64_linux_gnu = repository_rule(
    implementation = _aarch64_linux_gnu_impl,
    environ = ["HOME", "XDG_CACHE_HOME"],
)
