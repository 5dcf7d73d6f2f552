#include "smelt/tools/fuzz/generator.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/check.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/tools/fuzz/more_operators.h"

namespace smelt {
namespace {

// Elements that every storage of a call has at least, so that as_strided may address it absolutely.
constexpr int64_t kAbsoluteElements = 24;

struct Var {
  ValueId value;
  int object = 0;      // names of one tensor have the same number
  int argument = -1;   // whose storage it surely lives in; -1: its own or unknown
  bool fixed = false;  // went through control flow: its geometry stays
};

class Generator {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options) : random_(seed), options_(options) {}

  Sample Make() {
    sample_.graph = std::make_unique<Graph>();
    block_ = g().top();
    MakeInputs();
    left_ = 2 + Below(options_.max_nodes - 1);
    while (left_ > 0) Node(0);
    MakeOutputs();
    RemoveUnused(g().top());
    MakeStorages();
    return std::move(sample_);
  }

 private:
  Graph& g() { return *sample_.graph; }
  int Below(int64_t n) { return n <= 0 ? 0 : static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  template <typename T>
  const T& AnyOf(const std::vector<T>& v) {
    return v[Below(static_cast<int64_t>(v.size()))];
  }
  const TensorType& TypeOf(const Var& v) { return g().value(v.value).type.tensor(); }
  DType DTypeOf(const Var& v) { return *TypeOf(v).dtype; }
  int Rank(const Var& v) { return TypeOf(v).rank(); }
  // Sizes in the call that will be made.
  int64_t Size(const Expr& e) {
    auto v = e.Evaluate(symbol_values_);
    return v.ok() ? *v : 0;
  }
  std::vector<int64_t> Sizes(const Var& v) { return All(*TypeOf(v).sizes); }
  std::vector<int64_t> Strides(const Var& v) { return All(*TypeOf(v).strides); }
  std::vector<int64_t> All(const std::vector<Expr>& exprs) {
    std::vector<int64_t> out;
    for (const Expr& e : exprs) out.push_back(Size(e));
    return out;
  }
  bool Known(const Var& v) {
    const TensorType& t = TypeOf(v);
    auto constant = [](const Expr& e) { return e.IsConstant(); };
    return std::all_of(t.sizes->begin(), t.sizes->end(), constant) &&
           std::all_of(t.strides->begin(), t.strides->end(), constant);
  }
  static int64_t Product(const std::vector<int64_t>& v) {
    return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<int64_t>());
  }

