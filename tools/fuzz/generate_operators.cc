// Operators that write, pure ones, and those whose operands a table describes.
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/check.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/tools/fuzz/generator_parts.h"

namespace smelt::fuzz_internal {

ValueId Generator::Number(const Var& x) {
  if (DTypeOf(x) == DType::kBool) return Int(Below(2));
  if (IsFloating(DTypeOf(x)) && Chance(30)) return Float(Below(9) * 0.5 - 2);
  return Int(DTypeOf(x) == DType::kUInt8 ? Below(4) : Below(7) - 3);
}

std::optional<ValueId> Generator::Mask(const Var& x) {
  if (!Ordered(x)) return std::nullopt;
  auto m = Try("aten::gt.Scalar", {x.value, Int(0)});
  if (!m) return std::nullopt;
  return (*m)[0];
}

std::optional<ValueId> Generator::Indices(int64_t size, int64_t count) {
  if (size <= 0 || count <= 0) return std::nullopt;
  const int64_t step = Chance(70) ? 1 : 2;
  if ((count - 1) * step >= size) return std::nullopt;
  const int64_t begin = Below(size - (count - 1) * step);
  auto i = Try("aten::arange.start_step", {Int(begin), Int(begin + (count - 1) * step + 1), Int(step), Int(4)});
  if (!i) return std::nullopt;
  if (Chance(30)) {
    auto flipped = Try("aten::flip", {(*i)[0], Ints({0})});
    if (flipped) return (*flipped)[0];
  }
  return (*i)[0];
}

void Generator::MakeWrite() {
  const Var x = Pick();
  const std::optional<Var> y = Operand(x, false);
  const bool numeric = Numeric(x);
  const int64_t dim = Rank(x) == 0 ? 0 : Below(Rank(x)), size = DimSize(x, dim);
  switch (Below(30)) {
    case 0:
    case 1:
    case 2:
      if (numeric && y) InPlace("aten::add_.Tensor", x, {y->value, Int(Chance(70) ? 1 : 2)});
      break;
    case 3:
      if (numeric && y && Numeric(*y)) InPlace("aten::sub_.Tensor", x, {y->value, Int(1)});
      break;
    case 4:
    case 5:
    case 6:
    case 7: {
      const Var z = Pick();
      InPlace("aten::copy_", x, {y && Chance(80) ? y->value : z.value, Constant(false)});
      break;
    }
    case 8:
    case 9:
      if (numeric) InPlace("aten::mul_.Scalar", x, {Int(Chance(50) ? 2 : -1)});
      break;
    case 10:
    case 11:
      InPlace("aten::fill_.Scalar", x, {Number(x)});
      break;
    case 12:
      InPlace("aten::zero_", x, {});
      break;
    case 13:
      if (Ordered(x) && numeric) InPlace("aten::relu_", x, {});
      break;
    case 14:
      if (numeric) InPlace("aten::neg_", x, {});
      break;
    case 15:
      if (numeric) InPlace("aten::add_.Scalar", x, {Number(x), Int(1)});
      break;
    case 16:
      if (auto mask = Mask(y && Chance(50) ? *y : x)) InPlace("aten::masked_fill_.Scalar", x, {*mask, Number(x)});
      break;
    case 17: {
      const int64_t count = 1 + Below(2);
      if (auto i = Indices(DimSize(x, 0), count); i && Rank(x) > 0) {
        const std::optional<Var> v = Operand(x, true);
        if (v && Rank(*v) < Rank(x))
          InPlace("aten::index_put_", x, {TensorList({*i}), v->value, Constant(Chance(30) && numeric)});
      }
      break;
    }
    case 18:
      if (Rank(x) > 0) {
        if (auto i = Indices(size, 1 + Below(2))) InPlace("aten::index_fill_.int_Scalar", x, {Int(dim), *i, Number(x)});
      }
      break;
    case 19: {
      const Var v = Pick();
      if (Rank(x) > 0 && Rank(v) == Rank(x) && DTypeOf(v) == DTypeOf(x)) {
        if (auto i = Indices(size, DimSize(v, dim))) {
          if (Chance(50) && numeric) {
            InPlace("aten::index_add_", x, {Int(dim), *i, v.value, Int(1)});
          } else {
            InPlace("aten::index_copy_", x, {Int(dim), *i, v.value});
          }
        }
      }
      break;
    }
    case 20:
      if (Rank(x) >= 2) InPlace(Chance(50) ? "aten::tril_" : "aten::triu_", x, {Int(Below(3) - 1)});
      break;
    case 21:
      if (numeric && y) {
        const std::optional<Var> z = Operand(x, true);
        if (z && *TypeOf(*z).sizes == *TypeOf(x).sizes) Out("aten::add.out", x, {z->value, y->value, Int(1)});
      }
      break;
    case 22:
      if (const std::optional<Var> z = Operand(x, true); z && numeric && *TypeOf(*z).sizes == *TypeOf(x).sizes)
        Out("aten::neg.out", x, {z->value});
      break;
    case 23:
      if (y && numeric && Ordered(x)) {
        if (auto clamped = Try("aten::clamp", {y->value, Int(-1), Int(1)}))
          InPlace("aten::mul_.Tensor", x, {(*clamped)[0]});
      }
      break;
    case 24: {
      std::vector<ValueId> many = {x.value};
      for (const Var& v : vars_) {
        if (v.object != x.object && DTypeOf(v) == DTypeOf(x) && many.size() < 3 && Chance(30)) many.push_back(v.value);
      }
      if (numeric) Try("aten::_foreach_add_.Scalar", {TensorList(many), Int(1)});
      break;
    }
    case 25:
      if (numeric && Ordered(x)) InPlace("aten::clamp_", x, {Int(-1), Int(2)});
      break;
    case 26:
      if (y && Chance(50)) {
        if (auto mask = Mask(x)) InPlace("aten::masked_scatter_", x, {*mask, x.value});
      } else if (Ordered(x)) {
        InPlace(Chance(50) ? "aten::gt_.Scalar" : "aten::eq_.Scalar", x, {Int(0)});
      }
      break;
    case 27:
      if (numeric && Rank(x) > 0) InPlace("aten::cumsum_", x, {Int(dim)});
      break;
    case 28:
      InPlace(Chance(50) || !numeric || !Ordered(x) ? "aten::logical_not_" : "aten::abs_", x, {});
      break;
    default: {
      const Var z = Pick();
      if (numeric && Ordered(x) && DTypeOf(z) == DTypeOf(x) && Rank(z) > 0 && IsFloating(DTypeOf(x)))
        Out("aten::sum.IntList_out", x,
            {z.value, Ints({Below(Rank(z))}), Constant(Chance(50)), Constant(std::monostate())});
    }
  }
}

void Generator::MakePure() {
  const Var x = Pick();
  const std::optional<Var> y = Operand(x, false);
  const bool numeric = Numeric(x);
  const int64_t dim = Rank(x) == 0 ? 0 : Below(Rank(x)), size = DimSize(x, dim);
  switch (Below(30)) {
    case 0:
    case 1:
      if (Ordered(x) && numeric) Pure("aten::relu", {x.value});
      break;
    case 2:
      if (numeric) Pure("aten::neg", {x.value});
      break;
    case 3:
    case 4:
    case 5:
      if (y) Pure("aten::add.Tensor", {x.value, y->value, Int(1)});
      break;
    case 6:
      if (y && numeric && Numeric(*y)) Pure("aten::sub.Tensor", {x.value, y->value, Int(1)});
      break;
    case 7:
      if (numeric) Pure("aten::mul.Scalar", {x.value, Int(2)});
      break;
    case 8:
    case 9:
    case 10:
      Pure("aten::clone", {x.value, Chance(70) ? Constant(std::monostate()) : Int(0)});
      break;
    case 11:
      if (Rank(x) > 0)
        Pure("aten::sum.dim_IntList", {x.value, Ints({dim}), Constant(Chance(50)), Constant(std::monostate())});
      break;
    case 12:
      Pure("aten::sum", {x.value, Constant(std::monostate())});
      break;
    case 13:
      if (Rank(x) > 0 && Ordered(x) && size > 0) Pure("aten::amax", {x.value, Ints({dim}), Constant(Chance(50))});
      break;
    case 14: {
      const Var z = Pick();
      if (DTypeOf(z) == DTypeOf(x) && Rank(x) > 0) Pure("aten::cat", {TensorList({x.value, z.value}), Int(dim)});
      break;
    }
    case 15: {
      const Var z = Pick();
      if (Sizes(z) == Sizes(x) && Rank(x) < 3) Pure("aten::stack", {TensorList({x.value, z.value}), Int(0)});
      break;
    }
    case 16:
      if (y) {
        if (auto mask = Mask(x)) Pure("aten::where.self", {*mask, x.value, y->value});
      }
      break;
    case 17: {
      static const std::vector<DType> kTo = {DType::kFloat32, DType::kInt64, DType::kFloat64, DType::kBool,
                                             DType::kFloat16};
      if (Ordered(x)) Pure("aten::_to_copy", {x.value, Int(ScalarTypeOf(AnyOf(kTo)))});
      break;
    }
    case 18: {
      const Var z = Pick();
      if (DTypeOf(x) == DType::kFloat32 && DTypeOf(z) == DTypeOf(x) && Rank(x) > 0 && Rank(z) > 0)
        Pure("aten::matmul", {x.value, z.value});
      break;
    }
    case 19:
      if (Rank(x) > 0 && IsFloating(DTypeOf(x))) Pure("aten::softmax.int", {x.value, Int(dim)});
      break;
    case 20:
      if (IsFloating(DTypeOf(x))) Pure(Chance(50) ? "aten::sigmoid" : "aten::tanh", {x.value});
      break;
    case 21:
      if (Rank(x) > 0) {
        if (auto i = Indices(size, 1 + Below(2))) Pure("aten::index_select", {x.value, Int(dim), *i});
      }
      break;
    case 22:
      if (Rank(x) > 0) Pure("aten::flip", {x.value, Ints({dim})});
      break;
    case 23:
      if (Rank(x) > 0) Pure("aten::roll", {x.value, Ints({1}), Ints({dim})});
      break;
    case 24:
      if (Rank(x) > 0 && numeric) Pure("aten::cumsum", {x.value, Int(dim)});
      break;
    case 25:
      Pure(Chance(50) ? "aten::zeros_like" : "aten::ones_like", {x.value});
      break;
    case 26: {
      const Var z = Pick();
      if (Rank(x) > 0 && Rank(z) == Rank(x) && DTypeOf(z) == DTypeOf(x)) {
        const int64_t n = DimSize(z, dim);
        if (n <= size) Pure("aten::slice_scatter", {x.value, z.value, Int(dim), Int(0), Int(n), Int(1)});
      }
      break;
    }
    case 27:
      if (y && Ordered(x)) Pure(Chance(50) ? "aten::maximum" : "aten::minimum", {x.value, y->value});
      break;
    case 28:
      if (Rank(x) > 0 && Known(x)) Pure("aten::constant_pad_nd", {x.value, Ints({1, 1}), Int(0)});
      break;
    default:
      if (Rank(x) >= 1) {
        if (auto i = Indices(DimSize(x, 0), 1 + Below(2))) Pure("aten::index.Tensor", {x.value, TensorList({*i})});
      }
  }
}

bool Generator::Fits(const Var& x, Takes takes) {
  const DType t = DTypeOf(x);
  switch (takes) {
    case Takes::kAnything:
      return true;
    case Takes::kNumbers:
      return t != DType::kBool;
    case Takes::kOrdered:
      return t != DType::kBool && !IsComplex(t);
    case Takes::kFloats:
      return t == DType::kFloat32 || t == DType::kFloat64;
    case Takes::kInts:
      return IsIntegral(t) && t != DType::kBool;
  }
  return false;
}

std::optional<ValueId> Generator::Places(const Var& x, int64_t dim, int64_t size, bool distinct) {
  if (size <= 0 || !Ordered(x) || !Known(x)) return std::nullopt;
  std::vector<int64_t> sizes = Sizes(x);
  std::optional<std::vector<ValueId>> places;
  if (distinct) {
    places = Try("aten::arange", {Int(size), Int(ScalarTypeOf(DType::kInt64))});
    std::vector<int64_t> along(sizes.size(), 1);
    if (!along.empty()) along[dim] = size;
    if (places && Chance(50)) places = Try("aten::flip", {(*places)[0], Ints({0})});
    if (places) places = Try("aten::view", {(*places)[0], Ints(along)});
    if (places) places = Try("aten::expand", {(*places)[0], Ints(sizes), Constant(false)});
  } else {
    places = Try("aten::sign", {x.value});
    if (places) places = Try("aten::_to_copy", {(*places)[0], Int(ScalarTypeOf(DType::kInt64))});
    if (places) places = Try("aten::remainder.Scalar", {(*places)[0], Int(size)});
  }
  if (!places) return std::nullopt;
  return (*places)[0];
}

std::optional<Var> Generator::OfDTypeAs(const Var& x, bool same_sizes) {
  std::vector<Var> fit;
  for (const Var& v : vars_) {
    if (DTypeOf(v) == DTypeOf(x) && (!same_sizes || *TypeOf(v).sizes == *TypeOf(x).sizes)) fit.push_back(v);
  }
  if (fit.empty()) return std::nullopt;
  return AnyOf(fit);
}

std::optional<ValueId> Generator::ListLike(const Var& x, bool first) {
  std::vector<ValueId> many;
  if (first) many.push_back(x.value);
  for (size_t k = many.size(); k < 2; ++k) {
    const std::optional<Var> v = OfDTypeAs(x, true);
    if (!v || (first && v->object == x.object)) return std::nullopt;
    many.push_back(v->value);
  }
  return TensorList(many);
}

std::optional<ValueId> Generator::ArgumentOf(const Var& x, absl::string_view word, int64_t dim) {
  const auto value = [](const std::optional<Var>& v) { return v ? std::optional<ValueId>(v->value) : std::nullopt; };
  if (word == "x") return x.value;
  if (word == "y") return value(Operand(x, false));
  if (word == "Y") return value(OfDTypeAs(x, true));
  if (word == "z") return value(OfDTypeAs(x, false));
  if (word == "t") {
    std::vector<Var> fit;
    for (const Var& v : vars_) {
      if (Rank(v) == 0 && DTypeOf(v) == DTypeOf(x)) fit.push_back(v);
    }
    return fit.empty() ? std::nullopt : std::optional<ValueId>(AnyOf(fit).value);
  }
  if (word == "i") return Places(x, dim, DimSize(x, dim), false);
  if (word == "j") return Places(x, dim, DimSize(x, dim), true);
  if (word == "p") return Known(x) ? Places(x, dim, Product(Sizes(x)), false) : std::nullopt;
  if (word == "m") return Mask(x);
  if (word == "d") return Int(dim);
  if (word == "e") return Int(Dim(x));
  if (word == "ds") return Ints({dim});
  if (word == "n") return Number(x);
  if (word == "N") return Chance(50) || DTypeOf(x) == DType::kUInt8 ? Int(2) : Int(-3);
  if (word == "_") return Constant(std::monostate());
  if (word == "Z") return ListLike(x, true);
  if (word == "W") return ListLike(x, false);
  if (word == "true" || word == "false") return Constant(word == "true");
  if (word.front() == '"') return Constant(std::string(word.substr(1, word.size() - 2)));
  if (word.front() == '[') {
    std::vector<int64_t> list;
    for (absl::string_view s : absl::StrSplit(word.substr(1, word.size() - 2), ',')) {
      int64_t v = 0;
      SMELT_CHECK(absl::SimpleAtoi(s, &v)) << word;
      list.push_back(v);
    }
    return Ints(std::move(list));
  }
  if (int64_t i = 0; absl::SimpleAtoi(word, &i)) return Int(i);
  double d = 0;
  SMELT_CHECK(absl::SimpleAtod(word, &d)) << word;
  return Float(d);
}

void Generator::MakeMore() {
  const OperatorCall& call = AnyOf(MoreOperators());
  const Var x = Pick();
  if (!Fits(x, call.takes)) return;
  const int64_t dim = Rank(x) == 0 ? 0 : Below(Rank(x));
  std::vector<ValueId> inputs;
  for (absl::string_view word : absl::StrSplit(absl::StrReplaceAll(call.arguments, {{", ", ","}}), ' ')) {
    const std::optional<ValueId> v = ArgumentOf(x, word, dim);
    if (!v) return;
    inputs.push_back(*v);
  }
  const OpName op = OpName::Get(call.op);
  const auto out = Try(call.op, std::move(inputs));
  if (!out || absl::EndsWith(op.name(), "_")) return;
  for (ValueId v : *out) {
    if (g().value(v).type.IsTensor()) AddVar(v, GetOpInfo(op).kind == OpKind::kView ? x.argument : -1);
  }
}

}  // namespace smelt::fuzz_internal
