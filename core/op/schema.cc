#include "smelt/core/op/schema.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/cursor.h"
#include "smelt/core/ir/type_parser.h"
#include "smelt/core/op/recent.h"

namespace smelt {

extern const char kSchemaData[];  // made by the build: a schema a line, "#" lines are comments

bool FunctionSchema::IsMutable() const {
  auto writes = [](const auto& self, const AliasInfo& a) -> bool {
    if (a.is_write) return true;
    for (const AliasInfo& c : a.contained) {
      if (self(self, c)) return true;
    }
    return false;
  };
  for (const Argument& a : arguments) {
    if (writes(writes, a.alias)) return true;
  }
  return false;
}

bool IsWritten(const Argument& a) {
  if (a.alias.is_write) return true;
  for (const AliasInfo& c : a.alias.contained) {
    if (c.is_write) return true;
  }
  return false;
}

int FunctionSchema::FindArgument(absl::string_view name) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int FunctionSchema::NumRequired() const {
  return static_cast<int>(std::count_if(arguments.begin(), arguments.end(),
                                        [](const Argument& a) { return !a.default_value.has_value(); }));
}

// --- printing ---

namespace {

// PyTorch prints 17 digits, even if fewer suffice.
std::string TorchDouble(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer), "%.17g", d);
  std::string text = buffer;
  if (text.find_first_of(".e") == std::string::npos) text.push_back('.');
  return text;
}

std::string TorchQuote(absl::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    switch (c) {
      case '\\':
        out += "\\\\";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\'':
        out += "\\'";
        break;
      case '\a':
        out += "\\a";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\v':
        out += "\\v";
        break;
      default:
        out.push_back(c);
    }
  }
  return out + "\"";
}

std::string DefaultToText(const ConstantValue& v) {
  auto join = [](const auto& list, const auto& f) {
    std::string out = "[";
    for (size_t i = 0; i < list.size(); ++i) absl::StrAppend(&out, i > 0 ? ", " : "", f(list[i]));
    return out + "]";
  };
  return std::visit(
      [&](const auto& x) -> std::string {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) return "None";
        if constexpr (std::is_same_v<T, int64_t>) return absl::StrCat(x);
        if constexpr (std::is_same_v<T, double>) return TorchDouble(x);
        if constexpr (std::is_same_v<T, bool>) return x ? "True" : "False";
        if constexpr (std::is_same_v<T, std::string>) return TorchQuote(x);
        if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          return join(x, [](int64_t i) { return absl::StrCat(i); });
        if constexpr (std::is_same_v<T, std::vector<double>>) return join(x, TorchDouble);
        if constexpr (std::is_same_v<T, std::vector<bool>>) return join(x, [](bool b) { return b ? "True" : "False"; });
        return "?";  // no schema has a tensor or a complex number as default
      },
      v);
}

}  // namespace

std::string FunctionSchema::ToString() const {
  std::string out = absl::StrCat(op.full(), "(");
  bool kw_only = false, first = true;
  auto separate = [&] {
    if (!first) out += ", ";
    first = false;
  };
  for (const Argument& a : arguments) {
    if (a.kw_only && !kw_only) {
      kw_only = true;
      separate();
      out += "*";
    }
    separate();
    absl::StrAppend(&out, a.type_text, a.name.empty() ? "" : " ", a.name);
    if (a.default_value) absl::StrAppend(&out, "=", DefaultToText(*a.default_value));
  }
  if (is_vararg) {
    separate();
    out += "...";
  }
  out += ") -> ";
  std::string results;
  for (size_t i = 0; i < returns.size(); ++i) {
    const Argument& r = returns[i];
    absl::StrAppend(&results, i > 0 ? ", " : "", r.type_text, r.name.empty() ? "" : " ", r.name);
  }
  if (is_varret) absl::StrAppend(&results, returns.empty() ? "" : ", ", "...");
  bool bare = (returns.size() == 1 && !is_varret && !absl::StartsWith(results, "(")) || (returns.empty() && is_varret);
  if (bare) return out + results;
  absl::StrAppend(&out, "(", results, ")");
  return out;
}

