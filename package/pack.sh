#!/usr/bin/env bash
# Packs files, the same bytes whenever and wherever that is done.
#   pack.sh tar OUTPUT FOLDER ENTRY...      a .tar.xz whose entries are in FOLDER
#   pack.sh deb OUTPUT CONTROL ENTRY...     a Debian package; the entries' prefix is usr, CONTROL lacks Installed-Size
# ENTRY: PATH=FILE a copy, PATH=FILE:x an executable one, PATH->TARGET a symbolic link.
set -euo pipefail
export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=1000000000
kind=$1 output=$2 how=$3
shift 3
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
case $kind in
  tar) root=$tree/$how ;;
  deb) root=$tree/usr ;;
  *) echo "pack.sh: tar or deb expected, not $kind" >&2; exit 2 ;;
esac
umask 022
for entry; do
  if [[ $entry == *'->'* ]]; then
    path=${entry%%->*}
    mkdir -p "$root/$(dirname "$path")"
    ln -s "${entry#*->}" "$root/$path"
    continue
  fi
  path=${entry%%=*} file=${entry#*=} mode=644
  [[ $file != *:x ]] || { file=${file%:x} mode=755; }
  mkdir -p "$root/$(dirname "$path")"
  install -m "$mode" "$file" "$root/$path"
done
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
if [[ $kind == tar ]]; then
  # Most of what is packed is machine code. The filter for it saves more than a higher preset, in a fifth of its time. It is
  # x86-64's: one for AArch64 is too new for many systems.
  tar --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$tree" -cf - "$how" |
    xz --format=xz --threads=1 --x86 --lzma2=preset=1,dict=16MiB -c >"$output"
else
  mkdir "$tree/DEBIAN"
  { cat "$how"; echo "Installed-Size: $(du -sk --apparent-size "$tree/usr" | cut -f1)"; } >"$tree/DEBIAN/control"
  touch -d "@$SOURCE_DATE_EPOCH" "$tree/DEBIAN/control" "$tree/DEBIAN" "$tree"
  dpkg-deb --root-owner-group -Zxz -z1 --threads-max=1 --build "$tree" "$output" >/dev/null
fi
