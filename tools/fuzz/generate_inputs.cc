// The arguments and weights of a random program, and the memory of the call.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/float8.h"
#include "smelt/tools/fuzz/generator_parts.h"

namespace smelt::fuzz_internal {

DType Generator::RandomDType() {
  static const std::vector<DType> kMany = {
      DType::kFloat32,  DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kFloat32,   DType::kFloat32,
      DType::kFloat32,  DType::kInt64,   DType::kInt64,   DType::kInt32,   DType::kFloat64,   DType::kFloat16,
      DType::kBFloat16, DType::kInt8,    DType::kUInt8,   DType::kBool,    DType::kComplex64, DType::kInt16};
  return AnyOf(kMany);
}

std::vector<int64_t> Generator::RandomShape() {
  std::vector<int64_t> sizes;
  const int rank = Chance(8) ? 0 : 1 + Below(3);
  for (int d = 0; d < rank; ++d) sizes.push_back(Chance(2) ? 0 : 1 + Below(4));
  return sizes;
}

std::vector<int64_t> Generator::RandomStrides(const std::vector<int64_t>& sizes) {
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (Chance(20)) std::shuffle(order.begin(), order.end(), random_);
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = Chance(12) ? 2 : 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = stride;
    stride *= std::max<int64_t>(1, sizes[order[k]]);
    if (Chance(8)) stride += 1 + Below(2);
  }
  if (!sizes.empty() && Chance(4)) strides[Below(sizes.size())] = 0;
  if (!sizes.empty() && Chance(3)) strides[Below(sizes.size())] = 1;
  return strides;
}

void Generator::MakeInputs() {
  const DType main = RandomDType();
  const std::vector<int64_t> shape = RandomShape();
  const int tensors = 1 + Below(4);
  const bool symbolic = options_.symbolic_sizes && !shape.empty() && Chance(12);
  if (symbolic) {
    SymbolRanges::Range range;
    range.min = 2;
    range.max = 64;
    range.hint = 4;
    g().symbols.Set("s0", range);
    g().symbol_hints["s0"] = 4;
    symbol_values_["s0"] = 2 + Below(4);
  }
  for (int i = 0; i < tensors; ++i) {
    std::vector<int64_t> sizes = shape;
    if (Chance(30) && !sizes.empty()) {
      switch (Below(4)) {
        case 0:
          sizes.erase(sizes.begin());
          break;
        case 1:
          sizes[Below(sizes.size())] = 1;
          break;
        case 2:
          std::shuffle(sizes.begin(), sizes.end(), random_);
          break;
        default:
          sizes = RandomShape();
      }
    }
    const DType dtype = Chance(80) ? main : RandomDType();
    CallArg a;
    a.dtype = dtype;
    TensorType t;
    t.dtype = dtype;
    if (symbolic && Chance(70) && !sizes.empty() && sizes == shape) {
      // One size is a symbol; the tensor is contiguous.
      const int d = Below(sizes.size());
      t.sizes = std::vector<Expr>(sizes.begin(), sizes.end());
      (*t.sizes)[d] = Expr::Symbol("s0");
      t.strides = ContiguousStrides(*t.sizes);
      a.geometry.sizes = All(*t.sizes);
      a.geometry.strides = All(*t.strides);
    } else {
      a.geometry.sizes = sizes;
      a.geometry.strides = RandomStrides(sizes);
      t.sizes = std::vector<Expr>(sizes.begin(), sizes.end());
      t.strides = std::vector<Expr>(a.geometry.strides.begin(), a.geometry.strides.end());
    }
    const ValueId v = g().AddInput(absl::StrCat("x", i), Type::Tensor(t));
    vars_.push_back({v, next_object_++, static_cast<int>(sample_.call.args.size())});
    sample_.call.args.push_back(std::move(a));
  }
  if (Chance(40)) {
    ints_.push_back(g().AddInput("n", Type::Int()));
    CallArg n;
    n.number = Datum(int64_t{Below(4)});
    sample_.call.args.push_back(n);
  }
  for (const char* name : {"c", "d"}) {
    if (!Chance(40)) continue;
    bools_.push_back(g().AddInput(name, Type::Bool()));
    CallArg b;
    b.number = Datum(Chance(50));
    sample_.call.args.push_back(b);
  }
  if (options_.weights && Chance(15)) MakeWeights(main, shape);
}

