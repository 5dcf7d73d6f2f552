// Layouts of the results of every operator with a rule: testdata/layout_rules.txt has PyTorch's layouts.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/file.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
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

// Returns the expected strides of a result by the table, or nullopt if it has no elements.
std::optional<Sizes> Expected(absl::string_view word, const Sizes& sizes) {
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

Sizes Numbers(const std::vector<Expr>& exprs) {
  Sizes out;
  for (const Expr& e : exprs) out.push_back(e.Constant().value_or(-1));
  return out;
}

// --- The table ---

struct Case {
  std::string op;
  std::vector<OpArg> args;
  std::string layout;  // "0t+1l"
  std::vector<Sizes> sizes;
  std::vector<std::string> want;
};

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

std::vector<OpArg> WithoutOuts(OpName op, std::vector<OpArg> args) {
  const FunctionSchema* schema = FindSchema(op);
  size_t n = 0;
  while (n < args.size() && !IsOut(schema->arguments[n])) ++n;
  args.resize(n);
  return args;
}

template <typename F>
void ForEachCase(F f) {
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
          f(Case{std::string(op.full()), ArgumentsIn(args, op, layout), layout, sizes,
                 absl::StrSplit(parts.first, '/')},
            op, fields[0]);
        }
      }
    }
  }
}

// Returns where the layout of tensors of these types differs from the table's; "" if it does not. nullopt: sizes or
// strides are unknown.
std::optional<std::string> Difference(const std::vector<Type>& have, const Case& c) {
  std::vector<const TensorType*> tensors;
  for (const Type& t : have) {
    if (t.IsTensor()) tensors.push_back(&t.tensor());
  }
  if (tensors.size() < c.sizes.size()) return std::nullopt;
  for (size_t k = 0; k < c.sizes.size(); ++k) {
    const TensorType& t = *tensors[k];
    if (!t.IsComplete()) return std::nullopt;
    const Sizes sizes = Numbers(*t.sizes), strides = Numbers(*t.strides);
    if (sizes != c.sizes[k])
      return absl::StrCat("sizes [", absl::StrJoin(sizes, ", "), "] instead of [", absl::StrJoin(c.sizes[k], ", "),
                          "]");
    const std::optional<Sizes> want = Expected(c.want[k], sizes);
    for (size_t d = 0; want && d < sizes.size(); ++d) {
      if (sizes[d] != 1 && strides[d] != (*want)[d])
        return absl::StrCat("strides [", absl::StrJoin(strides, ", "), "] instead of [", absl::StrJoin(*want, ", "),
                            "]", c.sizes.size() > 1 ? absl::StrCat(" of result ", k) : "");
    }
  }
  return "";
}

// Collects differences by operator, so that one wrong rule does not hide others.
class Tally {
 public:
  void Add(const Case& c, absl::string_view args, const std::optional<std::string>& difference) {
    ++calls_;
    if (!difference) {
      unknown_[c.op].push_back(absl::StrCat(args, " in ", c.layout));
    } else if (!difference->empty()) {
      differs_[c.op].push_back(absl::StrCat(args, " in ", c.layout, ": ", *difference));
    }
  }
  void Refuse(const Case& c, absl::string_view args, absl::string_view why) {
    ++calls_;
    refused_[c.op].push_back(absl::StrCat(args, " in ", c.layout, ": ", why));
  }
  ~Tally() {
    std::printf("%d calls; of %zu operators some differ, of %zu inference refuses some, of %zu some are not known\n",
                calls_, differs_.size(), refused_.size(), unknown_.size());
    const bool all = std::getenv("SMELT_ALL") != nullptr;
    for (const auto& [what, map] :
         {std::pair("DIFFERS", &differs_), std::pair("REFUSED", &refused_), std::pair("UNKNOWN", &unknown_)}) {
      for (const auto& [op, lines] : *map) {
        std::printf("%s %s: %zu\n", what, op.c_str(), lines.size());
        for (size_t k = 0; k < (all ? lines.size() : 3) && k < lines.size(); ++k)
          std::printf("    %s\n", lines[k].c_str());
      }
    }
  }
  size_t differs() const { return differs_.size(); }
  const std::map<std::string, std::vector<std::string>>& refused() const { return refused_; }
  const std::map<std::string, std::vector<std::string>>& unknown() const { return unknown_; }
  int calls() const { return calls_; }

 private:
  std::map<std::string, std::vector<std::string>> differs_, refused_, unknown_;
  int calls_ = 0;
};

// --- Calls as nodes of a graph ---

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