  // --- inputs ---
  DType RandomDType() {
    static const std::vector<DType> kMany = {
        DType::kFloat32,  DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kFloat32,   DType::kFloat32,
        DType::kFloat32,  DType::kInt64,   DType::kInt64,   DType::kInt32,   DType::kFloat64,   DType::kFloat16,
        DType::kBFloat16, DType::kInt8,    DType::kUInt8,   DType::kBool,    DType::kComplex64, DType::kInt16};
    return AnyOf(kMany);
  }
  std::vector<int64_t> RandomShape() {
    std::vector<int64_t> sizes;
    const int rank = Chance(8) ? 0 : 1 + Below(3);
    for (int d = 0; d < rank; ++d) sizes.push_back(Chance(2) ? 0 : 1 + Below(4));
    return sizes;
  }
  std::vector<int64_t> RandomStrides(const std::vector<int64_t>& sizes) {
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

  void MakeInputs() {
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

  void MakeWeights(DType dtype, const std::vector<int64_t>& shape) {
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

  std::string RandomBytes(DType dtype, int64_t elements) {
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

  // Where the arguments lie: in storages of their own, in one, overlapping or not, twice the same.
  void MakeStorages() {
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

  // --- nodes ---
  ValueId Constant(const ConstantValue& v) { return InsertConstant(g(), g().block(block_).return_node, v); }
  ValueId Ints(std::vector<int64_t> v) { return Constant(std::move(v)); }
  ValueId Int(int64_t v) { return Constant(v); }
  ValueId Float(double v) { return Constant(v); }
  // A list of tensors.
  ValueId TensorList(const std::vector<ValueId>& elements) {
    const NodeId n = g().Append(block_, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Tensor())});
    return g().node(n).outputs[0];
  }

  // The results of a node, or nothing where the operator does not take these arguments.
  std::optional<std::vector<ValueId>> Try(absl::string_view name, std::vector<ValueId> inputs) {
    const OpName op = OpName::Get(name);
    const FunctionSchema* schema = FindSchema(op);
    SMELT_CHECK(schema != nullptr) << name;
    for (size_t i = inputs.size(); i < schema->arguments.size(); ++i) {
      const Argument& a = schema->arguments[i];
      if (!a.default_value) return std::nullopt;
      inputs.push_back(Constant(*a.default_value));
    }
    std::vector<Type> types;
    for (const Argument& r : schema->returns) types.push_back(r.type);
    const NodeId n = g().Append(block_, op, inputs, types);
    bool ok = InferNode(g(), n).ok();
    for (ValueId v : g().node(n).outputs) {
      const Type& t = g().value(v).type;
      if (ok && t.IsTensor()) ok = t.tensor().IsComplete() && Product(All(*t.tensor().sizes)) <= 200;
    }
    if (!ok) {
      g().Erase(n);
      return std::nullopt;
    }
    return std::vector<ValueId>(g().node(n).outputs.begin(), g().node(n).outputs.end());
  }
  void AddVar(ValueId v, int argument = -1) { vars_.push_back({v, next_object_++, argument}); }
  void AddName(ValueId v, const Var& of) { vars_.push_back({v, of.object, of.argument, of.fixed}); }
  bool View(absl::string_view op, const Var& x, std::vector<ValueId> inputs) {
    inputs.insert(inputs.begin(), x.value);
    auto out = Try(op, std::move(inputs));
    if (out) AddVar((*out)[0], x.argument);
    return out.has_value();
  }
  bool Pure(absl::string_view op, std::vector<ValueId> inputs) {
    auto out = Try(op, std::move(inputs));
    if (out && g().value((*out)[0]).type.IsTensor()) AddVar((*out)[0]);
    return out.has_value();
  }
  bool InPlace(absl::string_view op, const Var& x, std::vector<ValueId> inputs) {
    inputs.insert(inputs.begin(), x.value);
    auto out = Try(op, std::move(inputs));
    if (out && !out->empty() && Chance(40)) AddName((*out)[0], x);
    return out.has_value();
  }
  bool Out(absl::string_view op, const Var& x, std::vector<ValueId> inputs) {
    inputs.push_back(x.value);
    const std::vector<Expr> sizes = *TypeOf(x).sizes;
    auto out = Try(op, std::move(inputs));
    if (!out || *g().value((*out)[0]).type.tensor().sizes == sizes) return out.has_value();
    // It would be resized, which PyTorch warns of.
    g().Erase(g().value((*out)[0]).def);
    return false;
  }

  Var Pick() {
    const int64_t n = static_cast<int64_t>(vars_.size());
    return vars_[Chance(50) ? Below(n) : n - 1 - Below(std::min<int64_t>(n, 4))];
  }
  // What can be broadcast to x, by chance.
  std::optional<Var> Operand(const Var& x, bool same_dtype) {
    std::vector<Var> fit;
    const std::vector<Expr>& to = *TypeOf(x).sizes;
    for (const Var& v : vars_) {
      const std::vector<Expr>& from = *TypeOf(v).sizes;
      if (from.size() > to.size()) continue;
      if (same_dtype ? DTypeOf(v) != DTypeOf(x) : PromoteTypes(DTypeOf(v), DTypeOf(x)) != DTypeOf(x)) continue;
      bool ok = true;
      for (size_t d = 0; d < from.size(); ++d) {
        const Expr& e = from[from.size() - 1 - d];
        ok = ok && (e == Expr(1) || e == to[to.size() - 1 - d]);
      }
      if (ok) fit.push_back(v);
    }
    if (fit.empty()) return std::nullopt;
    return AnyOf(fit);
  }
  int64_t Dim(const Var& x) {
    const int rank = Rank(x);
    const int64_t d = Below(std::max(rank, 1));
    return Chance(20) ? d - rank : d;
  }
  int64_t DimSize(const Var& x, int64_t dim) {
    if (Rank(x) == 0) return 1;
    // Of a symbol, what it is at least.
    return (*TypeOf(x).sizes)[dim < 0 ? dim + Rank(x) : dim].Constant().value_or(2);
  }

  void Node(int depth) {
    --left_;
    if (options_.more_operators && Chance(50)) return MakeMore();
    const int what = Below(100);
    if (what < 34) {
      MakeView();
    } else if (what < 66) {
      MakeWrite();
    } else if (what < 88) {
      MakePure();
    } else if (what < 91) {
      if (depth == 0) ChangeGeometry();
    } else if (options_.control_flow && depth < 2) {
      const int kind = Below(10);
      if (kind < 4) {
        If(depth);
      } else if (kind < 6) {
        Cond(depth);
      } else if (kind < 9) {
        Loop(depth);
      } else {
        While(depth);
      }
    }
  }

  void Unpack(ValueId list, const Var& x) {
    // As many as inference says.
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

  void MakeView() {
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

  bool AsStrided(absl::string_view op, const Var& x) {
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

  std::vector<int64_t> OtherShape(std::vector<int64_t> sizes) {
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

  bool Numeric(const Var& x) { return DTypeOf(x) != DType::kBool; }
  bool Ordered(const Var& x) { return !IsComplex(DTypeOf(x)); }
  // A number that fits the dtype.
  ValueId Number(const Var& x) {
    if (DTypeOf(x) == DType::kBool) return Int(Below(2));
    if (IsFloating(DTypeOf(x)) && Chance(30)) return Float(Below(9) * 0.5 - 2);
    return Int(DTypeOf(x) == DType::kUInt8 ? Below(4) : Below(7) - 3);
  }
  // A mask of x's sizes.
  std::optional<ValueId> Mask(const Var& x) {
    if (!Ordered(x)) return std::nullopt;
    auto m = Try("aten::gt.Scalar", {x.value, Int(0)});
    if (!m) return std::nullopt;
    return (*m)[0];
  }
  // Indices into a dim of this size, `count` of them.
  std::optional<ValueId> Indices(int64_t size, int64_t count) {
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

  void MakeWrite() {
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
          if (auto i = Indices(size, 1 + Below(2)))
            InPlace("aten::index_fill_.int_Scalar", x, {Int(dim), *i, Number(x)});
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
          if (v.object != x.object && DTypeOf(v) == DTypeOf(x) && many.size() < 3 && Chance(30))
            many.push_back(v.value);
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

  void MakePure() {
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

  // --- operators of which a table says what they take ---
  bool Fits(const Var& x, Takes takes) {
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
  // 0 <= a place < size, one for each element of x; `distinct`: each once along the dim.
  std::optional<ValueId> Places(const Var& x, int64_t dim, int64_t size, bool distinct) {
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
  std::optional<Var> OfDTypeAs(const Var& x, bool same_sizes) {
    std::vector<Var> fit;
    for (const Var& v : vars_) {
      if (DTypeOf(v) == DTypeOf(x) && (!same_sizes || *TypeOf(v).sizes == *TypeOf(x).sizes)) fit.push_back(v);
    }
    if (fit.empty()) return std::nullopt;
    return AnyOf(fit);
  }
  std::optional<ValueId> ListLike(const Var& x, bool first) {
    std::vector<ValueId> many;
    if (first) many.push_back(x.value);
    for (size_t k = many.size(); k < 2; ++k) {
      const std::optional<Var> v = OfDTypeAs(x, true);
      if (!v || (first && v->object == x.object)) return std::nullopt;
      many.push_back(v->value);
    }
    return TensorList(many);
  }
  std::optional<ValueId> ArgumentOf(const Var& x, absl::string_view word, int64_t dim) {
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

  void MakeMore() {
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

  // t_, squeeze_, ...: from here on the tensor has one name.
  void ChangeGeometry() {
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
  void Retire(int object) {
    vars_.erase(std::remove_if(vars_.begin(), vars_.end(), [&](const Var& v) { return v.object == object; }),
                vars_.end());
  }

  // --- control flow ---
  struct Scope {
    std::vector<Var> vars;
    std::vector<ValueId> ints, bools, counters;
    BlockId block;
  };
  Scope Enter(BlockId b) {
    Scope s{vars_, ints_, bools_, counters_, block_};
    block_ = b;
    ++inside_;
    return s;
  }
  void Leave(Scope s) {
    vars_ = std::move(s.vars);
    ints_ = std::move(s.ints);
    bools_ = std::move(s.bools);
    counters_ = std::move(s.counters);
    block_ = s.block;
    --inside_;
  }
  void Body(int depth) {
    for (int k = 1 + Below(4); k > 0 && left_ > 0; --k) Node(depth + 1);
  }
  ValueId Condition() {
    if (!bools_.empty() && Chance(80)) return AnyOf(bools_);
    const Var x = Pick();
    if (Ordered(x) && Chance(60)) {
      auto sum = Try("aten::sum", {x.value, Int(ScalarTypeOf(DType::kFloat32))});
      auto mask = sum ? Try("aten::gt.Scalar", {(*sum)[0], Int(0)}) : std::nullopt;
      auto bit = mask ? Try("aten::Bool.Tensor", {(*mask)[0]}) : std::nullopt;
      if (bit) return (*bit)[0];
    }
    return Constant(Chance(50));
  }
  ValueId Predicate() {  // of cond: a tensor
    const Var x = Pick();
    if (Ordered(x)) {
      auto sum = Try("aten::sum", {x.value, Int(ScalarTypeOf(DType::kFloat32))});
      auto mask = sum ? Try("aten::gt.Scalar", {(*sum)[0], Int(0)}) : std::nullopt;
      if (mask) return (*mask)[0];
    }
    return Condition();
  }

  // Results of two blocks that are of one dtype and size.
  void FinishBranches(NodeId n, const std::vector<std::vector<Var>>& vars) {
    std::vector<std::vector<ValueId>> results(2);
    for (int k = Below(3); k > 0; --k) {
      const Var a =
          vars[0][Chance(70) ? vars[0].size() - 1 - Below(std::min<size_t>(vars[0].size(), 3)) : Below(vars[0].size())];
      std::vector<Var> fit;
      for (const Var& b : vars[1]) {
        if (DTypeOf(a) == DTypeOf(b) && *TypeOf(a).sizes == *TypeOf(b).sizes) fit.push_back(b);
      }
      if (fit.empty()) continue;
      results[0].push_back(a.value);
      results[1].push_back(AnyOf(fit).value);
    }
    const std::vector<BlockId> blocks(g().node(n).blocks.begin(), g().node(n).blocks.end());
    for (int b = 0; b < 2; ++b) {
      for (ValueId v : results[b]) g().AddResult(blocks[b], v);
    }
    for (size_t k = 0; k < results[0].size(); ++k) g().AddNodeOutput(n, Type::Tensor());
    Finish(n);
  }
  void Finish(NodeId n) {
    if (!InferNode(g(), n).ok()) {
      g().Erase(n);
      return;
    }
    for (Var& v : vars_) v.fixed = true;
    for (ValueId v : g().node(n).outputs) {
      if (!g().value(v).type.IsTensor()) continue;
      if (g().value(v).type.tensor().IsComplete()) {
        AddVar(v);
        vars_.back().fixed = true;
      } else {
        odd_outputs_.push_back(v);
      }
    }
  }

  void If(int depth) {
    const NodeId n = g().Append(block_, OpName::Get("prim::If"), {Condition()}, {});
    std::vector<std::vector<Var>> vars;
    for (int b = 0; b < 2; ++b) {
      Scope s = Enter(g().AddBlock(n));
      Body(depth);
      vars.push_back(vars_);
      Leave(std::move(s));
    }
    FinishBranches(n, vars);
  }

  // The form that is exported: closed blocks over operands.
  void Cond(int depth) {
    std::vector<ValueId> inputs = {Predicate()};
    std::vector<Var> operands;
    for (int k = 1 + Below(3); k > 0; --k) {
      operands.push_back(Pick());
      inputs.push_back(operands.back().value);
    }
    const NodeId n = g().Append(block_, OpName::Get("smelt::cond"), inputs, {});
    std::vector<std::vector<Var>> vars;
    for (int b = 0; b < 2; ++b) {
      Scope s = Enter(g().AddBlock(n));
      vars_.clear();
      ints_.clear();
      bools_.clear();
      counters_.clear();
      for (const Var& o : operands) {
        vars_.push_back({g().AddParam(block_, g().value(o.value).type), o.object, -1, true});
      }
      Body(depth);
      vars.push_back(vars_);
      Leave(std::move(s));
    }
    FinishBranches(n, vars);
  }

  void Loop(int depth) {
    const int64_t trips = Below(4);
    ValueId count = Int(trips);
    if (!ints_.empty() && Chance(50)) count = AnyOf(ints_);
    std::vector<Var> inits;
    for (int k = Below(3); k > 0; --k) inits.push_back(Pick());
    std::vector<ValueId> inputs = {count, Constant(true)};
    for (const Var& v : inits) inputs.push_back(v.value);
    const NodeId n = g().Append(block_, OpName::Get("prim::Loop"), inputs, {});
    const BlockId b = g().AddBlock(n);
    const ValueId i = g().AddParam(b, Type::Int());
    std::vector<Var> params;
    for (const Var& v : inits) params.push_back({g().AddParam(b, g().value(v.value).type), next_object_++, -1, true});
    Scope s = Enter(b);
    counters_.push_back(i);
    vars_.insert(vars_.end(), params.begin(), params.end());
    Body(depth);
    std::vector<ValueId> results = {Constant(true)};
    for (const Var& p : params) results.push_back(Next(p).value);
    Leave(std::move(s));
    for (ValueId v : results) g().AddResult(b, v);
    for (size_t k = 0; k < params.size(); ++k) g().AddNodeOutput(n, Type::Tensor());
    Finish(n);
  }
  // What a carried value becomes.
  Var Next(const Var& p) {
    std::vector<Var> fit;
    for (const Var& v : vars_) {
      if (g().value(v.value).type == g().value(p.value).type) fit.push_back(v);
    }
    return fit.empty() || Chance(20) ? p : AnyOf(fit);
  }

  void While(int depth) {
    auto counter = Try("aten::zeros", {Ints({}), Int(4)});
    if (!counter) return;
    std::vector<Var> inits;
    for (int k = 1 + Below(2); k > 0; --k) inits.push_back(Pick());
    std::vector<ValueId> inputs = {(*counter)[0]};
    for (const Var& v : inits) inputs.push_back(v.value);
    const NodeId n = g().Append(block_, OpName::Get("smelt::while_loop"), inputs, {});
    const BlockId cond = g().AddBlock(n), body = g().AddBlock(n);
    std::vector<ValueId> bound;
    for (BlockId b : {cond, body}) {
      bound.clear();
      for (ValueId v : inputs) bound.push_back(g().AddParam(b, g().value(v).type));
      if (b != cond) continue;
      Scope s = Enter(b);
      auto go = Try("aten::lt.Scalar", {bound[0], Int(Below(3))});
      Leave(std::move(s));
      if (!go) {
        g().Erase(n);
        return;
      }
      g().AddResult(b, (*go)[0]);
    }
    Scope s = Enter(body);
    vars_.clear();
    ints_.clear();
    bools_.clear();
    counters_.clear();
    std::vector<Var> params;
    for (size_t k = 0; k < inits.size(); ++k) params.push_back({bound[k + 1], next_object_++, -1, true});
    vars_ = params;
    auto next = Try("aten::add.Scalar", {bound[0], Int(1), Int(1)});
    Body(depth);
    std::vector<ValueId> results = {next ? (*next)[0] : bound[0]};
    for (const Var& p : params) results.push_back(Next(p).value);
    Leave(std::move(s));
    if (!next) {
      g().Erase(n);
      return;
    }
    for (ValueId v : results) {
      g().AddResult(body, v);
      g().AddNodeOutput(n, Type::Tensor());
    }
    Finish(n);
  }

  void MakeOutputs() {
    for (int k = Below(4); k > 0 && !vars_.empty(); --k) g().AddOutput(Pick().value);
    for (ValueId v : odd_outputs_) {
      if (g().IsLive(v) && g().node(g().value(v).def).parent == g().top() && Chance(50)) g().AddOutput(v);
    }
  }

  // Constants and lists of attempts that failed.
  void RemoveUnused(BlockId b) {
    std::vector<NodeId> nodes = g().Nodes(b);
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
      const std::vector<BlockId> blocks(g().node(*n).blocks.begin(), g().node(*n).blocks.end());
      for (BlockId inner : blocks) RemoveUnused(inner);
      const std::string& name = g().node(*n).op.name();
      if (name != "prim::Constant" && name != "prim::ListConstruct") continue;
      if (g().value(g().node(*n).outputs[0]).uses.empty()) g().Erase(*n);
    }
  }

  std::mt19937_64 random_;
  GeneratorOptions options_;
  Sample sample_;
  BlockId block_;
  std::vector<Var> vars_;
  std::vector<ValueId> ints_, bools_, counters_, odd_outputs_;
  absl::flat_hash_map<std::string, int64_t> symbol_values_;
  int left_ = 0, next_object_ = 0, pieces_ = 0, inside_ = 0;
};

}  // namespace

Sample RandomSample(uint64_t seed, const GeneratorOptions& options) { return Generator(seed, options).Make(); }

}  // namespace smelt
