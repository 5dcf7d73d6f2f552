// Views, and changes of geometry.
#include <algorithm>

#include "smelt/core/op/infer.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/tools/fuzz/generator_parts.h"

namespace smelt::fuzz_internal {

void Generator::Unpack(ValueId list, const Var& x) {
  // As many outputs as inference finds.
  for (int n = 1; n <= 6; ++n) {
    const NodeId node = g().Append(block_, OpName::Get("prim::ListUnpack"), {list},
                                   std::vector<Type>(static_cast<size_t>(n), Type::Tensor()));
    bool complete = InferNode(g(), node).ok();
    for (ValueId v : g().node(node).outputs) complete = complete && g().value(v).type.tensor().IsComplete();
    if (complete && n == pieces_) {
      for (ValueId v : g().node(node).outputs) AddVar(v, x.argument);
      return;
    }
    g().Erase(node);
  }
}

void Generator::MakeView() {
  const Var x = Pick();
  const int rank = Rank(x);
  const std::vector<int64_t> sizes = Sizes(x), strides = Strides(x);
  const int64_t dim = Dim(x), size = DimSize(x, dim);
  switch (Below(26)) {
    case 0:
    case 1:
    case 2: {
      ValueId index = Int(Chance(15) ? -1 : Below(size));
      if (!counters_.empty() && size >= 3 && Chance(40)) index = AnyOf(counters_);
      View("aten::select.int", x, {Int(dim), index});
      break;
    }
    case 3:
    case 4:
    case 5: {
      const int64_t begin = Below(size + 1);
      ValueId end = Chance(40) ? Int(INT64_MAX) : Int(Chance(30) ? -1 : begin + Below(size + 1 - begin) + 0);
      View("aten::slice.Tensor", x,
           {Int(dim), Chance(10) ? Int(-1 - Below(size)) : Int(begin), end, Int(Chance(25) ? 2 : 1)});
      break;
    }
    case 6:
      View("aten::transpose.int", x, {Int(Dim(x)), Int(Dim(x))});
      break;
    case 7:
      View("aten::t", x, {});
      break;
    case 8: {
      std::vector<int64_t> order(rank);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
      View("aten::permute", x, {Ints(order)});
      break;
    }
    case 9:
      if (rank < 4) View("aten::unsqueeze", x, {Int(Below(rank + 1))});
      break;
    case 10:
      View("aten::squeeze.dim", x, {Int(dim)});
      break;
    case 11: {
      if (!Known(x) || rank > 3) break;
      std::vector<int64_t> to = sizes;
      for (int64_t& s : to) {
        if (s == 1 && Chance(60)) s = 1 + Below(3);
      }
      if (Chance(30)) to.insert(to.begin(), 1 + Below(3));
      View("aten::expand", x, {Ints(to), Constant(false)});
      break;
    }
    case 12:
      if (rank >= 2) View("aten::diagonal", x, {Int(Chance(30) ? Below(3) - 1 : 0), Int(0), Int(1)});
      break;
    case 13:
    case 14: {
      if (!Known(x)) break;
      AsStrided("aten::as_strided", x);
      break;
    }
    case 15:
      if (rank >= 1 && size > 0) {
        const int64_t window = 1 + Below(size);
        View("aten::unfold", x, {Int(dim), Int(window), Int(1 + Below(window + 1))});
      }
      break;
    case 16:
    case 17: {
      if (!Known(x)) break;
      View(Chance(50) ? "aten::view" : "aten::reshape", x, {Ints(OtherShape(sizes))});
      break;
    }
    case 18: {
      const int64_t begin = Below(size);
      View("aten::narrow", x, {Int(dim), Int(begin), Int(Below(size - begin + 1))});
      break;
    }
    case 19:
    case 20: {
      if (rank == 0 || size == 0 || !Known(x)) break;
      std::optional<std::vector<ValueId>> list;
      switch (Below(4)) {
        case 0: {
          const int64_t piece = 1 + Below(size);
          pieces_ = static_cast<int>((size + piece - 1) / piece);
          list = Try("aten::split.Tensor", {x.value, Int(piece), Int(dim)});
          break;
        }
        case 1: {
          const int64_t chunks = 1 + Below(3), piece = (size + chunks - 1) / chunks;
          pieces_ = static_cast<int>((size + piece - 1) / piece);
          list = Try("aten::chunk", {x.value, Int(chunks), Int(dim)});
          break;
        }
        case 2:
          pieces_ = static_cast<int>(size);
          list = Try("aten::unbind.int", {x.value, Int(dim)});
          break;
        default: {
          const int64_t first = Below(size + 1);
          pieces_ = 2;
          list = Try("aten::split_with_sizes", {x.value, Ints({first, size - first}), Int(dim)});
        }
      }
      if (list) Unpack((*list)[0], x);
      break;
    }
    case 21: {
      if (Product(sizes) == 0) break;
      static const std::vector<DType> kTo = {DType::kInt32, DType::kFloat32, DType::kInt16,
                                             DType::kInt64, DType::kUInt8,   DType::kFloat16};
      View("aten::view.dtype", x, {Int(ScalarTypeOf(AnyOf(kTo)))});
      break;
    }
    case 22:
      View(Chance(50) ? "aten::detach" : "aten::alias", x, {});
      break;
    case 23:
      if (IsComplex(DTypeOf(x))) {
        static const std::vector<absl::string_view> kReal = {"aten::real", "aten::imag", "aten::view_as_real"};
        View(AnyOf(kReal), x, {});
      } else if (rank >= 2) {
        View("aten::movedim.int", x, {Int(Below(rank)), Int(Below(rank))});
      }
      break;
    case 24: {
      const Var y = Pick();
      View(Chance(70) ? "aten::expand_as" : "aten::view_as", x, {y.value});
      break;
    }
    default:
      if (Chance(40)) {
        View("aten::contiguous", x, {Int(0)});
      } else if (Chance(50)) {
        View("aten::flatten.using_ints", x, {Int(0), Int(-1)});
      } else {
        View("aten::to.dtype", x, {Int(ScalarTypeOf(DTypeOf(x)))});
      }
  }
}

bool Generator::AsStrided(absl::string_view op, const Var& x) {
  const std::vector<int64_t> sizes = Sizes(x), strides = Strides(x);
  int64_t span = 1;
  for (size_t d = 0; d < sizes.size(); ++d) span += (sizes[d] - 1) * strides[d];
  if (Product(sizes) == 0) return false;
  const bool absolute = x.argument >= 0 && !inside_ &&
                        ItemSize(DTypeOf(x)) <= ItemSize(sample_.call.args[x.argument].dtype) && Chance(40);
  if (absolute) span = kAbsoluteElements;
  std::vector<int64_t> to, steps;
  int64_t left = span - 1;
  for (int d = Below(3); d >= 0; --d) {
    const int64_t step = Chance(5) ? 0 : 1 + Below(4);
    const int64_t n = 1 + (step == 0 ? Below(3) : Below(std::min<int64_t>(left / step, 3) + 1));
    left -= (n - 1) * step;
    to.push_back(n);
    steps.push_back(step);
  }
  return View(op, x, {Ints(to), Ints(steps), absolute ? Int(Below(left + 1)) : Constant(std::monostate())});
}

std::vector<int64_t> Generator::OtherShape(std::vector<int64_t> sizes) {
  const int64_t n = Product(sizes);
  switch (Below(4)) {
    case 0:
      return {n};
    case 1:
      std::shuffle(sizes.begin(), sizes.end(), random_);
      return sizes;
    case 2:
      if (n % 2 == 0 && n > 0) return {2, n / 2};
      return {1, n};
    default:
      if (n > 0 && sizes.size() > 1) {
        const int64_t first = sizes[0];
        return {first, n / first};
      }
      return {-1};
  }
}

void Generator::ChangeGeometry() {
  const Var x = Pick();
  if (x.fixed) return;
  std::optional<std::vector<ValueId>> out;
  int argument = x.argument;
  switch (Below(9)) {
    case 0:
    case 1:
      out = Try("aten::t_", {x.value});
      break;
    case 2:
      out = Try("aten::transpose_", {x.value, Int(Dim(x)), Int(Dim(x))});
      break;
    case 3:
      if (Rank(x) < 3) out = Try("aten::unsqueeze_", {x.value, Int(Below(Rank(x) + 1))});
      break;
    case 4:
      out = Try("aten::squeeze_.dim", {x.value, Int(Dim(x))});
      break;
    case 5: {
      if (!Known(x)) return;
      const size_t before = vars_.size();
      if (!AsStrided("aten::as_strided_", x)) return;
      out = std::vector<ValueId>{vars_.back().value};
      vars_.resize(before);
      break;
    }
    case 6: {
      const Var y = Pick();
      if (y.object == x.object || DTypeOf(x) != DTypeOf(y)) return;
      out = Try("aten::set_.source_Tensor", {x.value, y.value});
      argument = y.argument;
      break;
    }
    default: {
      if (!Known(x) || Product(Sizes(x)) == 0) return;
      std::vector<int64_t> to = OtherShape(Sizes(x));
      if (!to.empty() && to[0] > 1 && Chance(50)) --to[0];
      if (!to.empty() && Chance(15)) to[0] += 1 + Below(3);
      if (Chance(20)) to = {Product(Sizes(x))};
      if (to == std::vector<int64_t>{-1}) return;
      out = Try("aten::resize_", {x.value, Ints(to), Constant(std::monostate())});
    }
  }
  if (!out) return;
  Retire(x.object);
  vars_.push_back({(*out)[0], x.object, argument});
}

void Generator::Retire(int object) {
  vars_.erase(std::remove_if(vars_.begin(), vars_.end(), [&](const Var& v) { return v.object == object; }),
              vars_.end());
}

}  // namespace smelt::fuzz_internal