void Generator::MakeWeights(DType dtype, const std::vector<int64_t>& shape) {
  const int storages = 1 + Below(2);
  for (int s = 0; s < storages; ++s) {
    const int sharing = Chance(30) ? 2 : 1;
    int64_t elements = 0;
    for (int k = 0; k < sharing; ++k) {
      Weight w;
      w.name = absl::StrCat("w", g().weights.size());
      w.kind = Weight::Kind::kBuffer;
      w.storage = s;
      w.dtype = dtype;
      w.geometry = Geometry::Contiguous(shape, sharing == 2 ? Below(3) : 0);
      elements = std::max({elements, w.geometry.Span().second, int64_t{1}});
      InputInfo info;
      info.kind = InputInfo::Kind::kWeight;
      info.weight = static_cast<int>(g().weights.size());
      const ValueId v =
          g().AddInput(w.name,
                       Type::Tensor(dtype, std::vector<Expr>(shape.begin(), shape.end()),
                                    std::vector<Expr>(w.geometry.strides.begin(), w.geometry.strides.end())),
                       info);
      g().weights.push_back(std::move(w));
      vars_.push_back({v, next_object_++, -1});
    }
    const std::string bytes = RandomBytes(dtype, elements);
    std::shared_ptr<Storage> storage = Storage::Allocate(static_cast<int64_t>(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), storage->data());
    g().weight_storages.push_back(std::move(storage));
  }
}

std::string Generator::RandomBytes(DType dtype, int64_t elements) {
  std::string out;
  auto put = [&](auto x) { out.append(reinterpret_cast<const char*>(&x), sizeof x); };
  for (int64_t i = 0; i < elements * (IsComplex(dtype) ? 2 : 1); ++i) {
    const int v = Below(7) - 3;
    const double half = v + (Chance(20) ? 0.5 : 0);
    switch (dtype) {
      case DType::kBool:
        put(static_cast<uint8_t>(v & 1));
        break;
      case DType::kUInt8:
        put(static_cast<uint8_t>(v + 3));
        break;
      case DType::kInt8:
        put(static_cast<int8_t>(v));
        break;
      case DType::kInt16:
        put(static_cast<int16_t>(v));
        break;
      case DType::kInt32:
        put(int32_t{v});
        break;
      case DType::kInt64:
        put(int64_t{v});
        break;
      case DType::kFloat16:
        put(FloatToHalf(static_cast<float>(half)));
        break;
      case DType::kBFloat16:
        put(FloatToBFloat16(static_cast<float>(half)));
        break;
      case DType::kFloat8E4M3FN:
      case DType::kFloat8E5M2:
        put(FloatToFloat8(dtype, static_cast<float>(half)));
        break;
      case DType::kFloat32:
      case DType::kComplex64:
        put(static_cast<float>(half));
        break;
      case DType::kFloat64:
      case DType::kComplex128:
        put(half);
        break;
    }
  }
  return out;
}

void Generator::MakeStorages() {
  std::vector<CallArg>& args = sample_.call.args;
  const int pattern = Below(100);
  std::vector<int64_t> elements;
  for (size_t i = 0; i < args.size(); ++i) {
    CallArg& a = args[i];
    if (!a.number.IsNone()) continue;
    std::vector<int> same, others;
    for (size_t k = 0; k < i; ++k) {
      if (args[k].storage < 0 || args[k].dtype != a.dtype) continue;
      others.push_back(static_cast<int>(k));
      if (args[k].geometry.sizes == a.geometry.sizes && args[k].geometry.strides == a.geometry.strides)
        same.push_back(static_cast<int>(k));
    }
    if (pattern >= 45 && pattern < 65 && !same.empty() && Chance(70)) {
      const int k = AnyOf(same);
      a = args[k];
      if (!Chance(15)) a.same_as = args[k].same_as >= 0 ? args[k].same_as : k;  // else another tensor, same memory
      continue;
    }
    if (pattern >= 60 && !others.empty() && Chance(70)) {
      const CallArg& other = args[AnyOf(others)];
      a.storage = other.storage;
      a.geometry.offset = Below(pattern < 90 ? 5 : 14);
    } else {
      a.storage = static_cast<int>(elements.size());
      elements.push_back(kAbsoluteElements);
      sample_.call.storages.push_back({a.dtype, ""});
      a.geometry.offset = Chance(70) ? 0 : Below(4);
    }
    // Strides other than at export, now and then.
    if (const int d = Below(a.geometry.rank());
        Chance(3) && a.geometry.rank() > 0 && Known({g().inputs()[i], 0}) && a.geometry.sizes[d] > 1) {
      a.geometry.strides[d] += 1 + Below(2);
    }
    elements[a.storage] = std::max(elements[a.storage], a.geometry.Span().second + Below(3));
  }
  for (size_t s = 0; s < elements.size(); ++s)
    sample_.call.storages[s].bytes = RandomBytes(sample_.call.storages[s].dtype, elements[s]);
}

}  // namespace smelt::fuzz_internal
