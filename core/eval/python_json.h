// Reads JSON as Python writes it, with NaN, Infinity and -Infinity among its numbers, which become strings. For tests.
#ifndef SMELT_CORE_EVAL_PYTHON_JSON_H_
#define SMELT_CORE_EVAL_PYTHON_JSON_H_

#include <cmath>
#include <string>

#include "nlohmann/json.hpp"

namespace smelt {

inline nlohmann::json ParsePythonJson(const std::string& text) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') {
      out += c;
      out += text[++i];
      continue;
    }
    bool replaced = false;
    for (const std::string word : {"-Infinity", "Infinity", "NaN"}) {
      if (!quoted && text.compare(i, word.size(), word) == 0) {
        out += '"' + word + '"';
        i += word.size() - 1;
        replaced = true;
        break;
      }
    }
    if (!replaced) out += c;
  }
  return nlohmann::json::parse(out);
}

inline double JsonNumber(const nlohmann::json& x) {
  if (!x.is_string()) return x.get<double>();
  const std::string s = x;
  return s == "NaN" ? NAN : s[0] == '-' ? -INFINITY : INFINITY;
}

}  // namespace smelt

#endif  // SMELT_CORE_EVAL_PYTHON_JSON_H_
