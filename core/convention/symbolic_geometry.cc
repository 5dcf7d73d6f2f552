#include "smelt/core/convention/symbolic_geometry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace smelt {
namespace {

std::string List(const std::vector<Expr>& v) {
  return absl::StrCat(
      "[", absl::StrJoin(v, ", ", [](std::string* out, const Expr& e) { absl::StrAppend(out, e.ToString()); }), "]");
}

}  // namespace

std::string ToString(const SymbolicGeometry& g) {
  return absl::StrCat(Name(g.dtype), List(g.sizes), " strides ", List(g.strides), " offset ", g.offset.ToString());
}

}  // namespace smelt
