#include "smelt/core/ir/attribute_text.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/tensor_text.h"
#include "smelt/core/ir/type_parser.h"

namespace smelt {

namespace {

bool IsKind(const Type* t, TypeKind kind) { return t != nullptr && t->kind() == kind; }
bool IsListOf(const Type* t, TypeKind kind) {
  return t != nullptr && t->kind() == TypeKind::kList && t->element().kind() == kind;
}
// A constant of type int? is printed as one of type int.
const Type* Unwrapped(const Type* t) { return IsKind(t, TypeKind::kOptional) ? &t->element() : t; }

// Skips to the ',' or ']' that ends the attribute; strings and brackets are skipped as a whole. Returns false at the
// end of the line.
bool SkipToEnd(Cursor& c) {
  int depth = 0;
  while (!c.AtLineEnd()) {
    char ch = c.Peek();
    if (depth == 0 && (ch == ',' || ch == ']')) return true;
    if (ch == '(' || ch == '[' || ch == '{') ++depth;
    if (ch == ')' || ch == ']' || ch == '}') --depth;
    if (ch == '"' || ch == '\'') {
      if (!c.QuotedString().ok()) return false;
      continue;
    }
    c.Skip();
  }
  return false;
}

absl::StatusOr<Attribute> ParseOpaque(Cursor& c) {
  size_t start = c.pos();
  if (!SkipToEnd(c)) return c.ErrorAt(start, "expected the attribute that begins here to end in its line");
  absl::string_view text = c.Since(start);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty()) return c.Expected("an attribute's value");
  return OpaqueAttribute{std::string(text)};
}

// Called after a number: reads the rest if it is the real part of "1.+2.j" or an imaginary number itself.
absl::StatusOr<std::optional<std::complex<double>>> TryComplex(Cursor& c, double real) {
  if (c.Peek() == 'j') {
    c.Skip();
    return std::optional<std::complex<double>>(std::complex<double>(0, real));
  }
  if (c.Peek() != '+' && c.Peek() != '-') return std::optional<std::complex<double>>();
  if (c.Peek() == '+') c.Skip();
  SMELT_ASSIGN_OR_RETURN(auto number, c.Number());
  SMELT_RETURN_IF_ERROR(c.Consume("j"));
  double imaginary = std::holds_alternative<double>(number) ? std::get<double>(number)
                                                            : static_cast<double>(std::get<int64_t>(number));
  return std::optional<std::complex<double>>(std::complex<double>(real, imaginary));
}

absl::StatusOr<std::vector<Expr>> ParseExprs(Cursor& c, absl::string_view word) {
  c.Skip(word.size());
  SMELT_RETURN_IF_ERROR(c.Consume("("));
  std::vector<Expr> exprs;
  for (c.SkipSpaces(); c.Peek() != ')'; c.SkipSpaces()) {
    if (!exprs.empty()) SMELT_RETURN_IF_ERROR(c.Consume(","));
    SMELT_ASSIGN_OR_RETURN(Expr e, ParseSizeExpr(c));
    exprs.push_back(std::move(e));
  }
  c.Skip();
  return exprs;
}

// Parses "[...]" of numbers, strings or booleans; everything else stays as written.
absl::StatusOr<Attribute> ParseListAttribute(Cursor& c, const Type* hint) {
  size_t start = c.pos();
  c.Skip();
  std::vector<int64_t> ints;
  std::vector<double> doubles;
  std::vector<bool> bools;
  std::vector<std::string> strings;
  bool any_double = false;
  size_t count = 0;
  bool plain = true;
  for (c.SkipSpaces(); plain && c.Peek() != ']'; c.SkipSpaces()) {
    if (c.AtEnd() || (count > 0 && !c.TryConsume(","))) {
      plain = false;
      break;
    }
    c.SkipSpaces();
    char ch = c.Peek();
    if (ch == '"' || ch == '\'') {
      absl::StatusOr<std::string> s = c.QuotedString();
      if (!s.ok()) return s.status();
      strings.push_back(*std::move(s));
    } else if (c.LooksAtWord("True") || c.LooksAtWord("False")) {
      bools.push_back(ch == 'T');
      c.Skip(ch == 'T' ? 4 : 5);
    } else if (IsDigit(ch) || ch == '-' || ch == '.' || c.LooksAtWord("inf") || c.LooksAtWord("nan")) {
      SMELT_ASSIGN_OR_RETURN(auto number, c.Number());
      if (const int64_t* i = std::get_if<int64_t>(&number)) {
        ints.push_back(*i);
        doubles.push_back(static_cast<double>(*i));
      } else {
        any_double = true;
        doubles.push_back(std::get<double>(number));
      }
    } else {
      plain = false;
    }
    ++count;
  }
  bool one_kind = (count == doubles.size()) + (count == bools.size()) + (count == strings.size()) >= 1;
  if (!plain || !one_kind) {
    c.Seek(start);
    return ParseOpaque(c);
  }
  c.Skip();
  char next = (c.SkipBlanks(), c.Peek());
  if (next != ',' && next != ']' && next != ')') {
    c.Seek(start);
    return ParseOpaque(c);
  }
  if (count == 0) {
    if (IsListOf(hint, TypeKind::kFloat)) return Attribute(std::vector<double>());
    if (IsListOf(hint, TypeKind::kBool)) return Attribute(std::vector<bool>());
    if (IsListOf(hint, TypeKind::kString)) return Attribute(std::vector<std::string>());
    if (hint == nullptr || IsListOf(hint, TypeKind::kInt)) return Attribute(std::vector<int64_t>());
    return Attribute(OpaqueAttribute{"[]"});
  }
  if (!strings.empty()) return Attribute(std::move(strings));
  if (!bools.empty()) return Attribute(std::move(bools));
  if (!any_double && IsListOf(hint, TypeKind::kBool)) {
    for (int64_t i : ints) bools.push_back(i != 0);
    return Attribute(std::move(bools));
  }
  if (any_double || IsListOf(hint, TypeKind::kFloat)) return Attribute(std::move(doubles));
  return Attribute(std::move(ints));
}

// A case for each form that an attribute begins with. PyTorch prints several of them without their kind, so the order
// of the cases decides.
absl::StatusOr<Attribute> ParsePlain(Cursor& c, const Type* hint) {
  size_t start = c.pos();
  char ch = c.Peek();
  if (IsDigit(ch) || ch == '-' || ch == '.' || c.LooksAtWord("inf") || c.LooksAtWord("nan")) {
    SMELT_ASSIGN_OR_RETURN(auto number, c.Number());
    double real = std::holds_alternative<double>(number) ? std::get<double>(number)
                                                         : static_cast<double>(std::get<int64_t>(number));
    SMELT_ASSIGN_OR_RETURN(auto complex, TryComplex(c, real));
    if (complex) return Attribute(*complex);
    if (const int64_t* i = std::get_if<int64_t>(&number)) {
      if (IsKind(hint, TypeKind::kBool)) return Attribute(*i != 0);
      if (IsKind(hint, TypeKind::kFloat)) return Attribute(static_cast<double>(*i));
      return Attribute(*i);
    }
    return Attribute(std::get<double>(number));
  }
  if (ch == '"' || ch == '\'') {
    SMELT_ASSIGN_OR_RETURN(std::string s, c.QuotedString());
    return Attribute(std::move(s));
  }
  if (ch == '[') return ParseListAttribute(c, hint);
  if (ch == '{') {
    if (absl::StatusOr<Tensor> t = ParseOneElementTensor(c, hint); t.ok()) return Attribute(*std::move(t));
    c.Seek(start);
    return ParseOpaque(c);  // a dictionary
  }
  if (ch == '<') {
    if (c.LooksAt("<Tensor>")) return ParseOpaque(c);
    if (c.LooksAt("<Graph>")) {
      c.Skip(7);
      return Attribute(std::shared_ptr<Graph>());
    }
    bool is_tensor = c.LooksAt("<Undefined>");
    for (int i = 0; i < kNumDTypes && !is_tensor; ++i) {
      is_tensor = c.LooksAt(absl::StrCat("<", ScalarTypeName(static_cast<DType>(i)), "("));
    }
    if (!is_tensor) return ParseOpaque(c);
    SMELT_ASSIGN_OR_RETURN(Tensor t, ParseTensor(c));
    return Attribute(std::move(t));
  }
  if (c.LooksAtWord("True") || c.LooksAtWord("False")) {
    c.Skip(ch == 'T' ? 4 : 5);
    return Attribute(ch == 'T');
  }
  if (c.LooksAt("expr(")) {
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> exprs, ParseExprs(c, "expr"));
    if (exprs.size() != 1) return c.ErrorAt(start, "expected one expression");
    return Attribute(std::move(exprs[0]));
  }
  if (c.LooksAt("exprs(")) {
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> exprs, ParseExprs(c, "exprs"));
    return Attribute(std::move(exprs));
  }
  if (c.LooksAt("complex(")) {
    c.Skip(8);
    double parts[2];
    for (int i = 0; i < 2; ++i) {
      if (i > 0) SMELT_RETURN_IF_ERROR(c.Consume(","));
      SMELT_ASSIGN_OR_RETURN(auto number, c.Number());
      parts[i] = std::holds_alternative<double>(number) ? std::get<double>(number)
                                                        : static_cast<double>(std::get<int64_t>(number));
    }
    SMELT_RETURN_IF_ERROR(c.Consume(")"));
    return Attribute(std::complex<double>(parts[0], parts[1]));
  }
  if (c.LooksAt("type(")) {
    c.Skip(5);
    SMELT_ASSIGN_OR_RETURN(Type t, ParseType(c));
    SMELT_RETURN_IF_ERROR(c.Consume(")"));
    return Attribute(std::move(t));
  }
  if (c.LooksAt("opaque(")) {
    c.Skip(7);
    SMELT_ASSIGN_OR_RETURN(std::string s, c.QuotedString());
    SMELT_RETURN_IF_ERROR(c.Consume(")"));
    return Attribute(OpaqueAttribute{std::move(s)});
  }
  if (c.LooksAt("annotate(")) {
    // annotate(List[int], []): a list whose elements do not show its kind.
    c.Skip(9);
    absl::StatusOr<Type> type = ParseType(c);
    if (type.ok() && c.TryConsume(",")) {
      c.SkipSpaces();
      absl::StatusOr<Attribute> inner =
          c.Peek() == '[' ? ParseListAttribute(c, &*type) : absl::InvalidArgumentError("");
      if (inner.ok() && !std::holds_alternative<OpaqueAttribute>(*inner) && c.TryConsume(")")) return inner;
    }
    c.Seek(start);
    return ParseOpaque(c);
  }
  return ParseOpaque(c);
}

}  // namespace

