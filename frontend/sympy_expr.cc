#include "smelt/frontend/sympy_expr.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr int kMaxDepth = 200;

// A float that sizes give exactly: over / 2^n, whose products and sums no float64 rounds while sizes stay below 2^28. A
// quotient by another number is rounded, and still cut off to the same integer as the exact quotient.
struct Quotient {
  Quotient(Expr e) : over(std::move(e)) {}  // NOLINT: implicit on purpose
  Quotient(Expr o, int64_t u, bool f, bool r = false) : over(std::move(o)), under(u), is_float(f), is_rounded(r) {}
  Expr over;
  int64_t under = 1;
  bool is_float = false;
  bool is_rounded = false;
  bool is_factor = false;  // a number that is rounded, whose products with integers are cut off to what this one's are
};
constexpr int64_t kMostUnder = int64_t{1} << 24;

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Expr> Parse() {
    SMELT_ASSIGN_OR_RETURN(const Quotient e, ParseCall(0));
    SkipSpace();
    if (at_ != text_.size()) return Bad("the end");
    return Integer(e);
  }

 private:
  absl::Status Bad(absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat("expression \"", text_.substr(0, 200), "\", position ", at_, ": expected ", expected));
  }
  void SkipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Eat(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::string_view Word() {
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // "poison" is how an expression without a value prints.
  static bool IsIdentifier(absl::string_view word) {
    return !word.empty() && (std::isalpha(static_cast<unsigned char>(word[0])) || word[0] == '_') && word != "poison" &&
           word.find('.') == absl::string_view::npos;
  }
  absl::StatusOr<int64_t> Number() {
    SkipSpace();
    const size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    int64_t value;
    if (!absl::SimpleAtoi(text_.substr(begin, at_ - begin), &value)) return Bad("a 64-bit integer");
    return value;
  }

  absl::Status Unsupported(absl::string_view what) const {
    return absl::UnimplementedError(absl::StrCat(what, " in the size expression \"", text_.substr(0, 200), "\""));
  }
  absl::StatusOr<Expr> Integer(const Quotient& q) const {
    if (q.is_float || q.under != 1) return Unsupported("a float");
    return q.over;
  }
  // Float('0.5', precision=53)
  absl::StatusOr<Quotient> Float() {
    if (!Eat('\'')) return Bad("a quoted number");
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '\'') ++at_;
    const absl::string_view number = text_.substr(begin, at_ - begin);
    double d;
    if (!Eat('\'') || !absl::SimpleAtod(number, &d)) return Bad("a quoted number");
    while (Eat(',')) {
      if (Word().empty() || !Eat('=') || Word().empty()) return Bad("a precision");
    }
    if (!Eat(')')) return Bad("')'");
    const double given = d;
    int64_t under = 1;
    for (; d != std::floor(d) && under < kMostUnder; under *= 2) d *= 2;
    if (d == std::floor(d) && std::abs(d) <= static_cast<double>(kMostUnder)) {
      return Quotient(static_cast<int64_t>(d), under, true);
    }
    if (const std::optional<Quotient> q = AsFraction(given)) return *q;
    return Unsupported(absl::StrCat("the number ", number));
  }
  // Returns 11 / 10 for 1.1, if that fraction times a size is cut off to the same integer as the number times the size,
  // which is rounded. Away from integers it is. Where the fraction's product is an integer, the number's product is
  // rounded to that integer from above, and from below as long as the two are at most half of a last place apart, which
  // is smallest beneath a power of two.
  static std::optional<Quotient> AsFraction(double d) {
    constexpr int64_t kMostParts = 1000;
    if (!(d > 0 && d < 1000)) return std::nullopt;
    int exponent;
    const auto digits = static_cast<int64_t>(std::ldexp(std::frexp(d, &exponent), 53));  // d = digits / 2^shift
    const int shift = 53 - exponent;
    for (int64_t under = 3; under <= kMostParts; ++under) {
      const auto over = static_cast<int64_t>(std::round(d * static_cast<double>(under)));
      if (static_cast<double>(over) / static_cast<double>(under) != d || shift > 62) continue;
      const absl::int128 fraction = absl::int128(over) << shift, below = fraction - absl::int128(digits) * under;
      if (below > 0 && (below << 54) > fraction) return std::nullopt;
      Quotient q(over, under, true, true);
      q.is_factor = true;
      return q;
    }
    return std::nullopt;
  }

  absl::StatusOr<Quotient> ParseCall(int depth) {
    if (depth > kMaxDepth) return Bad(absl::StrCat("nesting of at most ", kMaxDepth));
    SkipSpace();
    if (at_ < text_.size() && (text_[at_] == '-' || std::isdigit(static_cast<unsigned char>(text_[at_])))) {
      SMELT_ASSIGN_OR_RETURN(int64_t v, Number());
      return Quotient(Expr(v));
    }
    const absl::string_view name = Word();
    if (name.empty()) return Bad("a function name");
    if (!Eat('(')) {
      if (!IsIdentifier(name)) return Bad("a symbol");
      return Quotient(Expr::Symbol(name));
    }
    if (name == "Float") return Float();
    if (name == "Integer") {
      SMELT_ASSIGN_OR_RETURN(int64_t v, Number());
      if (!Eat(')')) return Bad("')'");
      return Quotient(Expr(v));
    }
    if (name == "Symbol") {
      if (!Eat('\'')) return Bad("a quoted symbol");
      const absl::string_view symbol = Word();
      if (!IsIdentifier(symbol) || !Eat('\'')) return Bad("a quoted symbol");
      while (Eat(',')) {  // assumptions: positive=True
        if (Word().empty() || !Eat('=') || Word().empty()) return Bad("an assumption");
      }
      if (!Eat(')')) return Bad("')'");
      return Quotient(Expr::Symbol(symbol));
    }
    std::vector<Quotient> args;
    if (!Eat(')')) {
      do {
        SkipSpace();
        const size_t before = at_;
        const absl::string_view word = Word();
        if (!word.empty() && Eat('=')) {  // evaluate=False
          if (Word().empty()) return Bad("a keyword's value");
          continue;
        }
        at_ = before;
        SMELT_ASSIGN_OR_RETURN(Quotient q, ParseCall(depth + 1));
        args.push_back(std::move(q));
      } while (Eat(','));
      if (!Eat(')')) return Bad("')'");
    }
    const bool floats = std::any_of(args.begin(), args.end(), [](const Quotient& q) { return q.is_float; });
    if (floats || name == "ToFloat" || name == "IntTrueDiv" || name == "FloatTrueDiv") return ApplyToFloats(name, args);
    std::vector<Expr> integers;
    for (const Quotient& q : args) integers.push_back(q.over);
    SMELT_ASSIGN_OR_RETURN(Expr e, Apply(name, integers));
    return Quotient(std::move(e));
  }

  absl::StatusOr<Quotient> ApplyToFloats(absl::string_view name, const std::vector<Quotient>& args) const {
    if (args.empty()) return Bad("arguments");
    if (name == "ToFloat") return Quotient(args[0].over, args[0].under, true, args[0].is_rounded);
    if (name == "TruncToInt" || name == "FloorToInt") {
      const SymbolRanges any;  // of sizes, which are not negative: towards zero is down
      if (name == "TruncToInt" && any.LessOrEqual(0, args[0].over) != true) return Unsupported("a negative float");
      return Quotient(FloorDiv(args[0].over, args[0].under));
    }
    if (name == "Mul" && args.size() == 2 && args[0].is_factor != args[1].is_factor) {
      const Quotient &by = args[args[0].is_factor ? 0 : 1], &size = args[args[0].is_factor ? 1 : 0];
      if (size.under == 1) return Quotient(by.over * size.over, by.under, true, true);
    }
    for (const Quotient& q : args) {
      if (q.is_rounded) return Unsupported(absl::StrCat("the function ", name, " of a number that is rounded"));
    }
    if (name == "CeilToInt") return Quotient(-FloorDiv(-args[0].over, args[0].under));
    if (name == "IntTrueDiv" || name == "FloatTrueDiv") {
      if (args.size() != 2) return Bad("two arguments");
      const std::optional<int64_t> by = args[1].over.Constant();
      if (!by || *by <= 0 || *by > kMostUnder || args[0].under > kMostUnder || args[1].under > kMostUnder) {
        return Unsupported("a quotient by other than a positive number");
      }
      const bool exact = (*by & (*by - 1)) == 0;
      return Quotient(args[0].over * args[1].under, args[0].under * *by, true, !exact);
    }
    if (name != "Mul" && name != "Add") return Unsupported(absl::StrCat("the function ", name, " of floats"));
    Quotient q = args[0];
    for (size_t i = 1; i < args.size(); ++i) {
      const Quotient& r = args[i];
      if (q.under > kMostUnder || r.under > kMostUnder) return Unsupported("a number of too many places");
      const Expr over = name == "Mul" ? q.over * r.over : q.over * r.under + r.over * q.under;
      q = Quotient(over, q.under * r.under, true);
    }
    return q;
  }

  absl::StatusOr<Expr> Apply(absl::string_view name, const std::vector<Expr>& args) const {
    auto fold = [&](auto f) -> absl::StatusOr<Expr> {
      if (args.empty()) return Bad("arguments");
      constexpr size_t kFew = 32;
      std::vector<Expr> left = args;
      // Many terms are added in pairs of neighbours. Otherwise the whole sum would be copied for each term.
      while (left.size() > kFew) {
        const size_t half = (left.size() + 1) / 2;
        for (size_t i = 0; i < half; ++i)
          left[i] = 2 * i + 1 < left.size() ? f(left[2 * i], left[2 * i + 1]) : left[2 * i];
        left.resize(half);
      }
      Expr e = left[0];
      for (size_t i = 1; i < left.size(); ++i) e = f(e, left[i]);
      return e;
    };
    if (name == "Add") return fold([](const Expr& a, const Expr& b) { return a + b; });
    if (name == "Mul") return fold([](const Expr& a, const Expr& b) { return a * b; });
    if (name == "Max") return fold([](const Expr& a, const Expr& b) { return Max(a, b); });
    if (name == "Min") return fold([](const Expr& a, const Expr& b) { return Min(a, b); });
    if (name == "TruncToInt" || name == "FloorToInt" || name == "CeilToInt") {
      if (args.size() != 1) return Bad("one argument");
      return args[0];
    }
    if (name == "FloorDiv" || name == "CleanDiv") {
      if (args.size() != 2) return Bad("two arguments");
      return FloorDiv(args[0], args[1]);
    }
    if (name == "Mod" || name == "PythonMod") {
      if (args.size() != 2) return Bad("two arguments");
      return Mod(args[0], args[1]);
    }
    if (name == "ModularIndexing") {
      if (args.size() != 3) return Bad("three arguments");
      return Mod(FloorDiv(args[0], args[1]), args[2]);
    }
    if (name == "Pow" || name == "PowByNatural") {
      if (args.size() != 2) return Bad("two arguments");
      if (!args[1].IsConstant()) return Unsupported("a power with an exponent that is no constant");
      const int64_t n = *args[1].Constant();
      if (n < 0 || n > 16) return absl::UnimplementedError(absl::StrCat("exponent ", n, " in \"", text_, "\""));
      Expr e = 1;
      for (int64_t i = 0; i < n; ++i) e = e * args[0];
      return e;
    }
    return Unsupported(absl::StrCat("function ", name));
  }

  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<Expr> ParseSympyExpr(absl::string_view text) { return Parser(text).Parse(); }

bool DependsOnData(const Expr& e) {
  const std::vector<std::string> symbols = e.Symbols();
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s[0] == 'u'; });
}

std::optional<Expr> FindQuotient(const Expr& e) {
  if (e.IsConstant() || e.IsSymbol() || e.IsPoison()) return std::nullopt;
  const Expr::View view = e.Decompose();
  if (view.op == Expr::Op::kFloorDiv) return e;
  for (const Expr& operand : view.operands) {
    if (auto found = FindQuotient(operand)) return found;
  }
  return std::nullopt;
}

}  // namespace smelt
