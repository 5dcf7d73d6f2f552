#include "smelt/core/op/recorded_layouts.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/file.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

using Sizes = std::vector<int64_t>;

Sizes Ints(absl::string_view text) {  // "[2,3]"
  Sizes out;
  for (absl::string_view n : absl::StrSplit(text.substr(1, text.size() - 2), ',', absl::SkipEmpty())) {
    int64_t v = 0;
    SMELT_CHECK(absl::SimpleAtoi(n, &v));
    out.push_back(v);
  }
  return out;
}

// --- Layouts, by their letters, as record_layout_rules.py makes them ---

// Returns strides with the dims in this order, from the largest on; `gap` elements in the last one, whose elements have
// the distance `step`.
Sizes InOrder(const Sizes& sizes, const std::vector<int>& order, int64_t gap = 0, int64_t step = 1) {
  Sizes strides(sizes.size());
  int64_t n = step;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = n;
    n *= std::max<int64_t>(sizes[order[k]], 1) + (k + 1 == order.size() ? gap : 0);
  }
  return strides;
}

std::vector<int> Rising(size_t n) {
  std::vector<int> dims(n);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Sizes Expanded(Sizes sizes, const std::set<int>& dims) {
  for (int d : dims) sizes[d] = 1;
  Sizes strides = InOrder(sizes, Rising(sizes.size()));
  for (int d : dims) strides[d] = 0;
  return strides;
}

Sizes LaidOut(const Sizes& sizes, char letter) {
  const int rank = static_cast<int>(sizes.size());
  std::vector<int> rising = Rising(rank), falling(rising.rbegin(), rising.rend()), last = {0};
  for (int d = 2; d < rank; ++d) last.push_back(d);
  last.push_back(1);
  Sizes strides;
  switch (letter) {
    case 'c':
      return InOrder(sizes, rising);
    case 't':
      return InOrder(sizes, falling);
    case 's':
      std::swap(rising[rank - 1], rising[rank - 2]);
      return InOrder(sizes, rising);
    case 'u':
      std::swap(rising[0], rising[1]);
      return InOrder(sizes, rising);
    case 'l':
      return InOrder(sizes, last);
    case 'g':
      return InOrder(sizes, rising, 1);
    case 'h':
      return InOrder(sizes, rising, 0, 2);
    case 'G':
      return InOrder(sizes, rank > 3 ? last : falling, 1);
    case 'e':
      return Expanded(sizes, {0});
    case 'm':
      return Expanded(sizes, {1});
    case 'f':
      return Expanded(sizes, {rank - 1});
    case 'z':
      return Expanded(sizes, std::set<int>(rising.begin(), rising.end()));
    case 'o':
      strides = InOrder(sizes, rising);
      for (int d = 0; d < rank; ++d) strides[d] = sizes[d] == 1 ? 1 : strides[d];
      return strides;
    case 'q':
      strides = InOrder(sizes, falling);
      for (int d = 0; d < rank; ++d) strides[d] = sizes[d] == 1 ? 7 : strides[d];
      return strides;
  }
  SMELT_CHECK(false) << "no layout " << letter;
  return {};
}

// --- Arguments ---

DType DTypeNamed(absl::string_view name) {
  static const auto* const kNames = new absl::flat_hash_map<std::string, DType>{
      {"f32", DType::kFloat32}, {"f64", DType::kFloat64}, {"f16", DType::kFloat16},   {"bf16", DType::kBFloat16},
      {"i64", DType::kInt64},   {"i32", DType::kInt32},   {"i16", DType::kInt16},     {"i8", DType::kInt8},
      {"u8", DType::kUInt8},    {"b", DType::kBool},      {"c64", DType::kComplex64}, {"c128", DType::kComplex128}};
  return kNames->at(name);
}

// Returns the parts of a list, which may contain lists.
std::vector<absl::string_view> Parts(absl::string_view text) {
  std::vector<absl::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t k = 0; k <= text.size(); ++k) {
    if (k == text.size() || (text[k] == ';' && depth == 0)) {
      if (k > begin || k < text.size()) parts.push_back(text.substr(begin, k - begin));
      begin = k + 1;
    } else {
      depth += (text[k] == '(') - (text[k] == ')');
    }
  }
  return parts;
}