absl::StatusOr<Attribute> ParseAttribute(Cursor& c, const Type* hint) {
  hint = Unwrapped(hint);
  c.SkipBlanks();
  size_t start = c.pos();
  // PyTorch prints a small tensor as " 1  2 [ CPULongType{2} ]", "(1,.,.) = ...": only its end identifies it.
  char ch = c.Peek();
  if ((IsDigit(ch) || ch == '-' || ch == '(' || ch == '[' || c.LooksAtWord("nan") || c.LooksAtWord("inf")) &&
      SkipToEnd(c)) {
    absl::string_view raw = c.Since(start);
    while (!raw.empty() && raw.back() == ' ') raw.remove_suffix(1);
    if (raw.size() > 8 && raw.substr(raw.size() - 3) == "} ]") {
      if (std::optional<Tensor> t = ParseTorchTensor(raw, hint)) return Attribute(*std::move(t));
      return Attribute(OpaqueAttribute{std::string(raw)});
    }
  }
  c.Seek(start);
  SMELT_ASSIGN_OR_RETURN(Attribute attribute, ParsePlain(c, hint));
  c.SkipBlanks();
  // A text that begins like a known value but does not end like one is kept as written.
  if (c.Peek() == ',' || c.Peek() == ']' || c.Peek() == ')' || std::holds_alternative<OpaqueAttribute>(attribute))
    return attribute;
  c.Seek(start);
  return ParseOpaque(c);
}

