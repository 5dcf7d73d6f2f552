#include "smelt/core/ir/cursor.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace smelt {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsIdentifierStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsIdentifierChar(char c) { return IsIdentifierStart(c) || IsDigit(c); }

void Cursor::SkipSpaces() {
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
    ++pos_;
  }
}

void Cursor::SkipBlanks() {
  while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t')) ++pos_;
}

void Cursor::SkipSpacesAndComments() {
  for (;;) {
    SkipSpaces();
    if (Peek() != '#') return;
    while (!AtLineEnd()) ++pos_;
  }
}

bool Cursor::LooksAtWord(absl::string_view word) {
  SkipSpaces();
  return LooksAt(word) && !IsIdentifierChar(PeekAt(word.size()));
}

bool Cursor::TryConsume(absl::string_view token) {
  SkipSpaces();
  if (!LooksAt(token)) return false;
  if (IsIdentifierChar(token.back()) && IsIdentifierChar(PeekAt(token.size()))) return false;
  pos_ += token.size();
  return true;
}

absl::Status Cursor::Consume(absl::string_view token) {
  if (TryConsume(token)) return absl::OkStatus();
  return Expected(absl::StrCat("'", token, "'"));
}

absl::string_view Cursor::Identifier() {
  SkipSpaces();
  size_t start = pos_;
  if (IsIdentifierStart(Peek())) {
    while (IsIdentifierChar(Peek())) ++pos_;
  }
  return Since(start);
}

absl::string_view Cursor::DottedIdentifier() {
  SkipSpaces();
  size_t start = pos_;
  if (IsIdentifierStart(Peek())) {
    while (IsIdentifierChar(Peek()) || (Peek() == '.' && IsIdentifierChar(PeekAt(1)))) ++pos_;
  }
  return Since(start);
}

absl::StatusOr<int64_t> Cursor::Integer() {
  SkipSpaces();
  size_t start = pos_;
  size_t digits = pos_ + (Peek() == '-' ? 1 : 0);
  if (digits >= text_.size() || !IsDigit(text_[digits])) return Expected("an integer");
  int64_t value = 0;
  const char* begin = text_.data() + start;
  auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) return ErrorAt(start, "expected an integer that fits into 64 bits");
  pos_ = start + (end - begin);
  return value;
}

absl::StatusOr<std::variant<int64_t, double>> Cursor::Number() {
  SkipSpaces();
  size_t start = pos_;
  double sign = 1;
  if (Peek() == '-') {
    sign = -1;
    ++pos_;
  }
  for (absl::string_view word : {"inf", "Infinity", "nan", "NaN"}) {
    if (!LooksAt(word) || IsIdentifierChar(PeekAt(word.size()))) continue;
    pos_ += word.size();
    double magnitude = word[0] == 'i' || word[0] == 'I' ? std::numeric_limits<double>::infinity()
                                                        : std::numeric_limits<double>::quiet_NaN();
    return std::variant<int64_t, double>(std::copysign(magnitude, sign));
  }
  bool is_float = false;
  while (IsDigit(Peek())) ++pos_;
  if (Peek() == '.' && !(PeekAt(1) == '.')) {
    is_float = true;
    ++pos_;
    while (IsDigit(Peek())) ++pos_;
  }
  size_t mantissa = pos_ - start - (sign < 0 ? 1 : 0);
  if (mantissa == 0 || (is_float && mantissa == 1)) {
    pos_ = start;
    return Expected("a number");
  }
  if (Peek() == 'e' || Peek() == 'E') {
    size_t sign_length = PeekAt(1) == '-' || PeekAt(1) == '+' ? 1 : 0;
    if (IsDigit(PeekAt(1 + sign_length))) {
      is_float = true;
      pos_ += 1 + sign_length;
      while (IsDigit(Peek())) ++pos_;
    }
  }
  absl::string_view text = Since(start);
  const char* end = text.data() + text.size();
  if (is_float) {
    double value = 0;
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::result_out_of_range) {
      // from_chars does not say whether it overflowed or underflowed; PyTorch prints no such number.
      return ErrorAt(start, "expected a number that fits into a double");
    }
    if (error != std::errc() || stop != end) return ErrorAt(start, "expected a number");
    return std::variant<int64_t, double>(value);
  }
  int64_t value = 0;
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return ErrorAt(start, "expected an integer that fits into 64 bits");
  return std::variant<int64_t, double>(value);
}

