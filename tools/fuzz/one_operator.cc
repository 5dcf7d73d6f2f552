#include "smelt/tools/fuzz/one_operator.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/core/op/schema.h"
#include "smelt/frontend/pt2_testing.h"

namespace smelt {
namespace {

using Json = nlohmann::json;
using Kind = OpArg::Kind;

Type TypeOf(const TensorType& t) { return Type::Tensor(t); }

OpArg Dense(DType dtype, std::vector<Expr> sizes) { return OpArg::Of(Type::Tensor(dtype, std::move(sizes)).tensor()); }

// --- sound calls ---

// Makes up an argument for which nothing was recorded; nullopt if that is impossible.
std::optional<OpArg> MadeUp(const Argument& a) {
  const Type& type = a.type.kind() == TypeKind::kOptional ? a.type.element() : a.type;
  if (a.type.kind() == TypeKind::kOptional) return OpArg::None();
  switch (type.kind()) {
    case TypeKind::kTensor:
      return Dense(absl::StrContains(a.name, "ind") ? DType::kInt64 : DType::kFloat32, {4, 8});
    case TypeKind::kInt:
      return OpArg::Int(1);
    case TypeKind::kFloat:
      return OpArg::Float(0.5);
    case TypeKind::kNumber:
      return OpArg::Float(1.5);
    case TypeKind::kBool:
      return OpArg::Bool(false);
    case TypeKind::kString:
      return OpArg::String("mean");
    case TypeKind::kList:
      if (type.element().kind() == TypeKind::kInt) return OpArg::Ints({1, 1});
      if (type.element().IsTensor()) {
        const OpArg one = Dense(DType::kFloat32, {4, 8});
        return OpArg::List({one, one});
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<OneOperator> MadeUp(const FunctionSchema& schema) {
  OneOperator out;
  out.op = schema.op;
  for (const Argument& a : schema.arguments) {
    std::optional<OpArg> arg = MadeUp(a);
    if (!arg) return std::nullopt;
    out.args.push_back(*std::move(arg));
  }
  for (const Argument& r : schema.returns) {
    if (!r.type.IsTensor()) return std::nullopt;
    out.results.push_back(TypeOf(Dense(DType::kFloat32, {4, 8}).tensor));
    out.elements.emplace_back();
  }
  if (out.results.empty()) return std::nullopt;
  return out;
}

std::optional<OneOperator> Recorded(const Answer& answer) {
  OneOperator out;
  out.op = answer.op;
  for (const AnswerValue& v : answer.args) out.args.push_back(v.ToOpArg());
  const FunctionSchema* schema = FindSchema(answer.op);
  if (schema == nullptr || schema->arguments.size() != out.args.size() ||
      schema->returns.size() != answer.outputs.size() || answer.outputs.empty())
    return std::nullopt;
  for (const AnswerValue& v : answer.outputs) {
    std::vector<Type> elements;
    switch (v.kind) {
      case Kind::kTensor:
        out.results.push_back(TypeOf(v.ToOpArg().tensor));
        break;
      case Kind::kTensorList:
        for (const AnswerValue& e : v.list) {
          if (e.kind != Kind::kTensor) return std::nullopt;
          elements.push_back(TypeOf(e.ToOpArg().tensor));
        }
        out.results.push_back(Type::List(Type::Tensor()));
        break;
      default:
        return std::nullopt;
    }
    out.elements.push_back(std::move(elements));
  }
  return out;
}

// --- files ---

int DTypeCode(DType t) {
  const int64_t code = ScalarTypeOf(t);
  return static_cast<int>(code == 15 ? 13 : code + 1);
}

class ArchiveWriter {
 public:
  std::string Write(const OneOperator& call, size_t args_given) {
    const FunctionSchema* schema = FindSchema(call.op);
    Json inputs = Json::array();
    for (size_t k = 0; k < call.args.size() && k < args_given; ++k) {
      const std::string name = k < schema->arguments.size() ? schema->arguments[k].name : "more";
      inputs.push_back({{"name", name}, {"arg", Value(call.args[k], absl::StrCat("a", k))}, {"kind", 1}});
    }
    Json outputs = Json::array(), results = Json::array();
    for (size_t k = 0; k < call.results.size(); ++k) {
      const std::string name = absl::StrCat("r", k);
      const Type& type = call.results[k];
      if (type.kind() == TypeKind::kList) {
        Json list = Json::array();
        for (size_t i = 0; i < call.elements[k].size(); ++i)
          list.push_back(Named(absl::StrCat(name, "_", i), call.elements[k][i], results));
        outputs.push_back({{"as_tensors", list}});
      } else if (type.IsTensor()) {
        outputs.push_back({{"as_tensor", Named(name, type, results)}});
      } else {
        outputs.push_back({{"as_sym_int", {{"as_name", name}}}});
        sym_ints_[name] = {{"as_int", 3}};
        results.push_back({{"as_sym_int", {{"as_name", name}}}});
      }
    }
    std::string target = call.op.full();
    target.replace(target.find("::"), 2, ".");
    if (call.op.overload().empty()) target += ".default";
    Json node = {{"target", "torch.ops." + target},
                 {"inputs", inputs},
                 {"outputs", outputs},
                 {"metadata", Json::object()},
                 {"name", "node"}};
    Json input_specs = Json::array(), output_specs = Json::array();
    for (const Json& i : graph_inputs_) input_specs.push_back({{"user_input", {{"arg", i}}}});
    for (const Json& o : results) output_specs.push_back({{"user_output", {{"arg", o}}}});
    const Json model = {{"graph_module",
                         {{"graph",
                           {{"inputs", graph_inputs_},
                            {"outputs", results},
                            {"nodes", Json::array({node})},
                            {"tensor_values", tensors_},
                            {"sym_int_values", sym_ints_},
                            {"sym_bool_values", Json::object()},
                            {"sym_float_values", Json::object()},
                            {"custom_obj_values", Json::object()},
                            {"is_single_tensor_return", false}}},
                          {"signature", {{"input_specs", input_specs}, {"output_specs", output_specs}}},
                          {"module_call_graph", Json::array()}}},
                        {"opset_version", {{"aten", 10}}},
                        {"range_constraints", Json::object()},
                        {"schema_version", {{"major", 8}, {"minor", 20}}},
                        {"torch_version", "2.13.0"},
                        {"guards_code", Json::array()}};
    return WriteTestZip({{"m/archive_format", "pt2"},
                         {"m/archive_version", "0"},
                         {"m/byteorder", "little"},
                         {"m/models/model.json", model.dump(-1, ' ', false, Json::error_handler_t::replace)},
                         {"m/data/weights/model_weights_config.json", "{\"config\": {}}"},
                         {"m/data/constants/model_constants_config.json", "{\"config\": {}}"}});
  }

 private:
  Json Named(const std::string& name, const Type& type, Json& list) {
    Declare(name, type.tensor());
    list.push_back({{"as_tensor", {{"name", name}}}});
    return {{"name", name}};
  }
  void Declare(const std::string& name, const TensorType& t) {
    Json sizes = Json::array(), strides = Json::array();
    for (const Expr& e : *t.sizes) sizes.push_back({{"as_int", e.Constant().value_or(0)}});
    for (const Expr& e : *t.strides) strides.push_back({{"as_int", e.Constant().value_or(0)}});
    tensors_[name] = {{"dtype", DTypeCode(*t.dtype)},
                      {"sizes", sizes},
                      {"requires_grad", false},
                      {"device", {{"type", "cpu"}, {"index", nullptr}}},
                      {"strides", strides},
                      {"storage_offset", {{"as_int", 0}}},
                      {"layout", 7}};
  }
  Json Input(const TensorType& t, const std::string& name) {
    Declare(name, t);
    graph_inputs_.push_back({{"as_tensor", {{"name", name}}}});
    return {{"name", name}};
  }
  Json Value(const OpArg& a, const std::string& name) {
    const auto numbers = [](const auto& list) {
      Json out = Json::array();
      for (const auto& x : list) out.push_back(x);
      return out;
    };
    switch (a.kind) {
      case Kind::kTensor:
        return {{"as_tensor", Input(a.tensor, name)}};
      case Kind::kInt:
        return {{"as_int", a.expr.Constant().value_or(0)}};
      case Kind::kFloat:
        if (!std::isfinite(a.number)) return {{"as_float", std::isnan(a.number) ? "NaN" : "Infinity"}};
        return {{"as_float", a.number}};
      case Kind::kBool:
        return {{"as_bool", a.number != 0}};
      case Kind::kComplex:
        return {{"as_complex", {{"real", a.complex.real()}, {"imag", a.complex.imag()}}}};
      case Kind::kString:
        return {{"as_string", a.string}};
      case Kind::kIntList: {
        Json out = Json::array();
        for (const Expr& e : a.ints) out.push_back(e.Constant().value_or(0));
        return {{"as_ints", out}};
      }
      case Kind::kFloatList:
        return {{"as_floats", numbers(a.floats)}};
      case Kind::kBoolList: {
        Json out = Json::array();
        for (const bool b : a.bools) out.push_back(b);
        return {{"as_bools", out}};
      }
      case Kind::kTensorList: {
        const bool none = std::any_of(a.elements.begin(), a.elements.end(), [](const OpArg& e) { return e.IsNone(); });
        Json out = Json::array();
        for (size_t i = 0; i < a.elements.size(); ++i) {
          const Json e = a.elements[i].IsTensor() ? Input(a.elements[i].tensor, absl::StrCat(name, "_", i)) : Json();
          out.push_back(!none ? e : e.is_null() ? Json{{"as_none", true}} : Json{{"as_tensor", e}});
        }
        return {{none ? "as_optional_tensors" : "as_tensors", out}};
      }
      case Kind::kOther:
        return {{"as_device", {{"type", "cpu"}, {"index", nullptr}}}};
      case Kind::kNone:
        break;
    }
    return {{"as_none", true}};
  }

  Json graph_inputs_ = Json::array(), tensors_ = Json::object(), sym_ints_ = Json::object();
};

std::string WriteText(const OneOperator& call, size_t args_given) {
  Graph g;
  const NodeId end = g.block(g.top()).return_node;
  const auto value = [&](auto& self, const OpArg& a) -> ValueId {
    if (a.IsTensor()) return g.AddInput("", Type::Tensor(a.tensor));
    if (a.kind == Kind::kTensorList) {
      std::vector<ValueId> elements;
      bool none = false;
      for (const OpArg& e : a.elements) {
        elements.push_back(self(self, e));
        none = none || e.IsNone();
      }
      const Type element = none ? Type::Optional(Type::Tensor()) : Type::Tensor();
      return g.node(g.InsertBefore(end, OpName::Get("prim::ListConstruct"), elements, {Type::List(element)}))
          .outputs[0];
    }
    ConstantValue c;
    switch (a.kind) {
      case Kind::kInt:
        c = a.expr.Constant().value_or(0);
        break;
      case Kind::kFloat:
        c = a.number;
        break;
      case Kind::kBool:
        c = a.number != 0;
        break;
      case Kind::kComplex:
        c = a.complex;
        break;
      case Kind::kString:
        c = a.string;
        break;
      case Kind::kIntList: {
        std::vector<int64_t> ints;
        for (const Expr& e : a.ints) ints.push_back(e.Constant().value_or(0));
        c = ints;
        break;
      }
      case Kind::kFloatList:
        c = a.floats;
        break;
      case Kind::kBoolList:
        c = a.bools;
        break;
      default:
        break;
    }
    const ValueId v = InsertConstant(g, end, c);
    if (a.kind == Kind::kOther) g.SetType(v, Type::Device());
    return v;
  };
  std::vector<ValueId> args;
  for (size_t k = 0; k < call.args.size() && k < args_given; ++k) args.push_back(value(value, call.args[k]));
  std::vector<Type> types;
  for (const Type& t : call.results) types.push_back(t.IsTensor() ? Type::Tensor() : t);
  const NodeId n = g.InsertBefore(end, call.op, args, types);
  for (ValueId v : g.node(n).outputs) g.AddOutput(v);
  return PrintGraph(g);
}

// --- lies ---

class Liar {
 public:
  explicit Liar(const OneOperator& call) : call_(call) {}

  std::vector<OperatorLie> Run() {
    Archive("the truth", call_);
    Text("the truth", call_);
    for (size_t k = 0; k < call_.args.size(); ++k) LieAboutArgument(k);
    for (size_t k = 0; k < call_.results.size(); ++k) LieAboutResult(k);
    for (size_t left = call_.args.size(); left-- > 0;) {
      const std::string what = absl::StrCat("only ", left, " arguments");
      Archive(what, call_, left);
      Text(what, call_, left);
    }
    OneOperator other = call_;
    other.results.pop_back();
    other.elements.pop_back();
    Archive("a result too few", other);
    other = call_;
    other.results.push_back(call_.results[0]);
    other.elements.push_back(call_.elements[0]);
    Archive("a result too many", other);
    return std::move(lies_);
  }

 private:
  void Archive(const std::string& what, const OneOperator& call, size_t args_given = SIZE_MAX) {
    lies_.push_back({what, ".pt2", ArchiveWriter().Write(call, args_given)});
  }
  void Text(const std::string& what, const OneOperator& call, size_t args_given = SIZE_MAX) {
    lies_.push_back({what, ".ir", WriteText(call, args_given)});
  }
  void With(size_t k, const std::string& what, OpArg arg) {
    OneOperator other = call_;
    other.args[k] = std::move(arg);
    const FunctionSchema* schema = FindSchema(call_.op);
    const std::string text = absl::StrCat(schema->arguments[k].name, " is ", what);
    Archive(text, other);
    Text(text, other);
  }
  void WithSizes(size_t k, std::optional<size_t> element, const std::string& what, DType dtype,
                 std::vector<Expr> sizes) {
    OpArg arg = Dense(dtype, std::move(sizes));
    if (element) {
      OpArg list = call_.args[k];
      list.elements[*element] = std::move(arg);
      arg = std::move(list);
    }
    With(k, what, std::move(arg));
  }

  void LieAboutTensor(size_t k, std::optional<size_t> element, const TensorType& t) {
    const DType dtype = *t.dtype;
    const std::vector<Expr>& sizes = *t.sizes;
    WithSizes(k, element, "of 0 dims", dtype, {});
    WithSizes(k, element, "of 1 dim", dtype, {5});
    std::vector<Expr> more = sizes;
    more.insert(more.begin(), 2);
    WithSizes(k, element, "of a dim more", dtype, more);
    if (!sizes.empty()) {
      std::vector<Expr> other = sizes;
      other.pop_back();
      WithSizes(k, element, "of a dim less", dtype, other);
      for (const bool last : {false, true}) {
        other = sizes;
        other[last ? other.size() - 1 : 0] = 0;
        WithSizes(k, element, last ? "of an empty last dim" : "of an empty first dim", dtype, other);
        other[last ? other.size() - 1 : 0] = int64_t{1} << 40;
        WithSizes(k, element, last ? "huge in its last dim" : "huge in its first dim", dtype, other);
        other[last ? other.size() - 1 : 0] = 7;
        WithSizes(k, element, "of another size", dtype, other);
      }
      other.assign(sizes.size(), 0);
      WithSizes(k, element, "empty in all dims", dtype, other);
      other.assign(sizes.size(), int64_t{1} << 33);
      WithSizes(k, element, "of more elements than there are numbers", dtype, other);
    }
    for (const DType d : {DType::kFloat32, DType::kInt64, DType::kBool, DType::kComplex64, DType::kFloat16}) {
      if (d != dtype) WithSizes(k, element, absl::StrCat("of dtype ", Name(d)), d, sizes);
    }
  }

  void LieAboutArgument(size_t k) {
    const OpArg& a = call_.args[k];
    constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
    if (!a.IsNone()) With(k, "None", OpArg::None());
    if (a.kind != Kind::kBool) With(k, "a bool", OpArg::Bool(true));
    if (a.kind != Kind::kFloat) With(k, "a float", OpArg::Float(2.5));
    if (a.kind != Kind::kString) With(k, "a string", OpArg::String("x"));
    if (a.kind != Kind::kTensor) With(k, "a tensor", Dense(DType::kFloat32, {2, 3}));
    if (a.kind != Kind::kIntList) With(k, "a list of ints", OpArg::Ints({1, 2}));
    for (const int64_t i : {kMin, int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{1} << 40, kMax}) {
      if (a.kind != Kind::kIntList && (a.kind == Kind::kInt || i == 3 || i == kMax))
        With(k, absl::StrCat("the int ", i), OpArg::Int(i));
      if (a.kind != Kind::kIntList) continue;
      With(k, absl::StrCat("all ", i), OpArg::Ints(std::vector<Expr>(std::max<size_t>(a.ints.size(), 1), i)));
    }
    if (a.kind == Kind::kIntList) {
      With(k, "an empty list", OpArg::Ints({}));
      std::vector<Expr> longer = a.ints;
      longer.resize(longer.size() + 3, 1);
      With(k, "longer", OpArg::Ints(longer));
      With(k, "very long", OpArg::Ints(std::vector<Expr>(100, 2)));
      if (!a.ints.empty()) With(k, "shorter", OpArg::Ints({a.ints.begin(), a.ints.end() - 1}));
    }
    if (a.kind == Kind::kFloat) {
      for (const double d : {-1.0, 0.0, 1e300, std::numeric_limits<double>::quiet_NaN()})
        With(k, absl::StrCat("the float ", d), OpArg::Float(d));
    }
    if (a.IsTensor()) LieAboutTensor(k, std::nullopt, a.tensor);
    if (a.kind == Kind::kTensorList) {
      With(k, "a list of nothing", OpArg::List({}));
      if (!a.elements.empty()) {
        OpArg list = a;
        list.elements[0] = OpArg::None();
        With(k, "a list of None", list);
        list = a;
        list.elements.pop_back();
        With(k, "shorter", list);
        if (a.elements[0].IsTensor()) LieAboutTensor(k, 0, a.elements[0].tensor);
      }
    }
  }

  void LieAboutResult(size_t k) {
    const auto declared = [&](const std::string& what, Type type) {
      OneOperator other = call_;
      if (other.results[k].kind() == TypeKind::kList) {
        if (other.elements[k].empty()) return;
        other.elements[k][0] = std::move(type);
      } else {
        other.results[k] = std::move(type);
      }
      Archive(absl::StrCat("result ", k, " declared ", what), other);
    };
    const bool list = call_.results[k].kind() == TypeKind::kList;
    if (list && call_.elements[k].empty()) return;
    const TensorType& t = list ? call_.elements[k][0].tensor() : call_.results[k].tensor();
    for (const DType d : {DType::kFloat32, DType::kInt64, DType::kBool, DType::kFloat16}) {
      if (d != *t.dtype) declared(std::string(Name(d)), Type::Tensor(d, *t.sizes));
    }
    std::vector<Expr> sizes = *t.sizes;
    sizes.push_back(2);
    declared("of a dim more", Type::Tensor(*t.dtype, sizes));
    if (t.sizes->empty()) return;
    sizes = *t.sizes;
    sizes.pop_back();
    declared("of a dim less", Type::Tensor(*t.dtype, sizes));
    for (const int64_t size : {int64_t{0}, int64_t{5}, int64_t{1} << 40}) {
      sizes = *t.sizes;
      sizes[0] = sizes[0] == Expr(size) ? Expr(size + 1) : Expr(size);
      declared(absl::StrCat("of size ", size), Type::Tensor(*t.dtype, sizes));
    }
    std::vector<Expr> strides(t.sizes->size(), 0);
    declared("of strides 0", Type::Tensor(*t.dtype, *t.sizes, strides));
    strides.assign(t.sizes->size(), int64_t{1} << 40);
    declared("of huge strides", Type::Tensor(*t.dtype, *t.sizes, strides));
    if (list) {
      OneOperator other = call_;
      other.elements[k].pop_back();
      Archive(absl::StrCat("result ", k, " an element too few"), other);
      other = call_;
      other.elements[k].push_back(call_.elements[k][0]);
      Archive(absl::StrCat("result ", k, " an element too many"), other);
    } else {
      declared("an int", Type::Int());
    }
  }

  const OneOperator& call_;
  std::vector<OperatorLie> lies_;
};

}  // namespace

std::vector<OneOperator> OperatorCalls(const std::string& answers_path) {
  std::map<std::string, OneOperator> calls;
  absl::StatusOr<OpAnswers> answers = OpAnswers::Load(answers_path);
  SMELT_CHECK_OK(answers);
  for (int i = 0; i < answers->size(); ++i) {
    const Answer answer = answers->Get(i);
    if (calls.contains(answer.op.full())) continue;
    if (std::optional<OneOperator> call = Recorded(answer)) calls.emplace(answer.op.full(), *std::move(call));
  }
  for (const absl::string_view name : AllSchemaNames()) {
    if (!absl::StartsWith(name, "aten::") || calls.contains(std::string(name))) continue;
    const FunctionSchema* schema = FindSchema(OpName::Get(name));
    if (schema == nullptr) continue;
    if (std::optional<OneOperator> call = MadeUp(*schema)) calls.emplace(std::string(name), *std::move(call));
  }
  std::vector<OneOperator> out;
  for (auto& [name, call] : calls) out.push_back(std::move(call));
  return out;
}

std::vector<OperatorLie> LiesAbout(const OneOperator& call) { return Liar(call).Run(); }

std::optional<HostileFile> NumberedLies::Make(int64_t i) {
  if (at_ != i / kMost) {
    at_ = i / kMost;
    lies_ = LiesAbout(calls_[static_cast<size_t>(at_)]);
  }
  const size_t k = static_cast<size_t>(i % kMost);
  if (k >= lies_.size()) return std::nullopt;
  return HostileFile{absl::StrCat(calls_[static_cast<size_t>(at_)].op.full(), ": ", lies_[k].what), lies_[k].extension,
                     lies_[k].bytes};
}

}  // namespace smelt