// --- parsing ---

namespace {

TypeKind DefaultKind(const Type& type) {
  return type.kind() == TypeKind::kOptional ? DefaultKind(type.element()) : type.kind();
}

absl::StatusOr<ConstantValue> ParseDefault(Cursor& c, const Type& type) {
  c.SkipSpaces();
  char ch = c.Peek();
  if (c.TryConsume("None")) return ConstantValue(std::monostate());
  if (c.TryConsume("True")) return ConstantValue(true);
  if (c.TryConsume("False")) return ConstantValue(false);
  if (ch == '"' || ch == '\'') {
    SMELT_ASSIGN_OR_RETURN(std::string s, c.QuotedString());
    return ConstantValue(std::move(s));
  }
  if (ch == '[') {
    c.Skip();
    std::vector<int64_t> ints;
    std::vector<double> doubles;
    std::vector<bool> bools;
    size_t count = 0;
    bool any_double = false;
    for (c.SkipSpaces(); c.Peek() != ']'; c.SkipSpaces(), ++count) {
      if (count > 0) SMELT_RETURN_IF_ERROR(c.Consume(","));
      if (c.TryConsume("True")) {
        bools.push_back(true);
      } else if (c.TryConsume("False")) {
        bools.push_back(false);
      } else {
        SMELT_ASSIGN_OR_RETURN(auto number, c.Number());
        if (const int64_t* i = std::get_if<int64_t>(&number)) {
          ints.push_back(*i);
          doubles.push_back(static_cast<double>(*i));
        } else {
          any_double = true;
          doubles.push_back(std::get<double>(number));
        }
      }
    }
    c.Skip();
    const Type& list = type.kind() == TypeKind::kOptional ? type.element() : type;
    TypeKind element = list.kind() == TypeKind::kList ? list.element().kind() : TypeKind::kInt;
    if (!bools.empty() || (count == 0 && element == TypeKind::kBool)) return ConstantValue(std::move(bools));
    if (any_double || element == TypeKind::kFloat) return ConstantValue(std::move(doubles));
    return ConstantValue(std::move(ints));
  }
  if (!IsDigit(ch) && ch != '-' && ch != '.' && !c.LooksAtWord("inf") && !c.LooksAtWord("nan")) {
    return c.Expected("a default value");
  }
  SMELT_ASSIGN_OR_RETURN(auto number, c.Number());
  if (const double* d = std::get_if<double>(&number)) return ConstantValue(*d);
  int64_t i = std::get<int64_t>(number);
  // int[2] padding=0 means [0, 0].
  if (DefaultKind(type) == TypeKind::kFloat) return ConstantValue(static_cast<double>(i));
  return ConstantValue(i);
}

class SchemaParser {
 public:
  explicit SchemaParser(absl::string_view text) : c_(text) {}

  absl::StatusOr<FunctionSchema> Parse() {
    FunctionSchema schema;
    c_.SkipSpaces();
    size_t start = c_.pos();
    while (IsIdentifierChar(c_.Peek()) || c_.Peek() == ':' || c_.Peek() == '.') c_.Skip();
    if (c_.pos() == start) return c_.Expected("an operator's name");
    schema.op = OpName::Get(c_.Since(start));
    SMELT_RETURN_IF_ERROR(c_.Consume("("));
    bool kw_only = false, first = true;
    for (c_.SkipSpaces(); c_.Peek() != ')'; c_.SkipSpaces()) {
      if (!first) SMELT_RETURN_IF_ERROR(c_.Consume(","));
      first = false;
      if (schema.is_vararg) return c_.Expected("')' after '...'");
      if (c_.TryConsume("...")) {
        schema.is_vararg = true;
      } else if (c_.TryConsume("*")) {
        kw_only = true;
      } else {
        SMELT_ASSIGN_OR_RETURN(Argument a, ParseArgument(/*is_result=*/false));
        a.kw_only = kw_only;
        if (schema.FindArgument(a.name) >= 0)
          return c_.Error(absl::StrCat("expected arguments of different names, found two ", a.name));
        schema.arguments.push_back(std::move(a));
      }
      if (schema.arguments.size() > 1000) return c_.Error("expected at most 1000 arguments");
    }
    c_.Skip();
    SMELT_RETURN_IF_ERROR(c_.Consume("->"));
    SMELT_RETURN_IF_ERROR(ParseReturns(schema));
    c_.SkipSpaces();
    if (!c_.AtEnd()) return c_.Expected("the schema's end");
    return schema;
  }