absl::StatusOr<std::string> Cursor::QuotedString() {
  SkipSpaces();
  char quote = Peek();
  if (quote != '"' && quote != '\'') return Expected("a string");
  size_t start = pos_;
  ++pos_;
  std::string result;
  for (;;) {
    if (AtEnd()) return ErrorAt(start, "expected the string that begins here to end");
    char c = text_[pos_++];
    if (c == quote) return result;
    if (c != '\\') {
      result.push_back(c);
      continue;
    }
    if (AtEnd()) return ErrorAt(start, "expected the string that begins here to end");
    size_t escape = pos_ - 1;
    c = text_[pos_++];
    switch (c) {
      case 'n':
        result.push_back('\n');
        break;
      case 't':
        result.push_back('\t');
        break;
      case 'r':
        result.push_back('\r');
        break;
      case 'a':
        result.push_back('\a');
        break;
      case 'b':
        result.push_back('\b');
        break;
      case 'f':
        result.push_back('\f');
        break;
      case 'v':
        result.push_back('\v');
        break;
      case '\\':
      case '\'':
      case '"':
      case '?':
        result.push_back(c);
        break;
      case 'x': {
        int value = 0, digits = 0;
        while (digits < 2) {
          char d = Peek();
          int nibble = IsDigit(d)             ? d - '0'
                       : d >= 'a' && d <= 'f' ? d - 'a' + 10
                       : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                              : -1;
          if (nibble < 0) break;
          value = value * 16 + nibble;
          ++digits;
          ++pos_;
        }
        if (digits == 0) return ErrorAt(escape, "expected hexadecimal digits after '\\x'");
        result.push_back(static_cast<char>(value));
        break;
      }
      default: {
        if (c < '0' || c > '7') return ErrorAt(escape, "expected a known escape sequence");
        int value = c - '0';
        for (int digits = 1; digits < 3 && Peek() >= '0' && Peek() <= '7'; ++digits)
          value = value * 8 + (text_[pos_++] - '0');
        if (value > 255) return ErrorAt(escape, "expected an octal escape below 256");
        result.push_back(static_cast<char>(value));
      }
    }
  }
}

absl::Status Cursor::ErrorAt(size_t pos, absl::string_view message) const {
  if (pos > text_.size()) pos = text_.size();
  int64_t line = 1, column = 1;
  for (size_t i = 0; i < pos; ++i) {
    if (text_[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  if (file_name_.empty()) return absl::InvalidArgumentError(absl::StrCat("column ", column, ": ", message));
  return absl::InvalidArgumentError(absl::StrCat(file_name_, ":", line, ":", column, ": ", message));
}

absl::Status Cursor::Expected(absl::string_view what) {
  SkipSpaces();
  std::string found;
  if (AtEnd()) {
    found = "the end";
  } else if (IsIdentifierChar(Peek())) {
    size_t end = pos_;
    while (end < text_.size() && end - pos_ < 40 && IsIdentifierChar(text_[end])) ++end;
    found = absl::StrCat("'", text_.substr(pos_, end - pos_), "'");
  } else if (Peek() > ' ' && Peek() < 0x7f) {
    found = absl::StrCat("'", text_.substr(pos_, 1), "'");
  } else {
    found = absl::StrCat("byte ", static_cast<int>(static_cast<unsigned char>(Peek())));
  }
  return Error(absl::StrCat("expected ", what, ", found ", found));
}

std::string Quote(absl::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          // Three digits, so that a digit that follows is not read as part of it.
          unsigned char u = static_cast<unsigned char>(c);
          out.push_back('\\');
          out.push_back(static_cast<char>('0' + (u >> 6)));
          out.push_back(static_cast<char>('0' + ((u >> 3) & 7)));
          out.push_back(static_cast<char>('0' + (u & 7)));
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
  return out;
}

std::string DoubleToText(double d) {
  if (std::isnan(d)) return std::signbit(d) ? "-nan" : "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), d);
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text.push_back('.');
  return text;
}

}  // namespace smelt
