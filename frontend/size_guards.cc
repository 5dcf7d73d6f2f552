#include "smelt/frontend/size_guards.h"

#include <cctype>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr int kMaxDepth = 800;  // of rules, of which a parenthesis takes eight

// A quotient of integers with a nonnegative divisor. For conditions it is nonzero where the condition holds, and never
// negative.
struct Value {
  Expr over = 0, under = 1;
  bool is_condition = false;
  std::optional<Expr> zero;  // of a condition that two integers are equal: their difference

  bool IsInteger() const { return under == Expr(1); }
};

class GuardParser {
 public:
  GuardParser(absl::string_view text, const std::function<std::optional<Expr>(const GuardedNumber&)>& number)
      : text_(text), number_(number) {}

  // From the place of an argument on, which is at `begin`.
  std::optional<Expr> NumberAt(size_t begin) {
    at_ = begin;
    if (!Eat("L")) return std::nullopt;
    const absl::StatusOr<Value> v = Place();
    return v.ok() ? std::optional<Expr>(v->over) : std::nullopt;
  }

  absl::StatusOr<SizeGuardParts> Parse() {
    SMELT_ASSIGN_OR_RETURN(const Value v, Or(0));
    SkipSpace();
    if (at_ != text_.size()) return Bad("the end");
    if (!v.is_condition) return Bad("a comparison");
    return SizeGuardParts{v.over, v.zero};
  }