void AppendAttribute(const Attribute& attribute, const Type* hint, std::string& out) {
  hint = Unwrapped(hint);
  auto append_list = [&](const auto& list, TypeKind kind, const auto& append) {
    bool needs_kind = list.empty() && !(IsListOf(hint, kind) || (hint == nullptr && kind == TypeKind::kInt));
    // Integers whose hint would turn them into something else.
    if (!list.empty() && kind == TypeKind::kInt) {
      needs_kind = IsListOf(hint, TypeKind::kFloat) || IsListOf(hint, TypeKind::kBool);
    }
    if (needs_kind) absl::StrAppend(&out, "annotate(", Type(kind).ToString(), "[], ");
    out += "[";
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out += ", ";
      append(list[i]);
    }
    out += needs_kind ? "])" : "]";
  };
  std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          // With a hint that would turn it into something else, it already is that (see GetConstant).
          if (IsKind(hint, TypeKind::kFloat)) {
            out += DoubleToText(static_cast<double>(x));
          } else {
            absl::StrAppend(&out, IsKind(hint, TypeKind::kBool) ? int64_t{x != 0} : x);
          }
        } else if constexpr (std::is_same_v<T, double>) {
          out += DoubleToText(x);
        } else if constexpr (std::is_same_v<T, bool>) {
          out += IsKind(hint, TypeKind::kBool) ? (x ? "1" : "0") : (x ? "True" : "False");
        } else if constexpr (std::is_same_v<T, std::string>) {
          out += Quote(x);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          append_list(x, TypeKind::kInt, [&](int64_t i) { absl::StrAppend(&out, i); });
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          append_list(x, TypeKind::kFloat, [&](double d) { out += DoubleToText(d); });
        } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
          append_list(x, TypeKind::kBool, [&](bool b) { out += b ? "True" : "False"; });
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          append_list(x, TypeKind::kString, [&](const std::string& s) { out += Quote(s); });
        } else if constexpr (std::is_same_v<T, Expr>) {
          absl::StrAppend(&out, "expr(", SizeToText(x), ")");
        } else if constexpr (std::is_same_v<T, std::vector<Expr>>) {
          out += "exprs(";
          for (size_t i = 0; i < x.size(); ++i) absl::StrAppend(&out, i > 0 ? ", " : "", SizeToText(x[i]));
          out += ")";
        } else if constexpr (std::is_same_v<T, Tensor>) {
          AppendTensor(x, out);
        } else if constexpr (std::is_same_v<T, Type>) {
          absl::StrAppend(&out, "type(", x.ToString(), ")");
        } else if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>) {
          out += "<Graph>";
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          absl::StrAppend(&out, "complex(", DoubleToText(x.real()), ", ", DoubleToText(x.imag()), ")");
        } else {
          static_assert(std::is_same_v<T, OpaqueAttribute>);
          // The original text, if it reads back as the same value.
          std::string probe = absl::StrCat(x.text, "]");
          Cursor cursor(probe);
          absl::StatusOr<Attribute> again = ParseAttribute(cursor, hint);
          const OpaqueAttribute* same = again.ok() ? std::get_if<OpaqueAttribute>(&*again) : nullptr;
          if (same != nullptr && same->text == x.text && cursor.pos() == x.text.size()) {
            out += x.text;
          } else {
            absl::StrAppend(&out, "opaque(", Quote(x.text), ")");
          }
        }
      },
      attribute);
}

}  // namespace smelt
