// Printing and parsing of expressions.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/symbol/expr_internal.h"

namespace smelt {

namespace expr_internal {
Expr SumOf(absl::Span<const Expr> summands);  // of expr.cc
}  // namespace expr_internal

using namespace expr_internal;  // NOLINT: this file is part of its implementation

namespace {

void AppendExpr(const Expr& e, std::string& out);

void AppendAtom(const Atom& a, std::string& out) {
  switch (a.kind) {
    case Kind::kSymbol:
      out += a.name;
      return;
    case Kind::kFloorDiv:
      out += "floordiv(";
      break;
    case Kind::kMod:
      out += "mod(";
      break;
    case Kind::kMin:
      out += "min(";
      break;
    case Kind::kMax:
      out += "max(";
      break;
  }
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (i > 0) out += ", ";
    AppendExpr(a.operands[i], out);
  }
  out += ")";
}

void AppendExpr(const Expr& e, std::string& out) {
  const Expr::Node* n = NodeOf(e);
  if (n == nullptr) {
    absl::StrAppend(&out, ExprAccess::Constant(e));
    return;
  }
  if (n->poison) {
    out += "poison";
    return;
  }
  bool first = true;
  for (const Term& t : n->terms) {
    const bool negative = t.coefficient < 0;
    if (!first) {
      out += negative ? " - " : " + ";
    } else if (negative) {
      out += "-";
    }
    first = false;
    const uint64_t magnitude = Magnitude(t.coefficient);
    const bool print_coefficient = magnitude != 1 || t.factors.empty();
    if (print_coefficient) absl::StrAppend(&out, magnitude);
    for (size_t i = 0; i < t.factors.size(); ++i) {
      if (i > 0 || print_coefficient) out += "*";
      AppendAtom(*t.factors[i], out);
    }
  }
}

// sum := product (('+' | '-') product)*   product := unary ('*' unary)*   unary := '-' unary | primary
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Expr> Run() {
    absl::StatusOr<Expr> e = Sum();
    if (!e.ok()) return e;
    SkipSpace();
    if (at_ != text_.size()) return Error("expected an operator or the end");
    return e;
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("expression \"", text_.substr(0, 200), "\", column ", at_ + 1, ": ", what));
  }
  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::StatusOr<Expr> Sum() {
    std::vector<Expr> summands;
    for (bool plus = true;; plus = Take('+')) {
      if (!summands.empty() && !plus && !Take('-')) return SumOf(summands);
      absl::StatusOr<Expr> e = Product();
      if (!e.ok()) return e;
      summands.push_back(plus ? *e : -*e);
    }
  }

  absl::StatusOr<Expr> Product() {
    absl::StatusOr<Expr> left = Unary();
    while (left.ok() && Take('*')) {
      absl::StatusOr<Expr> right = Unary();
      if (!right.ok()) return right;
      left = *left * *right;
    }
    return left;
  }

  absl::StatusOr<Expr> Unary() {
    if (depth_ >= kMaxDepth) return Error("nested too deeply");
    ++depth_;
    absl::StatusOr<Expr> result = Take('-') ? Negated() : Primary();
    --depth_;
    return result;
  }

  absl::StatusOr<Expr> Negated() {
    SkipSpace();
    // -9223372036854775808 is a number; 9223372036854775808 is not.
    if (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) return Number(/*negative=*/true);
    absl::StatusOr<Expr> e = Unary();
    if (!e.ok()) return e;
    return -*e;
  }

  absl::StatusOr<Expr> Number(bool negative) {
    std::string digits = negative ? "-" : "";
    const size_t begin = at_;
    while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) digits += text_[at_++];
    int64_t value;
    if (!absl::SimpleAtoi(digits, &value)) {
      at_ = begin;
      return Error("the number is not an int64");
    }
    return Expr(value);
  }

  absl::StatusOr<Expr> Primary() {
    SkipSpace();
    if (at_ >= text_.size()) return Error("expected a number, a symbol, a function or a parenthesis");
    const char c = text_[at_];
    if (absl::ascii_isdigit(c)) return Number(/*negative=*/false);
    if (Take('(')) {
      absl::StatusOr<Expr> e = Sum();
      if (e.ok() && !Take(')')) return Error("expected ')'");
      return e;
    }
    if (!absl::ascii_isalpha(c) && c != '_') return Error("expected a number, a symbol, a function or a parenthesis");
    const size_t begin = at_;
    while (at_ < text_.size() && (absl::ascii_isalnum(text_[at_]) || text_[at_] == '_' || text_[at_] == '.')) ++at_;
    const absl::string_view name = text_.substr(begin, at_ - begin);
    if (!Take('(')) return name == "poison" ? Expr::Poison() : Expr::Symbol(name);
    Kind kind;
    if (name == "floordiv") {
      kind = Kind::kFloorDiv;
    } else if (name == "mod") {
      kind = Kind::kMod;
    } else if (name == "min") {
      kind = Kind::kMin;
    } else if (name == "max") {
      kind = Kind::kMax;
    } else {
      at_ = begin;
      return Error(absl::StrCat("unknown function \"", name, "\"; there are floordiv, mod, min, max"));
    }
    std::vector<Expr> operands;
    do {
      absl::StatusOr<Expr> e = Sum();
      if (!e.ok()) return e;
      operands.push_back(*std::move(e));
    } while (Take(','));
    if (!Take(')')) return Error("expected ',' or ')'");
    const bool any_number = kind == Kind::kMin || kind == Kind::kMax;
    if (operands.size() < 2 || (operands.size() > 2 && !any_number)) {
      return Error(absl::StrCat(name, " has ", operands.size(), " arguments, expected 2"));
    }
    return Apply(kind, operands);
  }

  absl::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string Expr::ToString() const {
  std::string out;
  AppendExpr(*this, out);
  return out;
}

absl::StatusOr<Expr> Expr::Parse(absl::string_view text) { return Parser(text).Run(); }

}  // namespace smelt