 private:
  absl::Status Bad(absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat("guard \"", text_.substr(0, 200), "\", position ", at_, ": expected ", expected));
  }
  absl::Status Unsupported(absl::string_view what) const {
    return absl::UnimplementedError(absl::StrCat(what, " in the guard \"", text_.substr(0, 200), "\""));
  }
  void SkipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Eat(absl::string_view token) {
    SkipSpace();
    if (!absl::StartsWith(text_.substr(at_), token)) return false;
    // A word must end there; the first half of "**" or "//" is not an operator.
    const size_t end = at_ + token.size();
    const char next = end < text_.size() ? text_[end] : ' ';
    if (std::isalpha(static_cast<unsigned char>(token.back()))) {
      if (std::isalnum(static_cast<unsigned char>(next)) || next == '_') return false;
    } else if ((token == "*" || token == "/") && next == token[0]) {
      return false;
    } else if ((token == "<" || token == ">") && next == '=') {
      return false;
    }
    at_ = end;
    return true;
  }

  static Value Condition(Expr holds) { return {std::move(holds), 1, true, std::nullopt}; }
  static Expr IsPositive(const Expr& e) { return Max(e, 0); }
  static Expr IsZero(const Expr& e) { return Expr(1) - Min(Max(e, Expr(0) - e), 1); }
  static Expr IsNot(const Expr& e) { return Max(e, Expr(0) - e); }

  absl::StatusOr<Value> Or(int depth) {
    if (depth > kMaxDepth) return Bad(absl::StrCat("nesting of at most ", kMaxDepth));
    SMELT_ASSIGN_OR_RETURN(Value v, And(depth + 1));
    while (Eat("or")) {
      SMELT_ASSIGN_OR_RETURN(const Value w, And(depth + 1));
      if (!v.is_condition || !w.is_condition) return Bad("comparisons around \"or\"");
      v = Condition(Max(v.over, w.over));
    }
    return v;
  }
  absl::StatusOr<Value> And(int depth) {
    SMELT_ASSIGN_OR_RETURN(Value v, Not(depth + 1));
    while (Eat("and")) {
      SMELT_ASSIGN_OR_RETURN(const Value w, Not(depth + 1));
      if (!v.is_condition || !w.is_condition) return Bad("comparisons around \"and\"");
      v = Condition(Min(v.over, w.over));
    }
    return v;
  }
  absl::StatusOr<Value> Not(int depth) {
    if (depth > kMaxDepth) return Bad(absl::StrCat("nesting of at most ", kMaxDepth));
    if (!Eat("not")) return Comparison(depth + 1);
    SMELT_ASSIGN_OR_RETURN(const Value v, Not(depth + 1));
    if (!v.is_condition) return Bad("a comparison behind \"not\"");
    return Condition(Expr(1) - Min(v.over, 1));
  }
  // 2 <= x < 8 is both.
  absl::StatusOr<Value> Comparison(int depth) {
    SMELT_ASSIGN_OR_RETURN(Value left, Sum(depth + 1));
    std::optional<Expr> all, zero;
    while (true) {
      std::optional<absl::string_view> op;
      for (absl::string_view o : {"<=", ">=", "==", "!=", "<", ">"}) {
        if (!op && Eat(o)) op = o;
      }
      if (!op) break;
      SMELT_ASSIGN_OR_RETURN(const Value right, Sum(depth + 1));
      if (left.is_condition || right.is_condition) return Unsupported("a comparison of conditions");
      const Expr a = left.over * right.under, b = right.over * left.under;
      Expr holds = *op == "<"    ? IsPositive(b - a)
                   : *op == ">"  ? IsPositive(a - b)
                   : *op == "<=" ? IsPositive(b - a + 1)
                   : *op == ">=" ? IsPositive(a - b + 1)
                   : *op == "==" ? IsZero(a - b)
                                 : IsNot(a - b);
      for (const Expr& under : {left.under, right.under}) {
        if (!under.IsConstant()) holds = Min(holds, under);
      }
      zero = !all && *op == "==" && left.IsInteger() && right.IsInteger() ? std::optional<Expr>(a - b) : std::nullopt;
      all = all ? Min(*all, holds) : holds;
      left = right;
    }
    if (!all) return left;
    Value v = Condition(*all);
    v.zero = zero;
    return v;
  }
  absl::StatusOr<Value> Sum(int depth) {
    SMELT_ASSIGN_OR_RETURN(Value v, Product(depth + 1));
    while (true) {
      const bool plus = Eat("+");
      if (!plus && !Eat("-")) return v;
      SMELT_ASSIGN_OR_RETURN(const Value w, Product(depth + 1));
      if (v.is_condition || w.is_condition) return Unsupported("arithmetic with conditions");
      const Expr a = v.over * w.under, b = w.over * v.under;
      v = {plus ? a + b : a - b, v.under * w.under};
    }
  }
  absl::StatusOr<Value> Product(int depth) {
    SMELT_ASSIGN_OR_RETURN(Value v, Factor(depth + 1));
    while (true) {
      std::optional<absl::string_view> op;
      for (absl::string_view o : {"//", "*", "/", "%"}) {
        if (!op && Eat(o)) op = o;
      }
      if (!op) return v;
      SMELT_ASSIGN_OR_RETURN(const Value w, Factor(depth + 1));
      if (v.is_condition || w.is_condition) return Unsupported("arithmetic with conditions");
      if (*op == "*") {
        v = {v.over * w.over, v.under * w.under};
      } else if (*op == "/") {
        SymbolRanges any;  // of sizes, which are not negative
        if (any.LessOrEqual(0, w.over) != true) return Unsupported("a divisor that may be negative");
        v = {v.over * w.under, v.under * w.over};
      } else if (!v.IsInteger() || !w.IsInteger()) {
        return Unsupported("a remainder of what is no integer");
      } else {
        v.over = *op == "//" ? FloorDiv(v.over, w.over) : Mod(v.over, w.over);
      }
    }
  }
  absl::StatusOr<Value> Factor(int depth) {
    if (depth > kMaxDepth) return Bad(absl::StrCat("nesting of at most ", kMaxDepth));
    if (Eat("-")) {
      SMELT_ASSIGN_OR_RETURN(Value v, Factor(depth + 1));
      v.over = Expr(0) - v.over;
      return v;
    }
    SMELT_ASSIGN_OR_RETURN(const Value base, Primary(depth + 1));
    if (!Eat("**")) return base;
    SMELT_ASSIGN_OR_RETURN(const Value exponent, Factor(depth + 1));
    const std::optional<int64_t> n = exponent.over.Constant();
    if (base.is_condition || !exponent.IsInteger() || !n || *n < 0 || *n > 16) {
      return Unsupported("a power with another exponent than 0 to 16");
    }
    Value v{1, 1};
    for (int64_t i = 0; i < *n; ++i) v = {v.over * base.over, v.under * base.under};
    return v;
  }
  absl::StatusOr<Value> Primary(int depth) {
    SkipSpace();
    if (Eat("(")) {
      SMELT_ASSIGN_OR_RETURN(const Value v, Or(depth + 1));
      if (!Eat(")")) return Bad("')'");
      return v;
    }
    if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.')) {
      return Number();
    }
    if (Eat("L")) return Place();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    const absl::string_view name = text_.substr(begin, at_ - begin);
    if (name == "True" || name == "False") return Condition(name == "True" ? 1 : 0);
    if (name.empty() || !Eat("(")) return Bad("a number, an argument or a function");
    return Call(name, depth + 1);
  }
  absl::StatusOr<Value> Call(absl::string_view name, int depth) {
    std::vector<Value> args;
    do {
      SMELT_ASSIGN_OR_RETURN(args.emplace_back(), Or(depth + 1));
      if (args.back().is_condition) return Unsupported("a function of a condition");
    } while (Eat(","));
    if (!Eat(")")) return Bad("')'");
    if ((name == "float" || name == "torch.sym_float") && args.size() == 1) return args[0];
    // Sizes are not negative, so rounding towards zero is rounding down.
    if ((name == "math.trunc" || name == "math.floor" || name == "int") && args.size() == 1) {
      return Value{FloorDiv(args[0].over, args[0].under), 1};
    }
    const bool max = name == "max" || name == "torch.sym_max";
    if (!max && name != "min" && name != "torch.sym_min") return Unsupported(absl::StrCat("the function ", name));
    Value v = args[0];
    for (size_t i = 1; i < args.size(); ++i) {
      const Expr a = v.over * args[i].under, b = args[i].over * v.under;
      v = {max ? Max(a, b) : Min(a, b), v.under * args[i].under};
    }
    return v;
  }
  absl::StatusOr<Value> Number() {
    const size_t begin = at_;
    const auto digits = [&] {
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    };
    digits();
    bool is_real = false;
    if (at_ < text_.size() && text_[at_] == '.') {
      is_real = true;
      ++at_;
      digits();
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      is_real = true;
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      digits();
    }
    const absl::string_view number = text_.substr(begin, at_ - begin);
    if (!is_real) {
      int64_t v;
      if (!absl::SimpleAtoi(number, &v)) return Bad("a 64-bit integer");
      return Value{v, 1};
    }
    double d;
    if (!absl::SimpleAtod(number, &d)) return Bad("a number");
    // A multiple of a power of two that products with sizes do not make too large.
    constexpr int kMostBits = 24;
    int64_t under = 1;
    while (d != std::floor(d) && under < int64_t{1} << kMostBits) {
      d *= 2;
      under *= 2;
    }
    if (d != std::floor(d) || std::abs(d) > double{int64_t{1} << 40})
      return Unsupported(absl::StrCat("the number ", number));
    return Value{static_cast<int64_t>(d), under};
  }
  // Parses the rest after L: ['x'][0].size()[1]
  absl::StatusOr<Value> Place() {
    GuardedNumber place;
    const auto integer = [&]() -> absl::StatusOr<int> {
      const size_t begin = at_;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
      int v;
      if (!absl::SimpleAtoi(text_.substr(begin, at_ - begin), &v)) return Bad("an index");
      if (!Eat("]")) return Bad("']'");
      return v;
    };
    while (Eat("[")) {
      if (!Eat("'")) {
        SMELT_ASSIGN_OR_RETURN(const int index, integer());
        place.path.push_back(absl::StrCat(index));
        continue;
      }
      const size_t end = text_.find('\'', at_);
      if (end == absl::string_view::npos) return Bad("a quoted name");
      place.path.emplace_back(text_.substr(at_, end - at_));
      at_ = end + 1;
      if (!Eat("]")) return Bad("']'");
    }
    if (place.path.empty()) return Bad("an argument");
    const bool size = Eat(".size()"), stride = !size && Eat(".stride()");
    if (size || stride) {
      place.what = size ? GuardedNumber::kSize : GuardedNumber::kStride;
      if (!Eat("[")) return Bad("a dim");
      SMELT_ASSIGN_OR_RETURN(place.dim, integer());
    } else if (Eat(".storage_offset()")) {
      place.what = GuardedNumber::kOffset;
    }
    const std::optional<Expr> e = number_(place);
    if (!e || e->IsPoison()) return Unsupported("a number of an argument that is not known");
    return Value{*e, 1};
  }

  absl::string_view text_;
  const std::function<std::optional<Expr>(const GuardedNumber&)>& number_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<SizeGuardParts> ParseSizeGuard(absl::string_view text,
                                              const std::function<std::optional<Expr>(const GuardedNumber&)>& number) {
  return GuardParser(text, number).Parse();
}

std::vector<Expr> NumbersInGuard(absl::string_view text,
                                 const std::function<std::optional<Expr>(const GuardedNumber&)>& number) {
  std::vector<Expr> numbers;
  for (size_t at = text.find("L['"); at != absl::string_view::npos; at = text.find("L['", at + 1)) {
    if (std::optional<Expr> e = GuardParser(text, number).NumberAt(at)) numbers.push_back(*std::move(e));
  }
  return numbers;
}

}  // namespace smelt
