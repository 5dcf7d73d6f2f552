// Reads text character by character, and reports the position of an error: "relu.ir:3:12: expected ')', found 'x'".
// Shared by the parsers of types, graphs and schemas. Never reads past the end; copies nothing.
#ifndef SMELT_CORE_IR_CURSOR_H_
#define SMELT_CORE_IR_CURSOR_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace smelt {

class Cursor {
 public:
  // An empty file name leaves file, line and column out of errors and says "at column N" instead.
  explicit Cursor(absl::string_view text, absl::string_view file_name = "") : text_(text), file_name_(file_name) {}

  bool AtEnd() const { return pos_ >= text_.size(); }
  char Peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }
  char PeekAt(size_t ahead) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool LooksAt(absl::string_view s) const { return text_.substr(pos_, s.size()) == s; }
  size_t pos() const { return pos_; }
  void Seek(size_t pos) { pos_ = pos; }
  void Skip(size_t count = 1) { pos_ += count; }
  absl::string_view Since(size_t start) const { return text_.substr(start, pos_ - start); }
  absl::string_view text() const { return text_; }

  void SkipSpaces();             // blanks and line ends
  void SkipBlanks();             // blanks only
  void SkipSpacesAndComments();  // and "# ..." to the line's end
  bool AtLineEnd() const { return AtEnd() || Peek() == '\n' || Peek() == '\r'; }

  // These skip spaces before the token that they look for.
  bool TryConsume(absl::string_view token);  // punctuation; a word only if no identifier character follows
  absl::Status Consume(absl::string_view token);
  bool LooksAtWord(absl::string_view word);
  absl::string_view Identifier();                          // [A-Za-z_][A-Za-z0-9_]*, empty if there is none
  absl::string_view DottedIdentifier();                    // identifiers joined by single dots
  absl::StatusOr<int64_t> Integer();                       // decimal, with sign; an error where it does not fit
  absl::StatusOr<std::variant<int64_t, double>> Number();  // "1", "1.", "-1e-05", "inf", "-inf", "nan"
  absl::StatusOr<std::string> QuotedString();              // "..." or '...' with C's escapes

  // Returns an error at the position (default: the next token): "expected WHAT, found 'x'".
  absl::Status Expected(absl::string_view what);
  absl::Status ErrorAt(size_t pos, absl::string_view message) const;
  absl::Status Error(absl::string_view message) const { return ErrorAt(pos_, message); }

 private:
  absl::string_view text_;
  std::string file_name_;
  size_t pos_ = 0;
};

bool IsIdentifierStart(char c);
bool IsIdentifierChar(char c);
bool IsDigit(char c);

// Returns "..." with special characters escaped; QuotedString reads it back, byte for byte.
std::string Quote(absl::string_view s);
// Returns the shortest text that reads back as the same double, with a '.', an 'e', "inf" or "nan" in it, so that it is
// not an integer.
std::string DoubleToText(double d);

}  // namespace smelt

#endif  // SMELT_CORE_IR_CURSOR_H_
