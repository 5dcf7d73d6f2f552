#include "smelt/frontend/sympy_expr.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr int kMaxDepth = 200;

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Expr> Parse() {
    SMELT_ASSIGN_OR_RETURN(Expr e, ParseCall(0));
    SkipSpace();
    if (at_ != text_.size()) return Bad("the end");
    return e;
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

  absl::StatusOr<Expr> ParseCall(int depth) {
    if (depth > kMaxDepth) return Bad(absl::StrCat("nesting of at most ", kMaxDepth));
    SkipSpace();
    if (at_ < text_.size() && (text_[at_] == '-' || std::isdigit(static_cast<unsigned char>(text_[at_])))) {
      SMELT_ASSIGN_OR_RETURN(int64_t v, Number());
      return Expr(v);
    }
    const absl::string_view name = Word();
    if (name.empty()) return Bad("a function name");
    if (!Eat('(')) {
      if (!IsIdentifier(name)) return Bad("a symbol");
      return Expr::Symbol(name);
    }
    if (name == "Integer") {
      SMELT_ASSIGN_OR_RETURN(int64_t v, Number());
      if (!Eat(')')) return Bad("')'");
      return Expr(v);
    }
    if (name == "Symbol") {
      if (!Eat('\'')) return Bad("a quoted symbol");
      const absl::string_view symbol = Word();
      if (!IsIdentifier(symbol) || !Eat('\'')) return Bad("a quoted symbol");
      while (Eat(',')) {  // assumptions: positive=True
        if (Word().empty() || !Eat('=') || Word().empty()) return Bad("an assumption");
      }
      if (!Eat(')')) return Bad("')'");
      return Expr::Symbol(symbol);
    }
    std::vector<Expr> args;
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
        SMELT_ASSIGN_OR_RETURN(Expr e, ParseCall(depth + 1));
        args.push_back(std::move(e));
      } while (Eat(','));
      if (!Eat(')')) return Bad("')'");
    }
    return Apply(name, args);
  }

  absl::StatusOr<Expr> Apply(absl::string_view name, const std::vector<Expr>& args) const {
    auto fold = [&](auto f) -> absl::StatusOr<Expr> {
      if (args.empty()) return Bad("arguments");
      Expr e = args[0];
      for (size_t i = 1; i < args.size(); ++i) e = f(e, args[i]);
      return e;
    };
    if (name == "Add") return fold([](const Expr& a, const Expr& b) { return a + b; });
    if (name == "Mul") return fold([](const Expr& a, const Expr& b) { return a * b; });
    if (name == "Max") return fold([](const Expr& a, const Expr& b) { return Max(a, b); });
    if (name == "Min") return fold([](const Expr& a, const Expr& b) { return Min(a, b); });
    if (name == "FloorDiv" || name == "CleanDiv" || name == "IntTrueDiv") {
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
      if (args.size() != 2 || !args[1].IsConstant()) return Bad("a power with a constant exponent");
      const int64_t n = *args[1].Constant();
      if (n < 0 || n > 16) return absl::UnimplementedError(absl::StrCat("exponent ", n, " in \"", text_, "\""));
      Expr e = 1;
      for (int64_t i = 0; i < n; ++i) e = e * args[0];
      return e;
    }
    return absl::UnimplementedError(
        absl::StrCat("function ", name, " in the size expression \"", text_.substr(0, 200), "\""));
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

}  // namespace smelt