OpArg Parse(absl::string_view text, bool is_float) {
  OpArg a;
  if (text == "~") return OpArg::None();
  if (text == "T" || text == "F") return OpArg::Bool(text == "T");
  if (absl::StartsWith(text, "'")) return OpArg::String(std::string(text.substr(1, text.size() - 2)));
  if (absl::StartsWith(text, "^")) {
    a.kind = OpArg::Kind::kOther;
    return a;
  }
  if (absl::StartsWith(text, "(")) {
    std::vector<OpArg> elements;
    for (absl::string_view part : Parts(text.substr(1, text.size() - 2))) elements.push_back(Parse(part, false));
    const auto all = [&](OpArg::Kind kind) {
      return std::all_of(elements.begin(), elements.end(), [&](const OpArg& e) { return e.kind == kind; });
    };
    if (all(OpArg::Kind::kInt)) {
      std::vector<Expr> ints;
      for (const OpArg& e : elements) ints.push_back(e.expr);
      return OpArg::Ints(std::move(ints));
    }
    if (all(OpArg::Kind::kBool)) {
      a.kind = OpArg::Kind::kBoolList;
      for (const OpArg& e : elements) a.bools.push_back(e.number != 0);
    } else if (std::all_of(elements.begin(), elements.end(), [](const OpArg& e) { return e.IsScalar(); })) {
      a.kind = OpArg::Kind::kFloatList;
      for (const OpArg& e : elements) a.floats.push_back(e.number);
    } else {
      return OpArg::List(std::move(elements));
    }
    a.known = true;
    return a;
  }
  const size_t bracket = text.find('[');
  if (bracket != absl::string_view::npos) {
    const Sizes sizes = Ints(text.substr(bracket));
    TensorType t;
    t.dtype = DTypeNamed(text.substr(0, bracket));
    t.sizes = std::vector<Expr>(sizes.begin(), sizes.end());
    return OpArg::Of(t);
  }
  if (absl::EndsWith(text, "j")) {
    const std::vector<std::string> parts = absl::StrSplit(text.substr(0, text.size() - 1), '+');
    return OpArg::Complex({std::stod(parts[0]), std::stod(parts[1])});
  }
  int64_t n = 0;
  if (!is_float && absl::SimpleAtoi(text, &n)) return OpArg::Int(n);
  double d = 0;
  SMELT_CHECK(absl::SimpleAtod(text, &d)) << text;
  return OpArg::Float(d);
}

void AddTensors(OpArg& a, std::vector<OpArg*>& out) {
  if (a.IsTensor()) out.push_back(&a);
  for (OpArg& e : a.elements) AddTensors(e, out);
}

// "0tg,1l" are 0t, 0g and 1l.
std::vector<std::string> Layouts(absl::string_view text) {
  std::vector<std::string> out;
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    const size_t letters = word.find_first_not_of("0123456789*");
    if (word == "=" || absl::StrContains(word, '+')) {
      out.emplace_back(word);
      continue;
    }
    for (char c : word.substr(letters)) out.push_back(absl::StrCat(word.substr(0, letters), std::string(1, c)));
  }
  return out;
}

bool IsOut(const Argument& a) {
  return a.kw_only && (a.alias.is_write || (!a.alias.contained.empty() && a.alias.contained[0].is_write));
}

std::vector<OpArg> ArgumentsIn(const std::vector<OpArg>& given, OpName op, absl::string_view layout) {
  std::vector<OpArg> args = given;
  std::vector<OpArg*> tensors;
  const FunctionSchema* schema = FindSchema(op);
  std::vector<bool> written;
  for (size_t k = 0; k < args.size(); ++k) {
    AddTensors(args[k], tensors);
    written.resize(tensors.size(), k < schema->arguments.size() && IsOut(schema->arguments[k]));
  }
  std::vector<char> letters(tensors.size(), 'c');
  for (absl::string_view word : absl::StrSplit(layout, '+')) {
    if (word == "=") continue;
    if (word[0] == '*') {
      std::fill(letters.begin(), letters.end(), word[1]);
      continue;
    }
    int k = 0;
    SMELT_CHECK(absl::SimpleAtoi(word.substr(0, word.size() - 1), &k));
    letters[k] = word.back();
  }
  for (size_t k = 0; k < tensors.size(); ++k) {
    TensorType& t = tensors[k]->tensor;
    const Sizes strides = LaidOut(Numbers(*t.sizes), written[k] ? 'c' : letters[k]);
    t.strides = std::vector<Expr>(strides.begin(), strides.end());
  }
  return args;
}