TEST(LayoutRulesTest, InferredStridesArePyTorchs) {
  Tally tally;
  const SymbolRanges ranges;
  ForEachCase([&](const Case& c, OpName op, absl::string_view args) {
    const auto out = InferCall(OpCall(op, c.args), ranges);
    if (!out.ok()) return tally.Refuse(c, args, out.status().message());
    if (const OpInfo& info = GetOpInfo(op); info.kind == OpKind::kOut) {  // which says what else was given
      const std::vector<OpArg> given = WithoutOuts(op, c.args);
      const auto functional = InferCall(OpCall(info.functional, given), ranges);
      if (!functional.ok()) return tally.Refuse(c, args, functional.status().message());
    }
    std::vector<Type> types;
    for (const InferredOutput& o : *out) {
      types.push_back(o.type);
      types.insert(types.end(), o.elements.begin(), o.elements.end());
    }
    tally.Add(c, args, Difference(types, c));
  });
  EXPECT_GT(tally.calls(), 100000);
  EXPECT_EQ(tally.differs(), 0u);
  // Calls that smelt refuses for reasons other than layouts, and calls whose sizes only the data determines.
  EXPECT_LE(tally.refused().size(), 50u);
  EXPECT_LE(tally.unknown().size(), 22u);
}

// The decomposition of an operator must give results with the operator's layout. Here only the rules state it.
TEST(LayoutRulesTest, DecompositionsGiveThoseStrides) {
  Tally tally;
  ForEachCase([&](const Case& c, OpName op, absl::string_view args) {
    const OpInfo& info = GetOpInfo(op);
    if (!info.decomposes || info.kind == OpKind::kOut || info.kind == OpKind::kInplace) return;
    Graph g;
    const FunctionSchema* schema = FindSchema(op);
    const OpCall call(op, c.args);
    std::vector<ValueId> inputs;
    for (const OpArg& a : call.args()) inputs.push_back(ValueOf(g, a));
    std::vector<Type> types;
    for (const Argument& r : schema->returns) types.push_back(r.type);
    const NodeId n = g.InsertBefore(g.block(g.top()).return_node, op, inputs, types);
    for (ValueId v : g.node(n).outputs) g.AddOutput(v);
    const absl::StatusOr<bool> changed = Decompose(g, n);
    if (!changed.ok()) return tally.Refuse(c, args, changed.status().message());
    if (!*changed) return;
    std::vector<Type> have;
    for (ValueId v : g.outputs()) {
      const auto elements = GetListElements(g, v);
      if (!elements) have.push_back(g.value(v).type);
      for (ValueId e : elements.value_or(std::vector<ValueId>())) have.push_back(g.value(e).type);
    }
    tally.Add(c, args, Difference(have, c));
  });
  EXPECT_GT(tally.calls(), 20000);
  EXPECT_EQ(tally.differs(), 0u);
}

// Returns the operators of the table, or those that its head lists as having no call.
std::set<std::string> Listed(bool without_calls) {
  const absl::StatusOr<std::string> text = ReadFile("testdata/layout_rules.txt");
  SMELT_CHECK_OK(text.status());
  std::set<std::string> names;
  for (absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const size_t begins = line.find("no call was found of");
    if (absl::StartsWith(line, "#") != without_calls || (without_calls && begins == absl::string_view::npos)) continue;
    const absl::string_view list = line.substr(without_calls ? line.find(": ") + 2 : line.rfind('\t') + 1);
    for (absl::string_view name : absl::StrSplit(list, ' '))
      names.insert(absl::StrContains(name, "::") ? std::string(name) : absl::StrCat("aten::", name));
  }
  return names;
}

TEST(LayoutRulesTest, TheTableHasNearlyEveryDescribedOperator) {
  const std::set<std::string> with = Listed(false), without = Listed(true);
  for (OpName op : DescribedOps()) {
    const OpKind kind = GetOpInfo(op).kind;
    const FunctionSchema* schema = FindSchema(op);
    const bool is_aten = absl::StartsWith(op.name(), "aten::");
    if (!is_aten || kind == OpKind::kScalar || kind == OpKind::kContainer) continue;
    if (kind == OpKind::kComposite && !GetOpInfo(op).decomposes) continue;  // that cannot be decomposed
    const bool gives_tensors = std::any_of(schema->returns.begin(), schema->returns.end(),
                                           [](const Argument& r) { return absl::StrContains(r.type_text, "Tensor"); });
    EXPECT_TRUE(!gives_tensors || with.contains(op.full()) || without.contains(op.full())) << op.full();
  }
  EXPECT_LT(without.size() * 20, with.size());
}

}  // namespace
}  // namespace smelt