 private:
  absl::StatusOr<Argument> ParseArgument(bool is_result) {
    Argument a;
    c_.SkipSpaces();
    size_t start = c_.pos();
    TypeParseOptions options;
    options.alias = &a.alias;
    options.fresh_sets = &fresh_sets_;
    SMELT_ASSIGN_OR_RETURN(a.type, ParseType(c_, options));
    a.type_text = std::string(c_.Since(start));
    a.name = std::string(c_.Identifier());
    if (a.name.empty() && !is_result) return c_.Expected("the argument's name");
    if (c_.TryConsume("=")) {
      SMELT_ASSIGN_OR_RETURN(a.default_value, ParseDefault(c_, a.type));
    }
    return a;
  }

  absl::Status ParseReturns(FunctionSchema& schema) {
    if (c_.TryConsume("...")) {
      schema.is_varret = true;
      return absl::OkStatus();
    }
    c_.SkipSpaces();
    if (c_.Peek() != '(') {
      SMELT_ASSIGN_OR_RETURN(Argument a, ParseArgument(/*is_result=*/true));
      schema.returns.push_back(std::move(a));
      return absl::OkStatus();
    }
    c_.Skip();
    for (c_.SkipSpaces(); c_.Peek() != ')'; c_.SkipSpaces()) {
      if (!schema.returns.empty()) SMELT_RETURN_IF_ERROR(c_.Consume(","));
      if (c_.TryConsume("...")) {
        schema.is_varret = true;
        break;
      }
      SMELT_ASSIGN_OR_RETURN(Argument a, ParseArgument(/*is_result=*/true));
      schema.returns.push_back(std::move(a));
      if (schema.returns.size() > 1000) return c_.Error("expected at most 1000 results");
    }
    return c_.Consume(")");
  }

  Cursor c_;
  int fresh_sets_ = 0;
};

}  // namespace

absl::StatusOr<FunctionSchema> ParseSchema(absl::string_view text) { return SchemaParser(text).Parse(); }

// --- the table ---

namespace {

class SchemaTable {
 public:
  static const SchemaTable& Get() {
    static const SchemaTable& table = *new SchemaTable;
    return table;
  }

  const FunctionSchema* Find(OpName op) const {
    auto it = by_op_.find(op);
    return it == by_op_.end() ? nullptr : &Parsed(*it->second);
  }

  std::vector<const FunctionSchema*> Overloads(absl::string_view name) const {
    std::vector<const FunctionSchema*> result;
    auto it = by_name_.find(name);
    if (it == by_name_.end()) return result;
    for (Entry* e : it->second) result.push_back(&Parsed(*e));
    return result;
  }

  const std::vector<absl::string_view>& names() const { return names_; }

 private:
  struct Entry {
    absl::string_view line;
    std::once_flag once;
    std::unique_ptr<const FunctionSchema> schema;
  };

  SchemaTable() {
    absl::string_view data = kSchemaData;
    while (!data.empty()) {
      size_t end = std::min(data.find('\n'), data.size());
      absl::string_view line = data.substr(0, end);
      data.remove_prefix(std::min(end + 1, data.size()));
      if (line.empty() || line[0] == '#') continue;
      entries_.push_back(std::make_unique<Entry>());
      Entry& entry = *entries_.back();
      entry.line = line;
      absl::string_view full = line.substr(0, line.find('('));
      OpName op = OpName::Get(full);
      SMELT_CHECK(by_op_.try_emplace(op, &entry).second) << "two schemas of " << op.full();
      by_name_[op.name()].push_back(&entry);
      names_.push_back(full);
    }
    std::sort(names_.begin(), names_.end());
  }