ValueId ValueOf(Graph& g, const OpArg& a) {
  const NodeId end = g.block(g.top()).return_node;
  const auto list = [&](const Type& element) {
    std::vector<ValueId> values;
    for (const OpArg& e : a.elements) values.push_back(ValueOf(g, e));
    return g.node(g.InsertBefore(end, OpName::Get("prim::ListConstruct"), values, {Type::List(element)})).outputs[0];
  };
  switch (a.kind) {
    case OpArg::Kind::kTensor:
      return g.AddInput("", Type::Tensor(a.tensor));
    case OpArg::Kind::kTensorList:
      return list(Type::Tensor());
    case OpArg::Kind::kInt:
      return InsertConstant(g, end, *a.expr.Constant());
    case OpArg::Kind::kFloat:
      return InsertConstant(g, end, a.number);
    case OpArg::Kind::kBool:
      return InsertConstant(g, end, a.number != 0);
    case OpArg::Kind::kComplex:
      return InsertConstant(g, end, a.complex);
    case OpArg::Kind::kString:
      return InsertConstant(g, end, a.string);
    case OpArg::Kind::kIntList:
      return InsertConstant(g, end, Numbers(a.ints));
    case OpArg::Kind::kFloatList:
      return InsertConstant(g, end, a.floats);
    case OpArg::Kind::kBoolList:
      return InsertConstant(g, end, a.bools);
    default:
      return InsertConstant(g, end, std::monostate());
  }
}

}  // namespace

std::vector<int64_t> Numbers(const std::vector<Expr>& exprs) {
  std::vector<int64_t> out;
  for (const Expr& e : exprs) out.push_back(e.Constant().value_or(-1));
  return out;
}

std::optional<std::vector<int64_t>> ExpectedStrides(absl::string_view word, const std::vector<int64_t>& sizes) {
  if (absl::c_linear_search(sizes, 0)) return std::nullopt;
  if (word == "c") return InOrder(sizes, Rising(sizes.size()));
  if (absl::ConsumePrefix(&word, "<")) {
    std::vector<int> order;
    for (char c : word.substr(0, word.size() - 1)) order.push_back(c - '0');
    return InOrder(sizes, order);
  }
  Sizes strides;
  for (absl::string_view n : absl::StrSplit(word, '.')) {
    int64_t v = 0;
    if (n != "x") SMELT_CHECK(absl::SimpleAtoi(n, &v));
    strides.push_back(v);
  }
  return strides;
}

void ForEachRecordedLayout(absl::FunctionRef<void(const RecordedLayout& call)> f) {
  const absl::StatusOr<std::string> text = ReadFile("testdata/layout_rules.txt");
  SMELT_CHECK_OK(text.status());
  for (absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "#")) continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
    SMELT_CHECK(fields.size() == 4u) << line;
    std::vector<Sizes> sizes;
    for (absl::string_view s : absl::StrSplit(fields[1], ' ')) sizes.push_back(Ints(s));
    for (absl::string_view name : absl::StrSplit(fields[3], ' ')) {
      const OpName op = OpName::Get(absl::StrContains(name, "::") ? std::string(name) : absl::StrCat("aten::", name));
      const FunctionSchema* schema = FindSchema(op);
      SMELT_CHECK(schema != nullptr) << name;
      std::vector<OpArg> args;
      size_t k = 0;
      for (absl::string_view word : absl::StrSplit(fields[0], ' ', absl::SkipEmpty())) {
        SMELT_CHECK(k < schema->arguments.size()) << line;
        const TypeKind kind = schema->arguments[k++].type.kind();
        args.push_back(Parse(word, kind == TypeKind::kFloat));
      }
      for (absl::string_view group : absl::StrSplit(fields[2], ' ')) {
        const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(group, absl::MaxSplits(':', 1));
        for (const std::string& layout : Layouts(parts.second)) {
          f({op, std::string(fields[0]), ArgumentsIn(args, op, layout), layout, sizes,
             absl::StrSplit(parts.first, '/')});
        }
      }
    }
  }
}

NodeId AddCall(Graph& g, const RecordedLayout& recorded) {
  const OpCall call(recorded.op, recorded.args);
  std::vector<ValueId> inputs;
  for (const OpArg& a : call.args()) inputs.push_back(ValueOf(g, a));
  std::vector<Type> types;
  for (const Argument& r : FindSchema(recorded.op)->returns) types.push_back(r.type);
  const NodeId n = g.InsertBefore(g.block(g.top()).return_node, recorded.op, inputs, types);
  for (ValueId v : g.node(n).outputs) g.AddOutput(v);
  return n;
}

}  // namespace smelt
