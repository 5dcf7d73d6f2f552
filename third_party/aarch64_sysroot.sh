#!/usr/bin/env bash
# Unpacks Debian's packages for arm64, and all that they depend on, into a folder.
#
#   aarch64_sysroot.sh [--programs] CACHE FOLDER PACKAGE...
#
# By default the folder is one to compile and link with. With --programs it is a root in which programs run.
#
# apt downloads into CACHE, with a state of its own, in which nothing is installed; its sources are this system's. The folder is
# laid out as Debian is now: /lib is a link to /usr/lib.
set -euo pipefail
left_out=(--exclude=./usr/share --exclude=./var --exclude=./etc)
if [[ $1 == --programs ]]; then
  shift
else
  left_out+=('--exclude=./usr/*bin' '--exclude=*/python3*')
fi
cache=$1 folder=$2
shift 2

mkdir -p "$cache/lists/partial" "$cache/archives/partial"
: >"$cache/status"
# Two repositories may be made at a time.
exec {lock}>"$cache/lock"
flock "$lock"
apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= -o Debug::NoLocking=1 \
    -o Dir::State="$cache" -o Dir::State::status="$cache/status" -o Dir::Cache="$cache" "$@"
}
# A source that has nothing for arm64 is no reason to stop: a package that is missed is.
apt update || true
apt --download-only --no-install-recommends -y -o APT::Keep-Downloaded-Packages=true install "$@"

rm -rf "$folder"
mkdir -p "$folder/usr/lib"
ln -s usr/lib "$folder/lib"
apt -s --no-install-recommends install "$@" | sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1_\2/p' | while read -r package; do
  # The cross compiler has a C library to compile and link with; this one's linker scripts name files of the system.
  [[ $package != libc6-dev_* ]] || continue
  # In a file's name, apt writes the colon of a version as %3a.
  for file in "$cache/archives/${package//:/%3a}"_{arm64,all}.deb; do
    [[ ! -e $file ]] || dpkg-deb --fsys-tarfile "$file" | tar -x --keep-directory-symlink --no-same-owner -C "$folder" --wildcards "${left_out[@]}"
  done
done
