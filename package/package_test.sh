#!/usr/bin/env bash
# Checks the contents of the packages, and what they need of a system.
#   package_test.sh LIBSMELT_SO LIBSMELT_A SMELT_H EXPORTS SMELT SMELT_OPT TARBALL RUNTIME_TARBALL PACK
set -euo pipefail
shared=$1 static=$2 header=$3 exports=$4 smelt=$5 smelt_opt=$6 tarball=$7 runtime=$8 pack=$9
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The symbols that others see are those of the header, and exports.txt lists them.
grep -oE '\bsmelt_[a-z0-9_]+\(' "$header" | tr -d '(' | sort -u >"$scratch/header"
nm -D --defined-only "$shared" | awk '{ print $3 }' | sort >"$scratch/shared"
nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | sort -u >"$scratch/static"
sort "$exports" >"$scratch/exports"
for have in header shared static; do
  diff "$scratch/exports" "$scratch/$have" || fail "exports.txt and the symbols of $have differ"
done

# They need the C and C++ runtime and nothing else; the compiler also what is packed beside it.
needs() { readelf -d "$1" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | grep -vxE 'lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.[0-9]+|ld-linux.*' || true; }
[[ -z $(needs "$shared") ]] || fail "libsmelt.so.1 needs $(needs "$shared")"
tar -tf "$tarball" >"$scratch/files"
for program in "$smelt" "$smelt_opt"; do
  for library in $(needs "$program"); do
    grep -q "/lib/smelt/$library\$" "$scratch/files" || fail "$program needs $library, which is not packed"
  done
done

# The compiler's man pages and completions.
for page in man/man1/smelt.1 man/man1/smelt-opt.1 bash-completion/completions/smelt zsh/vendor-completions/_smelt fish/vendor_completions.d/smelt.fish; do
  grep -q "/share/$page\$" "$scratch/files" || fail "share/$page is not packed"
done
tar -xOf "$tarball" --wildcards '*/share/man/man1/smelt.1' >"$scratch/smelt.1"
grep -q '^.SS smelt compile' "$scratch/smelt.1" || fail "smelt.1 is no page about smelt"

# Sizes in bytes, within what the documents state.
at_most() { (($(stat -Lc %s "$1") <= $2)) || fail "$1 has $(stat -Lc %s "$1") bytes, more than $2"; }
at_most "$shared" 4420000
at_most "$smelt" 90000000
at_most "$runtime" 12000000

# The runtime without oneDNN, packed.
mkdir "$scratch/runtime"
tar -xf "$runtime" -C "$scratch/runtime" --strip-components=1
mapfile -t without < <(cd "$scratch/runtime" && find . -type f ! -path './lib/smelt/*' -printf "%P=$scratch/runtime/%P\n")
"$pack" tar "$scratch/without.tar.xz" runtime "${without[@]}"
at_most "$scratch/without.tar.xz" 3000000

# The newest version of glibc and of libstdc++ that they ask for: Debian 12's, 2.36 and gcc 12.
newest() { for f in "$shared" "$smelt"; do objdump -T "$f" | grep -oE "$1_[0-9.]+" | sort -u; done | sort -V | tail -1; }
echo "newest symbols: $(newest GLIBC) $(newest GLIBCXX)"
[[ $(printf 'GLIBC_2.36\n%s\n' "$(newest GLIBC)" | sort -V | tail -1) == GLIBC_2.36 ]] || fail "needs $(newest GLIBC)"

# The same files make the same bytes, at another time and in another place.
echo one >"$scratch/a"
mkdir "$scratch/deeper"
"$pack" tar "$scratch/1.tar.xz" folder "bin/a=$scratch/a:x" "lib/b->a"
touch -d '2001-01-01' "$scratch/a"
(cd "$scratch/deeper" && umask 077 && TZ=Asia/Tokyo "$OLDPWD/$pack" tar "$scratch/2.tar.xz" folder "bin/a=$scratch/a:x" "lib/b->a")
cmp "$scratch/1.tar.xz" "$scratch/2.tar.xz" || fail "a tarball is not the same bytes twice"

((failures == 0)) && echo passed