  static const FunctionSchema& Parsed(Entry& entry) {
    std::call_once(entry.once, [&] {
      absl::StatusOr<FunctionSchema> schema = ParseSchema(entry.line);
      SMELT_CHECK_OK(schema) << " in the built-in schema " << entry.line;
      entry.schema = std::make_unique<const FunctionSchema>(*std::move(schema));
    });
    return *entry.schema;
  }

  std::vector<std::unique_ptr<Entry>> entries_;
  absl::flat_hash_map<OpName, Entry*> by_op_;
  absl::flat_hash_map<std::string, std::vector<Entry*>> by_name_;
  std::vector<absl::string_view> names_;
};

}  // namespace

namespace op_internal {

// The schemas of operators that users declare (core/op/declare.h). A name goes with its schema, so nothing here is ever
// replaced: compilations that declare one name differently have different names.
class DeclaredSchemas {
 public:
  static DeclaredSchemas& Get() {
    static DeclaredSchemas& schemas = *new DeclaredSchemas;
    return schemas;
  }
  void Add(FunctionSchema schema) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<const FunctionSchema>& entry = by_op_[schema.op];
    if (entry == nullptr) entry = std::make_unique<const FunctionSchema>(std::move(schema));
  }
  const FunctionSchema* Find(OpName op) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = by_op_.find(op);
    return it == by_op_.end() ? nullptr : it->second.get();
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_map<OpName, std::unique_ptr<const FunctionSchema>> by_op_;
};

void AddDeclaredSchema(FunctionSchema schema) { DeclaredSchemas::Get().Add(std::move(schema)); }

}  // namespace op_internal

const FunctionSchema* FindSchema(OpName op) {
  return op_internal::Recent<FunctionSchema>(op, [](OpName o) {
    const FunctionSchema* known = SchemaTable::Get().Find(o);
    return known != nullptr || !o ? known : op_internal::DeclaredSchemas::Get().Find(o);
  });
}
std::vector<const FunctionSchema*> FindOverloads(absl::string_view name) { return SchemaTable::Get().Overloads(name); }
std::vector<absl::string_view> AllSchemaNames() { return SchemaTable::Get().names(); }

absl::StatusOr<std::vector<FilledArgument>> FillDefaults(const FunctionSchema& schema, int num_positional,
                                                         absl::Span<const std::string> keyword_names) {
  auto fail = [&](auto&&... what) { return absl::InvalidArgumentError(absl::StrCat(schema.op.full(), ": ", what...)); };
  std::vector<FilledArgument> result(schema.arguments.size());
  std::vector<bool> given(schema.arguments.size(), false);
  int positional = 0;
  for (size_t i = 0; i < schema.arguments.size() && positional < num_positional; ++i) {
    if (schema.arguments[i].kw_only) break;
    result[i] = {FilledArgument::Kind::kPositional, positional++, {}};
    given[i] = true;
  }
  if (positional < num_positional) {
    if (!schema.is_vararg)
      return fail("expected at most ", positional, " positional arguments, found ", num_positional);
    for (; positional < num_positional; ++positional)
      result.push_back({FilledArgument::Kind::kPositional, positional, {}});
  }
  for (size_t k = 0; k < keyword_names.size(); ++k) {
    int i = schema.FindArgument(keyword_names[k]);
    if (i < 0) return fail("it has no argument \"", keyword_names[k], "\"; its schema is ", schema.ToString());
    if (given[i]) return fail("argument \"", keyword_names[k], "\" is given twice");
    given[i] = true;
    result[i] = {FilledArgument::Kind::kKeyword, static_cast<int>(k), {}};
  }
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    if (given[i]) continue;
    if (!schema.arguments[i].default_value) return fail("argument \"", schema.arguments[i].name, "\" is missing");
    result[i] = {FilledArgument::Kind::kDefault, 0, *schema.arguments[i].default_value};
  }
  return result;
}

}  // namespace smelt
